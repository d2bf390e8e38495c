//! The list of nodes, checked as a whole before anything is touched: it may come from a hostile trace.

use std::collections::HashMap;

use reprise_plan::tree::{Node, NodeKind};

use super::marker::MARKER_FILE;
use super::{Buffers, NodeFault, TargetError, walk};
use crate::confine::safe_device;

/// A list of nodes that can be created without leaving the directory.
pub(super) struct Checked<'a> {
    pub nodes: &'a [Node],
    pub buffers: Buffers<'a>,
    /// Index of each path; the root only if it is in the list.
    pub by_path: HashMap<&'a [u8], usize>,
    /// How many names the file of each first name has; 0 for further names.
    pub names: Vec<u32>,
    /// Identity of the list, content of the buffers aside (that is what the trace id is for).
    pub digest: u64,
}

/// Path of the directory that holds `path`, and the last component. The parent of `/a` is `/`.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    (&path[..slash.max(1).min(path.len())], path.get(slash + 1..).unwrap_or_default())
}

/// What is created for a node: devices become regular files, but for the one that overlayfs takes for the mark of a
/// removed name (a whiteout, device 0:0), which nobody can open and everybody may make.
pub(super) fn made_as(node: &Node) -> NodeKind {
    match node.kind {
        NodeKind::CharDevice if node.rdev == 0 => NodeKind::CharDevice,
        NodeKind::CharDevice | NodeKind::BlockDevice => NodeKind::File,
        kind => kind,
    }
}

/// Whether `confine` will cover this node by a safe device: it is one, under its usual name.
pub(super) fn is_placeholder(node: &Node) -> bool {
    let name = node.path.strip_prefix(b"/dev/".as_slice());
    node.kind == NodeKind::CharDevice && safe_device(node.rdev).is_some_and(|device| name == Some(device.as_bytes()))
}

/// The directories but the root, parents first. A node with `link_of` is a link whatever its kind says.
pub(super) fn directories(nodes: &[Node]) -> impl DoubleEndedIterator<Item = &Node> {
    nodes.iter().filter(|node| node.kind == NodeKind::Directory && node.link_of.is_none() && node.path != b"/")
}

/// Checks everything that can be known without a file system.
pub(super) fn check<'a>(nodes: &'a [Node], buffers: Buffers<'a>) -> Result<Checked<'a>, TargetError> {
    let mut by_path = HashMap::with_capacity(nodes.len());
    let mut names = vec![1u32; nodes.len()];
    let mut digest = Digest::default();
    for (index, node) in nodes.iter().enumerate() {
        let outcome =
            path_fault(&node.path).and_then(|()| place_fault(node, nodes, &by_path)).and_then(|()| {
                match node.link_of {
                    Some(first) => link_fault(first as usize, &nodes[..index]),
                    None => content_fault(node, &buffers),
                }
            });
        outcome.map_err(|fault| {
            let path = String::from_utf8_lossy(&node.path[..node.path.len().min(200)]).into_owned();
            TargetError::Node { index, path, fault }
        })?;
        if let Some(first) = node.link_of {
            names[index] = 0;
            names[first as usize] = names[first as usize].saturating_add(1);
        }
        by_path.insert(node.path.as_slice(), index);
        digest.node(node);
    }
    Ok(Checked { nodes, buffers, by_path, names, digest: digest.0 })
}

fn ensure(good: bool, fault: NodeFault) -> Result<(), NodeFault> {
    if good { Ok(()) } else { Err(fault) }
}

fn path_fault(path: &[u8]) -> Result<(), NodeFault> {
    ensure(path.first() == Some(&b'/'), NodeFault::NotAbsolute)?;
    ensure(path.len() <= 4095, NodeFault::TooLong)?;
    if path == b"/" {
        return Ok(());
    }
    for component in path[1..].split(|byte| *byte == b'/') {
        let bad = component.is_empty() || component == b"." || component == b".." || component.contains(&0);
        ensure(!bad, NodeFault::BadComponent)?;
        ensure(component.len() <= 255, NodeFault::TooLong)?;
    }
    Ok(())
}

fn place_fault(node: &Node, nodes: &[Node], earlier: &HashMap<&[u8], usize>) -> Result<(), NodeFault> {
    ensure(!earlier.contains_key(node.path.as_slice()), NodeFault::Duplicate)?;
    let directory = node.kind == NodeKind::Directory && node.link_of.is_none();
    if node.path == b"/" {
        return ensure(directory, NodeFault::RootKind);
    }
    let (parent, name) = split(&node.path);
    if parent == b"/" {
        ensure(name != MARKER_FILE, NodeFault::Reserved)?;
        return ensure(name != walk::LOST_AND_FOUND || directory, NodeFault::RootKind);
    }
    let parent = earlier.get(parent).map(|index| &nodes[*index]);
    ensure(parent.is_some_and(|p| p.kind == NodeKind::Directory && p.link_of.is_none()), NodeFault::NoParent)
}

fn link_fault(first: usize, earlier: &[Node]) -> Result<(), NodeFault> {
    let first = earlier.get(first);
    ensure(first.is_some_and(|f| f.link_of.is_none() && f.kind != NodeKind::Directory), NodeFault::BadLink)
}

fn content_fault(node: &Node, buffers: &Buffers<'_>) -> Result<(), NodeFault> {
    if node.kind == NodeKind::Symlink {
        let text = &node.target;
        ensure(!text.is_empty() && text.len() <= 4095 && !text.contains(&0), NodeFault::BadLinkText)?;
    }
    for (name, value) in &node.xattrs {
        let good = !name.is_empty() && name.len() <= 255 && !name.contains(&0) && value.len() <= 65536;
        ensure(good, NodeFault::BadAttribute)?;
    }
    if node.kind != NodeKind::File {
        return Ok(());
    }
    ensure(node.size <= i64::MAX as u64, NodeFault::TooLarge)?;
    let mut written = 0;
    for extent in &node.extents {
        let end = extent.offset.checked_add(extent.length).filter(|end| *end <= node.size);
        let bytes = buffers.get(extent.buffer, extent.length);
        ensure(extent.offset >= written && bytes.is_some(), NodeFault::BadExtent)?;
        written = end.ok_or(NodeFault::BadExtent)?;
    }
    Ok(())
}

/// FNV-1a, 64 bits: it tells lists of different versions of a plan apart, and is no defence.
pub(super) struct Digest(pub u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    pub fn number(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x100_0000_01b3).rotate_left(29);
    }

    fn node(&mut self, node: &Node) {
        self.bytes(&node.path);
        self.bytes(&node.target);
        let link = node.link_of.map_or(u64::MAX, u64::from);
        let (mode, uid, gid) = (u64::from(node.mode), u64::from(node.uid), u64::from(node.gid));
        let times = [node.atime_ns as u64, node.mtime_ns as u64];
        for number in [node.kind as u64, mode, uid, gid, node.size, node.rdev, times[0], times[1], link] {
            self.number(number);
        }
        for (name, value) in &node.xattrs {
            self.bytes(name);
            self.bytes(value);
        }
        for extent in &node.extents {
            self.number(extent.offset);
            self.number(extent.length);
            self.number(extent.buffer);
        }
    }
}
