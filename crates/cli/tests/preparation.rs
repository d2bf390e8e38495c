//! How a target is prepared for timing: files of full size, nothing of them cached.

mod means;

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use means::run;
use reprise_testkit::{program, skip};

const SIZE: u64 = 8 << 20;
const SEEN: std::ops::Range<usize> = 409_600..413_696;

/// A program that reads one block of a large file; the trace's path, and where the file is in a target.
fn recorded(dir: &Path) -> PathBuf {
    fs::write(dir.join("large"), vec![7u8; SIZE as usize]).unwrap();
    run(
        dir,
        &["record", "-q", "-o", "t.reprise", "--", "dd", "if=large", "of=/dev/null", "bs=4096", "skip=100", "count=1"],
    )
    .ends(0);
    fs::create_dir(dir.join("target")).unwrap();
    dir.join("target").join(dir.canonicalize().unwrap().strip_prefix("/").unwrap()).join("large")
}

fn replay(dir: &Path, options: &[&str]) {
    let all = [&["replay", "t.reprise", "--target", "target", "-q"], options].concat();
    run(dir, &all).ends(0);
}

fn holds(file: &Path) -> u64 {
    fs::metadata(file).unwrap().blocks() * 512
}

#[test]
fn unknown_content_is_a_hole_or_filled() {
    let dir = tempfile::tempdir().unwrap();
    let file = recorded(dir.path());
    replay(dir.path(), &[]);
    assert!(holds(&file) < SIZE / 2, "{}", holds(&file));
    for (fill, zeros) in [("zero", true), ("random", false), ("hole", true)] {
        // The same target: another fill is another tree, and is made anew.
        replay(dir.path(), &["--fill", fill]);
        let content = fs::read(&file).unwrap();
        assert_eq!(content.len() as u64, SIZE);
        assert!(content[SEEN].iter().all(|b| *b == 7), "{fill}: what is known stays");
        let zero =
            content[..SEEN.start].chunks(8).chain(content[SEEN.end..].chunks(8)).filter(|c| c == &[0; 8]).count();
        assert_eq!(zero > 0, zeros, "{fill}");
        // Deduplicating or compressing file systems may hold less; this is about the common ones.
        assert_eq!(holds(&file) >= SIZE, fill != "hole", "{fill}: {}", holds(&file));
    }
}

#[test]
fn filled_content_compresses_and_repeats_as_asked() {
    const MIB: usize = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let file = recorded(dir.path());
    for (fill, compressed, distinct) in [
        ("mixed:compress=75,dedup=0", 0.2..0.35, 8),
        ("mixed:compress=0,dedup=50", 0.9..1.1, 5),
        ("random", 0.9..1.1, 8),
    ] {
        replay(dir.path(), &["--fill", fill]);
        let content = fs::read(&file).unwrap();
        // The oracle is gzip, over what it can see at once.
        let zipped = program::succeed(Command::new("gzip").arg("-c").arg(&file)).stdout.len() as f64;
        assert!(compressed.contains(&(zipped / content.len() as f64)), "{fill}: {zipped}");
        // What is known breaks the first piece, which counts as one of its own.
        let pieces: HashSet<&[u8]> = content.chunks(MIB).map(|piece| &piece[MIB / 2..]).collect();
        assert_eq!(pieces.len(), distinct, "{fill}");
    }
    for wrong in ["mixed:compress=200", "noise"] {
        let all = ["replay", "t.reprise", "--target", "target", "--fill", wrong];
        let said = run(dir.path(), &all);
        assert!(said.ends(2).err.contains("mixed:compress=50,dedup=30"), "{said:?}");
    }
}

#[test]
fn cold_means_nothing_is_cached() {
    let dir = tempfile::tempdir().unwrap();
    let file = recorded(dir.path());
    let cached = |options: &[&str]| -> Option<u64> {
        let seen = dir.path().join("seen");
        let command = format!("fincore --bytes --noheadings --output RES '{}' >'{}'", file.display(), seen.display());
        replay(dir.path(), &[&["--fill", "random", "--before-start", &command], options].concat());
        fs::read_to_string(seen).unwrap().trim().parse().ok()
    };
    let kind = Command::new("stat").args(["-f", "-c", "%T"]).arg(dir.path()).output().unwrap().stdout;
    if kind == b"tmpfs\n" || !Path::new("/usr/bin/fincore").exists() {
        skip("cold_means_nothing_is_cached", "needs fincore, and a file system with a cache");
        return;
    }
    assert_eq!(cached(&[]), Some(SIZE), "just built");
    assert_eq!(cached(&["--cold"]), Some(0));
}

#[test]
fn a_command_that_fails_before_the_start_is_said() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    run(dir.path(), &["replay", "t.reprise", "--target", "target", "--before-start", "exit 3"])
        .fails(2, &["exit status: 3", "exit 3"]);
}
