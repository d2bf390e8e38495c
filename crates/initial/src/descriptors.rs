//! Descriptors, and those that were open at the beginning.

use std::cell::RefCell;
use std::rc::Rc;

use foldhash::{HashMap, HashSet};
use reprise_calls::brought::Brought;
use reprise_calls::mounts::{At, Mounts};
use reprise_calls::{Identity, Shown};

use super::decoded::Object;
use super::decoded::Stat;
use super::names::Names;
use super::node::{NodeId, Source, kind};
use super::outside::Described;
use super::resolve::{Beginning, Found};
use super::{Seat, World};

/// An open file description.
#[derive(Debug, Default)]
pub struct Description {
    /// The file, if it has a name.
    pub node: Option<NodeId>,
    /// The mount that it was reached through.
    pub mount: u32,
    /// One of the mounts of the namespace that it stands for (`/proc/PID/ns/mnt`).
    pub namespace: Option<u32>,
    /// The directory of `/proc` that it is, if parts of processes are reached from there.
    pub shown: Option<Shown>,
    /// What the file system holds that it configures (`fsopen`).
    pub configures: Option<Brought>,
    /// Where reads and writes go on.
    pub offset: u64,
    /// Whether writes go to the end.
    pub append: bool,
}

impl Description {
    /// The file as it is reached.
    pub fn at(&self) -> Option<At> {
        Some(At { mount: self.mount, node: self.node? })
    }

    /// Where paths begin that are relative to it.
    pub fn beginning(&self) -> Beginning {
        Beginning { start: self.at(), shown: self.shown }
    }
}

/// A table of descriptors.
#[derive(Debug, Default)]
pub struct Table {
    /// Open descriptors.
    pub open: HashMap<u32, Rc<RefCell<Description>>>,
    /// Threads that use it.
    pub users: u32,
    /// Root process that it descends from.
    pub origin: u32,
    /// Numbers that a call gave or closed: what they name now says nothing of the beginning.
    pub told: HashSet<u32>,
    /// Users and groups of the process that it belongs to, if they are known.
    pub owner: Option<(Identity, Identity)>,
    /// Number of that process, if this is the table that its first thread has.
    pub pid: Option<i32>,
    /// Its directories, then.
    pub places: u32,
}

impl Table {
    pub fn new(origin: u32) -> Table {
        Table { users: 1, origin, ..Table::default() }
    }

    /// The file behind a descriptor, if it is known.
    pub fn file(&self, fd: u32) -> Option<NodeId> {
        self.open.get(&fd)?.borrow().node
    }

    /// The file behind a descriptor as it is reached, if it is known.
    pub fn at(&self, fd: u32) -> Option<At> {
        self.open.get(&fd)?.borrow().at()
    }

    /// What a fork gives to the child.
    pub fn copy(&self) -> Table {
        Table { open: self.open.clone(), users: 1, told: self.told.clone(), pid: None, ..*self }
    }
}

/// A descriptor that was open at the beginning.
#[derive(Debug)]
pub struct InitialDescriptor {
    /// What it names, as `/proc/PID/fd` says.
    pub path: Vec<u8>,
    /// Type bits; 0 if not known.
    pub kind: u32,
    /// Its description.
    pub description: Rc<RefCell<Description>>,
    /// Its offset at the beginning, as far as known.
    pub offset: u64,
    /// Whether an operation on it showed which ways it is open: reading, writing.
    pub ways: (bool, bool),
}

/// A descriptor that is known to have been open at the beginning.
#[derive(Debug, Clone, Default)]
pub struct AtStart {
    /// Its number.
    pub fd: u32,
    /// The path of what it names; empty if that has none.
    pub path: Vec<u8>,
    /// What is known of the file.
    pub stat: Stat,
    /// Its offset.
    pub offset: u64,
    /// Whether writes go to the end.
    pub append: bool,
    /// Descriptors with the same number share one open file description.
    pub description: u64,
    /// Whether its content is wanted as that of a file that a call opens.
    pub is_shown: bool,
}

impl World {
    /// A descriptor that turns out to have been open at the beginning.
    pub fn was_open(&mut self, seat: Seat, row: AtStart) {
        self.open_at_start(seat, vec![row]);
    }

    /// A file that turns out to have been mapped at the beginning, as if it had been open.
    pub fn was_mapped(&mut self, file: &AtStart) {
        self.at_start(file);
    }

    /// Whether anything is known to be open at this number.
    pub fn is_open(&self, seat: Seat, fd: u32) -> bool {
        self.tables[seat.table as usize].open.contains_key(&fd)
    }

