//! Simulated overlaps: processes that lock and release ranges of one file, each at a random instant between begin and end
//! of its call. The oracle keeps who holds each single byte.

use std::cell::RefCell;

use reprise_calls::by_name;
use reprise_initial::{Links, Seat, World};
use reprise_trace::{Action, payload};

use super::super::decode::Pending;
use super::super::told::Told;
use super::super::window::Window;
use super::super::window_tests::{Random, item};
use super::Reaches;
use super::held::Held;
use super::locks::{Locks, SeatOf, Seated};
use crate::locking;
use crate::spool::record::Object;

const BYTES: usize = 12;
const PROCESSES: usize = 3;
const EAGAIN: i64 = -(libc::EAGAIN as i64);

/// A lock: its process, its kind, and from where to where.
type Met = (usize, i32, usize, usize);

#[derive(Debug, Clone)]
struct Call {
    process: usize,
    begin_ns: u64,
    effect_ns: u64,
    end_ns: u64,
    wish: i32,
    from: usize,
    to: usize,
    /// It only asks, and tells what it finds in its way.
    asks: bool,
    met: Option<Met>,
    could: bool,
}

/// A `struct flock`; to the end of the file its length is 0.
fn flock(wish: i32, from: usize, to: usize, pid: usize) -> [u8; 32] {
    let length = if to == BYTES { 0 } else { to - from };
    let mut lock = [0; 32];
    lock[..2].copy_from_slice(&(wish as i16).to_le_bytes());
    lock[8..16].copy_from_slice(&(from as u64).to_le_bytes());
    lock[16..24].copy_from_slice(&(length as u64).to_le_bytes());
    lock[24..28].copy_from_slice(&(pid as i32).to_le_bytes());
    lock
}

impl Call {
    fn pending(&self) -> Pending {
        let call = by_name("fcntl").expect("a row");
        let (mut input, mut output) = (Vec::new(), Vec::new());
        payload::append(&mut input, Some(&flock(self.wish, self.from, self.to, 0)));
        let (held_by, held, from, to) = self.met.unwrap_or((0, libc::F_UNLCK, self.from, self.to));
        payload::append(&mut output, Some(&flock(held, from, to, held_by)));
        let result = if self.could || self.asks { 0 } else { EAGAIN };
        let command = if self.asks { libc::F_GETLK } else { libc::F_SETLK };
        let args = [3, command as u64, 0x1000, 0, 0, 0];
        let object = Object { id: 1 + self.process as u64, device: 1, inode: 2, fd: 3, ..Object::default() };
        Pending {
            action: Action { args, result, input, output, begin_ns: self.begin_ns, ..Action::default() },
            tid: self.process as i32,
            objects: [object].into(),
            ..Pending::of_lane(call, 0)
        }
    }
}

/// For each byte and process what is held: 0, `F_RDLCK` + 1 or `F_WRLCK` + 1.
#[derive(Default)]
struct Bytes([[i32; PROCESSES]; BYTES]);

impl Bytes {
    /// The locks in a call's way, whole.
    fn in_its_way(&self, call: &Call) -> Vec<Met> {
        let hinders = |held: i32| match call.wish {
            libc::F_RDLCK => held == libc::F_WRLCK + 1,
            libc::F_WRLCK => held != 0,
            _ => false,
        };
        let all = (0..PROCESSES).filter(|process| *process != call.process);
        let all = all.flat_map(|process| (call.from..call.to).map(move |at| (process, at)));
        all.filter(|(process, at)| hinders(self.0[*at][*process]))
            .map(|(process, at)| self.around(process, at))
            .collect()
    }

    /// The lock that a process has on a byte.
    fn around(&self, process: usize, at: usize) -> Met {
        let held = self.0[at][process];
        let same = |at: &usize| self.0[*at][process] == held;
        let (before, behind) = ((0..at).rev().take_while(same).count(), (at..BYTES).take_while(same).count());
        (process, held - 1, at - before, at + behind)
    }

    /// Performs a call, if it could, whether it can or not; whether its result is possible.
    fn perform(&mut self, call: &Call) -> bool {
        let in_its_way = self.in_its_way(call);
        if call.could && !call.asks {
            let held = if call.wish == libc::F_UNLCK { 0 } else { call.wish + 1 };
            self.0[call.from..call.to].iter_mut().for_each(|byte| byte[call.process] = held);
        }
        call.could == in_its_way.is_empty() && call.met.is_none_or(|met| in_its_way.contains(&met))
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
            let asks = wish != libc::F_UNLCK && r.below(3) == 0;
            calls.push(Call {
                process,
                begin_ns: now,
                effect_ns,
                end_ns,
                wish,
                from,
                to,
                asks,
                met: None,
                could: true,
            });
            now = end_ns + 1 + r.below(20);
        }
    }
    calls.sort_by_key(|c| (c.effect_ns, c.process));
    let mut bytes = Bytes::default();
    for call in &mut calls {
        let in_its_way = bytes.in_its_way(call);
        call.could = in_its_way.is_empty();
        call.met = in_its_way.first().copied().filter(|_| call.asks);
        bytes.perform(call);
    }
    calls
}

fn contradictions(calls: &[Call]) -> usize {
    let mut bytes = Bytes::default();
    calls.iter().filter(|call| !bytes.perform(call)).count()
}

/// Where nobody has told of open files.
fn at(seat: Seat) -> Seated<'static> {
    static NONE: std::sync::LazyLock<Held> = std::sync::LazyLock::new(Held::default);
    Seated { seat, held: &NONE }
}

