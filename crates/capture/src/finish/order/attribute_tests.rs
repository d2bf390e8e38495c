//! Simulated overlaps: threads of one process that change the mask, make files under it and change the permissions of one
//! file, each at a random instant between begin and end of its call. The oracle performs the calls in the order found.

use reprise_calls::by_name;
use reprise_initial::{Links, World};
use reprise_trace::Action;

use super::super::decode::Pending;
use super::super::window::Window;
use super::super::window_tests::{Random, item};
use super::{Reaches, Teller};
use crate::spool::record::Object;

const THREADS: i32 = 3;
const WANTED: u64 = 0o666;
/// `FMODE_CREATED`.
const CREATED: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Mask(u64),
    Make,
    Mode(u64),
}

#[derive(Debug, Clone, Copy)]
struct Call {
    tid: i32,
    begin_ns: u64,
    effect_ns: u64,
    end_ns: u64,
    what: What,
    /// The mask before, or the permissions that the file has at the end.
    saw: u64,
}

impl Call {
    fn pending(&self) -> Pending {
        let file = |fd, inode| Object {
            id: inode,
            device: 1,
            inode,
            fd,
            mode: libc::S_IFREG | self.saw as u32,
            file_mode: if inode == 1 { 1 } else { 1 | CREATED },
            ..Object::default()
        };
        let (name, args, result, objects) = match self.what {
            What::Mask(mask) => ("umask", [mask, 0, 0, 0, 0, 0], self.saw as i64, vec![]),
            What::Make => {
                // Another number for each, as long as none is closed.
                let fd = 4 + THREADS * self.begin_ns as i32 + self.tid;
                ("creat", [0x1000, WANTED, 0, 0, 0, 0], fd.into(), vec![file(fd, fd as u64)])
            }
            What::Mode(mode) => ("fchmod", [3, mode, 0, 0, 0, 0], 0, vec![file(3, 1)]),
        };
        let call = by_name(name).expect("a row");
        Pending {
            action: Action { args, result, begin_ns: self.begin_ns, ..Action::default() },
            tid: self.tid,
            objects: objects.into(),
            ..Pending::of_lane(call, 0)
        }
    }
}

fn simulate(seed: u64) -> Vec<Call> {
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut calls = Vec::new();
    for tid in 0..THREADS {
        let mut now = 1 + r.below(40);
        for _ in 0..30 {
            let (begin_ns, length) = (now, 2 + r.below(50));
            let (effect_ns, end_ns) = (begin_ns + 1 + r.below(length - 1), begin_ns + length);
            let what = match r.below(3) {
                0 => What::Mask([0, 0o022, 0o077, 0o007][r.below(4) as usize]),
                1 => What::Make,
                _ => What::Mode(0o400 + r.below(64)),
            };
            calls.push(Call { tid, begin_ns, effect_ns, end_ns, what, saw: 0 });
            now = end_ns + 1 + r.below(30);
        }
    }
    calls.sort_by_key(|c| (c.effect_ns, c.tid));
    let (mut mask, mut modes) = (0o022, Vec::new());
    for call in &mut calls {
        match call.what {
            What::Mask(new) => call.saw = std::mem::replace(&mut mask, new),
            What::Make => call.saw = WANTED & !mask,
            What::Mode(mode) => modes.push((call.effect_ns, mode)),
        }
    }
    for call in calls.iter_mut().filter(|call| matches!(call.what, What::Mode(_))) {
        let at_end = modes.iter().rev().find(|(at, _)| *at < call.end_ns);
        call.saw = at_end.map_or(0, |(_, mode)| *mode);
    }
    calls
}

/// Results that differ in this order, and the permissions of the file in the end.
fn performed(calls: &[Call]) -> (usize, u64) {
    let (mut mask, mut mode, mut different) = (0o022, 0, 0);
    for call in calls {
        match call.what {
            What::Mask(new) => different += usize::from(std::mem::replace(&mut mask, new) != call.saw),
            What::Make => different += usize::from(WANTED & !mask != call.saw),
            What::Mode(new) => mode = new,
        }
    }
    (different, mode)
}

fn ordered(calls: &[Call]) -> Vec<Call> {
    let mut world = World::new(Box::new(Links::default()));
    let seat = world.begin(1, None);
    let (mut teller, mut window, mut out) = (Teller::default(), Window::default(), Vec::new());
    let mut reaches = Reaches::default();
    let mut by_end = calls.to_vec();
    by_end.sort_by_key(|c| c.end_ns);
    for call in by_end {
        let Call { begin_ns, end_ns, tid, .. } = call;
        let reach = reaches.of(&call.pending());
        window.push(item(tid, [end_ns, begin_ns, end_ns], reach, call));
    }
    while let Some(call) = window.pop(true, &mut |call| teller.told(&mut world, seat, &|_| None, &call.pending())) {
        out.push(call.what);
    }
    out
}

#[test]
fn masks_and_permissions_tell_the_order() {
    let (mut before, mut after, mut wrong_before, mut wrong_after) = (0, 0, 0, 0);
    for seed in 1..=200 {
        let calls = simulate(seed);
        let (different, mode) = performed(&calls);
        assert_eq!(different, 0, "the simulation itself");
        let mut by_end = calls.clone();
        by_end.sort_by_key(|c| c.end_ns);
        for (order, different, wrong) in
            [(by_end, &mut before, &mut wrong_before), (ordered(&calls), &mut after, &mut wrong_after)]
        {
            assert_eq!(order.len(), calls.len());
            let (more, last) = performed(&order);
            *different += more;
            *wrong += usize::from(last != mode);
        }
    }
    println!("N {before} {after} {wrong_before} {wrong_after}");
    assert!(
        before > 1000 && wrong_before > 10,
        "{before} results, {wrong_before} files differ in an order by completion"
    );
    assert!(after * 20 < before && wrong_after * 4 < wrong_before, "{after} results, {wrong_after} files still differ");
}

#[test]
fn a_file_that_is_told_by_name_without_a_name_was_seen_half_removed() {
    let seen = |path: &[u8], links: u64, result| {
        let mut output = Vec::new();
        let mut stat = [1; 144];
        stat[16..24].copy_from_slice(&links.to_le_bytes());
        reprise_trace::payload::append(&mut output, Some(&stat));
        let call = by_name("newfstatat").expect("a row");
        let path = Some(reprise_trace::Name(path.to_vec()));
        let action = Action { path, output, result, ..Action::default() };
        super::saw_removal(&Pending { action, tid: 1, ..Pending::of_lane(call, 0) })
    };
    assert!(seen(b"a/b", 0, 0));
    assert!(!seen(b"a/b", 1, 0) && !seen(b"", 0, 0) && !seen(b"a/b", 0, -2) && !seen(b"/proc/self/fd/4", 0, 0));
}
