//! Reference programs: they make the same calls for the same seed, their traces say what they did (recorded by the tracer as a
//! judge), and replay without a difference.

mod means;

use std::collections::BTreeMap;
use std::path::Path;

use means::{mkdir, run};
use reprise_testkit::scratch::Scratch;
use reprise_trace::{Action, TraceReader};
use serde_json::Value;

const MICRO: [&str; 4] = ["random-read", "random-write", "sequential-read", "sequential-write"];
const MAIL: &[&str] = &["varmail", "--threads", "2", "--files", "40", "--rounds", "10"];
const WEB: &[&str] = &["webserver", "--threads", "3", "--files", "30", "--rounds", "4"];
const SERVER: &[&str] = &["fileserver", "--files", "40", "--rounds", "12", "--mean-size", "64K"];

/// Sequential programs that come to the end of their files three times.
const WRAPPING: [&[&str]; 2] = [
    &["micro", "sequential-read", "--threads", "3", "--requests", "50", "--file-size", "64K"],
    &["micro", "sequential-write", "--threads", "3", "--requests", "50", "--file-size", "64K"],
];

fn micro(access: &str) -> Vec<&str> {
    vec!["micro", access, "--threads", "3", "--requests", "50", "--file-size", "1M"]
}

fn prepare(dir: &Path, program: &[&str]) -> Value {
    let said = run(dir, &[&["workload"], program, &["--dir", "files", "--prepare", "--json"]].concat());
    said.ends(0);
    said.json()
}

fn perform(dir: &Path, program: &[&str], out: &str) {
    run(dir, &[&["workload"], program, &["--dir", "files", "-o", out, "-q"]].concat()).ends(0);
}

/// What a call did, without addresses and descriptor numbers: call, file, numbers, result.
type Deed = (String, String, [u64; 3], i64);

/// What each thread did in the directory of the workload, by a thread's first file.
fn deeds(trace: &Path, files: &Path) -> BTreeMap<String, Vec<Deed>> {
    let trace = TraceReader::open(trace).unwrap();
    let mut open: BTreeMap<(u32, u64), String> = BTreeMap::new();
    let mut out: BTreeMap<u32, Vec<Deed>> = BTreeMap::new();
    for action in trace.actions() {
        let Action { thread, call, args, result, path, output, .. } = action.unwrap();
        let named = path.map(|path| path.to_text()).and_then(|path| {
            let below = Path::new(&path).strip_prefix(files).ok()?.to_str()?.to_owned();
            (!below.is_empty()).then_some(below)
        });
        let deed = match (&*call, named, open.get(&(thread, args[0])).cloned()) {
            ("openat", Some(file), _) => {
                open.insert((thread, result as u64), file.clone());
                // The mode means something where a file can be made.
                let mode = if args[2] & 0o100 != 0 { args[3] } else { 0 };
                (file, [args[2], mode, 0], 0)
            }
            ("newfstatat", Some(file), _) => {
                let size = u64::from_le_bytes(output[52..60].try_into().unwrap());
                (file, [args[3], size, 0], result)
            }
            ("unlinkat", Some(file), _) => (file, [args[2], 0, 0], result),
            ("lseek", _, Some(file)) => (file, [args[1], args[2], 0], result),
            ("read" | "write", _, Some(file)) => (file, [args[2], 0, 0], result),
            ("pread64" | "pwrite64", _, Some(file)) => (file, [args[2], args[3], 0], result),
            ("close", _, Some(file)) => {
                open.remove(&(thread, args[0]));
                (file, [0; 3], result)
            }
            _ => continue,
        };
        out.entry(thread).or_default().push((call.into_owned(), deed.0, deed.1, deed.2));
    }
    out.into_values().map(|deeds| (deeds[0].1.clone(), deeds)).collect()
}

#[test]
fn traces_say_what_the_programs_did() {
    let s = Scratch::new();
    let dir = s.path().canonicalize().unwrap();
    let files = dir.join("files");
    let programs = MICRO.iter().map(|access| micro(access)).chain(WRAPPING.map(<[_]>::to_vec)).chain([
        SERVER.to_vec(),
        MAIL.to_vec(),
        WEB.to_vec(),
    ]);
    for (n, program) in programs.enumerate() {
        let name = |what: &str| format!("{what}{n}.reprise");
        prepare(&dir, &program);
        perform(&dir, &program, &name("first"));
        prepare(&dir, &program);
        let (own, judge) = (name("own"), name("judge"));
        let recorded = [&["record", "-q", "--backend", "ptrace", "--data", "none", "-o", &judge, "--"][..]].concat();
        let binary = reprise_testkit::program::reprise().unwrap();
        let command =
            [&[binary.to_str().unwrap(), "workload"], &program[..], &["--dir", "files", "-o", &own, "-q"]].concat();
        run(&dir, &[recorded, command].concat()).ends(0);
        let (own, judge) = (deeds(&dir.join(&own), &files), deeds(&dir.join(&judge), &files));
        let rewinds = own.values().flatten().filter(|deed| deed.0 == "lseek").count();
        assert_eq!(rewinds, if WRAPPING.contains(&&program[..]) { 9 } else { 0 }, "{program:?}");
        assert!(own.values().map(Vec::len).sum::<usize>() > 150, "{program:?}");
        assert_eq!(first_difference(&own, &judge), None, "{program:?}");
        // And the same seed did the same before.
        let before = deeds(&dir.join(name("first")), &files);
        assert_eq!(first_difference(&own, &before), None, "{program:?}");
        perform_other_seed(&dir, &program, &name("other"));
        let differs = own != deeds(&dir.join(name("other")), &files);
        assert_eq!(differs, !program[1].starts_with("sequential"), "{program:?}");
    }
}

