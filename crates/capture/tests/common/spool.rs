//! A reader of spools for tests and the dumper: simple, whole in memory, strict about every number.

#![allow(dead_code)] // each user uses a part

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use reprise_capture::spool::layout::{
    OBJECT_AGAIN, OBJECT_ARG, OBJECT_RESULT, RANGE_LACKING, RANGE_SAID, RANGE_STEADY, RANGE_UNWANTED, SEGMENT_BYTES,
    SEGMENT_MAGIC, WHEN_ENTRY, kind,
};

/// Numbers from the front of bytes.
pub struct Words<'a>(pub &'a [u8]);

impl<'a> Words<'a> {
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at_checked(n).expect("a record ends too early");
        self.0 = tail;
        head
    }
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }
    pub fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take(2).try_into().unwrap())
    }
}

#[derive(Debug, Clone)]
pub struct Range {
    pub address: u64,
    pub length: u32,
    pub entry: bool,
    pub flags: u16,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
pub struct Object {
    pub id: u64,
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub position: i64,
    pub mode: u32,
    pub flags: u32,
    pub fd: i32,
    pub links: u32,
}

#[derive(Debug, Clone)]
pub struct Record {
    pub cpu: u32,
    pub number: u64,
    pub kind: u16,
    pub flags: u16,
    pub time_ns: u64,
    pub tid: u32,
    pub pid: u32,
    pub body: Body,
}

#[derive(Debug, Clone)]
pub enum Body {
    Call(Call),
    Enter(Call),
    More {
        call: u64,
        range: Range,
    },
    Task {
        parent_tid: u32,
        parent_pid: u32,
        clone_flags: u64,
        uids: [u32; 4],
        gids: [u32; 4],
        umask: u32,
        comm: String,
        open: Vec<u64>,
    },
    Exec {
        old_tid: u32,
        comm: String,
    },
    End {
        exit_code: i32,
        last: bool,
    },
    /// Of rings and their requests, or of mapped pages: not taken apart.
    Other(Vec<u8>),
}

/// CALL, BRIEF and ENTER.
#[derive(Debug, Clone, Default)]
pub struct Call {
    pub begin_ns: u64,
    pub call: u64,
    pub cpu_ns: u64,
    pub result: i64,
    pub args: [u64; 6],
    pub nr: u32,
    pub more: u32,
    pub lacking: u32,
    pub objects: Vec<Object>,
    pub ranges: Vec<Range>,
}

/// All of a spool, by CPU and number, and what is wrong with it.
#[derive(Default)]
pub struct Spool {
    pub records: Vec<Record>,
    pub dropped: u64,
    pub faults: Vec<String>,
}

fn range(words: &mut Words, directory: &Path) -> Range {
    let (address, length, kept) = (words.u64(), words.u32(), words.u32());
    let (when, flags) = (words.u16(), words.u16());
    let lead = words.u32() as usize;
    assert!(lead < 64 && lead.is_multiple_of(8), "content {lead} bytes behind its head");
    let bytes = content(words, kept, flags, lead, directory);
    Range { address, length, entry: when == WHEN_ENTRY, flags: flags & !RANGE_SAID, bytes }
}

/// How a range is kept, and not what.
const WAYS: u16 = RANGE_SAID | RANGE_STEADY;

/// A range of a call in brief.
fn brief_range(words: &mut Words, args: &[u64; 6], directory: &Path) -> Range {
    let (length, flags, argument, lead) = (words.u32(), words.u16(), words.u8(), words.u8());
    let kept = if flags & RANGE_UNWANTED != 0 { 0 } else { length };
    let bytes = content(words, kept, flags, lead.into(), directory);
    Range { address: args[usize::from(argument)], length, entry: false, flags: flags & !WAYS, bytes }
}

fn content(words: &mut Words, kept: u32, flags: u16, lead: usize, directory: &Path) -> Vec<u8> {
    words.take(lead);
    if flags & RANGE_SAID != 0 {
        let word = words.u64();
        let mut bytes = vec![0; kept as usize];
        let file =
            File::open(directory.join(format!("{:03}.seg", word >> 32))).expect("what was said stands in a file");
        file.read_exact_at(&mut bytes, word & 0xffff_ffff).expect("what was said is there");
        return bytes;
    }
    let bytes = words.take(kept as usize).to_vec();
    words.take(kept.next_multiple_of(8) as usize - kept as usize);
    bytes
}

fn object(words: &mut Words) -> Object {
    let mut out =
        Object { id: words.u64(), device: words.u64(), inode: words.u64(), size: words.u64(), ..Object::default() };
    out.position = words.u64() as i64;
    words.u32();
    out.mode = words.u32();
    out.flags = words.u32();
    out.fd = words.u32() as i32;
    (out.links, _) = (words.u32(), words.u32());
    out
}

fn call(words: &mut Words, of: u16, directory: &Path) -> Call {
    let mut out = Call { begin_ns: words.u64(), call: words.u64(), cpu_ns: words.u64(), ..Call::default() };
    if of == kind::CALL {
        out.result = words.u64() as i64;
    }
    out.args = std::array::from_fn(|_| words.u64());
    out.nr = words.u32();
    let (ranges, objects) = (words.u16(), words.u16());
    out.more = words.u32();
    out.lacking = words.u32();
    out.objects = (0..objects).map(|_| object(words)).collect();
    out.ranges = (0..ranges).map(|_| range(words, directory)).collect();
    out
}

/// `told`: the open files that its segment has told of in full.
fn brief(words: &mut Words, end_ns: u64, told: &mut Vec<Object>, directory: &Path) -> Call {
    let mut out = Call { cpu_ns: words.u64(), ..Call::default() };
    out.begin_ns = end_ns - u64::from(words.u32());
    out.call = words.u32().into();
    out.result = i64::from(words.u32() as i32);
    out.nr = words.u16().into();
    let (arguments, named) = (words.u8(), words.u8());
    if named & OBJECT_AGAIN != 0 {
        let (which, moved) = (words.u32() as usize, words.u32());
        let mut seen = told[which].clone();
        if moved == 1 {
            (seen.size, seen.position) = (words.u64(), words.u64() as i64);
        }
        out.objects.push(seen);
    } else if named != 0 {
        let mut seen = Object { id: words.u64(), inode: words.u64(), size: words.u64(), ..Object::default() };
        (seen.position, seen.device) = (words.u64() as i64, words.u32().into());
        (seen.flags, seen.links) = (words.u32(), words.u32());
        words.take(8);
        (seen.mode, _) = (words.u16().into(), words.u16());
        told.push(seen.clone());
        out.objects.push(seen);
    }
    (0..arguments).for_each(|at| out.args[usize::from(at)] = words.u64());
    for seen in &mut out.objects {
        let source = named & !OBJECT_AGAIN;
        let is_argument = source != OBJECT_RESULT;
        seen.fd = if is_argument { out.args[usize::from(source - OBJECT_ARG)] } else { out.result as u64 } as i32;
    }
    if !words.0.is_empty() {
        out.ranges.push(brief_range(words, &out.args, directory));
    }
    out
}

fn comm(words: &mut Words) -> String {
    String::from_utf8_lossy(words.take(16).split(|b| *b == 0).next().unwrap_or_default()).into_owned()
}

fn record(cpu: u32, bytes: &[u8], told: &mut Vec<Object>, directory: &Path) -> Record {
    let mut w = Words(bytes);
    w.u32();
    let (of, flags) = (w.u16(), w.u16());
    let (number, time_ns) = (w.u64(), w.u64());
    let (tid, pid) = (w.u32(), w.u32());
    let body = match of {
        kind::CALL => Body::Call(call(&mut w, of, directory)),
        kind::BRIEF => Body::Call(brief(&mut w, time_ns, told, directory)),
        kind::ENTER => Body::Enter(call(&mut w, of, directory)),
        kind::MORE => Body::More { call: w.u64(), range: range(&mut w, directory) },
        kind::TASK => {
            let (parent_tid, parent_pid, clone_flags) = (w.u32(), w.u32(), w.u64());
            let uids = std::array::from_fn(|_| w.u32());
            let gids = std::array::from_fn(|_| w.u32());
            let (umask, words) = (w.u32(), w.u32());
            let comm = comm(&mut w);
            let open: [u64; 4] = std::array::from_fn(|_| w.u64());
            let open = open[..words as usize].to_vec();
            Body::Task { parent_tid, parent_pid, clone_flags, uids, gids, umask, comm, open }
        }
        kind::EXEC => {
            let old_tid = w.u32();
            w.take(36);
            Body::Exec { old_tid, comm: comm(&mut w) }
        }
        kind::END => Body::End { exit_code: w.u32() as i32, last: w.u32() == 1 },
        kind::RING | kind::REQUEST | kind::COMPLETION | kind::MAPPED | kind::LOADED => {
            Body::Other(w.take(w.0.len()).to_vec())
        }
        other => panic!("a record of kind {other}"),
    };
    assert!(w.0.is_empty(), "{} bytes behind a record of kind {of}", w.0.len());
    Record { cpu, number, kind: of, flags, time_ns, tid, pid, body }
}

/// Reads `DIR/spool`.
pub fn read(trace: &Path) -> Spool {
    let mut segments: BTreeMap<(u32, u64), Vec<u8>> = BTreeMap::new();
    let mut spool = Spool::default();
    let entries = fs::read_dir(trace.join("spool")).expect("a spool").flatten();
    for path in entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "seg")) {
        let bytes = fs::read(&path).expect("a spool file");
        assert_eq!(bytes.len() % SEGMENT_BYTES, 0, "{path:?} is no whole number of segments");
        for segment in bytes.chunks(SEGMENT_BYTES) {
            let mut w = Words(segment);
            if w.u64() != SEGMENT_MAGIC {
                continue;
            }
            let (cpu, used) = (w.u32(), w.u32());
            let number = w.u64();
            if segments.insert((cpu, number), segment[..used as usize].to_vec()).is_some() {
                spool.faults.push(format!("segment {number} of CPU {cpu} stands twice"));
            }
        }
    }
    let mut next: HashMap<u32, (u64, u64)> = HashMap::new(); // CPU: next segment, next record
    let mut dropped: HashMap<u32, u64> = HashMap::new();
    for ((cpu, number), segment) in &segments {
        let mut w = Words(&segment[24..]);
        let (first, lost) = (w.u64(), w.u64());
        dropped.insert(*cpu, lost);
        let (segment_due, mut due) = next.get(cpu).copied().unwrap_or_default();
        if *number != segment_due {
            spool.faults.push(format!("CPU {cpu}: segment {number} where {segment_due} is due"));
        }
        if first != due {
            spool.faults.push(format!("CPU {cpu}: segment {number} begins with {first}, {due} is due"));
            due = first;
        }
        let mut rest = &segment[64..];
        let mut told = Vec::new();
        while !rest.is_empty() {
            let bytes = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
            assert!(bytes >= 32 && bytes.is_multiple_of(8), "a record of {bytes} bytes");
            let (one, behind) = rest.split_at(bytes);
            let one = record(*cpu, one, &mut told, &trace.join("spool"));
            if one.number != due {
                spool.faults.push(format!("CPU {cpu}: record {} where {due} is due", one.number));
            }
            due = one.number + 1;
            spool.records.push(one);
            rest = behind;
        }
        next.insert(*cpu, (number + 1, due));
    }
    spool.dropped = dropped.values().sum();
    spool.check_more();
    spool
}

