//! Plans written by hand, replayed on the real kernel.

use std::fs;
use std::time::Instant;

use reprise_plan::command::{Arg, Command, Expect, Listing, Op, StandIn, entry_hash};
use reprise_plan::tree::NodeKind;
use reprise_plan::{FdSource, InitialFd};
use reprise_replay::confine;
use reprise_replay::log::{Class, Handling};
use reprise_replay::run::{End, Options, Preparation, Verify};

mod scratch;
mod script;
use scratch::Scratch;
use script::{NONE, Script, issue, node, op, options, run, run_same};

const RW: i32 = libc::O_RDWR | libc::O_CREAT;
const EAGAIN: i64 = -(libc::EAGAIN as i64);

#[test]
fn the_command_before_the_start_finds_the_tree_and_nothing_else() {
    let scratch = Scratch::new("engine-before");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    s.contents.tree = vec![node("/", NodeKind::Directory, 0o755), node("/there", NodeKind::Directory, 0o755)];
    let dir = s.text("/made");
    s.add(t, issue("mkdir", &[dir, Arg::Value(0o755)], 0));
    s.exit(t);
    let plan = s.finish();
    let target = scratch.dir("target");
    let seen = scratch.path().join("seen");
    let command = format!("ls {} >{}", target.display(), seen.display());
    let ready = Options { before_start: Some(command.into()), ..options() };
    let result = run(&plan, &target, &ready).unwrap();
    assert_eq!(result.counts.diverged, 0);
    let seen = fs::read_to_string(&seen).unwrap();
    assert!(seen.contains("there") && !seen.contains("made"), "{seen}");
    assert!(target.join("made").exists());
    // It fails: nothing is replayed.
    let failing = Options { before_start: Some("exit 3".into()), ..options() };
    let error = run(&plan, &target, &failing).unwrap_err().to_string();
    assert!(error.contains("exit status: 3"), "{error}");
    assert!(!target.join("made").exists());
}

#[test]
fn files_are_made_read_and_judged() {
    let scratch = Scratch::new("engine-files");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    let dir = s.text("/d");
    s.add(t, issue("mkdir", &[dir, Arg::Value(0o755)], 0));
    s.open(t, "/d/f", RW, 0);
    s.write(t, 0, b"hello world");
    s.add(t, issue("lseek", &[Arg::Fd(0), Arg::Value(0), Arg::Value(0)], 0));
    s.read(t, 0, b"hello");
    // readv of two pieces, the second filled in part.
    let lengths = s.bytes(&[2u64, 4, 8].iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>());
    let (at, length) = s.content(b" world");
    let args = [Arg::Fd(0), Arg::OutVector(lengths), Arg::Value(2)];
    s.add(t, Command { expect: Expect::Content(at, length), ..issue("readv", &args, 6) });
    // writev from content.
    let lengths = s.bytes(&[2u64, 3, 4].iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>());
    let (at, _) = s.content(b"abcdefg");
    s.add(t, issue("writev", &[Arg::Fd(0), Arg::ContentVector(lengths, at), Arg::Value(2)], 7));
    let (missing, link, target) = (s.text("/d/missing"), s.text("/d/l"), s.text("/etc/passwd"));
    s.add(t, issue("unlink", &[missing], -2));
    s.add(t, issue("symlink", &[target, link], 0));
    let (at, length) = s.content(b"/etc/passwd");
    let args = [link, Arg::Out(100), Arg::Value(100)];
    s.add(t, Command { expect: Expect::Content(at, length), ..issue("readlink", &args, 11) });
    // A listing in one call, and its end.
    s.open(t, "/d", libc::O_RDONLY | libc::O_DIRECTORY, 1);
    let sum = entry_hash(b"f").wrapping_add(entry_hash(b"l"));
    let listing = |s: &mut Script, begins, ends| {
        let words = Listing { begins, ends, entries: 2, sum_low: sum as u64, sum_high: (sum >> 64) as u64 };
        Expect::Listing(7, s.bytes(&words.to_bytes()))
    };
    let args = [Arg::Fd(1), Arg::Out(32768), Arg::Value(32768)];
    let first = Command { expect: listing(&mut s, 1, 0), op: Op::List, ..issue("getdents64", &args, 96) };
    s.add(t, first);
    let last = Command { expect: listing(&mut s, 0, 1), op: Op::List, ..issue("getdents64", &args, 0) };
    s.add(t, last);
    s.add(t, issue("close", &[Arg::Fd(0)], 0));
    s.add(t, issue("close", &[Arg::Value(99)], -(libc::EBADF as i64)));
    s.exit(t);
    let plan = s.finish();
    let target = scratch.dir("target");
    let result = run_same(&plan, &target);
    assert_eq!(fs::read(target.join("d/f")).unwrap(), b"hello worldabcdefg");
    assert_eq!(result.threads, 1);
    assert!(result.confinement.contains("limited to a list"), "{}", result.confinement);
    // A second time: restored.
    assert!(matches!(run_same(&plan, &target).preparation, Preparation::Restored(_)));
    let lean = run(&plan, &target, &Options { confinement: confine::Options::lean(), ..options() }).unwrap();
    assert!(
        lean.confinement.contains("not limited") && lean.confinement.contains("Landlock off"),
        "{}",
        lean.confinement
    );
    assert_eq!((lean.counts.diverged, lean.cost.unwrap().list_ns), (0, 0));
}

