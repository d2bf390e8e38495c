//! Raw recordings become traces: what belongs together is found wherever it was written, the order is that of effects,
//! and whatever the bytes are, the result is a trace and an account of what it lacks.

mod spools;

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use reprise_capture::recover;
use reprise_capture::spool::Lacks;
use reprise_capture::spool::mark::{Cut, Mark};
use reprise_trace::{Action, Loss, ReadError, TraceReader};
use spools::{BEGAN, Call, Spool, halves, lay_down};

const READ: u32 = 0;
const WRITE: u32 = 1;
const CLOSE: u32 = 3;
const PIPE: u32 = 22;
const FORK: u32 = 57;
const EXECVE: u32 = 59;
const MKDIR: u32 = 83;
const OPENAT: u32 = 257;
const EXIT_GROUP: u32 = 231;
const REGULAR: u32 = 0o100644;
const FIFO: u32 = 0o010600;
const HERE: u64 = -100i64 as u64;

fn path(address: u64, text: &[u8], at_exit: bool) -> (u64, Vec<u8>, bool) {
    (address, [text, b"\0"].concat(), at_exit)
}

/// Two processes on two processors: the child writes to the pipe that the first reads, which hears of it first.
fn story() -> Spool {
    let mut s = Spool::default();
    let first = Call { tid: 10, pid: 10, ..Call::default() };
    let execute = Call { begin: 10, end: 90, call: 1, nr: EXECVE, args: [0x100, 0, 0, 0, 0, 0], ..first.clone() };
    s.enter(0, &Call { ranges: vec![path(0x100, b"/bin/x", false)], ..execute.clone() });
    s.record(1, 5, 80, (10, 10), &halves(&[10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    s.call(1, &execute);
    let fds = (0x200, halves(&[3, 4]), true);
    s.call(
        1,
        &Call {
            begin: 100,
            end: 110,
            call: 2,
            nr: PIPE,
            args: [0x200, 0, 0, 0, 0, 0],
            ranges: vec![fds],
            ..first.clone()
        },
    );
    // The child is made, and writes, before the fork has returned in the parent.
    s.task(1, 130, (11, 11), (10, 10), 0);
    let child = Call { tid: 11, pid: 11, ..Call::default() };
    let pipe = |fd| vec![(fd, FIFO, 9, 0)];
    s.call(
        0,
        &Call { begin: 140, end: 141, call: 1, nr: CLOSE, args: [3, 0, 0, 0, 0, 0], objects: pipe(3), ..child.clone() },
    );
    s.call(1, &Call { begin: 120, end: 150, call: 3, nr: FORK, result: 11, ..first.clone() });
    let big: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
    let write = Call {
        begin: 200,
        end: 290,
        call: 2,
        nr: WRITE,
        args: [4, 0x1000, 100_000, 0, 0, 0],
        result: 100_000,
        more: 1,
        ranges: vec![(0x1000, big[..60_000].to_vec(), true)],
        objects: pipe(4),
        ..child.clone()
    };
    s.more(0, 289, &write, 0x1000 + 60_000, &big[60_000..]);
    s.call(0, &write);
    s.call(
        1,
        &Call {
            begin: 160,
            end: 250,
            call: 4,
            nr: READ,
            args: [3, 0x500, 4, 0, 0, 0],
            result: 4,
            ranges: vec![(0x500, big[..4].to_vec(), true)],
            objects: pipe(3),
            ..first.clone()
        },
    );
    s.enter(0, &Call { begin: 300, call: 3, nr: EXIT_GROUP, args: [7, 0, 0, 0, 0, 0], ..child.clone() });
    s.end(0, 320, (11, 11), 7 << 8, true);
    s.call(
        1,
        &Call {
            begin: 400,
            end: 420,
            call: 5,
            nr: OPENAT,
            args: [HERE, 0x600, 0o101, 0o644, 0, 0],
            result: 5,
            ranges: vec![path(0x600, b"out", true)],
            objects: vec![(5, REGULAR, 50, 0)],
            ..first.clone()
        },
    );
    s.enter(1, &Call { begin: 500, call: 6, nr: EXIT_GROUP, args: [0, 0, 0, 0, 0, 0], ..first });
    s.end(1, 520, (10, 10), 0, true);
    s
}

fn actions(trace: &std::path::Path) -> Vec<Action> {
    TraceReader::open(trace).unwrap().actions().map(Result::unwrap).collect()
}

#[test]
fn a_story_of_two_processes() {
    let dir = tempfile::tempdir().unwrap();
    let trace = lay_down(dir.path(), &story().bytes());
    assert!(
        matches!(TraceReader::open(&trace), Err(ReadError::Unfinished { .. })),
        "not a trace before it is recovered"
    );
    let outcome = recover(&trace, &mut |_, _| {}).unwrap();
    assert_eq!(outcome.end.code, Some(0));
    assert!(!trace.join("spool").exists());
    let told: Vec<(u32, String, i64)> =
        actions(&trace).into_iter().map(|a| (a.thread, a.call.into_owned(), a.result)).collect();
    let expected: Vec<(u32, String, i64)> = [
        (0, "execve", 0),
        (0, "pipe", 0),
        (0, "fork", 11),
        (1, "close", 0),
        (1, "write", 100_000),
        (0, "read", 4),
        (1, "exit_group", 0),
        (0, "openat", 5),
        (0, "exit_group", 0),
    ]
    .map(|(thread, call, result)| (thread, call.to_owned(), result))
    .to_vec();
    assert_eq!(told, expected);

    let actions = actions(&trace);
    let reader = TraceReader::open(&trace).unwrap();
    assert_eq!(actions[0].path.as_deref(), Some(&b"/bin/x"[..]), "kept at the entry, found at the exit");
    assert_eq!((actions[4].data_bytes, actions[4].truncated_bytes), (100_000, 0));
    let mut blobs = reader.blobs();
    let written = blobs.content(&actions[4].data).unwrap().unwrap();
    assert!(written.iter().enumerate().all(|(i, b)| *b == i as u8) && written.len() == 100_000);
    assert_eq!(actions[6].args[0], 7, "the status of the child");
    let threads = reader.threads().unwrap();
    assert_eq!((threads[1].parent, threads[1].created_by, &threads[1].name[..]), (Some(0), Some(2), &b"child"[..]));
    let processes = reader.processes().unwrap();
    assert_eq!((processes[1].parent, &processes[1].cwd[..]), (Some(0), &b"/nowhere/w"[..]));
    assert_eq!(reader.descriptors().unwrap().len(), 2);
    assert_eq!(reader.ledger().total(Loss::Dropped), 0);
    assert!(reader.tree().unwrap().iter().any(|n| &n.name[..] == b"nowhere"));
}

#[test]
fn what_is_missing_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = story();
    // Five records that nobody has, and memory that never comes.
    let lonely = Call { tid: 10, pid: 10, begin: 1, end: 2, call: 99, nr: MKDIR, more: 3, ..Call::default() };
    spool.call(0, &lonely);
    let mut bytes = spool.bytes();
    let at = bytes.len() - (1 << 20) + 64 + 8;
    let number = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    bytes[at..at + 8].copy_from_slice(&(number + 5).to_le_bytes());
    let trace = lay_down(dir.path(), &bytes);
    let outcome = recover(&trace, &mut |_, _| {}).unwrap();
    assert_eq!(outcome.ledger.total(Loss::Dropped), 5, "{:?}", outcome.ledger);
    assert!(outcome.ledger.total(Loss::Truncated) >= 1, "{:?}", outcome.ledger);
}

/// `strace -e inject` gives a call that is not to be made the number -1.
#[test]
fn what_another_tracer_skipped_is_no_unknown_call() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = story();
    let call = Call { tid: 10, pid: 10, begin: 430, end: 431, call: 98, ..Call::default() };
    spool.call(0, &Call { nr: u32::MAX, result: -5, ..call.clone() });
    spool.call(0, &Call { nr: 499, result: -38, begin: 432, end: 433, call: 99, ..call });
    let trace = lay_down(dir.path(), &spool.bytes());
    let ledger = recover(&trace, &mut |_, _| {}).unwrap().ledger;
    let unsupported: Vec<&String> = ledger.losses[&Loss::Unsupported].keys().collect();
    assert_eq!(unsupported, ["unknown call 499"]);
    assert!(ledger.notes.keys().any(|note| note.starts_with("a call was not made")), "{ledger:?}");
}

#[test]
fn a_spool_that_was_cut_off_anywhere_gives_what_there_is() {
    let bytes = story().bytes();
    let mut before = 0;
    for length in [0, 40, 64, 200, 700, 1 << 20, (1 << 20) + 70, (1 << 20) + 600, 2 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let trace = lay_down(dir.path(), &bytes[..length]);
        let outcome = recover(&trace, &mut |_, _| {}).unwrap();
        assert!(outcome.actions >= before.min(3), "{length}");
        before = outcome.actions;
        TraceReader::open(&trace).unwrap().check_all().unwrap();
    }
    assert_eq!(before, 9);
}

/// What was begun, and found no room to grow, is written once more as a whole: elsewhere.
#[test]
fn a_segment_that_is_there_twice_counts_once() {
    const SEGMENT: usize = 1 << 20;
    let whole = story().bytes();
    for longer_last in [false, true] {
        let mut short = whole[SEGMENT..2 * SEGMENT].to_vec();
        let first = u32::from_le_bytes(short[64..68].try_into().unwrap());
        short[12..16].copy_from_slice(&(64 + first).to_le_bytes());
        let parts = if longer_last { [short, whole.clone()] } else { [whole.clone(), short] };
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(SEGMENT), 0);
        }
        let trace = lay_down(dir.path(), &bytes);
        let outcome = recover(&trace, &mut |_, _| {}).unwrap();
        assert_eq!((outcome.actions, outcome.ledger.total(Loss::Dropped)), (9, 0), "{:?}", outcome.ledger);
    }
}

