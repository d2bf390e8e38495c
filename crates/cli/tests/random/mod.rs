//! What the tests of random programs share: recording one, and replaying it in some order and schedule.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use reprise_testkit::program::{self, told};
use reprise_testkit::scratch::{Scratch, is_root};
use reprise_testkit::tree;
use serde_json::Value;

/// A program, its recording or its replay that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// Without order some wait for what never comes.
const LIMIT_IN_DISORDER: Duration = Duration::from_secs(10);

/// What `REPRISE_SEED` or `REPRISE_SEEDS` name, else the default.
pub fn seeds(default: std::ops::Range<u64>) -> Vec<u64> {
    let number = |text: &str| text.trim().parse::<u64>().unwrap_or_else(|e| panic!("{text:?}: {e}"));
    if let Ok(one) = std::env::var("REPRISE_SEED") {
        return vec![number(&one)];
    }
    match std::env::var("REPRISE_SEEDS") {
        Ok(range) => match range.split_once("..") {
            Some((from, to)) => (number(from)..number(to)).collect(),
            None => (1..=number(&range)).collect(),
        },
        Err(_) => default.collect(),
    }
}

/// The generator: of the same build as this test; built now where only this test was asked for.
fn generator() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let path = program::sibling("random-program").expect("a test in a target directory");
        if !path.exists() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "-p", "reprise-testkit", "--bin", "random-program"]);
            let dir = path.parent().expect("the profile's directory");
            cargo.args(dir.ends_with("release").then_some("--release"));
            cargo.arg("--target-dir").arg(dir.parent().expect("target"));
            program::succeed(&mut cargo);
        }
        path
    })
}

/// One seed's place: the program's tree three directories down, so that what climbs out of it stays inside.
pub struct Case {
    pub seed: u64,
    pub scratch: Scratch,
    pub options: Vec<&'static str>,
}

/// The differences found, or why there was no replay.
pub type Outcome = Result<Vec<String>, String>;

/// What a replay came to.
#[derive(Debug)]
pub struct Replayed {
    /// By four ways of looking.
    pub differences: Vec<String>,
    /// At each step that left a choice, the number of threads that could go on.
    pub degrees: Vec<usize>,
}

