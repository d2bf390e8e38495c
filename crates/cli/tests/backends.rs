//! One program recorded by both back-ends gives the same actions, times, interleaving, numbers of processes and addresses
//! aside; and what was recorded in the kernel replays without divergence, to an equal tree.

mod means;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use means::{has, in_kernel, run};
use reprise_calls::{ArgKind, Call, Effect, Returns, Struct, by_name};
use reprise_testkit::program;
use reprise_testkit::scratch::Scratch;
use reprise_trace::payload::{Side, split};
use reprise_trace::{Action, BlobReader, Loss, TraceReader};

/// What a C library maps for a thread: the usual limit.
const STACK_BYTES: u64 = 8 << 20;
/// Flags of memory that a C library, or Python, maps to give it away in parts.
const ALLOCATED: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;

/// What an argument was, where it says more than where something lay in memory or which process it was.
fn argument(call: &Call, action: &Action, i: usize) -> u64 {
    let value = action.args[i];
    match call.args.get(i).map(|a| a.kind) {
        Some(ArgKind::Integer) if call.name == "pidfd_open" => 0,
        Some(ArgKind::Fd(_) | ArgKind::Dirfd) => u64::from(value as u32),
        Some(ArgKind::Flags(_) | ArgKind::Command(_) | ArgKind::Mode | ArgKind::Offset | ArgKind::Length) => value,
        Some(ArgKind::Owner | ArgKind::Device) => value,
        Some(ArgKind::Integer) if !matches!(call.effect, Effect::Wait) => value,
        _ => 0,
    }
}

