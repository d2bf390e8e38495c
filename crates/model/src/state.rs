//! The present state, for whoever carries it elsewhere: a slice of a trace, a tree as of a moment.
//!
//! Goals: everything a trace can say about a beginning, said about now. Non-goals: how it is written down.

use std::collections::HashMap;

use reprise_calls::locking::HeldLock;
use reprise_calls::{ArgKind, Call, Effect, Identity, Shown};
use reprise_trace::payload::{Side, split};
use reprise_trace::{Action, BlobReader, ReadError};

use crate::content::Piece;
use crate::descriptors::StreamKind;
use crate::interpretation::Interpretation;
use crate::mapping::Space;
use crate::node::{Attributes, FileKind, Nature, NodeId};
use crate::world::World;

/// A name that exists now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentName {
    /// The directory it stands in; `None` for the root.
    pub parent: Option<NodeId>,
    /// The name; empty for the root.
    pub name: Vec<u8>,
    /// Absolute path.
    pub path: Vec<u8>,
    /// The file.
    pub node: NodeId,
}

/// A file that exists now.
#[derive(Debug, Clone)]
pub struct PresentFile<'a> {
    /// Its type.
    pub kind: FileKind,
    /// Its nature.
    pub nature: Nature,
    /// Its attributes.
    pub attributes: &'a Attributes,
    /// Size in bytes.
    pub size: u64,
    /// Text of a symbolic link.
    pub target: &'a [u8],
    /// Names it has.
    pub links: u32,
    /// It may have changed through a shared mapping.
    pub mapped: bool,
    /// Its content.
    pub content: Vec<Piece>,
}

/// A thread that lives now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentThread {
    /// Its number in the trace.
    pub thread: u32,
    /// Its process.
    pub process: u32,
    /// Its descriptor table: equal numbers are one table.
    pub table: u32,
    /// Its working directory, root and mask: equal numbers are shared ones.
    pub directories: u32,
    /// Its memory: equal numbers are one address space.
    pub space: u32,
    /// Users.
    pub users: Identity,
    /// Groups.
    pub groups: Identity,
    /// Working directory; `None` if it was removed.
    pub cwd: Option<Vec<u8>>,
    /// Root directory; `None` if it was removed.
    pub root: Option<Vec<u8>>,
    /// File mode creation mask.
    pub umask: u32,
}

/// A mapping of a file that is there now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresentMapping {
    /// Its first address.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
    /// As `mmap` was given it, and `mprotect` changed it.
    pub protection: u32,
    /// `MAP_SHARED` or `MAP_PRIVATE`.
    pub flags: u32,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// The file.
    pub node: NodeId,
}

/// A descriptor that is open now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentDescriptor {
    /// Its number.
    pub fd: u32,
    /// Its open file description: equal numbers are one.
    pub description: u32,
    /// The file, if it has one.
    pub node: Option<NodeId>,
    /// The path of the directory of `/proc` that it is, if parts of processes are reached from there.
    pub shown: Option<Vec<u8>>,
    /// Set if its I/O is taken from the trace.
    pub stream: Option<StreamKind>,
    /// Flags of `open`, without `O_CLOEXEC`.
    pub flags: u64,
    /// It is closed by `execve`.
    pub close_on_exec: bool,
    /// Offset in bytes.
    pub offset: u64,
    /// It was opened by name.
    pub named: bool,
    /// It is a directory that was listed in part.
    pub listing: bool,
    /// Locks that its open file holds, and those of the process on its file if no descriptor before it is of the same.
    pub locks: Vec<HeldLock>,
    /// Of a file in memory: its seals.
    pub seals: Option<u32>,
}

impl World {
    /// How many calls brought a file system so far.
    pub fn brought(&self) -> u32 {
        self.brought
    }

    /// As [`World::follow`], and the values of extended attributes too. The name of an attribute whose value is not in the
    /// trace is returned beside.
    ///
    /// # Errors
    /// When the content cannot be read.
    pub fn follow_attributes(
        &mut self,
        call: &Call,
        action: &Action,
        blobs: &mut BlobReader,
    ) -> Result<(Interpretation, Option<Vec<u8>>), ReadError> {
        let found = self.follow(call, action, blobs)?;
        let mut unknown = None;
        if call.effect == Effect::SetXattr && action.result >= 0 {
            let is_told = call.position(|k| matches!(k, ArgKind::InData(_))).is_some();
            let kept = is_told && action.truncated_bytes == 0 && (action.data_bytes == 0 || !action.data.is_empty());
            match blobs.content(&action.data)?.filter(|_| kept) {
                Some(value) => self.attribute_set(call, action, value),
                None => {
                    let input = split(call, Side::Input, &action.input);
                    let name = call.position(|k| matches!(k, ArgKind::Text)).and_then(|i| input[i]);
                    unknown = name.map(<[u8]>::to_vec);
                }
            }
        }
        Ok((found, unknown))
    }

