//! What all mixes write with: actions in order, files of the initial tree, descriptor numbers, contents.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use reprise_trace::payload::append;
use reprise_trace::{
    Action, DataPolicy, Host, Keep, Kind, Manifest, Name, Process, ThreadRow, TraceWriter, TreeNode, WriteError,
    WriterOptions,
};

use crate::rng::Rng;

/// `AT_FDCWD`, as it stands in a register.
pub const AT_FDCWD: u64 = -100i64 as u64;
const DEVICE: u64 = 0x801;
const ROOT_INODE: u64 = 2;
/// Threads of a mix that has threads.
pub const THREADS: u32 = 8;
/// `CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD`.
const THREAD_FLAGS: u64 = 0x10f00;
const FIRST_PID: i32 = 1000;

/// A file as the mixes know it.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// Its number.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
}

/// Descriptor numbers of a table: the lowest that is free, as the kernel gives them.
#[derive(Debug, Clone, Default)]
pub struct Numbers {
    free: BinaryHeap<Reverse<u32>>,
    next: u32,
}

impl Numbers {
    /// The next number.
    pub fn take(&mut self) -> u32 {
        self.free.pop().map_or_else(
            || {
                self.next += 1;
                self.next - 1
            },
            |Reverse(fd)| fd,
        )
    }

    /// A number that was closed.
    pub fn give(&mut self, fd: u32) {
        self.free.push(Reverse(fd));
    }
}

/// A trace that is being written.
pub struct Tape {
    writer: TraceWriter,
    /// Actions so far.
    pub seq: u64,
    inodes: u64,
    threads: u32,
    processes: u32,
    /// For choices.
    pub rng: Rng,
    text: Vec<u8>,
}

impl Tape {
    /// Begins a trace with one process of one thread that works in `/`.
    pub fn create(dir: &Path, mix: &str, seed: u64) -> Result<Tape, WriteError> {
        let command = vec!["synth-trace".to_owned(), mix.to_owned()];
        let host = Host { processors: 8, ..Host::default() };
        let manifest = Manifest::new(Kind::Record, DataPolicy::Full, command, format!("{seed:032x}"), 0, host);
        let mut tape = Tape {
            writer: TraceWriter::create(dir, manifest, WriterOptions::default())?,
            seq: 0,
            inodes: 100,
            threads: 0,
            processes: 0,
            rng: Rng::new(seed, 1),
            text: vec![b'.'; 64 << 10],
        };
        tape.initial(ROOT_INODE, "", 0o40755, ROOT_INODE, 0)?;
        tape.thread(0, None)?;
        Ok(tape)
    }

    /// Ends the trace.
    pub fn close(self) -> Result<(), WriteError> {
        self.writer.close(None).map(drop)
    }

    /// An action's row; what it needs beside is the caller's.
    pub fn row(&self, thread: u32, call: &str, args: &[u64], result: i64) -> Action {
        let mut row = Action { thread, call: call.to_owned().into(), result, ..Action::default() };
        row.args[..args.len()].copy_from_slice(args);
        row
    }

    /// Adds an action. Actions overlap with those of other threads.
    pub fn put(&mut self, mut row: Action) -> Result<(), WriteError> {
        row.seq = self.seq;
        row.begin_ns = self.seq * 1000;
        row.duration_ns = 1500;
        self.seq += 1;
        self.writer.action(row)
    }

    /// Adds an action without more to it.
    pub fn act(&mut self, thread: u32, call: &str, args: &[u64], result: i64) -> Result<(), WriteError> {
        self.put(self.row(thread, call, args, result))
    }

    /// Adds an action on a path.
    pub fn on_path(
        &mut self,
        thread: u32,
        call: &str,
        path: &str,
        args: &[u64],
        result: i64,
    ) -> Result<(), WriteError> {
        let row = self.row(thread, call, args, result);
        self.put(Action { path: Some(Name::from(path)), ..row })
    }

    /// `openat`, relative to nothing.
    pub fn open(&mut self, thread: u32, path: &str, flags: u64, result: i64) -> Result<(), WriteError> {
        self.on_path(thread, "openat", path, &[AT_FDCWD, 1, flags, 0o644], result)
    }

    /// `rename`.
    pub fn rename(&mut self, thread: u32, old: &str, new: &str) -> Result<(), WriteError> {
        let row = self.row(thread, "rename", &[1, 1], 0);
        self.put(Action { path: Some(Name::from(old)), path2: Some(Name::from(new)), ..row })
    }

