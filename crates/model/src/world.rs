//! The whole state, and its beginning and end.

use std::collections::{HashMap, VecDeque};

use reprise_trace::{
    Content as ContentRow, Descriptor as DescriptorRow, Process, ReadError, ThreadRow, TraceReader, TreeNode,
};

use crate::content::Piece;
use crate::descriptors::{Description, Descriptors, Slot, StreamKind, Table};
use crate::initial::{Initial, InitialFile, components, unmet_links};
use crate::listing::ListingState;
use crate::mapping::Space;
use crate::node::{Attributes, FileKind, Names, Nature, NodeId};
use crate::processes::{Directories, Identity, ProcessState, Thread};
use crate::touch::EntryId;

/// A name of the initial or the final tree.
#[derive(Debug, Clone)]
pub struct TreeName {
    /// Absolute path.
    pub path: Vec<u8>,
    /// The file; names with the same file are hard links.
    pub node: NodeId,
    /// Its type.
    pub kind: FileKind,
    /// Its nature.
    pub nature: Nature,
    /// Its attributes.
    pub attributes: Attributes,
    /// Size in bytes.
    pub size: u64,
    /// Text of a symbolic link.
    pub target: Vec<u8>,
    /// Its content. What no piece covers is zero in the final tree, and unknown in the initial one.
    pub content: Vec<Piece>,
    /// The file may have changed through a shared mapping.
    pub mapped: bool,
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
}

/// The state that calls act on.
pub struct World {
    pub(crate) names: Names,
    pub(crate) root: NodeId,
    pub(crate) initial: Initial,
    pub(crate) descriptors: Descriptors,
    pub(crate) directories: Vec<Directories>,
    pub(crate) threads: Vec<Option<Thread>>,
    pub(crate) processes: Vec<ProcessState>,
    pub(crate) spaces: Vec<Space>,
    pub(crate) mappings: u32,
    /// Entries that a mount covers, and what stands under them.
    pub(crate) covered: Vec<(EntryId, NodeId)>,
    /// See [`World::unmet_links`].
    pub(crate) unmet_links: HashMap<(u64, u64), u64>,
    pub(crate) listings: u64,
    /// Whether written content is kept (for the final tree) or only the fact of it (for a plan).
    pub(crate) detail: bool,
    pub(crate) spawned_by: HashMap<u64, u32>,
    pub(crate) thread_rows: Vec<ThreadRow>,
    pending_names: VecDeque<TreeNode>,
    pending_contents: VecDeque<ContentRow>,
    starts: HashMap<u32, Vec<InitialDescriptor>>,
}

/// Threads and processes are numbered in order, and every thread belongs to a process.
fn check_numbers(trace: &TraceReader, threads: &[ThreadRow], processes: &[Process]) -> Result<(), ReadError> {
    let damaged = |cause: &str| ReadError::Damaged { path: trace.path().to_owned(), cause: cause.to_owned() };
    if threads.iter().enumerate().any(|(i, t)| t.thread as usize != i) {
        return Err(damaged("threads are not numbered in order"));
    }
    if processes.iter().enumerate().any(|(i, p)| p.process as usize != i) {
        return Err(damaged("processes are not numbered in order"));
    }
    if threads.iter().any(|t| t.process as usize >= processes.len()) {
        return Err(damaged("a thread belongs to no process"));
    }
    Ok(())
}

