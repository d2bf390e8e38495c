//! What happens to a replay in its middle: signals, kills, limits, devices that fail, targets that vanish, clocks that jump, a disk
//! that is full when the result is to be written. Each ends clearly, with a result that says how far it came.

mod means;

use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use means::{Said, has, kill, mkdir, record, reprise, run, until};
use reprise_testkit::scratch::{Kind, LoopFs, Scratch, is_root};
use reprise_testkit::{program, skip, tree};

const TARGET: i32 = 5;
const MACHINE: i32 = 6;
const INTERRUPTED: i32 = 7;
const SYSTEM: i32 = 8;

/// A program that pauses, so that a slow replay of it can be met in its middle.
const PAUSES: &str = "echo a > f; sleep 0.2; echo b > g";
/// Its pause takes 40 s.
const SLOW: [&str; 4] = ["--pace", "x200", "-q", "--json"];

fn start(dir: &Path, target: &str, more: &[&str]) -> Child {
    let args = [&["replay", "t.reprise", "--target", target][..], more].concat();
    let mut command = reprise(dir, &args);
    // A group of its own, whose parent is in the same session: no terminal can stop a group that has none.
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn said(child: Child) -> Said {
    Said::new("replay".to_owned(), child.wait_with_output().unwrap())
}

/// Where a replay makes the first file of these programs.
fn first_file(dir: &Path, target: &str) -> PathBuf {
    dir.join(target).join(dir.strip_prefix("/").unwrap()).join("f")
}

/// A slow replay in its pause.
fn pausing(dir: &Path, target: &str, more: &[&str]) -> Child {
    let first = first_file(dir, target);
    let child = start(dir, target, &[&SLOW, more].concat());
    until("the first file", || first.metadata().is_ok_and(|about| about.len() > 0));
    child
}

fn state(process: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    text.rsplit(')').next().unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn signals() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    record(dir, "t.reprise", PAUSES);
    mkdir(dir, "t");
    for (number, signal) in [libc::SIGHUP, libc::SIGQUIT].into_iter().enumerate() {
        let result = format!("r{number}.reprise");
        let child = pausing(dir, "t", &["-o", &result]);
        kill(child.id(), signal);
        said(child).fails(INTERRUPTED, &["interrupted", "go on with `reprise replay"]);
        assert!(dir.join(result).exists());
        fs::remove_dir_all(dir.join("t")).unwrap();
        mkdir(dir, "t");
    }
    // Stopped by the terminal, and continued.
    let child = pausing(dir, "t", &[]);
    kill(child.id(), libc::SIGTSTP);
    until("it stops", || state(child.id()) == "T");
    kill(child.id(), libc::SIGCONT);
    until("it goes on", || state(child.id()) != "T");
    kill(child.id(), libc::SIGTERM);
    said(child).fails(INTERRUPTED, &["interrupted"]);
}

#[test]
fn a_terminal_that_may_go_away() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    record(dir, "t.reprise", PAUSES);
    mkdir(dir, "t");
    let binary = program::reprise().unwrap();
    let script = format!("trap '' HUP; exec '{}' replay t.reprise --target t --pace x200 -q", binary.display());
    let mut command = Command::new("sh");
    let command = command.args(["-c", &script]).current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let first = first_file(dir, "t");
    until("the first file", || first.exists());
    kill(child.id(), libc::SIGHUP);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_ne!(state(child.id()), "Z", "it ended by a signal that it was to ignore");
    kill(child.id(), libc::SIGTERM);
    said(child).fails(INTERRUPTED, &["interrupted"]);
}

/// Whether records of the first thread are in a log: its batches, by what FORMAT of the log says of their heads.
fn has_first_thread(log: &Path) -> bool {
    let Ok(file) = fs::File::open(log) else { return false };
    let (mut at, mut head) = (0, [0; 32]);
    while file.read_exact_at(&mut head, at).is_ok() {
        if head[4..8] == [0; 4] {
            return true;
        }
        at += 32 + u64::from_le_bytes(head[8..16].try_into().unwrap());
    }
    false
}

