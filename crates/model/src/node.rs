//! Files and names.

use std::collections::HashMap;

use crate::content::{Content, Source};
use crate::touch::EntryId;

/// Number of a file, of any type.
pub type NodeId = u32;

/// Type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl FileKind {
    /// From `st_mode`; unknown types count as regular files.
    pub const fn from_mode(mode: u32) -> FileKind {
        match mode & 0o170000 {
            0o040000 => FileKind::Directory,
            0o120000 => FileKind::Symlink,
            0o010000 => FileKind::Fifo,
            0o140000 => FileKind::Socket,
            0o020000 => FileKind::CharDevice,
            0o060000 => FileKind::BlockDevice,
            _ => FileKind::Regular,
        }
    }
}

/// Whether a replay can have the file itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nature {
    /// An ordinary file: everything is replayed.
    #[default]
    Ordinary,
    /// On a file system that shows the kernel's state (`/proc`, `/sys`): its I/O is taken from the trace.
    Pseudo,
    /// A device that is harmless and the same everywhere: null, zero, full.
    SafeDevice,
    /// A source of random bytes.
    RandomDevice,
    /// A FIFO or socket: the file is replayed, its I/O is taken from the trace.
    Stream,
    /// A terminal, disk, or other device: only its name is replayed.
    Device,
}

/// Attributes that a replay reproduces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number.
    pub rdev: u64,
    /// Access time, nanoseconds since the epoch.
    pub atime_ns: i64,
    /// Modification time, nanoseconds since the epoch.
    pub mtime_ns: i64,
    /// Extended attributes, by name.
    pub xattrs: std::collections::BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A file.
#[derive(Debug, Clone)]
pub struct Node {
    pub kind: FileKind,
    pub nature: Nature,
    pub attributes: Attributes,
    pub size: u64,
    pub content: Content,
    pub target: Vec<u8>,
    /// Names of a directory.
    pub entries: HashMap<Vec<u8>, EntryId>,
    /// The entry under which it stands: the only one of a directory, the last given of another file.
    pub attached: Option<EntryId>,
    /// The entry under which a directory stands, or stood when it was removed.
    pub stood: Option<EntryId>,
    /// The directory that a directory stands in (itself for a root).
    pub parent: NodeId,
    pub links: u32,
    /// A shared writable mapping existed: content may change without calls.
    pub mapped: bool,
}

/// A name in a directory.
#[derive(Debug, Clone)]
pub struct Entry {
    pub directory: NodeId,
    pub name: Vec<u8>,
    pub node: Option<NodeId>,
    /// An action made or removed something under this name.
    pub changed: bool,
}

/// All files and names.
#[derive(Debug, Default)]
pub struct Names {
    pub nodes: Vec<Node>,
    pub entries: Vec<Entry>,
}

impl Names {
    pub fn add_node(&mut self, kind: FileKind, attributes: Attributes) -> NodeId {
        let id = self.nodes.len() as NodeId;
        self.nodes.push(Node {
            kind,
            nature: Nature::Ordinary,
            attributes,
            size: 0,
            content: Content::default(),
            target: Vec::new(),
            entries: HashMap::new(),
            attached: None,
            stood: None,
            parent: id,
            links: 0,
            mapped: false,
        });
        id
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// The entry of a name, made if it was never spoken of.
    pub fn entry(&mut self, directory: NodeId, name: &[u8]) -> EntryId {
        if let Some(&entry) = self.node(directory).entries.get(name) {
            return entry;
        }
        let id = self.entries.len() as EntryId;
        self.entries.push(Entry { directory, name: name.to_vec(), node: None, changed: false });
        self.node_mut(directory).entries.insert(name.to_vec(), id);
        id
    }

    pub fn target(&self, entry: EntryId) -> Option<NodeId> {
        self.entries[entry as usize].node
    }

    /// Puts a file under a name.
    pub fn attach(&mut self, entry: EntryId, node: NodeId) {
        let directory = self.entries[entry as usize].directory;
        self.entries[entry as usize].node = Some(node);
        let n = self.node_mut(node);
        n.links += 1;
        n.attached = Some(entry);
        if n.kind == FileKind::Directory {
            n.stood = Some(entry);
            n.parent = directory;
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