    /// The process of the beginning that a number was inherited from, if no call has given or closed it since.
    pub fn inherited_from(&self, seat: Seat, fd: u32) -> Option<u32> {
        let table = &self.tables[seat.table as usize];
        (!table.told.contains(&fd)).then_some(table.origin)
    }

    /// Takes in descriptors that were open at the beginning.
    pub(super) fn open_at_start(&mut self, seat: Seat, open: Vec<AtStart>) {
        let mut descriptions: HashMap<u64, Rc<RefCell<Description>>> = HashMap::default();
        for row in open {
            let description = match descriptions.get(&row.description) {
                Some(known) => known.clone(),
                None => {
                    let node = self.at_start(&row);
                    let (offset, append) = (row.offset, row.append);
                    let shown = Shown::at(&row.path);
                    let fresh = Description { node, offset, append, shown, ..Description::default() };
                    let fresh = Rc::new(RefCell::new(fresh));
                    descriptions.insert(row.description, fresh.clone());
                    fresh
                }
            };
            self.bind(seat, row.fd, description);
        }
    }

    fn at_start(&mut self, row: &AtStart) -> Option<NodeId> {
        if !row.path.starts_with(b"/") {
            return None;
        }
        let root = Mounts::first(Names::ROOT);
        let found = self.resolve(root, root, &row.path, false, true);
        let node = match (found.node, found.entry) {
            (Some(node), _) => node,
            (None, Some((directory, name))) => self.discover(directory, &name, row.stat.mode & 0o170000, true),
            (None, None) => return None,
        };
        self.learn(node, &row.stat);
        if row.is_shown && self.is_old(node) {
            self.becomes_visible(node, 0, u64::MAX, "opened");
        }
        Some(node)
    }

    /// The description behind a number; one that no call opened was open at the beginning.
    pub(super) fn description(
        &mut self,
        seat: Seat,
        fd: u32,
        annotation: Option<&[u8]>,
    ) -> Option<Rc<RefCell<Description>>> {
        if !self.tables[seat.table as usize].open.contains_key(&fd) || annotation.is_some() {
            self.met_descriptor(seat, fd, annotation);
        }
        self.tables[seat.table as usize].open.get(&fd).cloned()
    }

    /// A descriptor is spoken of: if no call made it, it was open at the beginning.
    pub(super) fn met_descriptor(&mut self, seat: Seat, fd: u32, annotation: Option<&[u8]>) {
        let origin = self.tables[seat.table as usize].origin;
        let open = self.tables[seat.table as usize].open.contains_key(&fd);
        if !open {
            if self.tables[seat.table as usize].told.contains(&fd) {
                self.note("a descriptor was opened by a call that is not in the log");
                return;
            }
            let description = match self.descriptors.get(&(origin, fd)) {
                Some(known) => known.description.clone(),
                None => {
                    let description = Rc::<RefCell<Description>>::default();
                    let initial = InitialDescriptor {
                        path: Vec::new(),
                        kind: 0,
                        description: description.clone(),
                        offset: 0,
                        ways: (false, false),
                    };
                    self.descriptors.insert((origin, fd), initial);
                    description
                }
            };
            self.tables[seat.table as usize].open.insert(fd, description);
        }
        if let Some(annotation) = annotation {
            self.annotate(origin, seat, fd, annotation);
        }
    }

    /// What strace says a descriptor is.
    fn annotate(&mut self, origin: u32, seat: Seat, fd: u32, annotation: &[u8]) {
        let Some(initial) = self.descriptors.get(&(origin, fd)).filter(|d| d.path.is_empty()) else { return };
        let same = self.tables[seat.table as usize].open.get(&fd).is_some_and(|d| Rc::ptr_eq(d, &initial.description));
        if !same {
            return;
        }
        let (path, kind) = match self.outside.descriptor(annotation) {
            Described::Nameless(text) => {
                let kind = nameless_kind(&text);
                (text, kind)
            }
            Described::Path { path, device } => {
                let device = if device { kind::CHARACTER } else { 0 };
                let root = Mounts::first(Names::ROOT);
                let found = self.resolve(root, root, &path, true, true);
                let node = match (found.node, found.entry) {
                    (Some(node), _) => Some(node),
                    (None, Some((directory, name))) => {
                        let guess = if device == 0 { kind::REGULAR } else { device };
                        Some(self.discover(directory, &name, guess, device != 0))
                    }
                    (None, None) => None,
                };
                if let Some(initial) = self.descriptors.get(&(origin, fd)) {
                    let mut description = initial.description.borrow_mut();
                    (description.node, description.shown) = (node, Shown::at(&path));
                }
                (path, device)
            }
        };
        if let Some(initial) = self.descriptors.get_mut(&(origin, fd)) {
            (initial.path, initial.kind) = (path, kind);
        }
    }

