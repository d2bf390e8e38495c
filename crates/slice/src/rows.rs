//! A snapshot as the rows of a trace's beginning.

use std::collections::{BTreeSet, HashMap};

use reprise_calls::Identity;
use reprise_model::{FileKind, Nature, NodeId, PresentDescriptor, PresentMapping, PresentThread, StreamKind};
use reprise_trace::{
    BlobReader, CHUNK_BYTES, Content, Descriptor, Keep, Lock, Mapping, Name, Process, TraceWriter, TreeNode,
    encode_xattrs,
};

use crate::SliceError;
use crate::snapshot::{File, Known, Lives, Snapshot};

/// Device of files that have no identity in the recording.
const MADE: u64 = 0xffff_ffff_ffff;
/// `f_type` of a pseudo file system (proc), and of an ordinary one (ext4).
const PSEUDO: u64 = 0x9fa0;
const ORDINARY: u64 = 0xef53;

/// Writes the beginning.
pub(crate) struct Beginning<'a> {
    pub snapshot: &'a Snapshot,
    pub lives: &'a Lives,
    /// Names of the recording.
    pub recorded: &'a [TreeNode],
    /// Links that no name of the trace accounts for.
    pub unmet_links: &'a dyn Fn((u64, u64)) -> u64,
    /// The moment, nanoseconds since the epoch.
    pub now_ns: i64,
}

