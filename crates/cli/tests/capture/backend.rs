//! Which backend records.

use std::path::Path;
use std::process::Command;

use reprise_testkit::scratch::Scratch;
use reprise_testkit::skip;

use crate::means::{Said, reprise, run};

/// A backend of `record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Ptrace,
    Ebpf,
}

impl Backend {
    /// As `record --backend` names it.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Ptrace => "ptrace",
            Backend::Ebpf => "ebpf",
        }
    }

    /// What becomes of the program when the recorder is killed. Under ptrace it dies too, and has to: its calls are let
    /// in by the tracer, and without one the kernel would refuse them all.
    pub fn program_outlives_the_recorder(self) -> bool {
        match self {
            Backend::Ptrace => false,
            Backend::Ebpf => true,
        }
    }

    /// Runs a test with it, or says why not.
    pub fn run(self, name: &str, test: fn(Backend)) {
        match self.lack() {
            Some(why) => skip(&format!("{name}, {}", self.name()), &why),
            None => test(self),
        }
    }

    /// Why it cannot be tested, if so.
    pub fn lack(self) -> Option<String> {
        let asked = std::env::var("REPRISE_BACKEND").unwrap_or_default();
        if !asked.is_empty() && asked != self.name() {
            return Some(format!("REPRISE_BACKEND={asked}"));
        }
        if !can_choose() {
            return (self != Backend::Ptrace).then(|| "this build's `record` has no --backend".into());
        }
        let scratch = Scratch::new();
        let said = Said::new("a first recording".into(), self.record(scratch.path(), "t", &["true"]).output().unwrap());
        (said.code != Some(0)).then(|| format!("refused: {}", said.err.trim()))
    }

    /// The command that records a program, quietly, into a trace of this name.
    pub fn record(self, dir: &Path, trace: &str, program: &[&str]) -> Command {
        let mut words = vec!["record", "-q", "-o", trace];
        if can_choose() {
            words.extend(["--backend", self.name()]);
        }
        words.push("--");
        words.extend(program);
        reprise(dir, &words)
    }
}

/// Whether there is more than one backend in this build.
fn can_choose() -> bool {
    run(Path::new("/"), &["record", "--help"]).out.contains("--backend")
}

/// Makes a trace complete that its recorder left behind, if this build knows of such.
pub fn recover(dir: &Path, trace: &str) {
    if dir.join(trace).join("spool").exists()
        && run(Path::new("/"), &["--help"]).out.lines().any(|l| l.trim_start().starts_with("recover "))
    {
        run(dir, &["recover", trace]).ends(0);
    }
}