/// Records a program of several threads of which the first one only waits; what it left behind.
fn workers(name: &str, dir: &Path) -> Option<PathBuf> {
    if !has("cc") {
        skip(name, "there is no C compiler (cc)");
        return None;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/resume/workers.c");
    program::succeed(Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(dir.join("workers")).arg(source));
    let work = mkdir(dir, "work");
    let backend = program::exact_backend();
    let words = ["record", "-q", "-o", "t.reprise"].into_iter().chain(backend.iter().map(String::as_str));
    run(dir, &words.chain(["--", "./workers", "work", "30"]).collect::<Vec<_>>()).ends(0);
    Some(PathBuf::from(work))
}

#[test]
fn killed_and_resumed() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    let Some(work) = workers("killed_and_resumed", dir) else { return };
    mkdir(dir, "t");
    let slow = ["--pace", "x15", "-q", "--json", "-o", "r.reprise"];
    let left = dir.join("r.reprise.unfinished");
    let mut child = start(dir, "t", &slow);
    until("a log", || has_first_thread(&left.join("log")));
    // Nobody takes a log away that is being written, or writes another one in its place.
    let resume = ["replay", "t.reprise", "--target", "t", "--resume", "r.reprise", "-o", "r.2.reprise", "-q", "--json"];
    run(dir, &resume).fails(2, &["still runs", "kill"]);
    kill(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    assert!(!dir.join("r.reprise").exists());
    let again = [&["replay", "t.reprise", "--target", "t"][..], &slow].concat();
    run(dir, &again).fails(2, &["killed", "--resume r.reprise -o r.2.reprise", "rm -r"]);
    let second = run(dir, &resume).ends(0).json();
    let first = second["continues"]["first_action"].as_u64().unwrap();
    assert!(first > 0 && second["diverged"] == 0, "{second:#}");
    assert!(dir.join("r.reprise").exists() && !left.exists());
    let info = run(dir, &["info", "--json", "r.reprise"]).ends(0).json();
    assert!(info.to_string().contains("killed"), "{info:#}");
    run(dir, &["verify", "t.reprise", "r.2.reprise"]).ends(0);
    let there = dir.join("t").join(work.strip_prefix("/").unwrap());
    let differences = tree::differences(&tree::walk(&work), &tree::walk(&there));
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn a_worker_that_is_killed() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    if workers("a_worker_that_is_killed", dir).is_none() {
        return;
    }
    mkdir(dir, "t");
    let child = start(dir, "t", &["--pace", "x15", "-q", "--json", "-o", "r.reprise"]);
    until("a log", || has_first_thread(&dir.join("r.reprise.unfinished/log")));
    let task = format!("/proc/{0}/task/{0}/children", child.id());
    let below = fs::read_to_string(task).unwrap();
    // The worker, or whoever waits for it in a namespace of its own.
    let worker = below.split_whitespace().last().unwrap().parse().unwrap();
    kill(worker, libc::SIGKILL);
    let said = said(child);
    said.fails(SYSTEM, &["was killed (SIGKILL", "go on with `reprise replay t.reprise --target t --resume r.reprise"]);
    assert!(said.json()["cut"].as_u64() > Some(0), "{said:#?}");
    assert!(!dir.join("r.reprise.unfinished").exists());
}

#[test]
fn no_room_for_the_result() {
    let small = match LoopFs::new(Kind::Ext4, 8 << 20) {
        Ok(small) => small,
        Err(why) => return skip("no_room_for_the_result", &why),
    };
    let scratch = Scratch::new();
    let dir = scratch.path();
    record(dir, "t.reprise", "echo a > f; cat f > g; rm f");
    mkdir(dir, "t");
    let result = small.path().join("r.reprise");
    let result = result.to_str().unwrap();
    let fill = mkdir(&small.path(), "fill");
    // Room for the three files that are kept while it runs, not for a trace.
    let full = format!("cd '{fill}'; i=0; while printf '' > $i; do i=$((i+1)); done 2> /dev/null; rm 0 1 2");
    let replay = ["replay", "t.reprise", "--target", "t", "-o", result, "-q", "--before-start", &full];
    run(dir, &replay).fails(SYSTEM, &["No space left", "what was done is kept", "--resume", "r.reprise"]);
    let resume = ["replay", "t.reprise", "--target", "t", "--resume", result, "-q"];
    run(dir, &resume).fails(SYSTEM, &["No space left"]);
    fs::remove_dir_all(fill).unwrap();
    assert!(run(dir, &resume).ends(0).out.contains("reprise verify t.reprise"));
    run(dir, &["verify", "t.reprise", result]).ends(0);
}

#[test]
fn more_descriptors_than_permitted() {
    let name = "more_descriptors_than_permitted";
    if !is_root() || !["bash", "prlimit", "setpriv"].into_iter().all(has) {
        return skip(name, "needs root, bash, prlimit and setpriv");
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let script = "ulimit -n 4096; for i in $(seq 1400); do exec {n}<>f; done; echo x >&$n";
    run(dir, &["record", "-q", "-o", "t.reprise", "--", "bash", "-c", script]).ends(0);
    mkdir(dir, "t");
    let binary = program::reprise().unwrap().display().to_string();
    let replay = |before: &[&str]| {
        let mut command = Command::new(before[0]);
        let words = [&before[1..], &[&binary, "replay", "t.reprise", "--target", "t", "-q"]].concat();
        Said::new(words.join(" "), program::run(command.args(words).current_dir(dir)))
    };
    // Root raises what it is given, unless it is root without that right.
    let raises = ["--nofile=512:512", "sh", "-c", "ulimit -Hn 1024"];
    if Command::new("prlimit").args(raises).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        replay(&["prlimit", "--nofile=512:512"]).ends(0);
    }
    let poor = ["setpriv", "--bounding-set", "-sys_resource", "--inh-caps", "-sys_resource"];
    replay(&[&["prlimit", "--nofile=512:512"], &poor[..]].concat())
        .fails(MACHINE, &["EMFILE", "`ulimit -n ", "with sudo"]);
    replay(&[&["prlimit", "--nofile=512:8192"], &poor[..]].concat()).ends(0);
}

/// How many watch queues a user may have bounds no replay, whose threads may have more of them at once than the program had.
#[test]
fn watch_queues_where_none_is_permitted() {
    let name = "watch_queues_where_none_is_permitted";
    let none = "echo 0 > /proc/sys/user/max_inotify_instances";
    let inside = |script: &str, dir: &Path| {
        let words = ["-Ur", "sh", "-c", script];
        Said::new(script.to_owned(), program::run(Command::new("unshare").args(words).current_dir(dir)))
    };
    let scratch = Scratch::new();
    let dir = scratch.path();
    if !has("unshare") || !has("python3") || !inside(none, dir).err.is_empty() {
        return skip(name, "needs python3, and user namespaces with limits of their own");
    }
    let watch = r#"
import ctypes, fcntl, os
libc = ctypes.CDLL(None)
queues = [libc.inotify_init1(os.O_CLOEXEC) for _ in range(3)] + [libc.inotify_init()]
assert min(queues) >= 0
watched = libc.inotify_add_watch(queues[0], b".", 0x100)
open("made", "w").close()
assert len(os.read(queues[0], 4096)) >= 16
assert libc.inotify_rm_watch(queues[0], watched) == 0
copy = os.dup(queues[1])
os.dup2(queues[2], 50)
fcntl.fcntl(copy, fcntl.F_DUPFD, 60)
fcntl.fcntl(copy, fcntl.F_SETFL, os.O_NONBLOCK)
for call in (lambda: os.read(copy, 100), lambda: os.write(copy, b"x" * 8), lambda: os.lseek(copy, 0, 0), lambda: os.fsync(copy)):
    try:
        call()
    except OSError:
        pass
os.fstat(copy)
for number in queues:
    os.close(number)
"#;
    fs::write(dir.join("watch.py"), watch).unwrap();
    run(dir, &["record", "-q", "-o", "t.reprise", "--", "python3", "-B", "watch.py"]).ends(0);
    mkdir(dir, "t");
    assert_ne!(inside(&format!("{none} && python3 -B watch.py"), dir).code, Some(0), "there is no limit here");
    let replay =
        format!("'{}' replay t.reprise --target t -o r.reprise -q --json", program::reprise().unwrap().display());
    let said = inside(&format!("{none} && {replay}"), dir);
    assert_eq!(said.ends(0).json()["diverged"], 0, "{said:#?}");
}

/// A control group that permits few processes.
struct Few(PathBuf);

impl Few {
    fn new(most: u32) -> Option<Few> {
        let top = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].into_iter().map(Path::new);
        let mut made = top.map(|top| Few(top.join(format!("reprise-few-{}", std::process::id()))));
        made.find(|few| fs::create_dir(&few.0).is_ok() && fs::write(few.0.join("pids.max"), most.to_string()).is_ok())
    }
}

