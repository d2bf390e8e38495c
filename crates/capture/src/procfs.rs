//! What `/proc` tells of a process.
//!
//! Goals: parse the few facts the trace needs; what is missing or unreadable is `None` or empty. Non-goals: caching.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStringExt;

use reprise_calls::Credentials;
use reprise_trace::Name;

use crate::gate::Doing;
use reprise_calls::locking::{HeldLock, LockKind};

/// The facts of `/proc/TID/status`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Status {
    /// Thread group: the process.
    pub process: i32,
    /// Users.
    pub uids: Vec<u32>,
    /// Groups.
    pub gids: Vec<u32>,
    /// Further groups.
    pub groups: Vec<u32>,
    /// File mode creation mask.
    pub umask: u32,
    /// Whether no program executed can gain privileges.
    pub no_new_privileges: bool,
}

impl Status {
    /// Whom it runs as, if that could be read.
    pub fn credentials(&self) -> Option<Credentials> {
        Some(Credentials { users: *self.uids.first_chunk()?, groups: *self.gids.first_chunk()? })
    }
}

/// Reads the status of a thread.
pub fn status(tid: i32) -> Status {
    let text = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let fields: HashMap<&str, &str> =
        text.lines().filter_map(|l| l.split_once(':')).map(|(key, value)| (key, value.trim())).collect();
    let field = |key| fields.get(key).copied().unwrap_or("");
    let numbers = |key| -> Vec<u32> {
        let words = field(key).split_whitespace();
        words.filter_map(|n| n.parse().ok()).collect()
    };
    Status {
        process: field("Tgid").parse().unwrap_or(tid),
        uids: numbers("Uid"),
        gids: numbers("Gid"),
        groups: numbers("Groups"),
        umask: u32::from_str_radix(field("Umask"), 8).unwrap_or(0o022),
        no_new_privileges: field("NoNewPrivs") == "1",
    }
}

/// The process that traces a thread, if one does.
pub fn tracer(tid: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let pid = text.lines().find_map(|l| l.strip_prefix("TracerPid:"))?.trim().parse().ok()?;
    (pid != 0).then_some(pid)
}

/// Position and flags of a descriptor.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FdInfo {
    /// Offset in bytes.
    pub position: u64,
    /// Flags as `F_GETFL` says, with `O_CLOEXEC`.
    pub flags: u64,
    /// Locks that were taken by it.
    pub locks: Vec<HeldLock>,
}

/// Reads what is known of a descriptor.
pub fn fd_info(tid: i32, fd: u64) -> Option<FdInfo> {
    let text = fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).ok()?;
    let field = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)).map(str::trim);
    Some(FdInfo {
        position: field("pos:")?.parse().ok()?,
        flags: u64::from_str_radix(field("flags:")?, 8).ok()?,
        locks: text.lines().filter_map(|line| lock(line.strip_prefix("lock:")?)).collect(),
    })
}

/// `1: POSIX  ADVISORY  WRITE 4711 08:01:131 0 EOF` (fs/locks.c, `lock_get_status`).
fn lock(text: &str) -> Option<HeldLock> {
    let mut words = text.split_whitespace().skip(1);
    let kind = match words.next()? {
        "POSIX" => LockKind::Process,
        "OFDLCK" => LockKind::Range,
        "FLOCK" => LockKind::Whole,
        _ => return None,
    };
    let exclusive = match words.nth(1)? {
        "READ" => false,
        "WRITE" => true,
        _ => return None,
    };
    let (begin, last) = (words.nth(2)?.parse().ok()?, words.next()?);
    let end = if last == "EOF" { HeldLock::END } else { last.parse::<u64>().ok()?.saturating_add(1) };
    Some(HeldLock { kind, exclusive, begin, end })
}

/// Text of a link such as `/proc/TID/cwd`.
pub fn link(tid: i32, what: &str) -> Name {
    fs::read_link(format!("/proc/{tid}/{what}")).map(|p| Name(p.into_os_string().into_vec())).unwrap_or_default()
}

/// The files that are registered with a ring of io_uring, if the kernel tells of them now (`io_uring/fdinfo.c`).
#[cfg(ebpf)]
pub fn registered(pid: i32, ring: u32) -> Option<Vec<Name>> {
    let text = fs::read(format!("/proc/{pid}/fdinfo/{ring}")).ok()?;
    let mut lines = text.split(|byte| *byte == b'\n').skip_while(|line| !line.starts_with(b"UserFiles:"));
    lines.next()?;
    let file = |line: &[u8]| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        line[..colon]
            .trim_ascii()
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| Name(unescaped(line[colon + 1..].trim_ascii_start())))
    };
    Some(lines.map_while(file).collect())
}

/// A path, in which blanks, newlines and backslashes stand as three octal digits.
pub fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        let octal = tail.first_chunk::<3>().filter(|_| *byte == b'\\');
        let code = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        out.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    out
}

/// Name of a thread.
pub fn name(tid: i32) -> Name {
    let mut name = fs::read(format!("/proc/{tid}/comm")).unwrap_or_default();
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    Name(name)
}

/// Numbers of the open descriptors, ascending.
pub fn descriptors(pid: i32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let mut numbers: Vec<u32> = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// What a thread in the kernel does.
pub fn doing(tid: i32) -> Doing {
    match stat_field(tid, 0).as_deref() {
        Some("R") => Doing::Running,
        Some("t") => Doing::Stopped,
        Some("S") => Doing::Sleeping,
        _ => Doing::Other,
    }
}

/// Whether a thread is on its way: running, or at a stop that it has not reported yet.
pub fn is_moving(tid: i32) -> bool {
    matches!(doing(tid), Doing::Running | Doing::Stopped)
}

/// Whether a thread is ending, by its own wish or by a signal, or has ended and not been reported yet.
pub fn is_exiting(tid: i32) -> bool {
    const PF_EXITING: u64 = 4;
    let flags = stat_field(tid, 6).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    flags & PF_EXITING != 0
}

/// Whether a process is a thread of the kernel.
pub fn is_of_kernel(pid: i32) -> bool {
    const PF_KTHREAD: u64 = 0x20_0000;
    stat_field(pid, 6).and_then(|f| f.parse::<u64>().ok()).is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// A field of `/proc/TID/stat`, counted from the state on.
fn stat_field(tid: i32, n: usize) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(n).map(str::to_owned)
}
