//! Names of descriptors: `/proc/self/fd/N` and its kin, which the C library uses where the kernel has no call of its own
//! (`fchmodat`, `linkat` of a nameless file).
//!
//! A replay has no `/proc`: such a path is replaced by the present path of the file, if it has one.

use crate::descriptors::Slot;
use crate::interpretation::Interpretation;
use crate::node::FileKind;
use crate::processes::Thread;
use crate::resolve::Place;
use crate::touch::Resource;
use crate::world::World;

/// What a path through a descriptor's name means.
pub(crate) enum Named {
    /// It does not go through one.
    No,
    /// The same place by an ordinary path.
    Path(Vec<u8>),
    /// The file itself has no name; it can only be reached through the descriptor.
    File(Place),
}

impl World {
    /// Whether a path goes through a descriptor's name, and where it leads. The name itself is meant if the last link is
    /// not followed.
    pub(crate) fn through_descriptor(
        &self,
        thread: Thread,
        path: &[u8],
        follow: bool,
        out: &mut Interpretation,
    ) -> Named {
        let Some((slot, rest)) = self.named_descriptor(thread, path) else { return Named::No };
        if rest.is_empty() && !follow {
            return Named::No;
        }
        let description = &self.descriptors.descriptions[slot.description as usize];
        let Some(node) = description.node.filter(|_| description.stream.is_none()) else { return Named::No };
        out.look(Resource::Descriptor(slot.generation));
        let by_name = || {
            let entry = &self.names.entries[description.opened_as? as usize];
            (entry.node == Some(node)).then(|| self.names.path_of(entry.directory, &entry.name))?
        };
        // A link that is open itself is not followed further; by its path it would be.
        let is_link = self.names.node(node).kind == FileKind::Symlink;
        match self.path_of(node).or_else(by_name).filter(|_| !is_link) {
            Some(mut real) => {
                real.extend_from_slice(rest);
                Named::Path(real)
            }
            // In another table than the thread's own the same number may be another descriptor.
            None if (rest.is_empty() || is_link) && self.descriptors.binds(thread.table, slot.binding) => {
                out.by_descriptor = Some(slot.binding);
                Named::File(Place { node: Some(node), entry: None })
            }
            None => Named::No,
        }
    }

    /// The descriptor that the path begins by naming, and what follows.
    fn named_descriptor<'a>(&self, thread: Thread, path: &'a [u8]) -> Option<(Slot, &'a [u8])> {
        // `/dev/fd` is a link to `/proc/self/fd`, which shows the table of the process's first thread.
        let (name, rest) = match path.strip_prefix(b"/dev/fd/") {
            Some(rest) => (b"self".as_slice(), rest),
            None => {
                let path = path.strip_prefix(b"/proc/")?;
                let end = path.iter().position(|b| *b == b'/')?;
                (&path[..end], path[end..].strip_prefix(b"/fd/")?)
            }
        };
        let pid = self.processes.get(thread.process as usize)?.pid;
        let table = match name {
            b"thread-self" => thread.table,
            _ if name == b"self" || name == pid.to_string().as_bytes() => self.first_thread(thread, pid).table,
            _ => return None,
        };
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let fd: u64 = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        let rest = &rest[digits..];
        let whole = rest.is_empty() || rest.starts_with(b"/");
        Some((self.descriptors.get(table, fd).filter(|_| whole)?, rest))
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