impl Case {
    /// Records a seed's program, on the file system of a directory. What is tried is whether a known order is kept.
    pub fn record(seed: u64, below: Option<&Path>, options: &[&'static str]) -> Result<Case, String> {
        Case::record_by(&program::exact_backend(), true, seed, below, options)
    }

    /// The same by the backend that these words name, with a snapshot before or without.
    pub fn record_by(
        backend: &[String],
        snapshot: bool,
        seed: u64,
        below: Option<&Path>,
        options: &[&'static str],
    ) -> Result<Case, String> {
        let scratch = below.map_or_else(Scratch::new, Scratch::below);
        let mut options = options.to_vec();
        // Without privileges other errors come up; a quarter of the programs gives them up.
        options.extend((seed % 4 == 3 && is_root()).then_some("--user"));
        let case = Case { seed, scratch, options };
        let tree = case.work().join("1/2/tree");
        let mut words = case.options.clone();
        let number = seed.to_string();
        words.push(&number);
        program::succeed(Command::new(generator()).arg("--prepare").args(&words).arg(&tree));
        let mut command = case.reprise("record");
        command.args(backend).arg("-o").arg(case.trace());
        if snapshot {
            command.arg("--tree").arg(case.work());
        }
        command.arg("--").arg(generator());
        well(command.args(&words).arg(&tree))?;
        Ok(case)
    }

    fn work(&self) -> PathBuf {
        self.scratch.path().join("work")
    }

    /// The recording.
    pub fn trace(&self) -> PathBuf {
        self.scratch.path().join("trace.reprise")
    }

    fn reprise(&self, command: &str) -> Command {
        self.reprise_within(LIMIT, command)
    }

    fn reprise_within(&self, limit: Duration, command: &str) -> Command {
        let mut out = Command::new("timeout");
        out.arg(limit.as_secs().to_string());
        out.arg(program::reprise().unwrap_or_else(|e| panic!("{e}"))).arg(command);
        out
    }

    /// Replays in this order into a fresh directory; the differences found.
    pub fn replay(&self, order: &str) -> Outcome {
        self.replay_by(order, None).map(|r| r.differences)
    }

    /// Replays in this order, and compares with nothing but the trace; the divergences.
    pub fn replay_alone(&self, order: &str) -> Outcome {
        let target = self.target()?;
        let (_, divergences) = self.perform(&target, order, &[])?;
        well(self.reprise("verify").arg("--tree").arg(self.trace()).arg(&target))?;
        Ok(divergences)
    }

    /// A fresh directory.
    fn target(&self) -> Result<PathBuf, String> {
        let target = self.scratch.path().join("target");
        removed(&target)?;
        std::fs::create_dir(&target).map_err(|e| e.to_string())?;
        Ok(target)
    }

    /// Replays; what was said, and the divergences.
    fn perform(&self, target: &Path, order: &str, more: &[&OsStr]) -> Result<(Value, Vec<String>), String> {
        let limit = if order == "none" { LIMIT_IN_DISORDER } else { LIMIT };
        let mut replay = self.reprise_within(limit, "replay");
        replay.arg(self.trace()).arg("--target").arg(target).args(["--order", order, "--json"]).args(more);
        let output = program::run(&mut replay);
        let document = program::json(&output.stdout).map_err(|e| format!("{e}\n{}", told(&replay, &output)))?;
        let count = document["diverged"].as_u64().ok_or("no number of divergences")?;
        if output.status.code() != Some(i32::from(count > 0)) {
            return Err(told(&replay, &output));
        }
        let divergences: Vec<String> =
            document["divergences"].as_array().into_iter().flatten().map(|d| format!("replay: {d}")).collect();
        if divergences.is_empty() != (count == 0) {
            return Err(format!("{count} diverged, and {} are told", divergences.len()));
        }
        Ok((document, divergences))
    }

    /// The same, with calls issued in this way (`--io`).
    pub fn replay_with(&self, order: &str, io: &str) -> Outcome {
        self.replay_and_look(order, None, &[OsStr::new("--io"), OsStr::new(io)]).map(|r| r.differences)
    }

    /// Replays in this order, of all that it permits the one that the schedule chooses.
    pub fn replay_by(&self, order: &str, schedule: Option<&str>) -> Result<Replayed, String> {
        self.replay_and_look(order, schedule, &[])
    }

    fn replay_and_look(&self, order: &str, schedule: Option<&str>, also: &[&OsStr]) -> Result<Replayed, String> {
        let (target, result) = (self.target()?, self.scratch.path().join("result.reprise"));
        removed(&result)?;
        let schedule = schedule.map(|schedule| format!("--schedule={schedule}"));
        let more = match &schedule {
            Some(schedule) => vec![OsStr::new(schedule)],
            None => vec![OsStr::new("-o"), result.as_os_str()],
        };
        let (document, mut out) = self.perform(&target, order, &[&more, also].concat())?;
        let same = out.is_empty();
        let there = target.join(self.work().strip_prefix("/").expect("an absolute path"));
        let expected = tree::walk(&self.work());
        let found = if there.exists() { tree::walk(&there) } else { BTreeMap::new() };
        let trees = tree::differences(&expected, &found);
        // Of many replays of one trace it is enough to look at the replay's own count and at the tree.
        if schedule.is_none() {
            let mut of_traces = self.reprise("verify");
            self.agree(of_traces.arg(self.trace()).arg(&result), same, &mut out);
        }
        let mut of_tree = self.reprise("verify");
        self.agree(of_tree.arg("--tree").arg(self.trace()).arg(&target), trees.is_empty(), &mut out);
        out.extend(trees.iter().map(|d| format!("tree: {d}")));
        let degrees = document["degrees"].as_array().into_iter().flatten().filter_map(|d| Some(d.as_u64()? as usize));
        Ok(Replayed { differences: out, degrees: degrees.collect() })
    }

    /// Keeps what there is of it on disk, and says how to see the failure again.
    pub fn keep(self, order: &str, schedule: &str) -> String {
        let (seed, options) = (self.seed, self.options.join(" "));
        let place = self.scratch.keep();
        format!(
            "seed {seed} {options}: reprise replay {0}/trace.reprise --target {0}/target --order {order} --schedule {schedule}",
            place.display()
        )
    }

    fn agree(&self, verify: &mut Command, same: bool, out: &mut Vec<String>) {
        let output = program::run(verify);
        if same != (output.status.code() == Some(0)) {
            out.push(format!(
                "verify does not agree that it is {}: {}",
                if same { "the same" } else { "different" },
                told(verify, &output)
            ));
        }
    }
}

/// Removes what an earlier replay left.
fn removed(old: &Path) -> Result<(), String> {
    std::fs::remove_dir_all(old).or_else(|_| if old.exists() { Err(format!("{old:?} stays")) } else { Ok(()) })
}

fn well(command: &mut Command) -> Result<Output, String> {
    let output = program::run(command);
    if output.status.success() { Ok(output) } else { Err(told(command, &output)) }
}
