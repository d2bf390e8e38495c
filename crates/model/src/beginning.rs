//! What processes begin with that no action started: descriptors, directories, memory.
//!
//! Goals: what several share is one; files are those of the initial tree. Non-goals: the tree itself (`initial`).

use std::collections::{BTreeMap, HashMap};

use reprise_calls::locking::take;
use reprise_calls::memory::{SHARED, WRITE};
use reprise_calls::mounts::Mounts;
use reprise_calls::{Identity, Shown};
use reprise_trace::{Descriptor as DescriptorRow, Lock, Mapping as MappingRow, Process, ReadError, TraceReader};

use crate::descriptors::{Description, Slot, StreamKind, Table};
use crate::initial::components;
use crate::listing::ListingState;
use crate::mapping::{MappingId, Region, Space, whole_pages};
use crate::node::{FileKind, Nature, NodeId};
use crate::processes::{Directories, Thread};
use crate::world::World;

/// What the trace tells of the beginning beside the tree.
pub(crate) struct AtStart {
    descriptors: Vec<DescriptorRow>,
    locks: Vec<Lock>,
    mappings: Vec<MappingRow>,
}

impl AtStart {
    pub fn read(trace: &TraceReader) -> Result<AtStart, ReadError> {
        Ok(AtStart { descriptors: trace.descriptors()?, locks: trace.locks()?, mappings: trace.mappings()? })
    }
}

/// What a process begins with, for the plan.
#[derive(Debug, Default)]
pub(crate) struct Start {
    descriptors: Vec<InitialDescriptor>,
    mappings: Vec<InitialMapping>,
}

/// A descriptor before the first action, for the plan.
#[derive(Debug, Clone)]
pub struct InitialDescriptor {
    /// Its binding.
    pub binding: u32,
    /// An earlier binding whose open file description it shares.
    pub shares: Option<u32>,
    /// What it is if it is no file of the tree.
    pub stream: Option<StreamKind>,
    /// Path of the file.
    pub path: Vec<u8>,
    /// Flags of `open`.
    pub flags: u64,
    /// Offset in bytes.
    pub offset: u64,
    /// Locks that were taken by it.
    pub locks: Vec<Lock>,
    /// Of a file in memory: its seals.
    pub seals: Option<u32>,
}

/// A mapping before the first action, for the plan.
#[derive(Debug, Clone)]
pub struct InitialMapping {
    /// Its number.
    pub mapping: MappingId,
    /// Path of the file.
    pub path: Vec<u8>,
    /// Its length in bytes, whole pages.
    pub length: u64,
    /// As `mmap` is given it.
    pub protection: u32,
    /// `MAP_SHARED` or `MAP_PRIVATE`.
    pub flags: u32,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
}

impl World {
    /// What the threads of a process begin with that no action started. `begun` holds earlier ones, for it to share with;
    /// `shared`, for each description of the trace, what it became and the first binding to it.
    pub(crate) fn start_process(
        &mut self,
        process: &Process,
        begun: &BTreeMap<u32, Thread>,
        rows: &AtStart,
        shared: &mut HashMap<u64, (u32, u32)>,
    ) -> Thread {
        let earlier = |of: Option<u32>| of.and_then(|of| begun.get(&of));
        let directories = match earlier(process.directories_of) {
            Some(other) => other.directories,
            None => {
                let (root, cwd) = (self.directory_at(&process.root), self.directory_at(&process.cwd));
                self.directories.insert(Directories {
                    cwd: Mounts::first(cwd),
                    root: Mounts::first(root),
                    shown: Shown::at(&process.cwd).map(|shown| shown.by_numbers(process.pid, process.pid)),
                    replayed_cwd: cwd,
                    replayed_root: root,
                    umask: process.umask,
                    users: 0,
                    shared: false,
                })
            }
        };
        let table = match earlier(process.descriptors_of) {
            Some(other) => other.table,
            None => self.start_table(process, rows, shared),
        };
        self.further_groups.insert(process.process, process.groups.as_slice().into());
        Thread {
            process: process.process,
            table,
            directories,
            space: self.start_space(process.process, &rows.mappings),
            users: Identity::from_list(&process.uids),
            groups: Identity::from_list(&process.gids),
            foreign_users: false,
        }
    }

    /// The descriptor table of a process that no action started.
    fn start_table(&mut self, of: &Process, rows: &AtStart, shared: &mut HashMap<u64, (u32, u32)>) -> u32 {
        let process = of.process;
        let table = self.descriptors.tables.insert(Table::default());
        let mut start = Vec::new();
        for row in rows.descriptors.iter().filter(|d| d.process == process) {
            let earlier = shared.get(&row.description).copied();
            let description = match earlier {
                Some((description, _)) => description,
                None => self.initial_description(row, of.pid),
            };
            let slot: Slot = self.descriptors.open(table, row.fd, description, row.flags & 0o2000000 != 0);
            shared.entry(row.description).or_insert((description, slot.binding));
            let locks: Vec<Lock> =
                rows.locks.iter().filter(|l| (l.process, l.fd) == (process, row.fd)).cloned().collect();
            locks.iter().for_each(|lock| self.begin_lock(table, description, lock));
            start.push(InitialDescriptor {
                binding: slot.binding,
                shares: earlier.map(|(_, binding)| binding),
                stream: self.descriptors.descriptions[description as usize].stream,
                path: row.path.to_vec(),
                flags: row.flags,
                offset: row.offset,
                locks,
                seals: row.seals,
            });
        }
        self.starts.entry(process).or_default().descriptors = start;
        table
    }

