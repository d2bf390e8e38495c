//! Descriptor tables, open file descriptions, and the lives of descriptor numbers.

use std::collections::BTreeMap;

use reprise_calls::Shown;
use reprise_calls::brought::Brought;
use reprise_calls::locking::{HeldLock, LockKind};
use reprise_calls::mounts::At;

use crate::interpretation::Interpretation;
use crate::lead::{Beginning, Start};
use crate::listing::ListingState;
use crate::names::Names;
use crate::node::NodeId;
use crate::slab::Slab;
use crate::streams::Links;
use crate::touch::{DescriptionId, EntryId, Resource};

/// One life of a descriptor number in one table; never reused.
pub type Generation = u32;

/// What a descriptor-making action made: shared by the tables that inherited it. Reused by later actions once it ended.
pub type Binding = u32;

/// What a description without a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// A device, terminal, pseudo file, or unknown.
    Null,
    /// An end of a pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A counter, timer or handle.
    Event,
    /// An event set.
    Epoll,
    /// A watch queue.
    Watch,
}

impl StreamKind {
    /// What `/proc/PID/fd` shows for each kind that has no file.
    pub const fn nameless(self) -> &'static [u8] {
        match self {
            StreamKind::Null => b"anon_inode:[other]",
            StreamKind::Pipe => b"pipe:[0]",
            StreamKind::Socket => b"socket:[0]",
            StreamKind::Event => b"anon_inode:[eventfd]",
            StreamKind::Epoll => b"anon_inode:[eventpoll]",
            StreamKind::Watch => b"anon_inode:inotify",
        }
    }

    /// The kind of a descriptor that is no file, pipe or socket.
    pub(crate) fn of_nameless(path: &[u8]) -> StreamKind {
        const HANDLES: [&[u8]; 5] = [b"[eventfd]", b"[timerfd]", b"[signalfd]", b"[pidfd]", b"[userfaultfd]"];
        match path.strip_prefix(b"anon_inode:") {
            Some(b"[eventpoll]") => StreamKind::Epoll,
            Some(b"inotify") => StreamKind::Watch,
            Some(name) if HANDLES.contains(&name) => StreamKind::Event,
            _ => StreamKind::Null,
        }
    }
}

/// An open file description.
#[derive(Debug, Clone, Default)]
pub struct Description {
    /// The file, if it has one.
    pub node: Option<NodeId>,
    /// The mount that it was reached through.
    pub mount: u32,
    /// One of the mounts of the namespace that it stands for (`/proc/PID/ns/mnt`).
    pub namespace: Option<u32>,
    /// The directory of `/proc` that it is, if parts of processes are reached from there.
    pub shown: Option<Shown>,
    /// What the file system holds that it configures (`fsopen`).
    pub configures: Option<Brought>,
    /// The name it was opened under, if it has one.
    pub opened_as: Option<EntryId>,
    /// The path that it was opened by, where the model knows no file there.
    pub opened_by: Option<Box<[u8]>>,
    /// Set if its I/O is taken from the trace.
    pub stream: Option<StreamKind>,
    /// Flags of `open` and `F_SETFL`.
    pub flags: u64,
    /// Offset in bytes.
    pub offset: u64,
    /// For directories: how far it was listed.
    pub listing: ListingState,
    /// Its number as a resource; given by [`Descriptors::describe`].
    pub serial: DescriptionId,
    /// What flows through it.
    pub links: Links,
    /// Locks that it holds.
    pub locks: Vec<HeldLock>,
}

impl Description {
    /// Where paths begin that are relative to it.
    pub(crate) fn beginning(&self) -> Beginning {
        let at = self.node.map(|node| At { mount: self.mount, node });
        let start = at.map(|at| Start { at, is_replayed: self.stream.is_none(), is_root: false });
        Beginning { start, shown: self.shown }
    }
}

/// A descriptor.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    pub generation: Generation,
    pub binding: Binding,
    pub description: u32,
    pub close_on_exec: bool,
    /// When the call began that made it.
    pub since_ns: u64,
}

/// A descriptor table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub slots: BTreeMap<u32, Slot>,
    /// Threads that use it.
    pub users: u32,
    /// More than one thread used it at some time.
    pub shared: bool,
    /// A thread of the same process left it for a copy, or it is such a copy.
    pub left: bool,
    /// Locks that its process holds, by file.
    pub locks: BTreeMap<NodeId, Vec<HeldLock>>,
}

/// All tables, descriptions and bindings.
#[derive(Debug, Default)]
pub struct Descriptors {
    pub tables: Slab<Table>,
    pub descriptions: Vec<Description>,
    /// For each binding: tables that hold it, and whether more than one ever did.
    bindings: Slab<(u32, bool)>,
    /// Bindings that ended with the present action.
    ended: Vec<Binding>,
    /// Descriptions that began with the present action.
    begun: Vec<u32>,
    /// What descriptions that ended with the present action named.
    let_go: Vec<Description>,
    free_descriptions: Vec<u32>,
    /// For each description: descriptors that name it, and whether more than one ever did.
    description_users: Vec<(u32, bool)>,
    pub generations: Generation,
    descriptions_made: DescriptionId,
}

