//! The whole state, and its beginning and end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use reprise_calls::mounts::Mounts;
use reprise_calls::sharing::Parts;
use reprise_trace::{MAPPED_STORES, Process, ReadError, ThreadRow, TraceReader};

use crate::beginning::{AtStart, Start};
use crate::content::Piece;
use crate::descriptors::Descriptors;
use crate::initial::{Initial, InitialFile, unmet_links};
use crate::kin::{Kin, Shares, kin};
use crate::mapping::Space;
use crate::names::Names;
use crate::node::{Attributes, FileKind, Nature, NodeId};
use crate::observed::Observed;
use crate::processes::{Directories, ProcessState, Thread, ThreadFacts};
use crate::slab::Slab;
use crate::streams::Streams;

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

/// The state that calls act on.
pub struct World {
    pub(crate) names: Names,
    pub(crate) root: NodeId,
    pub(crate) initial: Initial,
    pub(crate) descriptors: Descriptors,
    pub(crate) streams: Streams,
    pub(crate) directories: Slab<Directories>,
    /// Directories without a name that a process works in, see `reclaim`.
    pub(crate) parked: Vec<NodeId>,
    pub(crate) threads: Vec<Option<Box<Thread>>>,
    pub(crate) processes: Vec<ProcessState>,
    /// Further groups, by process.
    pub(crate) further_groups: HashMap<u32, Arc<[u32]>>,
    /// The kernel's numbers of all processes, with their own, in order.
    pids: Vec<(i32, u32)>,
    pub(crate) spaces: Slab<Space>,
    pub(crate) mappings: u32,
    /// Stores to mappings of files are in the trace.
    pub(crate) stores_recorded: bool,
    /// Those that a process makes through `/proc/PID/mem`, too: who looks at pages sees them, who sees faults does not.
    pub(crate) sees_memory: bool,
    /// Who is not in a file's group and changes the file takes set-group-id away also where the group may not execute.
    pub(crate) strangers_take_group: bool,
    pub(crate) mounts: Mounts,
    /// Calls that brought a file system.
    pub(crate) brought: u32,
    /// See [`World::unmet_links`].
    pub(crate) unmet_links: HashMap<(u64, u64), u64>,
    pub(crate) listings: u64,
    /// Somebody watches with fanotify(7): reading an event opens a file.
    pub(crate) events_bring_descriptors: bool,
    /// Whether written content is kept (for the final tree) or only the fact of it (for a plan).
    pub(crate) detail: bool,
    /// Whether the trace has not all that was written.
    pub(crate) some_is_lost: bool,
    pub(crate) spawned_by: HashMap<u64, u32>,
    pub(crate) thread_facts: Vec<ThreadFacts>,
    pub(crate) observed: Observed,
    pub(crate) starts: HashMap<u32, Start>,
    kin: BTreeMap<u32, Kin>,
}

fn damaged(trace: &TraceReader, cause: &str) -> ReadError {
    ReadError::Damaged { path: trace.path().to_owned(), cause: cause.to_owned() }
}

/// Whether a kernel, by its `uname -r`, is of this version or a later one; one that is not told is taken to be.
fn is_since(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    let (major, minor): (Option<u32>, Option<u32>) = (numbers.next().flatten(), numbers.next().flatten());
    major.zip(minor).is_none_or(|told| told >= version)
}