fn first_difference(a: &BTreeMap<String, Vec<Deed>>, b: &BTreeMap<String, Vec<Deed>>) -> Option<String> {
    if a.keys().ne(b.keys()) {
        return Some(format!("{:?} {:?}", a.keys(), b.keys()));
    }
    a.iter().zip(b.values()).find_map(|((name, a), b)| {
        let place = a.iter().zip(b).position(|(a, b)| a != b);
        let place = place.or_else(|| (a.len() != b.len()).then_some(a.len().min(b.len())))?;
        Some(format!("{name} {place}: {:?} {:?}", a.get(place), b.get(place)))
    })
}

fn perform_other_seed(dir: &Path, program: &[&str], out: &str) {
    let program = [program, &["--seed", "2"]].concat();
    prepare(dir, &program);
    perform(dir, &program, out);
}

#[test]
fn references_replay_without_a_difference() {
    let s = Scratch::new();
    let dir = s.path();
    let programs = MICRO.iter().map(|access| micro(access)).chain(WRAPPING.map(<[_]>::to_vec)).chain([
        SERVER.to_vec(),
        MAIL.to_vec(),
        WEB.to_vec(),
    ]);
    for (n, program) in programs.enumerate() {
        let trace = format!("{n}.reprise");
        prepare(dir, &program);
        perform(dir, &program, &trace);
        let info = run(dir, &["info", "--json", &trace]);
        assert_eq!(info.ends(0).json()["ledger"]["losses"], Value::Object(Default::default()));
        let target = mkdir(dir, &format!("target{n}"));
        let result = format!("result{n}.reprise");
        // Twice: the second time the files of the first are restored.
        for _ in 0..2 {
            let _ = std::fs::remove_dir_all(dir.join(&result));
            let args = ["replay", &trace, "--target", &target, "--fill", "random", "--json", "-o", &result];
            let said = run(dir, &args);
            let said = said.ends(0).json();
            assert_eq!((&said["diverged"], &said["end"]), (&Value::from(0), &Value::from("complete")), "{said:#}");
            assert_eq!(said["issued"], said["planned"], "{said:#}");
        }
        run(dir, &["verify", "--tree", &trace, &target]).ends(0);
        run(dir, &["stat", "--replay-of", &trace, &result]).ends(0);
    }
}

#[test]
fn a_pause_is_between_the_requests() {
    let s = Scratch::new();
    for by in ["spin", "sleep"] {
        let program = [&micro("random-read")[..], &["--pause", "300us", "--pause-by", by]].concat();
        prepare(s.path(), &program);
        let trace = format!("{by}.reprise");
        perform(s.path(), &program, &trace);
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        for action in TraceReader::open(&s.path().join(&trace)).unwrap().actions() {
            let action = action.unwrap();
            if action.call == "pread64"
                && let Some(last) = last.insert(action.thread, action.end_ns())
            {
                // The rate of the counter is known to a thousandth.
                assert!(action.begin_ns - last >= 299_000, "{}", action.begin_ns - last);
            }
        }
        assert_eq!(last.len(), 3);
    }
}

#[test]
fn a_fileserver_ends_by_time() {
    let s = Scratch::new();
    let program = ["fileserver", "--files", "40", "--time", "300ms", "--mean-size", "8K"];
    prepare(s.path(), &program);
    perform(s.path(), &program, "t.reprise");
    let deeds = deeds(&s.path().join("t.reprise"), &s.path().canonicalize().unwrap().join("files"));
    for thread in deeds.values() {
        let count = |call: &str| thread.iter().filter(|deed| deed.0 == call).count();
        assert!(count("openat") > 0 && count("openat") == count("close"));
    }
}

#[test]
fn files_are_restored_by_difference_and_must_be_there() {
    let s = Scratch::new();
    let dir = s.path();
    let unprepared = run(dir, &[&["workload"], SERVER, &["--dir", "files", "-o", "t.reprise"]].concat());
    assert!(unprepared.ends(5).err.contains("--prepare"), "{unprepared:?}");
    assert_eq!(prepare(dir, SERVER)["made"], 32);
    assert_eq!((&prepare(dir, SERVER)["made"], &prepare(dir, SERVER)["kept"]), (&0.into(), &32.into()));
    perform(dir, SERVER, "t.reprise");
    let again = run(dir, &[&["workload"], SERVER, &["--dir", "files", "-o", "u.reprise"]].concat());
    assert!(again.ends(5).err.contains("--prepare"), "{again:?}");
    let restored = prepare(dir, SERVER);
    let number = |name: &str| restored[name].as_u64().unwrap();
    assert!(number("made") > 0 && number("removed") > 0 && number("kept") > 0, "{restored}");
    let exists = run(dir, &[&["workload"], SERVER, &["--dir", "files", "-o", "t.reprise"]].concat());
    assert!(exists.ends(2).err.contains("t.reprise"), "{exists:?}");
    let small = run(dir, &["workload", "micro", "random-read", "--file-size", "1K", "--dir", "files", "--prepare"]);
    assert!(small.ends(2).err.contains("--file-size"), "{small:?}");
}
