//! Writes spools as the programs in the kernel do.

#![allow(dead_code)] // each user uses a part

use std::fs;
use std::path::{Path, PathBuf};

use reprise_trace::{DataPolicy, Host, Kind, Manifest};

const SEGMENT: usize = 1 << 20;
const RECORD_HEAD: usize = 32;

/// When the recordings here begin, on the clock of the records and on the wall.
pub const BEGAN: u64 = 1_000_000_000;

/// What one processor writes.
#[derive(Default)]
struct Cpu {
    segments: Vec<Vec<u8>>,
    records: u64,
}

/// A spool that is being written.
#[derive(Default)]
pub struct Spool {
    cpus: Vec<Cpu>,
}

/// A call to be written.
#[derive(Default, Clone)]
pub struct Call {
    pub tid: i32,
    pub pid: i32,
    pub begin: u64,
    pub end: u64,
    pub call: u64,
    pub nr: u32,
    pub args: [u64; 6],
    pub result: i64,
    pub more: u32,
    /// Address, bytes, whether at exit.
    pub ranges: Vec<(u64, Vec<u8>, bool)>,
    /// Descriptor, type and mode, inode, position.
    pub objects: Vec<(i32, u32, u64, i64)>,
}

pub fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

pub fn halves(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn range(address: u64, bytes: &[u8], at_exit: bool) -> Vec<u8> {
    let mut out = words(&[address]);
    out.extend(halves(&[bytes.len() as u32, bytes.len() as u32, at_exit.into(), 0]));
    out.extend(bytes);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

impl Spool {
    pub fn record(&mut self, cpu: usize, kind: u16, time: u64, (tid, pid): (i32, i32), body: &[u8]) {
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, Cpu::default);
        }
        let bytes = RECORD_HEAD + body.len();
        let number = self.cpus[cpu].segments.len() as u64;
        let c = &mut self.cpus[cpu];
        if c.segments.last().is_none_or(|s| s.len() + bytes > SEGMENT) {
            let mut head = b"RPRSSEG1".to_vec();
            head.extend(halves(&[cpu as u32, 0]));
            head.extend(words(&[number, c.records, 0, 0, 0, 0]));
            c.segments.push(head);
        }
        let segment = c.segments.last_mut().unwrap();
        segment.extend(halves(&[bytes as u32, kind.into()]));
        segment.extend(words(&[c.records, BEGAN + time]));
        segment.extend(halves(&[tid as u32, pid as u32]));
        segment.extend(body);
        c.records += 1;
        let used = segment.len() as u32;
        segment[12..16].copy_from_slice(&used.to_le_bytes());
    }

    pub fn call(&mut self, cpu: usize, c: &Call) {
        let mut body = words(&[BEGAN + c.begin, c.call, 0, c.result as u64]);
        body.extend(words(&c.args));
        // How many ranges and objects follow, the objects first.
        let counts = c.ranges.len() as u32 | (c.objects.len() as u32) << 16;
        body.extend(halves(&[c.nr, counts, c.more, 0]));
        for (fd, mode, inode, position) in &c.objects {
            body.extend(words(&[77 + inode, 5, *inode, 100, *position as u64]));
            body.extend(halves(&[0, *mode, 0, *fd as u32, 1, 0]));
        }
        c.ranges.iter().for_each(|(address, bytes, exit)| body.extend(range(*address, bytes, *exit)));
        self.record(cpu, 1, c.end, (c.tid, c.pid), &body);
    }

    pub fn more(&mut self, cpu: usize, time: u64, c: &Call, address: u64, bytes: &[u8]) {
        let mut body = words(&[c.call]);
        body.extend(range(address, bytes, true));
        self.record(cpu, 2, time, (c.tid, c.pid), &body);
    }

    pub fn enter(&mut self, cpu: usize, c: &Call) {
        let mut body = words(&[BEGAN + c.begin, c.call, 0]);
        body.extend(words(&c.args));
        body.extend(halves(&[c.nr, c.ranges.len() as u32, 0, 0]));
        c.ranges.iter().for_each(|(address, bytes, exit)| body.extend(range(*address, bytes, *exit)));
        self.record(cpu, 3, c.begin, (c.tid, c.pid), &body);
    }

    pub fn task(&mut self, cpu: usize, time: u64, child: (i32, i32), parent: (i32, i32), flags: u64) {
        let mut body = halves(&[parent.0 as u32, parent.1 as u32]);
        body.extend(words(&[flags]));
        body.extend(halves(&[0, 0, 0, 0, 0, 0, 0, 0, 0o22, 0]));
        body.extend(b"child\0\0\0\0\0\0\0\0\0\0\0");
        self.record(cpu, 4, time, child, &body);
    }

    pub fn end(&mut self, cpu: usize, time: u64, (tid, pid): (i32, i32), status: i32, last: bool) {
        self.record(cpu, 6, time, (tid, pid), &halves(&[status as u32, last.into()]));
    }

    /// All segments, those of the processors in turn.
    pub fn bytes(&self) -> Vec<u8> {
        let most = self.cpus.iter().map(|c| c.segments.len()).max().unwrap_or(0);
        let mut out = Vec::new();
        for i in 0..most {
            for segment in self.cpus.iter().filter_map(|c| c.segments.get(i)) {
                out.extend(segment);
                out.resize(out.len().next_multiple_of(SEGMENT), 0);
            }
        }
        out
    }
}

/// A trace whose recorder is gone: its directory with this spool.
pub fn lay_down(dir: &Path, spool: &[u8]) -> PathBuf {
    let trace = dir.join("t.reprise");
    let place = trace.join("spool");
    fs::create_dir_all(&place).unwrap();
    let manifest =
        Manifest::new(Kind::Record, DataPolicy::Full, vec!["x".into()], "f".repeat(32), BEGAN, Host::default());
    let begin = serde_json::json!({
        "version": 1,
        "manifest": manifest,
        "monotonic_ns": BEGAN,
        "trace": trace,
        "whole_file_bytes": 1 << 20,
        "libraries": false,
        "cpu": false,
        "processes": [{
            "pid": 10, "threads": [[10, "x"]], "uids": [0, 0, 0, 0], "gids": [0, 0, 0, 0], "groups": [], "umask": 18,
            "cwd": "/nowhere/w", "root": "/", "executable": "/bin/x",
            "descriptors": [
                {"fd": 0, "path": "/dev/null", "mode": 0o020666, "flags": 0, "position": 0, "device": 5, "inode": 4, "description": 0},
                {"fd": 1, "path": "pipe:[7]", "mode": 0o010600, "flags": 1, "position": 0, "device": 9, "inode": 7, "description": 1},
            ],
        }],
    });
    fs::write(place.join("begin.json"), serde_json::to_vec(&begin).unwrap()).unwrap();
    reprise_capture::spool::mark::write(&place, u64::MAX).unwrap();
    fs::write(place.join("000000.spool"), spool).unwrap();
    trace
}
