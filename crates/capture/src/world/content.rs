//! Content of files that the program can see without a call that carries it.
//!
//! Goals: each range of each file read once while it does not change; holes stay holes; one piece in memory.
//! Non-goals: files that have no content of their own (`/proc`, `/sys` …).

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use reprise_calls::makes_nameless;
use reprise_trace::{Content, DataPolicy, Keep, Loss};

use super::World;
use crate::log::Log;
use crate::sys::{self, FileId, HERE, Stat};

const PIECE: u64 = 1 << 20;

/// What was observed of a file.
#[derive(Debug, Default)]
pub(super) struct Seen {
    size: u64,
    mtime_ns: i64,
    ranges: Vec<(u64, u64)>,
}

/// Opens a file to look at it, leaving its access time alone where that is permitted.
pub fn open_quietly(path: impl AsRef<std::path::Path>) -> std::io::Result<File> {
    let open = |flags| {
        OpenOptions::new().read(true).custom_flags(flags | libc::O_NONBLOCK | libc::O_NOCTTY).open(path.as_ref())
    };
    open(libc::O_NOATIME).or_else(|_| open(0))
}

/// File systems whose files are made up when they are read.
pub fn is_synthetic(filesystem: u64) -> bool {
    const KINDS: [u64; 16] = [
        0x9fa0,      // proc
        0x6265_6572, // sysfs
        0x6462_6720, // debugfs
        0x7472_6163, // tracefs
        0x7363_6673, // securityfs
        0x0027_e0eb, // cgroup
        0x6367_7270, // cgroup2
        0xcafe_4a11, // bpf
        0x1cd1,      // devpts
        0x6e73_6673, // nsfs
        0x5049_4446, // pidfs
        0x1980_0202, // mqueue
        0x6165_676c, // pstore
        0xde5e_81e4, // efivarfs
        0x6265_6570, // configfs
        0xf97c_ff8c, // selinux
    ];
    KINDS.contains(&filesystem)
}

impl World {
    /// After a successful open: the whole of a small file that was there before the program.
    pub fn opened(&mut self, tid: i32, fd: u32, flags: u64, log: &mut Log) {
        const PATH_ONLY: u64 = libc::O_PATH as u64;
        if flags & PATH_ONLY != 0 {
            return;
        }
        let path = format!("/proc/{tid}/fd/{fd}");
        let Some(stat) = stat(&path).filter(Stat::is_file) else {
            return;
        };
        let id = stat.id;
        let new = !self.seen.contains_key(&id);
        let emptied = flags & libc::O_TRUNC as u64 != 0 || makes_nameless(flags);
        if emptied || (new && stat.size == 0 && flags & libc::O_CREAT as u64 != 0) {
            self.fresh.insert(id);
        }
        if !new || self.fresh.contains(&id) || stat.size > self.whole_file_bytes {
            return;
        }
        self.observe(path.as_bytes(), &stat, (0, stat.size), "opened", log)
    }

    /// A file without a name that the program has just made.
    pub fn made(&mut self, tid: i32, fd: u32) {
        if let Some(stat) = stat(&format!("/proc/{tid}/fd/{fd}")) {
            self.fresh.insert(stat.id);
        }
    }

    /// Whether the file at this path is made up when it is read.
    pub fn is_synthetic(&mut self, path: &str) -> bool {
        self.filesystem_at(path).is_some_and(is_synthetic)
    }

    /// Whether nobody but who has it mapped can read the file at this path (`memfd_secret`).
    pub fn is_secret(&mut self, path: &str) -> bool {
        const SECRETMEM: u64 = 0x5345_434d;
        self.filesystem_at(path) == Some(SECRETMEM)
    }

    /// Type of the file system of what stands at this path.
    fn filesystem_at(&mut self, path: &str) -> Option<u64> {
        let stat = stat(path)?;
        Some(self.filesystem(&stat, std::ffi::CString::new(path).ok().as_deref()))
    }

