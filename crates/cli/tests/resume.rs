//! Replays that end early, and go on: by a signal, twice; on a full target; into whatever is there.
//!
//! The oracles: the tree that the program itself left behind, walked by the test kit, and the numbers of the actions in all
//! results, each of which must be there once.

mod means;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use means::{Said, copy, has, kill, mkdir, record, reprise, run, until};
use reprise_testkit::scratch::{Kind, LoopFs, Scratch};
use reprise_testkit::{program, skip, tree};
use reprise_trace::TraceReader;
use serde_json::Value;

const USAGE: i32 = 2;
const TRACE: i32 = 3;
const TARGET: i32 = 5;
const INTERRUPTED: i32 = 7;

/// A program with four threads (`resume/workers.c`), recorded as `t.reprise`, and what it left behind.
struct Workers {
    scratch: Scratch,
    work: PathBuf,
}

impl Workers {
    /// So many rounds of each of the four threads, which take from 2 ms to 5 ms each.
    fn recorded(name: &str, rounds: &str) -> Option<Workers> {
        if !has("cc") {
            skip(name, "there is no C compiler (cc)");
            return None;
        }
        let scratch = Scratch::new();
        let (dir, binary) = (scratch.path(), scratch.path().join("workers"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/resume/workers.c");
        program::succeed(Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&binary).arg(source));
        let work = PathBuf::from(mkdir(dir, "work"));
        let backend = program::exact_backend();
        let words: Vec<&str> = ["record", "-q", "-o", "t.reprise"]
            .into_iter()
            .chain(backend.iter().map(String::as_str))
            .chain(["--", "./workers", "work", rounds])
            .collect();
        run(dir, &words).ends(0);
        Some(Workers { scratch, work })
    }

    fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// Where a target has what the program made.
    fn place(&self, target: &str) -> PathBuf {
        self.dir().join(target).join(self.work.strip_prefix("/").expect("an absolute path"))
    }

    /// A command that is hit by a signal when a file appears; what it said.
    fn hit(&self, args: &[&str], target: &str, file: &str) -> Said {
        let file = self.place(target).join(file);
        let mut command = reprise(self.dir(), args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("the file", || file.exists());
        kill(child.id(), libc::SIGINT);
        Said::new(format!("{command:?}"), child.wait_with_output().unwrap())
    }

    /// A replay into a new directory that was interrupted in its middle.
    fn interrupted(&self, target: &str, result: &str) -> Said {
        mkdir(self.dir(), target);
        let args = ["replay", "t.reprise", "--target", target, "--pace", "natural", "-o", result, "-q", "--json"];
        let said = self.hit(&args, target, "d0/at-2");
        said.fails(INTERRUPTED, &["interrupted", "go on with `reprise replay"]);
        said
    }

    #[track_caller]
    fn left_the_same(&self, target: &str) {
        let differences = tree::differences(&tree::walk(&self.work), &tree::walk(&self.place(target)));
        assert!(differences.is_empty(), "{target} ({}): {differences:#?}", self.dir().display());
    }

    /// How often the numbers of the actions stand in a result, up to its cut.
    fn performed(&self, result: &str, cut: &Value, counted: &mut BTreeMap<u64, u32>) -> u64 {
        let trace = TraceReader::open(&self.dir().join(result)).unwrap();
        let origins: Vec<u64> = trace.actions().map(|row| row.unwrap().origin.unwrap()).collect();
        let cut = cut.as_u64().unwrap_or(u64::MAX);
        origins.iter().filter(|o| **o < cut).for_each(|o| *counted.entry(*o).or_default() += 1);
        origins.into_iter().min().expect("some action")
    }
}

/// The words of the command that an error names.
#[track_caller]
fn named(said: &Said) -> Vec<String> {
    let command = said.err.split('`').nth(1).unwrap_or_else(|| panic!("no command in {said:#?}"));
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    assert_eq!(words[0], "reprise", "{said:#?}");
    words[1..].iter().cloned().chain(["-q", "--json"].map(str::to_owned)).collect()
}

fn texts(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn interrupted_twice_and_resumed_twice() {
    let Some(workers) = Workers::recorded("interrupted_twice_and_resumed_twice", "80") else { return };
    let first = workers.interrupted("t", "r.reprise");
    let then = named(&first);
    assert_eq!(then[..8].join(" "), "replay t.reprise --target t --resume r.reprise -o r.2.reprise");
    let second = workers.hit(&texts(&then), "t", "d3/at-10");
    second.fails(INTERRUPTED, &["go on with"]);
    let then = named(&second);
    assert!(then.join(" ").contains("--resume r.2.reprise -o r.3.reprise"), "{then:?}");
    let third = run(workers.dir(), &texts(&then));
    let said = [first.json(), second.json(), third.ends(0).json()];
    workers.left_the_same("t");
    assert_eq!(said.each_ref().map(|s| s["diverged"].as_u64()), [Some(0); 3], "{said:#?}");
    // Each goes on where the one before it has its cut, at the same pace.
    assert_eq!(said[1]["continues"]["first_action"], said[0]["cut"]);
    assert_eq!(said[2]["continues"]["first_action"], said[1]["cut"]);
    assert_eq!((&said[2]["cut"], &said[2]["end"]), (&Value::Null, &"complete".into()));
    assert!(said.iter().all(|s| s["pace"] == said[0]["pace"] && s["pace"] != "afap"), "{said:#?}");
    let actions = run(workers.dir(), &["info", "--json", "t.reprise"]).json()["actions"].as_u64().unwrap();
    let mut counted = BTreeMap::new();
    for (result, said) in ["r.reprise", "r.2.reprise", "r.3.reprise"].iter().zip(&said) {
        let begin = workers.performed(result, &said["cut"], &mut counted);
        assert!(begin >= said["continues"]["first_action"].as_u64().unwrap_or(0), "{result}");
    }
    assert!(counted.keys().copied().eq(0..actions), "an action is missing, or none of the trace");
    assert!(counted.values().all(|times| *times == 1), "done twice");
    let verified = run(workers.dir(), &["verify", "t.reprise", "r.3.reprise", "--json"]).ends(0).json();
    assert_eq!(verified["before"], said[1]["cut"]);
    assert_eq!((&verified["actions"], &verified["missing"]), (&actions.into(), &0.into()));
    // Without the interruption.
    mkdir(workers.dir(), "whole");
    run(workers.dir(), &["replay", "t.reprise", "--target", "whole", "-q"]).ends(0);
    workers.left_the_same("whole");
}

#[test]
fn whatever_the_target_holds() {
    let Some(workers) = Workers::recorded("whatever_the_target_holds", "40") else { return };
    let dir = workers.dir();
    workers.interrupted("t", "r.reprise");
    let resume = |target: &str| {
        let said = run(dir, &["replay", "t.reprise", "--target", target, "--resume", "r.reprise", "-q", "--json"]);
        assert_eq!(said.ends(0).json()["diverged"], 0, "{said:#?}");
        workers.left_the_same(target);
    };
    // Changed by somebody.
    let place = workers.place("t");
    fs::remove_dir_all(place.join("d1")).unwrap();
    fs::write(place.join("own-2"), "no").unwrap();
    fs::write(place.join("d2/foreign"), "no").unwrap();
    resume("t");
    // It was resumed to its end: no obstacle to either.
    resume("t");
    run(dir, &["replay", "t.reprise", "--target", "t", "-q"]).ends(0);
    workers.left_the_same("t");
    // A new one.
    mkdir(dir, "new");
    resume("new");
    // The tree of another trace, and files of nobody's.
    record(dir, "other.reprise", "echo x > y");
    mkdir(dir, "theirs");
    run(dir, &["replay", "other.reprise", "--target", "theirs", "-q"]).ends(0);
    let resume = |target: &str| run(dir, &["replay", "t.reprise", "--target", target, "--resume", "r.reprise", "-q"]);
    resume("theirs").fails(TARGET, &["another trace", "choose an empty directory"]);
    fs::write(PathBuf::from(mkdir(dir, "full")).join("mine"), "mine").unwrap();
    resume("full").fails(TARGET, &["not empty", "choose an empty directory"]);
    // A plan knows no state in its middle.
    run(dir, &["compile", "t.reprise", "-o", "plan", "-q"]).ends(0);
    run(dir, &["replay", "plan", "--target", "t", "--resume", "r.reprise"]).fails(USAGE, &["plan", "give the trace"]);
}

#[test]
fn a_full_target_is_left_for_a_larger_one() {
    let fs8 = match LoopFs::new(Kind::Ext4, 8 << 20) {
        Ok(made) => made,
        Err(why) => return skip("a_full_target_is_left_for_a_larger_one", &why),
    };
    let scratch = Scratch::new();
    let dir = scratch.path();
    mkdir(dir, "work");
    let script = "cd work; i=0; while [ $i -lt 12 ]; do head -c 1000000 /dev/zero | tr '\\0' $((i%10)) >> f; echo $i >> log; i=$((i+1)); done";
    record(dir, "t.reprise", script);
    let small = mkdir(&fs8.path(), "t");
    let said = run(dir, &["replay", "t.reprise", "--target", &small, "-o", "r.reprise", "-q"]);
    said.fails(TARGET, &["ENOSPC", "--resume r.reprise -o r.2.reprise"]);
    mkdir(dir, "large");
    let said = run(dir, &["replay", "t.reprise", "--target", "large", "--resume", "r.reprise", "-q", "--json"]);
    let document = said.json();
    let first = document["continues"]["first_action"].as_u64();
    let refused = TraceReader::open(&dir.join("r.reprise")).unwrap().actions().map(Result::unwrap);
    let refused = refused.filter(|row| row.result == -i64::from(libc::ENOSPC)).map(|row| row.origin);
    assert_eq!(refused.collect::<Vec<_>>(), [first], "what was refused is done first: {document:#}");
    assert_eq!(document["diverged"], 0, "{document:#}");
    let work = dir.join("work");
    let there = dir.join("large").join(work.strip_prefix("/").unwrap());
    let differences = tree::differences(&tree::walk(&work), &tree::walk(&there));
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn what_cannot_be_resumed_is_said() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    let resume = |trace: &str, result: &str| run(dir, &["replay", trace, "--target", "t", "--resume", result, "-q"]);
    record(dir, "t.reprise", "echo x > y; cat y; rm y");
    record(dir, "other.reprise", "echo x > z");
    mkdir(dir, "t");
    run(dir, &["replay", "t.reprise", "--target", "t", "-o", "r.reprise", "-q"]).ends(0);
    resume("t.reprise", "r.reprise").fails(USAGE, &["nothing to resume", "reprise verify t.reprise r.reprise"]);
    resume("other.reprise", "r.reprise").fails(USAGE, &["r.reprise", "give the trace that was replayed"]);
    resume("t.reprise", "other.reprise").fails(USAGE, &["not a replay's result", "reprise replay -o"]);
    resume("t.reprise", "missing").fails(TRACE, &["missing"]);
    let both = run(dir, &["replay", "t.reprise", "other.reprise", "--target", "t", "--resume", "r.reprise"]);
    both.fails(USAGE, &["several traces", "--side-by-side"]);
    let order = ["replay", "t.reprise", "--target", "t", "--resume", "r.reprise", "--order", "temporal"];
    let said = run(dir, &order);
    said.ends(USAGE);
    assert!(said.err.contains("--order") && said.err.contains("--resume"), "{said:#?}");
    // A damaged result: its actions cannot be read.
    copy(&dir.join("r.reprise"), &dir.join("damaged"));
    let parts: Vec<PathBuf> =
        fs::read_dir(dir.join("damaged/actions")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!parts.is_empty());
    for part in parts {
        let mut bytes = fs::read(&part).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        fs::write(&part, bytes).unwrap();
    }
    resume("t.reprise", "damaged").fails(TRACE, &["damaged"]);
    // The target was never touched by any of it.
    run(dir, &["verify", "--tree", "t.reprise", "t"]).ends(0);
}
