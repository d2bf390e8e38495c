//! What processes that ran already had open when the trace begins.
//!
//! Goals: a state that is exact, though the processes went on while they were looked at. The kernel was asked to tell of
//! every call before the first look, and tells of each the open file and its position afterwards: what was looked at and
//! not touched by a call until the beginning is as it was seen, all else is as the last call before the beginning left it.
//! Non-goals: effects of calls that were under way at the beginning; they belong to the trace.

use foldhash::{HashMap, HashSet};

use reprise_calls::closing::ranged;
use reprise_calls::locking::LockKind;
use reprise_calls::sharing::{Parts, shared, unshared};
use reprise_calls::{ArgKind, Call, Effect, Returns, by_number};
use reprise_trace::Name;
use reprise_trace::payload::{Side, child_handle, split};

use super::locks;
use super::mappings::{Began, Called};
use crate::arguments::{PATH_LIMIT, failed};
use crate::kept::When;
use crate::locking;
use crate::memory::Memory;
use crate::spool::join::{Event, Heard};
use crate::spool::record::{Object, Task};
use crate::spool::{BeganDescriptor, BeganProcess, Begin};

/// Follows what happened before the beginning.
#[derive(Debug, Default)]
pub struct Before {
    processes: Vec<BeganProcess>,
    /// For each of them what the two looks have shown, to find names in.
    seen: Vec<Vec<BeganDescriptor>>,
    /// What each has mapped of files.
    mapped: Vec<Began>,
    /// By thread: the place of its process.
    threads: HashMap<i32, usize>,
    /// Descriptions of the kernel's, with their numbers here.
    descriptions: HashMap<u64, u64>,
    next_description: u64,
    /// Sizes of files, as calls left them.
    sizes: HashMap<(u64, u64), u64>,
    /// Processes of which the records do not say where they went: the second look does.
    strayed: HashSet<i32>,
    /// Of the next descriptor table or set of directories.
    next_common: u64,
}

impl Before {
    /// Begins with what was looked at first.
    pub fn new(begin: &Begin) -> Before {
        let mut before = Before { processes: begin.processes.clone(), ..Before::default() };
        for (at, process) in before.processes.iter().enumerate() {
            before.threads.extend(process.threads.iter().map(|(tid, _)| (*tid, at)));
            let all = process.descriptors.iter().chain(&process.again.descriptors);
            before.next_description = all.clone().map(|d| d.description + 1).fold(before.next_description, u64::max);
            before.seen.push(all.cloned().collect());
            before.mapped.push(Began::of(process));
            let common = [process.table, process.directories].into_iter().flatten();
            before.next_common = common.map(|number| number + 1).fold(before.next_common, u64::max);
        }
        before
    }

