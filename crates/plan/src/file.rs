//! The plan on disk: one file, written once by the compiler, mapped by the engine.
//!
//! Layout (`docs/FORMAT.md`, "Plan"): a head of 64 bytes, the sections `buffers`, `commands` and `bytes`, each at a
//! multiple of 4096, and last the description ([`Contents`], postcard). The head holds the description's place and the
//! BLAKE3 of it and of the commands; contents are checked against the trace when the plan is compiled.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::command::{PAGE_BYTES, StandIn};
use crate::tree::Node;

const MAGIC: [u8; 8] = *b"RPRSPLAN";
/// Version of the plan's layout; a plan of another version is compiled anew from its trace.
pub const PLAN_VERSION: u32 = 17;
const ALIGNMENT: u64 = 4096;
/// Content from which on the engine can use it where it is, and copies nothing: gaps before it (less than a page) are small beside it.
const LONG_CONTENT: usize = 8 << 10;

/// A section of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Section {
    /// Offset in the file, in bytes, a multiple of 4096.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// Commands of a thread that follow each other in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// First word, counted from the begin of the section.
    pub first: u64,
    /// Number of words.
    pub words: u64,
}

/// A thread of the replay.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThreadPlan {
    /// Its process.
    pub process: u32,
    /// Number of commands.
    pub commands: u64,
    /// Where they are.
    pub chunks: Vec<Chunk>,
    /// Whether a command starts it; otherwise it starts with the replay, with its process's [`ProcessPlan::start`].
    pub spawned: bool,
    /// Set for a lane: how it begins.
    pub lane: Option<Lane>,
}

/// How a lane begins: its submitter starts it, before the command that submits its first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// The submitter.
    pub of: u32,
    /// Number of commands that the submitter has completed then.
    pub after: u64,
}

/// A descriptor at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialFd {
    /// Slot it is kept in.
    pub slot: u32,
    /// What it is.
    pub source: FdSource,
}

/// What a descriptor at the start is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FdSource {
    /// A file of the initial tree, opened with these flags (never created or truncated) and positioned.
    File {
        /// Path inside the replayed world.
        path: Vec<u8>,
        /// `open` flags.
        flags: u64,
        /// Offset in bytes.
        offset: u64,
        /// Set for a file in memory: its seals.
        seals: Option<u32>,
    },
    /// A duplicate of an earlier descriptor, perhaps of an earlier process: they share one open file description.
    Duplicate {
        /// Its slot.
        slot: u32,
        /// Whether it is closed when another program is run; each descriptor of an open file has that to itself.
        close_on_exec: bool,
    },
    /// A stand-in.
    StandIn(StandIn),
}

/// A lock that a process begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialLock {
    /// Slot of the descriptor by which it is taken.
    pub slot: u32,
    /// 1: the process's, 2: the open file's, 3: the open file's, of all the file.
    pub kind: u32,
    /// Beside no other.
    pub exclusive: bool,
    /// The first byte.
    pub start: u64,
    /// Bytes; 0: to the end of the file.
    pub length: u64,
}

/// A mapping that a process begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialMapping {
    /// Its slot.
    pub slot: u32,
    /// Path of the file inside the replayed world.
    pub path: Vec<u8>,
    /// Length in bytes.
    pub length: u64,
    /// As `mmap` is given it.
    pub protection: u32,
    /// `MAP_SHARED` or `MAP_PRIVATE`.
    pub flags: u32,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
}

/// How a process begins that no command starts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProcessStart {
    /// Working directory inside the replayed world.
    pub cwd: Vec<u8>,
    /// Root directory inside the replayed world.
    pub root: Vec<u8>,
    /// File mode creation mask.
    pub umask: u32,
    /// Real, effective, saved and file-system user.
    pub uids: [u32; 4],
    /// Real, effective, saved and file-system group.
    pub gids: [u32; 4],
    /// Further groups.
    pub groups: Vec<u32>,
    /// Descriptors.
    pub descriptors: Vec<InitialFd>,
    /// Locks on files.
    pub locks: Vec<InitialLock>,
    /// Mappings of files.
    pub mappings: Vec<InitialMapping>,
    /// Set for one that begins from another process, with which it shares.
    pub kin: Option<KinStart>,
}