#[test]
fn differences_are_named() {
    let scratch = Scratch::new("engine-differences");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    s.open(t, "/f", RW, 0);
    s.write(t, 0, b"0123456789");
    s.add(t, issue("lseek", &[Arg::Fd(0), Arg::Value(0), Arg::Value(0)], 0));
    s.read(t, 0, b"0123x");
    s.add(t, issue("lseek", &[Arg::Fd(0), Arg::Value(0), Arg::Value(2)], 12));
    let missing = s.text("/missing");
    s.add(
        t,
        op("openat", Op::IssueFd, &[Arg::Value(-100i64 as u64), missing, Arg::Value(0), Arg::Value(0)], 3, [1, NONE]),
    );
    let mut stat = [0u8; 144];
    stat[16] = 1;
    stat[24..28].copy_from_slice(&(libc::S_IFREG | 0o600).to_le_bytes());
    stat[48] = 12;
    let at = s.bytes(&stat);
    s.add(t, Command { expect: Expect::Metadata(at, 144), ..issue("fstat", &[Arg::Fd(0), Arg::Out(144)], 0) });
    s.exit(t);
    let plan = s.finish();
    let result = run(&plan, &scratch.dir("target"), &options()).unwrap();
    let texts: Vec<&str> = result.divergences.iter().map(|d| d.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "content differs at byte 4 of 5",
            "returned 10, traced 12",
            "returned ENOENT, traced 3",
            "mode 0644, traced 0600"
        ]
    );
    assert!(matches!(result.end, End::Complete));
    // Abort: the first ends it.
    let abort = Options { verify: Verify::Abort, ..options() };
    let result = run(&plan, &scratch.dir("target"), &abort).unwrap();
    assert!(matches!(result.end, End::FirstDivergence));
    assert_eq!((result.counts.diverged, result.counts.actions), (1, 4));
    let off = Options { verify: Verify::Off, ..options() };
    let result = run(&plan, &scratch.dir("target"), &off).unwrap();
    assert_eq!((result.counts.diverged, result.counts.actions), (0, 8));
}

/// A parent and the child it forks: tables are copies, offsets are shared, locks conflict, cwd and umask are apart.
#[test]
fn forked_processes_are_processes() {
    let scratch = Scratch::new("engine-fork");
    let mut s = Script::new(scratch.path());
    s.contents.tree = vec![node("/", NodeKind::Directory, 0o755), node("/sub", NodeKind::Directory, 0o755)];
    let p = s.process(vec![]);
    let c = s.child_process();
    let (t, u) = (s.thread(p, false), s.thread(c, true));
    let mut flock = [0u8; 32];
    flock[0] = libc::F_WRLCK as u8;
    let flock = s.bytes(&flock);
    let set_lock = |slot| [Arg::Fd(slot), Arg::Value(libc::F_SETLK as u64), Arg::InOut(flock, 32)];
    s.open(t, "/f", RW, 0); // 1
    s.write(t, 0, b"0123456789"); // 2
    s.add(t, issue("lseek", &[Arg::Fd(0), Arg::Value(2), Arg::Value(0)], 2)); // 3
    s.add(t, issue("fcntl", &set_lock(0), 0)); // 4
    s.add(t, op("fork", Op::Spawn, &[], 77, [u, 0])); // 5
    // The child's lock conflicts with the parent's, though both are threads of one process here.
    s.add(u, issue("fcntl", &set_lock(0), EAGAIN)); // 1
    s.read(u, 0, b"23"); // 2: offset shared
    s.add(u, issue("umask", &[Arg::Value(0o077)], 0o022)); // 3
    let sub = s.text("/sub");
    s.add(u, issue("chdir", &[sub], 0)); // 4
    s.open(u, "in-sub", RW, 1); // 5
    s.add(u, issue("close", &[Arg::Fd(0)], 0)); // 6
    // The parent's descriptor is open still, its offset moved on, its directory and mask its own.
    s.add_after(t, &[(u, 6)], issue("umask", &[Arg::Value(0o022)], 0o022)); // 6
    s.read(t, 0, b"456"); // 7
    s.open(t, "in-root", RW, 2); // 8
    // Closing any descriptor of the file in the parent gives the lock up: the child obtains it, waiting.
    s.add(t, issue("close", &[Arg::Fd(0)], 0)); // 9
    s.open(u, "/f", RW, 3);
    let wait = [Arg::Fd(3), Arg::Value(libc::F_SETLKW as u64), Arg::InOut(flock, 32)];
    s.add_after(u, &[(t, 9)], Command { op: Op::Lock, ..issue("fcntl", &wait, 0) });
    s.exit(u);
    s.exit(t);
    let target = scratch.dir("target");
    let _ = run_same(&s.finish(), &target);
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &str| fs::metadata(target.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("sub/in-sub"), mode("in-root")), (0o600, 0o644));
}

