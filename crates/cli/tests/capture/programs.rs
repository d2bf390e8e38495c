//! Programs whose effects do not come by ordinary calls: mapped writes, Linux AIO, io_uring. Recorded, replayed, and the
//! trees compared; or, as long as a backend is known to miss them, proved to say so.

use std::path::Path;
use std::process::Command;

use reprise_testkit::program::{self, succeed};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::{skip, tree};

use crate::backend::Backend;
use crate::made::{Trace, build, can_build};
use crate::means::{copy, mkdir, run};

/// What a backend does not capture yet, by program: such a trace must say itself that it lacks something. When it does
/// capture it, the test fails until the line is taken away.
const INCOMPLETE: &[(Backend, &str)] = &[
    (Backend::Ptrace, "mmap-writer"),
    (Backend::Ptrace, "aio"),
    (Backend::Ptrace, "uring"),
    (Backend::Ebpf, "mmap-writer"),
    (Backend::Ebpf, "aio"),
    (Backend::Ebpf, "uring"),
];

/// A program, its arguments behind the name of the file or directory that it makes, and what is there before.
struct Case {
    program: &'static str,
    arguments: &'static [&'static str],
    before: Option<&'static [&'static str]>,
}

impl Case {
    const fn new(program: &'static str, arguments: &'static [&'static str]) -> Case {
        Case { program, arguments, before: None }
    }

    /// Runs it unrecorded in a directory; the checksum that it prints. It compares its files with what they must hold.
    fn run(&self, binary: &str, dir: &Path, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(binary);
        let output = program::run(command.arg("made").args(arguments).current_dir(dir));
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match output.status.success() && said.starts_with("checksum ") {
            true => Ok(said),
            false => Err(program::told(&command, &output)),
        }
    }

    fn check(&self, backend: Backend) {
        if !can_build() {
            return skip(self.program, "no C compiler (cc)");
        }
        let scratch = Scratch::new();
        let dir = scratch.path();
        let (binary, work) = (build(self.program, dir), dir.join("work"));
        mkdir(dir, "work");
        if let Some(before) = self.before {
            self.run(&binary, &work, before).unwrap_or_else(|e| panic!("{e}"));
        }
        let unrecorded = dir.join("unrecorded");
        copy(&work, &unrecorded);
        let expected = match self.run(&binary, &unrecorded, self.arguments) {
            Ok(checksum) => checksum,
            Err(why) if why.contains("io_uring_setup") => return skip(self.program, "io_uring is not permitted here"),
            Err(why) => panic!("{why}"),
        };

        let words = [&[binary.as_str(), "made"], self.arguments].concat();
        let said = succeed(&mut backend.record(&work, "../t.reprise", &words));
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), expected, "the program noticed that it was recorded");
        self.replayed(backend, dir, &work);
    }

    /// The replay leaves the same tree, or the trace says that it cannot.
    fn replayed(&self, backend: Backend, dir: &Path, work: &Path) {
        let trace = Trace::open(&dir.join("t.reprise"));
        let target = mkdir(dir, "target");
        let said = run(dir, &["replay", "-q", "t.reprise", "--target", &target]);
        let there = Path::new(&target).join(work.strip_prefix("/").expect("an absolute path"));
        let mut differences = tree::differences(&tree::walk(work), &tree::walk(&there));
        differences.extend((said.code != Some(0)).then(|| format!("{said:#?}")));
        differences.extend(trace.losses());
        if !INCOMPLETE.contains(&(backend, self.program)) {
            assert!(differences.is_empty(), "{}, {}: {differences:#?}", self.program, backend.name());
            return;
        }
        assert!(!differences.is_empty(), "{} is complete now: take it out of INCOMPLETE", self.program);
        assert!(!trace.losses().is_empty(), "{} lacks something and does not say so: {differences:#?}", self.program);
        skip(
            &format!("{}, {}", self.program, backend.name()),
            &format!("known to be incomplete: {}", trace.losses()[0]),
        );
    }
}

pub fn mapped_writes(backend: Backend) {
    Case::new("mmap-writer", &["48", "400", "3", "7"]).check(backend);
}

pub fn mapped_writes_with_msync(backend: Backend) {
    Case::new("mmap-writer", &["48", "400", "3", "8", "msync"]).check(backend);
}

/// The content before the recording is only ever seen through the mapping.
pub fn mapped_writes_over_a_content(backend: Backend) {
    Case { before: Some(&["48", "3000", "8", "1"]), ..Case::new("mmap-writer", &["48", "60", "2", "9"]) }
        .check(backend);
}

pub fn aio(backend: Backend) {
    Case::new("aio", &["96", "80", "3"]).check(backend);
}

pub fn aio_direct(backend: Backend) {
    let case = Case { before: Some(&["96", "5", "1"]), ..Case::new("aio", &["96", "80", "4", "direct"]) };
    case.check(backend);
}

pub fn uring(backend: Backend) {
    Case::new("uring", &["120", "5"]).check(backend);
}

pub fn uring_sqpoll(backend: Backend) {
    Case::new("uring", &["120", "6", "sqpoll"]).check(backend);
}

pub fn uring_defer(backend: Backend) {
    Case::new("uring", &["120", "7", "defer"]).check(backend);
}