/// Names that are drawn at random, or hold the number of a process.
fn plain(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name).into_owned();
    let parts = text.split('/').map(|part| {
        let drawn = part.starts_with("tmp_") || part.starts_with("tmp.") || part.starts_with("sh-thd");
        let number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if drawn || number { "*".to_owned() } else { part.to_owned() }
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Structures, without times, identities and sizes that differ from run to run.
fn structures(call: &Call, action: &Action, side: Side) -> String {
    let bytes = if side == Side::Input { &action.input } else { &action.output };
    let parts = split(call, side, bytes);
    let mut out = String::new();
    for (i, part) in parts.iter().enumerate() {
        let (Some(part), Some(kind)) = (part, call.args.get(i).map(|a| a.kind)) else { continue };
        let told = match kind {
            ArgKind::Out(Struct::Stat) => {
                let mode = u32::from_le_bytes(part[24..28].try_into().unwrap());
                // Device nodes, pipes and directories change beside the program.
                let size = if mode & 0o170000 == 0o100000 { &part[48..56] } else { &[] };
                format!("{mode:o} {:?} {size:?}", &part[28..36])
            }
            ArgKind::Out(Struct::Statx) => format!("{:?}", &part[20..30]),
            ArgKind::Out(Struct::Statfs) => String::new(),
            ArgKind::InOut(Struct::CloneArgs(_)) if side == Side::Input => String::new(),
            ArgKind::In(Struct::Timespecs | Struct::Timevals | Struct::Utimbuf) => String::new(),
            ArgKind::InOut(Struct::ByCommand) if call.effect == Effect::DeviceControl => String::new(),
            // Between and behind the fields of `struct flock` lies what was on the stack.
            ArgKind::InOut(Struct::ByCommand) if part.len() == 32 => format!("{:?} {:?}", &part[..4], &part[8..24]),
            ArgKind::Text => plain(part),
            ArgKind::Strings => part.split(|b| *b == 0).map(plain).collect::<Vec<_>>().join(" "),
            _ => format!("{part:?}"),
        };
        out += &format!("[{told}]");
    }
    out
}

/// What content is; behind the path of a socket lies what was on the stack.
fn told(call: &Call, bytes: &[u8]) -> String {
    let path = bytes.iter().skip(2).position(|b| *b == 0).map_or(bytes.len(), |end| end + 2);
    let bytes = if call.effect == Effect::Message { &bytes[..path] } else { bytes };
    blake3::hash(bytes).to_hex().to_string()
}

/// One action as a line.
fn line(action: &Action, blobs: &mut BlobReader, content: bool) -> String {
    let call = by_name(&action.call).expect("a call");
    let args: Vec<u64> = (0..call.args.len().min(6)).map(|i| argument(call, action, i)).collect();
    let result = match call.returns {
        Returns::Address | Returns::Process if action.result >= 0 => 0,
        _ if matches!(call.effect, Effect::GetMetadata | Effect::StatFs) => action.result.min(0),
        _ => action.result,
    };
    let paths = [&action.path, &action.path2].map(|p| p.as_ref().map(|p| plain(p)).unwrap_or_default());
    // What moves inside the kernel is read after the run, if it is still there.
    let moved = matches!(call.effect, Effect::Copy | Effect::Splice);
    let bytes = match content && !moved && !matches!(call.effect, Effect::List) {
        true => blobs.content(&action.data).ok().flatten().map(|b| told(call, &b)),
        false => None,
    };
    format!(
        "{}({args:?}) {paths:?} = {result} {} -> {} {} bytes, {} truncated {}",
        action.call,
        structures(call, action, Side::Input),
        structures(call, action, Side::Output),
        action.data_bytes,
        if moved { 0 } else { action.truncated_bytes },
        bytes.unwrap_or_default(),
    )
}

/// The lines of every thread, by its place in the tree of threads.
fn threads(trace: &Path, content: bool) -> BTreeMap<String, Vec<String>> {
    let trace = TraceReader::open(trace).unwrap();
    let mut places: BTreeMap<u32, (String, u32)> = BTreeMap::new();
    for thread in trace.threads().unwrap() {
        let place = match thread.parent {
            Some(parent) => {
                let (above, children) = places.get_mut(&parent).expect("a parent before its child");
                *children += 1;
                format!("{above}.{children}")
            }
            None => format!("{}", places.len()),
        };
        places.insert(thread.thread, (place, 0));
    }
    let mut blobs = trace.blobs();
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for action in trace.actions() {
        let action = action.unwrap();
        let place = places[&action.thread].0.clone();
        // What a C library maps for its alignment it gives back in parts, none to two, by where it came to lie. Whether a
        // new thread needs a new stack depends on whether another one has left its own by then; whether a thread comes to give its
        // stack back, on whether the process ends first. Whether memory is mapped for an allocation depends on what is free.
        let is_memory = match &*action.call {
            "mmap" => action.args[3] & libc::MAP_STACK as u64 != 0 || action.args[3] == ALLOCATED,
            "mprotect" => action.args[1] == STACK_BYTES,
            "madvise" => action.args[1] < STACK_BYTES && action.args[2] == libc::MADV_DONTNEED as u64,
            _ => false,
        };
        // Loads through memory only the kernel tells of.
        let is_left_out = is_memory || matches!(&*action.call, "munmap" | "mmap_pread");
        if !is_left_out {
            out.entry(place).or_default().push(line(&action, &mut blobs, content));
        }
    }
    out
}

/// A program to be recorded.
struct Program {
    name: &'static str,
    needs: &'static str,
    prepare: &'static str,
    run: Cow<'static, str>,
    /// Whether content is the same from run to run.
    content: bool,
}

const PROGRAMS: [Program; 6] = [
    Program {
        name: "shell",
        needs: "sh",
        prepare: "mkdir d; echo one > d/a; ln -s a d/l; echo old > d/o",
        run: Cow::Borrowed(
            "cat d/a d/l > d/b; mv d/b d/c; ls d > /dev/null; cat missing 2> /dev/null; echo more >> d/o; rm d/a; chmod 600 d/c; cd d && mkdir -p x/y && cp c x/y/z",
        ),
        content: true,
    },
    Program {
        name: "pipeline",
        needs: "sh",
        prepare: "seq 1 200 > numbers",
        run: Cow::Borrowed(
            "sort -rn numbers | head -n 5 > top; (sleep 0.01; echo late) | cat > out; echo $(cat top) > line",
        ),
        content: true,
    },
    Program {
        name: "tar",
        needs: "tar",
        prepare: "mkdir -p in/a/b; for i in 1 2 3 4 5; do seq $i 3000 > in/a/$i; ln in/a/$i in/a/b/$i; done; touch -d 2020-01-01 in/a/*",
        run: Cow::Borrowed("tar -cf t.tar in && mkdir out && tar -C out -xf t.tar && rm -r in"),
        content: false,
    },
    Program {
        name: "sqlite3",
        needs: "sqlite3",
        prepare: "sqlite3 db 'create table t(a, b); insert into t values (1, 2)'",
        run: Cow::Borrowed(
            "sqlite3 db 'insert into t select a + 1, b from t; select sum(a) from t; create index i on t(a)' > out",
        ),
        content: false,
    },
    Program {
        name: "git",
        needs: "git",
        prepare: "git init -q r; cd r; seq 1 100 > f; mkdir d; echo x > d/y; touch -d 2020-01-01 f d/y",
        run: Cow::Borrowed(
            "cd r; git add . && git -c user.name=a -c user.email=b commit -qm one && seq 2 90 > f && touch -d 2021-01-01 f && git add f && git status > ../out",
        ),
        content: false,
    },
    Program {
        name: "python",
        needs: "python3",
        prepare: "echo 'import json,os;json.dump({\"a\":1},open(\"o.json\",\"w\"));os.rename(\"o.json\",\"p.json\");print(open(\"p.json\").read())' > p.py; python3 -c 'import json'",
        run: Cow::Borrowed("python3 p.py > out"),
        content: true,
    },
];

/// Programs of `tests/programs/corners.py`, and whether their final tree is in the trace: what went through a pipe from a
/// file that was just written is not.
const CORNERS: [(&str, bool); 29] = [
    ("xattrs", true),
    ("links", true),
    ("listing", true),
    ("sparse", true),
    ("passed", true),
    ("script", true),
    ("threads", true),
    ("leader", true),
    ("killed", true),
    ("closed", true),
    ("rooted", true),
    ("moved", true),
    ("gone", true),
    ("nameless", true),
    ("spliced", false),
    ("numbers", true),
    ("taken", true),
    ("locked", true),
    ("unwaiting", true),
    ("allocated_by_request", true),
    ("kept_over_programs", true),
    ("too_many", true),
    ("bound", true),
    ("users_apart", true),
    ("left_mapped", true),
    ("mounted", true),
    ("brought", true),
    ("sandbox", true),
    ("beneath", true),
];

fn corner(name: &'static str) -> Program {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/programs/corners.py");
    let run = format!("/usr/bin/python3 {SCRIPT} {name}");
    Program { name, needs: "python3", prepare: "true", run: run.into(), content: true }
}

fn shell(dir: &Path, line: &str, before: &[&str]) -> (Option<i32>, String) {
    let (program, rest) = before.split_first().map_or(("sh", &[][..]), |(p, r)| (*p, r));
    let mut command = Command::new(program);
    command.args(rest);
    if !before.is_empty() {
        command.arg("sh");
    }
    command.args(["-c", line]).current_dir(dir);
    let fixed = [("LANG", "C"), ("LC_ALL", "C"), ("TZ", "UTC"), ("PYTHONHASHSEED", "0"), ("HOME", "/nonexistent")];
    // Whether a thread of a C library takes an arena of its own depends on whether another one is allocating just then.
    let fixed = fixed.into_iter().chain([("MALLOC_ARENA_MAX", "1")]);
    let dates = [("GIT_AUTHOR_DATE", "1700000000 +0000"), ("GIT_COMMITTER_DATE", "1700000000 +0000")];
    command.env_clear().env("PATH", "/usr/bin:/bin").envs(fixed).envs(dates);
    let done = program::run(&mut command);
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

/// Prepares a program's directory anew and records it.
fn recorded(s: &Scratch, p: &Program, backend: &str, more: &[&str]) -> (PathBuf, PathBuf) {
    let dir = s.path().join(p.name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir(&dir).unwrap();
    assert_eq!(shell(&dir, p.prepare, &[]).0, Some(0), "{}: prepare", p.name);
    // Files of the beginning are older than the beginning.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let trace = s.path().join(format!("{}-{backend}.reprise", p.name));
    let (reprise, to) = (program::reprise().unwrap(), trace.to_str().unwrap().to_owned());
    let record = [reprise.to_str().unwrap(), "record", "--backend", backend, "-o", &to];
    let before = [&record[..], more, &["--"]].concat();
    let (code, said) = shell(&dir, &p.run, &before);
    assert_eq!(code, Some(0), "{} by {backend}: {said}", p.name);
    (trace, dir)
}

/// Where two recordings of a program differ, the first places of each thread.
fn differences(
    p: &Program,
    ours: &BTreeMap<String, Vec<String>>,
    theirs: &BTreeMap<String, Vec<String>>,
) -> Vec<String> {
    let places: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let mut out = Vec::new();
    for place in places {
        let none = Vec::new();
        let (a, b) = (ours.get(place).unwrap_or(&none), theirs.get(place).unwrap_or(&none));
        let at = a.iter().zip(b).position(|(a, b)| a != b).or((a.len() != b.len()).then(|| a.len().min(b.len())));
        if let Some(i) = at {
            let (none, before) = ("-".to_owned(), i.saturating_sub(1));
            out.push(format!(
                "{}, thread {place}, action {i}, after {}\n  ebpf   {}\n  ptrace {}",
                p.name,
                a.get(before).unwrap_or(&none),
                a.get(i).unwrap_or(&none),
                b.get(i).unwrap_or(&none)
            ));
        }
    }
    out
}

#[test]
fn both_backends_see_the_same() {
    let s = Scratch::new();
    if !in_kernel("backends", s.path()) {
        return;
    }
    let mut found = Vec::new();
    let corners: Vec<Program> = CORNERS.iter().map(|(name, _)| corner(name)).collect();
    for p in PROGRAMS.iter().chain(&corners).filter(|p| has(p.needs)) {
        let (theirs, _) = recorded(&s, p, "ptrace", &[]);
        let (ours, _) = recorded(&s, p, "ebpf", &[]);
        let ledger = TraceReader::open(&ours).unwrap().ledger().clone();
        assert_eq!(ledger.total(Loss::Dropped), 0, "{}: {ledger:?}", p.name);
        found.extend(differences(p, &threads(&ours, p.content), &threads(&theirs, p.content)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_was_recorded_in_the_kernel_replays_to_an_equal_tree() {
    let s = Scratch::new();
    if !in_kernel("backends", s.path()) {
        return;
    }
    for p in PROGRAMS.iter().filter(|p| has(p.needs)) {
        replays(&s, p, true);
    }
    for (name, whole) in CORNERS.into_iter().filter(|_| has("python3")) {
        replays(&s, &corner(name), whole);
    }
}

/// Records a program in the kernel, and replays it: without divergence, and to its own tree if that is in the trace.
fn replays(s: &Scratch, p: &Program, whole: bool) {
    let (trace, dir) = recorded(s, p, "ebpf", &["--tree", "."]);
    let target = s.path().join(format!("{}-target", p.name));
    fs::create_dir(&target).unwrap();
    let replay = run(s.path(), &["replay", "--json", "-t", target.to_str().unwrap(), trace.to_str().unwrap()]);
    replay.ends(0);
    let truncated = TraceReader::open(&trace).unwrap().ledger().total(Loss::Truncated);
    // What is not there is counted.
    let whole = whole || truncated == 0;
    let there = target.join(dir.strip_prefix("/").unwrap());
    let diff = Command::new("diff").args(["-r", "--no-dereference"]).args([&dir, &there]).output().unwrap();
    assert!(!whole || diff.status.success(), "{}: {}", p.name, String::from_utf8_lossy(&diff.stdout));
}
