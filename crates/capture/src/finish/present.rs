//! Processes that were there at the beginning, or came in later from outside: their rows, and those of what they had open.
//!
//! Goals: several processes, of several users, that share descriptions; files that had lost their names already; who did
//! nothing can be left out. Non-goals: what was there exactly at the beginning (`before`).

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use foldhash::HashMap;
use reprise_calls::Identity;
use reprise_calls::sharing::SHARE_BOTH;
use reprise_initial::{AtStart, Seat, Stat};
use reprise_trace::{DataPolicy, Descriptor, Lock, Loss, Name, Process, TreeNode};

use super::before::of_object;
use super::decode::Pending;
use super::lives::Life;
use super::look::Live;
use super::opened::Opened;
use super::write::Writing;
use crate::spool::{BeganDescriptor, BeganProcess, Begin, OPEN};
use crate::sys::{self, FileId, HERE};
use crate::world::range;

/// What the kernel says behind the path of a directory that is none any more.
const REMOVED: &str = " (deleted)";
/// `f_type` of an ordinary file system (ext4).
const ORDINARY: u64 = 0xef53;

/// What is known of them beside the records.
#[derive(Debug, Default)]
pub struct Present {
    /// They ran before the recording.
    pub attached: bool,
    /// Their descriptors.
    pub opened: Opened,
    leave_idle_out: bool,
    /// Processes that have done nothing yet, with the seats of their threads; by number.
    idle: HashMap<i32, (BeganProcess, Vec<Seat>)>,
    /// Threads of these.
    idle_threads: HashMap<i32, i32>,
    /// The rows of processes that no call made, by number of the process: those made since inherit their descriptors.
    pub roots: HashMap<u32, u32>,
    /// Processes that came in later, by thread, in the order in which they came: a number may be given again.
    joined: HashMap<i32, VecDeque<Rc<BeganProcess>>>,
    /// What a second look at descriptors has shown, by table and number.
    again: HashMap<(u32, u32), BeganDescriptor>,
    /// Files that were met when processes were looked at, and have a name; by identity.
    met: HashMap<(u64, u64), BeganDescriptor>,
    /// Files without a name, by identity: the names that stand for them.
    nameless: HashMap<(u64, u64), String>,
    /// Files whose content was copied, and whether that is all of it.
    copied: HashMap<(u64, u64), bool>,
    /// Copies that no action has reached yet: when they were made, since the beginning.
    ahead: Vec<(u64, BeganDescriptor)>,
    copies: PathBuf,
    began_ns: u64,
    tables: Common,
    directories: Common,
}

/// What processes share, by its number in the spool.
#[derive(Debug, Default)]
struct Common {
    /// The seat of one that has it.
    seats: HashMap<u64, Seat>,
    /// The first process of the trace that has it.
    processes: HashMap<u64, u32>,
}

impl Common {
    /// An earlier process of the trace that has it, if there is one; else it is this one.
    fn earlier(&mut self, number: Option<u64>, process: u32) -> Option<u32> {
        let first = *self.processes.entry(number?).or_insert(process);
        (first != process).then_some(first)
    }
}

impl Present {
    /// As a recording began.
    pub fn new(begin: &Begin, spool: &Path) -> Present {
        let mut joined: HashMap<i32, VecDeque<Rc<BeganProcess>>> = HashMap::default();
        for process in begin.joined.iter().cloned().map(Rc::new) {
            for (tid, _) in &process.threads {
                joined.entry(*tid).or_default().push_back(process.clone());
            }
        }
        Present {
            attached: begin.attached,
            leave_idle_out: begin.leave_idle_out,
            joined,
            copies: spool.join(OPEN),
            began_ns: begin.monotonic_ns,
            ..Present::default()
        }
    }

    /// The path under which a file stands that had lost its name.
    pub fn hidden(&self, file: (u64, u64)) -> Option<Name> {
        self.nameless.get(&file).map(|name| Name(format!("/{name}").into_bytes()))
    }

    /// Whether all that a file held at the beginning was copied, by whatever name it is met.
    pub fn is_copied(&self, file: (u64, u64)) -> bool {
        self.copied.get(&file).is_some_and(|is_all| *is_all)
    }

