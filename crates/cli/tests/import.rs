//! Logs of the real strace, imported with the real command: their replays go as the programs did, and agree with our own
//! recordings.

mod means;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use means::{Said, record, run};
use reprise_testkit::scratch::{Scratch, is_root};
use reprise_testkit::skip;
use reprise_trace::{Action, TraceReader};

const PROGRAM: &str = "mkdir w; cd w; echo hello > a; cp a b; ln -s a l; ln b c; cat a b | wc > n; mkdir d; mv b d/b; \
    tar cf x.tar a d l; mkdir y; tar xf x.tar -C y; rm -r d; find . -type f | sort > list";

/// Options, and whether the log holds everything.
const OPTIONS: &[&[&str]] = &[
    &["-f"],
    &["-f", "-y", "-r"],
    &["-f", "-ttt", "-T", "-v", "-s", "65536"],
    &["-f", "-yy", "-tt", "-T", "-i", "-n", "-Y", "-v", "-xx", "-s", "65536"],
    &["-ff", "-ttt"],
    &["-f", "-z"],
    &["-f", "-k", "-t"],
];

fn available(test: &str, program: &str) -> bool {
    let found =
        Command::new(program).arg("--version").output().is_ok() || Command::new(program).arg("-V").output().is_ok();
    if !found {
        skip(test, &format!("{program} is not installed"));
    }
    found
}

/// Runs `reprise` with words and paths.
fn reprise(dir: &Path, words: &[&str], paths: &[PathBuf]) -> Said {
    let paths = paths.iter().map(|p| p.to_str().expect("UTF-8"));
    run(dir, &words.iter().copied().chain(paths).collect::<Vec<_>>())
}

/// Runs a program under strace; returns its logs.
fn strace(dir: &Path, name: &str, options: &[&str], command: &[&str]) -> Vec<PathBuf> {
    let work = dir.join(format!("{name}.work"));
    fs::create_dir_all(&work).unwrap();
    let log = dir.join(format!("{name}.log"));
    let done =
        Command::new("strace").args(options).arg("-o").arg(&log).args(command).current_dir(&work).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let prefix = format!("{name}.log");
    let files = fs::read_dir(dir).unwrap().flatten().map(|e| e.path());
    files.filter(|p| p.file_name().unwrap().to_string_lossy().starts_with(&prefix)).collect()
}

fn import(dir: &Path, name: &str, logs: &[PathBuf]) -> PathBuf {
    let trace = dir.join(format!("{name}.reprise"));
    let said = reprise(dir, &["import", "--json", "-o", trace.to_str().unwrap()], logs);
    let summary = said.ends(0).json();
    let counted: u64 = summary["reasons"].as_object().unwrap().values().map(|r| r["count"].as_u64().unwrap()).sum();
    assert_eq!(summary["understood"].as_u64().unwrap() + counted, summary["lines"].as_u64().unwrap());
    assert_eq!(counted, 0, "{summary:#}");
    trace
}

fn replays(dir: &Path, name: &str, trace: &Path) {
    let target = dir.join(format!("{name}.target"));
    fs::create_dir(&target).unwrap();
    let said = reprise(dir, &["replay", "-q", "--target"], &[target, trace.to_owned()]);
    said.ends(0);
    assert!(said.out.contains("diverged 0"), "{name}: {}", said.out);
}

#[test]
fn shells_and_their_tools_replay_under_all_options() {
    if !is_root() || !available("import: options", "strace") {
        return skip("import: options", "needs root and strace");
    }
    let scratch = Scratch::new();
    for (i, options) in OPTIONS.iter().enumerate() {
        let name = format!("o{i}");
        let logs = strace(scratch.path(), &name, options, &["sh", "-c", PROGRAM]);
        let trace = import(scratch.path(), &name, &logs);
        replays(scratch.path(), &name, &trace);
    }
}

/// What strace shows of a long write is its beginning; a short read shows all, of what a replay has to make up.
#[test]
fn a_read_of_what_the_log_shortened_is_no_divergence() {
    const PROGRAM: &str = "head -c 5000 /etc/services > f; cp f g; mv g h; dd if=f bs=16 skip=20 count=3 of=n; \
        tail -c 7 h; truncate -s 2000 f; tail -c 9 f";
    if !is_root() || !available("import: shortened", "strace") {
        return skip("import: shortened", "needs root and strace");
    }
    let scratch = Scratch::new();
    let logs = strace(scratch.path(), "short", &["-f"], &["sh", "-ec", PROGRAM]);
    let trace = import(scratch.path(), "short", &logs);
    replays(scratch.path(), "short", &trace);
}

/// A file system that does not know how to rename only where nothing is replaced (FUSE) says so; the target, which knows it, does not
/// do it in the first of two calls.
#[test]
fn what_a_file_system_does_not_know_is_kept() {
    const LOG: &str = "\
        10 1.000000 open(\"/srv/a\", O_WRONLY|O_CREAT, 0644) = 3\n\
        10 1.000100 close(3) = 0\n\
        10 1.000200 renameat2(AT_FDCWD, \"/srv/a\", AT_FDCWD, \"/srv/b\", RENAME_NOREPLACE) = -1 EINVAL (Invalid argument)\n\
        10 1.000300 stat(\"/srv/b\", 0x7ffd) = -1 ENOENT (No such file or directory)\n\
        10 1.000400 rename(\"/srv/a\", \"/srv/b\") = 0\n\
        10 1.000500 exit_group(0) = ?\n\
        10 1.000600 +++ exited with 0 +++\n";
    let scratch = Scratch::new();
    let dir = scratch.path();
    fs::write(dir.join("a.log"), LOG).unwrap();
    let trace = import(dir, "a", &[dir.join("a.log")]);
    replays(dir, "a", &trace);
    assert!(dir.join("a.target/srv/b").exists());
}

