//! Asynchronous requests, recorded and replayed: small programs of the testkit (`requests`), and fio.
//!
//! Trees are compared by other means than the product's. Without the rule for requests the same replays go wrong.

mod means;

use std::path::{Path, PathBuf};
use std::process::Command;

use means::{has, is_since};

use reprise_testkit::program::{self, succeed};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::{skip, tree};
use reprise_trace::{Action, Loss, ThreadRow, TraceReader};

/// Back-ends that record here.
fn backends() -> Vec<&'static str> {
    let scratch = Scratch::new();
    let trial = |backend: &&str| {
        let reprise = program::reprise().unwrap_or_else(|e| panic!("{e}"));
        let mut record = Command::new(reprise);
        record.args(["record", "-q", "--backend", backend, "-o", backend, "--", "true"]).current_dir(scratch.path());
        let output = program::run(&mut record);
        if !output.status.success() {
            skip(&format!("asynchronous requests, {backend}"), String::from_utf8_lossy(&output.stderr).trim());
        }
        output.status.success()
    };
    ["ptrace", "ebpf"].into_iter().filter(trial).collect()
}

/// Rules under which only the rule for requests orders them.
const ALONE: &str = "root:file=stage,fd=stage";

struct Recorded {
    scratch: Scratch,
    trace: PathBuf,
}

impl Recorded {
    /// Runs a command under the recorder, in a directory of its own.
    fn of(backend: &str, command: &[&str]) -> Recorded {
        Recorded::with(&["--backend", backend], command)
    }

    /// The same, with options of `record`.
    fn with(options: &[&str], command: &[&str]) -> Recorded {
        let scratch = Scratch::new();
        let (dir, trace) = (scratch.path().join("work"), scratch.path().join("trace.reprise"));
        std::fs::create_dir(&dir).expect("a directory");
        let reprise = program::reprise().unwrap_or_else(|e| panic!("{e}"));
        let mut record = Command::new(reprise);
        succeed(
            record.args(["record", "-q"]).args(options).arg("-o").arg(&trace).arg("--").args(command).current_dir(&dir),
        );
        Recorded { scratch, trace }
    }

    fn of_program(backend: &str, what: &str) -> Option<Recorded> {
        Recorded::of_program_with(&["--backend", backend], what)
    }

    fn of_program_with(options: &[&str], what: &str) -> Option<Recorded> {
        let program = program::sibling("requests").filter(|p| p.exists());
        let Some(program) = program else {
            skip("asynchronous requests", "the testkit's programs are not built (cargo build -p reprise-testkit)");
            return None;
        };
        Some(Recorded::with(options, &[&program.display().to_string(), what]))
    }

    fn lanes(&self) -> usize {
        let reader = TraceReader::open(&self.trace).expect("a trace");
        reader.rows::<ThreadRow>().filter(|row| row.as_ref().is_ok_and(|row| row.lane_of.is_some())).count()
    }

    fn actions(&self) -> Vec<Action> {
        let reader = TraceReader::open(&self.trace).expect("a trace");
        reader.actions().map(|action| action.expect("an action")).collect()
    }

    /// Replays; how many actions diverged, and how the tree differs.
    fn replay(&self, order: &str, schedule: Option<u32>) -> (u64, Vec<String>) {
        let reprise = program::reprise().unwrap_or_else(|e| panic!("{e}"));
        let target = self.scratch.path().join("target");
        let _ = std::fs::remove_dir_all(&target);
        std::fs::create_dir(&target).expect("a target");
        let mut replay = Command::new(reprise);
        replay.args(["replay", "-q", "--json", "--order", order]).arg(&self.trace).arg("--target").arg(&target);
        let schedule = schedule.map(|seed| seed.to_string());
        schedule.iter().for_each(|seed| _ = replay.args(["--schedule", seed]));
        let output = program::run(&mut replay);
        let document = program::json(&output.stdout).unwrap_or_else(|e| panic!("{e}: {replay:?}"));
        let diverged = document["diverged"].as_u64().expect("a number of divergences");
        let dir = self.scratch.path().join("work");
        let copy = target.join(dir.strip_prefix(Path::new("/")).expect("an absolute path"));
        (diverged, tree::differences(&tree::walk(&dir), &tree::walk(&copy)))
    }

