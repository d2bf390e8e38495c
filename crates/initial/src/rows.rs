//! What was inferred, as rows of the trace.

use std::rc::Rc;

use foldhash::HashMap;

use reprise_calls::brought::TMPFS;
use reprise_trace::{Descriptor, Name, TreeNode, decode_xattrs, encode_xattrs};

use super::World;
use super::names::Names;
use super::node::{Node, NodeId, Source, kind};

/// The device of files whose identity the log does not show: one that no system uses.
const NOWHERE: u64 = 0xf_ff00;

/// Rows of the initial tree that are known beside the calls.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Seeds {
    /// A directory before what is in it.
    pub rows: Vec<TreeNode>,
    /// Directories (device and inode) of which every name is there.
    pub listed: Vec<(u64, u64)>,
}

impl World {
    /// Takes in what is known of the initial tree for sure.
    pub fn seed(&mut self, seeds: &Seeds) {
        let mut known: HashMap<(u64, u64), NodeId> = HashMap::default();
        for row in &seeds.rows {
            let identity = (row.device, row.inode);
            if row.name.is_empty() {
                known.insert(identity, Names::ROOT);
                self.names.node_mut(Names::ROOT).identity = Some(identity);
                continue;
            }
            let Some(&parent) = known.get(&(row.parent_device, row.parent_inode)) else { continue };
            let node = match known.get(&identity).copied().filter(|_| row.mode & 0o170000 != kind::DIRECTORY) {
                Some(node) => {
                    self.names.set(parent, &row.name, super::node::Slot::File(node));
                    node
                }
                None => self.names.add(parent, &row.name, row.mode & 0o170000, true, Source::Made),
            };
            known.insert(identity, node);
            self.names.identities.insert(identity, node);
            let n = self.names.node_mut(node);
            n.source = Source::Initial;
            n.is_seeded = true;
            // What is no directory has no names.
            n.is_listed = row.mode & 0o170000 != kind::DIRECTORY;
            n.identity = Some(identity);
            n.filesystem = row.filesystem;
            n.target = row.target.to_vec();
            n.size.initial = Some(row.size);
            n.mode = Some(row.mode & 0o7777);
            n.xattrs = decode_xattrs(&row.xattrs).into_iter().map(|(name, value)| (name, Some(value))).collect();
        }
        for listed in seeds.listed.iter().filter_map(|identity| known.get(identity)) {
            self.names.node_mut(*listed).is_listed = true;
        }
    }

    /// The initial tree: the root, then every name after its directory. What nothing shows is taken from `owner`.
    pub fn tree(&self, owner: (u32, u32)) -> impl Iterator<Item = TreeNode> + '_ {
        let root = self.row(Names::ROOT, b"", Names::ROOT, owner);
        let names = self.names.initial.iter().map(move |(parent, name, node)| self.row(*parent, name, *node, owner));
        std::iter::once(TreeNode { parent_device: 0, parent_inode: 0, ..root }).chain(names)
    }

    fn identity(&self, node: NodeId) -> (u64, u64) {
        let n = self.names.node(node);
        // What is mounted twice has one identity, but two places; so has what was met by a link there that nobody told of.
        let is_alone = |identity: &(u64, u64)| match self.names.identities.get(identity) {
            Some(first) if *first != node => n.links > 1 && self.are_beside(*first, node),
            _ => true,
        };
        let is_sure = |identity: &(u64, u64)| n.brought == 0 || n.kind != kind::DIRECTORY && is_alone(identity);
        n.identity.filter(is_sure).unwrap_or((NOWHERE, u64::from(node) + 2))
    }

    /// Whose files mostly lie in a directory that not everybody may write to.
    fn owner_of_directory(&self, directory: NodeId) -> Option<(u32, u32)> {
        const FOR_ALL: u32 = 0o002;
        let n = self.names.node(directory);
        n.owner.filter(|_| n.mode.is_some_and(|mode| mode & FOR_ALL == 0))
    }

    fn mode(&self, node: &Node) -> u32 {
        node.mode.unwrap_or_else(|| match node.kind {
            kind::DIRECTORY if self.is_for_all(node) => 0o1777,
            kind::DIRECTORY => 0o755,
            kind::SYMLINK => 0o777,
            _ => 0o644,
        })
    }

    /// Whether a directory is for everybody's temporary files, by its name (hier(7)) or since a file system of memory begins so.
    fn is_for_all(&self, n: &Node) -> bool {
        let above = self.names.node(n.parent);
        let is_top = |directory: &Node| directory.parent == Names::ROOT;
        match &*above.name {
            _ if n.parent == Names::ROOT => &*n.name == b"tmp" || n.brought > 0 && n.filesystem == TMPFS,
            b"var" => &*n.name == b"tmp" && is_top(above),
            b"dev" => &*n.name == b"shm" && is_top(above),
            _ => false,
        }
    }

    fn row(&self, parent: NodeId, name: &[u8], node: NodeId, owner: (u32, u32)) -> TreeNode {
        let n = self.names.node(node);
        let (parent_device, parent_inode) = self.identity(parent);
        let (device, inode) = self.identity(node);
        let (uid, gid) = n.owner.or_else(|| self.owner_of_directory(parent)).unwrap_or(owner);
        let xattrs: Vec<(Vec<u8>, Vec<u8>)> =
            n.xattrs.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
        TreeNode {
            seq: 0,
            parent_device,
            parent_inode,
            name: Name::from(name),
            device,
            inode,
            mode: n.kind | self.mode(n),
            nlink: n.links,
            uid,
            gid,
            size: size(n),
            rdev: n.device,
            atime_ns: n.times[0],
            mtime_ns: n.times[1],
            ctime_ns: n.times[2],
            target: Name(n.target.clone()),
            xattrs: encode_xattrs(&xattrs),
            filesystem: n.filesystem,
        }
    }

    /// Descriptors that were open at the beginning.
    pub fn descriptors(&self) -> Vec<Descriptor> {
        let mut descriptions: Vec<*const ()> = Vec::new();
        let mut out = Vec::with_capacity(self.descriptors.len());
        for (&(process, fd), initial) in &self.descriptors {
            let at = Rc::as_ptr(&initial.description).cast::<()>();
            let known = descriptions.iter().position(|d| *d == at);
            let description = known.unwrap_or_else(|| {
                descriptions.push(at);
                descriptions.len() - 1
            }) as u64;
            let node = initial.description.borrow().node;
            let (device, inode) = node.map(|n| self.identity(n)).unwrap_or_default();
            let shown = node.map_or(initial.kind, |n| self.names.node(n).kind);
            let flags = match initial.ways {
                (true, false) => 0,
                (false, true) => 1,
                _ => 2,
            };
            // A directory, or what cannot be written, is open for reading.
            let flags = if shown == kind::DIRECTORY { 0o200000 } else { flags };
            out.push(Descriptor {
                process,
                fd,
                path: Name(initial.path.clone()),
                kind: if shown == 0 { kind::CHARACTER } else { shown },
                flags,
                offset: initial.offset,
                device,
                inode,
                description,
                seals: None,
            });
        }
        out
    }

    /// Whether any descriptor from before the beginning is of a kind or file that is not known.
    pub fn has_unknown_descriptors(&self) -> bool {
        self.descriptors.values().any(|d| d.path.is_empty() && d.description.borrow().node.is_none())
    }
}

fn size(node: &Node) -> u64 {
    match node.kind {
        kind::REGULAR => node.size.best(),
        kind::SYMLINK => node.target.len() as u64,
        _ => 0,
    }
}
