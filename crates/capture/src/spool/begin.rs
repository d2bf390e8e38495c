//! `spool/begin.json`: what was there when the recording began.
//!
//! Goals: all that a finisher needs beside the records, so that a spool can be finished by anybody at any time.
//! Non-goals: anything that the records say themselves.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use reprise_calls::locking::HeldLock;
use reprise_calls::memory;
use reprise_trace::Manifest;
use serde::{Deserialize, Serialize};

/// Name of the file in the directory of the spool.
pub const BEGIN: &str = "begin.json";
/// Version of the spool as it is written. 2: content may be said by its place ([`RANGE_SAID`](super::layout::RANGE_SAID)). 3: it
/// need not follow its head at once. 4: calls may be told in brief ([`BRIEF`](super::layout::kind::BRIEF)). 5: who came in
/// later stands in a file of its own ([`JOINED`]). 6: open files that a segment has told of are told in short
/// ([`OBJECT_AGAIN`](super::layout::OBJECT_AGAIN)), and pages stored to during a copy are told apart.
pub const VERSION: u32 = 6;
/// Name of the file there that tells of who came in later, a line each.
pub const JOINED: &str = "joined";
/// Name of the file with samples of the environment there.
pub const SAMPLES: &str = "samples";

/// What was there when the recording began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// Version of the spool: [`VERSION`], or an earlier one.
    pub version: u32,
    /// The manifest that the trace begins with: command, policy, host, start since the epoch.
    pub manifest: Manifest,
    /// `CLOCK_MONOTONIC` at the start: the times in the records count by it.
    pub monotonic_ns: u64,
    /// Directory of the trace: what lies in it is no part of the recording.
    pub trace: String,
    /// Files up to this many bytes are captured whole.
    pub whole_file_bytes: u64,
    /// Whether what the loader maps is captured beyond that size.
    pub libraries: bool,
    /// Whether processor time between calls is wanted.
    pub cpu: bool,
    /// Whether stores to mapped files are in the records.
    #[serde(default)]
    pub mapped: bool,
    /// The directory in which the contents of the trace get one of their own.
    #[serde(default)]
    pub contents: Option<PathBuf>,
    /// Bytes that the trace may take on disk.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// Whether the processes ran already: then records before `monotonic_ns` tell what they did while they were looked at,
    /// and are no part of the trace.
    #[serde(default)]
    pub attached: bool,
    /// Where what the processes see as `/` is for others, if they have mounts of their own.
    #[serde(default)]
    pub mounted_at: Option<String>,
    /// Whether processes that did nothing are left out of the trace.
    #[serde(default)]
    pub leave_idle_out: bool,
    /// The processes that were there: of a command the one that will run it, before it does.
    pub processes: Vec<BeganProcess>,
    /// Processes that came into the scope later, from outside of it, as they were then.
    #[serde(default)]
    pub joined: Vec<BeganProcess>,
}

/// A process as it was when the recording began. Names and paths are escaped as in [`reprise_trace::Name`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeganProcess {
    /// Kernel's number, in the first process-number namespace as in the records.
    pub pid: i32,
    /// Its threads: number and name.
    pub threads: Vec<(i32, String)>,
    /// Real, effective, saved and file-system user.
    pub uids: Vec<u32>,
    /// Real, effective, saved and file-system group.
    pub gids: Vec<u32>,
    /// Further groups.
    pub groups: Vec<u32>,
    /// File mode creation mask.
    pub umask: u32,
    /// Working directory.
    pub cwd: String,
    /// Just before and just after it was looked at, by `CLOCK_MONOTONIC`.
    #[serde(default)]
    pub cwd_ns: [u64; 2],
    /// Root directory.
    pub root: String,
    /// Program; of a command the one that it will run.
    pub executable: String,
    /// Its descriptors, of a command without those that end with the exec.
    pub descriptors: Vec<BeganDescriptor>,
    /// Just before these were looked at, by `CLOCK_MONOTONIC`.
    #[serde(default)]
    pub descriptors_ns: u64,
    /// Processes with the same number share one descriptor table; one without a number shares with none.
    #[serde(default)]
    pub table: Option<u64>,
    /// Processes with the same number share working directory, root and mask.
    #[serde(default)]
    pub directories: Option<u64>,
    /// Of a process that ran already, looked at again after the beginning: working directory, and descriptors that were
    /// not there before, or were of other files.
    #[serde(default)]
    pub again: Again,
    /// Its mappings of files.
    #[serde(default)]
    pub mappings: Vec<BeganMapping>,
    /// Just before these were looked at, by `CLOCK_MONOTONIC`.
    #[serde(default)]
    pub mappings_ns: u64,
    /// Files that it has without a descriptor, as if they were open: mapped (but not those of programs and libraries), or registered
    /// with a ring. Their numbers, flags and positions say nothing.
    #[serde(default)]
    pub held: Vec<BeganDescriptor>,
}

