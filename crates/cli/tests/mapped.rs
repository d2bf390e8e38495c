//! What programs read and write through mappings of files: recorded, replayed, and the same tree in the end.
//!
//! The trees are compared by another program (`cmp`-like walk of the test kit), and each test shows that it would fail if
//! nobody looked for stores (`--mapped off`). Which pages were loaded a program says that knows, and what they held the file.

mod means;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use means::{Said, copy, has, mkdir, run};
use reprise_testkit::scratch::{Kind, LoopFs, Scratch};
use reprise_testkit::{skip, tree};
use reprise_trace::{Action, Loss, TraceReader};

thread_local! {
    /// Who records in the test of this thread.
    static BACKEND: Cell<&'static str> = const { Cell::new("") };
}

/// Runs a test with a backend, or says why not.
fn with(backend: &'static str, name: &str, test: fn()) {
    BACKEND.set(backend);
    let scratch = Scratch::new();
    let said = run(scratch.path(), &["record", "-q", "--backend", backend, "-o", "t", "--", "true"]);
    match said.code {
        Some(0) => test(),
        _ => skip(&format!("{name}, {backend}"), said.err.trim()),
    }
}

/// Each test with each backend, as a test of its own.
macro_rules! with_each_backend {
    ($($name:ident;)*) => {
        mod ptrace {
            $(#[test] fn $name() { super::with("ptrace", stringify!($name), super::$name); })*
        }
        mod ebpf {
            $(#[test] fn $name() { super::with("ebpf", stringify!($name), super::$name); })*
        }
    };
}

with_each_backend! {
    random_stores_among_calls;
    random_stores_on_other_file_systems;
    what_calls_write_is_not_written_twice;
    hundreds_of_mappings_at_once;
    python_maps_a_file;
    pieces_that_are_unmapped_one_by_one;
    what_a_move_leaves_where_it_was;
    what_is_mapped_over_and_moved_in_parts;
    what_is_cloned_was_stored_to;
    pages_that_leave_their_file;
    what_forked_processes_open_to_stores;
    a_file_that_is_mapped_twice;
    what_is_read_while_others_store;
    pieces_that_lie_one_behind_the_other;
    addresses_that_others_have_just_freed;
    threads_with_descriptors_of_their_own_end;
    lmdb_writes_through_its_map;
    fio_writes_through_its_map;
    sqlite_shares_its_index;
}

/// Threads run on while others are looked at in the kernel only; and loads are seen there only.
macro_rules! in_the_kernel {
    ($($name:ident;)*) => {
        mod in_the_kernel {
            $(#[test] fn $name() { super::with("ebpf", stringify!($name), super::$name); })*
        }
    };
}

in_the_kernel! {
    mappings_that_begin_while_others_look;
    stores_behind_a_copy;
    processes_whose_rings_are_polled;
    memory_that_a_request_makes_present;
    memory_that_may_be_written_some_time;
    first_touches_of_pages_are_rows;
    first_touches_on_other_file_systems;
    loads_follow_what_others_store;
    lmdb_reads_through_its_map;
    git_reads_its_packs;
    very_many_files_one_after_the_other;
}

/// Compiles a program of this test.
fn program(dir: &Path, name: &str) -> Result<String, String> {
    let source = format!("{}/tests/mapped/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let out = dir.join(name);
    let made = Command::new("cc").args(["-O1", "-w", "-o"]).arg(&out).arg(source).status();
    match made {
        Ok(status) if status.success() => Ok(out.to_str().expect("UTF-8").to_owned()),
        other => Err(format!("no C compiler: {other:?}")),
    }
}

/// Records a command in a copy of the directory `before`; what was said, and how the tree of the replay differs.
fn differences(dir: &Path, before: &Path, name: &str, more: &[&str], command: &[&str]) -> (Said, Vec<String>) {
    let (home, target) = (dir.join(name), mkdir(dir, &format!("{name}-target")));
    copy(before, &home);
    let trace = format!("{}/{name}.reprise", dir.display());
    let words = [&["record", "-q", "--backend", BACKEND.get(), "-o", &trace], more, &["--"], command].concat();
    run(&home, &words).ends(0);
    let said = run(dir, &["replay", &trace, "--target", &target, "--json"]);
    let found = Path::new(&target).join(home.strip_prefix("/").expect("an absolute path"));
    (said, tree::differences(&tree::walk(&home), &tree::walk(&found)))
}

/// Records and replays a command; nothing diverges and the trees are equal. Without looking for stores they are not.
#[track_caller]
fn replays(dir: &Path, before: &Path, name: &str, command: &[&str]) {
    // What the program does not meet is in the replay by a snapshot only.
    let snapshot: &[&str] =
        if std::fs::read_dir(before).is_ok_and(|mut d| d.next().is_some()) { &["--tree", "."] } else { &[] };
    let (said, differences_full) = differences(dir, before, name, snapshot, command);
    assert_eq!(said.ends(0).json()["diverged"], 0, "{said:#?}");
    assert_eq!(differences_full, Vec::<String>::new(), "{name}");
    let trace = dir.join(format!("{name}.reprise"));
    let reader = TraceReader::open(&trace).expect("a trace");
    assert_eq!(reader.ledger().total(Loss::Dropped), 0, "{:?}", reader.ledger());
    assert!(rows(&trace).0 > 0, "no store was found");
}

#[track_caller]
fn fails_without(dir: &Path, before: &Path, name: &str, command: &[&str]) {
    let (_, differences_off) = differences(dir, before, &format!("{name}-off"), &["--mapped", "off"], command);
    assert!(!differences_off.is_empty(), "{name}: the test cannot fail");
    let reader = TraceReader::open(&dir.join(format!("{name}-off.reprise"))).expect("a trace");
    assert!(reader.ledger().total(Loss::Dropped) > 0, "{:?}", reader.ledger());
}

/// All rows of a call.
fn rows_of(trace: &Path, call: &str) -> Vec<Action> {
    let reader = TraceReader::open(trace).expect("a trace");
    reader.actions().map(|a| a.expect("an action")).filter(|a| a.call == call).collect()
}

/// Number and bytes of the rows of stores.
fn rows(trace: &Path) -> (usize, u64) {
    rows_of(trace, "mmap_pwrite").iter().fold((0, 0), |(n, bytes), row| (n + 1, bytes + row.data_bytes))
}

fn random_stores(dir: &Path, test: &str) {
    let stores = match program(dir, "stores") {
        Ok(program) => program,
        Err(why) => return skip(test, &why),
    };
    let before = dir.join("before");
    std::fs::create_dir(&before).expect("a directory");
    let first: u64 = std::env::var("REPRISE_SEED").map_or(1, |s| s.parse().expect("a number"));
    let count: u64 = std::env::var("REPRISE_SEEDS").map_or(6, |s| s.parse().expect("a number"));
    for seed in first..first + count {
        replays(dir, &before, &format!("s{seed}"), &[&stores, &seed.to_string()]);
    }
    fails_without(dir, &before, "s0", &[&stores, "0"]);
    // What was there before is there in the replay, whoever showed it.
    let again = dir.join(format!("s{first}"));
    replays(dir, &again, "again", &[&stores, "77"]);
}

fn random_stores_among_calls() {
    let scratch = Scratch::new();
    random_stores(scratch.path(), "random_stores_among_calls");
}

fn random_stores_on_other_file_systems() {
    for kind in [Kind::Xfs, Kind::Btrfs] {
        let test = format!("random_stores_on_{kind}");
        match LoopFs::new(kind, kind.least_bytes()) {
            Ok(fs) => {
                let scratch = Scratch::below(&fs.path());
                random_stores(scratch.path(), &test);
            }
            Err(why) => skip(&test, &why),
        }
    }
}

fn what_calls_write_is_not_written_twice() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    let counted = match program(dir, "counted") {
        Ok(program) => program,
        Err(why) => return skip("what_calls_write_is_not_written_twice", &why),
    };
    let before = dir.join("before");
    std::fs::create_dir(&before).expect("a directory");
    replays(dir, &before, "apart", &[&counted, "50"]);
    let (_, bytes) = rows(&dir.join("apart.reprise"));
    // The last store is where `write` at the begin of the file overwrites it; all others are pages of their own.
    assert_eq!(bytes, 50 * 4096, "50 pages were stored to, once each");
}

fn hundreds_of_mappings_at_once() {
    let scratch = Scratch::new();
    let hundreds = match program(scratch.path(), "hundreds") {
        Ok(program) => program,
        Err(why) => return skip("hundreds_of_mappings_at_once", &why),
    };
    let before = scratch.path().join("before");
    std::fs::create_dir(&before).expect("a directory");
    replays(scratch.path(), &before, "many", &[&hundreds, "300"]);
    fails_without(scratch.path(), &before, "many", &[&hundreds, "300"]);
}

/// What was stored in a piece that was unmapped first is not lost when another process maps the other piece only.
fn pieces_that_are_unmapped_one_by_one() {
    if !has("python3") {
        return skip("pieces_that_are_unmapped_one_by_one", "there is no python3");
    }
    const SCRIPT: &str = "import mmap, os\n\
        size = 64 * 4096; f = os.open('m', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 2 * size)\n\
        one = mmap.mmap(f, size); other = mmap.mmap(f, size, offset=size)\n\
        one[0] = 97; other[0] = 98; other.close(); one.close(); os.close(f)\n\
        child = os.fork()\n\
        f = os.open('m', os.O_RDWR)\n\
        if child == 0: one = mmap.mmap(f, size); one[0] = 99; one.close(); os._exit(0)\n\
        os.wait()\n";
    let scratch = Scratch::new();
    let before = scratch.path().join("before");
    std::fs::create_dir(&before).expect("a directory");
    replays(scratch.path(), &before, "pieces", &["/usr/bin/python3", "-c", SCRIPT]);
    fails_without(scratch.path(), &before, "pieces", &["/usr/bin/python3", "-c", SCRIPT]);
}

/// Records and replays a program for a test; the tree is what the trace says, too. `None`: the test is skipped.
#[track_caller]
fn program_replays(test: &str, name: &str) -> Option<Scratch> {
    program_replays_in(Scratch::new(), test, name)
}

/// As [`program_replays`], in a directory.
#[track_caller]
fn program_replays_in(scratch: Scratch, test: &str, name: &str) -> Option<Scratch> {
    let dir = scratch.path();
    let program = match program(Path::new(&mkdir(dir, "programs")), name) {
        Ok(program) => program,
        Err(why) => {
            skip(test, &why);
            return None;
        }
    };
    let before = dir.join("before");
    std::fs::create_dir(&before).expect("a directory");
    replays(dir, &before, name, &[&program]);
    run(dir, &["verify", "--tree", &format!("{name}.reprise"), &format!("{name}-target")]).ends(0);
    fails_without(dir, &before, name, &[&program]);
    Some(scratch)
}

/// `mremap` leaves the old range mapped if it is told to, or given no length.
fn what_a_move_leaves_where_it_was() {
    program_replays("what_a_move_leaves_where_it_was", "left");
}

/// Of a mapping a part may grow, several may move at once, and what lay at the new place was stored to before. Calls that fail change
/// nothing.
fn what_is_mapped_over_and_moved_in_parts() {
    program_replays("what_is_mapped_over_and_moved_in_parts", "moves");
}

/// A clone has what was stored to its source before.
fn what_is_cloned_was_stored_to() {
    for kind in [Kind::Xfs, Kind::Btrfs] {
        let test = format!("what_is_cloned_was_stored_to: {kind}");
        match LoopFs::new(kind, kind.least_bytes()) {
            Ok(fs) => drop(program_replays_in(Scratch::below(&fs.path()), &test, "cloned")),
            Err(why) => skip(&test, &why),
        }
    }
}

/// What one process closes to stores, or opens, is as it was in the others.
fn what_forked_processes_open_to_stores() {
    program_replays("what_forked_processes_open_to_stores", "opened");
}

/// All that was stored to a file is looked at when the last of its mappings end at once.
fn a_file_that_is_mapped_twice() {
    program_replays("a_file_that_is_mapped_twice", "twice");
}

/// What is read or loaded is what had been stored by then, though more was until it was looked at.
fn what_is_read_while_others_store() {
    program_replays("what_is_read_while_others_store", "stirred");
}

/// Neighbours in memory and in their file may lie apart in the replay.
fn pieces_that_lie_one_behind_the_other() {
    program_replays("pieces_that_lie_one_behind_the_other", "adjacent");
}

fn addresses_that_others_have_just_freed() {
    program_replays("addresses_that_others_have_just_freed", "reused");
}

/// Mappings end with their process, not with the last thread that has a table of descriptors.
fn threads_with_descriptors_of_their_own_end() {
    let Some(scratch) = program_replays("threads_with_descriptors_of_their_own_end", "threads") else { return };
    let dir = scratch.path();
    // One call after the other, as they were: no thread is late.
    let target = mkdir(dir, "single");
    let said = run(dir, &["replay", "threads.reprise", "--target", &target, "--order", "single", "--json"]);
    assert_eq!(said.ends(0).json()["skipped"], 0, "{said:#?}");
    run(dir, &["verify", "--tree", "threads.reprise", &target]).ends(0);
}

/// A look goes on when the call is over that was the reason for it, and sees what is stored through mappings that begin then.
fn mappings_that_begin_while_others_look() {
    program_replays("mappings_that_begin_while_others_look", "beside");
}

/// What is stored while a file is copied stands behind the copy, and the trace says that it may have been before.
fn stores_behind_a_copy() {
    let Some(scratch) = program_replays("stores_behind_a_copy", "copied") else { return };
    let trace = scratch.path().join("copied.reprise");
    let copies = rows_of(&trace, "copy_file_range").into_iter().chain(rows_of(&trace, "sendfile"));
    let ends: Vec<u64> = copies.map(|copy| copy.begin_ns + copy.duration_ns).collect();
    let met = rows_of(&trace, "mmap_pwrite").iter().any(|row| ends.contains(&(row.begin_ns - 1)));
    let reader = TraceReader::open(&trace).expect("a trace");
    let said = reader.ledger().notes.keys().any(|note| note.contains("while a call copied them"));
    assert_eq!(said, met, "{:?}", reader.ledger());
}

/// The thread of the kernel's that polls a ring is the last of its process, and none of those that are followed.
fn processes_whose_rings_are_polled() {
    program_replays("processes_whose_rings_are_polled", "polled");
}

fn memory_that_a_request_makes_present() {
    program_replays("memory_that_a_request_makes_present", "advised");
}

/// `MS_ASYNC` leaves pages open to stores: what was stored to a large memory is not shown each time.
fn memory_that_may_be_written_some_time() {
    let Some(scratch) = program_replays("memory_that_may_be_written_some_time", "async") else { return };
    let (_, bytes) = rows(&scratch.path().join("async.reprise"));
    assert!(bytes < 4 << 20, "{bytes} bytes of 2,000 stores to 256 pages");
}

/// `MADV_REMOVE` makes holes in files: in the replay, in the tree that the trace tells of, and in a slice that begins behind it.
fn pages_that_leave_their_file() {
    let Some(scratch) = program_replays("pages_that_leave_their_file", "holes") else { return };
    let dir = scratch.path();
    let found = run(dir, &["sql", "holes.reprise", "SELECT seq FROM actions WHERE path = 'cut-here'", "--csv"]);
    let cut = format!("action:{}", found.ends(0).out.lines().nth(1).expect("the action at which it is cut"));
    run(dir, &["slice", "-q", "holes.reprise", "-o", "behind", "--from", &cut]).ends(0);
    let target = mkdir(dir, "behind-target");
    let said = run(dir, &["replay", "behind", "--target", &target, "--json"]);
    assert_eq!(said.ends(0).json()["diverged"], 0, "{said:#?}");
    run(dir, &["verify", "--tree", "behind", &target]).ends(0);
    let (home, slice) = (dir.join("holes"), Path::new(&target));
    let there = slice.join(home.strip_prefix("/").expect("an absolute path"));
    let content = |place: &Path| std::fs::read(place.join("holes")).expect("a file");
    assert!(content(&home) == content(&there), "the slice's file");
}

fn python_maps_a_file() {
    if !has("python3") {
        return skip("python_maps_a_file", "there is no python3");
    }
    const SCRIPT: &str = "import mmap, os\n\
        f = open('m', 'w+b'); f.truncate(300000)\n\
        m = mmap.mmap(f.fileno(), 0); f.close()\n\
        m[5000:5007] = b'through'; m[299990:300000] = b'0123456789'\n\
        os.rename('m', 'moved'); m.flush(); m[70000] = 7; m.move(100000, 5000, 7)\n\
        assert open('moved', 'rb').read()[5000:5007] == b'through'\n\
        m[200000] = 9; m.close()\n";
    let scratch = Scratch::new();
    let before = scratch.path().join("before");
    std::fs::create_dir(&before).expect("a directory");
    replays(scratch.path(), &before, "python", &["/usr/bin/python3", "-c", SCRIPT]);
    fails_without(scratch.path(), &before, "python", &["/usr/bin/python3", "-c", SCRIPT]);
}

fn lmdb_writes_through_its_map() {
    const SCRIPT: &str = "import lmdb, random\n\
        r = random.Random(5)\n\
        e = lmdb.open('db', map_size=1 << 24, writemap=True, sync=True)\n\
        for i in range(40):\n    \
            with e.begin(write=True) as t:\n        \
                for j in range(50): t.put(b'%d' % r.randrange(5000), r.randbytes(r.randrange(300)))\n\
        e.copy('.') if False else None\n\
        print(e.stat()['entries']); e.close()\n";
    let known = Command::new("/usr/bin/python3").args(["-c", "import lmdb"]).output();
    if !known.is_ok_and(|o| o.status.success()) {
        return skip("lmdb_writes_through_its_map", "there is no python3-lmdb");
    }
    let scratch = Scratch::new();
    let before = scratch.path().join("before");
    std::fs::create_dir(&before).expect("a directory");
    replays(scratch.path(), &before, "lmdb", &["/usr/bin/python3", "-c", SCRIPT]);
    fails_without(scratch.path(), &before, "lmdb", &["/usr/bin/python3", "-c", SCRIPT]);
}

fn fio_writes_through_its_map() {
    if !has("fio") {
        return skip("fio_writes_through_its_map", "there is no fio");
    }
    let scratch = Scratch::new();
    let before = scratch.path().join("before");
    std::fs::create_dir(&before).expect("a directory");
    let fio =
        ["fio", "--name=m", "--ioengine=mmap", "--rw=randwrite", "--bs=4k", "--size=4m", "--numjobs=2", "--fsync=64"];
    replays(scratch.path(), &before, "fio", &fio);
    fails_without(scratch.path(), &before, "fio", &fio);
}

/// The index of a log (`-shm`) is a mapped file that processes share.
fn sqlite_shares_its_index() {
    const SCRIPT: &str = "import os, sqlite3\n\
        d = sqlite3.connect('d'); d.execute('pragma journal_mode=wal'); d.execute('create table t(a, b)'); d.commit()\n\
        for i in range(30):\n    \
            child = os.fork() if i % 10 == 0 else 1\n    \
            if child == 0:\n        \
                e = sqlite3.connect('d', timeout=60); e.execute('insert into t values(?, ?)', (i, 'x' * 5000)); e.commit()\n        \
                os._exit(0)\n    \
            if i % 10 == 0: os.waitpid(child, 0)\n    \
            d.execute('insert into t values(?, randomblob(3000))', (i,)); d.commit()\n\
        os._exit(0)\n";
    let scratch = Scratch::new();
    let before = scratch.path().join("before");
    std::fs::create_dir(&before).expect("a directory");
    replays(scratch.path(), &before, "sqlite", &["/usr/bin/python3", "-c", SCRIPT]);
    fails_without(scratch.path(), &before, "sqlite", &["/usr/bin/python3", "-c", SCRIPT]);
}

const PAGE: usize = 4096;

/// A file of so many pages that all differ, written page by page: the kernel keeps them singly.
fn pages_that_differ(path: &Path, pages: u32) -> Vec<u8> {
    let mut file = File::create(path).expect("a file");
    let mut all = Vec::new();
    for number in 0..=pages {
        let mut page: Vec<u8> =
            (0..PAGE as u32 / 4).flat_map(|i| (i ^ number.wrapping_mul(0x9e37_79b9)).to_le_bytes()).collect();
        // The last one is not whole.
        page.truncate(if number == pages { 1000 } else { PAGE });
        file.write_all(&page).expect("written");
        all.extend(page);
    }
    file.sync_all().expect("on the disk");
    all
}

/// Pages that rows show of the mappings of a file, and what they hold; `lengths` are those of the mappings.
fn pages_shown(trace: &Path, lengths: &[u64]) -> BTreeMap<u64, Vec<u8>> {
    let maps = rows_of(trace, "mmap");
    let maps: Vec<_> = maps.iter().filter(|map| lengths.contains(&map.args[1]) && map.result > 0).collect();
    let mut blobs = TraceReader::open(trace).expect("a trace").blobs();
    let mut shown = BTreeMap::new();
    for row in rows_of(trace, "mmap_pread") {
        let within = |map: &&Action| (map.result as u64..map.result as u64 + map.args[1]).contains(&row.args[0]);
        let Some(map) = maps.iter().find(|map| within(map)) else { continue };
        assert_eq!(row.args[0] - map.result as u64 + map.args[5], row.args[3], "{row:?}");
        let content = blobs.content(&row.data).expect("readable").expect("kept");
        assert_eq!((content.len() as i64, row.truncated_bytes), (row.result, 0), "{row:?}");
        for (i, page) in content.chunks(PAGE).enumerate() {
            let twice = shown.insert(row.args[3] / PAGE as u64 + i as u64, page.to_vec());
            assert_eq!(twice, None, "{row:?}");
        }
    }
    shown
}

fn first_touches(dir: &Path, test: &str) {
    const GROUPS: u32 = 100;
    const GROUP: u64 = 32;
    let loads = match program(dir, "loads") {
        Ok(program) => program,
        Err(why) => return skip(test, &why),
    };
    for (seed, is_cold) in [(1, false), (2, true), (3, true)] {
        let home = dir.join(format!("home{seed}"));
        std::fs::create_dir(&home).expect("a directory");
        let file = home.join("file");
        let content = pages_that_differ(&file, GROUPS * GROUP as u32);
        if is_cold {
            let of = format!("if={}", file.display());
            let made = Command::new("dd").args([&of, "iflag=nocache", "count=0", "status=none"]).status();
            assert!(made.expect("dd").success());
        }
        let (trace, target) = (dir.join(format!("{seed}.reprise")), mkdir(dir, &format!("target{seed}")));
        let out = trace.to_str().expect("UTF-8");
        let seed = seed.to_string();
        let said = run(&home, &["record", "-q", "--backend", "ebpf", "-o", out, "--", &loads, "file", &seed, "50"]);
        let touched: Vec<u64> = said
            .ends(0)
            .out
            .lines()
            .map(|l| l.split_once(' ').expect("two words").1.parse().expect("a number"))
            .collect();
        assert_eq!(touched.len(), 70);
        let half = u64::from(GROUPS / 2) * GROUP * PAGE as u64;
        let shown = pages_shown(&trace, &[half, content.len() as u64 - half]);
        let mut sorted = touched.clone();
        sorted.sort_unstable();
        assert_eq!(shown.keys().copied().collect::<Vec<_>>(), sorted, "cold: {is_cold}");
        for (page, bytes) in &shown {
            let at = *page as usize * PAGE;
            assert_eq!(bytes, &content[at..at + PAGE], "page {page}");
        }
        let reader = TraceReader::open(&trace).expect("a trace");
        assert_eq!(
            reader.ledger().total(Loss::Dropped) + reader.ledger().total(Loss::Truncated),
            0,
            "{:?}",
            reader.ledger()
        );
        let said = run(dir, &["replay", out, "--target", &target, "--json"]);
        let found = said.ends(0).json();
        assert_eq!((&found["diverged"], &found["skipped"]), (&0.into(), &0.into()), "{said:#?}");
        let replayed = Path::new(&target).join(home.strip_prefix("/").expect("an absolute path"));
        assert_eq!(tree::differences(&tree::walk(&home), &tree::walk(&replayed)), Vec::<String>::new());
    }
}

fn first_touches_of_pages_are_rows() {
    let scratch = Scratch::new();
    first_touches(scratch.path(), "first_touches_of_pages_are_rows");
}

fn first_touches_on_other_file_systems() {
    for kind in [Kind::Xfs, Kind::Btrfs] {
        let test = format!("first_touches_on_{kind}");
        match LoopFs::new(kind, kind.least_bytes().max(512 << 20)) {
            Ok(fs) => first_touches(Scratch::below(&fs.path()).path(), &test),
            Err(why) => skip(&test, &why),
        }
    }
}

/// Records a program in a directory that there is, and replays it: nothing diverges, the trees are equal, and pages were
/// loaded. What others store and write meanwhile is seen by the loads, and by those of the replay.
#[track_caller]
fn loads_replay(dir: &Path, before: &Path, name: &str, command: &[&str]) {
    let (said, differences_full) = differences(dir, before, name, &["--tree", "."], command);
    let found = said.ends(0).json();
    assert_eq!((&found["diverged"], &found["skipped"]), (&0.into(), &0.into()), "{said:#?}");
    assert_eq!(differences_full, Vec::<String>::new(), "{name}");
    let trace = dir.join(format!("{name}.reprise"));
    assert!(!rows_of(&trace, "mmap_pread").is_empty(), "no load was found");
    let reader = TraceReader::open(&trace).expect("a trace");
    assert_eq!(reader.ledger().total(Loss::Dropped), 0, "{:?}", reader.ledger());
    differences(dir, before, &format!("{name}-off"), &["--mapped", "off"], command);
    assert!(rows_of(&dir.join(format!("{name}-off.reprise")), "mmap_pread").is_empty(), "they were not wanted");
}

/// One process stores and writes, another loads what it finds, page after page, each when it was told to.
fn loads_follow_what_others_store() {
    const SCRIPT: &str = "import mmap, os\n\
        P = 4096; G = 64; f = open('m', 'w+b')\n\
        for i in range(40 * G): f.write(bytes([i % 251]) * P); f.flush()\n\
        f.flush(); os.fsync(f.fileno())\n\
        a, b = os.pipe(); c, d = os.pipe()\n\
        m = mmap.mmap(f.fileno(), 0)\n\
        if os.fork() == 0:\n    \
            m.close(); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n    \
            for i in range(40):\n        \
                os.read(a, 1); p = (i * G + 32) * P\n        \
                assert m[p + 5:p + 10] == (b'store' if i % 2 else b'write'), (i, m[p + 5:p + 10])\n        \
                os.write(d, b'x')\n    \
            os._exit(0)\n\
        for i in range(40):\n    \
            p = (i * G + 32) * P\n    \
            if i % 2: m[p + 5:p + 10] = b'store'\n    \
            else: os.pwrite(f.fileno(), b'write', p + 5)\n    \
            os.write(b, b'x'); os.read(c, 1)\n\
        assert os.wait()[1] == 0\n";
    let scratch = Scratch::new();
    let before = scratch.path().join("before");
    std::fs::create_dir(&before).expect("a directory");
    loads_replay(scratch.path(), &before, "others", &["/usr/bin/python3", "-c", SCRIPT]);
    assert!(rows_of(&scratch.path().join("others.reprise"), "mmap_pread").len() >= 40, "one for each turn");
}

fn lmdb_reads_through_its_map() {
    const FILL: &str = "import lmdb\n\
        e = lmdb.open('db', map_size=1 << 26)\n\
        with e.begin(write=True) as t:\n    \
            for i in range(20000): t.put(b'%08d' % (i * 7919 % 20000), b'v%d' % i * 40)\n\
        e.close()\n";
    const READ: &str = "import lmdb, random\n\
        r = random.Random(5); e = lmdb.open('db', readonly=True)\n\
        with e.begin() as t:\n    \
            for i in range(300): assert t.get(b'%08d' % r.randrange(20000))\n\
        e.close()\n";
    let scratch = Scratch::new();
    let before = scratch.path().join("before");
    std::fs::create_dir(&before).expect("a directory");
    let filled = Command::new("/usr/bin/python3").args(["-c", FILL]).current_dir(&before).output();
    if !filled.is_ok_and(|o| o.status.success()) {
        return skip("lmdb_reads_through_its_map", "there is no python3-lmdb");
    }
    loads_replay(scratch.path(), &before, "lmdb", &["/usr/bin/python3", "-c", READ]);
}

/// More than the programs in the kernel have room for at once: those that nobody maps any more are forgotten.
fn very_many_files_one_after_the_other() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    let hundreds = match program(dir, "hundreds") {
        Ok(program) => program,
        Err(why) => return skip("very_many_files_one_after_the_other", &why),
    };
    let home = mkdir(dir, "home");
    let words = ["record", "-q", "--backend", "ebpf", "-o", "../t", "--", &hundreds, "80000", "apart", "5"];
    run(Path::new(&home), &words).ends(0);
    let trace = dir.join("t");
    let reader = TraceReader::open(&trace).expect("a trace");
    assert_eq!(reader.ledger().total(Loss::Dropped), 0, "{:?}", reader.ledger());
    assert_eq!(rows(&trace).0, 80_000);
}

/// Git maps its index and its packs privately.
fn git_reads_its_packs() {
    const FILL: &str = "git init -q . && for i in $(seq 1 40); do seq $i 2000 > f$i; git add f$i; \
        git -c user.name=a -c user.email=b commit -qm $i; done; git gc -q";
    const READ: &str =
        "git log -p --stat > log; git fsck --full; rm f7; git checkout f7; git status > status; git gc -q";
    if !has("git") {
        return skip("git_reads_its_packs", "there is no git");
    }
    let scratch = Scratch::new();
    let before = scratch.path().join("before");
    std::fs::create_dir(&before).expect("a directory");
    let filled = Command::new("sh").args(["-c", FILL]).current_dir(&before).status();
    assert!(filled.expect("sh").success());
    loads_replay(scratch.path(), &before, "git", &["/bin/sh", "-c", READ]);
}

/// Rows as a backend that sees page faults makes them: loads, by two processes, of a file that is closed and unlinked.
#[test]
fn loads_are_replayed_and_compared() {
    const LOG: &str = "11 10:00:00.000100 openat(AT_FDCWD, \"/d/f\", O_RDWR) = 3 <0.000010>\n\
        11 10:00:00.000150 fstat(3, {st_mode=S_IFREG|0644, st_size=8192, ...}) = 0 <0.000010>\n\
        11 10:00:00.000200 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f0000000000 <0.000010>\n\
        11 10:00:00.000300 mmap_pread(0x7f0000000000, \"first page\", 10, 0) = 10 <0.000010>\n\
        11 10:00:00.000400 close(3) = 0 <0.000010>\n\
        11 10:00:00.000500 unlink(\"/d/f\") = 0 <0.000010>\n\
        11 10:00:00.000600 mmap_pwrite(0x7f0000000003, \"??\", 2, 3) = 2 <0.000010>\n\
        11 10:00:00.000700 fork() = 12 <0.000010>\n\
        12 10:00:00.000800 mmap_pread(0x7f0000000000, \"fir??\", 5, 0) = 5 <0.000010>\n\
        11 10:00:00.000900 munmap(0x7f0000000000, 8192) = 0 <0.000010>\n\
        12 10:00:00.001000 mmap_pwrite(0x7f0000000000, \"FIR\", 3, 0) = 3 <0.000010>\n\
        12 10:00:00.001100 mmap_pread(0x7f0000000000, \"FIR?? page\", 10, 0) = 10 <0.000010>\n";
    let scratch = Scratch::new();
    let dir = scratch.path();
    for (name, log, diverged) in [("right", LOG.to_owned(), 0), ("wrong", LOG.replace("FIR??", "FOR??"), 1)] {
        std::fs::write(dir.join(format!("{name}.log")), log).expect("a log");
        let (log, trace) = (format!("{name}.log"), format!("{name}.reprise"));
        run(dir, &["import", &log, "-o", &trace, "-q"]).ends(0);
        let target = mkdir(dir, name);
        let said = run(dir, &["replay", &trace, "--target", &target, "--json"]);
        let found = said.json();
        assert_eq!(found["diverged"], diverged, "{said:#?}");
        assert_eq!(found["skipped"], 0, "{said:#?}");
    }
}