    /// Something happened before the beginning.
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::Call(heard) => self.call(heard),
            Event::Task { tid, pid, task, .. } => self.task(*tid, *pid, task),
            Event::Exec { tid, old_tid, .. } => self.exec(*tid, *old_tid),
            // A request that was asked for before the beginning belongs to what was before.
            Event::Ring { .. } | Event::Request(_) | Event::Completion(_) => {}
            // It has ended.
            Event::Unlocked { .. } => {}
            // Content that was there at the beginning.
            Event::Stored(_) | Event::Loaded(_) => {}
            Event::End { tid, .. } => {
                if let Some(at) = self.threads.remove(tid) {
                    self.processes[at].threads.retain(|(known, _)| known != tid);
                }
            }
        }
    }

    fn call(&mut self, heard: &Heard) {
        let Some(at) = self.threads.get(&heard.tid).copied() else { return };
        let Some(call) = by_number(heard.call.nr).filter(|_| !heard.narrow && !failed(heard.call.result)) else {
            return;
        };
        let args = &heard.call.args;
        // The descriptors were looked at after it, and with them their locks.
        let is_seen = heard.end_ns < self.processes[at].descriptors_ns;
        for object in &heard.objects {
            if object.mode & libc::S_IFMT == libc::S_IFREG {
                self.sizes.insert((object.device, object.inode), object.size);
            }
            self.open(at, object, is_seen);
        }
        let copies = [libc::F_DUPFD as u64, libc::F_DUPFD_CLOEXEC as u64].contains(&args[1]);
        match call.effect {
            Effect::Control if copies => self.each_of_table(at, |open| {
                let known = open.iter().find(|d| u64::from(d.fd) == args[0] & 0xffff_ffff).cloned();
                open.retain(|d| i64::from(d.fd) != heard.call.result);
                open.extend(known.map(|d| BeganDescriptor { fd: heard.call.result as u32, ..d }));
            }),
            Effect::Control | Effect::Lock if locking::is_about(call, args) && !is_seen => {
                locks::called(&mut self.processes, at, call, heard);
            }
            Effect::Close => {
                if !is_seen {
                    locks::closed(&mut self.processes[at], args[0] & 0xffff_ffff);
                }
                self.each_of_table(at, |open| open.retain(|d| u64::from(d.fd) != args[0] & 0xffff_ffff));
            }
            Effect::CloseRange => {
                self.leave(at, unshared(call, args));
                if args[2] & u64::from(libc::CLOSE_RANGE_CLOEXEC) == 0 {
                    let range = ranged(args);
                    self.each_of_table(at, |open| open.retain(|d| !range.contains(&d.fd)));
                }
            }
            Effect::ChangeDirectory => self.enter(at, call, heard),
            Effect::ChangeMask => self.sharing_directories(at).for_each(|p| p.umask = args[0] as u32 & 0o777),
            Effect::Mount => self.leave(at, unshared(call, args)),
            Effect::Map | Effect::Unmap | Effect::Remap | Effect::MapAdvise => self.map(at, call, heard),
            _ => {}
        }
    }

    /// A process changes its mappings; what it had changed before they were looked at has been seen.
    fn map(&mut self, at: usize, call: &Call, heard: &Heard) {
        let process = &mut self.processes[at];
        if heard.end_ns < process.mappings_ns {
            return;
        }
        let Heard { objects, call: record, .. } = heard;
        let called = Called { call, args: &record.args, result: record.result, objects };
        let mut path = String::new();
        if let Some(object) = called.file() {
            let file = named(&self.seen[at], object, 0);
            path.clone_from(&file.path);
            process.held.push(file);
        }
        self.mapped[at].called(&called, &path);
    }

    /// A process, and those that share its directories, work elsewhere now.
    fn enter(&mut self, at: usize, call: &Call, heard: &Heard) {
        let into = match call.position(|kind| matches!(kind, ArgKind::Path(_))) {
            Some(arg) => Memory::Kept(&heard.kept, When::Entry).string(heard.call.args[arg], PATH_LIMIT),
            None => {
                let is_it = |d: &&BeganDescriptor| u64::from(d.fd) == heard.call.args[0] & 0xffff_ffff && !d.nameless;
                let found = self.processes[at].descriptors.iter().find(is_it);
                found.map(|d| Name::from_text(&d.path).0)
            }
        };
        let strayed: Vec<(i32, bool)> =
            self.sharing_directories(at).map(|process| (process.pid, enter(process, into.as_deref(), heard))).collect();
        let is_absolute = into.as_ref().is_some_and(|path| path.starts_with(b"/"));
        for (pid, known) in strayed {
            if !known {
                self.strayed.insert(pid);
            } else if is_absolute {
                self.strayed.remove(&pid);
            }
        }
    }

    /// A process, and those with whom it shares its directories and its mask.
    fn sharing_directories(&mut self, at: usize) -> impl Iterator<Item = &mut BeganProcess> {
        let own = self.processes[at].directories;
        let sharing = move |other: usize, p: &BeganProcess| other == at || own.is_some() && p.directories == own;
        self.processes.iter_mut().enumerate().filter(move |(other, p)| sharing(*other, p)).map(|(_, p)| p)
    }

    /// Changes the descriptors of a process, and of those that share them.
    fn each_of_table(&mut self, at: usize, change: impl Fn(&mut Vec<BeganDescriptor>)) {
        change(&mut self.processes[at].descriptors);
        let Some(table) = self.processes[at].table else { return };
        let others = self.processes.iter_mut().enumerate().filter(|(other, p)| *other != at && p.table == Some(table));
        others.for_each(|(_, p)| change(&mut p.descriptors));
    }

    /// A process goes on with copies of its descriptor table, or of its directories. One of several threads alone does not
    /// speak for it.
    fn leave(&mut self, at: usize, own: Parts) {
        let fresh = [self.next_common, self.next_common + 1];
        let process = &mut self.processes[at];
        if process.threads.len() == 1 {
            process.table = if own.descriptors { Some(fresh[0]) } else { process.table };
            process.directories = if own.directories { Some(fresh[1]) } else { process.directories };
            self.next_common += 2;
        }
    }

    /// A descriptor names this file now, at this position; `is_seen`: and was looked at since.
    fn open(&mut self, at: usize, object: &Object, is_seen: bool) {
        let Ok(fd) = u32::try_from(object.fd) else { return };
        let process = &self.processes[at];
        let identity = (object.device, object.inode);
        let known = process.descriptors.iter().find(|d| d.fd == fd && (d.device, d.inode) == identity);
        let number = known.map(|d| d.description).or_else(|| self.descriptions.get(&object.id).copied());
        let number = number.unwrap_or_else(|| {
            self.next_description += 1;
            self.next_description - 1
        });
        self.descriptions.insert(object.id, number);
        if known.is_none() {
            let mut row = named(&self.seen[at], object, number);
            if !is_seen {
                row.locks.clear();
            }
            self.each_of_table(at, |open| {
                open.retain(|d| d.fd != fd);
                open.push(row.clone());
            });
        }
        let position = object.stands_at();
        let sharing = self.processes.iter_mut().flat_map(|p| &mut p.descriptors).filter(|d| d.description == number);
        sharing.for_each(|d| d.position = position);
    }

    fn task(&mut self, tid: i32, pid: i32, task: &Task) {
        if self.threads.contains_key(&tid) {
            return;
        }
        let name = reprise_trace::Name(task.name.clone()).to_text();
        if let Some(at) = self.processes.iter().position(|p| p.pid == pid && !p.threads.is_empty()) {
            self.processes[at].threads.push((tid, name));
            self.threads.insert(tid, at);
        } else if let Some(maker) = self.threads.get(&task.parent_tid).copied() {
            self.seen.push(self.seen[maker].clone());
            self.mapped.push(self.mapped[maker].clone());
            let maker = self.processes[maker].clone();
            let at = self.processes.len();
            self.threads.insert(tid, at);
            let threads = vec![(tid, name)];
            if self.strayed.contains(&maker.pid) {
                self.strayed.insert(pid);
            }
            let mut copy = BeganProcess { pid, threads, mappings_ns: 0, descriptors_ns: 0, ..maker };
            // Locks of a process are its own.
            copy.descriptors.iter_mut().for_each(|d| d.locks.retain(|held| held.kind != LockKind::Process));
            self.processes.push(copy);
            let shared = shared(task.flags);
            self.leave(at, Parts { descriptors: !shared.descriptors, directories: !shared.directories });
        }
    }

    fn exec(&mut self, tid: i32, old_tid: i32) {
        let Some(at) = self.threads.remove(&old_tid).or_else(|| self.threads.get(&tid).copied()) else { return };
        let process = &mut self.processes[at];
        let name = process.threads.first().map(|(_, name)| name.clone()).unwrap_or_default();
        process.threads = vec![(tid, name)];
        process.executable.clone_from(&process.again.executable);
        process.descriptors.retain(|d| d.flags & libc::O_CLOEXEC as u64 == 0);
        process.held.clear();
        self.mapped[at] = Began::default();
        self.threads.insert(tid, at);
        self.leave(at, Parts { descriptors: true, directories: false });
    }

    /// Those who lived at the beginning, and what they had.
    pub fn settle(mut self) -> Vec<BeganProcess> {
        for (process, mapped) in self.processes.iter_mut().zip(&self.mapped) {
            process.mappings = mapped.mappings();
            if self.strayed.contains(&process.pid) && !process.again.cwd.is_empty() {
                process.cwd.clone_from(&process.again.cwd);
            }
            for d in &mut process.descriptors {
                d.size = self.sizes.get(&(d.device, d.inode)).copied().unwrap_or(d.size);
            }
            process.descriptors.sort_unstable_by_key(|d| d.fd);
        }
        self.processes.retain(|process| !process.threads.is_empty());
        self.processes
    }
}