    /// At full speed and in orders that the plan permits.
    #[track_caller]
    fn holds(&self, orders: &[&str]) {
        for order in orders {
            for schedule in [None, Some(1), Some(2), Some(3)] {
                assert_eq!(self.replay(order, schedule), (0, Vec::new()), "{order}, {schedule:?}");
            }
        }
    }

    #[track_caller]
    fn breaks(&self, order: &str) {
        let wrong = (1..6).filter(|seed| self.replay(order, Some(*seed)) != (0, Vec::new())).count();
        assert!(wrong > 0, "nothing breaks under {order}");
    }
}

#[test]
fn hundreds_in_flight() {
    for (backend, what) in backends().into_iter().flat_map(|backend| [(backend, "aio"), (backend, "uring")]) {
        let Some(recorded) = Recorded::of_program(backend, what) else { return };
        assert!(recorded.lanes() >= 300, "{backend}, {what}: {} lanes", recorded.lanes());
        recorded.holds(&["root", "root:file=range", ALONE]);
        recorded.breaks("root:file=stage,fd=stage,aio=none");
    }
}

#[test]
fn linked_requests_follow_each_other() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "chain") else { return };
        let requests: Vec<Action> = recorded.actions().into_iter().filter(|a| a.request.is_some()).collect();
        let round: Vec<&str> = requests.iter().take(6).map(|a| &*a.call).collect();
        assert_eq!(round, ["openat", "pwrite64", "pread64", "pwrite64", "fsync", "close"]);
        assert!(requests.iter().take(6).all(|a| a.thread == requests[0].thread), "one lane");
        let followed = requests.windows(2).filter(|pair| pair[0].thread == pair[1].thread);
        followed.for_each(|pair| assert!(pair[0].end_ns() <= pair[1].begin_ns, "{pair:?}"));
        recorded.holds(&["root", "root:file=range", ALONE]);
    }
}

#[test]
fn registered_files_outlive_their_descriptors() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "table") else { return };
        recorded.holds(&["root", "root:file=range"]);
    }
}

#[test]
fn what_calls_do_not_have_is_told_by_calls() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "edges") else { return };
        let chosen = recorded.actions().into_iter().filter(|a| &*a.call == "pread64" && a.result == 512);
        assert_eq!(chosen.map(|a| a.args[2]).collect::<Vec<_>>(), [512], "{backend}: a vector becomes the buffer");
        let vectors = recorded.actions().into_iter().filter(|a| matches!(&*a.call, "preadv" | "pwritev"));
        assert_eq!(
            vectors.map(|a| (a.result, a.truncated_bytes)).collect::<Vec<_>>(),
            [(4000, 0), (3100, 0)],
            "{backend}"
        );
        recorded.holds(&["root", "root:file=range"]);
    }
}

#[test]
fn a_pipe_that_a_ring_makes_is_one() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "pipe") else { return };
        recorded.holds(&["root", "root:file=range"]);
    }
}

/// What a request that failed before it began was to do is not done, nor is a number closed that it could not close.
#[test]
fn what_was_cancelled_is_not_done() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "cancelled") else { return };
        let cancelled = recorded.actions().into_iter().filter(|a| a.errno.as_deref() == Some("ECANCELED"));
        assert!(cancelled.count() >= 13, "{backend}");
        recorded.holds(&["root", "root:file=range"]);
    }
}

/// A ring's table ends with the ring, whoever has its number then, and with no other number.
#[test]
fn tables_end_with_their_rings() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "numbers") else { return };
        recorded.holds(&["root", "root:file=range"]);
    }
}

/// Tables of rings are what the kernel made of them, also where that is not what was asked for, and nothing is lost.
#[test]
fn tables_are_what_the_kernel_made_of_them() {
    for (backend, what) in backends().into_iter().flat_map(|backend| [(backend, "changed"), (backend, "nowhere")]) {
        let Some(recorded) = Recorded::of_program(backend, what) else { return };
        let reader = TraceReader::open(&recorded.trace).expect("a trace");
        let ledger = reader.ledger();
        let lost = (ledger.total(Loss::Dropped), ledger.total(Loss::Truncated));
        assert_eq!(lost, (0, 0), "{backend}, {what}: {ledger:?}");
        recorded.holds(&["root", "root:file=range"]);
    }
}

