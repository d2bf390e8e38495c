//! The kernel's side of recording, on the real kernel: what is in a spool is what happened, and nothing is lost.

mod common;
#[path = "common/spool.rs"]
mod spool;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{compile, scratch};
use reprise_capture::spool::layout::{RANGE_UNWANTED, RECORD_NARROW, kind};
use spool::{Body, Call, Record, Spool};

/// Whether the kernel records here; says why not.
fn possible(test: &str) -> bool {
    match reprise_capture::ebpf::available() {
        Ok(can) if can.waiting => true,
        Ok(_) => {
            reprise_testkit::skip(test, "the kernel lets no thread wait: Linux 6.18 does");
            false
        }
        Err(why) => {
            reprise_testkit::skip(test, &why.to_string());
            false
        }
    }
}

fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().expect("path of the test");
    path.pop();
    path.pop();
    path.join("examples").join(name)
}

fn recorder(dir: &Path, flags: &[&str], command: &[&str]) -> Command {
    let mut recorder = Command::new(example("spool-record"));
    recorder.args(flags).arg("t").args(command).current_dir(dir).stdin(Stdio::null());
    recorder
}

/// Records and reads; the recorder must end as the command does.
fn record(dir: &Path, flags: &[&str], command: &[&str]) -> Spool {
    let output = recorder(dir, flags, command).output().expect("the recorder runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let spool = spool::read(&dir.join("t"));
    assert_eq!(spool.faults, Vec::<String>::new(), "{said}");
    assert_eq!(spool.dropped, 0, "{said}");
    spool
}

/// What calls of a kind moved to or from one file, in the order of their ends.
fn moved(spool: &Spool, nr: i64, inode: u64) -> Vec<u8> {
    let on_file = |c: &Call| c.objects.iter().any(|o| o.inode == inode) && c.result > 0;
    let mut calls: Vec<(&Record, &Call)> = spool.calls(nr).filter(|(_, c)| on_file(c)).collect();
    calls.sort_by_key(|(r, _)| r.time_ns);
    calls.iter().flat_map(|(r, c)| spool.content(r, c, c.args[1], c.result as u64)).collect()
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).expect("a file").ino()
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut x = 7u32;
    let next = |_| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 24) as u8
    };
    (0..bytes).map(next).collect()
}

#[test]
fn every_byte_of_reads_and_writes_of_any_size() {
    if !possible("every_byte_of_reads_and_writes_of_any_size") {
        return;
    }
    for (bytes, block) in [(3000, "1"), (300_000, "4096"), (900_001, "70000"), (9_000_777, "4194304"), (7 << 20, "7M")]
    {
        let dir = scratch();
        let content = noise(bytes);
        fs::write(dir.path().join("in"), &content).expect("write");
        let block = format!("bs={block}");
        let how: &[&str] = if bytes == 900_001 { &["--plain"] } else { &[] };
        let spool = record(dir.path(), how, &["dd", "if=in", "of=out", &block, "status=none"]);
        assert!(fs::read(dir.path().join("out")).expect("read") == content);
        assert!(moved(&spool, libc::SYS_read, inode(&dir.path().join("in"))) == content, "{block}: read");
        assert!(moved(&spool, libc::SYS_write, inode(&dir.path().join("out"))) == content, "{block}: written");
        assert_eq!(spool.lacking(), 0);
    }
}

/// The same file read many times: each time it is said what was read, and it stands there a few times at most.
#[test]
fn what_is_read_again_is_said_by_its_place() {
    if !possible("what_is_read_again_is_said_by_its_place") {
        return;
    }
    const TIMES: usize = 60;
    let dir = scratch();
    let content = noise(1_000_777);
    fs::write(dir.path().join("in"), &content).expect("write");
    let script = format!("for i in $(seq {TIMES}); do dd if=in of=/dev/null bs=10000 status=none; done");
    let spool = record(dir.path(), &[], &["sh", "-c", &script]);
    assert!(moved(&spool, libc::SYS_read, inode(&dir.path().join("in"))) == content.repeat(TIMES));
    let files = fs::read_dir(dir.path().join("t/spool")).expect("a spool").flatten();
    let on_disk: u64 = files.map(|file| file.metadata().expect("metadata").blocks() * 512).sum();
    assert!(on_disk < (TIMES * content.len()) as u64 / 2, "{on_disk} bytes on disk");
}