impl World {
    /// The state before the first action of a trace. With `detail` the content of every file is followed.
    pub fn begin(trace: &TraceReader, detail: bool) -> Result<World, ReadError> {
        let mut names = Names::default();
        let attributes = Attributes { mode: 0o755, ..Attributes::default() };
        let root = names.add_node(FileKind::Directory, attributes.clone());
        let mut world = World {
            names,
            root,
            initial: Initial::default(),
            descriptors: Descriptors::default(),
            directories: Vec::new(),
            threads: Vec::new(),
            processes: Vec::new(),
            spaces: Vec::new(),
            mappings: 0,
            covered: Vec::new(),
            unmet_links: HashMap::new(),
            listings: 0,
            detail,
            spawned_by: HashMap::new(),
            thread_rows: trace.threads()?,
            pending_names: trace.tree()?.into(),
            pending_contents: trace.contents()?.into(),
            starts: HashMap::new(),
        };
        let file = InitialFile { attributes, size: 0, target: Vec::new(), content: Default::default() };
        world.initial.files.insert(root, file);
        world.pending_names.make_contiguous().sort_by_key(|r| r.seq);
        world.unmet_links = unmet_links(world.pending_names.make_contiguous());
        world.pending_contents.make_contiguous().sort_by_key(|r| r.seq);
        world.observe_until(0);
        let threads = world.thread_rows.clone();
        world.threads = vec![None; threads.len()];
        for row in &threads {
            if let Some(seq) = row.created_by {
                world.spawned_by.insert(seq, row.thread);
            }
        }
        let processes = trace.processes()?;
        check_numbers(trace, &threads, &processes)?;
        let descriptors = trace.descriptors()?;
        world.processes = processes.iter().map(|p| ProcessState { pid: p.pid, threads: 0 }).collect();
        for row in threads.iter().filter(|t| t.created_by.is_none()) {
            if let Some(process) = processes.iter().find(|p| p.process == row.process) {
                world.start_process(row, process, &descriptors);
            }
        }
        Ok(world)
    }

    fn start_process(&mut self, thread: &ThreadRow, process: &Process, descriptors: &[DescriptorRow]) {
        let (root, cwd) = (self.directory_at(&process.root), self.directory_at(&process.cwd));
        self.directories.push(Directories { cwd, root, umask: process.umask, users: 1, shared: false });
        self.descriptors.tables.push(Table { users: 1, ..Table::default() });
        self.spaces.push(Space::default());
        let table = (self.descriptors.tables.len() - 1) as u32;
        self.threads[thread.thread as usize] = Some(Thread {
            process: process.process,
            table,
            directories: (self.directories.len() - 1) as u32,
            space: (self.spaces.len() - 1) as u32,
            users: Identity::from_list(&process.uids),
            groups: Identity::from_list(&process.gids),
            alive: true,
        });
        self.processes[process.process as usize].threads += 1;
        let mut shared: HashMap<u64, (u32, u32)> = HashMap::new();
        let mut start = Vec::new();
        for row in descriptors.iter().filter(|d| d.process == process.process) {
            let earlier = shared.get(&row.description).copied();
            let description = match earlier {
                Some((description, _)) => description,
                None => self.initial_description(row),
            };
            let slot: Slot = self.descriptors.open(table, row.fd, description, row.flags & 0o2000000 != 0);
            shared.entry(row.description).or_insert((description, slot.binding));
            start.push(InitialDescriptor {
                binding: slot.binding,
                shares: earlier.map(|(_, binding)| binding),
                stream: self.descriptors.descriptions[description as usize].stream,
                path: row.path.to_vec(),
                flags: row.flags,
                offset: row.offset,
            });
        }
        self.starts.insert(process.process, start);
    }