impl BeganProcess {
    /// Adds it to those who came in later, in the directory of a spool.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&self, spool: &Path) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        fs::OpenOptions::new().append(true).create(true).open(spool.join(JOINED))?.write_all(&line)
    }
}

/// What a second look at a process has shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    /// Working directory.
    pub cwd: String,
    /// Program.
    pub executable: String,
    /// Descriptors.
    pub descriptors: Vec<BeganDescriptor>,
}

/// A mapping of a file that was there when the recording began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeganMapping {
    /// Its first address.
    pub begin: u64,
    /// The address behind it.
    pub end: u64,
    /// As `mmap` is given it: `PROT_READ`, `PROT_WRITE`, `PROT_EXEC`.
    pub protection: u32,
    /// Whether stores to it change the file.
    pub shared: bool,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// Device of the file.
    pub device: u64,
    /// Inode of the file.
    pub inode: u64,
    /// What it maps, as `/proc/PID/maps` says.
    pub path: String,
}

/// Files of which code is mapped.
pub fn code(mappings: &[BeganMapping]) -> HashSet<(u64, u64)> {
    memory::code(mappings.iter().map(|mapping| ((mapping.device, mapping.inode), mapping.protection)))
}

impl BeganMapping {
    /// Whether it holds data of a file: what is private of a program or a library (`code`) belongs to running that.
    pub fn is_data(&self, code: &HashSet<(u64, u64)>) -> bool {
        let of_program = !self.shared && code.contains(&(self.device, self.inode));
        !of_program && !is_memory(&self.path)
    }
}