impl Descriptors {
    pub fn describe(&mut self, mut description: Description) -> u32 {
        description.serial = self.descriptions_made;
        self.descriptions_made += 1;
        let id = match self.free_descriptions.pop() {
            Some(id) => {
                self.descriptions[id as usize] = description;
                self.description_users[id as usize] = (0, false);
                id
            }
            None => {
                self.descriptions.push(description);
                self.description_users.push((0, false));
                (self.descriptions.len() - 1) as u32
            }
        };
        self.begun.push(id);
        id
    }

    /// Opens a number with a new binding.
    pub fn open(&mut self, table: u32, fd: u32, description: u32, close_on_exec: bool) -> Slot {
        let binding = self.bindings.insert((1, false));
        let slot = Slot { generation: self.generations, binding, description, close_on_exec, since_ns: 0 };
        self.generations += 1;
        self.use_description(description);
        self.tables[table as usize].slots.insert(fd, slot);
        slot
    }

    /// Ends a number. Returns what it was and whether its binding ended, never having been shared.
    pub fn close(&mut self, table: u32, fd: u32) -> Option<(Slot, bool)> {
        let slot = self.tables[table as usize].slots.remove(&fd)?;
        let locks = &mut self.tables[table as usize].locks;
        if let (false, Some(node)) = (locks.is_empty(), self.descriptions[slot.description as usize].node) {
            // Whichever descriptor of the file it is.
            locks.remove(&node);
        }
        self.release(slot.description);
        let (tables, shared) = &mut self.bindings[slot.binding as usize];
        *tables -= 1;
        if *tables == 0 {
            self.ended.push(slot.binding);
        }
        Some((slot, *tables == 0 && !*shared))
    }

    /// What the holder of a lock of this kind has, that was taken by a descriptor of a table.
    pub fn locks_of(&mut self, kind: LockKind, table: u32, description: u32, node: NodeId) -> &mut Vec<HeldLock> {
        match kind {
            LockKind::Process => self.tables[table as usize].locks.entry(node).or_default(),
            LockKind::Range | LockKind::Whole => &mut self.descriptions[description as usize].locks,
        }
    }

    /// A copy of a table, as `fork` makes it.
    pub fn copy_table(&mut self, table: u32) -> u32 {
        let mut copy = self.tables[table as usize].clone();
        copy.users = 0;
        (copy.shared, copy.left) = (false, false);
        copy.locks.clear();
        for slot in copy.slots.values_mut() {
            slot.generation = self.generations;
            self.generations += 1;
            let users = &mut self.description_users[slot.description as usize];
            *users = (users.0 + 1, true);
            self.bindings[slot.binding as usize].0 += 1;
            self.bindings[slot.binding as usize].1 = true;
        }
        self.tables.insert(copy)
    }

    fn use_description(&mut self, description: u32) {
        let (users, shared) = &mut self.description_users[description as usize];
        *shared |= *users > 0;
        *users += 1;
    }

    /// A description is on its way to another table.
    pub fn hold(&mut self, description: u32) {
        self.use_description(description);
    }

    /// It has arrived, or is lost. Returns whether nothing names it any more.
    pub fn release(&mut self, description: u32) -> bool {
        let (users, _) = &mut self.description_users[description as usize];
        *users = users.saturating_sub(1);
        let free = *users == 0;
        if free {
            let ended = &mut self.descriptions[description as usize];
            ended.listing = ListingState::default();
            self.let_go.push(ended.clone());
            self.free_descriptions.push(description);
        }
        free
    }

    /// Whether a descriptor, or a message, names it.
    pub fn is_named(&self, description: u32) -> bool {
        self.description_users[description as usize].0 > 0
    }

    /// A life of a descriptor that stands in no table.
    pub fn new_life(&mut self) -> Generation {
        self.generations += 1;
        self.generations - 1
    }

    /// Whether several descriptors have an offset and flags in common, or had.
    pub fn is_shared(&self, description: u32) -> bool {
        self.description_users[description as usize].1
    }

    /// Whether a table has a descriptor with this binding.
    pub fn binds(&self, table: u32, binding: Binding) -> bool {
        self.tables[table as usize].slots.values().any(|slot| slot.binding == binding)
    }

    /// After an action: files and names are held by the descriptions that name them; numbers may be used again.
    pub fn settle(&mut self, names: &mut Names, out: &mut Interpretation) {
        for id in self.begun.drain(..) {
            let description = &self.descriptions[id as usize];
            description.node.into_iter().for_each(|node| names.hold(node));
            description.opened_as.into_iter().for_each(|entry| names.hold_entry(entry));
        }
        for description in self.let_go.drain(..) {
            description.node.into_iter().for_each(|node| names.release(node));
            description.opened_as.into_iter().for_each(|entry| names.release_entry(entry));
            out.dead.extend([Resource::Offset(description.serial), Resource::Flags(description.serial)]);
        }
        self.ended.drain(..).for_each(|binding| self.bindings.remove(binding));
    }

    pub fn get(&self, table: u32, fd: u64) -> Option<Slot> {
        let fd = u32::try_from(fd & 0xffff_ffff).ok()?;
        self.tables[table as usize].slots.get(&fd).copied()
    }
}
