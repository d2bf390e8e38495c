//! The ways to issue calls: each replays the same, and says what it left out.

use std::fs;

use reprise_plan::command::{Arg, Command, Expect, Op};
use reprise_plan::tree::NodeKind;
use reprise_replay::log::{Class, Handling, Record};
use reprise_replay::run::{End, Executor, Options, ReplayResult, Verify};

mod scratch;
mod script;
use scratch::Scratch;
use script::{NONE, Script, issue, node, op, options, run};

const ALL: [Executor; 6] =
    [Executor::Sync, Executor::Uring, Executor::Linked, Executor::Polled, Executor::Touch, Executor::SkipReads];
const RW: i32 = libc::O_RDWR | libc::O_CREAT;

fn by(executor: Executor) -> Options {
    Options { executor, ..options() }
}

fn records(result: &ReplayResult) -> Vec<Record> {
    let mut all: Vec<Record> = result.log.merged().map(Result::unwrap).collect();
    all.sort_by_key(|record| record.origin);
    all
}

fn pread(s: &mut Script, slot: u32, asked: u64, offset: u64, expected: &[u8]) -> Command {
    let (at, length) = s.content(expected);
    let args = [Arg::Fd(slot), Arg::Out(asked), Arg::Value(asked), Arg::Value(offset)];
    Command { expect: Expect::Content(at, length), ..issue("pread64", &args, length as i64) }
}

/// A file of 1,000 bytes under slot 0 of a thread of its own.
fn begin(scratch: &Scratch) -> (Script, u32, Vec<u8>) {
    let mut s = Script::new(scratch.path());
    s.contents.tree = vec![node("/", NodeKind::Directory, 0o755)];
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    let bytes: Vec<u8> = (0..1000u32).map(|i| ((i * 7) >> 2) as u8).collect();
    s.open(t, "/f", RW, 0);
    s.write(t, 0, &bytes);
    (s, t, bytes)
}

#[test]
fn reads_see_what_was_written_before_them_whatever_issues_them() {
    let scratch = Scratch::new("executors-same");
    for executor in ALL {
        let (mut s, t, bytes) = begin(&scratch);
        // More than go together at once; some come short at the end, some find nothing.
        for i in 0..300u64 {
            let (from, to) = (i * 4, (i * 4 + 16).min(1000));
            let expected = bytes.get(from as usize..to as usize).unwrap_or_default();
            let read = pread(&mut s, 0, 16, from, expected);
            s.add(t, read);
        }
        // Between a write and another one.
        let (at, length) = s.content(b"changed");
        let args = [Arg::Fd(0), Arg::Content(at, length), Arg::Value(length), Arg::Value(100)];
        s.add(t, issue("pwrite64", &args, 7));
        let read = pread(&mut s, 0, 7, 100, b"changed");
        s.add(t, read);
        // At the file's own offset, twice.
        s.add(t, issue("lseek", &[Arg::Fd(0), Arg::Value(10), Arg::Value(0)], 10));
        s.read(t, 0, &bytes[10..30]);
        s.read(t, 0, &bytes[30..50]);
        s.add(t, issue("lseek", &[Arg::Fd(0), Arg::Value(0), Arg::Value(1)], 50));
        s.exit(t);
        let plan = s.finish();
        let result = run(&plan, &scratch.dir("target"), &by(executor)).unwrap();
        assert_eq!(
            (result.counts.diverged, result.counts.actions),
            (0, result.planned),
            "{executor}: {:?}",
            result.divergences
        );
        assert_eq!(fs::read(scratch.dir("target").join("f")).unwrap()[100..107], *b"changed");
        let records = records(&result);
        let count = |handling| records.iter().filter(|r| r.handling == handling).count();
        let skipped = if executor == Executor::SkipReads { 303 } else { 0 };
        assert_eq!(count(Handling::Skipped), skipped, "{executor}");
        let together = records.iter().filter(|r| r.together).count();
        match executor {
            Executor::Uring | Executor::Linked | Executor::Polled if result.notes.is_empty() => {
                assert!(together > 200, "{together}")
            }
            Executor::Touch => assert!(together > 200, "{together}"),
            _ => assert_eq!(together, 0),
        }
    }
}

#[test]
fn what_differs_is_found_among_many() {
    let scratch = Scratch::new("executors-differ");
    for executor in [Executor::Sync, Executor::Uring, Executor::Linked, Executor::Polled] {
        let (mut s, t, bytes) = begin(&scratch);
        for i in 0..50u64 {
            let from = i as usize * 8;
            let mut expected = bytes[from..from + 8].to_vec();
            let asked = if i == 20 { 16 } else { 8 };
            expected[3] ^= u8::from(i == 10);
            let mut read = pread(&mut s, 0, asked, from as u64, &expected);
            // Eight of sixteen were read in the trace; here there are sixteen.
            if i == 30 {
                read.result = 7;
                read.expect = Expect::Value;
            }
            s.add(t, read);
        }
        s.exit(t);
        let result = run(&s.finish(), &scratch.dir("target"), &by(executor)).unwrap();
        let diverged: Vec<u64> =
            records(&result).iter().filter(|r| r.difference.class == Class::Diverged).map(|r| r.origin - 2).collect();
        assert_eq!(diverged, [10, 20, 30], "{executor}");
    }
}

