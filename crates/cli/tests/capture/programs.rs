//! Programs whose effects do not come by ordinary calls: mapped writes, Linux AIO, io_uring. Recorded, replayed, and the
//! trees compared; or, as long as a backend is known to miss them, proved to say so.

use std::path::Path;
use std::process::Command;

use reprise_testkit::program::{self, succeed};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::{skip, tree};

use crate::backend::Backend;
use crate::made::{Trace, build, can_build};
use crate::means::{Said, copy, mkdir, run};

/// What is known of a backend that does not capture all that a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Never complete; when it is, the test fails until the line is taken away.
    Incomplete,
    /// Complete or not, as it happens.
    Chance,
}

/// By backend and program, with its mode. Whatever is missing, the trace must say itself that it lacks something.
const KNOWN: &[(Backend, &str, Known)] = &[
    // The program sees completions in memory, and may use the buffer again before its next call.
    (Backend::Ptrace, "uring", Known::Chance),
    (Backend::Ptrace, "uring sqpoll", Known::Incomplete),
    (Backend::Ptrace, "rings", Known::Chance),
    (Backend::Ptrace, "rings broken", Known::Chance),
    // A failure can be told when a later request made it look successful.
    (Backend::Ptrace, "rings failing", Known::Chance),
];

/// A program, its arguments behind the name of the file or directory that it makes, and what is there before.
struct Case {
    program: &'static str,
    arguments: &'static [&'static str],
    before: Option<&'static [&'static str]>,
    /// Where it works: a directory of another file system.
    place: Option<&'static str>,
}

