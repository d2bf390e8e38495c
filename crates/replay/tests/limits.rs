//! What a replay does not do, and how it ends when it must: bounds, waits, damage, a full disk.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use reprise_plan::command::{Arg, Command, Expect, Op};
use reprise_plan::tree::NodeKind;
use reprise_replay::run::{End, Failure, Options, ReplayError, ReplayResult, replay};

mod scratch;
mod script;
use scratch::{Scratch, is_root};
use script::{NONE, Script, issue, node, op, options, run, run_same};

const RW: i32 = libc::O_RDWR | libc::O_CREAT;

fn failure(result: &ReplayResult) -> &Failure {
    match &result.end {
        End::Failed(ReplayError::Engine(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn waits_in_a_circle_are_found() {
    let scratch = Scratch::new("engine-circle");
    let mut s = Script::new(scratch.path());
    let (p, q) = (s.process(vec![]), s.process(vec![]));
    let (t, u) = (s.thread(p, false), s.thread(q, false));
    s.add_after(t, &[(u, 1)], issue("sync", &[], 0));
    s.add_after(u, &[(t, 1)], issue("sync", &[], 0));
    let begin = Instant::now();
    let result = run(&s.finish(), &scratch.dir("target"), &options()).unwrap();
    assert!(matches!(failure(&result), Failure::Stuck { .. }), "{:?}", result.end);
    assert!(begin.elapsed() < Duration::from_secs(3));
}

#[test]
fn blocked_calls_end_with_the_replay() {
    let scratch = Scratch::new("engine-blocked");
    let mut s = Script::new(scratch.path());
    s.contents.tree = vec![node("/", NodeKind::Directory, 0o755), node("/pipe", NodeKind::Fifo, 0o600)];
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    s.open(t, "/pipe", libc::O_RDONLY, 0);
    let plan = s.finish();
    let begin = Instant::now();
    let short = Options { patience: Duration::from_secs(1), ..options() };
    let result = run(&plan, &scratch.dir("target"), &short).unwrap();
    let Failure::Stalled { thread: 0, call, .. } = failure(&result) else { panic!("{:?}", result.end) };
    assert_eq!(call, "openat");
    assert!(begin.elapsed() < Duration::from_secs(4));
    // A request to end.
    static REQUESTS: AtomicU32 = AtomicU32::new(0);
    let waited = Options { interrupt: Some(&REQUESTS), ..options() };
    let mut ticks = 0;
    let mut progress = |p: reprise_replay::run::Progress| {
        if p.phase == reprise_replay::run::Phase::Replaying {
            ticks += 1;
            REQUESTS.store(u32::from(ticks > 3), Ordering::SeqCst);
        }
    };
    let result = replay(&plan, &scratch.dir("target"), &waited, &mut progress).unwrap();
    assert!(matches!(result.end, End::Interrupted), "{:?}", result.end);
}

#[test]
fn locks_that_do_not_come_are_named() {
    let scratch = Scratch::new("engine-locks");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    s.open(t, "/f", RW, 0);
    s.open(t, "/f", RW, 1);
    s.add(t, issue("flock", &[Arg::Fd(0), Arg::Value(2)], 0));
    s.add(t, Command { op: Op::Lock, ..issue("flock", &[Arg::Fd(1), Arg::Value(2)], 0) });
    s.exit(t);
    let result = run(&s.finish(), &scratch.dir("target"), &options()).unwrap();
    assert_eq!(result.divergences[0].text, "lock not available (EAGAIN), traced 0");
}

#[test]
fn nothing_outside_is_reached() {
    let scratch = Scratch::new("engine-outside");
    fs::write(scratch.path().join("secret"), "secret").unwrap();
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    let enoent = -(libc::ENOENT as i64);
    for path in ["/../secret", "../../secret", "/proc/self/environ", &format!("{}/secret", scratch.path().display())] {
        let path = s.text(path);
        s.add(t, issue("open", &[path, Arg::Value(0), Arg::Value(0)], enoent));
    }
    // Descriptors of the engine cannot be named.
    for number in [0, 1, 2, 3, 1016, 1017, 1018] {
        let ebadf = -(libc::EBADF as i64);
        s.add(t, issue("fsync", &[Arg::Value(number)], ebadf));
        s.add(t, op("close", Op::Close, &[Arg::Value(number)], ebadf, [NONE, NONE]));
        s.add(t, issue("dup", &[Arg::Value(number)], ebadf));
    }
    let clone = [Arg::Value(u64::MAX), Arg::Value(0x40049409), Arg::Value(1016)];
    s.add(t, issue("ioctl", &clone, -(libc::EBADF as i64)));
    s.exit(t);
    let result = run_same(&s.finish(), &scratch.dir("target"));
    assert_eq!(result.counts.skipped, 1);
}

#[test]
fn malformed_commands_end_the_replay() {
    let big = u64::MAX - 7;
    let v = Arg::Value;
    let cases: Vec<Command> = vec![
        issue("fsync", &[Arg::Fd(1 << 30)], 0),
        issue("write", &[v(0), Arg::Content(big, 100), v(100)], 100),
        issue("unlink", &[Arg::Bytes(0, big)], 0),
        issue("read", &[v(0), Arg::Bytes(1 << 40, 5), v(5)], 5),
        issue("readv", &[v(0), Arg::OutVector(big), v(3)], 5),
        issue("execve", &[Arg::Bytes(0, 1), v(0), v(0)], 0),
        issue("clone", &[v(0); 5], 0),
        issue("mmap", &[v(0); 6], 0),
        issue("ptrace", &[v(0); 4], 0),
        issue("mount", &[v(0); 5], 0),
        issue("io_uring_setup", &[v(8), v(0)], 0),
        Command { number: 0x1ff, ..issue("sync", &[], 0) },
        op("open", Op::IssuePair, &[v(0); 3], 0, [0, 1]),
        op("read", Op::IssueFd, &[v(0), Arg::Out(8), v(8)], 0, [0, 1]),
        op("openat", Op::IssueFd, &[v(0); 4], 0, [1 << 20, 1]),
        op("clone", Op::Spawn, &[], 5, [0, 0]),
        op("clone", Op::Spawn, &[], 5, [77, 0]),
        op("munmap", Op::OnMapping, &[Arg::Mapped(1 << 20, 0), v(5)], 0, [NONE, NONE]),
        op("mmap", Op::Map, &[v(0), v(4096), v(3), v(2), v(u64::MAX), v(0)], 0, [1 << 20, NONE]),
        Command { list: vec![1 << 20], ..op("close_range", Op::CloseMany, &[], 0, [NONE, NONE]) },
        Command { list: vec![1 << 20], ..op("close_range", Op::MarkMany, &[], 0, [NONE, NONE]) },
        op("mremap", Op::OnMapping, &[Arg::Mapped(0, 0), v(0), v(4096), v(1)], 0, [1 << 20, NONE]),
        op("getdents64", Op::List, &[Arg::Content(0, 0), Arg::Out(8), v(8)], 0, [NONE, NONE]),
        Command { expect: Expect::Content(big, 5), ..issue("umask", &[v(0o22)], 0o22) },
        Command { expect: Expect::Metadata(0, 8), ..issue("umask", &[v(0o22)], 0o22) },
        Command { expect: Expect::Digest(0, big), ..issue("umask", &[v(0o22)], 0o22) },
    ];
    let scratch = Scratch::new("engine-malformed");
    for (n, command) in cases.into_iter().enumerate() {
        let dir = scratch.dir(&format!("case{n}"));
        let mut s = Script::new(&dir);
        let p = s.process(vec![]);
        let t = s.thread(p, false);
        s.bytes(b"12345678");
        s.add(t, command.clone());
        s.exit(t);
        let result = run(&s.finish(), &scratch.dir(&format!("target{n}")), &options()).unwrap();
        assert!(
            matches!(failure(&result), Failure::Damaged { thread: 0, command: 1, .. }),
            "{command:?}: {:?}",
            result.end
        );
    }
    // Words that are no command; a wait for a thread that is not there.
    for words in [vec![u64::MAX; 20], vec![0; 3]] {
        let mut s = Script::new(scratch.path());
        let p = s.process(vec![]);
        let t = s.thread(p, false);
        s.words(t, &words);
        let result = run(&s.finish(), &scratch.dir("words"), &options()).unwrap();
        assert!(matches!(failure(&result), Failure::Damaged { .. }), "{:?}", result.end);
    }
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    s.add_after(t, &[(9, 1)], issue("sync", &[], 0));
    s.contents.slots = u32::MAX;
    let plan = s.finish();
    assert!(matches!(run(&plan, &scratch.dir("words"), &options()), Err(ReplayError::Engine(Failure::Absurd { .. }))));
}

/// A file system of 8 MB, if this machine can mount one.
fn small_file_system(scratch: &Scratch) -> Option<std::path::PathBuf> {
    let at = scratch.dir("small");
    let mounted = is_root()
        && std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m,mode=700", "none"])
            .arg(&at)
            .status()
            .is_ok_and(|s| s.success());
    mounted.then_some(at)
}

#[test]
fn a_full_target_is_named() {
    let scratch = Scratch::new("engine-full");
    let Some(target) = small_file_system(&scratch) else {
        return eprintln!("skipped: this user cannot mount a small file system");
    };
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    s.open(t, "/f", RW, 0);
    for _ in 0..20 {
        s.write(t, 0, &vec![7; 1 << 20]);
    }
    s.exit(t);
    let result = run(&s.finish(), &target, &options());
    let remount = |how: &str| {
        std::process::Command::new("mount").args(["-o", how]).arg(&target).status().unwrap();
    };
    let unmount = |target: &Path| std::process::Command::new("umount").arg(target).status().unwrap();
    remount("remount,rw");
    unmount(&target);
    let result = result.unwrap();
    let Failure::TargetFull { call, .. } = failure(&result) else { panic!("{:?}", result.end) };
    assert_eq!(call, "write");
    assert!(result.counts.actions > 5 && result.counts.diverged >= 1);
}
