//! Running one case of the oracle in a process and a directory of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use reprise_testkit::oracle::report::{SKIP, SKIP_STATUS};
use reprise_testkit::program::{self, told};
use reprise_testkit::scratch::Scratch;

/// The program that runs cases: of the same build as this test; built now where only this test was asked for.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let path = program::sibling("oracle-case").expect("a test in a target directory");
        if !path.exists() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "-p", "reprise-testkit", "--bin", "oracle-case"]);
            let dir = path.parent().expect("the profile's directory");
            if dir.ends_with("release") {
                cargo.arg("--release");
            }
            cargo.arg("--target-dir").arg(dir.parent().expect("target"));
            program::succeed(&mut cargo);
        }
        path
    })
}

/// A directory with the fixture, below a scratch directory.
pub struct Place {
    scratch: Scratch,
}

impl Place {
    /// A fresh one, below this directory.
    pub fn below(base: Option<&Path>) -> Place {
        let scratch = base.map_or_else(Scratch::new, Scratch::below);
        let dir = scratch.path().join("case");
        std::fs::create_dir(&dir).expect("a directory");
        let place = Place { scratch };
        program::succeed(place.command(["fixture"]).current_dir(dir));
        place
    }

    /// Where the case runs.
    pub fn dir(&self) -> PathBuf {
        self.beside("case")
    }

    /// A name beside it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Leaves everything on disk.
    pub fn keep(self) -> PathBuf {
        self.scratch.keep()
    }

    /// The program of the cases, in this place.
    pub fn command<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = Command::new(program());
        command.args(args).current_dir(self.dir());
        command
    }
}

/// How a case ended.
pub enum End {
    /// The row is right.
    Right,
    /// It cannot be tested here.
    Skip(String),
    /// The row is wrong.
    Wrong(String),
}

/// What the exit status and standard error of a case say.
pub fn end(command: &Command, output: &Output) -> End {
    match output.status.code() {
        Some(0) => End::Right,
        Some(SKIP_STATUS) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let why = text.lines().find_map(|l| l.strip_prefix(SKIP));
            End::Skip(why.unwrap_or("without a reason").to_owned())
        }
        _ => End::Wrong(told(command, output)),
    }
}