/// A process enters a directory; whether it is known then where it works. What it entered before it was looked at has been
/// seen; of what it entered meanwhile nobody can say that.
fn enter(process: &mut BeganProcess, into: Option<&[u8]>, heard: &Heard) -> bool {
    let [before_ns, after_ns] = process.cwd_ns;
    if heard.end_ns < before_ns {
        return true;
    }
    let Some(path) = into.filter(|path| heard.call.begin_ns > after_ns || path.starts_with(b"/")) else { return false };
    process.cwd = Name::below(&Name::from_text(&process.cwd), path).to_text();
    true
}

/// A descriptor that a call made or used, as a look has shown it, or the kernel alone.
fn named(seen: &[BeganDescriptor], object: &Object, description: u64) -> BeganDescriptor {
    let is_it = |d: &&BeganDescriptor| (d.device, d.inode) == (object.device, object.inode);
    // The same file by another number will do for its name.
    let same = seen.iter().filter(is_it);
    match same.clone().find(|d| d.fd as i32 == object.fd) {
        Some(seen) => BeganDescriptor { description, ..seen.clone() },
        None => {
            let fresh = of_object(object, description);
            let named =
                |d: &BeganDescriptor| BeganDescriptor { fd: fresh.fd, flags: fresh.flags, description, ..d.clone() };
            same.clone().next().map_or(fresh.clone(), named)
        }
    }
}

