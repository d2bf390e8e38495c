//! Damaged and hostile traces and plans: whatever is in the files, reading and compiling them ends with a result or a
//! typed error. Mutations are seeded; a seed that fails is printed and can be set in `REPRISE_FUZZ_SEED`.
//!
//! A checksum would stop a mutation at the door, so half of them are entered into the catalog anew: they reach the
//! decoder, the model and the compiler.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use reprise_plan::{Order, Plan, compile};
use reprise_trace::*;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    /// Numbers that break things more often than others.
    fn number(&mut self) -> u64 {
        match self.below(6) {
            0 => [0, 1, u64::MAX, i64::MAX as u64, 1 << 32, u32::MAX.into(), (-100i64) as u64][self.below(7)],
            1 => self.next(),
            _ => self.below(12) as u64,
        }
    }
}

/// How many mutations a test tries; more on request (`REPRISE_FUZZ=100000`).
fn rounds(usual: u64) -> u64 {
    std::env::var("REPRISE_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

fn seeds(usual: u64) -> Box<dyn Iterator<Item = u64>> {
    match std::env::var("REPRISE_FUZZ_SEED").ok().and_then(|s| s.parse().ok()) {
        Some(seed) => Box::new(std::iter::once(seed)),
        None => Box::new(1..=rounds(usual)),
    }
}

const NAMES: [&str; 9] = ["/", "a", "/a", "a/b", "..", "/a/../b", "/proc/self/fd/3", "", "a/"];

fn random_name(r: &mut Random) -> Name {
    Name::from(NAMES[r.below(NAMES.len())])
}

/// A trace of well-formed rows without any sense.
fn senseless(dir: &Path, r: &mut Random) {
    let manifest = Manifest::new(Kind::Record, DataPolicy::Full, vec![], "f".repeat(32), 0, Host::default());
    let mut writer = TraceWriter::create(dir, manifest, WriterOptions::default()).unwrap();
    for process in 0..2u32 {
        writer
            .process(Process {
                process,
                pid: process as i32 + 5,
                cwd: random_name(r),
                root: random_name(r),
                ..Default::default()
            })
            .unwrap();
    }
    for thread in 0..4u32 {
        let created_by = (thread > 1).then(|| r.below(30) as u64);
        let row = ThreadRow {
            thread,
            process: thread % 2,
            tid: thread as i32,
            created_by,
            shares_descriptors: r.below(2) as u32,
            shares_directories: r.below(2) as u32,
            lane_of: (r.below(3) == 0).then(|| r.below(5) as u32),
            ..Default::default()
        };
        writer.thread(row).unwrap();
    }
    for _ in 0..r.below(6) {
        let row = Descriptor {
            process: r.below(3) as u32,
            fd: r.number() as u32,
            kind: [0o100000, 0o040000, 0o010000, 0o020000][r.below(4)],
            device: r.below(2) as u64,
            inode: r.below(8) as u64,
            description: r.below(4) as u64,
            offset: r.number(),
            path: random_name(r),
            ..Default::default()
        };
        writer.descriptor(row).unwrap();
    }
    for _ in 0..r.below(6) {
        let row = Lock {
            process: r.below(3) as u32,
            fd: r.number() as u32,
            kind: r.below(5) as u32,
            exclusive: r.below(3) as u32,
            start: r.number(),
            length: r.number(),
        };
        writer.lock(row).unwrap();
    }
    for _ in 0..r.below(6) {
        let row = Mapping {
            process: r.below(3) as u32,
            address: r.number(),
            length: r.number(),
            protection: r.number() as u32,
            flags: r.below(4) as u32,
            offset: r.number(),
            device: r.below(2) as u64,
            inode: r.below(8) as u64,
            path: random_name(r),
        };
        writer.mapping(row).unwrap();
    }
    for i in 0..r.below(12) {
        let row = TreeNode {
            seq: r.below(20) as u64,
            parent_device: r.below(2) as u64,
            parent_inode: r.below(8) as u64,
            name: if i == 0 { Name::default() } else { random_name(r) },
            device: r.below(2) as u64,
            inode: r.below(8) as u64,
            mode: [0o100644, 0o040755, 0o120777, 0o010600, 0o020600][r.below(5)],
            nlink: r.number(),
            size: r.number(),
            target: random_name(r),
            xattrs: (0..r.below(20)).map(|_| r.next() as u8).collect(),
            filesystem: [0xef53, 0x9fa0][r.below(2)],
            ..Default::default()
        };
        writer.node(row).unwrap();
    }
    let blobs = writer.blob(b"/some content that is long enough for a structure of a hundred and forty-four bytes ............................................................", Keep::Always).unwrap();
    for _ in 0..r.below(5) {
        let row = Content {
            seq: r.below(20) as u64,
            device: r.below(2) as u64,
            inode: r.below(8) as u64,
            offset: r.number(),
            length: r.number(),
            data: if r.below(2) == 0 { blobs.clone() } else { vec![r.number() as u32] },
            hole: r.below(2) as u32,
            ..Default::default()
        };
        writer.content(row).unwrap();
    }
    let calls: Vec<_> = reprise_calls::all().collect();
    for seq in 0..40u64 {
        let call = calls[r.below(calls.len())];
        let action = Action {
            seq,
            thread: r.below(5).min(if r.below(50) == 0 { 4 } else { 3 }) as u32,
            call: if r.below(30) == 0 { "no_such_call".into() } else { call.name.into() },
            begin_ns: r.number(),
            duration_ns: r.number(),
            args: std::array::from_fn(|_| r.number()),
            result: r.number() as i64,
            request: (r.below(3) == 0).then(|| r.below(20) as u64),
            path: (r.below(4) > 0).then(|| random_name(r)),
            path2: (r.below(4) > 0).then(|| random_name(r)),
            input: (0..r.below(80)).map(|_| r.number() as u8).collect(),
            output: (0..r.below(200)).map(|_| r.number() as u8).collect(),
            data: if r.below(2) == 0 { blobs.clone() } else { vec![] },
            data_bytes: r.number(),
            truncated_bytes: r.number(),
            ..Default::default()
        };
        writer.action(action).unwrap();
    }
    writer.close(None).unwrap();
}

/// Reads, compiles and follows a trace; nothing of it may panic.
fn exercise(trace: &Path, scratch: &Path) {
    let Ok(trace) = TraceReader::open(trace) else { return };
    let _ = trace.check_all();
    let plan = scratch.join("plan");
    for order in [Order::root(), Order::default(), Order::Temporal] {
        if compile(&trace, &plan, order, &mut |_, _| {}).is_ok() {
            let plan = Plan::open(&plan).expect("a plan that was just compiled opens");
            assert!(plan.contents.threads.len() >= trace.threads().map_or(0, |t| t.len()));
        }
    }
}

fn survives(seed: u64, what: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(what)).is_err() {
        panic!("seed {seed}: set REPRISE_FUZZ_SEED={seed} to see it again");
    }
}

#[test]
fn senseless_rows() {
    for seed in seeds(400) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.reprise");
        senseless(&path, &mut Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
        survives(seed, || exercise(&path, dir.path()));
    }
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { files(&path, out) } else { out.push(path) }
    }
    out.sort();
}

