//! Parts of a process by name: `/proc/self/fd/N`, which the C library uses where the kernel has no call of its own
//! (`fchmodat`, `linkat` of a nameless file), `/dev/stdin`, `/proc/self/cwd` and their kin.
//!
//! A replay has no `/proc`: such a path is replaced by the present path of the file, if it has one.

use reprise_calls::{Part, ProcessPath, Whose, process_path};

use crate::interpretation::Interpretation;
use crate::node::{FileKind, Nature, NodeId};
use crate::processes::Thread;
use crate::resolve::{LINKS, Place, Way};
use crate::step::Step;
use crate::touch::Resource;
use crate::world::World;

/// What a path through a part of a process means.
enum Named {
    /// It does not go through one.
    No,
    /// The same place by an ordinary path.
    Path(Vec<u8>),
    /// The file itself has no name; it can only be reached through the descriptor.
    File(Place),
}

impl World {
    /// Where a path leads, also by way of a part of its process, and by way of links to these.
    pub(crate) fn lead(
        &mut self,
        s: &mut Step<'_>,
        number: usize,
        start: Option<NodeId>,
        path: &[u8],
        follow: bool,
    ) -> Option<Place> {
        let root = self.directories[s.thread.directories as usize].root;
        let (mut real, mut place): (Option<Vec<u8>>, _) = (None, None);
        let mut named = self.through_process(s.thread, path, follow, s.out);
        for _ in 0..LINKS {
            match named {
                Named::No => {}
                Named::Path(found) => real = Some(found),
                Named::File(place) => return Some(place),
            }
            let path = real.as_deref().unwrap_or(path);
            let start = if path.starts_with(b"/") { root } else { start? };
            let (mut way, nature) = (Way::new(), s.out.nature);
            place = Some(self.names.walk(start, root, path, follow, &mut way, s.out));
            named = way.detour.map_or(Named::No, |detour| self.through_process(s.thread, &detour, true, s.out));
            if matches!(named, Named::No) {
                break;
            }
            // What was met where these names stand says nothing of the file.
            s.out.nature = nature;
        }
        if real.is_some() {
            s.out.paths[number.min(1)] = real;
        }
        place
    }

    /// Whether a path goes through a part of its process, and where it leads. The name itself is meant if the last link is not
    /// followed.
    fn through_process(&self, thread: Thread, path: &[u8], follow: bool, out: &mut Interpretation) -> Named {
        let Some(named) = process_path(path).filter(|named| follow || !named.rest.is_empty()) else { return Named::No };
        let found = self.part(thread, named, out);
        if matches!(found, Named::No) {
            // A replay shows nothing of processes.
            out.meet(Nature::Pseudo);
        }
        found
    }

    fn part(&self, thread: Thread, named: ProcessPath<'_>, out: &mut Interpretation) -> Named {
        let Some(shown) = self.shown(thread, named.whose) else { return Named::No };
        let directories = &self.directories[shown.directories as usize];
        let directory = match named.part {
            Part::Descriptor(fd) => return self.through_descriptor(thread, shown.table, fd, named.rest, out),
            Part::Directory => directories.cwd,
            Part::Root => directories.root,
        };
        out.look(Resource::Directories(shown.directories));
        self.visible(thread, directory).map_or(Named::No, |path| Named::Path(below(path, named.rest)))
    }

    fn through_descriptor(&self, thread: Thread, table: u32, fd: u32, rest: &[u8], out: &mut Interpretation) -> Named {
        let Some(slot) = self.descriptors.get(table, fd.into()) else { return Named::No };
        let description = &self.descriptors.descriptions[slot.description as usize];
        let Some(node) = description.node.filter(|_| description.stream.is_none()) else { return Named::No };
        out.look(Resource::Descriptor(slot.generation));
        let by_name = || {
            let entry = &self.names.entries[description.opened_as? as usize];
            (entry.node == Some(node)).then(|| self.names.path_of(entry.directory, &entry.name))?
        };
        // A link that is open itself is not followed further; by its path it would be.
        let is_link = self.names.node(node).kind == FileKind::Symlink;
        let path = self.visible(thread, node).or_else(|| self.below_root(thread, by_name()?));
        match path.filter(|_| !is_link) {
            Some(real) => Named::Path(below(real, rest)),
            // In another table than the thread's own the same number may be another descriptor.
            None if (rest.is_empty() || is_link) && self.descriptors.binds(thread.table, slot.binding) => {
                out.by_descriptor = Some(slot.binding);
                Named::File(Place { node: Some(node), entry: None })
            }
            None => Named::No,
        }
    }

    /// The path of a file as a thread has to write it.
    fn visible(&self, thread: Thread, node: NodeId) -> Option<Vec<u8>> {
        self.below_root(thread, self.path_of(node)?)
    }

    /// A path from the thread's own root directory; none if it is not below that.
    fn below_root(&self, thread: Thread, path: Vec<u8>) -> Option<Vec<u8>> {
        let root = self.path_of(self.directories[thread.directories as usize].root)?;
        if root == b"/" {
            return Some(path);
        }
        match path.strip_prefix(&root[..])? {
            b"" => Some(b"/".to_vec()),
            rest => rest.starts_with(b"/").then(|| rest.to_vec()),
        }
    }

    /// The thread whose descriptors and directories are shown.
    fn shown(&self, thread: Thread, whose: Whose) -> Option<Thread> {
        let pid = self.processes.get(thread.process as usize)?.pid;
        match whose {
            Whose::Thread => Some(thread),
            Whose::Numbered(number) if number != pid => self.other(number),
            Whose::Process | Whose::Numbered(_) => Some(self.first_thread(thread, pid)),
        }
    }

    /// The first thread of another process that lives.
    fn other(&self, pid: i32) -> Option<Thread> {
        let process = self.processes_of(pid).find(|process| self.processes[*process as usize].threads > 0)?;
        let mut threads = self.threads.iter().filter_map(|thread| thread.as_deref().copied());
        Some(self.first_thread(threads.find(|thread| thread.process == process)?, pid))
    }

    /// The thread whose number is that of its process; if it is gone, this one.
    fn first_thread(&self, thread: Thread, pid: i32) -> Thread {
        // Tables are shared, and processes single-threaded, almost always.
        let of_process = |t: &Thread| t.process == thread.process;
        if !self.descriptors.tables[thread.table as usize].left {
            return thread;
        }
        let mut rows = self.thread_facts.iter().zip(&self.threads).filter(|(facts, _)| facts.tid == pid);
        rows.find_map(|(_, t)| t.as_deref().copied().filter(of_process)).unwrap_or(thread)
    }
}

/// A path and what follows it, which begins with a slash.
fn below(mut path: Vec<u8>, rest: &[u8]) -> Vec<u8> {
    if path == b"/" && !rest.is_empty() {
        path.clear();
    }
    path.extend_from_slice(rest);
    path
}
