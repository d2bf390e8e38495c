//! The options of recording in the kernel: memory between kernel and disk, limits, samples, what happens while the trace is
//! made, and which backend `auto` takes. The oracles are `du`, `/proc` and what the recorded programs did.

mod means;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use means::{Said, in_kernel, kill, mkdir, reprise, run, until};
use reprise_testkit::scratch::{Scratch, is_root};
use reprise_testkit::{program, skip};
use serde_json::Value;

fn ebpf(dir: &Path, args: &[&str]) -> Said {
    run(dir, &[&["record", "--backend", "ebpf"], args].concat())
}

fn info(dir: &Path, trace: &str) -> Value {
    run(dir, &["info", "--json", trace]).ends(0).json()
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_else(|| panic!("no {name} in {row}"))
}

/// The summary, which is the last line.
fn summary(said: &Said) -> Value {
    serde_json::from_str(said.err.lines().last().unwrap_or_default()).unwrap_or_else(|e| panic!("{e}: {said:#?}"))
}

/// What a directory takes on disk.
fn du(path: &Path) -> u64 {
    let out = Command::new("du").args(["-s", "-B1"]).arg(path).output().expect("du");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// So many bytes that do not compress.
fn noise(path: &Path, mib: u64) {
    let count = format!("count={mib}");
    let of = format!("of={}", path.display());
    program::succeed(Command::new("dd").args(["if=/dev/urandom", "bs=1M", &count, &of]).stderr(Stdio::null()));
}

#[test]
fn memory_between_kernel_and_disk() {
    let s = Scratch::new();
    let dir = s.path();
    for (args, words) in [
        (["--backend", "ebpf", "--ring", "2M"], "--ring 2M: give"),
        (["--backend", "ebpf", "--ring", "2G"], "to 1024M"),
        (["--backend", "ptrace", "--ring", "64M"], "--ring is for --backend ebpf"),
        (["--backend", "ptrace", "--on-full", "drop"], "--on-full is for --backend ebpf"),
        (["--backend", "ptrace", "--sink", "null"], "--sink is for --backend ebpf"),
    ] {
        run(dir, &[&["record"], &args[..], &["--", "true"]].concat()).fails(2, &[words]);
    }
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "nothing was begun");
    if !in_kernel("memory_between_kernel_and_disk", dir) {
        return;
    }
    // Writes of more than there is memory: no matter how fast the disk is, a record of them finds no room.
    let writes = ["dd", "if=/dev/zero", "of=out", "bs=256M", "count=2"];
    let dropping = ["--json", "--ring", "8M", "--on-full", "drop", "-o", "drop", "--"];
    let said = ebpf(dir, &[&dropping[..], &writes[..]].concat());
    let (json, info_dropped) = (summary(said.ends(0)), info(dir, "drop"));
    let dropped = number(&json["in_kernel"], "dropped");
    assert!(dropped > 0 && number(&json["in_kernel"], "waits") == 0, "{json}");
    let counted: u64 = entries(&info_dropped, "dropped").iter().map(|(_, count)| count).sum();
    assert_eq!(counted, dropped, "each is counted once: {}", info_dropped["ledger"]);
    let blocking = ["--json", "--ring", "8M", "-o", "block", "--"];
    let said = ebpf(dir, &[&blocking[..], &writes[..]].concat());
    let json = summary(said.ends(0));
    let waiting = info(dir, "block")["facts"]["waiting_for_room"].clone();
    if waiting != "yes" {
        return skip("memory_between_kernel_and_disk", &format!("threads can wait {waiting}"));
    }
    assert_eq!(number(&json["in_kernel"], "dropped"), 0, "{json}");
    assert_eq!(entries(&info(dir, "block"), "dropped"), [], "{json}");
    assert_eq!(number(&json, "bytes") >> 20, 1024, "512 MiB were read, and written: {json}");
}

fn entries(info: &Value, word: &str) -> Vec<(String, u64)> {
    let causes = info["ledger"]["losses"][word].as_object().cloned().unwrap_or_default();
    causes.into_iter().map(|(cause, entry)| (cause, number(&entry, "count"))).collect()
}

#[test]
fn nothing_is_kept_where_only_the_cost_is_measured() {
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("nothing_is_kept", dir) {
        return;
    }
    let writes = ["--", "dd", "if=/dev/zero", "of=out", "bs=1M", "count=64"];
    let said = ebpf(dir, &[&["--sink", "null", "--json", "-q", "-o", "t"], &writes[..]].concat());
    let json = summary(said.ends(0));
    assert!(json["trace"].is_null() && number(&json["in_kernel"], "records") > 128, "{json}");
    // Read from /dev/zero and written, each with little around it.
    assert!((128..160).contains(&(number(&json, "bytes") >> 20)), "{json}");
    let said = ebpf(dir, &[&["--sink", "null"], &writes[..]].concat());
    assert!(said.ends(0).err.contains("went nowhere"), "{said:#?}");
    let left: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name == "t" || name == "dd.reprise"), "{left:?}");
}