impl Spool {
    /// Every record of a call has the MORE records that it says.
    fn check_more(&mut self) {
        let mut more: HashMap<(u32, u64, bool), u32> = HashMap::new();
        for record in &self.records {
            if let Body::More { call, range } = &record.body {
                *more.entry((record.tid, *call, range.entry)).or_default() += 1;
            }
        }
        for record in &self.records {
            let (call, entry) = match &record.body {
                Body::Call(call) => (call, false),
                Body::Enter(call) => (call, true),
                _ => continue,
            };
            let there = more.remove(&(record.tid, call.call, entry)).unwrap_or(0);
            if there != call.more {
                self.faults
                    .push(format!("call {} of {}: {there} of {} MORE records", call.call, record.tid, call.more));
            }
        }
    }

    /// The calls of one number.
    pub fn calls(&self, nr: i64) -> impl Iterator<Item = (&Record, &Call)> {
        self.records.iter().filter_map(move |r| match &r.body {
            Body::Call(call) if i64::from(call.nr) == nr => Some((r, call)),
            _ => None,
        })
    }

    /// All ranges of a call by address, joined where they follow each other in the order of the call.
    pub fn memory(&self, record: &Record, call: &Call) -> Vec<(u64, Vec<u8>)> {
        let more = self.records.iter().filter_map(|r| match &r.body {
            Body::More { call: of, range } if *of == call.call && r.tid == record.tid => Some(range),
            _ => None,
        });
        let mut out: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut all: Vec<&Range> = call.ranges.iter().chain(more).collect();
        all.sort_by_key(|r| r.address);
        for range in all {
            match out.last_mut() {
                Some((start, bytes)) if *start + bytes.len() as u64 == range.address => bytes.extend(&range.bytes),
                _ => out.push((range.address, range.bytes.clone())),
            }
        }
        out
    }

    /// Bytes of a call's memory.
    pub fn content(&self, record: &Record, call: &Call, address: u64, length: u64) -> Vec<u8> {
        for (start, bytes) in self.memory(record, call) {
            if (start..=start + bytes.len() as u64).contains(&address) {
                let from = (address - start) as usize;
                return bytes[from..bytes.len().min(from + length as usize)].to_vec();
            }
        }
        Vec::new()
    }

    /// Ranges that could not be read.
    pub fn lacking(&self) -> usize {
        let of = |r: &&Range| r.flags & RANGE_LACKING != 0;
        self.records
            .iter()
            .map(|r| match &r.body {
                Body::Call(c) | Body::Enter(c) => c.ranges.iter().filter(of).count(),
                Body::More { range, .. } => usize::from(of(&range)),
                _ => 0,
            })
            .sum()
    }
}