    /// `fstat`, or by a path `newfstatat`.
    pub fn stat(&mut self, thread: u32, fd: u32, path: Option<&str>, file: File) -> Result<(), WriteError> {
        let mut row = match path {
            None => self.row(thread, "fstat", &[fd.into(), 1], 0),
            Some(_) => self.row(thread, "newfstatat", &[AT_FDCWD, 1, 1, 0], 0),
        };
        row.path = path.map(Name::from);
        append(&mut row.output, Some(&self.attributes(file)));
        self.put(row)
    }

    fn attributes(&self, file: File) -> [u8; 144] {
        let mut stat = [0; 144];
        let mut word = |at: usize, value: u64| stat[at..at + 8].copy_from_slice(&value.to_le_bytes());
        word(0, DEVICE);
        word(8, file.inode);
        word(16, 1);
        word(24, 0o100644);
        word(48, file.size);
        word(88, self.seq);
        stat
    }

    /// A read or write of content.
    pub fn moved(&mut self, thread: u32, call: &str, args: &[u64], data: Vec<u32>, n: u64) -> Result<(), WriteError> {
        let row = self.row(thread, call, args, n as i64);
        self.put(Action { data, data_bytes: n, ..row })
    }

    /// Content of this length that is the same for the same number.
    pub fn content(&mut self, number: u64, length: usize) -> Result<Vec<u32>, WriteError> {
        self.text[..8].copy_from_slice(&number.to_le_bytes());
        self.writer.blob(&self.text[..length], Keep::ByPolicy)
    }

    /// A number for a new file.
    pub fn inode(&mut self) -> u64 {
        self.inodes += 1;
        self.inodes
    }

    /// A directory that was there at first, below the root.
    pub fn directory(&mut self, name: &str) -> Result<u64, WriteError> {
        self.met(ROOT_INODE, name, 0o40755, 0).map(|file| file.inode)
    }

    /// A file that was there at first, met now.
    pub fn file(&mut self, directory: u64, name: &str, size: u64) -> Result<File, WriteError> {
        self.met(directory, name, 0o100644, size)
    }

    fn met(&mut self, directory: u64, name: &str, mode: u32, size: u64) -> Result<File, WriteError> {
        let inode = self.inode();
        self.initial(directory, name, mode, inode, size)?;
        Ok(File { inode, size })
    }

    fn initial(&mut self, parent: u64, name: &str, mode: u32, inode: u64, size: u64) -> Result<(), WriteError> {
        self.writer.node(TreeNode {
            seq: self.seq,
            parent_device: DEVICE,
            parent_inode: parent,
            name: Name::from(name),
            device: DEVICE,
            inode,
            mode,
            nlink: 1,
            size,
            filesystem: 0xef53,
            ..TreeNode::default()
        })
    }

    fn thread(&mut self, process: u32, parent: Option<(u32, bool)>) -> Result<u32, WriteError> {
        let thread = self.threads;
        self.threads += 1;
        if process == self.processes {
            self.processes += 1;
            self.writer.process(Process {
                process,
                pid: FIRST_PID + thread as i32,
                parent: parent.map(|_| 0),
                uids: vec![0; 4],
                gids: vec![0; 4],
                cwd: Name::from("/"),
                root: Name::from("/"),
                executable: Name::from("/bin/tool"),
                ..Process::default()
            })?;
        }
        let shares = parent.map_or(0, |(_, shares)| shares.into());
        self.writer.thread(ThreadRow {
            thread,
            process,
            tid: FIRST_PID + thread as i32,
            parent: parent.map(|(thread, _)| thread),
            created_by: parent.map(|_| self.seq),
            shares_descriptors: shares,
            shares_directories: shares,
            begin_ns: self.seq * 1000,
            name: Name::from("tool"),
            lane_of: None,
        })?;
        Ok(thread)
    }

    /// Starts the further threads of the first process.
    pub fn start_threads(&mut self) -> Result<(), WriteError> {
        for _ in 1..THREADS {
            let thread = self.thread(0, Some((0, true)))?;
            self.act(0, "clone", &[THREAD_FLAGS], i64::from(FIRST_PID) + i64::from(thread))?;
        }
        Ok(())
    }

    /// Ends all threads of the first process.
    pub fn end_threads(&mut self) -> Result<(), WriteError> {
        for thread in 1..THREADS {
            self.act(thread, "exit", &[0], 0)?;
        }
        self.act(0, "exit_group", &[0], 0)
    }

    /// Starts a process; returns its first thread and its kernel number.
    pub fn fork(&mut self, parent: u32) -> Result<(u32, i64), WriteError> {
        const SIGCHLD: u64 = 17;
        let thread = self.thread(self.processes, Some((parent, false)))?;
        let pid = i64::from(FIRST_PID) + i64::from(thread);
        self.act(parent, "clone", &[SIGCHLD], pid)?;
        Ok((thread, pid))
    }
}