/// The oracles: `du` while the program runs and after it, and the same program recorded without a limit.
#[test]
fn a_limit_holds_for_spool_and_trace() {
    const LIMIT: u64 = 64 << 20;
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("a_limit_holds", dir) {
        return;
    }
    noise(&dir.join("noise"), 4);
    let script = "i=0; while [ $i -lt 60 ]; do dd if=noise of=f$i bs=64k 2>/dev/null; i=$((i+1)); done; exit 7";
    ebpf(dir, &["-q", "--data", "none", "-o", "all", "--", "sh", "-c", script]).ends(7);
    let all = number(&info(dir, "all"), "actions");
    let mut command =
        reprise(dir, &["record", "--backend", "ebpf", "--max-size", "64M", "-o", "t", "--", "sh", "-c", script]);
    let mut recorder = command.stderr(Stdio::piped()).spawn().expect("started");
    let mut most = 0;
    until("it ends", || {
        most = most.max(if dir.join("t").exists() { du_or_nothing(&dir.join("t")) } else { 0 });
        recorder.try_wait().expect("its state").is_some()
    });
    let said = Said::new("record".into(), recorder.wait_with_output().expect("its end"));
    assert!(said.ends(7).err.contains("reached the size it may have; the program goes on"), "{said:#?}");
    assert!(most <= LIMIT && most > 8 << 20, "{most} of {LIMIT}");
    for i in 0..60 {
        program::succeed(Command::new("cmp").args(["noise", &format!("f{i}")]).current_dir(dir));
    }
    let info = info(dir, "t");
    let dropped = entries(&info, "dropped");
    assert_eq!(dropped.len(), 1, "{}", info["ledger"]);
    assert_eq!(dropped[0].0, format!("came after the trace had reached its limit of {LIMIT} bytes"));
    // A call that a signal interrupts is passed by once more when it is restarted.
    let counted = number(&info, "actions") + dropped[0].1;
    // Which loads are first touches depends on where memory lies.
    assert!((all - 60..all + 60).contains(&counted), "{counted}, and without a limit {all}");
    assert!(number(&info, "actions") > 100, "{}", info["ledger"]);
    // The beginning replays.
    let target = mkdir(dir, "target");
    run(dir, &["replay", "-q", "t", "--target", &target]).ends(0);
    let inside = Path::new(&target).join(dir.canonicalize().unwrap().strip_prefix("/").unwrap());
    program::succeed(Command::new("cmp").arg("noise").arg(inside.join("f0")).current_dir(dir));
}

/// Files come and go while `du` looks.
fn du_or_nothing(path: &Path) -> u64 {
    std::panic::catch_unwind(|| du(path)).unwrap_or(0)
}

/// Whoever is not patient has lost nothing; contents go where they should even then.
#[test]
fn interrupted_while_the_trace_is_made() {
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("interrupted_while_the_trace_is_made", dir) {
        return;
    }
    noise(&dir.join("noise"), 128);
    // `cat` and `cp` would move the content inside the kernel.
    let script = "dd if=noise of=copy bs=1M status=none; echo > end";
    let args = ["record", "--backend", "ebpf", "--blobs", "place", "-o", "t", "--", "sh", "-c", script];
    let mut recorder = reprise(dir, &args).stderr(Stdio::piped()).spawn().expect("started");
    until("the program has ended", || dir.join("end").exists());
    // Before the program has ended it would get them. SIGINT may be ignored where tests run in the background.
    std::thread::sleep(Duration::from_millis(50));
    until("it ends, too", || {
        kill(recorder.id(), libc::SIGTERM);
        std::thread::sleep(Duration::from_millis(20));
        recorder.try_wait().expect("its state").is_some()
    });
    let said = Said::new("record".into(), recorder.wait_with_output().expect("its end"));
    said.fails(7, &["interrupted", "reprise recover t"]);
    assert!(dir.join("t/spool").exists(), "{said:#?}");
    run(dir, &["recover", "t"]).ends(0);
    assert!(!dir.join("t/spool").exists());
    assert_eq!(fs::read_dir(dir.join("place")).unwrap().count(), 1, "the first attempt's contents are gone");
    assert!(fs::read_link(dir.join("t/blobs")).is_ok());
    run(dir, &["info", "--check", "t"]).ends(0);
    assert!(!run(dir, &["environment", "--json", "t"]).ends(0).out.is_empty(), "samples survive");
    let target = mkdir(dir, "target");
    run(dir, &["replay", "-q", "t", "--target", &target]).ends(0);
}

/// A disk that is full ends the recording, not the program; what was kept becomes a trace when there is room.
#[test]
fn no_room_for_the_spool() {
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("no_room_for_the_spool", dir) {
        return;
    }
    noise(&dir.join("noise"), 16);
    let script = "echo first > first; sleep 2.5; dd if=noise of=copy bs=64k status=none; exit 9";
    let binary = program::reprise().expect("built");
    // A limit on the size of files is met as a full disk is: 8 MiB in units of 512 bytes.
    let limited =
        format!("ulimit -f 16384; exec {} record --backend ebpf --ring 4M -o t -- sh -c '{script}'", binary.display());
    let said = said_by(dir, Command::new("sh").args(["-c", &limited]));
    // `dd` meets the same limit, and dies of it as it would without a recorder.
    assert!(fs::metadata(dir.join("copy")).unwrap().len() <= 8 << 20);
    said.fails(125, &["File too large", "went on unrecorded (it ended with exit code 9)", "reprise recover t"]);
    assert!(said.err.contains("ulimit -f") && !said.err.contains("make room"), "{said:#?}");
    run(dir, &["recover", "-q", "t"]).ends(0);
    run(dir, &["info", "--check", "t"]).ends(0);
    let cat = run(dir, &["cat", "t", "--path", "first"]);
    assert!(cat.ends(0).out.contains("openat"), "{cat:#?}");
    fs::create_dir(dir.join("r")).unwrap();
    let replay = run(dir, &["replay", "--json", "t", "--target", "r"]);
    assert!(replay.out.contains("is not complete: the raw recording could not be written any further"), "{replay:#?}");
}

