//! The tables: one row type each. `docs/FORMAT.md` explains every column; a test keeps the two equal.

use std::borrow::Cow;

use bytes::Bytes;
use reprise_calls::locking::{HeldLock, LockKind};

use crate::name::Name;
use crate::table::table;

/// The name of a call: where the table of calls has it, that is where it stands.
pub type CallName = Cow<'static, str>;

table! {
    /// One traced call with result and times.
    Action "actions" key(|a| a.seq) weight(|a| a.input.len() + a.output.len() + a.path.as_ref().map_or(0, |p| p.len()) + 4 * a.data.len()) {
        /// Position in the order of effects, ascending without gaps from 0. Of two actions the one with the smaller number took effect first, as far as the recorder could tell.
        seq: u64,
        /// Thread that issued it: `threads.thread`.
        thread: u32,
        /// Name of the call, as in the man pages.
        call: CallName,
        /// Entry, nanoseconds since the trace began.
        begin_ns: u64,
        /// Response time in nanoseconds: exit minus entry.
        duration_ns: u64,
        /// Arguments as passed in registers; pointers are numbers only.
        args: [u64; 6],
        /// Result as the kernel returned it: negative is an error number negated.
        result: i64,
        /// Name of the error (`ENOENT`), if it failed.
        errno: Option<String>,
        /// First path argument, as passed.
        path: Option<Name>,
        /// Second path argument, as passed.
        path2: Option<Name>,
        /// Structures and strings passed in, in argument order (see "Inputs and outputs").
        input: Vec<u8>,
        /// Structures filled by the call, in argument order.
        output: Vec<u8>,
        /// Content moved: blobs that follow each other.
        data: Vec<u32>,
        /// Bytes of content moved, whether kept or not.
        data_bytes: u64,
        /// Bytes of content that should be in `data` and are not.
        truncated_bytes: u64,
        /// In a replay's trace: the action of the original that this is the replay of.
        origin: Option<u64>,
        /// In a replay's trace: what was done (`issued`, `simulated`, `skipped`, `unsupported`).
        handling: Option<String>,
        /// In a replay's trace: why it counts as diverged, or as differing unavoidably (`unavoidable: …`). In a recording: [`AMID`], or nothing.
        difference: Option<String>,
        /// Processor time of the thread between the completion of its previous action and the entry of this one, in nanoseconds.
        cpu_ns: Option<u64>,
        /// In a replay's trace: how long the thread was blocked for dependencies of this action, in nanoseconds.
        waited_ns: Option<u64>,
        /// In a replay's trace: the ordering rule that it was blocked for longest.
        waited_for: Option<String>,
        /// In a replay's trace: how long the thread waited for the action's pace, in nanoseconds.
        paced_ns: Option<u64>,
        /// In a replay's trace: instant of issue minus the instant that the pace asked for, in nanoseconds.
        issue_error_ns: Option<i64>,
        /// In a replay's trace: why it may be late (`behind`, `disturbed`); absent if it waited for that instant undisturbed, or has no pace.
        punctuality: Option<String>,
        /// Of an asynchronous request: its number in this trace, ascending in the order of submission.
        request: Option<u64>,
    }
}

/// `actions.difference` of a recorded call that saw another one half done: no order of the two tells what it saw.
pub const AMID: &str = "unavoidable: it saw another call half done";

impl Action {
    /// Whether it saw another call half done.
    pub fn is_amid(&self) -> bool {
        self.difference.as_deref() == Some(AMID)
    }

    /// Exit, nanoseconds since the trace began; a damaged trace's does not overflow.
    pub fn end_ns(&self) -> u64 {
        self.begin_ns.saturating_add(self.duration_ns)
    }

    /// Columns that say nothing of what the program did: the error's name, and what only a replay's trace has.
    pub const BESIDE_THE_CALL: &[&str] = &[
        "errno",
        "origin",
        "handling",
        "difference",
        "waited_ns",
        "waited_for",
        "paced_ns",
        "issue_error_ns",
        "punctuality",
    ];
}