/// What a file still holds is neither copied again nor told when it is no longer true: the program itself says what it read.
#[test]
fn what_a_file_still_holds_is_told_by_its_place_and_nothing_else() {
    if !possible("what_a_file_still_holds_is_told_by_its_place_and_nothing_else") {
        return;
    }
    let dir = scratch();
    let (Some(program), Some(other)) = (compile("reread", dir.path()), compile("store", dir.path())) else { return };
    let mut recorder = recorder(dir.path(), &[], &[program.to_str().expect("utf-8")]);
    let recorder = recorder.stderr(Stdio::piped()).spawn().expect("the recorder runs");
    wait_until("the time for another's mapping", || dir.path().join("mapped").exists());
    let store =
        Command::new(other).args(["file", "asked", "done"]).current_dir(dir.path()).status().expect("it stores");
    assert!(store.success());
    let output = recorder.wait_with_output().expect("the recorder ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let spool = spool::read(&dir.path().join("t"));
    let kinds = [libc::SYS_pread64, libc::SYS_write];
    let mut calls: Vec<(&Record, &Call)> = kinds.into_iter().flat_map(|nr| spool.calls(nr)).collect();
    calls.sort_by_key(|(record, _)| record.time_ns);
    let (mut reads, mut sum) = (0, None);
    for (record, call) in calls.into_iter().filter(|(_, call)| [4096, 8].contains(&call.result)) {
        let content = spool.content(record, call, call.args[1], call.args[2]);
        if i64::from(call.nr) == libc::SYS_pread64 {
            sum = Some(sum_of(&content));
            continue;
        }
        reads += 1;
        let told = u64::from_le_bytes(content[..].try_into().expect("a sum"));
        assert_eq!(sum.take(), Some(told), "the read {reads}");
    }
    assert!(reads > 15_000, "{reads} reads");
    // The files lie where `TMPDIR` is.
    match filesystem_of(dir.path()).as_str() {
        "ext2/ext3" | "xfs" | "btrfs" => {
            let bytes = number_behind(&said, " bytes: ").expect("a summary");
            assert!(bytes < reads * 4096 / 4 * 3, "{bytes} bytes for {reads} reads");
        }
        other => println!("that nothing is copied again is not looked at on {other}"),
    }
}

/// Most calls say of their open file only which of those it is that their segment has told of: what is found is what the program saw.
#[test]
fn an_open_file_is_told_as_the_program_saw_it() {
    if !possible("an_open_file_is_told_as_the_program_saw_it") {
        return;
    }
    let dir = scratch();
    let Some(program) = compile("files", dir.path()) else { return };
    let spool = record(dir.path(), &[], &[program.to_str().expect("utf-8")]);
    let log = fs::read_to_string(dir.path().join("log")).expect("what the program saw");
    let kinds = [libc::SYS_read, libc::SYS_pread64, libc::SYS_write];
    let mut calls: Vec<(&Record, &Call)> = kinds.into_iter().flat_map(|nr| spool.calls(nr)).collect();
    calls.sort_by_key(|(record, _)| record.time_ns);
    let files = ["a", "b", "c"].map(|name| inode(&dir.path().join(name)));
    calls.retain(|(_, call)| call.objects.iter().any(|o| files.contains(&o.inode)));
    assert_eq!(calls.len(), log.lines().count());
    for (line, (record, call)) in log.lines().zip(&calls) {
        let [o] = &call.objects[..] else { panic!("{} open files", call.objects.len()) };
        // The kernel notes beside what `open` was given that files may be large.
        let told = [o.fd as u64, o.inode, o.size, o.position as u64, o.mode.into(), o.links.into(), o.flags.into()];
        let told = told.map(|number| number.to_string()).join(" ");
        assert_eq!(told, line, "the record {} of CPU {}", record.number, record.cpu);
    }
    let kept = spool.records.iter().filter(|record| record.kind == kind::BRIEF).count();
    assert!(kept > 2 * calls.len(), "{kept} calls in brief");
}

/// As `reread.c` reckons it.
fn sum_of(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(14_695_981_039_346_656_037, |sum, word| (sum ^ word).wrapping_mul(1_099_511_628_211))
}

fn filesystem_of(path: &Path) -> String {
    let output = Command::new("stat").args(["-f", "-c", "%T"]).arg(path).output().expect("stat");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn number_behind(text: &str, name: &str) -> Option<usize> {
    let digits = text.split_once(name)?.1;
    digits[..digits.find(|c: char| !c.is_ascii_digit())?].parse().ok()
}

/// Calls with results and bytes as strace tells them; a file for each process, so that no line is torn.
fn by_strace(dir: &Path, command: &[&str]) -> Option<Vec<String>> {
    let logs = dir.join("strace");
    fs::create_dir(&logs).expect("mkdir");
    let mut strace = Command::new("strace");
    strace.args(["-ff", "-qq", "-xx", "-s", "1000000", "-e", "trace=read,write,pread64,readlink,chdir,unlink", "-o"]);
    strace.arg(logs.join("p")).args(command).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
    if !strace.status().is_ok_and(|s| s.success()) {
        return None;
    }
    let mut out = Vec::new();
    for log in fs::read_dir(&logs).expect("logs").flatten() {
        let text = fs::read_to_string(log.path()).expect("a log");
        for (call, result) in text.lines().filter_map(|l| l.rsplit_once(" = ")) {
            let name = call.split('(').next().unwrap_or("");
            let bytes = call.split('"').nth(1).unwrap_or("").replace("\\x", "");
            // An error has its name in strace and no more; what a failed call was given is told all the same.
            let result = result.split_whitespace().next().and_then(|r| r.parse::<i64>().ok()).unwrap_or(-1);
            out.push(format!("{name} {} {bytes}", result.max(-1)));
        }
    }
    out.sort();
    Some(out)
}

#[test]
fn a_pipeline_is_as_strace_tells_it() {
    if !possible("a_pipeline_is_as_strace_tells_it") {
        return;
    }
    let dir = scratch();
    fs::write(dir.path().join("in"), noise(900)).expect("write");
    let script = "cat in | od -c | tail -n 3 > out; readlink -f out > where; cat no 2> err; rm out";
    let command = ["sh", "-c", script];
    let Some(expected) = by_strace(dir.path(), &command) else {
        reprise_testkit::skip("a_pipeline_is_as_strace_tells_it", "no strace");
        return;
    };
    let spool = record(dir.path(), &[], &command);
    let mut told = Vec::new();
    for (nr, name) in [
        (libc::SYS_read, "read"),
        (libc::SYS_write, "write"),
        (libc::SYS_pread64, "pread64"),
        (libc::SYS_readlink, "readlink"),
        (libc::SYS_chdir, "chdir"),
        (libc::SYS_unlink, "unlink"),
    ] {
        for (record, call) in spool.calls(nr) {
            let path = matches!(name, "readlink" | "chdir" | "unlink");
            let (address, length) = match name {
                _ if path => (call.args[0], 4096),
                "write" => (call.args[1], call.args[2]),
                _ => (call.args[1], call.result.max(0) as u64),
            };
            let mut bytes = spool.content(record, call, address, length);
            if path {
                bytes.truncate(bytes.iter().position(|b| *b == 0).expect("a path that ends"));
            }
            let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            told.push(format!("{name} {} {hex}", call.result.max(-1)));
        }
    }
    told.sort();
    assert!(told.len() > 40);
    let (ours, theirs): (BTreeSet<&String>, BTreeSet<&String>) = (told.iter().collect(), expected.iter().collect());
    let differing: Vec<&&String> = ours.symmetric_difference(&theirs).collect();
    assert!(told == expected, "{} {} {differing:#?}", told.len(), expected.len());
}

#[test]
fn many_writers_and_few_segments_lose_nothing() {
    if !possible("many_writers_and_few_segments_lose_nothing") {
        return;
    }
    let dir = scratch();
    let Some(flood) = compile("flood", dir.path()) else {
        return;
    };
    let flood = flood.to_str().expect("utf-8");
    let spool = record(dir.path(), &["--segments", "4", "--slow", "3"], &[flood, ".", "4", "4", "7340032"]);
    for number in 0..4 {
        let file = dir.path().join(number.to_string());
        assert!(moved(&spool, libc::SYS_write, inode(&file)) == fs::read(&file).expect("read"), "file {number}");
    }
    assert!(spool.records.iter().any(|r| r.flags & 2 != 0), "nothing was deferred: the test does not test");
    assert!(dir.path().join("t/spool/001.seg").exists(), "one hand wrote all: the test does not test the other");
    assert_eq!(spool.lacking(), 0);
}

#[test]
fn memory_that_is_not_there_is_fetched_or_said_to_be_lacking() {
    if !possible("memory_that_is_not_there_is_fetched_or_said_to_be_lacking") {
        return;
    }
    let dir = scratch();
    let Some(absent) = compile("absent", dir.path()) else {
        return;
    };
    let content = noise(1 << 20);
    fs::write(dir.path().join("in"), &content).expect("write");
    let spool = record(dir.path(), &[], &[absent.to_str().expect("utf-8"), "in", "."]);
    let mut writes: Vec<(&Record, &Call)> = spool.calls(libc::SYS_write).collect();
    writes.sort_by_key(|(r, _)| r.time_ns);
    let of = |i: usize, length| spool.content(writes[i].0, writes[i].1, writes[i].1.args[1], length);
    assert!(of(0, 1 << 20) == content, "pages nobody had looked at");
    let (record, vector) = spool.calls(libc::SYS_writev).next().expect("writev");
    assert_eq!(vector.result, 75_010);
    let array = spool.content(record, vector, vector.args[1], 48);
    let at = |i: usize| u64::from_le_bytes(array[8 * i..8 * i + 8].try_into().unwrap());
    assert!(spool.content(record, vector, at(0), 5000) == content[100..5100]);
    assert!(spool.content(record, vector, at(2), 10) == [0; 10]);
    assert!(spool.content(record, vector, at(4), 70_000) == content[300_000..370_000]);
    assert_eq!((writes[1].1.result, writes[1].1.lacking), (8192, 1));
    assert!(of(1, 8192) == [b'x'; 4096], "half a buffer that the null device took as a whole");
    assert_eq!((writes[2].1.result, writes[2].1.lacking), (4096, 1));
    assert!(of(2, 8192) == [b'x'; 4096], "half a buffer");
    assert_eq!((writes[3].1.result, writes[3].1.lacking), (-14, 1));
}

#[test]
fn narrow_calls_are_marked() {
    if !possible("narrow_calls_are_marked") {
        return;
    }
    let dir = scratch();
    let Some(narrow) = compile("narrow", dir.path()) else {
        return;
    };
    let spool = record(dir.path(), &[], &[narrow.to_str().expect("utf-8")]);
    let marked: Vec<&Record> = spool.records.iter().filter(|r| r.flags & RECORD_NARROW != 0).collect();
    assert_eq!(marked.len(), 1);
    assert!(matches!(&marked[0].body, Body::Call(c) if c.nr == 20 && c.ranges.is_empty()));
}

#[test]
fn without_data_there_are_names_and_lengths() {
    if !possible("without_data_there_are_names_and_lengths") {
        return;
    }
    let dir = scratch();
    fs::write(dir.path().join("in"), noise(300_000)).expect("write");
    let spool = record(dir.path(), &["--data", "none"], &["dd", "if=in", "of=out", "bs=150000", "status=none"]);
    let out = inode(&dir.path().join("out"));
    let writes: Vec<(&Record, &Call)> =
        spool.calls(libc::SYS_write).filter(|(_, c)| c.objects.iter().any(|o| o.inode == out)).collect();
    assert_eq!(writes.len(), 2);
    for (_, call) in writes {
        assert_eq!((call.more, call.ranges.len()), (0, 1));
        assert_eq!((call.ranges[0].length, call.ranges[0].flags), (150_000, RANGE_UNWANTED));
        assert!(call.ranges[0].bytes.is_empty());
    }
    let opened = spool.calls(libc::SYS_openat).any(|(r, c)| spool.content(r, c, c.args[1], 4) == b"out\0");
    assert!(opened, "names are kept");
}

/// A new process has a copy of its maker's descriptors, in tables of several sizes; a new thread has those themselves.
#[test]
fn a_new_process_tells_which_descriptors_it_was_given() {
    if !possible("a_new_process_tells_which_descriptors_it_was_given") {
        return;
    }
    for last in [50, 100, 200] {
        let mut told = given_to_a_child(last);
        told.resize(4, 0);
        told[0] &= !7;
        let open = (3..=last).filter(|fd| ![8, 40].contains(fd)).fold([0u64; 4], |mut open, fd| {
            open[fd as usize / 64] |= 1 << (fd % 64);
            open
        });
        assert_eq!(told, open, "{last}");
    }
}

/// The descriptors that a process was given whose maker has all from 3 to the last but 8 and 40.
fn given_to_a_child(last: u64) -> Vec<u64> {
    let dir = scratch();
    // What starts it may have some of its own.
    let program = "import os, threading\n\
        last = int(os.environ['LAST'])\n\
        os.closerange(3, 1024)\n\
        for fd in range(3, last + 1): os.dup2(0, fd)\n\
        os.close(8); os.close(40)\n\
        t = threading.Thread(target=lambda: None); t.start(); t.join()\n\
        if os.fork() == 0: os._exit(0)\n\
        os.wait()";
    let spool = record(dir.path(), &[], &["env", &format!("LAST={last}"), "/usr/bin/python3", "-c", program]);
    let mut all: Vec<(u64, &Vec<u64>)> = Vec::new();
    for record in &spool.records {
        if let Body::Task { open, .. } = &record.body {
            all.push((record.time_ns, open));
        }
    }
    all.sort_unstable();
    let [.., (_, thread), (_, process)] = all[..] else { panic!("{all:?}") };
    assert!(thread.is_empty(), "{thread:?}");
    process.clone()
}

#[test]
fn a_fork_bomb_loses_nothing() {
    if !possible("a_fork_bomb_loses_nothing") {
        return;
    }
    let dir = scratch();
    let spool =
        record(dir.path(), &[], &["sh", "-c", "i=0; while [ $i -lt 2000 ]; do /bin/true & i=$((i+1)); done; wait"]);
    let mut ended: HashMap<u32, u32> = HashMap::new();
    let (mut tasks, mut execs) = (Vec::new(), 0);
    for record in &spool.records {
        match &record.body {
            Body::Task { .. } => tasks.push(record.tid),
            Body::End { last, .. } => {
                assert!(last);
                *ended.entry(record.tid).or_default() += 1;
            }
            Body::Exec { comm, .. } => execs += usize::from(comm == "true"),
            _ => {}
        }
    }
    assert_eq!((tasks.len(), execs), (2000, 2000));
    assert_eq!(ended.values().sum::<u32>(), 2001);
    assert!(tasks.iter().all(|tid| ended.contains_key(tid)));
}

#[test]
fn recordings_at_the_same_time_do_not_mix() {
    if !possible("recordings_at_the_same_time_do_not_mix") {
        return;
    }
    let dirs = [scratch(), scratch()];
    let script = |n: usize| format!("i=0; while [ $i -lt 100 ]; do cat /dev/null; echo mark{n}; i=$((i+1)); done");
    let recorders: Vec<Child> = (0..2)
        .map(|n| {
            let mut command = recorder(dirs[n].path(), &[], &["sh", "-c", &script(n)]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the recorder runs")
        })
        .collect();
    for mut child in recorders {
        assert!(child.wait().expect("it ends").success());
    }
    let mut pids: Vec<BTreeSet<u32>> = Vec::new();
    for (n, dir) in dirs.iter().enumerate() {
        let spool = spool::read(&dir.path().join("t"));
        assert_eq!((spool.faults.len(), spool.dropped), (0, 0));
        let written = spool.calls(libc::SYS_write).filter(|(_, c)| c.args[0] == 1);
        let marks: Vec<Vec<u8>> = written.map(|(r, c)| spool.content(r, c, c.args[1], 6)).collect();
        assert_eq!(marks.len(), 100);
        assert!(marks.iter().all(|m| m == format!("mark{n}\n").as_bytes()));
        pids.push(spool.records.iter().map(|r| r.pid).collect());
    }
    assert!(pids[0].is_disjoint(&pids[1]));
}

fn wait_until(what: &str, mut there: impl FnMut() -> bool) {
    let began = Instant::now();
    while !there() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn pid_in(path: &Path) -> Option<i32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Gone, or gone but for being waited for.
fn has_ended(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z') || rest.starts_with('X'))
}

#[test]
fn a_thread_that_waits_dies_at_once_when_it_is_killed() {
    if !possible("a_thread_that_waits_dies_at_once_when_it_is_killed") {
        return;
    }
    let dir = scratch();
    let Some(flood) = compile("flood", dir.path()) else {
        return;
    };
    // The disk takes a segment in an hour: whoever has no room waits for ever, as far as this test goes.
    let flags = ["--segments", "4", "--slow", "3600000"];
    let mut child = recorder(dir.path(), &flags, &[flood.to_str().expect("utf-8"), ".", "2", "100", "1048576"])
        .spawn()
        .expect("spawn");
    wait_until("the program", || pid_in(&dir.path().join("pid")).is_some());
    let pid = pid_in(&dir.path().join("pid")).expect("its number");
    let size = || (0..2).map(|n| fs::metadata(dir.path().join(n.to_string())).map_or(0, |m| m.len())).sum::<u64>();
    let mut before = (0, Instant::now());
    wait_until("the standstill", || {
        if size() != before.0 {
            before = (size(), Instant::now());
        }
        before.1.elapsed() > Duration::from_secs(1)
    });
    assert!(size() < 200 << 20, "it did not wait");
    assert!(!has_ended(pid));
    Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("kill");
    wait_until("its end", || has_ended(pid));
    child.kill().expect("kill");
    child.wait().expect("wait");
}

#[test]
fn the_program_goes_on_when_the_recorder_is_killed() {
    if !possible("the_program_goes_on_when_the_recorder_is_killed") {
        return;
    }
    for flags in [&["--segments", "4", "--slow", "200"][..], &[]] {
        let dir = scratch();
        let script = "echo $$ > pid; i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done > out; head -c 30000000 /dev/zero > large; sleep 2; echo over > over";
        let mut child = recorder(dir.path(), flags, &["sh", "-c", script]).spawn().expect("spawn");
        wait_until("the program", || dir.path().join("large").exists());
        let pid = pid_in(&dir.path().join("pid")).expect("its number");
        // What is not full is on the disk after a second.
        std::thread::sleep(Duration::from_millis(1500));
        child.kill().expect("kill");
        child.wait().expect("wait");
        wait_until("its end", || has_ended(pid));
        assert_eq!(fs::read_to_string(dir.path().join("over")).expect("read"), "over\n");
        assert_eq!(fs::metadata(dir.path().join("large")).expect("stat").len(), 30_000_000);
        let spool = spool::read(&dir.path().join("t"));
        assert!(!flags.is_empty() || spool.calls(libc::SYS_write).count() > 3000);
    }
}