    /// A thread has ended.
    pub fn forget(&mut self, tid: i32) {
        let Some(pid) = self.idle_threads.remove(&tid) else { return };
        if !self.idle_threads.values().any(|other| *other == pid) {
            self.idle.remove(&pid);
        }
    }
}

impl Writing {
    /// Writes who and what was there at the beginning.
    pub fn begins_with(&mut self, processes: &[BeganProcess]) {
        for process in processes {
            let seats = self.seats(process);
            // What one holds that does nothing others may meet.
            let holds = process.descriptors.iter().any(|d| !d.locks.is_empty());
            if self.present.leave_idle_out && !holds {
                self.present.idle_threads.extend(process.threads.iter().map(|(tid, _)| (*tid, process.pid)));
                self.present.idle.insert(process.pid, (process.clone(), seats));
            } else {
                self.rows(process, &seats, 0);
            }
        }
    }

    /// A thread that lives; one that has been idle has a row from now on.
    pub(super) fn known(&mut self, tid: i32) -> Option<Life> {
        if let Some(life) = self.lives.get(tid) {
            return Some(life);
        }
        let pid = *self.present.idle_threads.get(&tid)?;
        let (process, seats) = self.present.idle.remove(&pid)?;
        let gone = |tid: &i32| !self.present.idle_threads.contains_key(tid);
        let ended: Vec<i32> = process.threads.iter().map(|(tid, _)| *tid).filter(gone).collect();
        self.present.idle_threads.retain(|_, of| *of != pid);
        let alive = process.threads.iter().zip(seats).filter(|((tid, _), _)| !ended.contains(tid));
        let (threads, seats): (Vec<_>, Vec<_>) = alive.map(|(thread, seat)| (thread.clone(), seat)).unzip();
        self.rows(&BeganProcess { threads, ..process }, &seats, 0);
        self.lives.get(tid)
    }

    /// A thread of a process that came in from outside.
    pub(super) fn joined(&mut self, tid: i32, begin_ns: u64) -> Option<Life> {
        let process = self.present.joined.get_mut(&tid)?.pop_front()?;
        for (other, _) in &process.threads {
            let of_other = self.present.joined.get_mut(other);
            of_other.into_iter().for_each(|list| list.retain(|listed| !Rc::ptr_eq(listed, &process)));
        }
        self.log.note("a process that came into the scope while it was recorded");
        let seats = self.seats(&process);
        self.rows(&process, &seats, begin_ns);
        self.lives.get(tid)
    }

    /// Where a process works; what was removed has no place in the initial tree.
    fn directory(&self, process: &BeganProcess) -> Name {
        match self.present.attached && process.cwd.ends_with(REMOVED) {
            true => Name::from("/"),
            false => Name::from_text(&process.cwd),
        }
    }

    /// What the threads of a process see of the world.
    fn seats(&mut self, process: &BeganProcess) -> Vec<Seat> {
        let of = |number: Option<u64>, common: &Common| number.and_then(|number| common.seats.get(&number).copied());
        let table = of(process.table, &self.present.tables);
        let directories = of(process.directories, &self.present.directories);
        let open: Vec<AtStart> = match table {
            Some(_) => Vec::new(),
            None => process.descriptors.iter().map(|d| self.at_start(d)).collect(),
        };
        let number = process.pid.unsigned_abs();
        let cwd = self.directory(process);
        if *cwd != *Name::from_text(&process.cwd) {
            self.log.note("a process worked in a directory that had been removed: it begins in the root directory");
        }
        let first = self.world.begin_with_shared(number, Some(&cwd), open, (table, directories));
        for file in &process.held {
            let file = self.at_start(file);
            self.world.was_mapped(&file);
        }
        self.world.numbered(first, process.pid);
        self.present.tables.seats.extend(process.table.map(|number| (number, first)));
        self.present.directories.seats.extend(process.directories.map(|number| (number, first)));
        if !process.uids.is_empty() {
            let [users, groups] = [&process.uids, &process.gids].map(|list| Identity::from_list(list));
            self.world.belongs(first, users, groups);
        }
        let others = process.threads.len().saturating_sub(1);
        std::iter::once(first).chain((0..others).map(|_| self.world.fork(first, SHARE_BOTH))).collect()
    }