table! {
    /// A thread.
    ThreadRow "threads" key(|t| t.thread.into()) weight(|t| t.name.len()) {
        /// Number of the thread in this trace, ascending from 0; kernel numbers are reused, these are not.
        thread: u32,
        /// Process it belongs to: `processes.process`.
        process: u32,
        /// Kernel's thread number.
        tid: i32,
        /// Thread that made it, if that was recorded.
        parent: Option<u32>,
        /// The action that made it: `actions.seq` of a clone, fork or vfork.
        created_by: Option<u64>,
        /// 1 if it shares its descriptor table with `parent`.
        shares_descriptors: u32,
        /// 1 if it shares working directory, root and umask with `parent`.
        shares_directories: u32,
        /// When it was first seen, nanoseconds since the trace began.
        begin_ns: u64,
        /// Its name when first seen.
        name: Name,
        /// Set for a lane, which performs asynchronous requests: the thread that submits them.
        lane_of: Option<u32>,
    }
}

table! {
    /// A process.
    Process "processes" key(|p| p.process.into()) weight(|p| p.cwd.len() + p.root.len() + p.executable.len()) {
        /// Number of the process in this trace, ascending from 0.
        process: u32,
        /// Kernel's process number.
        pid: i32,
        /// Process that made it, if that was recorded.
        parent: Option<u32>,
        /// Real, effective, saved and file-system user, as it began.
        uids: Vec<u32>,
        /// Real, effective, saved and file-system group, as it began.
        gids: Vec<u32>,
        /// Further groups, as it began.
        groups: Vec<u32>,
        /// File mode creation mask as it began.
        umask: u32,
        /// Working directory as it began.
        cwd: Name,
        /// Root directory as it began.
        root: Name,
        /// Program as it began.
        executable: Name,
        /// Of one that was there before the trace began: an earlier process whose working directory, root and umask it shares.
        directories_of: Option<u32>,
        /// Of one that was there before the trace began: an earlier process whose descriptor table it shares.
        descriptors_of: Option<u32>,
    }
}

impl Process {
    /// Processes that it shares with.
    pub fn shares_with(&self) -> impl Iterator<Item = u32> + use<> {
        [self.directories_of, self.descriptors_of].into_iter().flatten()
    }

    /// What it shares it shares with earlier ones.
    pub(crate) fn shares_with_earlier(&self) -> bool {
        self.shares_with().all(|of| of < self.process)
    }
}

table! {
    /// A descriptor that existed before the trace began.
    Descriptor "descriptors" key(|d| d.process.into()) weight(|d| d.path.len()) {
        /// Process that holds it.
        process: u32,
        /// Its number.
        fd: u32,
        /// What it names, as `/proc/PID/fd` says: a path, `pipe:[…]`, `socket:[…]`, `anon_inode:…`.
        path: Name,
        /// Type, as `st_mode & S_IFMT`.
        kind: u32,
        /// Flags as `fcntl(F_GETFL)` says, with `O_CLOEXEC` if it is set.
        flags: u64,
        /// Offset in bytes.
        offset: u64,
        /// Device of the open file.
        device: u64,
        /// Inode of the open file.
        inode: u64,
        /// Descriptors with the same number share one open file description.
        description: u64,
        /// Of a file in memory (`memfd_create`): its seals, as `fcntl(F_GET_SEALS)` says.
        seals: Option<u32>,
    }
}

table! {
    /// A lock on a file that was held before the trace began.
    Lock "locks" key(|l| l.process.into()) weight(|_| 0) {
        /// Process that holds it, or the open file that holds it.
        process: u32,
        /// The descriptor by which it was taken.
        fd: u32,
        /// Whose it is: 1 the process's (`F_SETLK`), 2 the open file's (`F_OFD_SETLK`), 3 the open file's, of all the file (`flock`).
        kind: u32,
        /// 1: beside no other; 0: beside others that are shared, too.
        exclusive: u32,
        /// The first byte.
        start: u64,
        /// Bytes; 0: to the end of the file, wherever that comes to be.
        length: u64,
    }
}

impl Lock {
    /// A lock that was taken by a descriptor of a process.
    pub fn of(process: u32, fd: u32, held: &HeldLock) -> Lock {
        let length = if held.end == HeldLock::END { 0 } else { held.end.saturating_sub(held.begin) };
        Lock { process, fd, kind: held.kind as u32, exclusive: held.exclusive.into(), start: held.begin, length }
    }