impl World {
    /// The state before the first action of a trace. With `detail` the content of every file is followed.
    pub fn begin(trace: &TraceReader, detail: bool) -> Result<World, ReadError> {
        let mut names = Names::default();
        let attributes = Attributes { mode: 0o755, ..Attributes::default() };
        let root = names.add_node(FileKind::Directory, attributes.clone());
        let is = |told: &str, fact: &str| trace.manifest().facts.get(fact).is_some_and(|how| how == told);
        let mut world = World {
            names,
            root,
            initial: Initial::default(),
            descriptors: Descriptors::default(),
            streams: Streams::default(),
            directories: Slab::default(),
            parked: Vec::new(),
            threads: Vec::new(),
            processes: Vec::new(),
            further_groups: HashMap::default(),
            pids: Vec::new(),
            spaces: Slab::default(),
            mappings: 0,
            stores_recorded: is("recorded", MAPPED_STORES),
            sees_memory: is("recorded", MAPPED_STORES) && is("ptrace", "backend"),
            strangers_take_group: is_since(&trace.manifest().host.kernel, (6, 2)),
            mounts: Mounts::new(root),
            brought: 0,
            unmet_links: unmet_links(trace)?,
            listings: 0,
            events_bring_descriptors: false,
            detail,
            some_is_lost: false,
            spawned_by: HashMap::new(),
            thread_facts: Vec::new(),
            observed: Observed::new(trace),
            starts: HashMap::new(),
            kin: BTreeMap::new(),
        };
        let file = InitialFile { attributes, size: 0, target: Vec::new(), content: Default::default() };
        world.initial.files.insert(root, file);
        world.names.node_mut(root).initial = true;
        world.names.hold(root);
        world.observe_until(0)?;
        let firsts = world.meet_threads(trace)?;
        let starting = world.meet_processes(trace, &firsts)?;
        let rows = AtStart::read(trace)?;
        let (mut begun, mut shared) = (BTreeMap::new(), HashMap::new());
        for process in starting.values() {
            let first = world.start_process(process, &begun, &rows, &mut shared);
            begun.insert(process.process, first);
        }
        for row in firsts {
            world.start_thread(&row, begun[&row.process]);
        }
        let shares = begun.values().map(|t| Shares { process: t.process, table: t.table, directories: t.directories });
        let kin = kin(&shares.collect::<Vec<_>>()).ok_or_else(|| damaged(trace, "processes share as none can"))?;
        world.kin = kin;
        Ok(world)
    }

    /// Reads the threads; returns those that no action started.
    fn meet_threads(&mut self, trace: &TraceReader) -> Result<Vec<ThreadRow>, ReadError> {
        let processes = trace.count::<Process>();
        let mut firsts = Vec::new();
        for row in trace.rows::<ThreadRow>() {
            let row = row?;
            if row.thread as usize != self.thread_facts.len() {
                return Err(damaged(trace, "threads are not numbered in order"));
            }
            if u64::from(row.process) >= processes {
                return Err(damaged(trace, "a thread belongs to no process"));
            }
            self.threads.push(None);
            self.thread_facts.push(ThreadFacts {
                process: row.process,
                tid: row.tid,
                shares_descriptors: row.shares_descriptors != 0,
                shares_directories: row.shares_directories != 0,
                lane_of: row.lane_of.filter(|submitter| *submitter < row.thread),
            });
            match row.created_by {
                _ if row.lane_of.is_some() => {}
                Some(seq) => _ = self.spawned_by.insert(seq, row.thread),
                None => firsts.push(row),
            }
        }
        Ok(firsts)
    }

    /// Reads the processes; returns those that have one of these threads.
    fn meet_processes(
        &mut self,
        trace: &TraceReader,
        firsts: &[ThreadRow],
    ) -> Result<BTreeMap<u32, Process>, ReadError> {
        let mut starting: BTreeMap<u32, Process> = BTreeMap::new();
        let begins: HashSet<u32> = firsts.iter().map(|row| row.process).collect();
        for row in trace.process_rows() {
            let row = row?;
            if row.process as usize != self.processes.len() {
                return Err(damaged(trace, "processes are not numbered in order"));
            }
            self.processes.push(ProcessState { pid: row.pid, threads: 0 });
            if begins.contains(&row.process) {
                if row.shares_with().any(|of| !starting.contains_key(&of)) {
                    return Err(damaged(trace, "a process shares with one that is not there at the beginning"));
                }
                starting.insert(row.process, row);
            }
        }
        self.pids = (0..).zip(&self.processes).map(|(process, state)| (state.pid, process)).collect();
        self.pids.sort_unstable();
        Ok(starting)
    }