#[test]
fn other_threads_find_reads_done_and_wait_for_them() {
    let scratch = Scratch::new("executors-threads");
    for executor in ALL {
        let (mut s, t, bytes) = begin(&scratch);
        let other = s.thread(0, false);
        // Each thread reads, and truncates what the other has read: whoever went too early would find nothing.
        for round in 0..40u64 {
            let before = 2 + round * 4;
            for i in 0..4 {
                let read = pread(&mut s, 0, 8, i * 8, &bytes[i as usize * 8..i as usize * 8 + 8]);
                let waits: &[(u32, u64)] = if i == 0 && round > 0 { &[(other, round * 3)] } else { &[] };
                s.add_after(t, waits, read);
            }
            s.add_after(other, &[(t, before + 4)], issue("ftruncate", &[Arg::Fd(0), Arg::Value(0)], 0));
            let nothing = pread(&mut s, 0, 8, 0, b"");
            s.add(other, nothing);
            let (at, length) = s.content(&bytes[..64]);
            let args = [Arg::Fd(0), Arg::Content(at, length), Arg::Value(length), Arg::Value(0)];
            s.add(other, issue("pwrite64", &args, 64));
        }
        s.add_after(t, &[(other, 120)], op("exit_group", Op::Exit, &[Arg::Value(0)], 0, [3, NONE]));
        s.add(other, op("exit", Op::Exit, &[Arg::Value(0)], 0, [NONE, NONE]));
        let result = run(&s.finish(), &scratch.dir("target"), &by(executor)).unwrap();
        assert_eq!(
            (result.counts.diverged, result.counts.actions),
            (0, result.planned),
            "{executor}: {:?}",
            result.divergences
        );
    }
}

#[test]
fn what_is_taken_out_of_a_pipe_is_taken_whatever_is_left_out() {
    let scratch = Scratch::new("executors-pipe");
    for executor in ALL {
        let (mut s, t, _) = begin(&scratch);
        s.add(
            t,
            Command { expect: Expect::Outcome, ..op("pipe2", Op::IssuePair, &[Arg::Out(8), Arg::Value(0)], 0, [1, 2]) },
        );
        for round in 0..20u8 {
            s.write(t, 2, &[round; 4096]);
            s.read(t, 1, &[round; 4096]);
        }
        s.exit(t);
        let result = run(&s.finish(), &scratch.dir("target"), &by(executor)).unwrap();
        assert_eq!((result.counts.diverged, result.counts.skipped), (0, 0), "{executor}: {:?}", result.divergences);
    }
}

#[test]
fn a_file_that_became_shorter_is_read_and_not_touched() {
    let scratch = Scratch::new("executors-touch");
    let (mut s, t, _) = begin(&scratch);
    let block = [7u8; 10_000];
    s.open(t, "/long", RW, 1);
    s.write(t, 1, &block);
    let whole = pread(&mut s, 1, 4096, 4096, &block[..4096]);
    s.add(t, whole.clone());
    // The mapping goes on; the file does not.
    s.add(t, issue("ftruncate", &[Arg::Fd(1), Arg::Value(100)], 0));
    s.add(t, whole);
    let rest = pread(&mut s, 1, 4096, 50, &block[..50]);
    s.add(t, rest.clone());
    // It grows again, beyond what was mapped.
    s.add(t, issue("ftruncate", &[Arg::Fd(1), Arg::Value(100_000)], 0));
    let hole = pread(&mut s, 1, 4096, 90_000, &[0; 4096]);
    s.add(t, hole);
    // Content is not compared, its length is.
    let other = Command { expect: Expect::Content(0, 4096), ..pread(&mut s, 1, 4096, 8192, &[0; 4096]) };
    s.add(t, other);
    s.exit(t);
    let plan = s.finish();
    let result = run(&plan, &scratch.dir("target"), &by(Executor::Touch)).unwrap();
    assert!(matches!(result.end, End::Complete), "{:?}", result.end);
    let diverged: Vec<u64> = result.divergences.iter().map(|d| d.origin).collect();
    assert_eq!(diverged, [6], "{:?}", result.divergences);
    let compared = records(&result).iter().filter(|r| r.compared && r.number == 17).count();
    assert_eq!(compared, 1, "what was touched is not said to be compared");
}