#[test]
fn threads_share_and_execution_closes() {
    let scratch = Scratch::new("engine-threads");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let (t, u) = (s.thread(p, false), s.thread(p, true));
    s.add(t, op("clone", Op::Spawn, &[], 78, [u, 3])); // 1
    s.open(u, "/f", RW, 0); // 1
    s.write(u, 0, b"shared"); // 2
    s.add(u, op("dup2", Op::DuplicateTo, &[Arg::Fd(0), Arg::Value(9)], 9, [1, NONE])); // 3
    s.exit_thread(u); // 4
    s.add_after(t, &[(u, 4)], issue("lseek", &[Arg::Fd(1), Arg::Value(0), Arg::Value(0)], 0)); // 2
    s.read(t, 0, b"shared"); // 3: one description
    s.open(t, "/g", RW, 2);
    // dup2 onto the open slot 1 replaces it.
    let onto = op("dup2", Op::DuplicateTo, &[Arg::Fd(2), Arg::Fd(1)], 9, [1, NONE]);
    s.add(t, Command { list: vec![1], ..onto });
    s.write(t, 1, b"to g");
    let same = op("dup2", Op::DuplicateTo, &[Arg::Fd(1), Arg::Fd(1)], 9, [1, NONE]);
    s.add(t, Command { list: vec![1], ..same });
    s.add(t, Command { list: vec![2], ..op("execve", Op::Execute, &[], 0, [NONE, NONE]) });
    s.add(t, issue("fsync", &[Arg::Fd(2)], -(libc::EBADF as i64)));
    s.add(t, issue("fsync", &[Arg::Fd(1)], 0));
    s.exit(t);
    let target = scratch.dir("target");
    let _ = run_same(&s.finish(), &target);
    assert_eq!(fs::read(target.join("g")).unwrap(), b"to g");
}

impl Script {
    fn exit_thread(&mut self, thread: u32) {
        self.add(thread, op("exit", Op::Exit, &[Arg::Value(0)], 0, [0, NONE]));
    }
}

#[test]
fn processes_start_with_descriptors() {
    let scratch = Scratch::new("engine-start");
    let mut s = Script::new(scratch.path());
    let (at, length) = s.content(b"initial content");
    let mut file = node("/in", NodeKind::File, 0o644);
    file.size = length;
    file.extents = vec![reprise_plan::tree::Extent { offset: 0, length, buffer: at }];
    s.contents.tree = vec![node("/", NodeKind::Directory, 0o755), file, node("/pipe", NodeKind::Fifo, 0o600)];
    let fd = |slot, source| InitialFd { slot, source };
    let open =
        |path: &str, flags: i32, offset| FdSource::File { path: path.into(), flags: flags as u64, offset, seals: None };
    let p = s.process(vec![
        fd(0, FdSource::StandIn(StandIn::Null)),
        fd(1, open("/in", libc::O_RDONLY, 8)),
        fd(2, FdSource::Duplicate { slot: 1, close_on_exec: false }),
        fd(3, open("/pipe", libc::O_RDONLY, 0)),
        fd(4, open("/missing", libc::O_RDONLY, 0)),
        fd(5, FdSource::StandIn(StandIn::Epoll)),
    ]);
    let q = s.process(vec![]);
    let (t, u) = (s.thread(p, false), s.thread(q, false));
    s.read(t, 1, b"con");
    s.read(t, 2, b"tent");
    s.read(t, 0, b"");
    s.write(t, 4, b"to /dev/null");
    // Real pipes and simulated sockets.
    s.add(t, op("pipe2", Op::IssuePair, &[Arg::Out(8), Arg::Value(libc::O_NONBLOCK as u64)], 0, [6, 7]));
    s.write(t, 7, b"through");
    s.read(t, 6, b"through");
    s.add(t, issue("read", &[Arg::Fd(6), Arg::Out(1), Arg::Value(1)], EAGAIN));
    let pair = op("socketpair", Op::Simulate, &[], 0, [8, 9]);
    s.add(t, Command { stand_in: StandIn::Socket, ..pair });
    s.add(t, issue("close", &[Arg::Fd(9)], 0));
    s.add(u, issue("lseek", &[Arg::Fd(1), Arg::Value(0), Arg::Value(1)], -(libc::EBADF as i64)));
    s.exit(t);
    s.exit(u);
    let result = run_same(&s.finish(), &scratch.dir("target"));
    assert_eq!(result.threads, 2);
    let note = "a descriptor at the start could not be opened (ENOENT): /dev/null stands in";
    assert!(result.notes.contains(&(note.to_owned(), 1)), "{:?}", result.notes);
}

