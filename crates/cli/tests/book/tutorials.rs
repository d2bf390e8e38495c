//! Tutorials are scripts: their blocks are run in order in one shell, in a scratch directory, and what they show is compared
//! with what is printed.
//!
//! | block | |
//! |---|---|
//! | ```` ```sh ```` | is run; a command that fails is a failure |
//! | ```` ```sh any-exit ```` | is run; its last command may end with any exit code |
//! | ```` ```text ```` | the block before it printed these lines, in this order, perhaps with others between; numbers but 0 and their units may be others, `…` stands for any text |
//! | ```` ```sh not-run ````, ```` ```text example ````, others | are for readers only |
//!
//! A comment `<!-- needs: root loop sqlite3 -->` names what a page wants: root, loop devices, or programs.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use reprise_testkit::scratch::{Kind, LoopFs, Scratch, is_root};
use reprise_testkit::{program, skip};

use crate::means::has;

/// A block that is run, and the lines that it must print.
struct Step {
    script: String,
    any_exit: bool,
    shown: Vec<String>,
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in text.split("\n```").skip(1).step_by(2) {
        let (kind, body) = block.split_once('\n').unwrap_or((block, ""));
        match kind {
            "sh" | "sh any-exit" => {
                steps.push(Step { script: body.to_owned(), any_exit: kind != "sh", shown: Vec::new() });
            }
            "text" => {
                let step = steps.last_mut().expect("a block of text belongs to a command before it");
                step.shown.extend(body.lines().map(str::to_owned));
            }
            _ => {}
        }
    }
    steps
}

/// All steps as one script: the output of step N goes to `said.N` beside the directory.
fn script(steps: &[Step], said: &Path) -> String {
    let mut out = "set -uo pipefail\n".to_owned();
    for (n, step) in steps.iter().enumerate() {
        let mode = if step.any_exit { "set +e" } else { "set -e" };
        let _ = write!(out, "exec >{}.{n} 2>&1\n{mode}\n{}\n", said.display(), step.script);
    }
    out + "exit 0\n"
}

/// The words of a line, `#` for each number but 0 (`diverged 0` says something), without units.
fn words(line: &str) -> Vec<String> {
    const UNITS: [&str; 11] = ["ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB", "%", "K", "M"];
    let mut out: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let bare = word.trim_matches(|c: char| ",;:()<>".contains(c));
        let number = bare.starts_with(|c: char| c.is_ascii_digit() || "+-−".contains(c))
            && bare.contains(|c: char| c.is_ascii_digit());
        if number {
            out.push(if bare == "0" { bare } else { "#" }.to_owned());
        } else if !(UNITS.contains(&bare) && out.last().is_some_and(|last| ["#", "0"].contains(&last.as_str()))) {
            out.push(word.to_owned());
        }
    }
    out
}

/// Whether a printed line is as the shown one says.
fn fits(shown: &str, printed: &str) -> bool {
    let printed = words(printed).join(" ");
    let parts: Vec<String> = shown.split('…').map(|part| words(part).join(" ")).collect();
    let (first, last) = (&parts[0], &parts[parts.len() - 1]);
    if parts.len() == 1 {
        return *first == printed;
    }
    if !printed.starts_with(first.as_str()) || !printed.ends_with(last.as_str()) {
        return false;
    }
    let mut rest = &printed[first.len()..];
    parts[1..].iter().all(|part| rest.find(part.as_str()).map(|at| rest = &rest[at + part.len()..]).is_some())
}

/// The first line that was shown and not printed.
fn missing<'a>(shown: &'a [String], printed: &str) -> Option<&'a str> {
    let mut lines = printed.lines();
    let wanted = shown.iter().filter(|line| !words(&line.replace('…', " ")).is_empty());
    wanted.map(String::as_str).find(|line| !lines.any(|printed| fits(line, printed)))
}

/// What the page says that it needs.
fn needs(text: &str) -> Vec<&str> {
    let comment = text.split_once("<!-- needs:").and_then(|(_, rest)| rest.split_once("-->"));
    comment.map_or(Vec::new(), |(needs, _)| needs.split_whitespace().collect())
}

/// What of that this machine lacks.
fn lacking(needs: &[&str]) -> Option<String> {
    needs.iter().find_map(|need| match *need {
        "root" => (!is_root()).then(|| "not root".to_owned()),
        "loop" => LoopFs::new(Kind::Ext4, Kind::Ext4.least_bytes()).err(),
        "xfs" => LoopFs::new(Kind::Xfs, Kind::Xfs.least_bytes()).err(),
        program => (!has(program)).then(|| format!("no {program}")),
    })
}

fn perform(name: &str, page: &str) {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")).join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{page}: {e}"));
    let needs = needs(&text);
    if let Some(why) = lacking(&needs) {
        return skip(name, &why);
    }
    let scratch = Scratch::new();
    let (work, said) = (scratch.path().join("work"), scratch.path().join("said"));
    std::fs::create_dir(&work).unwrap();
    let steps = steps(&text);
    std::fs::write(scratch.path().join("script"), script(&steps, &said)).unwrap();
    let binary = program::reprise().unwrap_or_else(|e| panic!("{e}"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("timeout");
    command.arg("300");
    if needs.contains(&"root") {
        // What is mounted goes with the shell.
        command.args(["unshare", "--mount"]);
    }
    command.args(["bash", "../script"]).current_dir(&work);
    let output = program::run(command.env("PATH", path).env("XDG_STATE_HOME", &said).env_remove("NO_COLOR"));
    for (n, step) in steps.iter().enumerate() {
        let printed = std::fs::read_to_string(said.with_extension(n.to_string())).unwrap_or_default();
        let last = n + 1 == steps.len() || !said.with_extension((n + 1).to_string()).exists();
        assert!(output.status.success() || !last, "{page}: {}\n{}\n{printed}", output.status, step.script);
        let missing = missing(&step.shown, &printed);
        assert!(missing.is_none(), "{page} shows `{}`, but\n{}\nprinted\n{printed}", missing.unwrap(), step.script);
    }
}

#[test]
fn the_quick_start() {
    perform("the_quick_start", "QUICKSTART.md");
}

#[test]
fn xfs_or_ext4() {
    perform("xfs_or_ext4", "tutorials/XFS-OR-EXT4.md");
}

#[test]
fn which_fsyncs_hurt() {
    perform("which_fsyncs_hurt", "tutorials/FSYNCS.md");
}

#[test]
fn a_production_hour() {
    perform("a_production_hour", "tutorials/PRODUCTION-HOUR.md");
}

#[test]
fn what_is_not_printed_is_noticed() {
    let printed = "  elapsed   2.43 s, traced 617 ms (ratio 3.9)\nxfs takes less\ndiverged 3\n";
    let missing = |shown: &str| missing(&[shown.to_owned()], printed).is_some();
    assert!(!missing("elapsed 1 ms, traced 12.3 µs (ratio 1.0)") && !missing("elapsed … traced … (ratio …"));
    assert!(
        missing("elapsed 1 ms, traced")
            && missing("ext4 takes less")
            && missing("… takes more")
            && missing("elapsed … none")
    );
    let blocks = "a\n```sh\ntrue\n```\n\n```text\nx\n…\n```\n```sh not-run\nfalse\n```\n```sh any-exit\nfalse\n```\n";
    let found: Vec<_> = steps(blocks).into_iter().map(|s| (s.script, s.any_exit, s.shown.len())).collect();
    assert_eq!(found, [("true".to_owned(), false, 2), ("false".to_owned(), true, 0)]);
}