    /// The lock, if there can be such a one.
    pub fn held(&self) -> Option<HeldLock> {
        let kind = LockKind::from_number(self.kind)?;
        let end =
            if self.length == 0 { HeldLock::END } else { self.start.saturating_add(self.length).min(HeldLock::END) };
        (self.start < end).then_some(HeldLock { kind, exclusive: self.exclusive != 0, begin: self.start, end })
    }
}

table! {
    /// A mapping of a file that existed before the trace began.
    Mapping "mappings" key(|m| m.process.into()) weight(|m| m.path.len()) {
        /// Process that holds it.
        process: u32,
        /// Its first address.
        address: u64,
        /// Its length in bytes.
        length: u64,
        /// As `mmap` is given it: `PROT_READ`, `PROT_WRITE`, `PROT_EXEC`.
        protection: u32,
        /// `MAP_SHARED` or `MAP_PRIVATE`.
        flags: u32,
        /// Where in the file it begins, in bytes.
        offset: u64,
        /// Device of the file.
        device: u64,
        /// Inode of the file.
        inode: u64,
        /// The file's path when the trace began.
        path: Name,
    }
}

table! {
    /// A name of the initial tree, as it was when the program first met it.
    TreeNode "tree" key(|n| n.seq) weight(|n| n.name.len() + n.target.len() + n.xattrs.len()) {
        /// The action before which it was observed: `actions.seq`; 0 for what was there before the start.
        seq: u64,
        /// Device of the directory that holds the name.
        parent_device: u64,
        /// Inode of the directory that holds the name.
        parent_inode: u64,
        /// The name; empty for the root directory.
        name: Name,
        /// Device (`st_dev`).
        device: u64,
        /// Inode (`st_ino`). Names with the same device and inode are hard links.
        inode: u64,
        /// Type and permission bits (`st_mode`).
        mode: u32,
        /// Number of hard links.
        nlink: u64,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Size in bytes.
        size: u64,
        /// Device number of a device node.
        rdev: u64,
        /// Access time, nanoseconds since the epoch.
        atime_ns: i64,
        /// Modification time, nanoseconds since the epoch.
        mtime_ns: i64,
        /// Change time, nanoseconds since the epoch.
        ctime_ns: i64,
        /// Text of a symbolic link.
        target: Name,
        /// Extended attributes: for each, length of name (u16), name, length of value (u32), value; little-endian.
        xattrs: Vec<u8>,
        /// Type of its file system (`f_type` of statfs).
        filesystem: u64,
    }
}

table! {
    /// Content of a file of the initial tree that was observed other than through a data-carrying call.
    Content "contents" key(|c| c.seq) weight(|c| 4 * c.data.len()) {
        /// The action before which the content was observed: bytes that the program wrote earlier are not initial.
        seq: u64,
        /// Device of the file.
        device: u64,
        /// Inode of the file.
        inode: u64,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// The bytes: blobs that follow each other; empty for a hole, where `hole` is 1.
        data: Vec<u32>,
        /// 1 if the range is a hole.
        hole: u32,
        /// Why it was captured: `snapshot`, `opened`, `mapped`.
        reason: String,
    }
}

table! {
    /// A piece of content, stored once.
    BlobRow "blobs" key(|b| b.blob.into()) weight(|b| b.content.as_ref().map_or(0, Bytes::len)) {
        /// Its number, ascending from 0.
        blob: u32,
        /// BLAKE3 of the content, 32 bytes.
        blake3: [u8; 32],
        /// Length in bytes.
        length: u32,
        /// The content, unless only its hash was kept.
        content: Option<Bytes>,
    }
}

/// Encodes extended attributes for [`TreeNode::xattrs`].
pub fn encode_xattrs(attributes: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in attributes {
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        out.extend_from_slice(value);
    }
    out
}

/// Decodes [`TreeNode::xattrs`]; a cut-off attribute is left out.
pub fn decode_xattrs(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
        let (head, tail) = bytes.split_at_checked(n)?;
        *bytes = tail;
        Some(head)
    }
    fn one(bytes: &mut &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let n = u16::from_le_bytes(take(bytes, 2)?.try_into().ok()?);
        let name = take(bytes, n.into())?.to_vec();
        let n = u32::from_le_bytes(take(bytes, 4)?.try_into().ok()?);
        Some((name, take(bytes, n as usize)?.to_vec()))
    }
    let mut out = Vec::new();
    while let Some(pair) = one(&mut bytes) {
        out.push(pair);
    }
    out
}
