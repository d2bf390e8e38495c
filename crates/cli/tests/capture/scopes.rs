//! Recording what runs already: processes, control groups, the whole system, and for how long.
//!
//! The program (`tests/programs/server.c`) is in the middle of its work when the recorder comes, and goes on when it has
//! gone; it is paused before the recorder is told to stop, so that what its files hold then is known otherwise.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use reprise_testkit::scratch::{self as mount, Kind, LoopFs, Scratch};
use reprise_testkit::tree::{self, Node};
use reprise_testkit::{program, skip};
use reprise_trace::Action;

use crate::backend::Backend;
use crate::made::{Trace, build, can_build};
use crate::means::{Said, copy, has, kill, mkdir, reprise, run, until};

/// Whether the recorder can attach here; else says why not.
pub(crate) fn can_attach(name: &str) -> bool {
    let lack = Backend::Ebpf.lack().or_else(|| (!can_build()).then(|| "no C compiler (cc)".into()));
    lack.iter().for_each(|why| skip(name, why));
    lack.is_none()
}

/// A server that works; it does not outlive the test.
pub(crate) struct Server {
    child: Child,
    said: BufReader<ChildStdout>,
    work: PathBuf,
    pauses: u32,
}

impl Server {
    pub(crate) fn start(dir: &Path, name: &str) -> Server {
        let binary = match dir.join("server") {
            built if built.exists() => built.to_str().expect("UTF-8").to_owned(),
            _ => build("server", dir),
        };
        let work = PathBuf::from(mkdir(dir, name));
        let mut command = Command::new(binary);
        let mut child = command.arg(&work).stdout(Stdio::piped()).spawn().expect("started");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        assert_eq!(line, format!("ready {}\n", child.id()));
        Server { child, said, work, pauses: 0 }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How much it has done.
    fn progress(&self) -> u64 {
        fs::metadata(self.work.join("lines-1")).map_or(0, |m| m.len())
    }

    pub(crate) fn goes_on(&self) {
        let before = self.progress();
        until("it goes on", || self.progress() > before + 200);
    }

    /// Pauses it; what its files hold does not change from now on.
    pub(crate) fn pause(&mut self) {
        kill(self.pid(), libc::SIGUSR1);
        let paused = self.work.join(format!("inner/paused-{}", self.pauses));
        until("it pauses", || paused.exists());
        self.pauses += 1;
    }

    pub(crate) fn resume(&self) {
        kill(self.pid(), libc::SIGUSR2);
    }

    /// It ends as it would have without a recorder, and finds its files as it left them.
    pub(crate) fn end(mut self) {
        kill(self.pid(), libc::SIGTERM);
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("the rest");
        assert_eq!((self.child.wait().expect("its end").code(), rest.as_str()), (Some(0), "good\n"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A recorder of what runs already.
pub(crate) struct Recorder {
    child: Child,
    trace: PathBuf,
}

impl Recorder {
    /// Starts it, and waits until it has attached.
    pub(crate) fn attach(dir: &Path, name: &str, words: &[&str]) -> Recorder {
        let words = [&["record", "--backend", "ebpf", "-q", "-o", name], words].concat();
        let child = reprise(dir, &words).stderr(Stdio::piped()).spawn().expect("started");
        let mut recorder = Recorder { child, trace: dir.join(name) };
        let begun = recorder.trace.join("spool/begin.json");
        until("the recorder attaches", || {
            if let Some(status) = recorder.child.try_wait().expect("asked") {
                let mut why = String::new();
                let _ = recorder.child.stderr.take().map(|mut e| e.read_to_string(&mut why));
                panic!("the recorder ended: {status}: {why}");
            }
            begun.exists()
        });
        recorder
    }

    fn wait(mut self) -> Trace {
        let status = self.child.wait().expect("its end");
        let mut said = String::new();
        let _ = self.child.stderr.take().map(|mut e| e.read_to_string(&mut said));
        assert_eq!(status.code(), Some(0), "{said}");
        Trace::open(&self.trace)
    }

    /// As Ctrl-C does.
    pub(crate) fn stop(self) -> Trace {
        kill(self.child.id(), libc::SIGINT);
        self.wait()
    }
}

/// Processes of a trace that acted, by the kernel's numbers.
pub(crate) fn acted(trace: &Trace) -> Vec<u32> {
    let threads = trace.reader.threads().expect("threads");
    let processes = trace.reader.processes().expect("processes");
    let mut pids: Vec<u32> =
        trace.actions.iter().map(|a| processes[threads[a.thread as usize].process as usize].pid as u32).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// The trace replays without divergence to the tree that is at `expected`, which was at `work`.
pub(crate) fn replays_to(dir: &Path, trace: &str, work: &Path, expected: &Path) {
    replays_but_for(dir, trace, work, expected, &BTreeMap::new());
}

/// The same, but for names that were there `before` the recording: those that it never meets it does not know.
fn replays_but_for(dir: &Path, trace: &str, work: &Path, expected: &Path, before: &BTreeMap<PathBuf, Node>) {
    let target = mkdir(dir, &format!("{trace}-target"));
    let said = run(dir, &["replay", "--json", trace, "--target", &target]);
    assert_eq!(said.code, Some(0), "{said:#?}");
    let there = Path::new(&target).join(work.strip_prefix("/").expect("an absolute path"));
    let (mut expected, there) = (tree::walk(expected), tree::walk(&there));
    expected.retain(|name, _| there.contains_key(name) || !before.contains_key(name));
    let differences = tree::differences(&expected, &there);
    assert!(differences.is_empty(), "{trace}: {differences:#?}");
}

#[test]
fn a_running_program() {
    if !can_attach("a_running_program") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let mut server = Server::start(dir, "work");
    server.goes_on();
    let recorder = Recorder::attach(dir, "t.reprise", &["--pid", &server.pid().to_string()]);
    server.goes_on();
    server.pause();
    let (work, expected) = (server.work.clone(), dir.join("expected"));
    let trace = recorder.stop();
    copy(&work, &expected);
    server.resume();
    server.goes_on();
    server.end();

    assert_eq!(trace.losses(), [""; 0]);
    let (threads, processes) = (trace.reader.threads().unwrap(), trace.reader.processes().unwrap());
    assert_eq!((threads.iter().filter(|t| t.created_by.is_none()).count(), processes.len()), (6, 2), "with its child");
    let cwd = String::from_utf8_lossy(&processes[0].cwd).into_owned();
    assert_eq!(Path::new(&cwd), work.join("inner"));
    let descriptors = trace.reader.descriptors().unwrap();
    let of = |name: &str| descriptors.iter().filter(|d| d.path.ends_with(name.as_bytes())).collect::<Vec<_>>();
    let input = of("/inner/input");
    assert_eq!((input.len(), input[0].description, input[0].offset), (2, input[1].description, input[1].offset));
    assert!(of("lines-0")[0].offset > 1000 && of("lines-0")[0].device != 0);
    assert_eq!(of("/.reprise-nameless-1").len(), 1);
    // The thread that waited in a pipe all the time.
    let told = trace.calls("read").filter(|a| a.data_bytes == 5).map(|a| trace.content(a)).collect::<Vec<_>>();
    assert_eq!(told, [b"hello"]);
    replays_to(dir, "t.reprise", &work, &expected);
}

/// A family of processes, which ends with its test.
struct Kin(Child);

impl Drop for Kin {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            kill(self.0.id(), libc::SIGTERM);
            let _ = self.0.wait();
        }
    }
}

/// Processes that share a descriptor table or directories, made by `clone` before the recorder came.
#[test]
fn processes_that_share() {
    if !can_attach("processes_that_share") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let (binary, work) = (build("kin", dir), PathBuf::from(mkdir(dir, "work")));
    let child = Command::new(binary).arg(&work).arg("processes").stdout(Stdio::piped()).spawn();
    let mut child = Kin(child.expect("started"));
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, format!("ready {}\n", child.0.id()));
    let made = || fs::read_dir(&work).map_or(0, Iterator::count);
    let more = |count: usize| {
        let before = made();
        until("it goes on", || made() > before + count);
    };
    more(10);
    let recorder = Recorder::attach(dir, "t.reprise", &["--pid", &child.0.id().to_string(), "--with-children"]);
    let before = tree::walk(&work);
    more(60);
    kill(child.0.id(), libc::SIGTERM);
    assert_eq!(child.0.wait().expect("its end").code(), Some(0));
    let trace = recorder.wait();

    assert_eq!(trace.losses(), [""; 0]);
    let rows = trace.reader.processes().expect("processes");
    let of = |column: fn(&reprise_trace::Process) -> Option<u32>| rows.iter().filter_map(column).collect::<Vec<_>>();
    assert_eq!((rows.len(), of(|p| p.directories_of), of(|p| p.descriptors_of).len()), (4, vec![0], 2), "{rows:#?}");
    replays_but_for(dir, "t.reprise", &work, &work, &before);
    // The same from the middle of it.
    run(dir, &["slice", "t.reprise", "-o", "half", "--from", "50%", "-q"]).ends(0);
    replays_but_for(dir, "half", &work, &work, &before);
}

/// What a program has mapped already is in the trace, is stored to, and is loaded; what it has locked is locked (`tests/programs/holds.c`).
#[test]
fn what_was_mapped_and_locked_before() {
    if can_attach("what_was_mapped_and_locked_before") {
        let scratch = Scratch::new();
        mapped_and_locked(scratch.path(), &PathBuf::from(mkdir(scratch.path(), "work")));
    }
}

/// Who holds a lock and makes no call holds it as long as others want it (`tests/programs/idle_holder.c`).
#[test]
fn what_is_locked_by_who_makes_no_call() {
    if !can_attach("what_is_locked_by_who_makes_no_call") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let work = PathBuf::from(mkdir(dir, "work"));
    let mut holder =
        Command::new(build("idle_holder", dir)).current_dir(&work).stdout(Stdio::piped()).spawn().expect("started");
    BufReader::new(holder.stdout.take().expect("its output")).read_line(&mut String::new()).expect("its child");
    let pid = holder.id().to_string();
    let trace = Recorder::attach(dir, "t.reprise", &["--pid", &pid, "--with-children", "--duration", "500ms"]).wait();
    let _ = holder.kill();
    let _ = holder.wait();
    assert!(trace.actions.iter().filter(|a| a.call == "fcntl" && a.errno.is_some()).count() > 20, "its child tries");
    // Who is done first is a matter of chance.
    for _ in 0..5 {
        replays_to(dir, "t.reprise", &work, &work);
        fs::remove_dir_all(dir.join("t.reprise-target")).expect("removed");
    }
}

/// Files that never had a name have their content, and are given names (`tests/programs/unnamed.c`).
#[test]
fn files_made_without_a_name_before() {
    if !can_attach("files_made_without_a_name_before") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let work = PathBuf::from(mkdir(dir, "work"));
    let trace = asked_to_go_on(dir, "unnamed", &work, 5);
    assert_eq!(trace.losses(), [""; 0]);
    assert_eq!(fs::read(work.join("by_path")).expect("a file"), b"one+++++");
    replays_to(dir, "t.reprise", &work, &work);
    // The same from the middle of it: names are given after the cut.
    run(dir, &["slice", "t.reprise", "-o", "half", "--from", "50%", "-q"]).ends(0);
    replays_to(dir, "half", &work, &work);
}

/// A file system that is mounted as long as the test lasts.
struct Mounted(PathBuf);

impl Mounted {
    fn new(at: &Path, words: &[&str]) -> Result<Mounted, String> {
        mount::run(Command::new("mount").args(words).arg(at)).map(|()| Mounted(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(why) = mount::run(Command::new("umount").arg("-l").arg(&self.0)) {
            eprintln!("{why}");
        }
    }
}

/// Files in memory are never written back; those of an overlay are others to the kernel than to calls, and those of Btrfs have another
/// device.
#[test]
fn what_was_mapped_before_on_other_file_systems() {
    let name = "what_was_mapped_before_on_other_file_systems";
    if !can_attach(name) {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    for directory in ["memory", "overlay", "low", "high", "aside"] {
        mkdir(dir, directory);
    }
    let part = |name: &str| dir.join(name).to_str().expect("UTF-8").to_owned();
    let layers = format!("lowerdir={},upperdir={},workdir={}", part("low"), part("high"), part("aside"));
    let memory = Mounted::new(&dir.join("memory"), &["-t", "tmpfs", "tmpfs"]);
    let overlay = Mounted::new(&dir.join("overlay"), &["-t", "overlay", "overlay", "-o", &layers]);
    let image = LoopFs::new(Kind::Btrfs, Kind::Btrfs.least_bytes());
    let place = |mounted: &Result<Mounted, String>| mounted.as_ref().map(|m| m.0.clone()).map_err(Clone::clone);
    let image_place = image.as_ref().map(LoopFs::path).map_err(Clone::clone);
    let places = [place(&memory), place(&overlay), image_place];
    for (number, place) in places.iter().enumerate() {
        match place {
            Ok(place) => {
                mapped_and_locked(&PathBuf::from(mkdir(dir, &number.to_string())), &PathBuf::from(mkdir(place, "work")))
            }
            Err(why) => skip(name, why),
        }
    }
}

/// A program that is ready before the recorder comes, and goes on so often as it is asked to.
fn asked_to_go_on(dir: &Path, program: &str, work: &Path, times: usize) -> Trace {
    let child = Command::new(build(program, dir)).arg(work).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = Kin(child.expect("started"));
    let mut asks = child.0.stdin.take().expect("a pipe");
    let mut said = BufReader::new(child.0.stdout.take().expect("a pipe"));
    let mut hears = |expected: &str| {
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        assert_eq!(line, expected);
    };
    hears(&format!("ready {}\n", child.0.id()));
    let recorder = Recorder::attach(dir, "t.reprise", &["--pid", &child.0.id().to_string(), "--with-children"]);
    for _ in 0..times {
        asks.write_all(b"go on\n").expect("asked");
        hears("done\n");
    }
    drop(asks);
    assert_eq!(child.0.wait().expect("its end").code(), Some(0));
    recorder.wait()
}

fn mapped_and_locked(dir: &Path, work: &Path) {
    let trace = asked_to_go_on(dir, "holds", work, 20);
    assert_eq!(trace.losses(), [""; 0], "{}", work.display());
    let mappings = trace.reader.mappings().expect("mappings");
    let of = |name: &str| mappings.iter().filter(|m| m.path.ends_with(name.as_bytes())).collect::<Vec<_>>();
    let protection = |name: &str| of(name).iter().map(|m| m.protection).collect::<Vec<_>>();
    let [stores, closed, loads] = ["/stores", "/closed", "/loads"].map(protection);
    assert_eq!((stores, closed, loads), (vec![3, 3], vec![1, 1], vec![1, 1]), "{mappings:#?}");
    // One has lost its name, and one is memory.
    assert_eq!(
        ["/.reprise-nameless-1", "/.reprise-nameless-2"].map(protection),
        [vec![3, 3], vec![3, 3]],
        "{mappings:#?}"
    );
    let locks = trace.reader.locks().expect("locks");
    let mut locks: Vec<_> = locks.iter().map(|l| (l.process, l.kind, l.exclusive, l.start, l.length)).collect();
    locks.sort_unstable();
    let of_files = [(1, 2, 0, 300, 0), (1, 3, 1, 0, 0)];
    assert_eq!(locks[..4], [(0, 1, 1, 100, 20), (0, 1, 1, 130, 70), (0, 2, 0, 300, 0), (0, 3, 1, 0, 0)]);
    assert_eq!(locks[4..], of_files, "the child has them, too");
    assert!(trace.calls("mmap_pwrite").count() > 100 && trace.calls("mmap_pread").count() > 20);
    replays_to(dir, "t.reprise", work, work);
    // The same from the middle of it.
    run(dir, &["slice", "t.reprise", "-o", "half", "--from", "50%", "-q"]).ends(0);
    replays_to(dir, "half", work, work);
}

/// Queues and rings that were made before, and the files that are registered with them.
#[test]
fn requests_of_queues_that_were_there_before() {
    if !can_attach("requests_of_queues_that_were_there_before") {
        return;
    }
    if !has("fio") {
        return skip("requests_of_queues_that_were_there_before", "it needs fio (apt-get install fio)");
    }
    let engines: [&[&str]; 3] = [
        &["--ioengine=libaio", "--direct=1"],
        &["--ioengine=io_uring", "--registerfiles=1", "--fixedbufs=1"],
        &["--ioengine=io_uring", "--sqthread_poll=1"],
    ];
    for (number, engine) in engines.iter().enumerate() {
        let scratch = Scratch::new();
        let dir = scratch.path();
        let work = PathBuf::from(mkdir(dir, "work"));
        let mut command = Command::new("fio");
        // As many blocks as are written again and again: what was in flight at the beginning is written over.
        command.args(["--name=j", "--filename=f", "--rw=randwrite", "--bs=4k", "--size=128k", "--iodepth=4"]);
        command.args(["--thread", "--time_based", "--runtime=60", "--rate_iops=2000"]).args(*engine);
        let child = command.current_dir(&work).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = Kin(child.expect("started"));
        let written = || fs::metadata(work.join("f")).map_or(0, |m| m.len());
        until("it writes", || written() == 128 << 10);
        std::thread::sleep(Duration::from_millis(500));
        let recorder = Recorder::attach(dir, "t.reprise", &["--pid", &child.0.id().to_string()]);
        std::thread::sleep(Duration::from_millis(1000));
        kill(child.0.id(), libc::SIGINT);
        let _ = child.0.wait();
        let trace = recorder.wait();
        assert_eq!(trace.losses(), [""; 0], "{engine:?}");
        let requests = trace.actions.iter().filter(|a| a.request.is_some()).count();
        assert!(requests > 100, "{engine:?}: {requests}");
        let descriptors = trace.reader.descriptors().expect("descriptors");
        let registered = descriptors.iter().filter(|d| d.fd >= 1 << 30 && d.path.ends_with(b"/work/f")).count();
        assert_eq!(registered, usize::from(number > 0), "{engine:?}: {descriptors:#?}");
        replays_to(dir, "t.reprise", &work, &work);
    }
}

/// Requests that wait for what never comes go on when the recording ends: that is no loss.
#[test]
fn requests_that_go_on_when_the_recording_ends() {
    if !can_attach("requests_that_go_on_when_the_recording_ends") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let waits = build("waits", dir);
    for way in ["ring", "queue"] {
        let child = Command::new(&waits).arg(way).current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = Kin(child.expect("started"));
        let mut said = child.0.stdout.take().expect("a pipe");
        let mut hear = |what| said.read_exact(&mut [0]).expect(what);
        hear("it is ready");
        let recorder = Recorder::attach(dir, way, &["--pid", &child.0.id().to_string()]);
        child.0.stdin.as_mut().expect("a pipe").write_all(b"x").expect("told to go on");
        hear("it has submitted");
        let trace = recorder.stop();
        assert_eq!(trace.losses(), [""; 0], "{way}");
        let met = trace.reader.ledger().notes.get("requests in flight when the recording ended");
        assert_eq!(met, Some(&3), "{way}");
    }
}

/// What a file held that was open when the recording began was copied then: that it is opened again, and written, takes nothing away.
#[test]
fn what_was_open_is_known_also_when_it_is_opened_again() {
    if !can_attach("what_was_open_is_known_also_when_it_is_opened_again") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let work = PathBuf::from(mkdir(dir, "work"));
    fs::write(work.join("a"), b"0123456789".repeat(100)).expect("written");
    fs::hard_link(work.join("a"), work.join("link")).expect("linked");
    let script = "exec 3<>a; echo; read go; printf first >&3; exec 4<>a; printf and >&4; exec 5<>link; printf more >&5";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(&work).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Kin(command.spawn().expect("started"));
    child.0.stdout.take().expect("a pipe").read_exact(&mut [0]).expect("it is ready");
    let recorder = Recorder::attach(dir, "t.reprise", &["--pid", &child.0.id().to_string()]);
    child.0.stdin.as_mut().expect("a pipe").write_all(b"x\n").expect("told to go on");
    let _ = child.0.wait();
    let trace = recorder.wait();
    assert_eq!(trace.losses(), [""; 0]);
    replays_to(dir, "t.reprise", &work, &work);
}

#[test]
fn two_recordings_of_two_programs() {
    if !can_attach("two_recordings_of_two_programs") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let mut servers = [Server::start(dir, "one"), Server::start(dir, "two")];
    let recorders = servers.each_ref().map(|server| {
        let name = format!("{}.reprise", server.pid());
        Recorder::attach(dir, &name, &["--pid", &server.pid().to_string()])
    });
    servers.iter().for_each(Server::goes_on);
    servers.iter_mut().for_each(Server::pause);
    let traces = recorders.map(Recorder::stop);
    for (server, trace) in servers.iter().zip(&traces) {
        assert_eq!(trace.losses(), [""; 0]);
        assert!(acted(trace).contains(&server.pid()));
        let other = servers.iter().find(|other| other.pid() != server.pid()).expect("another");
        assert!(!acted(trace).contains(&other.pid()));
        let expected = dir.join(format!("expected-{}", server.pid()));
        copy(&server.work, &expected);
        replays_to(dir, &format!("{}.reprise", server.pid()), &server.work, &expected);
    }
    for server in servers {
        server.resume();
        server.end();
    }
}

/// Without content: whatever else runs on the machine is nobody's business.
#[test]
fn the_whole_system() {
    if !can_attach("the_whole_system") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let server = Server::start(dir, "work");
    let recorder = Recorder::attach(
        dir,
        "t.reprise",
        &["--system", "--duration", "2s", "--data", "none", "--sample-every", "off"],
    );
    let (itself, begin) = (recorder.child.id(), server.progress());
    let mut shell = Command::new("sh").args(["-c", "echo > made-by-a-shell"]).current_dir(dir).spawn().unwrap();
    shell.wait().unwrap();
    server.goes_on();
    let trace = recorder.wait();
    let who = acted(&trace);
    assert!(who.contains(&server.pid()) && who.contains(&shell.id()) && !who.contains(&itself), "{who:?}");
    assert!(trace.paths().any(|path| path.ends_with("made-by-a-shell")));
    let lines = trace.calls("write").filter(|a| a.data_bytes == 11).count() as u64;
    assert!(lines * 11 >= server.progress().min(begin + 200) - begin, "{lines} lines");
    server.goes_on();
    server.end();
}

#[test]
fn a_duration_ends_the_recording_only() {
    if !can_attach("a_duration_ends_the_recording_only") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let server = Server::start(dir, "work");
    let begin = Instant::now();
    let recorder = Recorder::attach(dir, "t.reprise", &["--duration", "700ms", "--pid", &server.pid().to_string()]);
    let trace = recorder.wait();
    assert!(begin.elapsed() > Duration::from_millis(700));
    let last = trace.actions.iter().map(|a| a.begin_ns + a.duration_ns).max().unwrap_or(0);
    assert!((500_000_000..1_500_000_000).contains(&last), "{last}");
    server.goes_on();
    server.end();

    // Of a command, too.
    let script = "while [ ! -e stop ]; do echo x; sleep 0.01; done > out; echo > ended";
    let words =
        ["record", "--backend", "ebpf", "-q", "-o", "c.reprise", "--duration", "0.5s", "--", "sh", "-c", script];
    // What is still open for the program would be waited for.
    let recorder = reprise(dir, &words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert_eq!(recorder.expect("started").code(), Some(0));
    let lines = || fs::read(dir.join("out")).map_or(0, |text| text.len());
    let before = lines();
    until("the command goes on", || lines() > before + 4);
    assert!(!Trace::open(&dir.join("c.reprise")).actions.is_empty());
    fs::write(dir.join("stop"), "").unwrap();
    until("the command ends", || dir.join("ended").exists());
}

/// A thread that ends while the others are found is not the last (`tests/programs/brief.c`).
#[test]
fn threads_that_end_while_others_are_found() {
    const NEARLY_ALL_NS: u64 = 200_000_000;
    if !can_attach("threads_that_end_while_others_are_found") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let mut child = Command::new(build("brief", dir)).current_dir(dir).spawn().expect("started");
    let lasted = (0..6).map(|number| {
        let of = ["--duration", "300ms", "--pid", &child.id().to_string()];
        let trace = Recorder::attach(dir, &format!("{number}.reprise"), &of).wait();
        trace.actions.iter().map(Action::end_ns).max().unwrap_or(0)
    });
    let short: Vec<u64> = lasted.filter(|last_ns| *last_ns < NEARLY_ALL_NS).collect();
    child.kill().and_then(|()| child.wait()).expect("its end");
    assert_eq!(short, [0; 0]);
}

#[test]
fn a_killed_recorder() {
    if !can_attach("a_killed_recorder") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let mut server = Server::start(dir, "work");
    let mut recorder = Recorder::attach(dir, "t.reprise", &["--pid", &server.pid().to_string()]);
    server.goes_on();
    server.pause();
    // Longer than the two seconds after which a recorder has written what it has.
    std::thread::sleep(Duration::from_millis(3500));
    let (work, expected) = (server.work.clone(), dir.join("expected"));
    copy(&work, &expected);
    recorder.child.kill().expect("killed");
    recorder.child.wait().expect("its end");
    server.resume();
    server.goes_on();
    server.end();
    run(dir, &["recover", "t.reprise"]).ends(0);
    let said = run(dir, &["info", "t.reprise"]).out;
    assert!(said.contains("no: the recorder was killed"), "{said}");
    let trace = Trace::open(&dir.join("t.reprise"));
    assert!(trace.calls("write").count() > 50 && trace.losses().is_empty(), "{:?}", trace.losses());
    replays_to(dir, "t.reprise", &work, &expected);
}

/// A shell without job control has what it starts in the background ignore SIGINT.
#[test]
fn an_interrupt_is_heeded_where_it_is_ignored() {
    const SCRIPT: &str = "sleep 60 & pid=$!; \"$0\" record -q --pid $pid -o t.reprise & recorder=$!; \
                          until [ -e t.reprise/spool/complete-until ]; do sleep 0.05; done; kill -INT $recorder; \
                          wait $recorder; code=$?; kill $pid; exit $code";
    if !can_attach("an_interrupt_is_heeded_where_it_is_ignored") {
        return;
    }
    let scratch = Scratch::new();
    let mut shell = Command::new("bash");
    let binary = program::reprise().unwrap_or_else(|e| panic!("{e}"));
    shell.args(["-c", SCRIPT]).arg(binary).current_dir(scratch.path());
    let mut shell = shell.spawn().expect("started");
    until("the recording is over", || shell.try_wait().expect("its end").is_some());
    assert_eq!(shell.wait().unwrap().code(), Some(0));
}

#[test]
fn a_recording_ends_with_what_it_records() {
    if !can_attach("a_recording_ends_with_what_it_records") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    // A child from before, and one that is made later.
    let script = "sh -c 'echo $$ > inner; until [ -e go ]; do sleep 0.01; done; echo 1 > old' & \
                  echo up > up; until [ -e go ]; do sleep 0.01; done; sh -c 'echo 2 > new'; wait; exit 3";
    for (name, words, old) in [("alone", &[][..], false), ("with", &["--with-children"][..], true)] {
        let place = mkdir(dir, name);
        let mut shell = Command::new("sh").args(["-c", script]).current_dir(&place).spawn().expect("started");
        let pid = shell.id().to_string();
        until("it is up", || ["up", "inner"].iter().all(|file| Path::new(&place).join(file).exists()));
        let trace = format!("{name}.reprise");
        let recorder = Recorder::attach(dir, &trace, &[&["--pid", pid.as_str()], words].concat());
        fs::write(Path::new(&place).join("go"), "").unwrap();
        assert_eq!(shell.wait().unwrap().code(), Some(3));
        let trace = recorder.wait();
        let made = |file: &str| trace.paths().any(|path| path.ends_with(file));
        assert!(made("new"));
        assert_eq!(made("old"), old, "{name}");
    }
}

/// Of several processes some may have ended: they are named, and the others recorded.
#[test]
fn some_have_ended() {
    if !can_attach("some_have_ended") {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let gone = || {
        let mut child = Command::new("true").spawn().expect("started");
        child.wait().expect("its end");
        child.id().to_string()
    };
    let (first, second) = (gone(), gone());
    let script = "until [ -e go ]; do sleep 0.01; done; echo 1 > made";
    let mut shell = Command::new("sh").args(["-c", script]).current_dir(dir).spawn().expect("started");
    let list = format!("{first},{},{second}", shell.id());
    let args = ["record", "--backend", "ebpf", "--pid", &list, "-o", "t.reprise"];
    let recorder = reprise(dir, &args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    until("it is recorded", || dir.join("t.reprise/spool/begin.json").exists());
    fs::write(dir.join("go"), "").unwrap();
    shell.wait().expect("its end");
    let said = Said::new("record".into(), recorder.wait_with_output().expect("its end"));
    let words = format!("--pid {first},{second}: there is no such process any more; the others are recorded");
    assert!(said.ends(0).err.contains(&words), "{said:#?}");
    let trace = Trace::open(&dir.join("t.reprise"));
    assert!(trace.paths().any(|path| path.ends_with("made")));
    let noted = |pid: &str| trace.reader.ledger().notes.keys().any(|note| note.starts_with(&format!("--pid {pid}: ")));
    assert!(noted(&first) && noted(&second));
    // Nobody is left.
    for list in [first.clone(), format!("{second},{first}")] {
        let said = run(dir, &["record", "--backend", "ebpf", "--pid", &list, "-o", "u.reprise"]);
        said.fails(2, &["no such process", "ps -e"]);
    }
    assert!(!dir.join("u.reprise").exists());
}

#[test]
fn what_cannot_be_recorded() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    let wrong = |words: &[&str], said: &[&str]| {
        let all = run(dir, &[&["record"], words].concat());
        all.ends(2);
        said.iter().for_each(|word| assert!(all.err.contains(word), "no `{word}` in {all:#?}"));
    };
    wrong(&[], &["COMMAND"]);
    wrong(&["--pid", "1", "--system"], &["cannot be used with"]);
    wrong(&["--pid", "1", "true"], &["cannot be used with"]);
    wrong(&["--with-children", "true"], &["cannot be used with"]);
    wrong(&["--pid", "x"], &["--pid"]);
    wrong(&["--duration", "soon", "true"], &["length of time"]);
    run(dir, &["record", "--backend", "ptrace", "--pid", "1"]).fails(6, &["--pid 1", "--backend ebpf"]);
    run(dir, &["record", "--backend", "ptrace", "--duration", "1s", "true"])
        .fails(6, &["--duration", "--backend ebpf"]);
    assert!(fs::read_dir(dir).unwrap().next().is_none(), "no trace is left");
    if !can_attach("what_cannot_be_recorded") {
        return;
    }
    run(dir, &["record", "--backend", "ebpf", "--pid", "4194305"]).fails(2, &["no such process", "ps -e"]);
    run(dir, &["record", "--backend", "ebpf", "--pid", "2"]).fails(2, &["thread of the kernel"]);
    run(dir, &["record", "--backend", "ebpf", "--cgroup", "no/such"]).fails(2, &["no/such", "no such control group"]);
    run(dir, &["record", "--backend", "ebpf", "--container", "0123456789ab"]).fails(2, &["no control group"]);
    assert!(fs::read_dir(dir).unwrap().next().is_none(), "no trace is left");
}
