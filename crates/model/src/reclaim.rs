//! Files and names that nothing needs any more: their numbers are used again.
//!
//! Goal: state for what lives, however long the trace. A file lives while it has a name or something holds it: an open file
//! description, a shared mapping, a working directory, a mount there, a name below it, a removed directory below it. Files of the
//! initial tree keep their numbers, since the plan speaks of them. Non-goals: names under which nothing stands (`absent`).

use reprise_calls::Effect;

use crate::interpretation::Interpretation;
use crate::names::Names;
use crate::node::{FileKind, Node, NodeId};
use crate::touch::{EntryId, Resource};
use crate::world::World;

impl Names {
    pub fn hold(&mut self, node: NodeId) {
        self.node_mut(node).holders += 1;
    }

    pub fn release(&mut self, node: NodeId) {
        let n = self.node_mut(node);
        n.holders = n.holders.saturating_sub(1);
        if n.holders == 0 && n.links == 0 {
            self.loose.push(node);
        }
    }

    /// A held name keeps its directory.
    pub fn hold_entry(&mut self, entry: EntryId) {
        let e = &mut self.entries[entry as usize];
        e.holders += 1;
        let directory = e.directory;
        self.hold(directory);
    }

    pub fn release_entry(&mut self, entry: EntryId) {
        let e = &mut self.entries[entry as usize];
        e.holders = e.holders.saturating_sub(1);
        let directory = e.directory;
        self.absent.fresh.push(entry);
        self.release(directory);
    }

    fn is_needed(&self, node: NodeId) -> bool {
        let n = self.node(node);
        n.links > 0 || n.holders > 0 || n.free
    }

    /// Ends a file, and the names of a directory with it.
    fn free_node(&mut self, node: NodeId, out: &mut Interpretation) {
        let n = self.node_mut(node);
        let (entries, stood) = (std::mem::take(&mut n.entries), n.stood.take());
        match n.kind {
            FileKind::Directory => out.dead.push(Resource::Names(node)),
            _ => out.dead.extend([Resource::Content(node), Resource::Size(node), Resource::Locks(node)]),
        }
        out.dead.extend([Resource::File(node), Resource::Attributes(node)]);
        if !n.initial {
            *n = Node { free: true, ..Node::new(node, FileKind::Regular, Default::default()) };
            self.free_nodes.push(node);
        }
        for entry in entries.into_values() {
            self.free_entry(entry, out);
        }
        stood.into_iter().for_each(|entry| self.release_entry(entry));
    }

    /// Ends a name that is no longer in its directory's list.
    pub(crate) fn free_entry(&mut self, entry: EntryId, out: &mut Interpretation) {
        let e = &mut self.entries[entry as usize];
        e.free = true;
        out.dead.push(Resource::Entry(entry));
        if !e.listed {
            self.free_entries.push(entry);
        }
    }
}

impl World {
    /// After an action: lets go of what nothing needs now.
    pub(crate) fn settle(&mut self, effect: Effect, out: &mut Interpretation) {
        self.descriptors.settle(&mut self.names, out);
        use Effect::{ChangeDirectory, ChangeRoot, Execute, Exit, Map, Mount, Remap, Unmap};
        if matches!(effect, ChangeDirectory | ChangeRoot | Execute | Exit | Map | Mount | Remap | Unmap) {
            self.names.loose.append(&mut self.parked);
        }
        while let Some(node) = self.names.loose.pop() {
            if self.names.is_needed(node) {
                continue;
            }
            if self.is_in_use(node) {
                if !self.parked.contains(&node) {
                    self.parked.push(node);
                }
            } else {
                self.names.free_node(node, out);
            }
        }
        self.names.pass_over(out);
    }

    /// Whether it is mapped, or a directory that a process works in.
    fn is_in_use(&self, node: NodeId) -> bool {
        let n = self.names.node(node);
        let is_directory = n.kind == FileKind::Directory;
        n.was_mapped && self.spaces.iter().any(|space| space.maps(node))
            || is_directory
                && self.directories.iter().any(|d| d.users > 0 && (d.cwd.node == node || d.root.node == node))
    }
}