/// The disk was full: up to when all is there was said, and what was not written is counted as that.
#[test]
fn what_found_no_room_on_the_disk_is_counted_as_that() {
    let dir = tempfile::tempdir().unwrap();
    let trace = lay_down(dir.path(), &story().bytes());
    let mark = Mark::make(&trace.join("spool")).unwrap();
    mark.say(BEGAN + 260).unwrap();
    let error = io::Error::from_raw_os_error(libc::ENOSPC);
    // Of 30 records ten were dropped for other reasons, or taken below.
    let lacks = Lacks([0, 0, 1, 0, 0, 0]);
    mark.cut(&Cut { records: 30, lacks, passed: 4, ..Cut::by(&error) }).unwrap();
    let outcome = recover(&trace, &mut |_, _| {}).unwrap();
    assert_eq!((outcome.actions, outcome.end.code), (5, None), "all but what ended after that");
    let dropped: Vec<(&str, u64)> =
        outcome.ledger.losses[&Loss::Dropped].iter().map(|(cause, entry)| (cause.as_str(), entry.count)).collect();
    let words = |cause: &str| dropped.iter().find(|(words, _)| words.starts_with(cause)).map(|(_, count)| *count);
    assert_eq!(words("records that waited when their thread ended"), Some(1));
    assert_eq!(words("calls made when it had no room any more (No space left"), Some(4));
    assert!(
        words("records for which the raw recording had no room (No space left").is_some_and(|n| n > 10),
        "{dropped:?}"
    );
    assert_eq!(dropped.len(), 3, "{dropped:?}");
    assert!(outcome.manifest.facts["end"].contains("had no room left (No space left"), "{:?}", outcome.manifest.facts);
}