/// A descriptor of which only the kernel's word is known.
pub fn of_object(object: &Object, description: u64) -> BeganDescriptor {
    let kind = object.mode & libc::S_IFMT;
    BeganDescriptor {
        fd: object.fd as u32,
        path: if kind == libc::S_IFIFO { "pipe:" } else { "" }.to_owned(),
        mode: object.mode,
        flags: object.flags.into(),
        position: object.stands_at(),
        device: object.device,
        inode: object.inode,
        description,
        nameless: matches!(kind, libc::S_IFREG | libc::S_IFDIR),
        size: object.size,
        links: object.links.into(),
        ..BeganDescriptor::default()
    }
}

/// Whether a call made the descriptor of this number.
pub fn makes(call: &Call, args: &[u64; 6], result: i64, output: &[u8], fd: u32) -> bool {
    if failed(result) {
        return false;
    }
    if call.returns == Returns::Fd {
        return result as u32 == fd;
    }
    let pair = call.position(|kind| matches!(kind, ArgKind::Out(reprise_calls::Struct::FdPair)));
    match (pair, call.effect) {
        (Some(at), _) => split(call, Side::Output, output)[at]
            .is_some_and(|bytes| bytes.as_chunks::<4>().0.iter().any(|number| u32::from_le_bytes(*number) == fd)),
        (None, Effect::DuplicateTo) => args[1] as u32 == fd,
        (None, Effect::Spawn) => child_handle(call, output) == Some(fd),
        (None, Effect::Control) => {
            let copies = [libc::F_DUPFD as u64, libc::F_DUPFD_CLOEXEC as u64].contains(&args[1]);
            copies && result as u32 == fd
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use reprise_calls::locking::HeldLock;

    use super::*;

    /// What was entered before a look has been seen by it; what was entered after it is below; in between nobody knows.
    #[test]
    fn where_a_process_works() {
        for (begin_ns, end_ns, known, cwd) in
            [(10, 20, true, "/a"), (10, 120, false, "/a"), (150, 160, false, "/a"), (210, 220, true, "/a/b")]
        {
            let mut process = BeganProcess { cwd: "/a".to_owned(), cwd_ns: [100, 200], ..BeganProcess::default() };
            let heard = heard(begin_ns, end_ns);
            assert_eq!((enter(&mut process, Some(b"b"), &heard), process.cwd.as_str()), (known, cwd), "{begin_ns}");
        }
    }

    /// What is closed before a look takes no lock away that the look has shown.
    #[test]
    fn locks_are_those_of_the_look() {
        for (end_ns, held) in [(50, 1), (150, 0)] {
            let lock = HeldLock { kind: LockKind::Process, exclusive: true, begin: 0, end: 1 };
            let descriptor = |fd, locks| BeganDescriptor { fd, inode: 7, locks, ..BeganDescriptor::default() };
            let descriptors = vec![descriptor(3, vec![lock]), descriptor(4, Vec::new())];
            let process = BeganProcess { descriptors, descriptors_ns: 100, ..BeganProcess::default() };
            let mut before = Before {
                processes: vec![process],
                seen: vec![Vec::new()],
                mapped: vec![Began::default()],
                threads: [(1, 0)].into_iter().collect(),
                ..Before::default()
            };
            let mut heard = heard(10, end_ns);
            (heard.call.nr, heard.call.args[0]) = (3, 4);
            before.call(&heard);
            assert_eq!(before.processes[0].descriptors.len(), 1, "{end_ns}");
            assert_eq!(before.processes[0].descriptors[0].locks.len(), held, "{end_ns}");
        }
    }

    fn heard(begin_ns: u64, end_ns: u64) -> Heard {
        let record = crate::spool::record::Call { begin_ns, ..Default::default() };
        Heard {
            tid: 1,
            pid: 1,
            end_ns,
            call: record,
            narrow: false,
            objects: Default::default(),
            kept: Default::default(),
        }
    }
}