    /// Every name, also below the roots of pseudo file systems: the root first, parents before children.
    pub fn present_names(&self) -> Vec<PresentName> {
        let root = PresentName { parent: None, name: Vec::new(), path: b"/".to_vec(), node: self.root };
        let mut out = vec![root];
        let mut at = 0;
        while let Some(PresentName { path, node, .. }) = out.get(at).cloned() {
            at += 1;
            if self.names.node(node).kind != FileKind::Directory {
                continue;
            }
            let prefix = if path == b"/" { Vec::new() } else { path };
            let entries = self.names.node(node).entries.iter();
            let mut below: Vec<PresentName> = entries
                .filter_map(|(name, &entry)| {
                    let path = [&prefix, b"/".as_slice(), name].concat();
                    Some(PresentName { parent: Some(node), name: name.to_vec(), path, node: self.names.target(entry)? })
                })
                .collect();
            below.sort_by(|a, b| a.name.cmp(&b.name));
            out.append(&mut below);
        }
        out
    }

    /// A file.
    pub fn present_file(&self, node: NodeId) -> PresentFile<'_> {
        let n = self.names.node(node);
        PresentFile {
            kind: n.kind,
            nature: n.nature,
            attributes: &n.attributes,
            size: n.size,
            target: &n.target,
            links: n.links,
            mapped: n.mapped || self.spaces_storing_to(node).next().is_some(),
            content: n.content.pieces().collect(),
        }
    }

    /// Device and inode of files that were in the initial tree.
    pub fn identities(&self) -> HashMap<NodeId, (u64, u64)> {
        self.initial.keys.iter().map(|(key, node)| (*node, *key)).collect()
    }

    /// Names of the initial tree met so far, in the order met: directory, name, file.
    pub fn met_names(&self) -> &[(NodeId, Vec<u8>, NodeId)] {
        &self.initial.names
    }

    /// A file as it was in the initial tree: its attributes, its size, and the text of a link.
    pub fn initial_file(&self, node: NodeId) -> Option<(&Attributes, u64, &[u8])> {
        self.initial.files.get(&node).map(|f| (&f.attributes, f.size, &f.target[..]))
    }

    /// Paths in the initial tree of files that have no name: to be removed once they are open.
    pub fn nameless(&self) -> impl Iterator<Item = &[u8]> {
        self.initial.nameless.values().map(Vec::as_slice)
    }

    /// The threads that live, by number.
    pub fn present_threads(&self) -> Vec<PresentThread> {
        let alive = (0..).zip(&self.threads).filter_map(|(i, t)| Some((i, t.as_ref()?)));
        alive
            .map(|(thread, t)| {
                let directories = &self.directories[t.directories as usize];
                PresentThread {
                    thread,
                    process: t.process,
                    table: t.table,
                    directories: t.directories,
                    space: t.space,
                    users: t.users,
                    groups: t.groups,
                    cwd: self.directory_path(directories.cwd.node),
                    root: self.directory_path(directories.replayed_root),
                    umask: directories.umask,
                }
            })
            .collect()
    }

    /// The process of a thread that lives.
    pub fn present_process(&self, thread: u32) -> Option<u32> {
        self.thread(thread).map(|t| t.process)
    }

    /// What an address space has mapped of files, by address.
    pub fn present_mappings(&self, space: u32) -> Vec<PresentMapping> {
        let regions = self.spaces.get(space).into_iter().flat_map(Space::regions);
        regions
            .map(|(address, region)| PresentMapping {
                address,
                length: region.length,
                protection: region.protection,
                flags: region.flags,
                offset: region.offset,
                node: region.node,
            })
            .collect()
    }

    /// The open descriptors of a table, by number.
    pub fn present_descriptors(&self, table: u32) -> Vec<PresentDescriptor> {
        let Some(table) = self.descriptors.tables.get(table) else { return Vec::new() };
        let mut of_process = table.locks.clone();
        let slots = table.slots.iter();
        slots
            .map(|(&fd, slot)| {
                let description = &self.descriptors.descriptions[slot.description as usize];
                let own = description.node.and_then(|node| of_process.get_mut(&node));
                let own = own.map(|own| taken_by(own, description.flags)).unwrap_or_default();
                PresentDescriptor {
                    fd,
                    description: slot.description,
                    node: description.node,
                    shown: description.shown.map(Shown::path),
                    stream: description.stream,
                    flags: description.flags,
                    close_on_exec: slot.close_on_exec,
                    offset: description.offset,
                    named: description.opened_as.is_some(),
                    listing: description.listing.begun || description.listing.lost,
                    locks: [&description.locks[..], &own].concat(),
                    seals: description.node.and_then(|node| self.names.node(node).seals),
                }
            })
            .collect()
    }
}

/// Those of the locks that a descriptor can have taken: an exclusive one needs the right to write, a shared one that to read.
fn taken_by(locks: &mut Vec<HeldLock>, flags: u64) -> Vec<HeldLock> {
    const READ: u64 = 0;
    const WRITE: u64 = 1;
    let way = flags & 3;
    locks.extract_if(.., |lock| if lock.exclusive { way != READ } else { way != WRITE }).collect()
}
