//! The initial tree of a replay: what must exist in the target before the first action.
//!
//! Goals: everything a materializer needs, in creation order, with contents as references into the plan's buffers.
//! Non-goals: touching a file system (that is `replay::tree`), finding out what the tree was (that is `model`).

use serde::{Deserialize, Serialize};

/// What a node is. Device nodes keep their numbers, but whether they are created is the replay's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; `target` holds its text.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A UNIX-domain socket file.
    Socket,
    /// A character device; `rdev` holds its number.
    CharDevice,
    /// A block device; `rdev` holds its number.
    BlockDevice,
}

/// A piece of known content of a regular file. Bytes outside every extent are unknown and read as zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length, in bytes.
    pub length: u64,
    /// Where the bytes begin in the plan's buffers, in bytes.
    pub buffer: u64,
}

/// One name of the initial tree. A parent comes before its children, the first name of a file before its other names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Absolute path inside the replayed world (`/usr/lib/x`), without `.`/`..`/symlink components. `/` is the root.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: NodeKind,
    /// Permission bits, including set-user-id, set-group-id and sticky (`mode & 0o7777`).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size of a regular file, in bytes; 0 otherwise.
    pub size: u64,
    /// Device number of a device node (`st_rdev`); 0 otherwise.
    pub rdev: u64,
    /// Access time, nanoseconds since the epoch (may be negative).
    pub atime_ns: i64,
    /// Modification time, nanoseconds since the epoch (may be negative).
    pub mtime_ns: i64,
    /// Text of a symbolic link; empty otherwise.
    pub target: Vec<u8>,
    /// Extended attributes: full name (`user.x`) and value.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Index in the tree of the first name of the same file, for further hard links. All else but `path` is then ignored.
    pub link_of: Option<u32>,
    /// Known contents of a regular file, ascending and disjoint.
    pub extents: Vec<Extent>,
}