#[test]
fn two_threads_take_turns() {
    let scratch = Scratch::new("engine-turns");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let (t, u) = (s.thread(p, false), s.thread(p, true));
    s.open(t, "/f", RW | libc::O_APPEND, 0);
    s.add(t, op("clone", Op::Spawn, &[], 78, [u, 3]));
    for turn in 0..10_000u64 {
        let (byte, waits) = ([(turn % 251) as u8], [(t, turn + 2)]);
        let (at, _) = s.content(&byte);
        let write = |_: ()| issue("write", &[Arg::Fd(0), Arg::Content(at, 1), Arg::Value(1)], 1);
        s.add_after(u, &waits, write(()));
        s.add_after(t, &[(u, turn + 1)], issue("lseek", &[Arg::Fd(0), Arg::Value(0), Arg::Value(2)], turn as i64 + 1));
    }
    s.exit_thread(u);
    s.exit(t);
    let target = scratch.dir("target");
    let begin = Instant::now();
    let result = run_same(&s.finish(), &target);
    println!("20,000 turns: {:.0} ns each, {:?} in all", result.elapsed_ns as f64 / 20_000.0, begin.elapsed());
    let written = fs::read(target.join("f")).unwrap();
    assert!(written.len() == 10_000 && written.iter().enumerate().all(|(i, b)| *b == (i % 251) as u8));
    // Completion in the merged log respects every wait.
    let order: Vec<u64> = result.log.merged().map(|r| r.unwrap().origin).collect();
    assert!(order[..20_002].windows(2).all(|w| w[0] < w[1]));
}

#[test]
fn mappings_are_made_and_bounded() {
    let scratch = Scratch::new("engine-mappings");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    s.open(t, "/f", RW, 0);
    s.add(t, issue("ftruncate", &[Arg::Fd(0), Arg::Value(65536)], 0));
    let v = Arg::Value;
    let map = |s: &mut Script, length, slot| {
        let args = [v(0x7f00_0000_0000), v(length), v(7), v(libc::MAP_SHARED as u64 | 0x10), Arg::Fd(0), v(0)];
        s.add(t, op("mmap", Op::Map, &args, 0x7f00_0000_0000, [slot, NONE]));
    };
    map(&mut s, 65536, 0);
    let on = |name: &str, delta, args: &[u64], result| {
        let args: Vec<Arg> = std::iter::once(Arg::Mapped(0, delta)).chain(args.iter().map(|a| v(*a))).collect();
        op(name, Op::OnMapping, &args, result, [NONE, NONE])
    };
    s.add(t, on("msync", 0, &[65536, libc::MS_SYNC as u64], 0));
    s.add(t, on("madvise", 4096, &[8192, libc::MADV_DONTNEED as u64], 0));
    let part = [Arg::Mapped(0, 8192), v(4096), v(1), v(libc::MAP_PRIVATE as u64 | 0x10), Arg::Fd(0), v(0)];
    s.add(t, op("mmap", Op::Map, &part, 0x7f00_0000_2000, [NONE, NONE]));
    s.add(t, on("munmap", 4096, &[4096], 0));
    // Outside: skipped, whatever the numbers.
    s.add(t, on("munmap", 65536, &[4096], 0));
    s.add(t, on("munmap", u64::MAX - 100, &[4096], 0));
    s.add(t, on("mprotect", 0, &[u64::MAX, 3], 0));
    s.add(t, op("munmap", Op::OnMapping, &[Arg::Mapped(5, 0), v(4096)], 0, [NONE, NONE]));
    s.add(t, on("munmap", 0, &[65536], 0));
    map(&mut s, 4096, 1);
    s.add(
        t,
        op("mremap", Op::OnMapping, &[Arg::Mapped(1, 0), v(4096), v(1 << 20), v(1)], 0x7f00_0000_0000, [NONE, NONE]),
    );
    s.exit(t);
    let result = run_same(&s.finish(), &scratch.dir("target"));
    assert_eq!(result.counts.skipped, 4);
}