    /// A lock that a process, or an open file of it, holds at the beginning.
    fn begin_lock(&mut self, table: u32, description: u32, row: &Lock) {
        let node = self.descriptors.descriptions[description as usize].node;
        let (Some(lock), Some(node)) = (row.held(), node) else { return };
        self.names.node_mut(node).locked = true;
        take(self.descriptors.locks_of(lock.kind, table, description, node), lock);
    }

    /// The address space of a process that no action started, with what it has mapped of files of the initial tree.
    fn start_space(&mut self, process: u32, mappings: &[MappingRow]) -> u32 {
        let mut space = Space::of(0);
        let mut start = Vec::new();
        for row in mappings.iter().filter(|row| row.process == process) {
            let node = self.initial.keys.get(&(row.device, row.inode)).copied();
            let kept = |n: &NodeId| self.names.node(*n).kind == FileKind::Regular;
            let ordinary = |n: &NodeId| matches!(self.names.node(*n).nature, Nature::Ordinary);
            let Some(node) = node.filter(kept).filter(ordinary) else { continue };
            let (mapping, length) = (self.mappings, whole_pages(row.length));
            self.mappings += 1;
            let stores = row.flags & SHARED != 0 && row.protection & WRITE != 0;
            let n = self.names.node_mut(node);
            n.was_mapped = true;
            n.mapped |= stores && !self.stores_recorded;
            let region = Region {
                length,
                mapping,
                delta: 0,
                whole: length,
                owned: true,
                node,
                offset: row.offset,
                shared: stores,
                protection: row.protection,
                flags: row.flags,
            };
            space.map(row.address, region);
            start.push(InitialMapping {
                mapping,
                path: row.path.to_vec(),
                length,
                protection: row.protection,
                flags: row.flags,
                offset: row.offset,
            });
        }
        self.starts.entry(process).or_default().mappings = start;
        self.spaces.insert(space)
    }

    fn initial_description(&mut self, row: &DescriptorRow, pid: i32) -> u32 {
        let node = self.initial.keys.get(&(row.device, row.inode)).copied();
        let node = node.filter(|n| {
            matches!(FileKind::from_mode(row.kind), FileKind::Regular | FileKind::Directory | FileKind::CharDevice)
                && matches!(self.names.node(*n).nature, Nature::Ordinary | Nature::SafeDevice | Nature::RandomDevice)
        });
        let stream = match (node, FileKind::from_mode(row.kind)) {
            (Some(_), _) => None,
            (None, FileKind::Fifo) => Some(StreamKind::Pipe),
            (None, FileKind::Socket) => Some(StreamKind::Socket),
            (None, _) => Some(StreamKind::of_nameless(&row.path)),
        };
        if let Some(node) = node.filter(|_| row.seals.is_some()) {
            self.names.node_mut(node).seals = row.seals;
        }
        // Where a directory's listing stands is the file system's own: from the middle it is not compared.
        let lost = row.offset > 0 && FileKind::from_mode(row.kind) == FileKind::Directory;
        let listing = ListingState { lost, ..ListingState::default() };
        let place = node.and_then(|n| self.initial.places.get(&n).cloned());
        let opened_as = place.map(|(directory, name)| self.names.entry(directory, &name));
        let opened_by = (node.is_none() && row.path.starts_with(b"/")).then(|| row.path.0.clone().into());
        self.descriptors.describe(Description {
            node,
            opened_as,
            opened_by,
            shown: Shown::at(&row.path).map(|shown| shown.by_numbers(pid, pid)),
            stream,
            flags: row.flags,
            offset: row.offset,
            listing,
            ..Description::default()
        })
    }

    /// The directory at a path of the initial tree; what is not known of it is assumed.
    fn directory_at(&mut self, path: &reprise_trace::Name) -> NodeId {
        let mut here = self.root;
        for name in components(path) {
            let entry = self.names.entry(here, name);
            here = match self.names.target(entry) {
                Some(node) => node,
                None => self.assume(here, name, FileKind::Directory, 0),
            };
        }
        here
    }

    /// Descriptors of a process that no action started, and that no earlier one has.
    pub fn initial_descriptors(&self, process: u32) -> &[InitialDescriptor] {
        self.starts.get(&process).map_or(&[], |start| &start.descriptors)
    }

    /// Mappings of files that a process has which no action started.
    pub fn initial_mappings(&self, process: u32) -> &[InitialMapping] {
        self.starts.get(&process).map_or(&[], |start| &start.mappings)
    }
}
