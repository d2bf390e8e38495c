//! Descriptor tables, open file descriptions, and the lives of descriptor numbers.

use std::collections::BTreeMap;

use crate::listing::ListingState;
use crate::node::NodeId;
use crate::touch::EntryId;

/// One life of a descriptor number in one table; never reused.
pub type Generation = u32;

/// What a descriptor-making action made: shared by the tables that inherited it; never reused.
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

/// An open file description.
#[derive(Debug, Clone)]
pub struct Description {
    /// The file, if it has one.
    pub node: Option<NodeId>,
    /// The name it was opened under, if it has one.
    pub opened_as: Option<EntryId>,
    /// Set if its I/O is taken from the trace.
    pub stream: Option<StreamKind>,
    /// Flags of `open` and `F_SETFL`.
    pub flags: u64,
    /// Offset in bytes.
    pub offset: u64,
    /// For directories: how far it was listed.
    pub listing: ListingState,
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
}

/// All tables, descriptions and bindings.
#[derive(Debug, Default)]
pub struct Descriptors {
    pub tables: Vec<Table>,
    pub descriptions: Vec<Description>,
    /// For each binding: tables that hold it, and whether more than one ever did.
    pub bindings: Vec<(u32, bool)>,
    free_descriptions: Vec<u32>,
    /// For each description: descriptors that name it, and whether more than one ever did.
    description_users: Vec<(u32, bool)>,
    pub generations: Generation,
}

impl Descriptors {
    pub fn describe(&mut self, description: Description) -> u32 {
        if let Some(id) = self.free_descriptions.pop() {
            self.descriptions[id as usize] = description;
            self.description_users[id as usize] = (0, false);
            return id;
        }
        self.descriptions.push(description);
        self.description_users.push((0, false));
        (self.descriptions.len() - 1) as u32
    }

    /// Opens a number with a new binding.
    pub fn open(&mut self, table: u32, fd: u32, description: u32, close_on_exec: bool) -> Slot {
        self.bindings.push((1, false));
        let binding = (self.bindings.len() - 1) as Binding;
        let slot = Slot { generation: self.generations, binding, description, close_on_exec, since_ns: 0 };
        self.generations += 1;
        self.use_description(description);
        self.tables[table as usize].slots.insert(fd, slot);
        slot
    }

    /// Ends a number. Returns what it was and whether its binding ended, never having been shared.
    pub fn close(&mut self, table: u32, fd: u32) -> Option<(Slot, bool)> {
        let slot = self.tables[table as usize].slots.remove(&fd)?;
        let (users, _) = &mut self.description_users[slot.description as usize];
        *users -= 1;
        if *users == 0 {
            self.free_descriptions.push(slot.description);
        }
        let (tables, shared) = &mut self.bindings[slot.binding as usize];
        *tables -= 1;
        Some((slot, *tables == 0 && !*shared))
    }

    /// A copy of a table, as `fork` makes it.
    pub fn copy_table(&mut self, table: u32) -> u32 {
        let mut copy = self.tables[table as usize].clone();
        copy.users = 0;
        (copy.shared, copy.left) = (false, false);
        for slot in copy.slots.values_mut() {
            slot.generation = self.generations;
            self.generations += 1;
            let users = &mut self.description_users[slot.description as usize];
            *users = (users.0 + 1, true);
            self.bindings[slot.binding as usize].0 += 1;
            self.bindings[slot.binding as usize].1 = true;
        }
        self.tables.push(copy);
        (self.tables.len() - 1) as u32
    }

    fn use_description(&mut self, description: u32) {
        let (users, shared) = &mut self.description_users[description as usize];
        *shared |= *users > 0;
        *users += 1;
    }

    /// Whether several descriptors have an offset and flags in common, or had.
    pub fn is_shared(&self, description: u32) -> bool {
        self.description_users[description as usize].1
    }

    /// Whether anything has this file open.
    pub fn holds(&self, node: NodeId) -> bool {
        let mut described = self.descriptions.iter().zip(&self.description_users);
        described.any(|(description, (users, _))| *users > 0 && description.node == Some(node))
    }

    pub fn get(&self, table: u32, fd: u64) -> Option<Slot> {
        let fd = u32::try_from(fd & 0xffff_ffff).ok()?;
        self.tables[table as usize].slots.get(&fd).copied()
    }
}
