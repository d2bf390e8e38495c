//! All files and names met.

use foldhash::{HashMap, HashSet};
use reprise_calls::LINKS_OF_DEV;

use super::node::{Node, NodeId, Slot, Source, kind};

/// File systems that show the kernel's state, by where they stand, with their type (`include/uapi/linux/magic.h`).
const PSEUDO: [(&[u8], u64); 2] = [(b"proc", 0x9fa0), (b"sys", 0x6265_6572)];
const DEVPTS: u64 = 0x1cd1;
/// Stands for whatever a call mounted: nothing in it was there at the beginning.
pub const MOUNTED: u64 = u64::MAX;

/// Whether a file system shows the kernel's state: what stands there now says nothing of the beginning.
pub fn is_pseudo(filesystem: u64) -> bool {
    matches!(filesystem, DEVPTS | MOUNTED) || PSEUDO.iter().any(|(_, known)| *known == filesystem)
}

/// No path is deeper.
pub const DEEPEST: usize = 4096;

/// Devices by their names, with their numbers.
const DEVICES: [(&[u8], u64); 9] = [
    (b"null", 0x103),
    (b"zero", 0x105),
    (b"full", 0x107),
    (b"random", 0x108),
    (b"urandom", 0x109),
    (b"kmsg", 0x10b),
    (b"tty", 0x500),
    (b"console", 0x501),
    (b"ptmx", 0x502),
];

/// Files and names.
#[derive(Debug, Default)]
pub struct Names {
    pub nodes: Vec<Node>,
    /// Names of the initial tree, in the order met: directory, name, file.
    pub initial: Vec<(NodeId, Box<[u8]>, NodeId)>,
    /// Files by device and inode.
    pub identities: HashMap<(u64, u64), NodeId>,
    /// Files that calls made, by device and inode; only those that still have their name there are what they were.
    made: HashMap<(u64, u64), NodeId>,
    /// Names of which nothing is known but that they are those of directories, if anything stands there.
    passed: HashMap<NodeId, HashSet<Box<[u8]>>>,
    /// Directories that turned out to be others.
    pub united: HashMap<NodeId, NodeId>,
}

impl Names {
    /// The root directory.
    pub const ROOT: NodeId = 0;