#[test]
fn nothing_to_recover_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let error = recover(dir.path(), &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("no raw recording"), "{error}");
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

#[test]
fn damaged_spools_end_with_a_trace_or_an_error() {
    let rounds = std::env::var("REPRISE_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(150u64);
    let only = std::env::var("REPRISE_FUZZ_SEED").ok().and_then(|n| n.parse::<u64>().ok());
    let whole = story().bytes();
    let used = |segment: usize| {
        let at = segment * (1 << 20) + 12;
        u32::from_le_bytes(whole[at..at + 4].try_into().unwrap()) as usize
    };
    for seed in only.map_or(1..=rounds, |seed| seed..=seed) {
        let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut bytes = whole.clone();
        for _ in 0..1 + r.below(6) {
            let segment = r.below(2);
            let at = segment * (1 << 20) + r.below(used(segment).min(4000));
            match r.below(4) {
                0 => bytes[at] = r.below(256) as u8,
                1 => bytes[at] ^= 1 << r.below(8),
                2 => bytes[at & !7..(at & !7) + 8].fill(0xff),
                _ => bytes[at & !7..(at & !7) + 8].fill(0),
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let trace = lay_down(dir.path(), &bytes);
        let survived = catch_unwind(AssertUnwindSafe(|| {
            if recover(&trace, &mut |_, _| {}).is_ok() {
                TraceReader::open(&trace).unwrap().check_all().unwrap();
            }
        }));
        assert!(survived.is_ok(), "seed {seed}: set REPRISE_FUZZ_SEED={seed} to see it again");
        let _ = fs::remove_dir_all(&trace);
    }
}
