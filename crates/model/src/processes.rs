//! Threads, processes, and what they share.

use crate::node::NodeId;

/// Working directory, root and umask.
#[derive(Debug, Clone, Copy)]
pub struct Directories {
    pub cwd: NodeId,
    pub root: NodeId,
    pub umask: u32,
    pub users: u32,
}

/// A thread.
#[derive(Debug, Clone, Copy)]
pub struct Thread {
    pub process: u32,
    pub table: u32,
    pub directories: u32,
    pub space: u32,
    /// File-system user and group.
    pub uid: u32,
    pub gid: u32,
    pub alive: bool,
}

/// A process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessState {
    pub pid: i32,
    pub threads: u32,
}
