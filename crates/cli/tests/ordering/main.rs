//! The examples of `docs/ORDERING.md`: each breaks without its rule in some order, and holds with it in every order.

mod requests;

use std::path::{Path, PathBuf};
use std::process::Command;

use reprise_testkit::program::{self, succeed};
use reprise_testkit::scratch::Scratch;

/// Choices of a schedule that are tried both ways; no example has more actions in two threads.
const CHOICES: u32 = 5;

struct Example {
    line: usize,
    /// It is a log of strace; else in the notation of `requests`.
    strace: bool,
    breaks: String,
    holds: String,
    log: String,
}

fn examples() -> Vec<Example> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ORDERING.md");
    let text = std::fs::read_to_string(&path).expect("docs/ORDERING.md");
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((line, head)) = lines.next() {
        let strace = head.starts_with("```strace ");
        let words = head.strip_prefix("```strace ").or_else(|| head.strip_prefix("```requests "));
        let Some(words) = words else { continue };
        let word = |key: &str| {
            let found = words.split(' ').find_map(|w| w.strip_prefix(key)?.strip_prefix('='));
            found.unwrap_or_else(|| panic!("line {}: no {key}=", line + 1)).to_owned()
        };
        let (breaks, holds) = (word("breaks"), word("holds"));
        let log =
            lines.by_ref().map(|(_, l)| l).take_while(|l| *l != "```").fold(String::new(), |all, l| all + l + "\n");
        found.push(Example { line: line + 1, strace, breaks, holds, log });
    }
    found
}

/// Divergences of every order tried.
fn replays(trace: &Path, scratch: &Scratch, order: &str) -> Vec<(String, u64)> {
    let reprise = program::reprise().unwrap_or_else(|e| panic!("{e}"));
    let plan = scratch.path().join(format!("{}.plan", order.replace([':', ',', '='], "-")));
    succeed(Command::new(&reprise).args(["compile", "-q", "--order", order]).arg(trace).arg("-o").arg(&plan));
    (0..1u32 << CHOICES)
        .map(|choices| {
            let path: Vec<String> = (0..CHOICES).map(|i| (choices >> i & 1).to_string()).collect();
            let schedule = format!("path:{}", path.join(","));
            let target: PathBuf = scratch.path().join("target");
            let _ = std::fs::remove_dir_all(&target);
            std::fs::create_dir(&target).expect("a target");
            let mut replay = Command::new(&reprise);
            replay.args(["replay", "-q", "--json", "--schedule", &schedule]).arg(&plan).arg("--target").arg(&target);
            let output = program::run(&mut replay);
            let document = program::json(&output.stdout).unwrap_or_else(|e| panic!("{e}: {replay:?}"));
            (schedule, document["diverged"].as_u64().expect("a number of divergences"))
        })
        .collect()
}

#[test]
fn each_rule_is_needed_and_enough() {
    let examples = examples();
    assert!(examples.len() > 12, "{} examples were found", examples.len());
    let reprise = program::reprise().unwrap_or_else(|e| panic!("{e}"));
    let mut wrong = Vec::new();
    for example in examples {
        let scratch = Scratch::new();
        let (log, trace) = (scratch.path().join("log"), scratch.path().join("trace.reprise"));
        if example.strace {
            std::fs::write(&log, &example.log).expect("a log");
            succeed(Command::new(&reprise).args(["import", "-q"]).arg(&log).arg("-o").arg(&trace));
        } else {
            requests::write(&example.log, &trace);
        }
        if replays(&trace, &scratch, &example.breaks).iter().all(|(_, diverged)| *diverged == 0) {
            wrong.push(format!("line {}: nothing breaks under {}", example.line, example.breaks));
        }
        let holds = replays(&trace, &scratch, &example.holds);
        let failed = holds.iter().filter(|(_, diverged)| *diverged > 0);
        wrong.extend(failed.map(|(s, n)| format!("line {}: {n} diverged under {}, {s}", example.line, example.holds)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
