//! One case: a program, recorded and replayed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reprise_testkit::program::{self, told};
use reprise_testkit::scratch::{Scratch, is_root};
use reprise_testkit::{skip, tree};
use reprise_trace::{Action, TraceReader};

/// A program, its recording or its replay that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// Each replay may schedule its threads otherwise.
const REPLAYS: usize = 3;
/// Memory, and ends of children, which a replay waits for in its own way.
const ALWAYS_SIMULATED: [&str; 6] = ["mmap", "munmap", "mprotect", "madvise", "wait4", "wait4:ECHILD"];

/// A program of `programs/`, and what of it may be taken from the trace.
pub struct Case {
    program: &'static str,
    word: Option<&'static str>,
    simulated: &'static [&'static str],
    needs_root: bool,
}

impl Case {
    pub fn new(program: &'static str) -> Case {
        Case { program, word: None, simulated: &[], needs_root: false }
    }

    /// One of the ways that the program knows.
    pub fn with(self, word: &'static str) -> Case {
        Case { word: Some(word), ..self }
    }

    /// Calls (`call`, or `call:ERROR` for a failure) that a replay takes from the trace.
    pub fn simulating(self, calls: &'static [&'static str]) -> Case {
        Case { simulated: calls, ..self }
    }

    pub fn needing_root(self) -> Case {
        Case { needs_root: true, ..self }
    }

    fn name(&self) -> String {
        format!("{}{}", self.program, self.word.map_or(String::new(), |w| format!(" {w}")))
    }

    /// Why it cannot be run here.
    fn impossible(&self) -> Option<&'static str> {
        let compiler = Command::new("cc").arg("--version").output().is_ok_and(|o| o.status.success());
        match (compiler, self.needs_root && !is_root()) {
            (false, _) => Some("no C compiler (cc)"),
            (_, true) => Some("not root"),
            _ => None,
        }
    }
}

/// A recording of a case, and the place where it was made.
pub struct Recorded {
    scratch: Scratch,
    pub trace: PathBuf,
}

impl Recorded {
    fn work(&self) -> PathBuf {
        self.scratch.path().join("1/2/work")
    }

    /// Builds the program and records it in an empty directory, some way down so that what climbs out stays inside.
    pub fn new(case: &Case, snapshot: bool) -> Recorded {
        let scratch = Scratch::new();
        let recorded = Recorded { trace: scratch.path().join("trace.reprise"), scratch };
        std::fs::create_dir_all(recorded.work()).expect("a directory");
        let binary = recorded.scratch.path().join("program");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model/programs").join(case.program);
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&binary);
        program::succeed(compiler.arg(source.with_extension("c")));
        let mut record = recorded.reprise("record");
        record.args(program::exact_backend()).arg("-o").arg(&recorded.trace);
        if snapshot {
            record.arg("--tree").arg(recorded.scratch.path().join("1"));
        }
        program::succeed(record.arg("--").arg(&binary).args(case.word).current_dir(recorded.work()));
        recorded
    }

    fn reprise(&self, command: &str) -> Command {
        let mut out = Command::new("timeout");
        out.arg(LIMIT.as_secs().to_string());
        out.arg(program::reprise().unwrap_or_else(|e| panic!("{e}"))).arg(command);
        out
    }

    /// Compiles it to a plan.
    pub fn plan(&self, order: &str) -> PathBuf {
        let plan = self.scratch.path().join("plan").with_extension(order);
        program::succeed(self.reprise("compile").arg(&self.trace).args(["--order", order, "-o"]).arg(&plan));
        plan
    }

    /// Replays it into a fresh directory below this one, and says what went wrong.
    fn replay(&self, case: &Case, below: &Path, number: usize) -> Vec<String> {
        let target = below.join(format!("target{number}"));
        let result = self.scratch.path().join(format!("result{number}.reprise"));
        std::fs::create_dir(&target).expect("a directory");
        let mut replay = self.reprise("replay");
        replay.arg(&self.trace).arg("--target").arg(&target).arg("--json").arg("-o").arg(&result);
        let output = program::run(&mut replay);
        let mut wrong = Vec::new();
        match program::json(&output.stdout) {
            Ok(document) => {
                for field in ["diverged", "unsupported", "skipped"] {
                    if document[field].as_u64() != Some(0) {
                        wrong.push(format!("{field}: {}: {}", document[field], document["divergences"]));
                    }
                }
            }
            Err(e) => wrong.push(e),
        }
        if output.status.code() != Some(0) {
            wrong.push(told(&replay, &output));
        }
        wrong.extend(simulated(&result, case).into_iter().map(|call| format!("simulated: {call}")));
        let there = target.join(self.work().strip_prefix("/").expect("an absolute path"));
        let differences = tree::differences(&tree::walk(&self.work()), &tree::walk(&there));
        wrong.extend(differences.into_iter().map(|d| format!("tree: {d}")));
        wrong
    }
}

/// Calls that were taken from the trace and should not have been.
fn simulated(result: &Path, case: &Case) -> BTreeSet<String> {
    let reader = match TraceReader::open(result) {
        Ok(reader) => reader,
        Err(e) => return BTreeSet::from([e.to_string()]),
    };
    let name = |action: &Action| match &action.errno {
        Some(errno) => format!("{}:{errno}", action.call),
        None => action.call.to_string(),
    };
    let actions = reader.actions().map(|a| a.expect("an action"));
    // What names a pseudo file system is not storage.
    let foreign = |action: &Action| action.path.as_ref().is_some_and(|p| p.starts_with(b"/proc/"));
    actions
        .filter(|a| a.handling.as_deref() == Some("simulated") && !foreign(a))
        .map(|a| name(&a))
        .filter(|name| !case.simulated.contains(&name.as_str()) && !ALWAYS_SIMULATED.contains(&name.as_str()))
        .collect()
}

/// Records a case with a snapshot of its tree and without, and replays it.
pub fn check(case: &Case) {
    check_on(case, None);
}

/// The same, replayed into this directory.
pub fn check_on(case: &Case, base: Option<&Path>) {
    if let Some(why) = case.impossible() {
        return skip(&case.name(), why);
    }
    for snapshot in [true, false] {
        let recorded = Recorded::new(case, snapshot);
        let targets = base.map(Scratch::below);
        let below = targets.as_ref().map_or(recorded.scratch.path(), Scratch::path);
        for number in 0..REPLAYS {
            let wrong = recorded.replay(case, below, number);
            if wrong.is_empty() {
                continue;
            }
            let kept = match std::env::var_os("REPRISE_KEEP") {
                Some(_) => format!("\nkept: {}", recorded.scratch.keep().display()),
                None => String::new(),
            };
            panic!("{}, snapshot {snapshot}, replay {number}:\n{}{kept}", case.name(), wrong.join("\n"));
        }
    }
}
