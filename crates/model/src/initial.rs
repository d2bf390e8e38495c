//! The initial tree: from the names the recorder met, and from contents read before they were written.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use reprise_trace::{Content as ContentRow, Name, ReadError, TraceReader, TreeNode, decode_xattrs};

use crate::content::{Content, Source};
use crate::node::{Attributes, FileKind, Nature, NodeId};
use crate::world::{TreeName, World};

/// A file as it was at first.
#[derive(Debug, Clone)]
pub(crate) struct InitialFile {
    pub attributes: Attributes,
    pub size: u64,
    pub target: Vec<u8>,
    pub content: Content,
}

/// The initial tree as far as it was met.
#[derive(Debug, Default)]
pub(crate) struct Initial {
    pub keys: HashMap<(u64, u64), NodeId, RandomState>,
    pub files: HashMap<NodeId, InitialFile, RandomState>,
    /// Parent and name of every name, in the order met.
    pub names: Vec<(NodeId, Vec<u8>, NodeId)>,
    pub places: HashMap<NodeId, (NodeId, Vec<u8>), RandomState>,
    /// Files that are open at the beginning and have no name any more; the name stands for the descriptor only.
    pub nameless: HashMap<NodeId, Vec<u8>>,
}

/// File systems that show the kernel's state (`include/uapi/linux/magic.h`).
const PSEUDO: [u64; 18] = [
    0x9fa0, 0x62656572, 0x1cd1, 0x64626720, 0x74726163, 0x27e0eb, 0x63677270, 0x73636673, 0xcafe4a11, 0x6165676c,
    0xde5e81e4, 0x62656570, 0x65735543, 0x19800202, 0x42494e4d, 0x6e736673, 0xf97cff8c, 0x0187,
];

/// `BTRFS_SUPER_MAGIC` of `linux/magic.h`.
const BTRFS: u64 = 0x9123_683e;

fn nature(kind: FileKind, rdev: u64, filesystem: u64) -> Nature {
    if PSEUDO.contains(&filesystem) {
        return Nature::Pseudo;
    }
    match (kind, rdev) {
        // Device numbers as `makedev` makes them: major 1, minors below 256.
        (FileKind::CharDevice, 0x103 | 0x105 | 0x107) => Nature::SafeDevice,
        (FileKind::CharDevice, 0x108 | 0x109) => Nature::RandomDevice,
        // A whiteout: a mark, not a device.
        (FileKind::CharDevice, 0) => Nature::Ordinary,
        (FileKind::CharDevice | FileKind::BlockDevice, _) => Nature::Device,
        (FileKind::Fifo | FileKind::Socket, _) => Nature::Stream,
        (FileKind::Regular | FileKind::Directory | FileKind::Symlink, _) => Nature::Ordinary,
    }
}

impl World {
    /// Takes in a name that the recorder met.
    pub(crate) fn meet_name(&mut self, row: &TreeNode) {
        let nameless = !row.name.is_empty() && (row.parent_device, row.parent_inode) == (0, 0);
        let parent = if nameless {
            Some(self.root)
        } else if row.name.is_empty() {
            None
        } else {
            match self.initial.keys.get(&(row.parent_device, row.parent_inode)) {
                Some(&parent) => Some(parent),
                // Its directory was never met: it cannot be placed.
                None => return,
            }
        };
        let kind = FileKind::from_mode(row.mode);
        let key = (row.device, row.inode);
        let node = match self.initial.keys.get(&key) {
            Some(&node) if kind != FileKind::Directory && self.names.node(node).kind == kind => node,
            _ if parent.is_none() => self.root,
            _ => self.names.add_initial_node(kind, Attributes::default()),
        };
        if !self.is_another_way(parent, row) {
            self.initial.keys.insert(key, node);
        }
        if !self.initial.files.contains_key(&node) || parent.is_none() {
            let attributes = Attributes {
                mode: row.mode & 0o7777,
                uid: row.uid,
                gid: row.gid,
                rdev: row.rdev,
                atime_ns: row.atime_ns,
                mtime_ns: row.mtime_ns,
                xattrs: decode_xattrs(&row.xattrs).into_iter().collect(),
            };
            let size = if kind == FileKind::Regular { row.size } else { 0 };
            let n = self.names.node_mut(node);
            n.attributes = attributes.clone();
            n.initial = true;
            n.nature = nature(kind, row.rdev, row.filesystem);
            n.on_btrfs = row.filesystem == BTRFS;
            n.size = size;
            n.target = row.target.to_vec();
            n.content = Content::whole(size, Source::Initial { node, at: 0 });
            let file = InitialFile { attributes, size, target: row.target.to_vec(), content: Content::default() };
            self.initial.files.insert(node, file);
        }
        let Some(parent) = parent else { return };
        if nameless {
            self.initial.names.push((parent, row.name.to_vec(), node));
            self.initial.nameless.insert(node, [b"/", &row.name[..]].concat());
            return;
        }
        let entry = self.names.entry(parent, &row.name);
        if self.names.target(entry).is_some() {
            return;
        }
        self.names.attach(entry, node);
        self.initial.names.push((parent, row.name.to_vec(), node));
        self.initial.places.entry(node).or_insert((parent, row.name.to_vec()));
    }

