//! Ctrl-C in the middle of whatever takes long and makes something: it is whole afterwards, or as it was before.
//!
//! Where the middle is does not depend on speed: a part of what is read is a pipe that gives nothing.

mod means;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use means::{Said, kill, mkdir, record, reprise, run, until};
use reprise_testkit::program;
use reprise_testkit::scratch::Scratch;

/// What a command is interrupted in: the pipe that it reads, and its arguments. `stuck.reprise` is a trace whose actions are in
/// the pipe, `out` a directory where everything is to be made, `old` a file with something in it.
const CASES: [(&str, &[&str]); 12] = [
    (ACTIONS, &["export", "stuck.reprise", "--to", "csv", "-o", "out/x"]),
    (ACTIONS, &["export", "stuck.reprise", "--to", "strace", "-o", "out/x"]),
    (ACTIONS, &["export", "stuck.reprise", "--to", "perfetto", "-o", "out/old"]),
    (ACTIONS, &["export", "stuck.reprise", "--to", "folded", "-o", "out/x"]),
    (ACTIONS, &["report", "stuck.reprise", "-o", "out/report.html"]),
    (ACTIONS, &["report", "stuck.reprise", "-o", "out/old"]),
    (ACTIONS, &["slice", "stuck.reprise", "-o", "out/slice.reprise"]),
    (ACTIONS, &["slice", "stuck.reprise", "-o", "out/empty"]),
    (ACTIONS, &["compile", "stuck.reprise", "-o", "out/plan"]),
    (ACTIONS, &["tree", "stuck.reprise", "--at", "end", "--extract", "out/empty"]),
    ("log", &["import", "log", "-o", "out/i.reprise"]),
    ("log", &["import", "log", "-o", "out/empty"]),
];
const ACTIONS: &str = "pipe";
const INTERRUPTED: i32 = 7;

/// Everything in a directory, with its content.
fn listing(dir: &Path) -> BTreeMap<PathBuf, (u64, Vec<u8>)> {
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        match path.is_dir() {
            true => out.extend(listing(&path)),
            false => drop(out.insert(path.clone(), (path.metadata().unwrap().ino(), fs::read(&path).unwrap()))),
        }
        out.entry(path).or_default();
    }
    out
}

/// A trace whose first part of actions is the pipe.
fn stuck(dir: &Path) {
    record(dir, "stuck.reprise", "echo x > f; cat f f > g; mv g h");
    let parts = fs::read_dir(dir.join("stuck.reprise/actions")).unwrap().map(|e| e.unwrap().path());
    let part = parts.min().unwrap();
    fs::remove_file(&part).unwrap();
    std::os::unix::fs::symlink(dir.join(ACTIONS), part).unwrap();
}

/// Waits until somebody reads the pipe, which gives nothing from then on.
fn held(pipe: &Path) -> File {
    let mut held = None;
    until("it reads", || {
        held = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(pipe).ok();
        held.is_some()
    });
    held.unwrap()
}

#[test]
fn what_is_interrupted_is_as_it_was() {
    let s = Scratch::new();
    let dir = s.path();
    stuck(dir);
    for directory in ["out", "out/empty", "tmp"] {
        mkdir(dir, directory);
    }
    fs::write(dir.join("out/old"), "what was there").unwrap();
    for pipe in [ACTIONS, "log"] {
        program::succeed(std::process::Command::new("mkfifo").arg(dir.join(pipe)));
    }
    let before = (listing(&dir.join("out")), listing(&dir.join("tmp")));
    for (pipe, args) in CASES {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let mut command = reprise(dir, args);
            let tmp: OsString = dir.join("tmp").into();
            command.env("TMPDIR", tmp).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            let held = held(&dir.join(pipe));
            kill(child.id(), signal);
            let said = Said::new(format!("{command:?}"), child.wait_with_output().unwrap());
            drop(held);
            said.fails(INTERRUPTED, &["interrupted; ", "the same command begins anew"]);
            assert_eq!((listing(&dir.join("out")), listing(&dir.join("tmp"))), before, "{said:#?}");
        }
    }
}