/// A shell that lets few files be open is no obstacle; the program has that limit all the same, and no limit is made known.
#[test]
fn few_descriptors() {
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("few_descriptors", dir) {
        return;
    }
    let binary = program::reprise().expect("built");
    for (backend, limits, told) in [("ebpf", "-Sn 70", "70 "), ("auto", "-Sn 70", "70 "), ("ptrace", "-Sn 70", "70 ")] {
        let script =
            "ulimit -Sn > soft; ulimit -Hn > hard; prlimit --nofile -o SOFT,HARD --noheadings > both 2> /dev/null";
        let limited = format!(
            "ulimit {limits}; ulimit -Hn > its; exec {} record -q --backend {backend} -o {backend} -- sh -c '{script}'",
            binary.display()
        );
        said_by(dir, Command::new("sh").args(["-c", &limited])).ends(0);
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        assert_eq!((read("soft").trim(), read("hard")), (told.trim(), read("its")), "{backend}");
    }
    // The hard one helps nobody.
    let limited = format!("ulimit -n 70; exec {} record --backend ebpf -o none -- true", binary.display());
    said_by(dir, Command::new("sh").args(["-c", &limited])).fails(6, &["Too many open files", "ulimit -Hn", "ptrace"]);
    assert!(!dir.join("none").exists());
}

/// An error of writing names what helps against it.
#[test]
fn places_that_cannot_be_written_to() {
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("places_that_cannot_be_written_to", dir) {
        return;
    }
    let said = ebpf(dir, &["-o", "/sys/x.reprise", "--", "true"]);
    said.fails(125, &["/sys/x.reprise", "choose another place with -o"]);
    assert!(!said.err.contains("make room"), "{said:#?}");
    // Its directory gets another name meanwhile.
    noise(&dir.join("noise"), 16);
    let script = "echo first > first; sleep 1.5; mv t moved; dd if=noise of=copy bs=64k count=16 status=none; exit 9";
    let said = ebpf(dir, &["--ring", "4M", "-o", "t", "--", "sh", "-c", script]);
    said.fails(125, &["t/spool", "moved or removed", "reprise recover DIRECTORY"]);
    assert!(!said.err.contains("make room"), "{said:#?}");
    run(dir, &["recover", "-q", "moved"]).ends(0);
    assert!(run(dir, &["cat", "moved", "--path", "copy"]).ends(0).out.contains("openat"));
}

/// What cannot be run leaves nothing behind; the exit codes are a shell's.
#[test]
fn what_cannot_be_run() {
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("what_cannot_be_run", dir) {
        return;
    }
    fs::write(dir.join("plain"), "echo hi").unwrap();
    let blobs = ["-o", "t", "--blobs", "place", "--"];
    ebpf(dir, &[&blobs[..], &["/no/such/program"]].concat()).fails(127, &["/no/such/program: command not found"]);
    ebpf(dir, &[&blobs[..], &["./plain"]].concat()).fails(126, &["./plain: cannot be executed"]);
    ebpf(dir, &["-o", "t", "--tree", "nowhere", "--", "true"]).fails(2, &["nowhere", "--tree"]);
    assert!(!dir.join("t").exists() && fs::read_dir(dir.join("place")).map_or(0, Iterator::count) == 0);
    // A script without an interpreter line is the shell's; a program may end with 126 by itself.
    program::succeed(Command::new("chmod").args(["+x", "plain"]).current_dir(dir));
    assert_eq!(ebpf(dir, &["-q", "-o", "script", "--", "./plain"]).ends(0).out, "hi\n");
    ebpf(dir, &["-q", "-o", "t", "--", "sh", "-c", "exit 126"]).ends(126);
    assert!(dir.join("t").exists());
}

/// A process whose parent is gone is one of the recorded all the same.
#[test]
fn samples_know_processes_without_parents() {
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("samples_know_processes_without_parents", dir) {
        return;
    }
    let script = "(sleep 0.6 & sleep 0.6 &) ; sleep 0.5";
    ebpf(dir, &["-q", "--sample-every", "20", "-o", "t", "--", "sh", "-c", script]).ends(0);
    let out = run(dir, &["environment", "--json", "t"]);
    let rows: Vec<Value> = out.ends(0).out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |n| rows.iter().filter(|row| number(row, "processes") == n).count();
    // The shell, its own sleep, and two that init has adopted; then these two alone.
    assert!(count(4) > 5 && count(2) > 0, "{rows:?}");
    assert!(rows.iter().any(|row| number(row, "resident_bytes") > 1 << 20), "{rows:?}");
    assert_eq!(number(rows.last().unwrap(), "processes"), 0, "{rows:?}");
    assert_eq!(info(dir, "t")["facts"]["samples"], "every 20 ms");
}

