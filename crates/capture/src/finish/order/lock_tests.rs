//! Simulated overlaps: processes that lock and release ranges of one file, each at a random instant between begin and end
//! of its call. The oracle keeps who holds each single byte.

use reprise_calls::by_name;
use reprise_initial::{Links, Seat, World};
use reprise_trace::{Action, payload};

use super::super::decode::Pending;
use super::super::told::Told;
use super::super::window::{Item, Window};
use super::super::window_tests::Random;
use super::locks::Locks;
use crate::locking;
use crate::spool::record::Object;

const BYTES: usize = 12;
const PROCESSES: usize = 3;
const EAGAIN: i64 = -(libc::EAGAIN as i64);

#[derive(Debug, Clone)]
struct Call {
    process: usize,
    begin_ns: u64,
    effect_ns: u64,
    end_ns: u64,
    wish: i32,
    from: usize,
    to: usize,
    could: bool,
}

impl Call {
    fn pending(&self) -> Pending {
        let call = by_name("fcntl").expect("a row");
        // To the end of the file: a length of 0.
        let length = if self.to == BYTES { 0 } else { self.to - self.from };
        let mut lock = [0; 32];
        lock[..2].copy_from_slice(&(self.wish as i16).to_le_bytes());
        lock[8..16].copy_from_slice(&(self.from as u64).to_le_bytes());
        lock[16..24].copy_from_slice(&(length as u64).to_le_bytes());
        let mut input = Vec::new();
        payload::append(&mut input, Some(&lock));
        let result = if self.could { 0 } else { EAGAIN };
        let args = [3, libc::F_SETLK as u64, 0x1000, 0, 0, 0];
        let object = Object { id: 1 + self.process as u64, device: 1, inode: 2, fd: 3, ..Object::default() };
        Pending {
            call,
            action: Action { args, result, input, begin_ns: self.begin_ns, ..Action::default() },
            tid: self.process as i32,
            cpu_ns: 0,
            telling: Vec::new(),
            objects: vec![object],
            written: None,
            is_unseen: false,
            lacks: "",
        }
    }
}

/// For each byte and process what is held: 0, `F_RDLCK` + 1 or `F_WRLCK` + 1.
#[derive(Default)]
struct Bytes([[i32; PROCESSES]; BYTES]);

impl Bytes {
    /// Whether a call can have what it wants; it gets it if `done`.
    fn perform(&mut self, call: &Call, done: Option<bool>) -> bool {
        let others = |held: &[i32; PROCESSES]| {
            let others = held.iter().enumerate().filter(|(process, _)| *process != call.process);
            others.map(|(_, held)| *held).max().unwrap_or(0)
        };
        let range = &mut self.0[call.from..call.to];
        let can = range.iter().all(|held| match call.wish {
            libc::F_RDLCK => others(held) <= libc::F_RDLCK + 1,
            libc::F_WRLCK => others(held) == 0,
            _ => true,
        });
        if done.unwrap_or(can) {
            let held = if call.wish == libc::F_UNLCK { 0 } else { call.wish + 1 };
            range.iter_mut().for_each(|byte| byte[call.process] = held);
        }
        can
    }
}

fn simulate(seed: u64) -> Vec<Call> {
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut calls = Vec::new();
    for process in 0..PROCESSES {
        let mut now = 1 + r.below(100);
        for _ in 0..40 {
            let end_ns = now + 2 + r.below(60);
            let effect_ns = now + 1 + r.below(end_ns - now - 1);
            let wish = [libc::F_RDLCK, libc::F_WRLCK, libc::F_UNLCK, libc::F_UNLCK][r.below(4) as usize];
            // Few places, as programs have them.
            let from = 4 * r.below(3) as usize;
            let to = from + 4 * (1 + r.below(((BYTES - from) / 4) as u64) as usize);
            calls.push(Call { process, begin_ns: now, effect_ns, end_ns, wish, from, to, could: true });
            now = end_ns + 1 + r.below(20);
        }
    }
    calls.sort_by_key(|c| (c.effect_ns, c.process));
    let mut bytes = Bytes::default();
    calls.iter_mut().for_each(|call| call.could = bytes.perform(call, None));
    calls
}

fn contradictions(calls: &[Call]) -> usize {
    let mut bytes = Bytes::default();
    calls.iter().filter(|call| bytes.perform(call, Some(call.could)) != call.could).count()
}

fn ordered(calls: &[Call]) -> Vec<Call> {
    let mut world = World::new(Box::new(Links::default()));
    let seats: Vec<Seat> = (0..PROCESSES as u32).map(|process| world.begin(process, None)).collect();
    let (mut locks, mut window, mut out) = (Locks::default(), Window::default(), Vec::new());
    let mut by_end = calls.to_vec();
    by_end.sort_by_key(|c| c.end_ns);
    let mut told = |call: &mut Call| {
        let mut told = Told::default();
        locks.told(seats[call.process], &call.pending(), &mut told);
        told
    };
    for call in by_end {
        let (begin_ns, end_ns, tid) = (call.begin_ns, call.end_ns, call.process as i32);
        let Pending { call: row, action, .. } = call.pending();
        let key_ns = if locking::releases(row, &action.args, &action.input) { begin_ns } else { end_ns };
        window.push(Item { key_ns, begin_ns, end_ns, tid, is_ready: true, what: call });
    }
    while let Some(call) = window.pop(true, &mut told) {
        out.push(call.what);
    }
    out
}

#[test]
fn who_had_to_wait_came_before_the_release() {
    let (mut before, mut after, mut failed) = (0, 0, 0);
    for seed in 1..=200 {
        let calls = simulate(seed);
        failed += calls.iter().filter(|call| !call.could).count();
        assert_eq!(contradictions(&calls), 0, "the simulation itself");
        let mut by_end = calls.clone();
        by_end.sort_by_key(|c| c.end_ns);
        before += contradictions(&by_end);
        let out = ordered(&calls);
        assert_eq!(out.len(), calls.len());
        after += contradictions(&out);
    }
    assert!(failed > 1000 && before > 300, "{failed} calls failed, {before} contradict an order by completion");
    assert!(after * 20 < before, "{after} of {before} contradictions remain");
}