impl Beginning<'_> {
    /// Identity of every file; no two share one.
    fn keys(&self) -> HashMap<NodeId, (u64, u64)> {
        let mut next = self.recorded.iter().filter(|r| r.device == MADE).map(|r| r.inode).max().unwrap_or(0);
        let mut taken = BTreeSet::new();
        let mut out = HashMap::new();
        for (&node, file) in &self.snapshot.files {
            let key = file.identity.filter(|key| taken.insert(*key)).unwrap_or_else(|| {
                next += 1;
                (MADE, next)
            });
            out.insert(node, key);
        }
        out
    }

    /// Writes names, contents, and descriptors of the processes that are there at the beginning, given with their threads.
    pub fn write(
        &self,
        processes: &[crate::write::Speaker<'_>],
        blobs: &mut BlobReader,
        writer: &mut TraceWriter,
    ) -> Result<(), SliceError> {
        let keys = self.keys();
        let mut hidden = HashMap::new();
        self.names(&keys, writer)?;
        let open = processes.iter().flat_map(|(_, thread)| &self.snapshot.tables[&thread.table]);
        let mapped = processes.iter().flat_map(|(_, thread)| &self.snapshot.mappings[&thread.space]);
        let mapped = mapped.filter(|m| self.is_mapped(m)).map(|m| m.node);
        for node in open.filter(|d| d.stream.is_none()).filter_map(|d| d.node).chain(mapped) {
            if self.snapshot.path(node).is_none() && !hidden.contains_key(&node) {
                let name = format!(".reprise-nameless-{}", hidden.len() + 1);
                self.nameless(node, &name, &keys, writer)?;
                hidden.insert(node, name);
            }
        }
        for (&node, file) in self.snapshot.files.iter().filter(|(_, file)| file.kind == FileKind::Regular) {
            self.content(file, keys[&node], blobs, writer)?;
        }
        for (number, thread) in processes {
            for descriptor in &self.snapshot.tables[&thread.table] {
                writer.descriptor(self.descriptor(*number, descriptor, &keys, &hidden))?;
                for lock in &descriptor.locks {
                    writer.lock(Lock::of(*number, descriptor.fd, lock))?;
                }
            }
            for mapping in self.snapshot.mappings[&thread.space].iter().filter(|m| self.is_mapped(m)) {
                writer.mapping(self.mapping(*number, mapping, &keys, &hidden))?;
            }
        }
        Ok(())
    }

    fn names(&self, keys: &HashMap<NodeId, (u64, u64)>, writer: &mut TraceWriter) -> Result<(), SliceError> {
        let recorded: HashMap<(u64, u64), &TreeNode> = self.recorded.iter().map(|r| ((r.device, r.inode), r)).collect();
        let mut links: HashMap<NodeId, u64> = HashMap::new();
        for name in &self.snapshot.names {
            *links.entry(name.node).or_default() += 1;
        }
        let mut systems: HashMap<NodeId, u64> = HashMap::new();
        for name in &self.snapshot.names {
            let file = &self.snapshot.files[&name.node];
            let of_recording = file.identity.and_then(|key| recorded.get(&key));
            let above = name.parent.and_then(|parent| systems.get(&parent)).copied();
            let system = match file.nature {
                Nature::Pseudo => of_recording.map_or(PSEUDO, |r| r.filesystem),
                _ => of_recording.map_or(above.unwrap_or(ORDINARY), |r| r.filesystem),
            };
            systems.insert(name.node, system);
            let parent = name.parent.map_or((0, 0), |parent| keys[&parent]);
            let mut row = self.node(file, keys[&name.node]);
            (row.parent_device, row.parent_inode) = parent;
            row.name = Name(name.name.clone());
            row.filesystem = system;
            row.nlink = match file.kind {
                FileKind::Directory => of_recording.map_or(2, |r| r.nlink),
                _ => links[&name.node] + file.identity.map_or(0, self.unmet_links),
            };
            writer.node(row)?;
        }
        Ok(())
    }

    fn nameless(
        &self,
        node: NodeId,
        name: &str,
        keys: &HashMap<NodeId, (u64, u64)>,
        writer: &mut TraceWriter,
    ) -> Result<(), SliceError> {
        let row = TreeNode {
            name: Name::from(name),
            filesystem: ORDINARY,
            ..self.node(&self.snapshot.files[&node], keys[&node])
        };
        Ok(writer.node(row)?)
    }

    fn node(&self, file: &File, (device, inode): (u64, u64)) -> TreeNode {
        let attributes = &file.attributes;
        let xattrs: Vec<(Vec<u8>, Vec<u8>)> = attributes.xattrs.clone().into_iter().collect();
        // The model does not follow times: what the program made is as old as the slice.
        let time = |recorded: i64| if file.identity.is_some() { recorded } else { self.now_ns };
        TreeNode {
            device,
            inode,
            mode: type_bits(file.kind) | attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            size: if file.kind == FileKind::Symlink { file.target.len() as u64 } else { file.size },
            rdev: attributes.rdev,
            atime_ns: time(attributes.atime_ns),
            mtime_ns: time(attributes.mtime_ns),
            ctime_ns: self.now_ns,
            target: Name(file.target.clone()),
            xattrs: encode_xattrs(&xattrs),
            ..TreeNode::default()
        }
    }

    /// Known content, gathered into rows of at most one blob.
    fn content(
        &self,
        file: &File,
        (device, inode): (u64, u64),
        blobs: &mut BlobReader,
        writer: &mut TraceWriter,
    ) -> Result<(), SliceError> {
        let row = |offset, length, data, reason: &str| Content {
            seq: 0,
            device,
            inode,
            offset,
            length,
            data,
            hole: 0,
            reason: reason.to_owned(),
        };
        if file.mapped {
            writer.content(row(0, 0, Vec::new(), "shared"))?;
        }
        let mut gathered: (u64, Vec<u8>) = (0, Vec::new());
        for known in &file.content {
            let (offset, bytes) = &mut gathered;
            let continues =
                *offset + bytes.len() as u64 == known.offset && bytes.len() as u64 + known.length <= CHUNK_BYTES as u64;
            if !continues && !bytes.is_empty() {
                let data = writer.blob(bytes, Keep::Always)?;
                writer.content(row(*offset, bytes.len() as u64, data, "slice"))?;
                bytes.clear();
            }
            let Known { length, at, .. } = *known;
            let found = blobs.get(known.blob)?;
            let range = at as usize..(at as usize).saturating_add(length as usize);
            match found.content.as_ref().and_then(|content| content.get(range)) {
                Some(content) => {
                    if bytes.is_empty() {
                        *offset = known.offset;
                    }
                    bytes.extend_from_slice(content);
                }
                None if at == 0 && length == u64::from(found.length) => {
                    let blob = writer.blob_by_hash(found.blake3, found.length)?;
                    writer.content(row(known.offset, length, vec![blob], "slice"))?;
                }
                None => {}
            }
        }
        let (offset, bytes) = gathered;
        if !bytes.is_empty() {
            let data = writer.blob(&bytes, Keep::Always)?;
            writer.content(row(offset, bytes.len() as u64, data, "slice"))?;
        }
        Ok(())
    }

    /// The path of a file; of one without a name that under which it stands in the slice.
    fn path(&self, node: NodeId, hidden: &HashMap<NodeId, String>) -> Option<Vec<u8>> {
        let hidden = || hidden.get(&node).map(|name| [b"/", name.as_bytes()].concat());
        self.snapshot.path(node).map(<[u8]>::to_vec).or_else(hidden)
    }

    /// Whether a mapping is of a file that is in the slice.
    fn is_mapped(&self, m: &PresentMapping) -> bool {
        let file = self.snapshot.files.get(&m.node);
        file.is_some_and(|file| file.kind == FileKind::Regular && matches!(file.nature, Nature::Ordinary))
    }

    fn mapping(
        &self,
        process: u32,
        m: &PresentMapping,
        keys: &HashMap<NodeId, (u64, u64)>,
        hidden: &HashMap<NodeId, String>,
    ) -> Mapping {
        let (device, inode) = keys[&m.node];
        Mapping {
            process,
            address: m.address,
            length: m.length,
            protection: m.protection,
            flags: m.flags,
            offset: m.offset,
            device,
            inode,
            path: Name(self.path(m.node, hidden).unwrap_or_default()),
        }
    }

    fn descriptor(
        &self,
        process: u32,
        d: &PresentDescriptor,
        keys: &HashMap<NodeId, (u64, u64)>,
        hidden: &HashMap<NodeId, String>,
    ) -> Descriptor {
        const CLOEXEC: u64 = 0o2000000;
        const EXCL: u64 = 0o200;
        const TMPFILE: u64 = 0o20000000;
        const DIRECTORY: u64 = 0o200000;
        const READ_WRITE: u64 = 2;
        let node = d.node.filter(|_| d.stream.is_none());
        let file = node.map(|node| &self.snapshot.files[&node]);
        let name = node.and_then(|node| self.path(node, hidden));
        let mut flags = d.flags & !CLOEXEC | if d.close_on_exec { CLOEXEC } else { 0 };
        // Kept where it says that the file can be given a name.
        let is_nameless = node.is_some_and(|node| self.snapshot.path(node).is_none());
        if flags & TMPFILE != 0 && (flags & EXCL != 0 || !is_nameless) {
            flags &= !(TMPFILE | DIRECTORY);
        }
        // A file in memory is open for both, though its making says nothing of it.
        if !d.named && file.is_some_and(|f| f.kind == FileKind::Regular) && flags & 3 == 0 {
            flags |= READ_WRITE;
        }
        let stream = d.stream.unwrap_or(StreamKind::Null);
        let kind = match (file, stream) {
            (Some(file), _) => type_bits(file.kind),
            (None, StreamKind::Pipe) => type_bits(FileKind::Fifo),
            (None, StreamKind::Socket) => type_bits(FileKind::Socket),
            (None, StreamKind::Null | StreamKind::Event | StreamKind::Epoll | StreamKind::Watch) => 0,
        };
        let (device, inode) = node.map_or((0, 0), |node| keys[&node]);
        Descriptor {
            process,
            fd: d.fd,
            path: Name(name.or_else(|| d.shown.clone()).unwrap_or_else(|| stream.nameless().to_vec())),
            kind,
            flags,
            offset: if file.is_some_and(|f| f.kind == FileKind::Directory) { d.listing.into() } else { d.offset },
            device,
            inode,
            description: u64::from(d.description) + 1,
            seals: d.seals,
        }
    }

    /// A process that is there at the beginning, after its first thread.
    pub fn process(&self, old: &Process, thread: &PresentThread) -> Process {
        let list = |id: Identity| vec![id.real, id.effective, id.saved, id.files];
        let place = |path: &Option<Vec<u8>>| Name(path.clone().unwrap_or_else(|| b"/".to_vec()));
        Process {
            uids: list(thread.users),
            gids: list(thread.groups),
            groups: self.lives.groups.get(&old.process).map_or_else(|| old.groups.clone(), |groups| groups.to_vec()),
            umask: thread.umask,
            cwd: place(&thread.cwd),
            root: place(&thread.root),
            executable: self.lives.programs.get(&old.process).map_or(old.executable.clone(), |p| Name(p.clone())),
            ..old.clone()
        }
    }
}

/// `st_mode & S_IFMT`.
pub(crate) fn type_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => 0o100000,
        FileKind::Directory => 0o040000,
        FileKind::Symlink => 0o120000,
        FileKind::Fifo => 0o010000,
        FileKind::Socket => 0o140000,
        FileKind::CharDevice => 0o020000,
        FileKind::BlockDevice => 0o060000,
    }
}