/// What `auto` takes where the kernel cannot be asked: no rights, no types.
#[test]
fn auto_says_what_it_takes_and_why() {
    let s = Scratch::new();
    let dir = s.path();
    let auto = |trace: &str, flags: &[&str]| {
        run(dir, &[&["record", "--backend", "auto", "-o", trace], flags, &["--", "true"]].concat())
    };
    let said = auto("usual", &["--json"]);
    let json = summary(said.ends(0));
    let (backend, why) = (json["backend"].as_str().unwrap(), json["why"].as_str().unwrap());
    assert!(["ebpf", "ptrace"].contains(&backend) && !why.is_empty(), "{json}");
    assert_eq!(said.err.lines().count(), 1, "{said:#?}");
    let said = auto("told", &[]);
    assert!(said.ends(0).err.contains(why) && said.err.contains(backend), "{said:#?}");
    let facts = info(dir, "usual")["facts"].clone();
    assert_eq!((facts["backend"].as_str(), facts["backend_why"].as_str()), (Some(backend), Some(why)));
    assert_eq!(auto("quiet", &["-q"]).ends(0).err, "");
    if !is_root() || backend != "ebpf" {
        return skip("auto_says_what_it_takes_and_why", "what it falls back from is not here");
    }
    let binary = program::reprise().expect("built");
    let script =
        format!("mount -t tmpfs none /sys/kernel/btf && exec {} record --json -o untyped -- true", binary.display());
    let said = said_by(dir, Command::new("unshare").args(["-m", "sh", "-c", &script]));
    let json = summary(said.ends(0));
    assert_eq!(json["backend"], "ptrace");
    assert!(json["why"].as_str().unwrap().contains("CONFIG_DEBUG_INFO_BTF"), "{json}");
    program::succeed(Command::new("chmod").arg("777").arg(dir));
    let mut unprivileged = Command::new("setpriv");
    unprivileged.args(["--reuid", "65534", "--clear-groups", "--inh-caps=-all"]).arg(&binary);
    let said = said_by(dir, unprivileged.args(["record", "--json", "-o", "nobody", "--", "true"]));
    let json = summary(said.ends(0));
    assert_eq!(json["backend"], "ptrace");
    assert!(json["why"].as_str().unwrap().contains("CAP_BPF"), "{json}");
}

fn said_by(dir: &Path, command: &mut Command) -> Said {
    let output = program::run(command.current_dir(dir).stdin(Stdio::null()));
    Said::new(format!("{command:?}"), output)
}

/// Each of a chain replays by itself; what the last leaves behind is what the program left.
#[test]
fn what_is_said_is_in_the_file_before_the_program_looks_at_it() {
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("what_is_said_is_in_the_file_before_the_program_looks_at_it", dir) {
        return;
    }
    // The file that it shares with the recorder.
    let program = "import os; n = os.fstat(2).st_size; os.write(2, b'x'); os.lseek(2, 0, 1) == n + 1 or exit(3)";
    let stderr = fs::File::create(dir.join("said")).unwrap();
    let mut record = reprise(dir, &["record", "-o", "shared", "--", "python3", "-c", program]);
    let status = record.stderr(stderr).status().expect("reprise");
    let said = fs::read_to_string(dir.join("said")).unwrap();
    assert!(status.success() && said.contains("recording in the kernel"), "{status}: {said}");
    mkdir(dir, "target");
    let replayed = run(dir, &["replay", "--json", "shared", "--target", "target"]).ends(0).json();
    assert_eq!(number(&replayed, "diverged"), 0, "{replayed}");
}

/// What stood there is known as it was although nobody reads it before it is replaced, in whole or in part.
#[test]
fn small_files_that_are_replaced_unread() {
    let s = Scratch::new();
    if !in_kernel("small_files_that_are_replaced_unread", s.path()) {
        return;
    }
    let dir = s.path().join("work");
    mkdir(s.path(), "work");
    mkdir(s.path(), "before");
    fs::write(dir.join("whole"), "as it was\n").unwrap();
    fs::write(dir.join("part"), "as it was, too\n").unwrap();
    let said = ebpf(&dir, &["--json", "-o", "../trace", "--", "sh", "-c", "echo new > whole; printf A 1<>part"]);
    said.ends(0);
    assert_eq!(summary(&said)["ledger"]["losses"], serde_json::json!({}), "{said:#?}");
    run(s.path(), &["tree", "trace", "--at", "begin", "--extract", "before"]).ends(0);
    let before = s.path().join("before").join(dir.canonicalize().unwrap().strip_prefix("/").unwrap());
    assert_eq!(fs::read_to_string(before.join("whole")).unwrap(), "as it was\n");
    assert_eq!(fs::read_to_string(before.join("part")).unwrap(), "as it was, too\n");
}

/// What calls wrote over a file is known when it is moved inside the kernel, and of the rest so much is lacking as nobody saw.
#[test]
fn what_calls_wrote_is_known_when_it_is_moved() {
    const SCRIPT: &str = "import os\n\
        old = os.open('old', os.O_RDWR); to = os.open('to', os.O_RDWR | os.O_CREAT)\n\
        os.pread(old, 50000, 0); os.pwrite(old, b'w' * 100000, 50000)\n\
        os.sendfile(to, old, 0, 150000); os.ftruncate(to, 0)\n\
        os.sendfile(to, old, 0, 150000 + int(os.environ['MORE'])); os.ftruncate(to, 0)\n";
    let s = Scratch::new();
    if !in_kernel("what_calls_wrote_is_known_when_it_is_moved", s.path()) {
        return;
    }
    for (more, pieces) in [("0", 0), ("10", 1)] {
        let dir = mkdir(s.path(), more);
        fs::write(Path::new(&dir).join("old"), vec![b'o'; 300_000]).unwrap();
        let trace = format!("{dir}/trace");
        let words = ["record", "-q", "--backend", "ebpf", "-o", &trace, "--", "python3", "-c", SCRIPT];
        let mut command = reprise(Path::new(&dir), &words);
        let output = command.env("MORE", more).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        let mut lost = entries(&info(s.path(), &trace), "truncated");
        lost.retain(|(cause, _)| cause.contains("moved inside the kernel"));
        assert_eq!(lost.iter().map(|(_, count)| count).sum::<u64>(), pieces, "{lost:?}");
    }
}

