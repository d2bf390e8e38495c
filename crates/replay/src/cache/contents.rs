//! Every file of an initial tree: dropped from the page cache, read into it, looked for in it.
//!
//! Goals: no path leads out of the target; a file that this user may not open is passed over. Non-goals: names and attributes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use reprise_plan::tree::{Node, NodeKind};

use crate::sys;

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;

/// Drops what is cached of the tree's contents and need not be written first.
pub(crate) fn forget(tree: &[Node], dir: &Path) -> io::Result<()> {
    each(tree, dir, |file| sys::forget(file.as_fd(), 0, 0))
}

/// Reads the tree's contents, so that they are cached.
pub(crate) fn preload(tree: &[Node], dir: &Path) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    each(tree, dir, |file| {
        let mut file = File::from(file);
        while file.read(&mut piece)? > 0 {}
        Ok(())
    })
}

/// Bytes of the tree's contents that are cached; `None` if this kernel does not tell.
pub(crate) fn cached_bytes(tree: &[Node], dir: &Path) -> Option<u64> {
    let mut sum = 0u64;
    each(tree, dir, |file| {
        sum = sum.saturating_add(sys::cached_bytes(file.as_fd())?);
        Ok(())
    })
    .ok()?;
    Some(sum)
}

fn each(tree: &[Node], dir: &Path, mut act: impl FnMut(OwnedFd) -> io::Result<()>) -> io::Result<()> {
    let dir = File::open(dir)?;
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOATIME;
    for node in tree.iter().filter(|node| node.kind == NodeKind::File && node.link_of.is_none()) {
        let relative = node.path.strip_prefix(b"/").unwrap_or(&node.path);
        match sys::openat2(dir.as_fd(), relative, flags, 0, libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS) {
            Ok(file) => act(file)?,
            Err(e) if matches!(e.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::ENOENT)) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
