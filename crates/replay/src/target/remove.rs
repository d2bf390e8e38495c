//! Removing what does not belong to the tree: however deep, never through a link, never across a mount.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use super::place::change_mode;
use super::{TargetError, walk};
use crate::sys::{self, Stat};

/// Directories nested deeper than this are first moved to the top, so that neither descriptors nor stack run out.
const DEEPEST: u32 = 32;

pub(super) struct Remover<'a> {
    root: BorrowedFd<'a>,
    mount: u64,
    moved: Vec<Vec<u8>>,
    next: u64,
}

impl<'a> Remover<'a> {
    /// `mount`: of the root, see [`Stat::mount`].
    pub fn new(root: BorrowedFd<'a>, mount: u64) -> Self {
        Remover { root, mount, moved: Vec::new(), next: 0 }
    }

    /// Removes `name` from `dir` with all beneath it. `place` is for messages.
    pub fn remove(&mut self, dir: BorrowedFd<'_>, name: &[u8], place: &Path) -> Result<(), TargetError> {
        self.remove_to(dir, name, place, 0)?;
        while let Some(name) = self.moved.pop() {
            self.remove_to(self.root, &name, place, 0)?;
        }
        Ok(())
    }

    fn remove_to(&mut self, dir: BorrowedFd<'_>, name: &[u8], place: &Path, depth: u32) -> Result<(), TargetError> {
        let failed = |e| TargetError::io("remove", place, e);
        let about = sys::stat(dir, name).map_err(failed)?;
        if about.mount != self.mount {
            return Err(TargetError::MountInside { place: place.to_path_buf() });
        }
        if about.kind() != libc::S_IFDIR {
            return sys::unlink(dir, name, 0).map_err(failed);
        }
        let inner = walk::open_directory(dir, name).map_err(failed)?;
        open_up(inner.as_fd(), &about).map_err(failed)?;
        if depth == DEEPEST {
            return self.move_to_top(dir, name).map_err(failed);
        }
        for entry in walk::entries(inner.as_fd(), place)? {
            self.remove_to(inner.as_fd(), &entry, place, depth + 1)?;
        }
        sys::unlink(dir, name, libc::AT_REMOVEDIR).map_err(failed)
    }

    fn move_to_top(&mut self, dir: BorrowedFd<'_>, name: &[u8]) -> std::io::Result<()> {
        loop {
            let top = format!(".reprise-removing-{}", self.next).into_bytes();
            self.next += 1;
            match sys::rename((dir, name), (self.root, &top)) {
                Err(e) if e.raw_os_error() == Some(libc::EEXIST) => {}
                outcome => {
                    self.moved.push(top);
                    return outcome;
                }
            }
        }
    }
}

/// Makes a directory listable and writable for an owner who is not root.
pub(super) fn open_up(directory: BorrowedFd<'_>, about: &Stat) -> std::io::Result<()> {
    if about.mode & 0o700 == 0o700 || sys::user().0 == 0 {
        return Ok(());
    }
    change_mode(directory, about.mode & 0o7777 | 0o700)
}
