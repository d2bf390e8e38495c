//! Finding one's way in the tree by directory descriptors: never through a symbolic link, never across a mount.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use super::TargetError;
use crate::sys;

/// What `mkfs` leaves in the root of some file systems; left alone.
pub(super) const LOST_AND_FOUND: &[u8] = b"lost+found";

const CACHED: usize = 16;

/// Directories opened last, each beneath the one before: paths in roughly depth-first order find their parent here.
pub(super) struct Directories<'a> {
    root: BorrowedFd<'a>,
    open: Vec<(Vec<u8>, OwnedFd)>,
}

impl<'a> Directories<'a> {
    pub fn new(root: BorrowedFd<'a>) -> Self {
        Directories { root, open: Vec::with_capacity(CACHED) }
    }

    /// The directory with this absolute, checked path.
    pub fn get(&mut self, path: &[u8]) -> io::Result<BorrowedFd<'_>> {
        while self.open.pop_if(|(above, _)| !is_at_or_beneath(path, above)).is_some() {}
        if path == b"/" {
            return Ok(self.root);
        }
        let above = self.open.last();
        if above.is_none_or(|(above, _)| above != path) {
            let (from, rest) = above.map_or((self.root, &path[1..]), |(p, fd)| (fd.as_fd(), &path[p.len() + 1..]));
            let fd = open_directory(from, rest)?;
            if self.open.len() == CACHED {
                self.open.remove(0);
            }
            self.open.push((path.to_vec(), fd));
        }
        Ok(self.open.last().map_or(self.root, |(_, fd)| fd.as_fd()))
    }
}

fn is_at_or_beneath(path: &[u8], above: &[u8]) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}

/// Opens a directory as a place. `EXDEV` at a mount, `ELOOP` or `ENOTDIR` at a symbolic link.
pub(super) fn open_directory(from: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    open_place(from, path, libc::O_DIRECTORY)
}

/// Opens anything but the target of a symbolic link, as a place (`O_PATH`).
pub(super) fn open_place(from: BorrowedFd<'_>, path: &[u8], flags: i32) -> io::Result<OwnedFd> {
    let resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV;
    // NO_SYMLINKS refuses a link as last component too, unless O_PATH|O_NOFOLLOW asks for the link itself.
    sys::openat2(from, path, flags | libc::O_PATH | libc::O_NOFOLLOW, 0, resolve)
}

/// The names in a directory, `.` and `..` aside. `place` is for messages.
pub(super) fn entries(directory: BorrowedFd<'_>, place: &Path) -> Result<Vec<Vec<u8>>, TargetError> {
    fs::read_dir(sys::name_of(directory))
        .and_then(|listing| listing.map(|entry| entry.map(|e| e.file_name().into_vec())).collect())
        .map_err(|e| TargetError::io("list", place, e))
}