impl Drop for Few {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn more_threads_than_permitted() {
    let Some(few) = Few::new(24) else {
        return skip("more_threads_than_permitted", "no control group can be made that limits processes");
    };
    let scratch = Scratch::new();
    let dir = scratch.path();
    record(
        dir,
        "t.reprise",
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do sleep 0.5 & done; wait",
    );
    mkdir(dir, "t");
    let script = format!(
        "echo $$ > '{}/cgroup.procs' && exec '{}' replay t.reprise --target t -q --pace natural -o r.reprise",
        few.0.display(),
        program::reprise().unwrap().display()
    );
    let said = Said::new(script.clone(), program::run(Command::new("sh").args(["-c", &script]).current_dir(dir)));
    said.fails(MACHINE, &["cannot start a thread", "24 by a control group", "pids.max", "--resume r.reprise"]);
    run(dir, &["replay", "t.reprise", "--target", "t", "--resume", "r.reprise", "-q"]).ends(0);
}

#[test]
fn a_device_that_fails() {
    let name = "a_device_that_fails";
    let fs64 = match LoopFs::new(Kind::Ext4, 64 << 20) {
        Ok(made) if is_root() => made,
        Ok(_) => return skip(name, "needs root"),
        Err(why) => return skip(name, &why),
    };
    let scratch = Scratch::new();
    let dir = scratch.path();
    fs::write(dir.join("big"), vec![7; 24 << 20]).unwrap();
    record(dir, "t.reprise", "echo begin > log; cat big > /dev/null; echo end > log");
    let target = mkdir(&fs64.path(), "t");
    // What lies behind the device ends in the middle of the file: reads beyond it fail.
    let image = fs64.path().parent().unwrap().join("image");
    let cut = format!("truncate -s 12M '{}'", image.display());
    let args = [
        "replay",
        "t.reprise",
        "--target",
        &target,
        "--cold",
        "--before-start",
        &cut,
        "-q",
        "--json",
        "-o",
        "r.reprise",
    ];
    let said = run(dir, &args);
    said.fails(TARGET, &["device fails", "EIO", "dmesg", "--resume r.reprise"]);
    assert!(said.json()["cut"].as_u64() > Some(0), "{said:#?}");
    mkdir(dir, "other");
    run(dir, &["replay", "t.reprise", "--target", "other", "--resume", "r.reprise", "-q"]).ends(0);
    run(dir, &["verify", "--tree", "t.reprise", "other"]).ends(0);
}

#[test]
fn a_target_that_vanishes() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    record(dir, "t.reprise", "echo a > f; sleep 0.2; cat f > g; echo b > h");
    mkdir(dir, "t");
    let child = start(dir, "t", &["--pace", "x8", "-q", "-o", "r.reprise"]);
    let first = first_file(dir, "t");
    until("the first file", || first.metadata().is_ok_and(|about| about.len() > 0));
    fs::remove_dir_all(dir.join("t")).unwrap();
    said(child).fails(TARGET, &["was removed", "another directory", "--resume r.reprise"]);
    mkdir(dir, "other");
    run(dir, &["replay", "t.reprise", "--target", "other", "--resume", "r.reprise", "-q"]).ends(0);
    run(dir, &["verify", "--tree", "t.reprise", "other"]).ends(0);
}