/// Enters every part into the catalog as it is now.
fn forge(dir: &Path) {
    let text = fs::read_to_string(dir.join("catalog.jsonl")).unwrap();
    let mut chain = String::new();
    let mut out = String::new();
    for line in text.lines() {
        let mut part: Part = serde_json::from_str(line).unwrap();
        let bytes = fs::read(dir.join(&part.file)).unwrap_or_default();
        part.bytes = bytes.len() as u64;
        part.blake3 = blake3::hash(&bytes).to_hex().to_string();
        let text = serde_json::to_string(&part).unwrap();
        chain = blake3::hash(format!("{chain}{text}").as_bytes()).to_hex()[..16].to_owned();
        out += &format!("{},\"chain\":\"{chain}\"}}\n", &text[..text.len() - 1]);
    }
    fs::write(dir.join("catalog.jsonl"), out).unwrap();
}

fn mutate(bytes: &mut Vec<u8>, r: &mut Random) {
    for _ in 0..=r.below(4) {
        let at = r.below(bytes.len());
        match r.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, r.next() as u8),
            _ if bytes.is_empty() => {}
            2 => bytes[at] = r.number() as u8,
            _ => bytes[at] ^= 1 << r.below(8),
        }
    }
}

#[test]
fn mutated_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.reprise");
    senseless(&path, &mut Random(11));
    forge(&path);
    TraceReader::open(&path).unwrap().check_all().expect("a forged catalog of whole parts is right");
    let mut all = Vec::new();
    files(&path, &mut all);
    for seed in seeds(1500) {
        let r = &mut Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
        let file = &all[r.below(all.len())];
        let catalog = fs::read(path.join("catalog.jsonl")).unwrap();
        let whole = fs::read(file).unwrap();
        let mut bytes = whole.clone();
        mutate(&mut bytes, r);
        fs::write(file, &bytes).unwrap();
        if file.extension().is_some_and(|e| e == "parquet") && r.below(2) == 0 {
            forge(&path);
        }
        survives(seed, || exercise(&path, dir.path()));
        fs::write(file, &whole).unwrap();
        if !file.ends_with("catalog.jsonl") {
            fs::write(path.join("catalog.jsonl"), &catalog).unwrap();
        }
    }
}

#[test]
fn mutated_plans() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, plan) = (dir.path().join("t.reprise"), dir.path().join("plan"));
    let mut seed = 1;
    // A senseless trace that compiles.
    loop {
        senseless(&trace, &mut Random(seed * 77));
        if compile(&TraceReader::open(&trace).unwrap(), &plan, Order::default(), &mut |_, _| {}).is_ok() {
            break;
        }
        fs::remove_dir_all(&trace).unwrap();
        seed += 1;
    }
    let whole = fs::read(&plan).unwrap();
    let description = u64::from_le_bytes(std::array::from_fn(|i| whole[16 + i])) as usize;
    for seed in seeds(3000) {
        let r = &mut Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut bytes = whole.clone();
        if r.below(2) == 0 {
            mutate(&mut bytes, r);
        } else {
            // The description is mutated and the checksum made anew, so that it is believed.
            let at = description + r.below(bytes.len() - description);
            bytes[at] = r.number() as u8;
            let plan_head = bytes.clone();
            let mut hash = blake3::Hasher::new();
            if let Some(commands) = section(&plan_head) {
                hash.update(commands);
            }
            hash.update(&plan_head[description..]);
            bytes[32..64].copy_from_slice(hash.finalize().as_bytes());
        }
        fs::write(&plan, &bytes).unwrap();
        survives(seed, || drop(Plan::open(&plan)));
    }
}

/// The commands of a plan: they begin at 4096 and end where the strings begin, up to padding; good enough to forge many.
fn section(plan: &[u8]) -> Option<&[u8]> {
    let dir = tempfile::tempdir().ok()?;
    let path = dir.path().join("plan");
    fs::write(&path, plan).ok()?;
    let opened = Plan::open(&path).ok()?;
    let s = opened.contents.command_section;
    plan.get(s.offset as usize..(s.offset + s.length) as usize)
}