    fn initial_description(&mut self, row: &DescriptorRow) -> u32 {
        let node = self.initial.keys.get(&(row.device, row.inode)).copied();
        let node = node.filter(|n| {
            matches!(FileKind::from_mode(row.kind), FileKind::Regular | FileKind::Directory | FileKind::CharDevice)
                && matches!(self.names.node(*n).nature, Nature::Ordinary | Nature::SafeDevice | Nature::RandomDevice)
        });
        let stream = match (node, FileKind::from_mode(row.kind)) {
            (Some(_), _) => None,
            (None, FileKind::Fifo) => Some(StreamKind::Pipe),
            (None, FileKind::Socket) => Some(StreamKind::Socket),
            (None, _) => Some(StreamKind::Null),
        };
        let listing = ListingState::default();
        let place = node.and_then(|n| self.initial.places.get(&n).cloned());
        let opened_as = place.map(|(directory, name)| self.names.entry(directory, &name));
        self.descriptors.describe(Description {
            node,
            opened_as,
            stream,
            flags: row.flags,
            offset: row.offset,
            listing,
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

    /// Descriptors of a process that no action started.
    pub fn initial_descriptors(&self, process: u32) -> &[InitialDescriptor] {
        self.starts.get(&process).map_or(&[], Vec::as_slice)
    }

    /// Takes in what was observed before the action with this number took effect.
    pub(crate) fn observe_until(&mut self, seq: u64) {
        while self.pending_names.front().is_some_and(|r| r.seq <= seq) {
            let row = self.pending_names.pop_front();
            row.iter().for_each(|row| self.meet_name(row));
        }
        while self.pending_contents.front().is_some_and(|r| r.seq <= seq) {
            let row = self.pending_contents.pop_front();
            row.iter().for_each(|row| self.meet_content(row));
        }
    }

    /// Takes in what was observed after the last action.
    pub fn finish(&mut self) {
        self.observe_until(u64::MAX);
    }

    /// The initial content of a file, for resolving [`crate::Source::Initial`] in the final tree.
    pub fn initial_content(&self, node: NodeId, offset: u64, length: u64) -> Vec<Piece> {
        self.initial.files.get(&node).map(|f| f.content.range(offset, length)).unwrap_or_default()
    }

    /// The tree as it is now: the root first, then parents before children. Nothing below a pseudo file system's root.
    pub fn tree(&self) -> Vec<TreeName> {
        let mut out = vec![self.tree_name(b"/".to_vec(), self.root)];
        let mut pending = vec![(Vec::new(), self.root)];
        while let Some((path, directory)) = pending.pop() {
            if self.names.node(directory).nature == Nature::Pseudo {
                continue;
            }
            for (name, &entry) in &self.names.node(directory).entries {
                let Some(node) = self.names.target(entry) else {
                    continue;
                };
                let path = [&path, b"/".as_slice(), name].concat();
                if self.names.node(node).kind == FileKind::Directory {
                    pending.push((path.clone(), node));
                }
                out.push(self.tree_name(path, node));
            }
        }
        out.sort_by(|a, b| a.path.split(|c| *c == b'/').cmp(b.path.split(|c| *c == b'/')));
        out
    }

    fn tree_name(&self, path: Vec<u8>, node: NodeId) -> TreeName {
        let n = self.names.node(node);
        TreeName {
            path,
            node,
            kind: n.kind,
            nature: n.nature,
            attributes: n.attributes.clone(),
            size: n.size,
            target: n.target.clone(),
            content: n.content.pieces().collect(),
            mapped: n.mapped,
        }
    }

    /// Path of a directory now.
    pub fn directory_path(&self, node: NodeId) -> Option<Vec<u8>> {
        self.path_of(node)
    }

    /// A path of a file now, if it has one.
    pub(crate) fn path_of(&self, node: NodeId) -> Option<Vec<u8>> {
        if node == self.root {
            return Some(b"/".to_vec());
        }
        let entry = &self.names.entries[self.names.node(node).attached? as usize];
        self.names.path_of(entry.directory, &entry.name)
    }

    /// Whether a thread shares descriptors, and directories, with the one that started it.
    pub fn shares(&self, thread: u32) -> (bool, bool) {
        self.thread_rows
            .get(thread as usize)
            .map_or((true, true), |t| (t.shares_descriptors != 0, t.shares_directories != 0))
    }

    pub(crate) fn thread(&self, thread: u32) -> Option<Thread> {
        self.threads.get(thread as usize).copied().flatten()
    }

    pub(crate) fn thread_mut(&mut self, thread: u32) -> Option<&mut Thread> {
        self.threads.get_mut(thread as usize).and_then(Option::as_mut)
    }
}