    /// Before a range of a file becomes visible other than by reading: mapped, or cloned to another file.
    pub fn range(&mut self, tid: i32, fd: u32, offset: u64, length: u64, reason: &'static str, log: &mut Log) {
        let path = format!("/proc/{tid}/fd/{fd}");
        match stat(&path).filter(Stat::is_file) {
            Some(stat) if !self.fresh.contains(&stat.id) => {
                let end = offset.saturating_add(length).min(stat.size);
                self.observe(path.as_bytes(), &stat, (offset, end), reason, log)
            }
            _ => {}
        }
    }

    /// Writes the content of a range, unless it was written before and the file has not changed since.
    pub(super) fn observe(
        &mut self,
        path: &[u8],
        stat: &Stat,
        (start, end): (u64, u64),
        reason: &'static str,
        log: &mut Log,
    ) {
        if is_synthetic(self.filesystem(stat, std::ffi::CString::new(path).ok().as_deref())) {
            return;
        }
        let seen = self.seen.entry(stat.id).or_default();
        if (seen.size, seen.mtime_ns) != (stat.size, stat.mtime_ns) {
            seen.ranges.clear();
            (seen.size, seen.mtime_ns) = (stat.size, stat.mtime_ns);
        }
        if start >= end || seen.ranges.iter().any(|r| r.0 <= start && end <= r.1) {
            return;
        }
        seen.ranges.push((start, end));
        let file = match open_quietly(OsStr::from_bytes(path)) {
            Ok(file) => file,
            Err(e) => {
                let cause = format!("initial content of a file that was {reason}: {}", e.kind());
                log.loss(Loss::Truncated, cause, end - start);
                return;
            }
        };
        range(&file, stat.id, (start, end), reason, log)
    }
}

fn stat(path: &str) -> Option<Stat> {
    sys::stat_at(HERE, &std::ffi::CString::new(path).ok()?, 0).ok()
}

/// Writes the content of a range of a file: data in pieces, holes as such.
pub fn range(file: &File, id: FileId, (start, end): (u64, u64), reason: &str, log: &mut Log) {
    let mut at = start;
    while at < end {
        // A file system that cannot tell has data everywhere.
        let data = match sys::seek_to(file, at, libc::SEEK_DATA) {
            Ok(data) => data.unwrap_or(end).clamp(at, end),
            Err(_) => at,
        };
        if data > at {
            log.content(row(id, at, data - at, Vec::new(), true, reason));
        }
        if data == end {
            break;
        }
        let hole = match sys::seek_to(file, data, libc::SEEK_HOLE) {
            Ok(Some(hole)) if hole > data => hole.min(end),
            _ => end,
        };
        at = pieces(file, id, (data, hole), reason, log);
    }
}

fn pieces(file: &File, id: FileId, (start, end): (u64, u64), reason: &str, log: &mut Log) -> u64 {
    let mut at = start;
    let mut piece = vec![0; PIECE.min(end - start) as usize];
    while at < end {
        let mut got = PIECE.min(end - at) as usize;
        let mut blobs = Vec::new();
        if log.policy() != DataPolicy::None {
            got = read_at(file, &mut piece[..got], at);
            if got == 0 {
                let cause = format!("initial content of a file that was {reason}: unreadable");
                log.loss(Loss::Truncated, cause, end - at);
                return end;
            }
            blobs = log.blob(&piece[..got], Keep::ByPolicy);
        }
        log.content(row(id, at, got as u64, blobs, false, reason));
        at += got as u64;
    }
    end
}

/// Reads until the buffer is full, the file ends or an error comes; returns what was read.
pub fn read_at(file: &File, into: &mut [u8], offset: u64) -> usize {
    let mut got = 0;
    while got < into.len() {
        match file.read_at(&mut into[got..], offset + got as u64) {
            Ok(n @ 1..) => got += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    got
}

fn row(id: FileId, offset: u64, length: u64, data: Vec<u32>, hole: bool, reason: &str) -> Content {
    Content {
        seq: 0, // set by the log
        device: id.device,
        inode: id.inode,
        offset,
        length,
        data,
        hole: hole.into(),
        reason: reason.to_owned(),
    }
}
