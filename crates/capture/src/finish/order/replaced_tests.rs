//! Simulated overlaps: one thread makes files under a name and renames each over the one before, another looks at what stands there,
//! or opens it and asks how many names it has, each at a random instant between begin and end of its call. Numbers of files that are gone are given again, as file systems do. The
//! oracle performs the calls in the order found.

use reprise_calls::by_name;
use reprise_trace::{Action, Name, payload};

use super::super::decode::Pending;
use super::super::window_tests::Random;
use super::simulated::{Simulated, ordered};
use crate::spool::record::Object;

/// `FMODE_CREATED`.
const CREATED: u32 = 1 << 20;
const EBADF: i64 = -(libc::EBADF as i64);
const FD: u64 = 4;
/// Where the other opens.
const OTHER_FD: u64 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Make,
    Close,
    Replace,
    Look,
    Open,
    /// How many names the file that is open has.
    Links,
    CloseOther,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    tid: i32,
    begin_ns: u64,
    effect_ns: u64,
    end_ns: u64,
    what: What,
    /// The file that was made, or met; 0: none.
    inode: u64,
    /// How many names it has.
    links: u64,
}

impl Simulated for Call {
    fn end_ns(&self) -> u64 {
        self.end_ns
    }

    fn pending(&self) -> Pending {
        let enoent = -i64::from(libc::ENOENT);
        let (name, paths, args, result) = match self.what {
            What::Make => ("creat", ["x", ""], [0; 6], FD as i64),
            What::Close => ("close", ["", ""], [FD, 0, 0, 0, 0, 0], 0),
            What::Replace => ("rename", ["x", "z"], [0; 6], 0),
            What::Look => ("stat", ["z", ""], [0; 6], if self.inode == 0 { enoent } else { 0 }),
            What::Open => ("open", ["z", ""], [0; 6], if self.inode == 0 { enoent } else { OTHER_FD as i64 }),
            What::Links => ("fstat", ["", ""], [OTHER_FD, 0, 0, 0, 0, 0], if self.inode == 0 { EBADF } else { 0 }),
            What::CloseOther if self.inode == 0 => ("close", ["", ""], [OTHER_FD, 0, 0, 0, 0, 0], EBADF),
            What::CloseOther => ("close", ["", ""], [OTHER_FD, 0, 0, 0, 0, 0], 0),
        };
        let [path, path2] = paths.map(|path| (!path.is_empty()).then(|| Name(path.as_bytes().to_vec())));
        let mut output = Vec::new();
        if matches!(self.what, What::Look | What::Links) && result == 0 {
            let mut stat = [0; 144];
            stat[..8].copy_from_slice(&1u64.to_le_bytes());
            stat[8..16].copy_from_slice(&self.inode.to_le_bytes());
            stat[16..24].copy_from_slice(&self.links.to_le_bytes());
            stat[24..28].copy_from_slice(&(libc::S_IFREG | 0o644).to_le_bytes());
            payload::append(&mut output, Some(&stat));
        }
        let file = |fd: u64, file_mode| Object {
            // One that is closed is given again.
            id: fd,
            device: 1,
            inode: self.inode,
            fd: fd as i32,
            mode: libc::S_IFREG | 0o644,
            file_mode,
            ..Object::default()
        };
        let objects = match self.what {
            What::Make | What::Close => vec![file(FD, 1 | CREATED)],
            What::Open | What::Links | What::CloseOther if self.inode != 0 => vec![file(OTHER_FD, 1)],
            _ => vec![],
        };
        let action = Action { path, path2, output, args, result, begin_ns: self.begin_ns, ..Action::default() };
        Pending { action, tid: self.tid, objects: objects.into(), ..Pending::of_lane(by_name(name).expect("a row"), 0) }
    }
}

/// What the kernel would do: the files that stand there, and the one that is open.
#[derive(Default)]
struct Oracle {
    made: u64,
    stands: u64,
    open: u64,
}

impl Oracle {
    /// Gives the file that a call made or met, and how many names it has. Which one is made may be told.
    fn perform(&mut self, what: What, makes: Option<u64>) -> (u64, u64) {
        let file = match what {
            What::Make => {
                let is_gone = |file: &u64| ![self.stands, self.open].contains(file);
                self.made = makes.or_else(|| (11..).find(is_gone)).expect("a number");
                self.made
            }
            What::Close => self.made,
            What::Replace => {
                self.stands = std::mem::take(&mut self.made);
                0
            }
            What::Look => self.stands,
            What::Open => {
                self.open = self.stands;
                self.open
            }
            What::Links => self.open,
            What::CloseOther => std::mem::take(&mut self.open),
        };
        (file, u64::from(file == self.stands))
    }
}

fn simulate(seed: u64, looks: &[What]) -> Vec<Call> {
    const MOSTLY: u64 = 20;
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut calls = Vec::new();
    for tid in 1..=2 {
        let mut now = 1 + r.below(40);
        for n in 0..120 {
            let what = match (tid, n % 3) {
                (2, _) => looks[n % looks.len()],
                (_, 0) => What::Make,
                (_, 1) => What::Close,
                _ => What::Replace,
            };
            // Some of them last long.
            let lasts_long = what == What::Replace && r.below(4) == 0;
            let length = 2 + r.below(if lasts_long { 20 * MOSTLY } else { MOSTLY });
            let (begin_ns, end_ns) = (now, now + length);
            calls.push(Call {
                tid,
                begin_ns,
                effect_ns: begin_ns + 1 + r.below(length - 1),
                end_ns,
                what,
                inode: 0,
                links: 0,
            });
            now = end_ns + 1 + r.below(MOSTLY);
        }
    }
    calls.sort_by_key(|call| (call.effect_ns, call.tid));
    let mut kernel = Oracle::default();
    calls.iter_mut().for_each(|call| (call.inode, call.links) = kernel.perform(call.what, None));
    calls
}

/// Looks that show something else in this order.
fn different(calls: &[Call]) -> usize {
    let mut kernel = Oracle::default();
    let shows = |call: &&Call| {
        let seen = kernel.perform(call.what, Some(call.inode));
        seen != (call.inode, call.links) && matches!(call.what, What::Look | What::Open | What::Links)
    };
    calls.iter().filter(shows).count()
}

/// In an order by completion, and as it is found.
fn differences(looks: &[What]) -> (usize, usize) {
    let (mut before, mut after) = (0, 0);
    for seed in 1..=200 {
        let calls = simulate(seed, looks);
        assert_eq!(different(&calls), 0, "the simulation itself");
        let mut by_end = calls.clone();
        by_end.sort_by_key(|call| call.end_ns);
        before += different(&by_end);
        let found = ordered(&by_end);
        assert_eq!(found.len(), calls.len());
        after += different(&found);
    }
    println!("N {before} {after}");
    (before, after)
}

#[test]
fn who_sees_a_file_comes_behind_what_put_it_there() {
    let (before, after) = differences(&[What::Look]);
    assert!(before > 1000, "{before} looks differ in an order by completion");
    assert!(after * 90 < before, "{after} looks still differ, {before} by completion");
}

#[test]
fn who_sees_the_name_of_an_open_file_gone_comes_behind_what_took_it() {
    let (before, after) = differences(&[What::Open, What::Links, What::Links, What::CloseOther]);
    assert!(before > 1000, "{before} looks differ in an order by completion");
    assert!(after * 30 < before, "{after} looks still differ, {before} by completion");
}