#[test]
fn of_samples_alone_content_is_compared() {
    let scratch = Scratch::new("executors-sampled");
    for executor in [Executor::Sync, Executor::Uring] {
        let (mut s, t, bytes) = begin(&scratch);
        for i in 0..640u64 {
            // Content that is not there, and every hundredth time a length that is not.
            let length = if i % 100 == 50 { 9 } else { 8 };
            let mut expected = bytes[..length].to_vec();
            expected[0] ^= 1;
            let read = pread(&mut s, 0, 8, 0, &expected);
            s.add(t, read);
        }
        s.exit(t);
        let plan = s.finish();
        let options = Options { verify: Verify::Sampled, ..by(executor) };
        let result = run(&plan, &scratch.dir("target"), &options).unwrap();
        let records = records(&result);
        let read = |r: &&Record| r.number == 17;
        let lengths = records.iter().filter(read).filter(|r| r.difference.text().contains("traced 9")).count();
        assert_eq!(lengths, 6, "{executor}: results are always compared");
        let contents = records.iter().filter(read).filter(|r| r.difference.text().contains("content")).count();
        assert!((20..=80).contains(&contents), "{executor}: {contents} of 640, one in 16 is asked for");
        assert!(records.iter().filter(read).all(|r| r.compared || !r.difference.text().contains("content")));
    }
}

#[test]
fn access_times_stay_if_asked() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new("executors-atime");
    let after = |no_access_times: bool| {
        let mut s = Script::new(scratch.path());
        let (content, length) = s.content(b"some content");
        let extents = vec![reprise_plan::tree::Extent { offset: 0, length, buffer: content }];
        let file = reprise_plan::tree::Node { size: length, extents, ..node("/f", NodeKind::File, 0o644) };
        s.contents.tree = vec![node("/", NodeKind::Directory, 0o755), file];
        let p = s.process(vec![]);
        let t = s.thread(p, false);
        s.open(t, "/f", libc::O_RDONLY, 0);
        s.read(t, 0, b"some content");
        s.exit(t);
        let plan = s.finish();
        let dir = scratch.dir(if no_access_times { "kept" } else { "changed" });
        let result = run(&plan, &dir, &Options { no_access_times, ..options() }).unwrap();
        assert_eq!((result.counts.diverged, result.notes), (0, vec![]));
        fs::metadata(dir.join("f")).unwrap().atime()
    };
    assert_eq!(after(true), 0);
    if after(false) == 0 {
        println!("skipped in part: this file system never changes access times");
    }
}

/// The oracle is the kernel's account of what came from devices.
#[test]
fn pages_are_there_or_not_as_in_the_trace() {
    const PAGES: u64 = 64;
    let scratch = Scratch::new("executors-pages");
    let bytes: Vec<u8> = (0..PAGES * 4096).map(|i| (i / 7) as u8).collect();
    for cached in [Some(true), Some(false), None] {
        let (mut s, t, _) = begin(&scratch);
        s.open(t, "/pages", RW, 1);
        s.write(t, 1, &bytes);
        s.add(t, issue("fsync", &[Arg::Fd(1)], 0));
        s.add(t, issue("fadvise64", &[Arg::Fd(1), Arg::Value(0), Arg::Value(0), Arg::Value(1)], 0));
        for page in (0..PAGES).rev() {
            let at = page as usize * 4096;
            let read = pread(&mut s, 1, 4096, page * 4096, &bytes[at..at + 4096]);
            let timing = reprise_plan::Timing { cached, ..read.timing };
            s.add(t, Command { timing, ..read });
        }
        s.exit(t);
        let plan = s.finish();
        let dir = scratch.dir("target");
        let result = run(&plan, &dir, &Options { traced_cache: true, ..options() }).unwrap();
        assert_eq!(result.counts.diverged, 0, "{:?}", result.divergences);
        let noted =
            |text: &str| result.notes.iter().find(|(note, _)| note.contains(text)).map_or(0, |(_, count)| *count);
        let (dropped, there) = (noted("were dropped"), noted("were in memory") + noted("were not in memory"));
        assert_eq!(noted("does not tell"), if cached.is_none() { PAGES } else { 0 });
        assert_eq!(
            (dropped, there),
            match cached {
                Some(true) => (0, PAGES),
                Some(false) => (PAGES, 0),
                None => (0, 0),
            }
        );
        let device = result.cache.device_bytes.unwrap_or(0);
        if cached == Some(false) && device == 0 {
            println!("skipped in part: this file system reads from no block device");
        } else {
            // The kernel keeps a page that it is busy with: not every one of them comes from the device.
            assert_eq!(device > PAGES * 4096 / 2, cached == Some(false), "{cached:?}: {device}");
        }
    }
}
