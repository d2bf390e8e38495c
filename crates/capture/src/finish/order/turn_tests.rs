//! Simulated overlaps: one thread makes directories, goes there, removes them and goes back; another makes names that are
//! relative all the while, each at a random instant between begin and end. The oracle performs the calls in the order found.

use std::collections::HashSet;

use reprise_calls::by_name;
use reprise_trace::{Action, Name};

use super::super::decode::Pending;
use super::super::window_tests::Random;
use super::simulated::{Simulated, TOP, ordered};

/// That of calls without a path.
const FD: i64 = 4;
const ENOENT: i64 = -(libc::ENOENT as i64);

#[derive(Debug, Clone)]
struct Call {
    tid: i32,
    begin_ns: u64,
    effect_ns: u64,
    end_ns: u64,
    name: &'static str,
    path: String,
    result: i64,
}

impl Simulated for Call {
    fn end_ns(&self) -> u64 {
        self.end_ns
    }

    fn pending(&self) -> Pending {
        let path = (!self.path.is_empty()).then(|| Name(self.path.clone().into_bytes()));
        let args = if path.is_none() { [FD as u64, 0, 0, 0, 0, 0] } else { [0; 6] };
        let action = Action { path, args, result: self.result, begin_ns: self.begin_ns, ..Action::default() };
        Pending { action, tid: self.tid, ..Pending::of_lane(by_name(self.name).expect("a row"), 0) }
    }
}

/// What the kernel would do.
#[derive(Default)]
struct Oracle {
    here: String,
    directories: HashSet<String>,
}

impl Oracle {
    fn perform(&mut self, call: &Call) -> i64 {
        let path = if call.path.starts_with('/') { call.path.clone() } else { format!("{}/{}", self.here, call.path) };
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        match call.name {
            "mkdir" if above == TOP || self.directories.contains(above) => {
                self.directories.insert(path);
                0
            }
            "chdir" if path == TOP || self.directories.contains(&path) => {
                self.here = path;
                0
            }
            "rmdir" if self.directories.remove(&path) => 0,
            _ => ENOENT,
        }
    }
}

fn oracle() -> Oracle {
    Oracle { here: TOP.to_owned(), ..Oracle::default() }
}

fn simulate(seed: u64) -> Vec<Call> {
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut calls = Vec::new();
    for tid in 0..2 {
        let mut now = 1 + r.below(40);
        for n in 0..80 {
            let (name, path) = match (tid, n % 4) {
                (1, _) => ("mkdir", format!("x{n}")),
                (_, 0) => ("mkdir", format!("{TOP}/d{}", n / 4)),
                (_, 1) => ("chdir", format!("d{}", n / 4)),
                (_, 2) => ("rmdir", format!("{TOP}/d{}", n / 4)),
                _ => ("chdir", TOP.to_owned()),
            };
            let (begin_ns, length) = (now, 2 + r.below(50));
            // Where it begins is looked for at once.
            let effect_ns = begin_ns + 1 + r.below(if tid == 1 { 2.min(length - 1) } else { length - 1 });
            let end_ns = begin_ns + length;
            calls.push(Call { tid, begin_ns, effect_ns, end_ns, name, path, result: 0 });
            now = end_ns + 1 + r.below(30);
        }
    }
    calls.sort_by_key(|c| (c.effect_ns, c.tid));
    let mut kernel = oracle();
    calls.retain_mut(|call| {
        // In which of two directories a name was made no result tells.
        let is_plain = call.tid == 0 || kernel.here == TOP || !kernel.directories.contains(&kernel.here);
        if is_plain {
            call.result = kernel.perform(call);
        }
        is_plain
    });
    calls
}

/// Results that differ in this order.
fn different(calls: &[Call]) -> usize {
    let mut kernel = oracle();
    calls.iter().filter(|call| kernel.perform(call) != call.result).count()
}

#[test]
fn names_made_where_another_thread_goes_away_tell_the_order() {
    let (mut before, mut after) = (0, 0);
    for seed in 1..=200 {
        let calls = simulate(seed);
        assert_eq!(different(&calls), 0, "the simulation itself");
        let mut by_end = calls.clone();
        by_end.sort_by_key(|c| c.end_ns);
        before += different(&by_end);
        let found = ordered(&by_end);
        assert_eq!(found.len(), calls.len());
        after += different(&found);
    }
    assert!(before > 1000, "{before} results differ in an order by completion");
    assert!(after * 50 < before, "{after} results still differ, {before} by completion");
}

/// A directory that is open can be listed until it is removed.
#[test]
fn who_finds_a_directory_removed_comes_after_its_removal() {
    let calls = [
        (1, "mkdir", "/top/d", 0, [1, 2]),
        (2, "open", "/top/d", FD, [3, 4]),
        (2, "getdents64", "", ENOENT, [20, 90]),
        (1, "rmdir", "/top/d", 0, [10, 100]),
    ];
    let calls = calls.map(|(tid, name, path, result, [begin_ns, end_ns])| {
        let (path, effect_ns) = (path.to_owned(), end_ns);
        Call { tid, begin_ns, effect_ns, end_ns, name, path, result }
    });
    let order: Vec<&str> = ordered(&calls).iter().map(|call| call.name).collect();
    assert_eq!(order, ["mkdir", "open", "rmdir", "getdents64"]);
}
