//! The target directory: its initial tree is built once, and restored by difference before each further replay.
//!
//! Goals: nothing outside the directory is touched, however hostile the list of nodes or the tree found there; an
//! interrupted run can be restored; a restore costs in proportion to what changed. Non-goals: confinement of the replay
//! (`confine`), defence against other processes that change the tree at the same time.
//!
//! A marker (see [`Marker`]) says that the tree is ours and when it was complete by the clock of its file system; what
//! has a later change time was changed since.

mod attributes;
mod buffers;
mod build;
mod check;
mod content;
mod error;
mod marker;
mod place;
mod remove;
mod report;
mod restore;
mod walk;

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use buffers::Buffers;
pub use error::{NodeFault, TargetError};
pub use marker::Marker;
use marker::Store;
pub use report::{BuildReport, RestoreReport, Skip, Skipped};

use crate::sys::{self, Stat};

/// Called with work done and total work, both in bytes of content plus 4,096 per node. Called often: limit it yourself.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// What was found in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nothing but, perhaps, `lost+found`: ready for [`Target::build`].
    Empty,
    /// Our tree for the same trace: ready for [`Target::restore`].
    Ours(Marker),
}

/// A directory that is, or may become, the world of one trace.
#[derive(Debug)]
pub struct Target {
    dir: PathBuf,
    trace_id: String,
    part_of: Option<String>,
    root: OwnedFd,
    about: Stat,
    state: State,
}

/// Opens `dir` as the target of the trace `trace_id` and examines it. Changes nothing.
///
/// # Errors
/// Missing, not a directory, read-only, not writable, or neither empty nor ours.
pub fn open(dir: &Path, trace_id: &str) -> Result<Target, TargetError> {
    open_part(dir, trace_id, None)
}

/// The same for a trace that is the rest of another one (`part_of`), whose directory it uses: what is there for the whole, or
/// for another rest, is replaced.
///
/// # Errors
/// As [`open`].
pub fn open_part(dir: &Path, trace_id: &str, part_of: Option<&str>) -> Result<Target, TargetError> {
    let owner = part_of.unwrap_or(trace_id);
    let dir_buf = || dir.to_path_buf();
    let about = fs::metadata(dir).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => TargetError::Missing { dir: dir_buf() },
        _ => TargetError::io("examine", dir, e),
    })?;
    if !about.is_dir() {
        return Err(TargetError::NotADirectory { dir: dir_buf() });
    }
    let root: OwnedFd = fs::File::open(dir).map_err(|e| TargetError::io("open", dir, e))?.into();
    let about = sys::stat(root.as_fd(), b"").map_err(|e| TargetError::io("examine", dir, e))?;
    match sys::access(root.as_fd(), b".", libc::W_OK | libc::X_OK, libc::AT_EACCESS) {
        // The recorded mode of the root may forbid writing; its owner can change that, and `restore` does.
        Err(e) if e.raw_os_error() == Some(libc::EACCES) && about.uid == sys::user().0 => {}
        Err(e) if e.raw_os_error() == Some(libc::EACCES) => {
            return Err(TargetError::NotWritable { dir: dir_buf() });
        }
        outcome => outcome.map_err(|e| TargetError::io("write to", dir, e))?,
    }
    let state = match Store::find(root.as_fd(), dir)? {
        Some(marker) if marker.owner() == owner => State::Ours(marker),
        Some(marker) => {
            return Err(TargetError::OtherTrace { dir: dir_buf(), found: marker.owner().to_owned() });
        }
        None => match walk::entries(root.as_fd(), dir)?.into_iter().find(|name| name != walk::LOST_AND_FOUND) {
            None => State::Empty,
            Some(name) => {
                let entry = String::from_utf8_lossy(&name).into_owned();
                return Err(TargetError::NotEmpty { dir: dir_buf(), entry });
            }
        },
    };
    let (trace_id, part_of) = (trace_id.to_owned(), part_of.map(str::to_owned));
    Ok(Target { dir: dir_buf(), trace_id, part_of, root, about, state })
}

impl Target {
    /// What [`open`] found.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The directory as it was given.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Makes it an ordinary directory again: nothing says any more that the tree is ours.
    ///
    /// # Errors
    /// Failures of the file system.
    pub fn disown(&self) -> Result<(), TargetError> {
        match Store::locate(self.root(), &self.dir)? {
            Some((store, _)) => store.remove(self.root(), &self.dir),
            None => Ok(()),
        }
    }

    /// The trace whose directory it is.
    fn owner(&self) -> &str {
        self.part_of.as_deref().unwrap_or(&self.trace_id)
    }

    fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Where the node with this absolute path lies, for messages.
    fn place(&self, path: &[u8]) -> PathBuf {
        let relative = path.iter().position(|byte| *byte != b'/').map_or(&[][..], |start| &path[start..]);
        self.dir.join(std::ffi::OsStr::from_bytes(relative))
    }
}
