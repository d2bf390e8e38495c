//! Why confinement failed, where, and what to do next.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why the worker could not be confined. The replay must not start.
#[derive(Debug, Error)]
pub enum ConfineError {
    /// Neither privileges nor user namespaces.
    #[error("this machine does not let this user confine a replay ({source}); {next}")]
    NotPermitted {
        /// What to change.
        next: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// Namespaces can be entered by a process with one thread only.
    #[error("cannot confine a process with several threads; enter from a freshly forked worker")]
    Threads,
    /// A descriptor that leads outside.
    #[error("descriptor {descriptor} is an open directory ({}), a way out of the target; close it before entering", path.display())]
    OpenDirectory {
        /// Its number.
        descriptor: i32,
        /// What it refers to.
        path: PathBuf,
    },
    /// The target cannot be opened as a directory.
    #[error("cannot open the target {} as a directory ({source}); create it with `mkdir -p`, or choose another", path.display())]
    Target {
        /// The target.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
    /// Mounts beneath the target that this user may not leave out.
    #[error("cannot take {} alone ({source}); if other file systems are mounted beneath it, choose another directory, unmount them, or run with sudo", path.display())]
    Submounts {
        /// The target.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The new root is not the target.
    #[error("the new root is not {}; this is a defect of Reprise or of the kernel: do not replay here, report it", path.display())]
    WrongRoot {
        /// The target.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} at {place}: {source}; {next}")]
    System {
        /// What was tried.
        action: &'static str,
        /// On which file.
        place: PathBuf,
        /// What to do.
        next: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
    /// Not a number of an x86-64 system call.
    #[error("{0} is not the number of an x86-64 system call; correct the list of allowed calls")]
    InvalidCall(u32),
    /// The filter program would be too long.
    #[error("{0} allowed system calls are more than a filter can hold (2,000); shorten the list")]
    TooManyCalls(usize),
    /// A thread with a filter of its own.
    #[error("thread {0} has a system-call filter of its own; restrict calls before it is started")]
    ThreadFilter(u32),
    /// Not an x86-64 program.
    #[error("system calls can be limited on x86-64 only; replay on such a machine")]
    Architecture,
}

impl ConfineError {
    pub(super) fn system(action: &'static str, place: impl Into<PathBuf>, source: io::Error) -> Self {
        let next = match source.raw_os_error() {
            Some(libc::ENOSYS) => "Linux 5.12 or later is needed",
            Some(libc::EPERM | libc::EACCES) => "run `reprise doctor`, or run with sudo",
            Some(libc::EINVAL) => {
                "check that the root of this machine is not an initramfs and that Linux is 5.12 or later"
            }
            Some(libc::ENOSPC) => "raise the limits in /proc/sys/user/ (`sysctl user`)",
            _ => "nothing was changed outside this process; try again",
        };
        ConfineError::System { action, place: place.into(), next, source }
    }
}
