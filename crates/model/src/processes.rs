//! Threads, processes, and what they share.

use reprise_calls::mounts::At;

use crate::node::NodeId;

/// Working directory, root and umask.
#[derive(Debug, Clone, Copy, Default)]
pub struct Directories {
    pub cwd: At,
    pub root: At,
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

/// Users, or groups, of a thread (`credentials(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Identity {
    /// Real.
    pub real: u32,
    /// Effective.
    pub effective: u32,
    /// Saved.
    pub saved: u32,
    /// For access to files.
    pub files: u32,
}

impl Identity {
    pub(crate) fn from_list(list: &[u32]) -> Identity {
        let id = |i: usize| list.get(i).copied().unwrap_or(0);
        Identity { real: id(0), effective: id(1), saved: id(2), files: id(3) }
    }

    /// After another program was run, as far as that follows from before: a program with rights of its own changes more.
    pub(crate) fn executed(self) -> Identity {
        Identity { saved: self.effective, files: self.effective, ..self }
    }

    /// After a successful call of the `set*id` family; `privileged` decides what `setuid` and `setgid` mean.
    pub(crate) fn changed(self, call: &str, args: [u32; 3], privileged: bool) -> Identity {
        let or = |new: u32, old: u32| if new == u32::MAX { old } else { new };
        let [a, b, c] = args;
        let mut id = self;
        match call {
            "setuid" | "setgid" => {
                if privileged {
                    (id.real, id.saved) = (a, a);
                }
                id.effective = a;
            }
            "setreuid" | "setregid" => {
                (id.real, id.effective) = (or(a, self.real), or(b, self.effective));
                if a != u32::MAX || (b != u32::MAX && b != self.real) {
                    id.saved = id.effective;
                }
            }
            "setresuid" | "setresgid" => {
                id = Identity { real: or(a, id.real), effective: or(b, id.effective), saved: or(c, id.saved), ..id };
            }
            _ => {
                id.files = a;
                return id;
            }
        }
        id.files = id.effective;
        id
    }
}