/// What went from a file to where nobody can look at it is kept, though the file is gone when the program has ended.
#[test]
fn what_goes_from_a_file_to_none_is_kept() {
    const SCRIPT: &str = "import os, socket\n\
        null = os.open('/dev/null', os.O_WRONLY); here, there = socket.socketpair()\n\
        for name, to, most in ('../large', null, 1 << 20), ('../small', here.fileno(), 1 << 12):\n\
        \x20   f = os.open(name, os.O_RDONLY)\n\
        \x20   while os.sendfile(to, f, None, most): to == null or there.recv(most)\n\
        \x20   os.close(f); os.unlink(name)\n";
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("what_goes_from_a_file_to_none_is_kept", dir) {
        return;
    }
    noise(&dir.join("large"), 3);
    let large = fs::read(dir.join("large")).unwrap();
    let contents = [("large", large.as_slice()), ("small", &large[..10_000])];
    fs::write(dir.join("small"), contents[1].1).unwrap();
    assert_eq!(recorded(dir, SCRIPT)["ledger"]["losses"], serde_json::json!({}));
    run(dir, &["tree", "t", "--at", "begin", "--extract", &mkdir(dir, "before")]).ends(0);
    let before = dir.join("before").join(dir.canonicalize().unwrap().strip_prefix("/").unwrap());
    for (name, content) in contents {
        assert!(fs::read(before.join(name)).unwrap() == content, "{name}");
    }
}

/// What went to a file from one without a name that was opened once more is in the replay, where nobody can open that.
#[test]
fn what_goes_from_a_file_without_a_name_is_kept() {
    const SCRIPT: &str = "import os\n\
        memory = os.memfd_create('m'); os.write(memory, b'memory' * 5000); os.ftruncate(memory, 50000)\n\
        gone = os.open('gone', os.O_RDWR | os.O_CREAT); os.write(gone, b'0123456789'); os.unlink('gone')\n\
        memory, gone = (os.open('/proc/self/fd/%d' % fd, os.O_RDONLY) for fd in (memory, gone))\n\
        to = os.open('to', os.O_RDWR | os.O_CREAT)\n\
        os.sendfile(to, memory, 100, 40000); os.sendfile(to, gone, None, 10); os.copy_file_range(gone, to, 5, 2)\n";
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("what_goes_from_a_file_without_a_name_is_kept", dir) {
        return;
    }
    assert_eq!(recorded(dir, SCRIPT)["ledger"]["losses"], serde_json::json!({}));
    let said = run(dir, &["replay", "-t", &mkdir(dir, "target"), "t", "--json"]);
    assert_eq!(said.ends(0).json()["diverged"], 0, "{said:#?}");
    let work = dir.canonicalize().unwrap().join("work");
    let replica = dir.join("target").join(work.strip_prefix("/").unwrap());
    assert_eq!(fs::read(work.join("to")).unwrap().len(), 40_015);
    assert!(fs::read(work.join("to")).unwrap() == fs::read(replica.join("to")).unwrap());
    run(dir, &["verify", "--tree", "t", "target"]).ends(0);
}

/// What a program reads and writes again and again stands in the spool by its place: in the trace it is content like any other.
#[test]
fn what_moves_again_is_replayed() {
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("what_moves_again_is_replayed", dir) {
        return;
    }
    let work = Path::new(&mkdir(dir, "work")).to_path_buf();
    noise(&work.join("in"), 1);
    let copy = "for i in $(seq 30); do dd if=in of=out$i bs=20000 status=none; done; cat in in in > three";
    run(&work, &["record", "--backend", "ebpf", "-o", "../t", "--", "sh", "-c", copy]).ends(0);
    run(dir, &["replay", "-t", &mkdir(dir, "target"), "t"]).ends(0);
    let replica = dir.join("target").join(work.strip_prefix("/").unwrap());
    for name in ["in", "out1", "out30", "three"] {
        assert!(fs::read(work.join(name)).unwrap() == fs::read(replica.join(name)).unwrap(), "{name}");
    }
}

/// A vector that names a buffer several times (zeros of a new log): the recorder keeps it once, the trace has all that was written.
#[test]
fn what_a_vector_names_again_is_kept_once() {
    const SCRIPT: &str = "import os\n\
        d = os.open('out', os.O_RDWR | os.O_CREAT); a = os.urandom(65536); b = os.urandom(3000)\n\
        for i in range(20): os.pwritev(d, [a] * 32 + [b, b, a, b, memoryview(b)[:9], b], i * 3000000)\n\
        r = bytearray(20000); os.preadv(d, [r, bytearray(10)], 100)\n\
        z = os.open('zeros', os.O_RDWR | os.O_CREAT); os.pwrite(z, bytes(50000), 0); os.preadv(z, [r, r, r, bytearray(9)], 0)\n";
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("what_a_vector_names_again_is_kept_once", dir) {
        return;
    }
    let work = mkdir(dir, "work");
    let words = ["record", "--json", "--backend", "ebpf", "-o", "../t", "--", "/usr/bin/python3", "-c", SCRIPT];
    let json = summary(run(Path::new(&work), &words).ends(0));
    let bytes = number(&json["in_kernel"], "bytes");
    assert!(bytes < 20 * 6 * 65536, "{bytes}: the buffer twice, or a little more, for each of 20 calls, not 33 times");
    run(dir, &["replay", "-t", &mkdir(dir, "target"), "t"]).ends(0);
    let replica = dir.join("target").join(work.strip_prefix('/').unwrap()).join("out");
    assert!(fs::read(Path::new(&work).join("out")).unwrap() == fs::read(replica).unwrap());
}