/// Whether this is memory that is a file to the kernel only, which nobody can have open: as `mm/shmem.c`, `ipc/shm.c`,
/// `fs/hugetlbfs/inode.c` and `fs/aio.c` name it.
fn is_memory(path: &str) -> bool {
    const MEMORY: [&str; 4] = ["/dev/zero", "/dev/zero (deleted)", "/anon_hugepage (deleted)", "/[aio] (deleted)"];
    let key = path.strip_prefix("/SYSV").and_then(|rest| rest.strip_suffix(" (deleted)"));
    MEMORY.contains(&path) || key.is_some_and(|key| key.len() == 8 && key.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// A descriptor as it was when the recording began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeganDescriptor {
    /// Number.
    pub fd: u32,
    /// What it names, as `/proc/PID/fd` says.
    pub path: String,
    /// Type and permission bits (`st_mode`).
    pub mode: u32,
    /// Flags as `fcntl(F_GETFL)` says, with `O_CLOEXEC` if it is set.
    pub flags: u64,
    /// Offset in bytes.
    pub position: u64,
    /// Device of the open file.
    pub device: u64,
    /// Inode of the open file.
    pub inode: u64,
    /// Descriptors of one recording with the same number share one open file description.
    pub description: u64,
    /// The file had no name any more. Of the descriptors of a command that is not known.
    #[serde(default)]
    pub nameless: bool,
    /// Size of the file.
    #[serde(default)]
    pub size: u64,
    /// Owner and group of the file.
    #[serde(default)]
    pub owner: (u32, u32),
    /// Its hard links.
    #[serde(default)]
    pub links: u64,
    /// Its access, modification and change time, nanoseconds since 1970.
    #[serde(default)]
    pub times: [i64; 3],
    /// Its content is a file of this number in the directory `open` of the spool.
    #[serde(default)]
    pub copy: Option<u64>,
    /// When it had been copied, by `CLOCK_MONOTONIC`.
    #[serde(default)]
    pub copied_ns: u64,
    /// Locks that were taken by it.
    #[serde(default, with = "locks")]
    pub locks: Vec<HeldLock>,
    /// Of a file in memory: its seals.
    #[serde(default)]
    pub seals: Option<u32>,
}

/// Locks in the file: kind, whether exclusive, first byte, and the byte behind the last.
mod locks {
    use reprise_calls::locking::{HeldLock, LockKind};
    use serde::{Deserialize, Deserializer, Serializer};

    type Row = (u32, bool, u64, u64);

    pub fn serialize<S: Serializer>(locks: &[HeldLock], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(locks.iter().map(|lock| (lock.kind as u32, lock.exclusive, lock.begin, lock.end)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<HeldLock>, D::Error> {
        let held = |(kind, exclusive, begin, end): Row| {
            Some(HeldLock { kind: LockKind::from_number(kind)?, exclusive, begin, end })
        };
        Ok(Vec::<Row>::deserialize(from)?.into_iter().filter_map(held).collect())
    }
}

/// Name of the directory in a spool that holds the content of files that were open.
pub const OPEN: &str = "open";

impl Begin {
    /// Reads it from the directory of a spool.
    ///
    /// # Errors
    /// The file cannot be read, or is not what it should be, or is of a later version.
    pub fn read(spool: &Path) -> io::Result<Begin> {
        /// What every version begins with.
        #[derive(Deserialize)]
        struct Any {
            version: u32,
        }
        let bytes = fs::read(spool.join(BEGIN))?;
        let Any { version } = serde_json::from_slice(&bytes)?;
        if version > VERSION {
            let told = format!("{BEGIN} is of version {version}, this Reprise reads up to {VERSION}: take a later one");
            return Err(io::Error::new(io::ErrorKind::Unsupported, told));
        }
        let mut begin: Begin = serde_json::from_slice(&bytes)?;
        // The last line may be cut off; who it tells of did nothing yet.
        let joined = fs::read(spool.join(JOINED)).unwrap_or_default();
        begin.joined.extend(joined.split(|byte| *byte == b'\n').map_while(|line| serde_json::from_slice(line).ok()));
        Ok(begin)
    }

    /// Writes it into the directory of a spool.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, spool: &Path) -> io::Result<()> {
        fs::write(spool.join(BEGIN), serde_json::to_vec_pretty(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_whose_names_are_like_those_of_memory_are_files() {
        for memory in ["/dev/zero", "/dev/zero (deleted)", "/SYSV0012abcd (deleted)", "/[aio] (deleted)"] {
            assert!(is_memory(memory), "{memory}");
        }
        // What memfd_create(2) makes can be opened, read and sent.
        for file in ["/memfd:x (deleted)", "/SYSV0012abcd", "/SYSVx/f (deleted)", "/dev/zeros", "/SYSV (deleted)", ""] {
            assert!(!is_memory(file), "{file}");
        }
    }

    #[test]
    fn a_later_version_is_refused_by_its_number() {
        let spool = tempfile::tempdir().expect("a directory");
        fs::write(spool.path().join(BEGIN), format!("{{\"version\": {}, \"new\": 1}}", VERSION + 1)).expect("writable");
        let error = Begin::read(spool.path()).expect_err("a later version");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains(&format!("version {}", VERSION + 1)), "{error}");
    }
}