impl Case {
    const fn new(program: &'static str, arguments: &'static [&'static str]) -> Case {
        Case { program, arguments, before: None, place: None }
    }

    /// The program and the word for its mode, if there is one.
    fn name(&self) -> String {
        let mode = self.arguments.last().filter(|word| word.parse::<u32>().is_err());
        mode.map_or(self.program.into(), |mode| format!("{} {mode}", self.program))
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
        let scratch = self.place.map_or_else(Scratch::new, |place| Scratch::below(Path::new(place)));
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
            Err(why) if why.contains("userfaultfd") => return skip(self.program, "userfaultfd is not permitted here"),
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
        let may_race = self.program == "mmap-writer" && only_loads_differ(&said);
        differences.extend((said.code != Some(0) && !may_race).then(|| format!("{said:#?}")));
        differences.extend(trace.losses());
        let name = self.name();
        let known = KNOWN.iter().find(|(b, n, _)| (*b, *n) == (backend, name.as_str())).map(|(_, _, known)| *known);
        match known {
            None => assert!(differences.is_empty(), "{name}, {}: {differences:#?}", backend.name()),
            Some(Known::Chance) if differences.is_empty() => {}
            Some(Known::Incomplete) if differences.is_empty() => panic!("{name} is complete now: take it out of KNOWN"),
            Some(_) => {
                let losses = trace.losses();
                assert!(!losses.is_empty(), "{name} lacks something and does not say so: {differences:#?}");
                let why = format!("known to be incomplete: {}", losses.join("; "));
                skip(&format!("{name}, {}", backend.name()), &why);
            }
        }
    }
}

/// What a load finds races with what other processes store meanwhile (docs/CAPTURE.md, "Loads from mapped files"): a few of a hundred
/// may differ, and nothing else.
fn only_loads_differ(said: &Said) -> bool {
    let lines: Vec<&str> = said.out.lines().filter(|line| line.contains("diverged: action")).collect();
    let all_are_told = said.out.replace('\n', " ").contains(&format!(" diverged {} ", lines.len()));
    let loads = lines.iter().all(|line| line.contains(") mmap_pread: content differs"));
    said.code == Some(1) && all_are_told && loads && (1..=8).contains(&lines.len())
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

/// Where nothing is ever written back, pages are open to stores from the beginning.
pub fn mapped_writes_in_memory(backend: Backend) {
    Case { place: Some("/dev/shm"), ..Case::new("mmap-writer", &["48", "400", "3", "10", "msync"]) }.check(backend);
}

/// Each sees by calls what the other has stored.
pub fn mapped_by_two(backend: Backend) {
    Case::new("share", &["300", "1"]).check(backend);
}

pub fn mapped_by_two_with_msync(backend: Backend) {
    Case::new("share", &["300", "2", "msync"]).check(backend);
}

pub fn mapped_by_two_and_evicted(backend: Backend) {
    Case::new("share", &["300", "3", "evicted"]).check(backend);
}

pub fn mapped_by_two_in_memory(backend: Backend) {
    Case { place: Some("/dev/shm"), ..Case::new("share", &["300", "4"]) }.check(backend);
}

/// What nobody has written back is there, although who stored it was killed.
pub fn mapped_by_one_that_is_killed(backend: Backend) {
    Case::new("share", &["300", "5", "killed"]).check(backend);
}

/// Who reads on behind what another appends sees records half written (`tests/programs/follower.c`).
pub fn followed(backend: Backend) {
    Case::new("follower", &["200", "3000", "4096"]).check(backend);
    Case::new("follower", &["6000", "1000", "65536"]).check(backend);
}

/// The same where most of what is written is seen half done.
pub fn followed_by_large_steps(backend: Backend) {
    Case::new("follower", &["50000", "300", "65536"]).check(backend);
}

/// A script whose output goes to a file that the shell has just emptied, and that appends to this file: nothing stood there before.
pub fn own_log(backend: Backend) {
    const SCRIPT: &str =
        "echo one; echo two >>../log; stat ../log >/dev/null; echo three >>../log; stat ../log >/dev/null";
    let scratch = Scratch::new();
    let dir = scratch.path();
    let work = mkdir(dir, "work");
    let mut record = backend.record(Path::new(&work), "../t.reprise", &["sh", "-c", SCRIPT]);
    let log = std::fs::File::create(dir.join("log")).expect("a file");
    assert!(record.stdout(log).status().expect("started").success());
    let target = mkdir(dir, "target");
    run(dir, &["replay", "-q", "t.reprise", "--target", &target]).ends(0);
    let there = Path::new(&target).join(dir.strip_prefix("/").expect("an absolute path")).join("log");
    assert_eq!(std::fs::read(there).expect("a log"), std::fs::read(dir.join("log")).expect("a log"));
}

pub fn aio(backend: Backend) {
    Case::new("aio", &["96", "80", "3"]).check(backend);
}

pub fn aio_direct(backend: Backend) {
    let case = Case { before: Some(&["96", "5", "1"]), ..Case::new("aio", &["96", "80", "4", "direct"]) };
    case.check(backend);
}

/// The same `iocb` for several requests at once.
pub fn aio_again(backend: Backend) {
    Case::new("aio", &["96", "40", "5", "again"]).check(backend);
}

/// The program ends before it has fetched what became of its writes.
pub fn aio_left(backend: Backend) {
    Case::new("aio", &["96", "10", "6", "left"]).check(backend);
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

/// More completions than their queue has room for, and successes that are not told.
pub fn rings(backend: Backend) {
    Case::new("rings", &["24", "9"]).check(backend);
}

/// Chains of which nothing is told but that one has failed.
pub fn rings_broken(backend: Backend) {
    Case::new("rings", &["40", "10", "broken"]).check(backend);
}

pub fn rings_broken_at_once(backend: Backend) {
    Case::new("rings", &["40", "12", "first"]).check(backend);
}

/// Requests of whose success nothing would be told, and that fail when a later one is complete.
pub fn rings_failing(backend: Backend) {
    Case::new("rings", &["40", "11", "failing"]).check(backend);
}

/// Memory that a thread of the program brings only when somebody looks at it.
pub fn served_memory(backend: Backend) {
    Case::new("served", &["20", "3"]).check(backend);
}