/// Processes that wait in turn for a lock of an open file, which its holder gives back by closing it right before it ends.
#[test]
fn locks_that_end_with_their_files() {
    const SCRIPT: &str = "import fcntl, os, struct, sys, time\n\
        lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 1, 0)\n\
        def holder():\n\
        \x20   f = os.open('lock', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)\n\
        \x20   fcntl.flock(f, fcntl.LOCK_EX) if sys.argv[1] == 'flock' else fcntl.fcntl(f, 38, lock)\n\
        \x20   d = os.open('data', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644); os.write(d, b'x'); os.close(d)\n\
        \x20   time.sleep(0.0015); os.close(f); os._exit(0)\n\
        def child(what):\n\
        \x20   if os.fork() == 0: what(); os._exit(0)\n\
        def chain():\n\
        \x20   for _ in range(25): child(holder); os.wait()\n\
        for _ in range(4): child(chain)\n\
        for _ in range(4): os.wait()\n";
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("locks_that_end_with_their_files", dir) {
        return;
    }
    ["flock", "range"].iter().for_each(|kind| locked_in_turn(dir, SCRIPT, kind));
}

/// Processes that end with a lock, or are killed: they give it back once their memory is freed, and whoever asks without waiting
/// meanwhile is refused.
#[test]
fn locks_that_end_with_their_processes() {
    const SCRIPT: &str = "import fcntl, os, struct, sys, time\n\
        lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 1, 0)\n\
        kinds = {'flock': lambda f: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB),\n\
        \x20   'range': lambda f: fcntl.fcntl(f, 37, lock), 'process': lambda f: fcntl.fcntl(f, fcntl.F_SETLK, lock)}\n\
        def one(n):\n\
        \x20   f = os.open('lock', os.O_RDWR | os.O_CREAT, 0o644); memory = b'x' * (n % 3 << 24)\n\
        \x20   while True:\n\
        \x20       try: kinds[sys.argv[1]](f); break\n\
        \x20       except BlockingIOError: time.sleep(0.0002)\n\
        \x20   os.write(f, b'%d had %s' % (n, os.read(f, 9))); os.kill(os.getpid(), 9) if n % 4 == 0 else os._exit(0)\n\
        for n in range(12):\n\
        \x20   if os.fork() == 0: one(n)\n\
        for n in range(12): os.wait()\n";
    let s = Scratch::new();
    let dir = s.path();
    if in_kernel("locks_that_end_with_their_processes", dir) {
        ["flock", "range", "process"].iter().for_each(|kind| locked_in_turn(dir, SCRIPT, kind));
    }
}

/// Records a script and replays it.
fn locked_in_turn(dir: &Path, script: &str, kind: &str) {
    let (work, trace) = (mkdir(dir, kind), format!("{kind}.reprise"));
    let words =
        ["record", "--backend", "ebpf", "-o", &format!("../{trace}"), "--", "/usr/bin/python3", "-c", script, kind];
    run(Path::new(&work), &words).ends(0);
    run(dir, &["replay", "-t", &mkdir(dir, &format!("{kind}.target")), &trace]).ends(0);
}

/// Records a script in the kernel; the summary.
fn recorded(dir: &Path, script: &str) -> Value {
    let words = ["record", "--json", "--backend", "ebpf", "-o", "../t", "--", "/usr/bin/python3", "-I", "-c", script];
    summary(run(Path::new(&mkdir(dir, "work")), &words).ends(0))
}

/// What a thread alone does leaves nothing to find out: a rename that leaves a device in the file's place, a file that may not get a
/// name, a link to nothing, a file of the kernel's that gives a page at a time.
#[test]
fn a_thread_alone_is_explained() {
    const SCRIPT: &str = "import ctypes, os\n\
        call = ctypes.CDLL(None).syscall; open('a', 'w').close(); at = ctypes.c_int(-100)\n\
        assert call(316, at, b'a', at, b'b', 4) == 0 and os.lstat('a').st_mode == 0o20000 and os.path.getsize('b') == 0; os.unlink('a')\n\
        f = os.open('.', os.O_TMPFILE | os.O_EXCL | os.O_RDWR, 0o600)\n\
        assert call(265, at, b'/proc/self/fd/%d' % f, at, b'c', 0x400) == -1 and not os.path.exists('c')\n\
        assert call(88, b'', b'x') == -1 and not os.path.lexists('x')\n\
        f = os.open('/sys/kernel/btf/vmlinux', os.O_RDONLY); assert [len(os.read(f, 20000)) for _ in range(3)] == [4096] * 3\n";
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("a_thread_alone_is_explained", dir) {
        return;
    }
    recorded(dir, SCRIPT);
    let said = run(dir, &["info", "t"]);
    assert!(!said.out.contains("no order") && !said.out.contains("outside of the log"), "{}", said.out);
    run(dir, &["replay", "-t", &mkdir(dir, "target"), "t"]).ends(0);
}

/// Paths longer than the kernel takes are kept as far as it may look at them, wherever in the raw recording they come to stand.
#[test]
fn paths_that_are_too_long() {
    const SCRIPT: &str = "import os\n\
        for n in range(600):\n\
        \x20   try: os.stat('x' * 65535)\n\
        \x20   except OSError as error: assert error.errno == 36\n";
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("paths_that_are_too_long", dir) {
        return;
    }
    let json = recorded(dir, SCRIPT);
    assert_eq!(json["ledger"]["losses"].to_string(), "{}", "{json}");
    let said = run(dir, &["sql", "t", "select count(*) from actions where errno = 'ENAMETOOLONG'", "--csv"]);
    assert_eq!(said.out.lines().last(), Some("600"));
}