/// A picture is read for before it is begun; what only reads ends by the signal.
#[test]
fn an_interrupted_picture_is_not_begun() {
    let s = Scratch::new();
    let dir = s.path();
    stuck(dir);
    mkdir(dir, "out");
    program::succeed(std::process::Command::new("mkfifo").arg(dir.join(ACTIONS)));
    fs::write(dir.join("out/old"), "what was there").unwrap();
    let before = listing(&dir.join("out"));
    for args in [["--svg", "out/x"], ["--dot", "out/old"]] {
        let mut command = reprise(dir, &[&["graph", "stuck.reprise"][..], &args].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let held = held(&dir.join(ACTIONS));
        kill(child.id(), libc::SIGINT);
        let said = Said::new(format!("{command:?}"), child.wait_with_output().unwrap());
        drop(held);
        assert_eq!((said.signal, listing(&dir.join("out"))), (Some(libc::SIGINT), before.clone()), "{said:#?}");
    }
}

/// A recording is cut when its program has ended: all pieces are made, or none, and then what they would be cut from is whole.
#[test]
fn an_interrupted_chain_is_whole_or_not_there() {
    let s = Scratch::new();
    let dir = s.path();
    mkdir(dir, "work");
    let script = "cd work; i=0; while [ $i -lt 200 ]; do head -c 8192 /dev/zero > f$i; i=$((i+1)); done";
    let pieces = |dir: &Path| {
        let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("c.reprise.")).count()
    };
    let mut interrupted = 0;
    // Where in the cutting the signal comes is left to chance; that it comes in it once is not.
    for attempt in 0..20 {
        let mut command =
            reprise(dir, &["record", "-q", "--rotate", "16K", "-o", "c.reprise", "--", "sh", "-c", script]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("it cuts", || pieces(dir) > attempt % 3);
        kill(child.id(), libc::SIGINT);
        let said = Said::new(format!("{command:?}"), child.wait_with_output().unwrap());
        if said.code == Some(INTERRUPTED) {
            said.fails(INTERRUPTED, &["no piece was kept", "is whole", "`reprise slice`"]);
            assert_eq!(pieces(dir), 0, "{said:#?}");
            assert_eq!(run(dir, &["info", "--json", "c.reprise"]).json()["complete"], true);
            fs::remove_dir_all(dir.join("c.reprise")).unwrap();
            interrupted += 1;
        } else {
            assert!(pieces(dir) > 10 && !dir.join("c.reprise").exists(), "{:#?}", said.ends(0));
            for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
                if entry.file_name().to_string_lossy().starts_with("c.reprise.") {
                    fs::remove_dir_all(entry.path()).unwrap();
                }
            }
        }
        if interrupted == 3 {
            return;
        }
    }
    panic!("interrupted {interrupted} times in 20");
}

/// What is no regular file is written to, not replaced; a link is followed; a mask is kept.
#[test]
fn what_is_written_is_written_where_it_was_asked_for() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, "t.reprise", "echo x > f");
    let export = |output: &str| {
        run(dir, &["export", "-q", "t.reprise", "--to", "jsonl", "-o", output]).ends(0);
    };
    export("/dev/null");
    assert!(!Path::new("/dev/null").is_file());
    fs::write(dir.join("real"), "old").unwrap();
    std::os::unix::fs::symlink("real", dir.join("link")).unwrap();
    export("link");
    assert!(dir.join("link").is_symlink() && fs::read(dir.join("real")).unwrap().starts_with(b"{"));
    export("fresh");
    let plain = dir.join("plain");
    File::create(&plain).unwrap();
    assert_eq!(dir.join("fresh").metadata().unwrap().mode(), plain.metadata().unwrap().mode());
    assert_eq!(
        fs::read_dir(dir)
            .unwrap()
            .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with(".rep"))
            .count(),
        0
    );
}

/// A recording that is interrupted before its program begins leaves nothing, one that is interrupted later a whole trace.
#[test]
fn a_recording_is_not_begun_or_whole() {
    const NAME: &str = "a_recording_is_not_begun_or_whole";
    // What there is of a trace, one after the other, until the program is there.
    let kernel = ["", "manifest.json", "catalog.jsonl", "spool", "spool/stood", "spool/begin.json", "../up"];
    let traced = ["", "manifest.json", "catalog.jsonl", "../up"];
    for (backend, stages) in [("ebpf", &kernel[..]), ("ptrace", &traced[..])] {
        if backend == "ebpf" && !means::in_kernel(NAME, Scratch::new().path()) {
            continue;
        }
        for stage in stages {
            let s = Scratch::new();
            let dir = s.path();
            let script = "echo x > up; exec sleep 60";
            let mut command =
                reprise(dir, &["record", "-q", "--backend", backend, "-o", "t", "--", "sh", "-c", script]);
            command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let reached = dir.join("t").join(stage);
            until(stage, || reached.exists() || child.try_wait().unwrap().is_some());
            kill(child.id().wrapping_neg(), libc::SIGINT);
            let said = Said::new(format!("{command:?}, {stage}"), child.wait_with_output().unwrap());
            assert_eq!((said.signal, said.err.as_str()), (Some(libc::SIGINT), ""), "{said:#?}");
            let mut left: Vec<OsString> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
            left.retain(|name| name != "up");
            if !left.is_empty() {
                assert_eq!(left, ["t"], "{said:#?}");
                assert_eq!(run(dir, &["info", "--json", "t"]).ends(0).json()["complete"], true, "{said:#?}");
            }
            assert!(*stage != "../up" || !left.is_empty(), "{said:#?}");
        }
    }
}
