//! Names in directories.

use crate::absent::Absent;
use crate::content::Source;
use crate::node::{Attributes, FileKind, Node, NodeId};
use crate::touch::EntryId;

/// A name in a directory.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    pub directory: NodeId,
    pub name: Box<[u8]>,
    pub node: Option<NodeId>,
    /// An action made or removed something under this name.
    pub changed: bool,
    /// What needs it though nothing stands under it, see `reclaim`.
    pub holders: u32,
    /// It was spoken of since it was last passed over, see `absent`.
    pub met: bool,
    /// It is among the absent names.
    pub listed: bool,
    /// Its number waits for the next name.
    pub free: bool,
}

/// All files and names.
#[derive(Debug, Default)]
pub struct Names {
    pub nodes: Vec<Node>,
    pub entries: Vec<Entry>,
    pub(crate) free_nodes: Vec<NodeId>,
    pub(crate) free_entries: Vec<EntryId>,
    /// Files that may have lost all that needed them.
    pub(crate) loose: Vec<NodeId>,
    pub(crate) absent: Absent,
}

impl Names {
    pub fn add_node(&mut self, kind: FileKind, attributes: Attributes) -> NodeId {
        match self.free_nodes.pop() {
            Some(id) => {
                *self.node_mut(id) = Node::new(id, kind, attributes);
                id
            }
            None => self.add_initial_node(kind, attributes),
        }
    }

    /// A file of the initial tree: its number was never another's, not even before it was met.
    pub fn add_initial_node(&mut self, kind: FileKind, attributes: Attributes) -> NodeId {
        let id = self.nodes.len() as NodeId;
        self.nodes.push(Node::new(id, kind, attributes));
        id
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// The entry of a name, made if it is not remembered.
    pub fn entry(&mut self, directory: NodeId, name: &[u8]) -> EntryId {
        if let Some(&entry) = self.node(directory).entries.get(name) {
            self.entries[entry as usize].met = true;
            return entry;
        }
        let entry = Entry { directory, name: name.into(), ..Entry::default() };
        let id = match self.free_entries.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as EntryId
            }
        };
        self.node_mut(directory).entries.insert(name.into(), id);
        self.absent.fresh.push(id);
        id
    }

    pub fn target(&self, entry: EntryId) -> Option<NodeId> {
        self.entries[entry as usize].node
    }

    /// Puts a file under a name.
    pub fn attach(&mut self, entry: EntryId, node: NodeId) {
        self.detach(entry);
        let directory = self.entries[entry as usize].directory;
        self.entries[entry as usize].node = Some(node);
        self.hold(directory);
        let n = self.node_mut(node);
        n.links += 1;
        n.attached = Some(entry);
        if n.kind == FileKind::Directory {
            let stood = n.stood.replace(entry);
            n.parent = directory;
            self.hold_entry(entry);
            stood.into_iter().for_each(|e| self.release_entry(e));
        }
    }

    /// Takes what stands under a name away.
    pub fn detach(&mut self, entry: EntryId) -> Option<NodeId> {
        let node = self.entries[entry as usize].node.take()?;
        let n = self.node_mut(node);
        n.links = n.links.saturating_sub(1);
        if n.attached == Some(entry) {
            n.attached = None;
        }
        self.loose.push(node);
        self.absent.fresh.push(entry);
        self.release(self.entries[entry as usize].directory);
        Some(node)
    }

    /// Writes `length` bytes; sources cover them from the start, what they do not cover is [`Source::Written`].
    pub fn write(&mut self, id: NodeId, offset: u64, length: u64, sources: &[(u64, Source)]) {
        let node = self.node_mut(id);
        let mut at = offset;
        for &(n, source) in sources {
            node.content.put(at, n, source);
            at = at.saturating_add(n);
        }
        let end = offset.saturating_add(length);
        if at < end {
            node.content.put(at, end - at, Source::Written);
        }
        node.size = node.size.max(end);
    }

    pub fn truncate(&mut self, id: NodeId, size: u64) {
        let node = self.node_mut(id);
        if size < node.size {
            node.content.clear(size, u64::MAX - size);
        }
        node.size = size;
    }
}