/// Waits and times are the kernel's monotonic clock, which a namespace may have moved.
#[test]
fn a_namespace_with_a_time_of_its_own() {
    let name = "a_namespace_with_a_time_of_its_own";
    let moved = ["--time", "--monotonic", "100000", "--boottime", "100000"];
    let possible = Command::new("unshare").args(moved).arg("true").stderr(Stdio::null()).status();
    if !possible.is_ok_and(|status| status.success()) {
        return skip(name, "`unshare --time` is not possible");
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    record(dir, "t.reprise", PAUSES);
    mkdir(dir, "t");
    let binary = program::reprise().unwrap();
    let words = ["replay", "t.reprise", "--target", "t", "--pace", "natural", "--json", "-q"];
    let mut command = Command::new("unshare");
    let command = command.args(moved).arg(binary).args(words).current_dir(dir);
    let said = Said::new(format!("{command:?}"), program::run(command));
    let document = said.ends(0).json();
    let took = document["replay_ns"].as_u64().unwrap();
    assert!((100_000_000..60_000_000_000).contains(&took), "{document:#}");
}

/// The clock of the day is set three days forth, then back. It is the machine's: only on request.
#[test]
fn a_clock_that_jumps() {
    let name = "a_clock_that_jumps";
    if !is_root() || std::env::var_os("REPRISE_SET_CLOCK").is_none() {
        return skip(name, "sets the machine's clock: as root with REPRISE_SET_CLOCK=1");
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    record(dir, "t.reprise", "echo a > f; sleep 1; echo b > g");
    mkdir(dir, "t");
    let child = start(dir, "t", &["--pace", "natural", "-q", "--json", "-o", "r.reprise"]);
    let first = first_file(dir, "t");
    until("the first file", || first.exists());
    let jump = |by: &str| program::succeed(Command::new("date").args(["-s", by]).stdout(Stdio::null()));
    jump("+3 days");
    jump("-3 days");
    let document = said(child).ends(0).json();
    let took = document["replay_ns"].as_u64().unwrap();
    assert!((900_000_000..60_000_000_000).contains(&took), "{document:#}");
    let samples = run(dir, &["environment", "--json", "r.reprise"]);
    let samples = &samples.ends(0).out;
    assert!(!samples.contains("time_ns\":2592"), "a sample three days away: {samples}");
}