    /// Writes the rows of a process.
    fn rows(&mut self, process: &BeganProcess, seats: &[Seat], begin_ns: u64) {
        let Some(first) = seats.first().copied() else { return };
        let (number, table) = (self.lives.next_process(), first.table());
        let name = |text: &String| Name::from_text(text);
        let row = Process {
            pid: process.pid,
            uids: process.uids.clone(),
            gids: process.gids.clone(),
            groups: process.groups.clone(),
            umask: process.umask,
            cwd: self.directory(process),
            root: name(&process.root),
            executable: name(&process.executable),
            directories_of: self.present.directories.earlier(process.directories, number),
            descriptors_of: self.present.tables.earlier(process.table, number),
            ..Process::default()
        };
        let table_of = row.descriptors_of;
        self.present.opened.process(table, number, table_of);
        self.present.roots.insert(process.pid.unsigned_abs(), number);
        self.lives.found_process(row, &mut self.log);
        for d in process.descriptors.iter().filter(|_| table_of.is_none()) {
            let row = self.descriptor(number, d);
            self.present.opened.add(table, row);
            self.locks(number, first, d);
        }
        let again = process.again.descriptors.iter();
        self.present.again.extend(again.map(|d| ((table, d.fd), d.clone())));
        for ((tid, thread), seat) in process.threads.iter().zip(seats) {
            self.lives.found_thread(process.pid, *tid, name(thread), begin_ns, *seat, &mut self.log);
        }
        self.mappings(number, process);
    }

    /// Writes the locks that were taken by a descriptor.
    fn locks(&mut self, process: u32, seat: Seat, d: &BeganDescriptor) {
        for lock in &d.locks {
            self.teller.lock_began(seat, (d.device, d.inode), lock);
            self.log.lock(Lock::of(process, d.fd, lock));
        }
    }

    fn descriptor(&mut self, process: u32, d: &BeganDescriptor) -> Descriptor {
        let hidden = self.present.hidden((d.device, d.inode)).filter(|_| d.nameless);
        Descriptor {
            process,
            fd: d.fd,
            path: hidden.unwrap_or_else(|| Name::from_text(&d.path)),
            kind: d.mode & libc::S_IFMT,
            flags: d.flags,
            offset: d.position,
            device: d.device,
            inode: d.inode,
            description: d.description,
            seals: d.seals,
        }
    }

    /// A descriptor as the inference of the initial tree takes it. What is known of its file now is written.
    fn at_start(&mut self, d: &BeganDescriptor) -> AtStart {
        if !d.nameless && d.path.starts_with('/') {
            self.present.met.insert((d.device, d.inode), d.clone());
        }
        let (path, identity) = (Name::from_text(&d.path), Some((d.device, d.inode)));
        let attached = self.present.attached;
        let nameless = if attached { d.nameless } else { is_nameless(&path, d, &self.live) };
        let copied = attached && self.content(d);
        if attached && d.nameless && d.mode & libc::S_IFMT == libc::S_IFREG {
            self.hide(d);
        }
        let stat = match attached {
            true => Stat {
                complete: true,
                mode: d.mode,
                size: Some(d.size),
                identity,
                links: Some(d.links),
                owner: Some(d.owner),
                device: None,
                times: d.times.map(Some),
            },
            false => Stat { mode: d.mode, identity, ..Stat::default() },
        };
        AtStart {
            fd: d.fd,
            path: if nameless { Vec::new() } else { path.0 },
            stat,
            offset: d.position,
            append: d.flags & libc::O_APPEND as u64 != 0,
            description: d.description,
            is_shown: attached && !copied,
        }
    }

    /// A file without a name stands in the initial tree under one that no program looks for.
    fn hide(&mut self, d: &BeganDescriptor) {
        let next = self.present.nameless.len() + 1;
        let std::collections::hash_map::Entry::Vacant(place) = self.present.nameless.entry((d.device, d.inode)) else {
            return;
        };
        let name = place.insert(format!(".reprise-nameless-{next}")).clone();
        self.log.node(TreeNode {
            name: Name::from(name.as_str()),
            device: d.device,
            inode: d.inode,
            mode: d.mode,
            nlink: d.links,
            uid: d.owner.0,
            gid: d.owner.1,
            size: d.size,
            atime_ns: d.times[0],
            mtime_ns: d.times[1],
            ctime_ns: d.times[2],
            filesystem: ORDINARY,
            ..TreeNode::default()
        });
        if d.copy.is_none() && d.size > 0 && self.log.policy() != DataPolicy::None {
            let cause = "content of a file without a name that was open, and is too large to be kept whole";
            self.log.loss(Loss::Truncated, cause, d.size);
        }
    }