    /// A thread that was there at the beginning: it shares all with the others of its process.
    fn start_thread(&mut self, row: &ThreadRow, as_process: Thread) {
        self.threads[row.thread as usize] = Some(Box::new(as_process));
        self.processes[row.process as usize].threads += 1;
        let table = &mut self.descriptors.tables[as_process.table as usize];
        (table.users, table.shared) = (table.users + 1, table.users > 0);
        let directories = &mut self.directories[as_process.directories as usize];
        (directories.users, directories.shared) = (directories.users + 1, directories.users > 0);
        self.spaces[as_process.space as usize].users += 1;
    }

    /// From which process one that no action started, and that shares something with others, is to begin.
    pub fn kin(&self, process: u32) -> Option<Kin> {
        self.kin.get(&process).copied()
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
        self.names.path_of_entry(self.names.node(node).attached?)
    }

    /// Whether a thread shares descriptors, and directories, with the one that started it.
    pub fn shares(&self, thread: u32) -> Parts {
        let facts = self.thread_facts.get(thread as usize);
        let (descriptors, directories) = facts.map_or((true, true), |t| (t.shares_descriptors, t.shares_directories));
        Parts { descriptors, directories }
    }

    /// The address spaces whose stores reach a file.
    pub(crate) fn spaces_storing_to(&self, node: NodeId) -> impl Iterator<Item = usize> {
        let was_mapped = self.names.node(node).was_mapped;
        let spaces = self.spaces.iter().enumerate().filter(move |(_, space)| was_mapped && space.shares(node));
        spaces.map(|(number, _)| number)
    }

    /// Whether a thread acts as the superuser.
    pub fn is_superuser(&self, thread: u32) -> bool {
        self.thread(thread).is_some_and(|t| t.users.effective == 0)
    }

    /// Whether a thread has privileges over files.
    pub fn is_superuser_for_files(&self, thread: u32) -> bool {
        self.thread(thread).is_some_and(|t| t.users.files == 0)
    }

    /// The further groups of the processes that live.
    pub fn further_groups(&self) -> &HashMap<u32, Arc<[u32]>> {
        &self.further_groups
    }

    /// The processes that the kernel gave this number, the last first.
    pub(crate) fn processes_of(&self, pid: i32) -> impl Iterator<Item = u32> {
        let end = self.pids.partition_point(|(p, _)| *p <= pid);
        self.pids[..end].iter().rev().take_while(move |(p, _)| *p == pid).map(|(_, process)| *process)
    }

    /// A lane acts with what its submitter has; once that has ended, with what another thread of the process has.
    pub(crate) fn thread(&self, thread: u32) -> Option<Thread> {
        let facts = self.thread_facts.get(thread as usize)?;
        let Some(submitter) = facts.lane_of else {
            return self.threads[thread as usize].as_deref().copied();
        };
        let own = self.threads[submitter as usize].as_deref();
        own.or_else(|| self.threads.iter().flatten().map(|t| &**t).find(|t| t.process == facts.process)).copied()
    }

    /// The thread whose asynchronous requests a lane performs.
    pub fn lane_of(&self, thread: u32) -> Option<u32> {
        self.thread_facts.get(thread as usize)?.lane_of
    }

    pub(crate) fn thread_mut(&mut self, thread: u32) -> Option<&mut Thread> {
        self.threads.get_mut(thread as usize).and_then(Option::as_deref_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::is_since;

    #[test]
    fn kernels_are_told_apart_by_their_release() {
        for later in ["6.2.0", "6.18.0-rc1-arm", "10.0", "", "unknown"] {
            assert!(is_since(later, (6, 2)), "{later}");
        }
        for earlier in ["6.1.0-13-amd64", "5.15.0", "4.18.0-553.el8_10.x86_64"] {
            assert!(!is_since(earlier, (6, 2)), "{earlier}");
        }
    }
}
