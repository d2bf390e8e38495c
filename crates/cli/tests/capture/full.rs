//! Disks that fill while the kernel records: what was recorded until then is there, without a gap, whenever that was.
//!
//! The program (`tests/programs/fills.c`) has two processes on two processors, of which one does much and the other little, and
//! neither goes on without the other: what is in the trace of the one tells what of the other must be.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use reprise_testkit::scratch::{self, Kind, LoopFs, Scratch, is_root};
use reprise_testkit::skip;

use crate::made::{Trace, build};
use crate::means::{Said, copy, mkdir, run};
use crate::scopes::can_attach;

/// Bytes of a turn in `much`, and in `little`.
const MUCH: usize = 32768;
const LITTLE: usize = 8;

fn possible(name: &str) -> bool {
    if !is_root() {
        skip(name, "loop devices need root");
    }
    is_root() && can_attach(name)
}

/// A file system in memory, unmounted at the end.
struct Memory(PathBuf);

impl Memory {
    fn new(dir: &Path, name: &str, size: &str) -> Memory {
        let place = PathBuf::from(mkdir(dir, name));
        let options = format!("size={size}");
        scratch::run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(&place)).expect("mounted");
        Memory(place)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = scratch::run(Command::new("umount").arg("-l").arg(&self.0));
    }
}

/// Records the program, with its files in `work`, onto a disk that has no room for all of it.
fn record_onto(dir: &Path, disk: &Path, turns: &str, pause: &str, words: &[&str]) -> Said {
    let _ = fs::remove_dir_all(dir.join("work"));
    mkdir(dir, "work");
    let trace = disk.join("t.reprise");
    let begin = ["record", "--backend", "ebpf", "-o", trace.to_str().expect("UTF-8")];
    let command = ["--", "./fills", "work", turns, pause];
    run(dir, &[&begin[..], words, &command[..]].concat())
}

/// A trace is made of what was recorded, and is a beginning of what the program did: at least so many bytes.
#[track_caller]
fn is_a_beginning(dir: &Path, trace: &str, least: usize) {
    run(dir, &["info", "--check", trace]).ends(0);
    for loss in Trace::open(&dir.join(trace)).losses() {
        assert!(loss.contains("no room") && loss.contains("No space left"), "{loss}");
    }
    let target = mkdir(dir, &format!("{trace}.target"));
    run(dir, &["replay", "-q", trace, "--target", &target]).ends(0);
    let work = dir.canonicalize().expect("a directory").join("work");
    let there = Path::new(&target).join(work.strip_prefix("/").expect("absolute"));
    let turns = |name: &str, bytes: usize| {
        let (made, replayed) = (fs::read(work.join(name)).unwrap(), fs::read(there.join(name)).unwrap());
        assert!(made.starts_with(&replayed), "{trace}: `{name}` was never so");
        assert!(replayed.len() < made.len() && replayed.len().is_multiple_of(bytes), "{trace}: {}", replayed.len());
        replayed.len() / bytes
    };
    let (much, little) = (turns("much", MUCH), turns("little", LITTLE));
    println!("{trace}: {} KiB", (much * MUCH) >> 10);
    assert!(much == little || much == little + 1, "{trace}: {much} turns of the one, {little} of the other");
    assert!(much * MUCH >= least, "{trace}: only {} of {least} bytes", much * MUCH);
}

#[test]
fn a_disk_that_fills() {
    if !possible("a_disk_that_fills") {
        return;
    }
    let s = Scratch::new();
    let dir = s.path();
    build("fills", dir);
    // As fast as it can, in a fraction of a second; and at some 10 MB/s, after several rounds of the recorder.
    let ways = [(9u64, "0"), (14, "0"), (19, "0"), (24, "2000"), (33, "2000")];
    for (at, (mib, pause)) in ways.into_iter().enumerate() {
        let disk = match LoopFs::new(Kind::Ext4, mib << 20) {
            Ok(disk) => disk,
            Err(why) => return skip("a_disk_that_fills", &why),
        };
        // Twice as much as there is room for.
        let said = record_onto(dir, &disk.path(), &(mib * 64).to_string(), pause, &[]);
        said.fails(
            125,
            &["No space left", "went on unrecorded (it ended with exit code 9)", "make room there", "recover"],
        );
        let trace = format!("t{at}.reprise");
        copy(&disk.path().join("t.reprise"), &dir.join(&trace));
        run(dir, &["recover", "-q", &trace]).ends(0);
        is_a_beginning(dir, &trace, (mib as usize) << 19);
    }
}

#[test]
fn memory_that_fills_and_contents_elsewhere() {
    if !possible("memory_that_fills_and_contents_elsewhere") {
        return;
    }
    let s = Scratch::new();
    let dir = s.path();
    build("fills", dir);
    let disk = Memory::new(dir, "disk", "12m");
    let contents = Memory::new(dir, "contents", "1m");
    let said = record_onto(dir, &disk.0, "800", "0", &["--blobs", "contents"]);
    said.fails(125, &["No space left", "make room there", "recover"]);
    copy(&disk.0.join("t.reprise"), &dir.join("t.reprise"));
    // Nor is there room for the contents; nothing is lost by the attempt.
    run(dir, &["recover", "-q", "t.reprise"]).fails(125, &["No space left", "is kept: make room", "recover t.reprise"]);
    scratch::run(Command::new("mount").args(["-o", "remount,size=64m"]).arg(&contents.0)).expect("more room");
    run(dir, &["recover", "-q", "t.reprise"]).ends(0);
    is_a_beginning(dir, "t.reprise", 6 << 20);
    let said = run(dir, &["info", "t.reprise"]).out;
    assert!(said.contains("no: the raw recording had no room left (No space left on device"), "{said}");
}

/// A recorder that attached ends by it, at once; those whom it recorded go on.
#[test]
fn a_disk_that_fills_under_what_runs_already() {
    if !possible("a_disk_that_fills_under_what_runs_already") {
        return;
    }
    let s = Scratch::new();
    let dir = s.path();
    build("fills", dir);
    let disk = Memory::new(dir, "disk", "24m");
    let work = mkdir(dir, "work");
    let mut program = Command::new(dir.join("fills")).args([work.as_str(), "2000", "1000"]).spawn().expect("started");
    let pid = program.id().to_string();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let trace = disk.0.join("t.reprise");
    let args = ["record", "--backend", "ebpf", "-o", trace.to_str().expect("UTF-8"), "--pid", &pid, "--with-children"];
    run(dir, &args).fails(125, &["No space left", "make room there", "recover"]);
    assert_eq!(program.wait().expect("its end").code(), Some(9));
    copy(&trace, &dir.join("t.reprise"));
    run(dir, &["recover", "-q", "t.reprise"]).ends(0);
    for loss in Trace::open(&dir.join("t.reprise")).losses() {
        assert!(!loss.contains("last second") && !loss.contains("cannot be read"), "{loss}");
    }
    let target = mkdir(dir, "target");
    run(dir, &["replay", "-q", "t.reprise", "--target", &target]).ends(0);
    let there = Path::new(&target).join(dir.canonicalize().unwrap().strip_prefix("/").unwrap()).join("work");
    let bytes = |name: &str| fs::metadata(there.join(name)).map_or(0, |m| m.len() as usize);
    let (much, little) = (bytes("much") / MUCH, bytes("little") / LITTLE);
    assert!(much == little || much == little + 1, "{much} turns of the one, {little} of the other");
}