#[test]
fn a_full_log_leaves_the_same_tree() {
    if !is_root() || !available("import: tree", "strace") {
        return skip("import: tree", "needs root and strace");
    }
    let scratch = Scratch::new();
    let options = ["-f", "-ttt", "-T", "-v", "-y", "-s", "1048576"];
    let logs = strace(scratch.path(), "t", &options, &["sh", "-c", PROGRAM]);
    let trace = import(scratch.path(), "t", &logs);
    replays(scratch.path(), "t", &trace);
    let work = scratch.path().join("t.work").canonicalize().unwrap();
    let replayed = scratch.path().join("t.target").join(work.strip_prefix("/").unwrap());
    for file in ["a", "c", "n", "list", "x.tar", "y/d/b"] {
        let (original, copy) = (fs::read(work.join("w").join(file)).unwrap(), fs::read(replayed.join("w").join(file)));
        assert_eq!(copy.unwrap(), original, "{file}");
    }
    reprise(scratch.path(), &["verify", "--tree"], &[trace, scratch.path().join("t.target")]).ends(0);
}

/// What an action does, without what differs from run to run: addresses, numbers of processes.
fn meaning(action: &Action) -> String {
    let call = reprise_calls::by_name(&action.call).unwrap();
    let mut out = format!("{} {:?} {:?}", action.call, action.path, action.path2);
    for (arg, value) in call.args.iter().zip(action.args) {
        use reprise_calls::ArgKind::*;
        match arg.kind {
            Fd(_) | Dirfd | Mode | Length | Offset | Owner => out += &format!(" {}={}", arg.name, value as i32),
            Flags(_) | Command(_) => out += &format!(" {}={value:x}", arg.name),
            _ => {}
        }
    }
    let own = matches!(call.returns, reprise_calls::Returns::Process | reprise_calls::Returns::Address);
    if own { out } else { format!("{out} = {}", action.result) }
}

/// Actions of each thread, in order of the threads.
fn by_thread(trace: &Path) -> Vec<Vec<String>> {
    let trace = TraceReader::open(trace).unwrap();
    let mut out = vec![Vec::new(); trace.threads().unwrap().len()];
    for action in trace.actions() {
        let action = action.unwrap();
        // Where memory lies differs, and with it the calls that only manage it; and strace sees no loads.
        let memory = ["mmap", "munmap", "mprotect", "madvise", "mremap", "mmap_pread"].contains(&&*action.call);
        if !memory {
            out[action.thread as usize].push(meaning(&action));
        }
    }
    out
}

#[test]
fn an_import_and_a_recording_of_the_same_program_agree() {
    if !is_root() || !available("import: recording", "strace") {
        return skip("import: recording", "needs root and strace");
    }
    const SAME: &str =
        "mkdir -p d/e; echo one > d/a; cat d/a; cp d/a d/b; mv d/b d/e/c; ln -s a d/l; cat d/l; chmod 600 d/a; rm -r d";
    let scratch = Scratch::new();
    // In the same directory: its name is among what a shell asks for.
    let work = scratch.path().join("i.work");
    fs::create_dir(&work).unwrap();
    let recorded = record(&work, "own.reprise", SAME);
    let opened = TraceReader::open(&recorded).unwrap();
    let command = opened.manifest().command.clone();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let logs = strace(scratch.path(), "i", &["-f", "-v", "-s", "65536", "-ttt", "-T"], &command);
    let imported = import(scratch.path(), "i", &logs);
    let (own, other) = (by_thread(&recorded), by_thread(&imported));
    assert_eq!(own.len(), other.len());
    for (thread, (own, other)) in own.iter().zip(&other).enumerate() {
        for (i, (a, b)) in own.iter().zip(other).enumerate() {
            assert_eq!(a, b, "thread {thread}, action {i}");
        }
        assert_eq!(own.len(), other.len(), "thread {thread}");
    }
}

#[test]
fn a_snapshot_gives_contents_that_the_log_lacks() {
    if !is_root() || !available("import: snapshot", "strace") {
        return skip("import: snapshot", "needs root and strace");
    }
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("long"), "0123456789".repeat(100)).unwrap();
    let path = data.join("long").display().to_string();
    let logs = strace(scratch.path(), "s", &["-f"], &["cp", &path, "copy"]);
    let trace = scratch.path().join("s.reprise");
    let words = ["import", "-q", "--tree", data.to_str().unwrap(), "-o", trace.to_str().unwrap()];
    reprise(scratch.path(), &words, &logs).ends(0);
    replays(scratch.path(), "s", &trace);
    let replayed = scratch.path().join("s.target").join(data.canonicalize().unwrap().strip_prefix("/").unwrap());
    assert_eq!(fs::read(replayed.join("long")).unwrap(), "0123456789".repeat(100).as_bytes());
}

#[test]
fn what_is_no_log_is_refused() {
    let scratch = Scratch::new();
    let text = scratch.path().join("letter");
    fs::write(&text, "Dear all,\nnothing happened.\n").unwrap();
    let trace = scratch.path().join("t.reprise");
    reprise(scratch.path(), &["import", "-o", "t.reprise"], &[text]).fails(3, &["plain text"]);
    assert!(!trace.exists());
}
