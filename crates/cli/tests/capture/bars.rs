//! Recordings beside each other, very many processes, and a recorder that is killed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reprise_testkit::program::succeed;
use reprise_testkit::scratch::Scratch;
use reprise_testkit::skip;

use crate::backend::{Backend, recover};
use crate::made::{Trace, build, can_build};
use crate::means::{kill, mkdir, run, until};

/// Longer than the two seconds after which a recorder writes what it has.
const FLUSHED: Duration = Duration::from_millis(4500);

// ---------------------------------------------------------------------------------------------------- beside each other

const THREADS: u64 = 2;
const CALLS: u64 = 400;

/// One of the programs that run at the same time: `rate`, with a size of its writes that tells it from the others.
struct Writer {
    place: String,
    bytes: u64,
    child: Child,
}

impl Writer {
    /// Starts it; it waits at a FIFO before it does anything.
    fn start(dir: &Path, rate: &str, name: &str, bytes: u64, backend: Option<Backend>) -> Writer {
        let place = mkdir(dir, name);
        succeed(Command::new("mkfifo").arg(format!("{place}/go")));
        let script =
            format!("echo > {place}/up; read _ < {place}/go; exec {rate} write {place} {bytes} {CALLS} {THREADS}");
        let mut command = match backend {
            Some(backend) => backend.record(dir, &format!("{name}.reprise"), &["sh", "-c", &script]),
            None => Command::new("sh"),
        };
        if backend.is_none() {
            command.args(["-c", &script]);
        }
        let child = command.stdout(Stdio::null()).spawn().expect("started");
        Writer { place, bytes, child }
    }

    fn go(&self) {
        let path = format!("{}/go", self.place);
        fs::OpenOptions::new().write(true).open(path).expect("the FIFO").write_all(b"\n").expect("written");
    }

    /// What it wrote, by the program's own rule: the first number of each call, which no other call of it has.
    fn stamps(&self) -> BTreeSet<u64> {
        let step = self.bytes.div_ceil(4096);
        (0..THREADS).flat_map(|t| (0..CALLS).map(move |c| (t << 48) + c * step)).collect()
    }

    fn check(&self, others: &[&Writer]) {
        let trace = Trace::open(&Path::new(&self.place).with_extension("reprise"));
        assert_eq!(trace.losses(), [""; 0], "{}", self.place);
        let writes: Vec<_> = trace.calls("pwrite64").collect();
        assert!(writes.iter().all(|a| a.data_bytes == self.bytes), "a write of another program in {}", self.place);
        let found: BTreeSet<u64> =
            writes.iter().map(|a| u64::from_le_bytes(trace.content(a)[..8].try_into().expect("eight bytes"))).collect();
        assert_eq!((writes.len() as u64, &found), (THREADS * CALLS, &self.stamps()), "{}", self.place);
        for path in trace.paths() {
            assert!(others.iter().all(|o| !path.starts_with(&o.place)), "{}: {}", self.place, path.display());
        }
        let processes = trace.reader.processes().expect("processes").len();
        assert_eq!(processes, 1, "{}", self.place);
    }
}