/// How a process begins from another one that no command starts either. What they share is as that one's start says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KinStart {
    /// The other process.
    pub of: u32,
    /// They share one descriptor table.
    pub descriptors: bool,
    /// They share one working directory, root and mask.
    pub directories: bool,
}

/// A process of the replay.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProcessPlan {
    /// Set for a process that no command starts.
    pub start: Option<Box<ProcessStart>>,
}

/// The description of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Contents {
    /// Identity of the trace.
    pub trace: String,
    /// The ordering, as it was selected.
    pub order: String,
    /// Number of commands of all threads.
    pub commands: u64,
    /// Number of descriptor slots.
    pub slots: u32,
    /// Number of mapping slots.
    pub mappings: u32,
    /// Threads, by number.
    pub threads: Vec<ThreadPlan>,
    /// Processes, by number.
    pub processes: Vec<ProcessPlan>,
    /// The initial tree.
    pub tree: Vec<Node>,
    /// Names of the initial tree that stand for files without a name: removed once the descriptors at the start are open.
    pub nameless: Vec<Vec<u8>>,
    /// The section of commands.
    pub command_section: Section,
    /// The section of strings and structures.
    pub byte_section: Section,
    /// The section of contents.
    pub buffer_section: Section,
}

/// A plan cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The system's error.
    #[error("{path}: {doing}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The error.
        source: io::Error,
    },
    /// Not a plan, damaged, or of another version.
    #[error("{path}: {cause}; compile it again from its trace")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
}

impl PlanError {
    fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> PlanError {
        let path = path.to_owned();
        move |source| PlanError::Io { path, doing, source }
    }
}

/// Writes a plan: contents are streamed to the file, commands and strings to two unlinked files beside it until the end.
pub struct PlanWriter {
    path: PathBuf,
    commands: Stream,
    bytes: Stream,
    buffers: Stream,
}

/// A file without a name, beside the plan.
pub(crate) struct Scratch {
    pub file: File,
    directory: PathBuf,
}

impl Scratch {
    /// It cannot be read or written.
    pub fn error(&self, source: io::Error) -> PlanError {
        PlanError::io(&self.directory, "cannot use a file of intermediate results")(source)
    }
}

struct Stream {
    file: BufWriter<File>,
    length: u64,
}

impl Stream {
    fn new(file: File) -> Stream {
        Stream { file: BufWriter::with_capacity(1 << 20, file), length: 0 }
    }

    fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<u64, PlanError> {
        let at = self.length;
        self.file.write_all(bytes).map_err(PlanError::io(path, "cannot write the plan"))?;
        self.length += bytes.len() as u64;
        Ok(at)
    }

    fn align(&mut self, path: &Path, alignment: u64) -> Result<(), PlanError> {
        let gap = self.length.next_multiple_of(alignment) - self.length;
        self.add(path, &[0; ALIGNMENT as usize][..gap as usize]).map(drop)
    }
}

fn scratch_beside(path: &Path) -> Result<Scratch, PlanError> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::tempfile_in(directory).map_err(PlanError::io(directory, "cannot make a file"))?;
    Ok(Scratch { file, directory: directory.to_owned() })
}

impl PlanWriter {
    /// Begins a plan; its directory must have room for the contents of the trace.
    pub fn create(path: &Path) -> Result<PlanWriter, PlanError> {
        let mut file = File::create(path).map_err(PlanError::io(path, "cannot create the plan"))?;
        file.seek(SeekFrom::Start(ALIGNMENT)).map_err(PlanError::io(path, "cannot create the plan"))?;
        let buffers = Stream::new(file);
        let stream = || scratch_beside(path).map(|scratch| Stream::new(scratch.file));
        Ok(PlanWriter { path: path.to_owned(), commands: stream()?, bytes: stream()?, buffers })
    }

    /// A file for intermediate results.
    pub(crate) fn scratch(&self) -> Result<Scratch, PlanError> {
        scratch_beside(&self.path)
    }