/// What names a place of a ring's table behind a request that gives it to another file is about that file.
#[test]
fn a_place_that_was_given_to_another_file_is_that_file() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "replaced") else { return };
        recorded.holds(&["root", "root:file=range"]);
    }
}

/// What a request waits for outlives the descriptor by which it was named.
#[test]
fn what_is_waited_for_is_closed_meanwhile() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "closed") else { return };
        recorded.holds(&["root", "root:file=range"]);
    }
}

/// What a request that names rights which there are not was to do is not done.
#[test]
fn rights_that_there_are_not_are_refused() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "rights") else { return };
        assert_eq!(recorded.actions().iter().filter(|a| a.request.is_some()).count(), 0, "{backend}");
        recorded.holds(&["root"]);
    }
}

#[test]
fn a_directory_is_read_for_nothing() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "directory") else { return };
        recorded.holds(&["root"]);
    }
}

/// What was stored to a mapping of a file stands before the request that read it, though it was overwritten by another store since.
#[test]
fn what_was_stored_is_read_by_requests() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "stored") else { return };
        let stores = recorded.actions().into_iter().filter(|a| &*a.call == "mmap_pwrite");
        assert!(stores.count() >= 10, "{backend}");
        recorded.holds(&["root", "root:file=range"]);
    }
}

/// What a request wrote to a page that is mapped no more is not taken for a store of somebody who is not known.
#[test]
fn what_a_request_wrote_is_no_store() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "written") else { return };
        let reader = TraceReader::open(&recorded.trace).expect("a trace");
        assert_eq!(reader.ledger().total(Loss::Dropped), 0, "{backend}: {:?}", reader.ledger());
        recorded.holds(&["root", "root:file=range"]);
    }
}

/// A request that failed by what its call would not have looked at, or not first, stands for no call.
#[test]
fn what_no_call_checks_is_no_row() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "checks") else { return };
        let requests = recorded.actions().into_iter().filter(|a| a.request.is_some());
        let rows: Vec<_> = requests.map(|a| (a.call.to_string(), a.result)).collect();
        assert_eq!(rows, [("openat".to_owned(), -2)], "{backend}");
        recorded.holds(&["root"]);
    }
}

/// What the kernel ends because its process has ended came to nothing: nothing of it is lost.
#[test]
fn what_ends_with_its_process_is_not_lost() {
    if !backends().contains(&"ebpf") {
        return skip("what_ends_with_its_process_is_not_lost", "no recorder in the kernel here");
    }
    let Some(recorded) = Recorded::of_program("ebpf", "ended") else { return };
    let reader = TraceReader::open(&recorded.trace).expect("a trace");
    assert_eq!(reader.ledger().total(Loss::Dropped), 0, "{:?}", reader.ledger());
    assert_eq!(recorded.actions().iter().filter(|a| a.request.is_some()).count(), 0);
    recorded.holds(&["root"]);
}

/// Requests outlive the threads that submitted them, and none is lost where the queue of completions is full.
#[test]
fn what_a_thread_leaves_under_way() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "left") else { return };
        let reader = TraceReader::open(&recorded.trace).expect("a trace");
        for loss in [Loss::Dropped, Loss::Truncated] {
            assert_eq!(reader.ledger().total(loss), 0, "{backend}: {:?}", reader.ledger());
        }
        assert_eq!(recorded.actions().iter().filter(|a| a.request.is_some()).count(), 300, "{backend}");
        recorded.holds(&["root", "root:file=range"]);
    }
}

/// The kernel goes on with what a process had requested that is gone, and nothing of it is lost.
#[test]
fn what_a_process_leaves_under_way() {
    if !backends().contains(&"ebpf") {
        return skip("what_a_process_leaves_under_way", "no recorder in the kernel here");
    }
    let Some(recorded) = Recorded::of_program("ebpf", "deserted") else { return };
    let reader = TraceReader::open(&recorded.trace).expect("a trace");
    assert_eq!(reader.ledger().total(Loss::Dropped), 0, "{:?}", reader.ledger());
    let written = std::fs::metadata(recorded.scratch.path().join("work/file")).expect("a file").len();
    assert_eq!(
        recorded.actions().iter().filter(|a| a.request.is_some() && a.result > 0).count() as u64,
        written / 4096
    );
    recorded.holds(&["root"]);
}

