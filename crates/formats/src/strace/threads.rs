//! Threads and processes: who made whom, what they share, when they ended.
//!
//! Goals: numbers of the kernel are reused, those here are not. Non-goals: what they do.

use std::collections::HashMap;

use reprise_calls::sharing::{SAME_PROCESS, shared};
use reprise_initial::Seat;
use reprise_trace::{Name, Process, ThreadRow};

/// A thread that lives.
#[derive(Debug, Clone, Copy)]
pub struct Thread {
    /// Its number in the trace.
    pub number: u32,
    /// Its process.
    pub process: u32,
    /// What it sees of the world.
    pub seat: Seat,
    /// Its exit, if it asked for one: when, with which status, and whether of the whole process.
    pub exit: Option<(u64, u64, bool)>,
}

/// How a thread comes to be.
#[derive(Debug, Clone, Copy)]
pub struct Making {
    /// The action that made it.
    pub seq: u64,
    /// Flags of `clone`.
    pub flags: u64,
    /// When.
    pub now: u64,
}

/// All threads.
#[derive(Debug, Default)]
pub struct Threads {
    live: HashMap<i32, Thread>,
    /// Rows of all threads there have been.
    pub rows: Vec<ThreadRow>,
    /// Rows of all processes there have been.
    pub processes: Vec<Process>,
}

impl Threads {
    /// A thread that lives.
    pub fn get(&self, tid: i32) -> Option<Thread> {
        self.live.get(&tid).copied()
    }

    /// To note its exit, or where it works from now on.
    pub fn get_mut(&mut self, tid: i32) -> Option<&mut Thread> {
        self.live.get_mut(&tid)
    }

    /// How many live.
    pub fn count(&self) -> usize {
        self.live.len()
    }

    /// The only one that lives.
    pub fn only(&self) -> Option<i32> {
        match self.live.len() {
            1 => self.live.keys().next().copied(),
            _ => None,
        }
    }

    /// Those that live, in order of their numbers.
    pub fn all(&self) -> Vec<i32> {
        let mut out: Vec<(u32, i32)> = self.live.iter().map(|(tid, t)| (t.number, *tid)).collect();
        out.sort_unstable();
        out.into_iter().map(|(_, tid)| tid).collect()
    }

    /// The number that the next process will get.
    pub fn next_process(&self) -> u32 {
        self.processes.len() as u32
    }

    /// A thread that was there before, in a process of its own or in one that is known.
    pub fn begin(&mut self, tid: i32, process: Option<u32>, seat: Seat, now: u64) {
        let process = process.unwrap_or_else(|| self.add_process(tid, None));
        self.add(tid, process, seat, ThreadRow { begin_ns: now, ..ThreadRow::default() });
    }

    /// A thread that another made.
    pub fn make(&mut self, parent: i32, child: i32, seat: Seat, making: Making) {
        let Some(maker) = self.get(parent) else { return };
        let process = match making.flags & SAME_PROCESS {
            0 => self.add_process(child, Some(maker.process)),
            _ => maker.process,
        };
        let row = ThreadRow {
            parent: Some(maker.number),
            created_by: Some(making.seq),
            shares_descriptors: u32::from(shared(making.flags).descriptors),
            shares_directories: u32::from(shared(making.flags).directories),
            begin_ns: making.now,
            ..ThreadRow::default()
        };
        self.add(child, process, seat, row);
    }

    fn add_process(&mut self, pid: i32, parent: Option<u32>) -> u32 {
        let process = self.next_process();
        let inherited = parent.and_then(|p| self.processes.get(p as usize)).map(|p| p.executable.clone());
        let executable = inherited.unwrap_or_default();
        self.processes.push(Process { process, pid, parent, executable, ..Process::default() });
        process
    }

    fn add(&mut self, tid: i32, process: u32, seat: Seat, row: ThreadRow) {
        let number = self.rows.len() as u32;
        let name = self.processes.get(process as usize).map(|p| base(&p.executable)).unwrap_or_default();
        self.rows.push(ThreadRow { thread: number, process, tid, name, ..row });
        self.live.insert(tid, Thread { number, process, seat, exit: None });
    }

    /// A thread is gone.
    pub fn end(&mut self, tid: i32) -> Option<Thread> {
        self.live.remove(&tid)
    }

    /// A thread goes on under another number.
    pub fn rename(&mut self, from: i32, to: i32) {
        if let Some(thread) = self.live.remove(&from) {
            self.live.insert(to, thread);
        }
    }

    /// The number of a thread that was not known when it began.
    pub fn learn_number(&mut self, from: i32, to: i32) {
        if let Some(thread) = self.get(from) {
            if let Some(row) = self.rows.get_mut(thread.number as usize) {
                row.tid = to;
            }
            if let Some(process) = self.processes.get_mut(thread.process as usize)
                && process.pid == from
            {
                process.pid = to;
            }
            self.rename(from, to);
        }
    }

    /// The first program that a process ran.
    pub fn program(&mut self, process: u32, path: &[u8]) {
        if let Some(row) = self.processes.get_mut(process as usize)
            && row.executable.is_empty()
        {
            row.executable = Name::from(path);
            let name = base(&row.executable);
            self.rows
                .iter_mut()
                .filter(|t| t.process == process && t.name.is_empty())
                .for_each(|t| t.name = name.clone());
        }
    }

    /// Other threads of a process that live.
    pub fn others(&self, process: u32, but: i32) -> Vec<i32> {
        let mut out: Vec<(u32, i32)> = self
            .live
            .iter()
            .filter(|(tid, t)| t.process == process && **tid != but)
            .map(|(tid, t)| (t.number, *tid))
            .collect();
        out.sort_unstable();
        out.into_iter().map(|(_, tid)| tid).collect()
    }
}

fn base(path: &Name) -> Name {
    const LONGEST: usize = 15;
    let base = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    Name::from(&base[..base.len().min(LONGEST)])
}