    /// Appends commands of one thread.
    pub fn commands(&mut self, words: &[u64]) -> Result<Chunk, PlanError> {
        let first = self.commands.length / 8;
        let mut bytes = [0; 1024];
        for words in words.chunks(bytes.len() / 8) {
            for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
            self.commands.add(&self.path, &bytes[..words.len() * 8])?;
        }
        Ok(Chunk { first, words: words.len() as u64 })
    }

    /// Appends bytes and a NUL; returns their offset, a multiple of 8.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<u64, PlanError> {
        let at = self.bytes.add(&self.path, bytes)?;
        self.bytes.add(&self.path, &[0])?;
        self.bytes.align(&self.path, 8)?;
        Ok(at)
    }

    /// Appends content; returns its offset: so many bytes behind the begin of a page as the program had it, if it is long; else
    /// (whoever wants it elsewhere copies it) at a page if its length is a multiple of 512 (direct I/O), or at a multiple of 64.
    pub fn content(&mut self, bytes: &[u8], within: u16) -> Result<u64, PlanError> {
        let is_long = bytes.len() >= LONG_CONTENT;
        let direct = !bytes.is_empty() && bytes.len().is_multiple_of(512);
        if is_long {
            let gap = u64::from(within).wrapping_sub(self.buffers.length) % PAGE_BYTES;
            self.buffers.add(&self.path, &[0; PAGE_BYTES as usize][..gap as usize])?;
        } else {
            self.buffers.align(&self.path, if direct { PAGE_BYTES } else { 64 })?;
        }
        self.buffers.add(&self.path, bytes)
    }

    /// Appends so many zeros as content, without writing them.
    pub fn zeros(&mut self, length: u64) -> Result<u64, PlanError> {
        self.buffers.align(&self.path, ALIGNMENT)?;
        let at = self.buffers.length;
        let end = at.saturating_add(length);
        let file = &mut self.buffers.file;
        file.flush()
            .and_then(|()| file.get_ref().set_len(ALIGNMENT.saturating_add(end)))
            .and_then(|()| file.seek(SeekFrom::Start(ALIGNMENT.saturating_add(end))).map(drop))
            .map_err(PlanError::io(&self.path, "cannot write the plan"))?;
        self.buffers.length = end;
        Ok(at)
    }

    /// Puts the sections and the description into the file.
    pub fn finish(mut self, mut contents: Contents) -> Result<PathBuf, PlanError> {
        let path = self.path.clone();
        let mut hash = blake3::Hasher::new();
        contents.buffer_section = Section { offset: ALIGNMENT, length: self.buffers.length };
        let mut offset = (ALIGNMENT + self.buffers.length).next_multiple_of(ALIGNMENT);
        let file = &mut self.buffers.file;
        file.flush().map_err(PlanError::io(&path, "cannot write the plan"))?;
        let file = file.get_mut();
        for (stream, section) in
            [(&mut self.commands, &mut contents.command_section), (&mut self.bytes, &mut contents.byte_section)]
        {
            *section = Section { offset, length: stream.length };
            let mut copy = || -> io::Result<()> {
                stream.file.flush()?;
                let from = stream.file.get_mut();
                from.seek(SeekFrom::Start(0))?;
                file.seek(SeekFrom::Start(offset))?;
                io::copy(from, file).map(drop)
            };
            copy().map_err(PlanError::io(&path, "cannot write the plan"))?;
            offset = (offset + stream.length).next_multiple_of(ALIGNMENT);
        }
        let commands = &mut self.commands.file.get_mut();
        commands
            .seek(SeekFrom::Start(0))
            .and_then(|_| hash.update_reader(&mut **commands).map(drop))
            .map_err(PlanError::io(&path, "cannot read back"))?;
        let description = postcard::to_stdvec(&contents)
            .map_err(|e| PlanError::Damaged { path: path.clone(), cause: format!("cannot describe: {e}") })?;
        hash.update(&description);
        let mut head = Vec::with_capacity(64);
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&PLAN_VERSION.to_le_bytes());
        head.extend_from_slice(&[0; 4]);
        head.extend_from_slice(&offset.to_le_bytes());
        head.extend_from_slice(&(description.len() as u64).to_le_bytes());
        head.extend_from_slice(hash.finalize().as_bytes());
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.write_all(&description))
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(&head))
            .map_err(PlanError::io(&path, "cannot write the plan"))?;
        Ok(path)
    }
}

