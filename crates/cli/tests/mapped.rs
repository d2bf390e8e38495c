//! What programs read and write through shared mappings of files: recorded, replayed, and the same tree in the end.
//!
//! The trees are compared by another program (`cmp`-like walk of the test kit), and each test shows that it would fail if
//! nobody looked for stores (`--mapped off`).

mod means;

use std::cell::Cell;
use std::path::Path;
use std::process::Command;

use means::{Said, copy, has, mkdir, run};
use reprise_testkit::scratch::{Kind, LoopFs, Scratch};
use reprise_testkit::{skip, tree};
use reprise_trace::{Loss, TraceReader};

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
    python_maps_a_file;
    lmdb_writes_through_its_map;
    fio_writes_through_its_map;
    sqlite_shares_its_index;
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

/// Number and bytes of the rows of stores.
fn rows(trace: &Path) -> (usize, u64) {
    let reader = TraceReader::open(trace).expect("a trace");
    let rows = reader.actions().map(|a| a.expect("an action")).filter(|a| a.call == "mmap_pwrite");
    rows.fold((0, 0), |(n, bytes), row| (n + 1, bytes + row.data_bytes))
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
