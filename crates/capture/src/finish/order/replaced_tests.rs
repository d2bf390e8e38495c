//! Simulated overlaps: one thread makes files under a name and renames each over the one before, another looks at what stands there, each
//! at a random instant between begin and end of its call. Numbers of files that are gone are given again, as file systems do. The
//! oracle performs the calls in the order found.

use reprise_calls::by_name;
use reprise_trace::{Action, Name, payload};

use super::super::decode::Pending;
use super::super::window_tests::Random;
use super::simulated::{Simulated, ordered};
use crate::spool::record::Object;

/// `FMODE_CREATED`.
const CREATED: u32 = 1 << 20;
const FD: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Make,
    Close,
    Replace,
    Look,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    tid: i32,
    begin_ns: u64,
    effect_ns: u64,
    end_ns: u64,
    what: What,
    /// The file that was made, or seen; 0: none.
    inode: u64,
}

impl Simulated for Call {
    fn end_ns(&self) -> u64 {
        self.end_ns
    }

    fn pending(&self) -> Pending {
        let (name, paths, args, result) = match self.what {
            What::Make => ("creat", ["x", ""], [0; 6], FD as i64),
            What::Close => ("close", ["", ""], [FD, 0, 0, 0, 0, 0], 0),
            What::Replace => ("rename", ["x", "z"], [0; 6], 0),
            What::Look if self.inode == 0 => ("stat", ["z", ""], [0; 6], -i64::from(libc::ENOENT)),
            What::Look => ("stat", ["z", ""], [0; 6], 0),
        };
        let [path, path2] = paths.map(|path| (!path.is_empty()).then(|| Name(path.as_bytes().to_vec())));
        let mut output = Vec::new();
        if self.what == What::Look && result == 0 {
            let mut stat = [0; 144];
            stat[..8].copy_from_slice(&1u64.to_le_bytes());
            stat[8..16].copy_from_slice(&self.inode.to_le_bytes());
            stat[16..24].copy_from_slice(&1u64.to_le_bytes());
            stat[24..28].copy_from_slice(&(libc::S_IFREG | 0o644).to_le_bytes());
            payload::append(&mut output, Some(&stat));
        }
        let file = Object {
            id: self.begin_ns,
            device: 1,
            inode: self.inode,
            fd: FD as i32,
            mode: libc::S_IFREG | 0o644,
            file_mode: 1 | CREATED,
            ..Object::default()
        };
        let objects = if matches!(self.what, What::Make | What::Close) { vec![file] } else { vec![] };
        let action = Action { path, path2, output, args, result, begin_ns: self.begin_ns, ..Action::default() };
        Pending { action, tid: self.tid, objects: objects.into(), ..Pending::of_lane(by_name(name).expect("a row"), 0) }
    }
}

/// What the kernel would do: the files that stand there.
#[derive(Default)]
struct Oracle {
    made: u64,
    stands: u64,
}

impl Oracle {
    /// Gives the file that a call made or saw.
    fn perform(&mut self, what: What) -> u64 {
        match what {
            // The number of the one that is gone.
            What::Make => self.made = if self.stands == 11 { 12 } else { 11 },
            What::Close => {}
            What::Replace => self.stands = std::mem::take(&mut self.made),
            What::Look => return self.stands,
        }
        self.made
    }
}

fn simulate(seed: u64) -> Vec<Call> {
    const MOSTLY: u64 = 20;
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut calls = Vec::new();
    for tid in 1..=2 {
        let mut now = 1 + r.below(40);
        for n in 0..120 {
            let what = match (tid, n % 3) {
                (2, _) => What::Look,
                (_, 0) => What::Make,
                (_, 1) => What::Close,
                _ => What::Replace,
            };
            // Some of them last long.
            let lasts_long = what == What::Replace && r.below(4) == 0;
            let length = 2 + r.below(if lasts_long { 20 * MOSTLY } else { MOSTLY });
            let (begin_ns, end_ns) = (now, now + length);
            calls.push(Call { tid, begin_ns, effect_ns: begin_ns + 1 + r.below(length - 1), end_ns, what, inode: 0 });
            now = end_ns + 1 + r.below(MOSTLY);
        }
    }
    calls.sort_by_key(|call| (call.effect_ns, call.tid));
    let mut kernel = Oracle::default();
    calls.iter_mut().for_each(|call| call.inode = kernel.perform(call.what));
    calls
}

/// Looks that show another file in this order.
fn different(calls: &[Call]) -> usize {
    let mut kernel = Oracle::default();
    let shows = |call: &&Call| kernel.perform(call.what) != call.inode && call.what == What::Look;
    calls.iter().filter(shows).count()
}

#[test]
fn who_sees_a_file_comes_behind_what_put_it_there() {
    let (mut before, mut after) = (0, 0);
    for seed in 1..=200 {
        let calls = simulate(seed);
        assert_eq!(different(&calls), 0, "the simulation itself");
        let mut by_end = calls.clone();
        by_end.sort_by_key(|call| call.end_ns);
        before += different(&by_end);
        let found = ordered(&by_end);
        assert_eq!(found.len(), calls.len());
        after += different(&found);
    }
    println!("N {before} {after}");
    assert!(before > 1000, "{before} looks differ in an order by completion");
    assert!(after * 90 < before, "{after} looks still differ, {before} by completion");
}
