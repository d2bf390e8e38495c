//! Why a tree could not be built or restored, where, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What is wrong with a node of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum NodeFault {
    #[error("its path is not absolute")]
    NotAbsolute,
    #[error("its path has an empty, `.` or `..` component, or a NUL byte")]
    BadComponent,
    #[error("its path or a component is too long (4,095 and 255 bytes)")]
    TooLong,
    #[error("its path appears twice")]
    Duplicate,
    #[error("its parent is missing, comes later, or is not a directory")]
    NoParent,
    #[error("its path is reserved for the marker of Reprise")]
    Reserved,
    #[error("the root must be a directory, and `lost+found` there too")]
    RootKind,
    #[error("it links to a node that does not come before it, is a link itself, or is a directory")]
    BadLink,
    #[error("its content is not ascending and disjoint, or lies outside the file or the buffers")]
    BadExtent,
    #[error("its size is more than a file can have")]
    TooLarge,
    #[error("its link text is empty, too long, or has a NUL byte")]
    BadLinkText,
    #[error("an extended attribute has an empty or too long name, a NUL byte in it, or more than 64 KiB")]
    BadAttribute,
}

/// Why the target cannot be used.
#[derive(Debug, Error)]
pub enum TargetError {
    /// No such directory.
    #[error("the target {d} does not exist; create it with `mkdir -p {d}`", d = dir.display())]
    #[allow(missing_docs)]
    Missing { dir: PathBuf },
    /// It is something else.
    #[error("the target {} is not a directory; choose an empty directory", dir.display())]
    #[allow(missing_docs)]
    NotADirectory { dir: PathBuf },
    /// No permission.
    #[error("no permission to write to the target {}; choose a directory of your own, or run with sudo", dir.display())]
    #[allow(missing_docs)]
    NotWritable { dir: PathBuf },
    /// Files that are not ours.
    #[error("the target {} is not empty (it holds `{entry}`); choose an empty directory: what is in a target is replaced", dir.display())]
    #[allow(missing_docs)]
    NotEmpty { dir: PathBuf, entry: String },
    /// Our tree, but for another trace.
    #[error("the target {} holds the tree of another trace ({found}); choose an empty directory, or empty this one", dir.display())]
    #[allow(missing_docs)]
    OtherTrace { dir: PathBuf, found: String },
    /// A marker that cannot be read.
    #[error("the marker of Reprise in {} cannot be understood ({reason}); choose an empty directory", dir.display())]
    #[allow(missing_docs)]
    BadMarker { dir: PathBuf, reason: String },
    /// `build` on a tree that exists already.
    #[error("the target {} was built before; restore it instead", dir.display())]
    #[allow(missing_docs)]
    AlreadyBuilt { dir: PathBuf },
    /// `restore` on a directory without our tree.
    #[error("the target {} does not hold the tree of this trace; build it first", dir.display())]
    #[allow(missing_docs)]
    NotOurs { dir: PathBuf },
    /// A node that cannot be created safely. Nothing was touched.
    #[error(
        "node {index} of the initial tree (`{path}`) is refused: {fault}; the plan is damaged or hostile, make it again"
    )]
    #[allow(missing_docs)]
    Node { index: usize, path: String, fault: NodeFault },
    /// Something is mounted inside.
    #[error("another file system is mounted at {}; unmount it (`umount {}`): a restore does not cross mounts", place.display(), place.display())]
    #[allow(missing_docs)]
    MountInside { place: PathBuf },
    /// Two names of the tree are one to the file system.
    #[error("{} exists already although the tree lists it once; the file system may ignore case: choose another", place.display())]
    #[allow(missing_docs)]
    Collision { place: PathBuf },
    /// No room.
    #[error("no space left ({what}) while writing {}; choose a larger target, then restore", place.display())]
    #[allow(missing_docs)]
    NoSpace { place: PathBuf, what: &'static str },
    /// Read-only file system.
    #[error("{} is on a read-only file system; remount it (`mount -o remount,rw`) or choose another target", place.display())]
    #[allow(missing_docs)]
    ReadOnly { place: PathBuf },
    /// A device that fails.
    #[error("the device fails at {} (EIO); look at `dmesg`, and choose another target", place.display())]
    #[allow(missing_docs)]
    Device { place: PathBuf },
    /// The clock of the file system stands still, so changes could not be told.
    #[error("the file system of {} does not date changes (its clock stood still for 5 s); choose another target", dir.display())]
    #[allow(missing_docs)]
    NoClock { dir: PathBuf },
    /// Any other failure of a system call.
    #[error("cannot {action} {}: {source}; {next}", place.display())]
    #[allow(missing_docs)]
    Io { action: &'static str, place: PathBuf, next: &'static str, source: io::Error },
}

impl TargetError {
    pub(super) fn io(action: &'static str, place: &Path, source: io::Error) -> Self {
        let place = place.to_path_buf();
        let next = match source.raw_os_error() {
            Some(libc::ENOSPC) => {
                return TargetError::NoSpace { place, what: "disk full, ENOSPC" };
            }
            Some(libc::EDQUOT) => {
                return TargetError::NoSpace { place, what: "quota, EDQUOT" };
            }
            Some(libc::EROFS) => return TargetError::ReadOnly { place },
            Some(libc::EIO) => return TargetError::Device { place },
            Some(libc::EEXIST) => return TargetError::Collision { place },
            Some(libc::EXDEV | libc::EBUSY) => return TargetError::MountInside { place },
            Some(libc::EFBIG | libc::EINVAL | libc::EOVERFLOW) => {
                "the file system cannot hold it: choose another target"
            }
            Some(libc::EPERM | libc::EACCES) => "run with sudo, or check `lsattr` for immutable files (`chattr -i`)",
            Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (`ulimit -n`)",
            Some(libc::ENAMETOOLONG) => "the file system limits names more: choose another target",
            Some(libc::ELOOP | libc::ENOTDIR | libc::ENOENT) => {
                "something else changes the target: stop it, then restore"
            }
            _ => "choose another target",
        };
        TargetError::Io { action, place, next, source }
    }
}