fn ordered(calls: &[Call], knows: bool) -> Vec<Call> {
    let mut world = World::new(Box::new(Links::default()));
    let seats: Vec<Seat> = (0..PROCESSES as u32).map(|process| world.begin(process, None)).collect();
    let seat_of: SeatOf<'_> = &|pid| seats.get(pid as usize).copied().filter(|_| knows);
    let (locks, mut window, mut out) = (RefCell::new(Locks::default()), Window::default(), Vec::new());
    let mut reaches = Reaches::default();
    let mut by_end = calls.to_vec();
    by_end.sort_by_key(|c| c.end_ns);
    let mut told = |call: &Call| {
        let mut told = Told::default();
        locks.borrow_mut().told(at(seats[call.process]), seat_of, &call.pending(), &mut told);
        told
    };
    for call in by_end {
        let (begin_ns, end_ns, tid) = (call.begin_ns, call.end_ns, call.process as i32);
        let pending = call.pending();
        let (row, action, reach) = (pending.call, &pending.action, reaches.of(&pending));
        let key_ns = if locking::releases(row, &action.args, &action.input) { begin_ns } else { end_ns };
        window.push(item(tid, [key_ns, begin_ns, end_ns], reach, call));
    }
    while let Some(call) = window.pop(true, &mut told) {
        locks.borrow_mut().took_place(at(seats[call.what.process]), &call.what.pending());
        out.push(call.what);
    }
    out
}

/// Contradictions before and after, of all seeds.
fn remain(knows: bool) -> (usize, usize) {
    let (mut before, mut after, mut refused) = (0, 0, 0);
    for seed in 1..=200 {
        let calls = simulate(seed);
        refused += calls.iter().filter(|call| !call.could).count();
        assert_eq!(contradictions(&calls), 0, "the simulation itself");
        let mut by_end = calls.clone();
        by_end.sort_by_key(|c| c.end_ns);
        before += contradictions(&by_end);
        let out = ordered(&calls, knows);
        assert_eq!(out.len(), calls.len());
        after += contradictions(&out);
    }
    assert!(refused > 1000 && before > 300, "{refused} calls were refused, {before} contradict an order by completion");
    (before, after)
}

#[test]
fn who_had_to_wait_came_before_the_release() {
    let (before, after) = remain(true);
    assert!(after * 20 < before, "{after} of {before} contradictions remain");
}

/// Which lock was found tells more than that one was.
#[test]
fn a_lock_that_is_found_ends_where_its_holder_has_none() {
    let ((_, with), (_, without)) = (remain(true), remain(false));
    assert!(with * 10 < without, "{with} contradictions remain, {without} if only told that there is a lock");
}

/// Many more ranges than are told apart: those of late are.
#[test]
fn of_very_many_ranges_the_last_are_told_apart() {
    let mut world = World::new(Box::new(Links::default()));
    let seats = [0, 1].map(|process| world.begin(process, None));
    let mut locks = Locks::default();
    let call = |process: usize, wish: i32, from: usize, could: bool| Call {
        process,
        begin_ns: 0,
        effect_ns: 0,
        end_ns: 1,
        wish,
        from,
        to: from + 5,
        asks: false,
        met: None,
        could,
    };
    let is_possible = |locks: &mut Locks, call: &Call| {
        let mut told = Told::default();
        locks.told(at(seats[call.process]), &|_| None, &call.pending(), &mut told);
        assert!(!told.all.is_empty() || !told.any.is_empty(), "nothing is told");
        told.impossible(|condition| condition.known.flatten()).is_none()
    };
    for from in (100..10_000).step_by(10) {
        locks.took_place(at(seats[0]), &call(0, libc::F_WRLCK, from, true).pending());
        let refused = call(1, libc::F_WRLCK, from + 3, false);
        assert!(is_possible(&mut locks, &refused));
        locks.took_place(at(seats[0]), &call(0, libc::F_UNLCK, from, true).pending());
        assert!(!is_possible(&mut locks, &refused), "nobody has {from} any more");
    }
}

/// The end of a process gives its locks away and is no call: who has waited for one got it after its holder, not before.
#[test]
fn who_waits_comes_after_who_holds() {
    let lock = |process: usize, begin_ns: u64, end_ns: u64| Call {
        process,
        begin_ns,
        effect_ns: end_ns,
        end_ns,
        wish: libc::F_WRLCK,
        from: 0,
        to: 5,
        asks: false,
        met: None,
        could: true,
    };
    let calls = [lock(0, 19_903, 19_906), lock(1, 19_904, 42_098)];
    let out = ordered(&calls, true);
    assert_eq!(out.iter().map(|call| call.process).collect::<Vec<_>>(), [0, 1]);
}

/// Files are closed that were locked: by whoever ends, or by others whom it had asked in vain.
#[test]
fn an_end_gives_back_what_it_had() {
    let mut world = World::new(Box::new(Links::default()));
    let seats = [0, 1].map(|process| world.begin(process, None));
    let mut locks = Locks::default();
    let call = |process: usize, wish: i32, could: bool| {
        let (begin_ns, effect_ns, end_ns, asks, met) = (0, 0, 1, false, None);
        Call { process, begin_ns, effect_ns, end_ns, wish, from: 2, to: 7, asks, met, could }.pending()
    };
    let refused = call(1, libc::F_WRLCK, false);
    let given_back = |locks: &Locks, process: usize| {
        let told = locks.ending(at(seats[process]));
        assert_eq!(told.all.len(), told.likely.len());
        told.all.len()
    };
    locks.took_place(at(seats[0]), &call(0, libc::F_WRLCK, true));
    locks.told(at(seats[1]), &|_| None, &refused, &mut Told::default());
    assert_eq!((given_back(&locks, 0), given_back(&locks, 1)), (1, 0));
    locks.took_place(at(seats[0]), &call(0, libc::F_UNLCK, true));
    assert_eq!((given_back(&locks, 0), given_back(&locks, 1)), (0, 0));
}