/// Which file a request went to is what the kernel made of it, not what its number meant when it was submitted.
#[test]
fn a_number_that_is_used_again_before_a_request_begins() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "reused") else { return };
        recorded.holds(&["root"]);
    }
}

/// Far more is complete at once than there is room for.
#[test]
fn more_at_once_than_there_is_room_for() {
    let name = "more_at_once_than_there_is_room_for";
    if !backends().contains(&"ebpf") {
        return skip(name, "no recorder in the kernel here");
    }
    if !is_since((6, 18)) {
        return skip(name, "before Linux 6.18 no thread can wait for room");
    }
    let Some(recorded) = Recorded::of_program_with(&["--backend", "ebpf", "--ring", "4M"], "burst") else { return };
    let reader = TraceReader::open(&recorded.trace).expect("a trace");
    assert!(reader.ledger().losses.is_empty(), "{:?}", reader.ledger());
    let moved = recorded.actions().iter().filter(|a| a.request.is_some()).map(|a| a.data_bytes).sum::<u64>();
    assert_eq!(moved, (3 * 48) << 20);
    assert_eq!(recorded.replay("root", None), (0, Vec::new()));
}

/// Direct I/O that was refused for where its memory began writes nothing in a replay.
#[test]
fn memory_that_was_refused_is_refused_again() {
    for backend in backends() {
        let Some(recorded) = Recorded::of_program(backend, "direct") else { return };
        let results = std::fs::read_to_string(recorded.scratch.path().join("work/results")).expect("results");
        if !results.contains("-22") {
            return skip("memory_that_was_refused_is_refused_again", "direct I/O takes any memory here");
        }
        recorded.holds(&["root"]);
    }
}

/// Engines of fio with their arguments, and whether ptrace can record them without losing anything.
const ENGINES: [(&[&str], bool); 5] = [
    (&["--ioengine=libaio", "--iodepth=32"], true),
    (&["--ioengine=libaio", "--iodepth=32", "--direct=1"], true),
    (&["--ioengine=io_uring", "--iodepth=128", "--direct=1"], true),
    (&["--ioengine=io_uring", "--iodepth=32", "--fixedbufs", "--registerfiles", "--fsync=16"], true),
    (&["--ioengine=io_uring", "--iodepth=32", "--sqthread_poll=1"], false),
];

#[test]
fn fio_verifies_what_it_wrote() {
    if !has("fio") {
        return skip("fio", "it is not installed (apt-get install fio)");
    }
    for backend in backends() {
        for (engine, _) in ENGINES.iter().filter(|(_, by_ptrace)| *by_ptrace || backend == "ebpf") {
            let job = ["fio", "--name=j", "--filename=F", "--rw=randrw", "--bs=4k", "--size=1m", "--verify=crc32c"];
            let rest = ["--do_verify=1", "--fallocate=none", "--output=/dev/null"];
            let recorded = Recorded::of(backend, &[&job[..], &rest[..], engine].concat());
            for order in ["root", "root:file=range"] {
                assert_eq!(recorded.replay(order, None), (0, Vec::new()), "{backend}, {engine:?}, {order}");
            }
        }
    }
}

/// Reads and writes of the same block that are in flight together, as where one pass over a file ends and the next one begins:
/// what was read tells which came first. Of Linux AIO the kernel tells nothing but when the program fetched what became of it.
#[test]
fn what_meets_in_flight() {
    if !has("fio") {
        return skip("what_meets_in_flight", "fio is not installed (apt-get install fio)");
    }
    if !backends().contains(&"ebpf") {
        return skip("what_meets_in_flight", "no recorder in the kernel here");
    }
    let job = ["fio", "--name=j", "--filename=F", "--rw=randrw", "--bs=16k", "--size=16m", "--direct=1"];
    let rest = ["--iodepth=64", "--time_based", "--runtime=1", "--fallocate=none", "--output=/dev/null"];
    let recorded = Recorded::of("ebpf", &[&job[..], &["--ioengine=libaio"], &rest[..]].concat());
    assert_eq!(recorded.replay("root:file=range", None), (0, Vec::new()));
}
