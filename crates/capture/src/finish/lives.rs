//! Threads and processes of a spool: their rows, as the tracer writes them.
//!
//! Goals: numbers of the kernel are reused, those here are not; the first thread of a process ends last. Non-goals: what
//! they do.

use foldhash::HashMap;
use reprise_calls::sharing::{Parts, SAME_PROCESS, shared};
use reprise_initial::Seat;
use reprise_trace::{Name, Process, ThreadRow};

use crate::log::Log;
use crate::spool::record::Task;

/// A thread that lives.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    /// Its number in the trace.
    pub thread: u32,
    /// Its process, in the kernel's words.
    pub pid: i32,
    /// What it sees of the world.
    pub seat: Seat,
    /// When its last call was over, and the processor time it had used when that began.
    pub last: Option<(u64, u64)>,
}

/// A process that lives.
#[derive(Debug)]
struct Company {
    number: u32,
    executable: Name,
    groups: Vec<u32>,
    /// The end of its first thread, which is written after all others.
    leader: Option<Gone>,
}

/// The end of a thread.
#[derive(Debug, Clone, Copy)]
pub struct Gone {
    /// When it asked for it, or ended.
    pub begin_ns: u64,
    /// When it had ended.
    pub end_ns: u64,
    /// When what its process had locked was free, if it had anything.
    pub unlocked_ns: Option<u64>,
    /// When the latest of what its process had requested took effect, if it had requested anything.
    pub effects_ns: Option<u64>,
    /// As `wait` tells it.
    pub status: i32,
    /// The argument of its `exit`, if it made that call.
    pub asked: Option<u64>,
    /// Processor time when it asked.
    pub cpu_ns: u64,
}

/// A thread that another made.
#[derive(Debug)]
pub struct Born<'a> {
    /// Its number.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// Who made it, and how.
    pub task: &'a Task,
    /// The action that made it.
    pub created_by: u64,
    /// When.
    pub begin_ns: u64,
    /// What it sees of the world.
    pub seat: Seat,
    /// Working and root directory.
    pub places: (Vec<u8>, Vec<u8>),
}

impl Gone {
    /// Where it is placed: where it asked to end, or was made to, unless its process had locks, or the kernel went on with what it
    /// had requested.
    pub fn key_ns(&self) -> u64 {
        self.unlocked_ns.unwrap_or(self.begin_ns).max(self.effects_ns.unwrap_or(0))
    }
}

/// All threads and processes.
#[derive(Debug, Default)]
pub struct Lives {
    threads: HashMap<i32, Life>,
    companies: HashMap<i32, Company>,
    next_thread: u32,
    next_process: u32,
}

impl Lives {
    /// A thread that lives.
    pub fn get(&self, tid: i32) -> Option<Life> {
        self.threads.get(&tid).copied()
    }

    /// A thread of a process that lives.
    pub fn any_of(&self, pid: i32) -> Option<Life> {
        self.get(pid).or_else(|| self.threads.values().find(|life| life.pid == pid).copied())
    }

    /// To note when it was last heard of.
    pub fn get_mut(&mut self, tid: i32) -> Option<&mut Life> {
        self.threads.get_mut(&tid)
    }

    /// The number of a process that lives.
    pub fn process(&self, pid: i32) -> Option<u32> {
        self.companies.get(&pid).map(|company| company.number)
    }

    /// How many live.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// The number that the next process will get.
    pub fn next_process(&self) -> u32 {
        self.next_process
    }

    /// A process that was there at the beginning; its threads follow.
    pub fn found_process(&mut self, row: Process, log: &mut Log) {
        let (executable, groups) = (row.executable.clone(), row.groups.clone());
        let company = Company { number: self.next_process, executable, groups, leader: None };
        self.companies.insert(row.pid, company);
        log.process(Process { process: self.next_process, ..row });
        self.next_process += 1;
    }

    /// A thread that was there at the beginning, or whose making is not known.
    pub fn found_thread(&mut self, pid: i32, tid: i32, name: Name, begin_ns: u64, seat: Seat, log: &mut Log) {
        let process = self.companies.get(&pid).map_or(0, |c| c.number);
        let row = ThreadRow { process, tid, begin_ns, name, ..ThreadRow::default() };
        self.add(pid, tid, row, seat, log);
    }