    /// Whether a directory that has its place is met once more through a pseudo file system (`/proc/PID/root`): what is in it is
    /// looked for where it was.
    fn is_another_way(&self, parent: Option<NodeId>, row: &TreeNode) -> bool {
        FileKind::from_mode(row.mode) == FileKind::Directory
            && self.initial.keys.contains_key(&(row.device, row.inode))
            && parent.is_some_and(|parent| self.initial_path(parent, &row.name).is_none())
    }

    /// Makes a name part of the initial tree that the trace speaks of but the recorder did not meet.
    pub(crate) fn assume(&mut self, parent: NodeId, name: &[u8], kind: FileKind, size: u64) -> NodeId {
        let mode = if kind == FileKind::Directory { 0o755 } else { 0o644 };
        let attributes = Attributes { mode, ..Attributes::default() };
        let node = self.names.add_initial_node(kind, attributes.clone());
        // Its directory is spoken of in the initial tree, too.
        self.names.node_mut(parent).initial = true;
        let is_pseudo = self.names.node(parent).nature == Nature::Pseudo;
        let n = self.names.node_mut(node);
        n.initial = true;
        if is_pseudo {
            n.nature = Nature::Pseudo;
        }
        n.size = size;
        n.content = Content::whole(size, Source::Initial { node, at: 0 });
        let entry = self.names.entry(parent, name);
        self.names.attach(entry, node);
        let file = InitialFile { attributes, size, target: Vec::new(), content: Content::default() };
        self.initial.files.insert(node, file);
        self.initial.names.push((parent, name.to_vec(), node));
        self.initial.places.insert(node, (parent, name.to_vec()));
        node
    }

    /// Takes in content that the recorder observed.
    pub(crate) fn meet_content(&mut self, row: &ContentRow) {
        let Some(&node) = self.initial.keys.get(&(row.device, row.inode)) else {
            return;
        };
        // The file is gone: its number belongs to one that the program made.
        let open = self.initial.nameless.contains_key(&node) || self.names.node(node).holders > 0;
        if self.names.node(node).links == 0 && !open {
            return;
        }
        // A slice: somebody had it mapped before, and may still write to it.
        self.names.node_mut(node).mapped |= row.reason == "shared";
        let sources =
            if row.hole == 1 { vec![(row.length, Source::Zero)] } else { blob_sources(&row.data, row.length) };
        self.learn(node, row.offset, &sources);
    }

    /// What was seen at an offset of a file: where it still is initial content, that is now known.
    pub(crate) fn learn(&mut self, node: NodeId, offset: u64, sources: &[(u64, Source)]) {
        let mut at = offset;
        for &(length, source) in sources {
            for piece in self.names.node(node).content.range(at, length) {
                let Source::Initial { node: origin, at: begin } = piece.source else {
                    continue;
                };
                let Some(file) = self.initial.files.get_mut(&origin) else {
                    continue;
                };
                let skip = piece.offset - at;
                let seen = match source {
                    Source::Blob { blob, at } => Source::Blob { blob, at: at + skip as u32 },
                    other => other,
                };
                // Seen before, it was as it was then: whatever changed it since did so unseen.
                for (from, length) in file.content.gaps(begin, piece.length) {
                    file.content.put(from, length, seen.advance(from - begin));
                }
            }
            at = at.saturating_add(length);
        }
    }

