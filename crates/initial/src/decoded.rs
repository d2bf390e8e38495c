//! A call as this room takes it, whoever saw it: a log of another tool, or the kernel.
//!
//! Goals: everything that can show something of the beginning. Non-goals: how it was found out.

use std::borrow::Cow;

/// A call's arguments and what it moved.
#[derive(Debug, Clone, Default)]
pub struct Decoded<'a> {
    /// Arguments as the kernel got them, as far as they are numbers.
    pub args: [u64; 6],
    /// First path.
    pub path: Option<Cow<'a, [u8]>>,
    /// Second path.
    pub path2: Option<Cow<'a, [u8]>>,
    /// The `input` column.
    pub input: Cow<'a, [u8]>,
    /// The `output` column.
    pub output: Cow<'a, [u8]>,
    /// Content, from its beginning as far as it was kept.
    pub data: Cow<'a, [u8]>,
    /// Bytes moved.
    pub data_bytes: u64,
    /// Content that the call moved from a file is not known.
    pub is_unseen: bool,
    /// What descriptors are, by argument, in the words of whoever saw the call ([`super::Outside::descriptor`]).
    pub annotations: [Option<&'a [u8]>; 6],
    /// What an attribute call returned, as far as it is known.
    pub stat: Option<Stat>,
    /// What a listing returned, if it is known.
    pub entries: Vec<Entry>,
    /// The open files that the call names or made, as they were when it returned.
    pub objects: [Option<Object>; 2],
}

impl Decoded<'_> {
    /// What is known of the open file at this number.
    pub fn object(&self, fd: u32) -> Option<Object> {
        self.objects.iter().flatten().find(|o| o.fd == fd).copied()
    }
}

/// Attributes of a file, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Nothing is missing.
    pub complete: bool,
    /// Type and permission bits.
    pub mode: u32,
    /// Size, of what has one.
    pub size: Option<u64>,
    /// Device and inode.
    pub identity: Option<(u64, u64)>,
    /// Hard links.
    pub links: Option<u64>,
    /// Owner and group.
    pub owner: Option<(u32, u32)>,
    /// Device number of a node.
    pub device: Option<u64>,
    /// Access, modification and change time, nanoseconds since 1970.
    pub times: [Option<i64>; 3],
}

impl Stat {
    /// Whether the file is known to have no second name.
    pub fn has_one_name(&self) -> bool {
        self.complete && self.links == Some(1)
    }

    /// Whether the permission bits are those of the file. Of the root of a FUSE file system the kernel has none until the server was
    /// asked, and an open (`O_PATH`) need not ask.
    pub fn tells_permissions(&self) -> bool {
        self.complete || self.mode & 0o7777 != 0
    }
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its type (`DT_*`).
    pub kind: u8,
}

/// An open file, as the kernel had it when a call returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Object {
    /// The descriptor that names it.
    pub fd: u32,
    /// Type and permission bits of the file.
    pub mode: u32,
    /// Its size.
    pub size: u64,
    /// Its device and inode.
    pub identity: (u64, u64),
    /// Its hard links.
    pub links: u32,
    /// Where its next read or write goes on.
    pub position: u64,
    /// Whether the call that opened it made it, if that is known.
    pub made: Option<bool>,
}

impl Object {
    /// What is known of the file.
    pub fn stat(&self) -> Stat {
        Stat {
            mode: self.mode,
            size: Some(self.size),
            identity: Some(self.identity),
            links: Some(self.links.into()),
            ..Stat::default()
        }
    }
}