    /// A thread that another made.
    pub fn born(&mut self, born: Born<'_>, log: &mut Log) {
        let Born { tid, pid, task, created_by, begin_ns, seat, places } = born;
        let process = match self.companies.get(&pid) {
            Some(company) if task.flags & SAME_PROCESS != 0 => company.number,
            _ => self.born_process(pid, task, places, log),
        };
        let Parts { descriptors, directories } = shared(task.flags);
        let row = ThreadRow {
            process,
            tid,
            parent: self.threads.get(&task.parent_tid).map(|parent| parent.thread),
            created_by: Some(created_by),
            shares_descriptors: descriptors.into(),
            shares_directories: directories.into(),
            begin_ns,
            name: Name(task.name.clone()),
            ..ThreadRow::default()
        };
        self.add(pid, tid, row, seat, log);
    }

    /// A thread of the trace that performs requests of another.
    pub fn lane(&mut self, submitter: &Life, row: ThreadRow, seat: Seat, log: &mut Log) -> Life {
        let process = self.companies.get(&submitter.pid).map_or(0, |c| c.number);
        let thread = self.next_thread;
        self.next_thread += 1;
        log.thread(ThreadRow { thread, process, ..row });
        Life { thread, pid: submitter.pid, seat, last: None }
    }

    fn born_process(&mut self, pid: i32, task: &Task, (cwd, root): (Vec<u8>, Vec<u8>), log: &mut Log) -> u32 {
        let parent = self.companies.get(&task.parent_pid);
        let executable = parent.map(|p| p.executable.clone()).unwrap_or_default();
        let groups = parent.map(|p| p.groups.clone()).unwrap_or_default();
        let number = self.next_process;
        self.next_process += 1;
        log.process(Process {
            process: number,
            pid,
            parent: parent.map(|p| p.number),
            uids: task.uids.to_vec(),
            gids: task.gids.to_vec(),
            groups: groups.clone(),
            umask: task.umask,
            cwd: Name(cwd),
            root: Name(root),
            executable: executable.clone(),
            ..Process::default()
        });
        self.companies.insert(pid, Company { number, executable, groups, leader: None });
        number
    }

    fn add(&mut self, pid: i32, tid: i32, row: ThreadRow, seat: Seat, log: &mut Log) {
        let thread = self.next_thread;
        self.next_thread += 1;
        log.thread(ThreadRow { thread, ..row });
        self.threads.insert(tid, Life { thread, pid, seat, last: None });
    }

    /// A process runs another program.
    pub fn program(&mut self, pid: i32, path: &[u8]) {
        if let Some(company) = self.companies.get_mut(&pid) {
            company.executable = Name::from(path);
        }
    }

    /// The further groups of a process.
    pub fn set_groups(&mut self, pid: i32, groups: Vec<u32>) {
        if let Some(company) = self.companies.get_mut(&pid) {
            company.groups = groups;
        }
    }

    /// A thread goes on as the first of its process; gives the end of the one that was it.
    pub fn rename(&mut self, from: i32, to: i32) -> Option<(Life, Gone)> {
        let leader = self.companies.get_mut(&to).and_then(|company| company.leader.take());
        let former = self.threads.remove(&to);
        if let Some(thread) = self.threads.remove(&from) {
            self.threads.insert(to, thread);
        }
        former.zip(leader)
    }

    /// A thread has ended: the ends that are to be written now, in order, with the name of the call; the first thread of
    /// a process waits for all others.
    pub fn end(&mut self, tid: i32, gone: Gone) -> Vec<(Life, &'static str, Gone)> {
        let Some(life) = self.threads.get(&tid).copied() else { return Vec::new() };
        let others = self.threads.iter().any(|(other, l)| l.pid == life.pid && *other != tid);
        let mut out = Vec::new();
        match (tid == life.pid, others) {
            (true, true) => {
                if let Some(company) = self.companies.get_mut(&life.pid) {
                    company.leader = Some(gone);
                }
                return out;
            }
            (true, false) => out.push((life, "exit_group", gone)),
            (false, _) => out.push((life, "exit", gone)),
        }
        self.threads.remove(&tid);
        if tid == life.pid {
            self.companies.remove(&life.pid);
        } else if let (Some(leader), Some(end)) = (self.leader_alone(life.pid), self.leader_end(life.pid)) {
            out.push((leader, "exit_group", end));
            self.threads.remove(&life.pid);
            self.companies.remove(&life.pid);
        }
        out
    }

    /// The first thread of a process, if no other lives.
    fn leader_alone(&self, pid: i32) -> Option<Life> {
        let alone = self.threads.iter().filter(|(_, l)| l.pid == pid).count() == 1;
        self.threads.get(&pid).copied().filter(|_| alone)
    }

    fn leader_end(&self, pid: i32) -> Option<Gone> {
        self.companies.get(&pid)?.leader
    }
}