/// A plan that was opened: the description is read and checked, the sections lie within the file.
#[derive(Debug)]
pub struct Plan {
    /// The description.
    pub contents: Contents,
    /// The file, to be mapped.
    pub file: File,
    /// Its path.
    pub path: PathBuf,
}

impl Plan {
    /// Opens a plan and checks its head, description and commands.
    pub fn open(path: &Path) -> Result<Plan, PlanError> {
        let damaged = |cause: &str| PlanError::Damaged { path: path.to_owned(), cause: cause.to_owned() };
        let mut file = File::open(path).map_err(PlanError::io(path, "cannot open the plan"))?;
        let size = file.metadata().map_err(PlanError::io(path, "cannot open the plan"))?.len();
        let mut head = [0; 64];
        file.read_exact(&mut head).map_err(|_| damaged("not a plan (too short)"))?;
        if head[..8] != MAGIC {
            return Err(damaged("not a plan"));
        }
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let version = word(8) as u32;
        if version != PLAN_VERSION {
            return Err(damaged(&format!("a plan of version {version}, this program reads {PLAN_VERSION}")));
        }
        let (offset, length) = (word(16), word(24));
        if offset.checked_add(length) != Some(size) {
            return Err(damaged("truncated"));
        }
        let mut description = vec![0; length as usize];
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(&mut description))
            .map_err(PlanError::io(path, "cannot read the plan"))?;
        let contents: Contents = postcard::from_bytes(&description).map_err(|e| damaged(&e.to_string()))?;
        for section in [contents.command_section, contents.byte_section, contents.buffer_section] {
            let end = section.offset.checked_add(section.length);
            if end.is_none_or(|end| end > offset) || !section.offset.is_multiple_of(ALIGNMENT) {
                return Err(damaged("a section lies outside the file"));
            }
        }
        let mut hash = blake3::Hasher::new();
        let commands = contents.command_section;
        file.seek(SeekFrom::Start(commands.offset))
            .and_then(|_| hash.update_reader((&mut file).take(commands.length)).map(drop))
            .map_err(PlanError::io(path, "cannot read the plan"))?;
        hash.update(&description);
        if hash.finalize().as_bytes()[..] != head[32..] {
            return Err(damaged("its checksum does not match"));
        }
        let plan = Plan { contents, file, path: path.to_owned() };
        plan.check_references().map_err(|cause| damaged(&cause))?;
        Ok(plan)
    }

    /// Every number in the description that names a thread, process, slot or chunk must exist.
    fn check_references(&self) -> Result<(), String> {
        let c = &self.contents;
        let words = c.command_section.length / 8;
        if c.threads.len() >= 1 << 24 {
            return Err("too many threads".into());
        }
        for (i, thread) in c.threads.iter().enumerate() {
            if thread.process as usize >= c.processes.len() {
                return Err(format!("thread {i} belongs to no process"));
            }
            for chunk in &thread.chunks {
                if chunk.first.checked_add(chunk.words).is_none_or(|end| end > words) {
                    return Err(format!("commands of thread {i} lie outside the section"));
                }
            }
        }
        for start in c.processes.iter().filter_map(|p| p.start.as_ref()) {
            for fd in &start.descriptors {
                let source = if let FdSource::Duplicate { slot, .. } = fd.source { slot } else { 0 };
                if fd.slot.max(source) >= c.slots {
                    return Err("a descriptor at the start names no slot".into());
                }
            }
            if start.locks.iter().any(|lock| lock.slot >= c.slots) {
                return Err("a lock at the start names no slot".into());
            }
            if start.mappings.iter().any(|mapping| mapping.slot >= c.mappings) {
                return Err("a mapping at the start names no slot".into());
            }
        }
        Ok(())
    }
}