/// A program that a child runs by a path and arguments that stand in a file that is mapped, which nobody has touched since `fork`.
#[test]
fn a_program_that_is_run_by_texts_not_in_memory() {
    const SCRIPT: &str = "import ctypes, mmap, os, sys\n\
        with open('texts', 'wb') as f: f.write(b'/nowhere\\0'.ljust(8192, b'.') + b'/bin/true\\0'.ljust(8192, b'.') + b'one\\0two\\0')\n\
        m = mmap.mmap(os.open('texts', os.O_RDWR), 0, mmap.MAP_PRIVATE)\n\
        at = ctypes.addressof(ctypes.c_char.from_buffer(m)); call = ctypes.CDLL(None).syscall\n\
        given = (ctypes.c_void_p * 3)(at + 16384, at + 16388, None); none = (ctypes.c_void_p * 1)(None)\n\
        if os.fork() == 0:\n\
        \x20   for text in (at, at + 8192): call(59, ctypes.c_void_p(text), given, none)\n\
        \x20   os._exit(1)\n\
        sys.exit(os.wait()[1])\n";
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("a_program_that_is_run_by_texts_not_in_memory", dir) {
        return;
    }
    recorded(dir, SCRIPT);
    let said = run(dir, &["cat", "--call", "execve", "t"]).out;
    // Before Linux 6.10 nothing tells when a program is about to run.
    let kept = said.contains("execve(\"/bin/true\", [\"one\", \"two\"]");
    let counted = || run(dir, &["info", "t"]).out.contains("execve: memory could not be read");
    assert!(said.contains("execve(\"/nowhere\", [\"one\", \"two\"]") && (kept || counted()), "{said}");
    assert_eq!(kept, means::is_since((6, 10)), "{said}");
}

/// A write of much memory that nothing has brought in, and that the call itself does not look at.
#[test]
fn much_memory_that_is_not_there() {
    const SCRIPT: &str = "import mmap, os\n\
        m = mmap.mmap(-1, 12 << 20); null = os.open('/dev/null', os.O_WRONLY); assert os.write(null, m) == 12 << 20\n";
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("much_memory_that_is_not_there", dir) {
        return;
    }
    let json = recorded(dir, SCRIPT);
    assert_eq!(json["ledger"]["losses"].to_string(), "{}", "{json}");
    let ask = "select data_bytes, truncated_bytes from actions where data_bytes > 1 << 20";
    let said = run(dir, &["sql", "t", ask, "--csv"]);
    assert!(said.out.lines().any(|row| row.trim() == "12582912,0"), "{}", said.out);
}

/// Pages of a mapped file that calls leave as they are stand in the trace once: sent from, allocated and punched elsewhere.
#[test]
fn stores_that_calls_leave_alone_are_told_once() {
    const SCRIPT: &str = "import ctypes, mmap, os\n\
        f = os.open('file', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 1 << 20); m = mmap.mmap(f, 1 << 20)\n\
        m[0:1] = b'a'; m[4096:4097] = b'b'; os.pread(f, 8192, 0); g = os.open('copy', os.O_WRONLY | os.O_CREAT)\n\
        allocate = ctypes.CDLL(None).fallocate; of = ctypes.c_long\n\
        os.sendfile(g, f, 0, 8192); assert [allocate(f, how, of(65536), of(4096)) for how in (3, 16, 0)] == [0, 0, 0]\n\
        os.pread(f, 8192, 0); m.close(); assert os.pread(f, 1, 4096) == b'b'\n";
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("stores_that_calls_leave_alone_are_told_once", dir) {
        return;
    }
    recorded(dir, SCRIPT);
    let said = run(dir, &["sql", "t", "select offset, moved_bytes from actions where call = 'mmap_pwrite'", "--csv"]);
    assert_eq!(said.out.lines().skip(1).map(str::trim).collect::<Vec<_>>(), ["0,8192"]);
    run(dir, &["replay", "-t", &mkdir(dir, "target"), "t"]).ends(0);
}

/// A program that takes a completion of Linux AIO out of the queue's memory itself, and then asks by the same block again: what is
/// fetched by a call is the later request.
#[test]
fn a_block_of_aio_that_is_asked_by_again() {
    const SCRIPT: &str = "import ctypes, os, struct\n\
        call = ctypes.CDLL(None).syscall; queue = ctypes.c_ulong(); call(206, 8, ctypes.byref(queue))\n\
        ring = (ctypes.c_uint * 8).from_address(queue.value)\n\
        f = os.open('file', os.O_RDWR | os.O_CREAT); os.pwrite(f, b'A' * 4096 + b'B' * 4096, 0)\n\
        into = ctypes.create_string_buffer(4096); block = ctypes.create_string_buffer(64)\n\
        def ask(at):\n\
        \x20   words = (0, 0, 0, 0, 0, f, ctypes.addressof(into), 4096, at, 0, 0, 0)\n\
        \x20   block.raw = struct.pack('QIIHhIQQqQII', *words)\n\
        \x20   assert call(209, queue, ctypes.c_long(1), ctypes.byref(ctypes.c_void_p(ctypes.addressof(block)))) == 1\n\
        ask(0)\n\
        while ring[2] == ring[3]: pass\n\
        ring[2] = (ring[2] + 1) % ring[1]; assert into.raw == b'A' * 4096\n\
        ask(4096); events = ctypes.create_string_buffer(32)\n\
        assert call(208, queue, ctypes.c_long(1), ctypes.c_long(1), events, None) == 1 and into.raw == b'B' * 4096\n";
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("a_block_of_aio_that_is_asked_by_again", dir) {
        return;
    }
    let work = mkdir(dir, "work");
    run(Path::new(&work), &["record", "--backend", "ebpf", "-o", "../t", "--", "/usr/bin/python3", "-c", SCRIPT])
        .ends(0);
    run(dir, &["replay", "-t", &mkdir(dir, "target"), "t"]).ends(0);
    let ask = "select offset, result from actions where call = 'pread64' and request is not null";
    let said = run(dir, &["sql", "t", ask, "--csv"]);
    assert_eq!(said.ends(0).out.trim().lines().last(), Some("4096,4096"), "{}", said.out);
}

