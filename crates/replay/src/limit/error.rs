//! Why memory cannot be limited, where, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

/// Why memory cannot be limited.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The kernel, or whoever set up its control groups, offers none.
    #[error(
        "no control group here can limit memory (`cat /proc/cgroups /sys/fs/cgroup/cgroup.subtree_control` shows no \
         memory controller); boot without cgroup_disable=memory, `echo +memory > /sys/fs/cgroup/cgroup.subtree_control` \
         as root, or replay without --memory"
    )]
    NoController,
    /// This user may not make one.
    #[error(
        "{}: this user may not make a control group ({source}); run with sudo, or let systemd make it, for the building \
         of the tree too: `systemd-run --user --scope -p MemoryMax={limit_bytes} reprise replay ... --cold` without --memory",
        place.display()
    )]
    NotPermitted {
        /// The group.
        place: PathBuf,
        /// The limit that was wanted.
        limit_bytes: u64,
        /// What the kernel answered.
        source: io::Error,
    },
    /// A group above, or the machine, has less.
    #[error(
        "a memory of {limit_bytes} bytes is more than there is here ({allowed} bytes for {}, by the machine or a control \
         group): that would limit nothing; give less, or replay without --memory",
        place.display()
    )]
    TooMuch {
        /// The limit that was wanted.
        limit_bytes: u64,
        /// What there is.
        allowed: u64,
        /// Whose limit that is.
        place: PathBuf,
    },
    /// Something else.
    #[error("{}: cannot {doing}: {source}; check that control groups are mounted writable", place.display())]
    System {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        place: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
}

impl LimitError {
    pub(super) fn cannot_make(place: &Path, limit_bytes: u64, source: io::Error) -> LimitError {
        let place = place.to_owned();
        match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => LimitError::NotPermitted { place, limit_bytes, source },
            _ => LimitError::System { doing: "make a control group", place, source },
        }
    }
}
