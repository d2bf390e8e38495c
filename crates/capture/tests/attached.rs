//! The state at the beginning of a recording of what ran already, from two looks and from what happened meanwhile.

mod spools;

use std::fs;

use reprise_capture::recover;
use reprise_trace::{Descriptor, TraceReader};
use serde_json::{Value, json};
use spools::{BEGAN, Call, Spool, lay_down};

const READ: u32 = 0;
const WRITE: u32 = 1;
const CLOSE: u32 = 3;
const FCNTL: u32 = 72;
const OPENAT: u32 = 257;
const REGULAR: u32 = 0o100644;
const THREAD: u64 = 0x10000;

/// The trace begins so long after the first look.
const LOOKED: u64 = 1_000_000;

fn descriptor(fd: u32, name: &str, inode: u64, position: u64, description: u64) -> Value {
    json!({
        "fd": fd, "path": format!("/nowhere/w/{name}"), "mode": REGULAR, "flags": 2, "position": position, "device": 5,
        "inode": inode, "description": description, "nameless": false, "size": 500, "owner": [7, 8], "links": 1,
        "times": [1, 2, 3],
    })
}

fn call(nr: u32, at: (u64, u64), fd: u64, result: i64, objects: Vec<(i32, u32, u64, i64)>) -> Call {
    Call {
        tid: 10,
        pid: 10,
        begin: at.0,
        end: at.1,
        nr,
        args: [fd, 0x100, 64, 0, 0, 0],
        result,
        objects,
        ..Call::default()
    }
}

/// What a trace says of its beginning.
struct Trace {
    descriptors: Vec<Descriptor>,
    /// Threads that were there, by the kernel's numbers.
    threads: Vec<i32>,
    /// Names of the calls, and when they began.
    actions: Vec<(String, u64)>,
    notes: Vec<String>,
}

fn finished(spool: &Spool) -> Trace {
    let dir = tempfile::tempdir().unwrap();
    let trace = lay_down(dir.path(), &spool.bytes());
    let place = trace.join("spool/begin.json");
    let mut begin: Value = serde_json::from_slice(&fs::read(&place).unwrap()).unwrap();
    begin["attached"] = true.into();
    begin["monotonic_ns"] = (BEGAN + LOOKED).into();
    let process = &mut begin["processes"][0];
    process["threads"] = json!([[10, "x"], [12, "y"]]);
    process["descriptors"] = json!([
        descriptor(3, "a", 30, 100, 0),
        descriptor(4, "a", 30, 100, 0),
        descriptor(5, "b", 31, 0, 1),
        descriptor(6, "c", 32, 40, 2),
        descriptor(7, "c", 32, 40, 2),
    ]);
    process["again"] =
        json!({"cwd": "/nowhere/w", "executable": "/bin/x", "descriptors": [descriptor(8, "d", 33, 64, 3)]});
    fs::write(place, serde_json::to_vec(&begin).unwrap()).unwrap();
    recover(&trace, &mut |_, _| {}).unwrap();
    let reader = TraceReader::open(&trace).unwrap();
    reader.check_all().unwrap();
    let mut descriptors = reader.descriptors().unwrap();
    descriptors.sort_by_key(|d| d.fd);
    let threads = reader.threads().unwrap().into_iter().filter(|t| t.created_by.is_none()).map(|t| t.tid).collect();
    let actions = reader.actions().map(|a| a.unwrap()).map(|a| (a.call.into_owned(), a.begin_ns)).collect();
    let notes = reader.ledger().notes.keys().cloned().collect();
    Trace { descriptors, threads, actions, notes }
}

fn shown(descriptors: &[Descriptor]) -> Vec<(u32, String, u64, u64)> {
    let one = |d: &Descriptor| (d.fd, d.path.to_text().rsplit('/').next().unwrap().to_owned(), d.offset, d.inode);
    descriptors.iter().map(one).collect()
}