    /// Where a name was; `None` for what has no place, or lies below a pseudo file system's root.
    fn initial_path(&self, parent: NodeId, name: &[u8]) -> Option<Vec<u8>> {
        let mut parts = vec![name];
        let mut directory = parent;
        while directory != self.root {
            if self.names.node(directory).nature == Nature::Pseudo {
                return None;
            }
            let (parent, name) = self.initial.places.get(&directory)?;
            parts.push(name);
            directory = *parent;
            if parts.len() > 4096 {
                return None;
            }
        }
        Some(parts.iter().rev().flat_map(|p| [b"/", *p].concat()).collect())
    }

    /// The initial tree: the root first, then parents before children. Nothing below a pseudo file system's root.
    pub fn initial_tree(&self) -> Vec<TreeName> {
        let mut out = Vec::with_capacity(self.initial.names.len() + 1);
        let describe = |path: Vec<u8>, node: NodeId| {
            let file = self.initial.files.get(&node)?;
            let n = self.names.node(node);
            Some(TreeName {
                path,
                node,
                kind: n.kind,
                nature: n.nature,
                attributes: file.attributes.clone(),
                size: file.size,
                target: file.target.clone(),
                content: file.content.pieces().filter(|p| matches!(p.source, Source::Blob { .. })).collect(),
                mapped: false,
            })
        };
        out.extend(describe(b"/".to_vec(), self.root));
        for (parent, name, node) in &self.initial.names {
            if let Some(path) = self.initial_path(*parent, name) {
                out.extend(describe(path, *node));
            }
        }
        out.sort_by(|a, b| a.path.split(|c| *c == b'/').cmp(b.path.split(|c| *c == b'/')));
        one_each(out)
    }
}

/// A trace can speak of a name as if something else had stood there: what was met first did, and nothing is below a file.
fn one_each(mut names: Vec<TreeName>) -> Vec<TreeName> {
    let all = names.len();
    names.dedup_by(|later, first| later.path == first.path);
    if names.len() == all {
        return names;
    }
    let mut directories: HashSet<Vec<u8>> = HashSet::new();
    names.retain(|name| {
        let above = name.path.iter().rposition(|b| *b == b'/').map_or(&[][..], |end| &name.path[..end]);
        let placed = above.is_empty() || directories.contains(above);
        if placed && name.kind == FileKind::Directory {
            directories.insert(name.path.clone());
        }
        placed
    });
    names
}

/// Blobs as sources, each of its length, together at most `length` bytes.
pub(crate) fn blob_sources(blobs: &[u32], length: u64) -> Vec<(u64, Source)> {
    let mut rest = length;
    let mut out = Vec::with_capacity(blobs.len());
    for &blob in blobs {
        let n = rest.min(reprise_trace::CHUNK_BYTES as u64);
        out.push((n, Source::Blob { blob, at: 0 }));
        rest -= n;
    }
    out
}

/// For [`World::unmet_links`]: two passes, so that only files that have several links are counted.
pub(crate) fn unmet_links(trace: &TraceReader) -> Result<HashMap<(u64, u64), u64>, ReadError> {
    let is_directory = |row: &TreeNode| FileKind::from_mode(row.mode) == FileKind::Directory;
    let mut linked: HashSet<(u64, u64)> = HashSet::new();
    for row in trace.rows::<TreeNode>() {
        let row = row?;
        if row.nlink > 1 && !is_directory(&row) {
            linked.insert((row.device, row.inode));
        }
    }
    let mut names: HashMap<(u64, u64), (u64, u64)> = HashMap::new();
    if linked.is_empty() {
        return Ok(HashMap::new());
    }
    for row in trace.rows::<TreeNode>() {
        let row = row?;
        if linked.contains(&(row.device, row.inode)) && !is_directory(&row) {
            let (links, met) = names.entry((row.device, row.inode)).or_insert((row.nlink, 0));
            *links = (*links).max(row.nlink);
            *met += 1;
        }
    }
    let unmet = names.into_iter().map(|(key, (links, met))| (key, links.saturating_sub(met)));
    Ok(unmet.filter(|(_, n)| *n > 0).collect())
}

/// The components of a path.
pub(crate) fn components(path: &Name) -> impl Iterator<Item = &[u8]> {
    path.split(|b| *b == b'/').filter(|c| !c.is_empty())
}