    /// Whether all of a file was copied; it is written when the actions have reached that instant: what they had done by
    /// then was not there at the beginning.
    fn content(&mut self, d: &BeganDescriptor) -> bool {
        let present = &mut self.present;
        let Some(copy) = d.copy else { return false };
        *present.copied.entry((d.device, d.inode)).or_insert_with(|| {
            let length = std::fs::metadata(present.copies.join(copy.to_string())).map_or(0, |m| m.len());
            present.ahead.push((d.copied_ns.saturating_sub(present.began_ns), d.clone()));
            length >= d.size
        })
    }

    /// Writes what had been copied until an instant.
    pub(super) fn copied_until(&mut self, at_ns: u64) {
        if self.present.ahead.is_empty() {
            return;
        }
        let (mut due, ahead): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.present.ahead).into_iter().partition(|(copied_ns, _)| *copied_ns < at_ns);
        self.present.ahead = ahead;
        due.sort_by_key(|(copied_ns, _)| *copied_ns);
        for (_, d) in due {
            let copy = self.present.copies.join(d.copy.unwrap_or(0).to_string());
            let Ok(file) = File::open(copy) else { continue };
            let length = file.metadata().map_or(0, |m| m.len()).min(d.size);
            let id = FileId { device: d.device, inode: d.inode };
            self.log.seen_now(|log| range(&file, id, (0, length), "opened", log));
        }
    }

    /// Holds what was looked at against what a call tells.
    pub(super) fn prove(&mut self, life: &Life, pending: &Pending) {
        if !self.present.attached {
            return;
        }
        let (seat, table) = (life.seat, life.seat.table());
        let world = &self.world;
        let unknown = self.present.opened.prove(table, pending, |fd| world.is_open(seat, fd), &mut self.log);
        for object in unknown {
            let description = self.present.opened.next_description();
            let fd = object.fd as u32;
            let identity = (object.device, object.inode);
            let again = self.present.again.get(&(table, fd)).filter(|d| (d.device, d.inode) == identity);
            let d = match again.or_else(|| self.present.met.get(&identity)).cloned() {
                Some(seen) => {
                    let (flags, position) = (object.flags.into(), object.position as u64);
                    BeganDescriptor { fd, flags, description, position, ..seen }
                }
                None => of_object(&object, description),
            };
            self.log.note("a descriptor that was met only when a call named it");
            let at_start = self.at_start(&d);
            let root = self.world.inherited_from(seat, fd).and_then(|pid| self.present.roots.get(&pid).copied());
            self.world.was_open(seat, at_start);
            let Some(own) = self.lives.process(life.pid) else { continue };
            match root.filter(|process| *process != own || self.present.opened.is_inherited(own, fd)) {
                Some(process) => {
                    let row = self.descriptor(process, &d);
                    self.present.opened.inherit(row);
                }
                None => {
                    let row = self.descriptor(own, &d);
                    self.present.opened.add(table, row);
                    self.present.opened.proved(table, fd);
                }
            }
        }
    }

    /// Writes the descriptors, and content that no action has reached.
    pub(super) fn settle_present(&mut self) {
        self.copied_until(u64::MAX);
        let idle = self.present.idle.len() as u64;
        self.log.note_several("processes that did nothing while they were recorded, and are left out", idle);
        std::mem::take(&mut self.present.opened).write(&mut self.log);
    }
}

/// Whether a descriptor's path is none: its file had lost its name already, or has lost it since.
fn is_nameless(path: &Name, descriptor: &BeganDescriptor, live: &Live) -> bool {
    let plain = matches!(descriptor.mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR);
    let stands = live.path(path).and_then(|path| sys::stat_at(HERE, &path, 0).ok());
    plain && stands.is_none_or(|stat| (stat.id.device, stat.id.inode) != (descriptor.device, descriptor.inode))
}
