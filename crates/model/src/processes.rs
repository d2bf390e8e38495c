//! Threads, processes, and what they share.

use reprise_calls::mounts::At;
use reprise_calls::{Identity, Shown};

use crate::node::NodeId;

/// Working directory, root and umask.
#[derive(Debug, Clone, Copy, Default)]
pub struct Directories {
    pub cwd: At,
    pub root: At,
    /// The directory of `/proc` that the working directory is, if parts of processes are reached from there.
    pub shown: Option<Shown>,
    /// What a replay has as its working directory: it does not go to what is mounted.
    pub replayed_cwd: NodeId,
    /// What it has as its root.
    pub replayed_root: NodeId,
    pub umask: u32,
    pub users: u32,
    /// More than one thread used them at some time: what one did must still be done before another goes on.
    pub shared: bool,
}

/// A thread.
#[derive(Debug, Clone, Copy)]
pub struct Thread {
    pub process: u32,
    pub table: u32,
    pub directories: u32,
    pub space: u32,
    pub users: Identity,
    pub groups: Identity,
    /// It lives in a user namespace that it, or who started it, made or entered: numbers of users mean others there.
    pub foreign_users: bool,
}

/// What a trace says of a thread, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub struct ThreadFacts {
    pub process: u32,
    pub tid: i32,
    pub shares_descriptors: bool,
    pub shares_directories: bool,
    /// A lane acts as this thread does.
    pub lane_of: Option<u32>,
}

/// A process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessState {
    pub pid: i32,
    pub threads: u32,
}