/// Two recordings and an unrecorded program, all of which do the same at the same time in different places.
pub fn two_recordings_do_not_mix(backend: Backend) {
    if !can_build() {
        return skip("two_recordings_do_not_mix", "no C compiler (cc)");
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let rate = build("rate", dir);
    let start = |name, bytes, backend| Writer::start(dir, &rate, name, bytes, backend);
    let mut writers =
        [start("a", 4096, Some(backend)), start("b", 8192, Some(backend)), start("unrecorded", 2048, None)];
    for writer in &writers {
        until("the programs are up", || Path::new(&writer.place).join("up").exists());
    }
    writers.iter().for_each(Writer::go);
    for writer in &mut writers {
        assert!(writer.child.wait().expect("its end").success(), "{}", writer.place);
    }
    let [a, b, unrecorded] = &writers;
    a.check(&[b, unrecorded]);
    b.check(&[a, unrecorded]);
}

// ------------------------------------------------------------------------------------------------------- core files

/// A core file is written by no call: it counts as dropped, wherever the kernel writes one.
pub fn core_files(backend: Backend) {
    let scratch = Scratch::new();
    let work = mkdir(scratch.path(), "work");
    let killed = "ulimit -c unlimited; sh -c 'kill -SEGV $$'; sh -c 'ulimit -c 0; kill -SEGV $$'; true";
    succeed(backend.record(Path::new(&work), "../t", &["sh", "-c", killed]).stderr(Stdio::null()));
    if fs::read_dir(&work).expect("a directory").next().is_none() {
        return skip("core_files", "the kernel writes them elsewhere, or gives them to a program");
    }
    let expected = ["1 dropped: a core file, which the kernel wrote as a process was killed"];
    assert_eq!(Trace::open(&scratch.path().join("t")).losses(), expected);
}

// ------------------------------------------------------------------------------------------------- very many processes

/// A tree of so many processes, each of which leaves a file with its number.
fn many_processes(backend: Backend, count: u32, more: &[&str]) {
    if !can_build() {
        return skip("many processes", "no C compiler (cc)");
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let (program, place, number) = (build("many", dir), mkdir(dir, "files"), count.to_string());
    let words = [&[program.as_str(), &place, &number], more].concat();
    succeed(&mut backend.record(dir, "t.reprise", &words));
    // The program has checked the ends of all of them; the files say that they were there.
    let expected: BTreeSet<Vec<u8>> = (0..count).map(|i| format!("{i}\n").into_bytes()).collect();
    let left: BTreeSet<Vec<u8>> =
        fs::read_dir(&place).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    assert_eq!(left, expected);

    let trace = Trace::open(&dir.join("t.reprise"));
    assert_eq!(trace.losses(), [""; 0]);
    assert_eq!(trace.reader.processes().expect("processes").len(), count as usize);
    let writes: Vec<_> = trace.calls("write").filter(|a| a.result > 0).collect();
    let written: BTreeSet<Vec<u8>> = writes.iter().map(|a| trace.content(a)).collect();
    assert_eq!((writes.len(), written), (count as usize, expected));
    let threads: BTreeSet<u32> = writes.iter().map(|a| a.thread).collect();
    assert_eq!(threads.len(), count as usize, "each process wrote once");
    let mut codes: Vec<u64> = trace.actions.iter().filter(|a| a.call == "exit_group").map(|a| a.args[0]).collect();
    let mut ends: Vec<u64> = (0..u64::from(count)).map(|i| if i == 0 { 0 } else { 2 + i % 250 }).collect();
    codes.sort_unstable();
    ends.sort_unstable();
    assert_eq!(codes, ends, "how the processes ended");
}

pub fn two_thousand_processes(backend: Backend) {
    many_processes(backend, 2000, &[]);
}

pub fn processes_that_become_others(backend: Backend) {
    many_processes(backend, 200, &["exec"]);
}

/// A program is given more words than anything that is copied in one go: all of them are in the trace.
pub fn a_long_command(backend: Backend) {
    let scratch = Scratch::new();
    let dir = scratch.path();
    let words: Vec<String> = (0..6000).map(|i| format!("word-{i}")).collect();
    let script = format!("exec /bin/echo {} > out", words.join(" "));
    succeed(backend.record(dir, "t.reprise", &["sh", "-c", &script]).env("LONG", "x".repeat(100_000)));
    let said = fs::read_to_string(dir.join("out")).expect("what it said");
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), words);

    let trace = Trace::open(&dir.join("t.reprise"));
    assert_eq!(trace.losses(), [""; 0]);
    let echo = trace.calls("execve").last().expect("an execve");
    let given = [b"/bin/echo", words.join("\0").as_bytes(), b""].join(&0);
    assert!(echo.input.windows(given.len()).any(|part| part == given), "{} bytes", echo.input.len());
}

// --------------------------------------------------------------------------------------------------- a killed recorder

/// Counts as fast as it can until there is a file `stop`, then says that it came to its end.
const COUNTS: &str =
    "echo $$ > pid; i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i; done > out; echo $i > end.tmp; mv end.tmp end";

fn lines(path: &PathBuf) -> usize {
    fs::read(path).map_or(0, |content| content.iter().filter(|b| **b == b'\n').count())
}

/// The counting program; it does not outlive the test.
struct Counter(u32);

impl Counter {
    fn alive(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        let state = status.rsplit(')').next().unwrap_or_default().trim_start();
        !state.is_empty() && !state.starts_with(['Z', 'X'])
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        if self.alive() {
            kill(self.0, libc::SIGKILL);
        }
    }
}

/// The program goes on, or ends, as the backend says; the trace holds a beginning of what it did, without a gap.
pub fn killed_recorder(backend: Backend) {
    let scratch = Scratch::new();
    let dir = scratch.path();
    let (out, end) = (dir.join("out"), dir.join("end"));
    let mut recorder = backend.record(dir, "t.reprise", &["sh", "-c", COUNTS]).spawn().expect("started");
    let begin = Instant::now();
    until("it has counted for a while", || begin.elapsed() > FLUSHED && lines(&out) > 300);
    let counter = Counter(fs::read_to_string(dir.join("pid")).unwrap().trim().parse().expect("a number"));
    recorder.kill().expect("killed");
    recorder.wait().expect("its end");
    let at_the_kill = lines(&out);

    if backend.program_outlives_the_recorder() {
        until("it counts on", || lines(&out) > at_the_kill + 300);
        fs::write(dir.join("stop"), "").unwrap();
        until("it ends as it would have", || end.exists());
        let last: usize = fs::read_to_string(&end).unwrap().trim().parse().expect("a number");
        assert_eq!(lines(&out), last, "the program lost some of what it wrote");
    } else {
        until("it has ended", || !counter.alive());
        assert!(!end.exists());
    }

    recover(dir, "t.reprise");
    let said = run(dir, &["info", "--json", "t.reprise"]).ends(0).json();
    let trace = Trace::open(&dir.join("t.reprise"));
    assert_eq!(said["actions"].as_u64(), Some(trace.actions.len() as u64));
    let counted: Vec<String> = trace
        .calls("write")
        .map(|a| String::from_utf8(trace.content(a)).expect("digits"))
        .skip(1) // its process's number
        .collect();
    let expected: Vec<String> = (1..=counted.len()).map(|i| format!("{i}\n")).collect();
    assert_eq!(counted, expected, "a beginning without a gap");
    assert!(!counted.is_empty(), "nothing of {at_the_kill} lines");
    println!("{}: {} of {at_the_kill} lines are in the trace", backend.name(), counted.len());
}