    /// A call has shown of which type a descriptor is that was open at the beginning.
    pub(super) fn descriptor_is(&mut self, seat: Seat, fd: u32, kind: u32) {
        if let Some(initial) = self.initially(seat, fd)
            && initial.kind == 0
        {
            initial.kind = kind;
        }
    }

    /// A call has shown which way a descriptor is open that was open at the beginning.
    pub(super) fn descriptor_goes(&mut self, seat: Seat, fd: u32, reads: bool, writes: bool) {
        if let Some(initial) = self.initially(seat, fd) {
            initial.ways = (initial.ways.0 | reads, initial.ways.1 | writes);
        }
    }

    /// A call has shown the offset of a descriptor that was open at the beginning, before any call moved it.
    pub(super) fn began_at(&mut self, seat: Seat, fd: u32, offset: u64) {
        if let Some(initial) = self.initially(seat, fd).filter(|i| i.offset == 0) {
            initial.offset = offset;
        }
    }

    fn initially(&mut self, seat: Seat, fd: u32) -> Option<&mut InitialDescriptor> {
        let table = &self.tables[seat.table as usize];
        let description = table.open.get(&fd)?;
        let initial = self.descriptors.get_mut(&(table.origin, fd))?;
        Rc::ptr_eq(description, &initial.description).then_some(initial)
    }

    /// A call made a descriptor.
    pub(super) fn bind(&mut self, seat: Seat, fd: u32, description: Rc<RefCell<Description>>) {
        let table = &mut self.tables[seat.table as usize];
        table.open.insert(fd, description);
        table.told.insert(fd);
    }

    /// A call made a descriptor of a file.
    pub(super) fn open_file(&mut self, seat: Seat, fd: u32, at: Option<At>, append: bool) {
        let (node, mount) = (at.map(|at| at.node), at.map_or(Mounts::FIRST, |at| at.mount));
        self.bind(seat, fd, Rc::new(RefCell::new(Description { node, mount, append, ..Description::default() })));
    }

    /// A descriptor is of what a path was found to lead to; where something else stands as `/proc`, it is a file like any.
    pub(super) fn shows(&mut self, seat: Seat, fd: u32, found: &Found) {
        let is_shown = |node: NodeId| self.names.node(node).filesystem_is_pseudo();
        let shown = found.shown.filter(|_| found.node.is_none_or(is_shown));
        if let (Some(shown), Some(description)) = (shown, self.tables[seat.table as usize].open.get(&fd)) {
            description.borrow_mut().shown = Some(shown);
        }
    }

    /// A call names an open file that no call opened here: it came by a message, and the kernel tells which it is.
    pub(super) fn recognise(&mut self, seat: Seat, object: &Object) {
        if self.tables[seat.table as usize].open.contains_key(&object.fd) {
            return;
        }
        if let Some(node) = self.names.identified(object.identity) {
            let description = Description { node: Some(node), offset: object.position, ..Description::default() };
            self.bind(seat, object.fd, Rc::new(RefCell::new(description)));
        }
    }

    /// The file behind a descriptor.
    pub(super) fn file(&mut self, seat: Seat, fd: u32, annotation: Option<&[u8]>) -> Option<NodeId> {
        self.description(seat, fd, annotation)?.borrow().node
    }

    /// The file behind a descriptor, if it is known; nothing is learnt from asking.
    pub(super) fn peek(&self, seat: Seat, fd: u32) -> Option<NodeId> {
        self.tables[seat.table as usize].file(fd)
    }

    /// The descriptors of the process with a number.
    pub(super) fn table_of(&self, pid: i32) -> Option<&Table> {
        self.tables.iter().find(|table| table.users > 0 && table.pid == Some(pid))
    }

    /// Whether a file may have been there at the beginning.
    pub(super) fn is_old(&self, node: NodeId) -> bool {
        self.names.node(node).source != Source::Made
    }
}

fn nameless_kind(annotation: &[u8]) -> u32 {
    if annotation.starts_with(b"pipe:") {
        kind::FIFO
    } else if annotation.starts_with(b"anon_inode:") {
        kind::REGULAR
    } else {
        kind::SOCKET
    }
}
