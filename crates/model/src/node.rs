//! Files and names.

use reprise_calls::acl::{self, Acl};
use reprise_calls::credentials::CAPABILITIES;

use crate::content::Content;
use crate::touch::EntryId;

/// Names of a directory.
pub(crate) type Children = std::collections::HashMap<Box<[u8]>, EntryId, foldhash::fast::RandomState>;

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

/// Set-group-id, in a mode.
pub(crate) const SET_GROUP: u32 = 0o2000;

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

impl Attributes {
    /// Of what is made with a mode where these are the directory's. A default list there takes the place of the mask.
    pub(crate) fn of_made(&self, kind: FileKind, mode: u32, mask: u32, (user, group): (u32, u32)) -> Attributes {
        let inherits = self.mode & SET_GROUP != 0;
        let gid = if inherits { self.gid } else { group };
        let mut made = Attributes { mode: mode & 0o7777 & !mask, uid: user, gid, ..Attributes::default() };
        if kind == FileKind::Symlink {
            return Attributes { mode: 0o777, ..made };
        }
        let default = self.xattrs.get(acl::DEFAULT);
        if let Some(list) = default.and_then(|value| Acl::decode(value)).map(|list| list.made_with(mode)) {
            made.mode = mode & 0o7000;
            made.set(acl::ACCESS.to_vec(), list.encode());
        }
        if kind == FileKind::Directory {
            made.mode |= if inherits { SET_GROUP } else { 0 };
            made.xattrs.extend(default.map(|value| (acl::DEFAULT.to_vec(), value.clone())));
        }
        made
    }

    /// Gives a mode, which stands in an access list, too.
    pub(crate) fn change_mode(&mut self, mode: u32) {
        self.mode = mode & 0o7777;
        if let Some(value) = self.xattrs.get_mut(acl::ACCESS)
            && let Some(list) = Acl::decode(value)
        {
            *value = list.with_mode(mode).encode();
        }
    }

    /// Sets an extended attribute. An access list gives a mode, and is kept only if it says more than that.
    pub(crate) fn set(&mut self, name: Vec<u8>, value: Vec<u8>) {
        let is_access = name == acl::ACCESS;
        if !is_access && name != acl::DEFAULT {
            self.xattrs.insert(name, value);
            return;
        }
        let list = Acl::decode(&value);
        if let Some(list) = list.as_ref().filter(|_| is_access) {
            self.mode = list.mode(self.mode);
        }
        match list.filter(|list| !is_access || !list.is_only_a_mode()) {
            Some(list) => self.xattrs.insert(name, list.encode()),
            None => self.xattrs.remove(&name),
        };
    }

    /// The bits of the mode that go with a change of content or owner (`setattr_should_drop_suidgid` in fs/attr.c): set-user-id, and
    /// set-group-id where the group may execute; where it may not, only if it is not kept.
    pub(crate) fn set_ids(&self, keeps_group: bool) -> u32 {
        let group = if self.mode & 0o10 != 0 || !keeps_group { SET_GROUP } else { 0 };
        self.mode & (0o4000 | group)
    }

    /// Whoever changes content or owner, with privilege or without, takes a program's capabilities away (`ATTR_KILL_PRIV`). Whether it
    /// had any.
    pub(crate) fn lose_capabilities(&mut self) -> bool {
        self.xattrs.remove(CAPABILITIES).is_some()
    }
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
    pub entries: Children,
    /// The entry under which it stands: the only one of a directory, the last given of another file.
    pub attached: Option<EntryId>,
    /// The entry under which a directory stands, or stood when it was removed.
    pub stood: Option<EntryId>,
    /// The directory that a directory stands in (itself for a root).
    pub parent: NodeId,
    pub links: u32,
    /// A shared writable mapping existed: content may have changed without a row of it.
    pub mapped: bool,
    /// A mapping of it was made at some time.
    pub was_mapped: bool,
    /// It lies on Btrfs, whose listings show what there was when the directory was opened.
    pub on_btrfs: bool,
    /// It was locked at some time.
    pub locked: bool,
    /// Of a file in memory: its seals.
    pub seals: Option<u32>,
    /// What needs it beside its names, see `reclaim`.
    pub holders: u32,
    /// Part of the initial tree: its number is not used again.
    pub initial: bool,
    /// Its number waits for the next file.
    pub free: bool,
}

impl Node {
    pub fn new(id: NodeId, kind: FileKind, attributes: Attributes) -> Node {
        Node {
            kind,
            nature: Nature::Ordinary,
            attributes,
            size: 0,
            content: Content::default(),
            target: Vec::new(),
            entries: Children::default(),
            attached: None,
            stood: None,
            parent: id,
            links: 0,
            mapped: false,
            was_mapped: false,
            locked: false,
            seals: None,
            on_btrfs: false,
            holders: 0,
            initial: false,
            free: false,
        }
    }
}
