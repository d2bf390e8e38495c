//! The model complete: small programs (`programs/*.c`), each of which does one thing that is hard to follow, and proves
//! on the real kernel that it did. Recorded and replayed they must do the same again: no call diverges, none is left
//! out, only what is named here is taken from the trace, and another program (`tree::walk`) finds the same tree.
//!
//! Goals: each case for real, on a real file system; the hand-offs between threads in the plan itself, since a replay
//! could keep them by luck. Non-goals: single calls (`calls_oracle.rs`), chance (`random_programs.rs`).
//! `TMPDIR` says on which file system.

mod case;
mod handed;
mod lookups;
mod waits;

use case::{Case, check, check_on};
use reprise_testkit::scratch::{Kind, LoopFs};
use reprise_testkit::skip;

macro_rules! cases {
    ($($name:ident $(.$with:ident($($argument:tt)*))*;)*) => {$(
        #[test]
        fn $name() {
            check(&Case::new(stringify!($name))$(.$with($($argument)*))*);
        }
    )*};
}

/// Failures that say something of memory, mounts, limits, kinds of files that a replay has stand-ins for, or programs:
/// they are kept by not making the call.
const OF_THE_MACHINE: [&str; 21] = [
    "dup3:EINVAL",
    "execve:EACCES",
    "execve:ENOTDIR",
    "fallocate:EOPNOTSUPP",
    "ftruncate:EFBIG",
    "link:EXDEV",
    "lseek:ENXIO",
    "lseek:ESPIPE",
    "open:EFAULT",
    "openat2:EXDEV",
    "openat:EMFILE",
    "openat:ENXIO",
    "openat:ETXTBSY",
    "pread64:ESPIPE",
    "pwrite64:EFBIG",
    "read:EISDIR",
    "rename:EBUSY",
    "rename:EXDEV",
    "rmdir:EBUSY",
    "setxattr:EOPNOTSUPP",
    "write:EFAULT",
];

/// The same recording on other file systems: what only some of them can do, or do in a way of their own.
#[test]
fn on_other_file_systems() {
    for kind in [Kind::Xfs, Kind::Btrfs] {
        let fs = match LoopFs::new(kind, kind.least_bytes()) {
            Ok(fs) => fs,
            Err(why) => return skip("on_other_file_systems", &why),
        };
        for name in ["exchange", "listed_later", "unlinked", "nameless", "passed", "whiteout"] {
            let case = Case::new(name).simulating(&["openat:ENXIO", "socketpair"]);
            check_on(&case, Some(&fs.path()));
        }
    }
}

cases! {
    directory_rename;
    exchange;
    whiteout.simulating(&["openat:ENXIO"]);
    repaired_link;
    loops;
    hard_links;
    nameless;
    unlinked;
    shared_offset;
    append;
    listed_later;
    mappings;
    locks;
    downgrade;
    lives.simulating(&["wait4", "execve:ENOENT"]);
    chroot.needing_root();
    directories;
    mounts_apart;
    several;
    passed.simulating(&["socketpair"]);
    taken.simulating(&["pidfd_open", "pidfd_getfd:EBADF"]);
    handles.simulating(&["openat"]);
    failures.simulating(&OF_THE_MACHINE);
    programs_of_others.needing_root().simulating(&["fcntl", "read"]);
    users_for_files.needing_root();
    failures_user.needing_root().simulating(&["mknodat:EPERM", "setresuid:EPERM"]);
}