#[test]
fn what_nobody_touched_is_as_it_was_seen() {
    let mut spool = Spool::default();
    spool.call(0, &call(READ, (LOOKED + 10, LOOKED + 20), 3, 0, vec![(3, REGULAR, 30, 100)]));
    let Trace { descriptors, threads, actions, notes } = finished(&spool);
    let a = |fd| (fd, "a".into(), 100, 30);
    let c = |fd| (fd, "c".into(), 40, 32);
    assert_eq!(shown(&descriptors), [a(3), a(4), (5, "b".into(), 0, 31), c(6), c(7)]);
    assert_eq!((threads, actions.len()), (vec![10, 12], 1));
    assert!(!notes.iter().any(|note| note.contains("descriptor")), "{notes:?}");
}

#[test]
fn calls_before_the_beginning_are_in_it() {
    let mut spool = Spool::default();
    // Also of the number beside it, which shares its description.
    spool.call(0, &call(WRITE, (10, 20), 3, 50, vec![(3, REGULAR, 30, 150)]));
    spool.call(0, &call(CLOSE, (30, 40), 5, 0, vec![(5, REGULAR, 31, 0)]));
    spool.call(0, &Call { result: 8, ..call(OPENAT, (50, 60), 0, 8, vec![(8, REGULAR, 33, 0)]) });
    spool.call(0, &call(READ, (70, 80), 8, 32, vec![(8, REGULAR, 33, 32)]));
    let duplicate = call(FCNTL, (81, 82), 3, 9, vec![(3, REGULAR, 30, 150)]);
    spool.call(0, &Call { args: [3, 0, 9, 0, 0, 0], ..duplicate });
    spool.end(0, 90, (12, 10), 0, false);
    spool.task(0, 95, (13, 10), (10, 10), THREAD);
    // Opened and closed meanwhile: nothing of it remains.
    spool.call(0, &call(OPENAT, (100, 110), 0, 11, vec![(11, REGULAR, 34, 0)]));
    spool.call(0, &call(CLOSE, (120, 130), 11, 0, vec![(11, REGULAR, 34, 0)]));
    spool.call(0, &call(READ, (LOOKED + 10, LOOKED + 20), 8, 32, vec![(8, REGULAR, 33, 64)]));
    let Trace { descriptors, threads, actions, notes } = finished(&spool);
    let a = |fd| (fd, "a".into(), 150, 30);
    let c = |fd| (fd, "c".into(), 40, 32);
    assert_eq!(shown(&descriptors), [a(3), a(4), c(6), c(7), (8, "d".into(), 32, 33), a(9)]);
    assert_eq!(descriptors[0].description, descriptors[5].description);
    assert_eq!(threads, [10, 13]);
    assert_eq!(actions.len(), 1, "what was over before the beginning is no part of the trace: {actions:?}");
    assert!(!notes.iter().any(|note| note.contains("descriptor")), "{notes:?}");
}

#[test]
fn a_call_under_way_belongs_to_the_trace() {
    let mut spool = Spool::default();
    // It was looked at when this had moved the position already.
    spool.call(0, &call(WRITE, (10, LOOKED + 30), 6, 40, vec![(6, REGULAR, 32, 40)]));
    // A number that no look has shown: it was opened by a call that ended unseen.
    spool.call(0, &call(READ, (LOOKED + 40, LOOKED + 50), 20, 8, vec![(20, REGULAR, 50, 8)]));
    let Trace { descriptors, actions, notes, .. } = finished(&spool);
    let found = shown(&descriptors);
    assert_eq!(found.iter().filter(|d| d.3 == 32).map(|d| d.2).collect::<Vec<_>>(), [0, 0], "{found:?}");
    assert!(found.iter().any(|d| (d.0, d.3) == (20, 50)), "{found:?}");
    assert!(descriptors.iter().all(|d| d.process == 0), "{descriptors:?}");
    assert_eq!(actions.first(), Some(&("write".into(), 0)), "it began with the trace: {actions:?}");
    for expected in ["another position", "met only when"] {
        assert!(notes.iter().any(|note| note.contains(expected)), "{expected}: {notes:?}");
    }
}