/// What is read twice into the same memory is known once: what was there first is counted as truncated, and no replay differs there.
#[test]
fn buffers_that_overlap_are_filled_again() {
    const SCRIPT: &str = "import os\n\
        d = os.open('in', os.O_RDWR | os.O_CREAT); os.pwrite(d, os.urandom(60000), 0)\n\
        r = bytearray(20000); half = memoryview(r)[10000:]\n\
        os.preadv(d, [r, r, bytearray(9)], 0); os.preadv(d, [r, half], 0); os.preadv(d, [r, bytearray(9)], 0)\n";
    let s = Scratch::new();
    let dir = s.path();
    for backend in ["ptrace", "ebpf"] {
        if backend == "ebpf" && !in_kernel("buffers_that_overlap_are_filled_again", dir) {
            continue;
        }
        let (work, trace) = (mkdir(dir, backend), format!("../{backend}.reprise"));
        let words = ["record", "--backend", backend, "-o", &trace, "--", "/usr/bin/python3", "-c", SCRIPT];
        run(Path::new(&work), &words).ends(0);
        let ledger = fs::read_to_string(dir.join(format!("{backend}.reprise/ledger.json"))).unwrap();
        let ledger: serde_json::Value = serde_json::from_str(&ledger).unwrap();
        // Python may make `preadv2` of it.
        let causes = ledger["losses"]["truncated"].as_object().expect("something is truncated");
        let lacking = causes.iter().find(|(cause, _)| cause.ends_with(": its buffers overlap")).map(|(_, lost)| lost);
        let lacking = lacking.expect("its cause");
        assert_eq!((number(lacking, "count"), number(lacking, "bytes")), (2, 40009 + 20000), "{ledger}");
        let target = mkdir(dir, &format!("{backend}.target"));
        run(dir, &["replay", "-t", &target, &format!("{backend}.reprise")]).ends(0);
    }
}

#[test]
fn a_chain_of_traces() {
    let s = Scratch::new();
    let dir = s.path();
    let work = mkdir(dir, "work");
    fs::write(Path::new(&work).join("before"), "before").unwrap();
    let script = "cd work; exec 3> log; cat before > copy; i=0; while [ $i -lt 40 ]; do head -c 8192 /dev/zero > f$i; \
                  echo $i >&3; [ $i -eq 20 ] && mv copy moved; i=$((i+1)); done; cat moved >&3; rm f1";
    for backend in ["ptrace", "ebpf"] {
        if backend == "ebpf" && !in_kernel("a_chain_of_traces", dir) {
            continue;
        }
        let keep = ["--keep", "2"];
        for (name, keep) in [("all", &keep[..0]), ("last", &keep[..])] {
            fs::remove_dir_all(&work).unwrap();
            fs::create_dir(&work).unwrap();
            fs::write(Path::new(&work).join("before"), "before").unwrap();
            let name = format!("{backend}-{name}");
            let record = ["record", "--backend", backend, "--rotate", "128K", "--json", "-o", &name];
            let said = run(dir, &[&record, keep, &["--", "sh", "-c", script]].concat());
            let json = summary(said.ends(0));
            let chain: Vec<&str> = json["chain"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
            assert!(json["trace"].is_null() && !dir.join(&name).exists(), "{json}");
            if keep.is_empty() {
                assert!(chain.len() > 3 && chain[0] == format!("{name}.1"), "{chain:?}");
                let actions: u64 = chain.iter().map(|trace| number(&info(dir, trace), "actions")).sum();
                assert_eq!(actions, number(&json, "actions"));
            } else {
                assert_eq!(chain.len(), 2, "{chain:?}");
            }
            let mut target = String::new();
            for trace in &chain {
                target = mkdir(dir, &format!("target-{trace}"));
                let said = run(dir, &["replay", "-q", "--verify", "abort", trace, "--target", &target]);
                assert!(said.ends(0).out.contains("diverged 0"), "{said:#?}");
            }
            let inside = Path::new(&target).join(dir.canonicalize().unwrap().strip_prefix("/").unwrap()).join("work");
            for file in ["log", "moved", "f39"] {
                let (left, replayed) = (Path::new(&work).join(file), inside.join(file));
                program::succeed(Command::new("cmp").arg(left).arg(replayed));
            }
            assert!(!inside.join("f1").exists() && !inside.join("copy").exists());
        }
    }
    run(dir, &["record", "--rotate", "soon", "--", "true"]).ends(2).err.contains("512M").then_some(()).expect("512M");
    run(dir, &["record", "--keep", "2", "--", "true"])
        .ends(2)
        .err
        .contains("--rotate")
        .then_some(())
        .expect("--rotate");
    run(dir, &["record", "--rotate", "1M", "--keep", "0", "--", "true"])
        .ends(2)
        .err
        .contains("--keep")
        .then_some(())
        .expect("--keep");
}