#[test]
fn what_is_logged_is_read_back() {
    let scratch = Scratch::new("engine-log");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    for _ in 0..5000 {
        s.add(t, Command { op: Op::Skip, ..issue("mount", &[], 0) });
        s.add(t, issue("umask", &[Arg::Value(0o022)], 0o023));
    }
    let result = run(&s.finish(), &scratch.dir("target"), &options()).unwrap();
    assert_eq!((result.counts.skipped, result.counts.diverged), (5000, 5000));
    assert_eq!(result.divergences.len(), 20);
    let mut last = 0;
    for (n, record) in result.log.merged().enumerate() {
        let record = record.unwrap();
        assert_eq!(record.origin, n as u64);
        assert!(record.begin_ns >= last && record.end_ns >= record.begin_ns);
        last = record.end_ns;
        match n % 2 {
            0 => assert_eq!(record.handling, Handling::Skipped),
            _ => assert_eq!((record.result, record.difference.class), (0o022, Class::Diverged)),
        }
    }
}

/// `vfork`-like: a child that shares the table, and runs another program or ends, leaves its parent's descriptors open.
#[test]
fn a_shared_table_outlives_the_child() {
    let scratch = Scratch::new("engine-joined");
    let mut s = Script::new(scratch.path());
    let (p, c, d) = (s.process(vec![]), s.child_process(), s.child_process());
    let (t, u, v) = (s.thread(p, false), s.thread(c, true), s.thread(d, true));
    s.open(t, "/f", RW | libc::O_CLOEXEC, 0); // 1
    s.add(t, op("clone", Op::Spawn, &[], 78, [u, 1])); // 2
    s.add(t, op("clone", Op::Spawn, &[], 79, [v, 1])); // 3
    s.write(u, 0, b"child");
    s.add_after(u, &[(t, 3)], Command { list: vec![0], ..op("execve", Op::Execute, &[], 0, [NONE, NONE]) });
    s.add(u, issue("fsync", &[Arg::Fd(0)], -(libc::EBADF as i64)));
    s.exit(u);
    s.add_after(v, &[(t, 3)], issue("fsync", &[Arg::Fd(0)], 0));
    s.exit(v);
    s.add_after(t, &[(u, 4), (v, 2)], issue("lseek", &[Arg::Fd(0), Arg::Value(0), Arg::Value(1)], 5));
    s.exit(t);
    let _ = run_same(&s.finish(), &scratch.dir("target"));
}

/// Stand-ins for `/dev/null` are the confined one, or none of the machine's.
#[test]
fn stand_ins_do_not_lead_to_the_machine() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new("engine-null");
    let before = fs::metadata("/dev/null").unwrap();
    let mut s = Script::new(scratch.path());
    let mut null = node("/dev/null", NodeKind::CharDevice, 0o666);
    null.rdev = libc::makedev(1, 3);
    s.contents.tree = vec![node("/", NodeKind::Directory, 0o755), node("/dev", NodeKind::Directory, 0o755), null];
    let stand_in = || InitialFd { slot: 0, source: FdSource::StandIn(StandIn::Null) };
    let p = s.process(vec![stand_in()]);
    let t = s.thread(p, false);
    s.write(t, 0, b"thrown away");
    s.read(t, 0, b"");
    for mode in [0o640, 0o600] {
        let refused = -(libc::EROFS as i64);
        s.add(t, issue("fchmod", &[Arg::Fd(0), Arg::Value(mode)], refused));
    }
    s.exit(t);
    let _ = run_same(&s.finish(), &scratch.dir("with"));
    // Without a /dev/null in the tree: a file in memory.
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![stand_in()]);
    let t = s.thread(p, false);
    s.add(t, issue("fchmod", &[Arg::Fd(0), Arg::Value(0o640)], 0));
    s.exit(t);
    let _ = run_same(&s.finish(), &scratch.dir("without"));
    let after = fs::metadata("/dev/null").unwrap();
    assert_eq!((before.mode(), before.uid(), before.ctime()), (after.mode(), after.uid(), after.ctime()));
}