/// Two children name a number that no look has shown, then who made them: all have it from the process of the beginning.
#[test]
fn what_children_have_inherited_was_there_at_the_beginning() {
    let mut spool = Spool::default();
    let reads = |pid: i32, at: u64, inode: u64| {
        let read = call(READ, (LOOKED + at, LOOKED + at + 5), 20, 8, vec![(20, REGULAR, inode, 8)]);
        Call { tid: pid, pid, ..read }
    };
    spool.task(0, LOOKED + 10, (60, 60), (10, 10), 0);
    spool.task(0, LOOKED + 20, (61, 61), (10, 10), 0);
    spool.call(0, &reads(60, 30, 50));
    spool.call(0, &reads(61, 40, 50));
    spool.call(0, &reads(10, 50, 50));
    let Trace { descriptors, .. } = finished(&spool);
    let found: Vec<_> = descriptors.iter().filter(|d| d.fd == 20).map(|d| (d.process, d.inode)).collect();
    assert_eq!(found, [(0, 50)]);
}

#[test]
fn another_file_than_it_seemed_is_said() {
    let mut spool = Spool::default();
    spool.call(0, &call(READ, (LOOKED + 10, LOOKED + 20), 5, 8, vec![(5, REGULAR, 99, 8)]));
    let Trace { notes, .. } = finished(&spool);
    assert!(notes.iter().any(|note| note.contains("another file")), "{notes:?}");
}

/// Three processes: one shares a table with the first, one directories. Before the beginning two more are made, each like
/// its maker in one thing; what one closes is closed for all that share.
#[test]
fn what_processes_share_is_said() {
    const CLONE_FS: u64 = 0x200;
    const CLONE_FILES: u64 = 0x400;
    const UNSHARE: u32 = 272;
    let mut spool = Spool::default();
    let of = |pid: i32, call: Call| Call { tid: pid, pid, ..call };
    spool.call(0, &of(20, call(CLOSE, (10, 20), 3, 0, vec![(3, REGULAR, 30, 100)])));
    spool.task(0, 30, (40, 40), (20, 20), CLONE_FILES);
    spool.task(0, 40, (50, 50), (30, 30), CLONE_FS);
    spool.call(0, &of(40, call(CLOSE, (50, 60), 5, 0, vec![(5, REGULAR, 31, 0)])));
    spool.call(0, &of(10, Call { args: [CLONE_FS, 0, 0, 0, 0, 0], ..call(UNSHARE, (70, 80), 0, 0, vec![]) }));
    spool.call(0, &call(READ, (LOOKED + 10, LOOKED + 20), 4, 0, vec![(4, REGULAR, 30, 100)]));
    let dir = tempfile::tempdir().unwrap();
    let trace = lay_down(dir.path(), &spool.bytes());
    let place = trace.join("spool/begin.json");
    let mut begin: Value = serde_json::from_slice(&fs::read(&place).unwrap()).unwrap();
    begin["attached"] = true.into();
    begin["monotonic_ns"] = (BEGAN + LOOKED).into();
    let first = begin["processes"][0].clone();
    let process = |pid: i32, table: u64, directories: u64| {
        let mut process = first.clone();
        (process["pid"], process["threads"]) = (pid.into(), json!([[pid, "x"]]));
        (process["table"], process["directories"]) = (table.into(), directories.into());
        process["descriptors"] =
            json!([descriptor(3, "a", 30, 100, 0), descriptor(4, "a", 30, 100, 0), descriptor(5, "b", 31, 0, 1)]);
        process["again"] = json!({"cwd": "/nowhere/w", "executable": "/bin/x", "descriptors": []});
        process
    };
    begin["processes"] = json!([process(10, 0, 0), process(20, 0, 1), process(30, 1, 0)]);
    fs::write(place, serde_json::to_vec(&begin).unwrap()).unwrap();
    recover(&trace, &mut |_, _| {}).unwrap();
    let reader = TraceReader::open(&trace).unwrap();
    let processes = reader.processes().unwrap();
    let shares: Vec<_> = processes.iter().map(|p| (p.pid, p.directories_of, p.descriptors_of)).collect();
    let expected = [(10, None, None), (20, None, Some(0)), (30, None, None), (40, None, Some(0)), (50, Some(2), None)];
    assert_eq!(shares, expected);
    let rows = reader.descriptors().unwrap();
    let numbers = |process: u32| {
        let mut open: Vec<u32> = rows.iter().filter(|d| d.process == process).map(|d| d.fd).collect();
        open.sort_unstable();
        open
    };
    assert_eq!([0, 1, 2, 3, 4].map(numbers), [vec![4], vec![4], vec![3, 4, 5], vec![4], vec![3, 4, 5]]);
}
