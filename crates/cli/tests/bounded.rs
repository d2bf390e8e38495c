//! Where a trace's contents are, and how large it may become.

mod means;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use means::{mkdir, record, run};
use reprise_testkit::scratch::{self, Scratch, is_root};
use reprise_testkit::{program, skip};
use serde_json::Value;

/// A tmpfs, unmounted at the end.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn new(dir: &Path, size: &str) -> Result<Tmpfs, String> {
        fs::create_dir(dir).map_err(|e| e.to_string())?;
        let options = format!("size={size}");
        scratch::run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir))?;
        Ok(Tmpfs(dir.to_owned()))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        if let Err(e) = scratch::run(Command::new("umount").arg("-l").arg(&self.0)) {
            eprintln!("{e}");
        }
    }
}

fn tmpfs(name: &str, dir: &Path, size: &str) -> Option<Tmpfs> {
    if !is_root() {
        skip(name, "mounting needs root");
        return None;
    }
    Tmpfs::new(dir, size).map_err(|why| skip(name, &why)).ok()
}

/// What `du` says of a directory, in bytes.
fn du(dir: &Path) -> u64 {
    let output = program::succeed(Command::new("du").args(["-s", "-B1"]).arg(dir));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

fn info(dir: &Path, trace: &str) -> Value {
    run(dir, &["info", "--json", trace]).ends(0).json()
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

const WRITES: &str = "dd if=big of=copy bs=64k status=none; dd if=big of=again bs=4k status=none; exit 7";

#[test]
fn contents_on_another_device() {
    let s = Scratch::new();
    let dir = s.path();
    let place = dir.join("elsewhere");
    let Some(mounted) = tmpfs("contents_on_another_device", &place, "64m") else { return };
    fs::write(dir.join("big"), noise(4 << 20)).unwrap();
    run(dir, &["record", "-q", "-o", "t.reprise", "--blobs", "elsewhere", "--", "sh", "-c", WRITES]).ends(7);
    let link = fs::read_link(dir.join("t.reprise/blobs")).unwrap();
    let id = info(dir, "t.reprise")["id"].as_str().unwrap()[..8].to_owned();
    assert_eq!(link, place.canonicalize().unwrap().join(format!("t.reprise-{id}")));
    assert_ne!(fs::metadata(&link).unwrap().dev(), fs::metadata(dir).unwrap().dev());
    assert!(
        du(&link) >= 4 << 20 && du(&dir.join("t.reprise")) < 1 << 20,
        "{} {}",
        du(&link),
        du(&dir.join("t.reprise"))
    );
    assert_eq!(info(dir, "t.reprise")["contents_in"].as_str().unwrap(), link.to_str().unwrap());
    run(dir, &["info", "--check", "t.reprise"]).ends(0);
    replay_and_compare(dir, "t.reprise", "first");
    // The trace can be moved.
    fs::create_dir(dir.join("sub")).unwrap();
    fs::rename(dir.join("t.reprise"), dir.join("sub/u.reprise")).unwrap();
    replay_and_compare(dir, "sub/u.reprise", "second");
    // The contents are gone: what needs none works, the rest says what to do.
    let away = place.join("moved away");
    fs::rename(&link, &away).unwrap();
    run(dir, &["info", "sub/u.reprise"]).ends(0);
    run(dir, &["environment", "sub/u.reprise"]).ends(0);
    let target = mkdir(dir, "third");
    for command in [&["replay", "-q", "sub/u.reprise", "--target", &target][..], &["info", "--check", "sub/u.reprise"]]
    {
        let said = run(dir, command);
        said.fails(3, &["its contents are in", link.to_str().unwrap(), "mount", "ln -sfn PLACE sub/u.reprise/blobs"]);
    }
    program::succeed(Command::new("ln").arg("-sfn").arg(&away).arg(dir.join("sub/u.reprise/blobs")));
    replay_and_compare(dir, "sub/u.reprise", "fourth");
    // One file of it is gone: that is damage.
    fs::remove_file(fs::read_dir(&away).unwrap().next().unwrap().unwrap().path()).unwrap();
    run(dir, &["info", "--check", "sub/u.reprise"]).fails(3, &["damaged", "missing"]);
    drop(mounted);
}

fn replay_and_compare(dir: &Path, trace: &str, target: &str) {
    let target = mkdir(dir, target);
    run(dir, &["replay", "-q", trace, "--target", &target]).ends(0);
    let inside = Path::new(&target).join(dir.canonicalize().unwrap().strip_prefix("/").unwrap());
    for name in ["copy", "again"] {
        program::succeed(Command::new("cmp").arg(inside.join(name)).arg(dir.join("big")));
    }
}

#[test]
fn a_place_for_contents_that_cannot_be() {
    let s = Scratch::new();
    let dir = s.path();
    fs::write(dir.join("file"), "").unwrap();
    let said = run(dir, &["record", "-o", "t", "--blobs", "file", "--", "true"]);
    said.fails(2, &["file", "--blobs"]);
    assert!(!dir.join("t").exists());
    // A program that is not there leaves nothing behind.
    run(dir, &["record", "-o", "t", "--blobs", "place", "--", "/no/such/program"]).fails(127, &["/no/such/program"]);
    assert!(!dir.join("t").exists() && fs::read_dir(dir.join("place")).map_or(0, Iterator::count) == 0);
    // Two traces of one name share a place.
    for sub in ["a", "b"] {
        let sub = mkdir(dir, sub);
        record_there(Path::new(&sub));
    }
    assert_eq!(fs::read_dir(dir.join("place")).unwrap().count(), 2);
    for sub in ["a", "b"] {
        run(&dir.join(sub), &["info", "--check", "t"]).ends(0);
    }
    fs::write(dir.join("log"), "1 1.0 write(1, \"hello\", 5) = 5 <0.1>\n").unwrap();
    let said = run(dir, &["import", "-q", "log", "-o", "i", "--blobs", "place"]);
    said.ends(0);
    assert!(fs::read_link(dir.join("i/blobs")).is_ok());
    run(dir, &["info", "--check", "i"]).ends(0);
}

fn record_there(dir: &Path) {
    run(dir, &["record", "-q", "-o", "t", "--blobs", "../place", "--", "sh", "-c", "echo x > f"]).ends(0);
}

/// The oracles: `du`, a file system that has no more room than that, and the same program recorded without a limit.
#[test]
fn a_limit_on_the_size() {
    let s = Scratch::new();
    let dir = s.path();
    let small = dir.join("small");
    let Some(mounted) = tmpfs("a_limit_on_the_size", &small, "6m") else { return };
    fs::write(dir.join("big"), noise(24 << 20)).unwrap();
    let script = ["-q", "--", "sh", "-c", WRITES];
    run(dir, &[&["record", "--backend", "ptrace", "-o", "all", "--data", "none"], &script[..]].concat()).ends(7);
    let all = info(dir, "all")["actions"].as_u64().unwrap();
    let limit = 6 << 20;
    // What recording in the kernel makes of a limit: `in_kernel.rs`.
    let record = ["record", "--backend", "ptrace", "--max-size", "6M", "-o", "small/t", "--", "sh", "-c", WRITES];
    let said = run(dir, &record);
    said.ends(7);
    for words in ["the trace has reached the size it may have; the program goes on", "dropped: came after", "6291456"] {
        assert!(said.err.contains(words), "{words}: {said:#?}");
    }
    for name in ["copy", "again"] {
        program::succeed(Command::new("cmp").args(["big", name]).current_dir(dir));
    }
    let trace = small.join("t");
    assert!((limit / 2..=limit).contains(&du(&trace)), "{} of {limit}", du(&trace));
    let info = info(dir, "small/t");
    assert_eq!((info["complete"].as_bool(), info["end"]["code"].as_i64()), (Some(true), Some(7)));
    let dropped = info["ledger"]["losses"]["dropped"].as_object().unwrap().values().next().unwrap();
    let (count, first) = (dropped["count"].as_u64().unwrap(), dropped["first"].as_u64().unwrap());
    let stored = info["actions"].as_u64().unwrap();
    assert_eq!((stored + count, stored), (all, first));
    assert!(stored > 0 && count > 0);
    run(dir, &["info", "--check", "small/t"]).ends(0);
    // What is in it replays: the beginning.
    let target = mkdir(dir, "target");
    let said = run(dir, &["replay", "-q", "small/t", "--target", &target]);
    assert!(said.ends(0).out.contains("dropped: came after"), "{said:#?}");
    let inside = Path::new(&target).join(dir.canonicalize().unwrap().strip_prefix("/").unwrap());
    let copy = fs::read(inside.join("copy")).unwrap();
    assert!(!copy.is_empty() && fs::read(dir.join("big")).unwrap().starts_with(&copy), "{} bytes", copy.len());
    drop(mounted);
}

/// What the last line says of content is what the trace holds of it.
#[test]
fn what_is_said_of_content_is_what_was_kept() {
    let s = Scratch::new();
    let dir = s.path();
    for (policy, words) in [
        ("full", "B of content recorded in"),
        ("hash", "B of content as hashes in"),
        ("none", "B of content left out, recorded in"),
    ] {
        let record = ["record", "--backend", "ptrace", "--data", policy, "-o", policy, "--"];
        let said = run(dir, &[&record[..], &["sh", "-c", "echo x > f"]].concat());
        assert!(said.ends(0).err.contains(words), "{words}: {said:#?}");
    }
}

#[test]
fn a_limit_that_is_not_met() {
    let s = Scratch::new();
    let dir = s.path();
    run(dir, &["record", "-q", "--max-size", "64M", "-o", "t", "--", "sh", "-c", "echo x > f"]).ends(0);
    assert_eq!(info(dir, "t")["ledger"]["losses"].as_object().unwrap().len(), 0);
    for (wrong, words) in [("4K", "at least 1M"), ("many", "no size"), ("-1", "no size")] {
        let said = run(dir, &["record", &format!("--max-size={wrong}"), "--", "true"]);
        assert!(said.ends(2).err.contains(words), "{said:#?}");
    }
    record(dir, "plain", "echo x > f");
    assert!(fs::symlink_metadata(dir.join("plain/blobs")).unwrap().is_dir());
}
