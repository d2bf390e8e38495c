//! What is done when the initial tree is there and before the replay starts: caches are emptied, the user's command is run.
//!
//! Goals: what was prepared is on the device, and then forgotten by the kernel; who may not say so to the kernel gets
//! what can be had, and a word. Non-goals: caches of the device itself or of a server.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;

use reprise_plan::tree::{Node, NodeKind};

use super::{Job, ReplayError};
use crate::sys;

const CONTENTS_ONLY: &str =
    "--cold: without root only cached contents of the initial tree were dropped, not names and attributes";

/// Empties the caches; returns a note if only in part.
pub(super) fn empty_caches(jobs: &[Job<'_>]) -> Result<Option<&'static str>, ReplayError> {
    let failed = |e| ReplayError::system("write the initial tree out", e);
    for job in jobs {
        File::open(job.dir).and_then(|dir| sys::synchronize(dir.as_fd())).map_err(failed)?;
    }
    if std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok() {
        return Ok(None);
    }
    for job in jobs {
        forget_tree(job).map_err(|e| ReplayError::system("empty the caches", e))?;
    }
    Ok(Some(CONTENTS_ONLY))
}

fn forget_tree(job: &Job<'_>) -> io::Result<()> {
    let dir = File::open(job.dir)?;
    let is_file = |node: &&Node| node.kind == NodeKind::File && node.link_of.is_none();
    job.plan.contents.tree.iter().filter(is_file).try_for_each(|node| forget(dir.as_fd(), &node.path))
}

/// Drops what is cached of a file's contents; one that may not be opened is left as it is.
fn forget(dir: BorrowedFd<'_>, path: &[u8]) -> io::Result<()> {
    let relative = path.strip_prefix(b"/").unwrap_or(path);
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    match sys::openat2(dir, relative, flags, 0, libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS) {
        Ok(file) => sys::forget_contents(file.as_fd()),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::ENOENT)) => Ok(()),
        Err(e) => Err(e),
    }
}

/// Runs the user's command; the replay starts only after its success.
pub(super) fn before_start(command: &OsStr) -> Result<(), ReplayError> {
    let status = Command::new("sh").arg("-c").arg(command).status();
    let status = status.map_err(|e| ReplayError::system("run a shell", e))?;
    if status.success() {
        return Ok(());
    }
    Err(ReplayError::BeforeStart { command: command.to_string_lossy().into_owned(), status })
}