    /// Only a root directory.
    pub fn new() -> Names {
        let root = Node::new(kind::DIRECTORY, true, Source::Initial, Names::ROOT, b"");
        Names { nodes: vec![root], ..Names::default() }
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// What stands under a name; `None` if that is not known.
    pub fn slot(&self, directory: NodeId, name: &[u8]) -> Option<Slot> {
        let node = self.node(directory);
        node.entries.get(name).copied().or_else(|| node.is_listed.then_some(Slot::Absent))
    }

    /// Whether a directory has lost its name, and with it all room for others; `None` if that is not known.
    pub fn is_removed(&self, directory: NodeId) -> Option<bool> {
        let node = self.node(directory);
        match self.slot(node.parent, &node.name).filter(|_| !node.name.is_empty())? {
            Slot::Absent => Some(true),
            Slot::File(other) => Some(self.now(other) != self.now(directory)),
        }
    }

    /// The kernel tells which file a call made.
    pub fn made_as(&mut self, id: NodeId, identity: (u64, u64)) {
        if self.node(id).source == Source::Made && !self.node(id).name.is_empty() {
            self.made.insert(identity, id);
            self.node_mut(id).made_as = Some(identity);
        }
    }

    /// The file with a device and inode that is known, also one that a call made.
    pub fn identified(&self, identity: (u64, u64)) -> Option<NodeId> {
        let made = || self.made.get(&identity).copied().filter(|made| self.stands(*made));
        self.identities.get(&identity).copied().or_else(made)
    }

    /// Whether a file has the name under which it was met, or that it was moved to.
    pub fn stands(&self, id: NodeId) -> bool {
        let node = self.node(id);
        id == Names::ROOT || self.slot(node.parent, &node.name) == Some(Slot::File(id))
    }

    /// Notes what stands under a name.
    pub fn set(&mut self, directory: NodeId, name: &[u8], slot: Slot) {
        match self.node_mut(directory).entries.get_mut(name) {
            Some(place) => *place = slot,
            None => drop(self.node_mut(directory).entries.insert(name.into(), slot)),
        }
    }

    /// A new file under a name.
    pub fn add(&mut self, directory: NodeId, name: &[u8], kind: u32, sure: bool, source: Source) -> NodeId {
        let id = self.nodes.len() as NodeId;
        let mut node = Node::new(kind, sure, source, directory, name);
        self.furnish(directory, name, &mut node);
        self.nodes.push(node);
        self.set(directory, name, Slot::File(id));
        if source == Source::Initial {
            self.initial.push((directory, name.into(), id));
        }
        id
    }

    /// A call passed a name and found nothing: if anything stands there, it is a directory.
    pub fn passes(&mut self, directory: NodeId, name: &[u8]) {
        if self.slot(directory, name).is_none() {
            self.passed.entry(directory).or_default().insert(name.into());
        }
    }

    /// Whether what stands under a name can only be a directory.
    pub fn was_passed(&self, directory: NodeId, name: &[u8]) -> bool {
        self.passed.get(&directory).is_some_and(|names| names.contains(name))
    }

    /// A further name of the initial tree for a file that was met.
    pub fn add_name(&mut self, directory: NodeId, name: &[u8], node: NodeId) -> NodeId {
        self.set(directory, name, Slot::File(node));
        self.initial.push((directory, name.into(), node));
        node
    }

    /// A new file without a name.
    pub fn add_nameless(&mut self, kind: u32) -> NodeId {
        self.nodes.push(Node::new(kind, true, Source::Made, Names::ROOT, b""));
        (self.nodes.len() - 1) as NodeId
    }

    /// What follows from where a file stands.
    fn furnish(&self, directory: NodeId, name: &[u8], node: &mut Node) {
        node.filesystem = self.node(directory).filesystem;
        node.brought = self.node(directory).brought;
        if directory == Names::ROOT
            && let Some((_, filesystem)) = PSEUDO.iter().find(|(pseudo, _)| *pseudo == name)
        {
            (node.filesystem, node.kind, node.sure) = (*filesystem, kind::DIRECTORY, true);
        }
        if !self.is_dev(directory) {
            return;
        }
        if let Some(number) = self.device(directory, name) {
            (node.kind, node.sure, node.device, node.mode) = (kind::CHARACTER, true, number, Some(0o666));
        }
        if let Some((_, target)) = LINKS_OF_DEV.iter().find(|(link, _)| *link == name) {
            make_link(node, target);
        }
        if name == b"pts" {
            (node.kind, node.filesystem) = (kind::DIRECTORY, DEVPTS);
        }
    }

    /// Whether a directory is `/dev`.
    fn is_dev(&self, directory: NodeId) -> bool {
        let node = self.node(directory);
        node.parent == Names::ROOT && &*node.name == b"dev"
    }

    /// The number of the device that every machine has under a name.
    pub fn device(&self, directory: NodeId, name: &[u8]) -> Option<u64> {
        let known = DEVICES.iter().find(|(device, _)| self.is_dev(directory) && *device == name);
        known.map(|(_, number)| *number)
    }

    /// What only perhaps was there, was.
    pub fn was_there(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        if node.source == Source::Perhaps {
            node.source = Source::Initial;
            let (directory, name) = (node.parent, node.name.clone());
            self.initial.push((directory, name, id));
        }
    }

    /// The path of a name in a directory.
    pub fn path_in(&self, directory: NodeId, name: &[u8]) -> Vec<u8> {
        let mut path = self.path(directory);
        if path != b"/" {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    /// The path under which a file was met, or was moved to.
    pub fn path(&self, id: NodeId) -> Vec<u8> {
        self.path_by(id, place)
    }

    /// The path of a name in a directory, as it was before any call moved what it passes.
    pub fn first_path_in(&self, directory: NodeId, name: &[u8]) -> Vec<u8> {
        let mut path = self.path_by(directory, first_place);
        if path != b"/" {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    fn path_by(&self, id: NodeId, place: fn(&Node) -> (NodeId, &[u8])) -> Vec<u8> {
        let (mut parts, mut here) = (Vec::new(), id);
        while here != Names::ROOT && parts.len() < DEEPEST {
            let (parent, name) = place(self.node(here));
            parts.push(name);
            here = parent;
        }
        let path: Vec<u8> = parts.iter().rev().flat_map(|p| [b"/", *p].concat()).collect();
        if path.is_empty() { b"/".to_vec() } else { path }
    }
}

fn place(node: &Node) -> (NodeId, &[u8]) {
    (node.parent, &node.name)
}

fn first_place(node: &Node) -> (NodeId, &[u8]) {
    node.first_place.as_ref().map_or_else(|| place(node), |(parent, name)| (*parent, name))
}

fn make_link(node: &mut Node, target: &[u8]) {
    (node.kind, node.sure, node.target, node.mode) = (kind::SYMLINK, true, target.to_vec(), Some(0o777));
}
