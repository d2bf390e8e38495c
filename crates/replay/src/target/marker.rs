//! The marker: whose tree this is, whether it is complete, and since when.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::TargetError;
use crate::sys;

/// Name of the marker file, for file systems without extended attributes of users.
pub(super) const MARKER_FILE: &[u8] = b".reprise-tree";
/// Name of the extended attribute that holds the marker.
pub(super) const ATTRIBUTE: &[u8] = b"user.reprise.tree";
/// A marker file longer than this is not ours.
const LONGEST: u64 = 4096;

/// What is stored with the tree: as JSON in the extended attribute `user.reprise.tree` of the target itself, or in a
/// file `.reprise-tree` in it where the file system has no such attributes. The replayed programs could see it if they
/// looked for exactly that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Version of this structure: 1.
    pub version: u32,
    /// The trace whose initial tree it is.
    pub trace_id: String,
    /// Where that is the rest of another trace, for a replay of it to be resumed: that one's identity. The directory is its.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
    /// Identity of the list of nodes.
    pub tree: u64,
    /// Identity of the directories, by their inode numbers: moved ones are noticed by it. 0 while being built.
    pub directories: u64,
    /// When the tree was complete, by the clock of its file system, in nanoseconds since the epoch: later changes have a
    /// later change time (ctime). `None` while it is being built or restored.
    pub built_ns: Option<i64>,
    /// Changes at each writing: some file systems do not date an attribute set to the value it had.
    pub writes: u32,
}

impl Marker {
    /// Whose directory it is.
    pub fn owner(&self) -> &str {
        self.part_of.as_deref().unwrap_or(&self.trace_id)
    }
}

/// Where the marker is kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Store {
    Attribute,
    File,
}

impl Store {
    /// Reads the marker, if there is one.
    pub fn find(root: BorrowedFd<'_>, dir: &Path) -> Result<Option<Marker>, TargetError> {
        Ok(Self::locate(root, dir)?.map(|(_, marker)| marker))
    }

    /// Reads the marker and says where it was.
    pub fn locate(root: BorrowedFd<'_>, dir: &Path) -> Result<Option<(Store, Marker)>, TargetError> {
        for store in [Store::Attribute, Store::File] {
            if let Some(text) = store.read(root).map_err(|e| TargetError::io("read the marker of", dir, e))? {
                let bad = |reason| TargetError::BadMarker { dir: dir.to_path_buf(), reason };
                let marker: Marker = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
                if marker.version != 1 {
                    return Err(bad(format!("version {}", marker.version)));
                }
                return Ok(Some((store, marker)));
            }
        }
        Ok(None)
    }

    /// Writes the first marker, wherever the file system can hold it.
    pub fn create(root: BorrowedFd<'_>, dir: &Path, marker: &Marker) -> Result<Store, TargetError> {
        match Store::Attribute.write(root, marker) {
            Ok(()) => return Ok(Store::Attribute),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOTSUP | libc::EPERM | libc::ENOSPC | libc::ENOENT)) => {}
            Err(e) => return Err(TargetError::io("mark", dir, e)),
        }
        Store::File.write(root, marker).map_err(|e| TargetError::io("mark", dir, e))?;
        Ok(Store::File)
    }

    /// Replaces the marker.
    pub fn update(self, root: BorrowedFd<'_>, dir: &Path, marker: &Marker) -> Result<(), TargetError> {
        self.write(root, marker).map_err(|e| TargetError::io("mark", dir, e))
    }

    /// Takes the marker away.
    pub fn remove(self, root: BorrowedFd<'_>, dir: &Path) -> Result<(), TargetError> {
        let removed = match self {
            Store::Attribute => sys::remove_xattr(root, ATTRIBUTE),
            Store::File => sys::unlink(root, MARKER_FILE, 0),
        };
        removed.map_err(|e| TargetError::io("unmark", dir, e))
    }

    /// Marks the tree complete, and returns when every later change is sure to have a later change time: the clock of
    /// the file system is read from the marker's own carrier until it has moved on, whatever its granularity.
    pub fn complete(self, root: BorrowedFd<'_>, dir: &Path, marker: &mut Marker) -> Result<(), TargetError> {
        let failed = |e| TargetError::io("mark", dir, e);
        marker.built_ns = None;
        marker.writes = marker.writes.wrapping_add(1);
        self.write(root, marker).map_err(failed)?;
        let built_ns = self.changed_ns(root).map_err(failed)?;
        let give_up = Instant::now() + Duration::from_secs(5);
        marker.built_ns = Some(built_ns);
        while Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(2));
            marker.writes = marker.writes.wrapping_add(1);
            self.write(root, marker).map_err(failed)?;
            if self.changed_ns(root).map_err(failed)? > built_ns {
                return Ok(());
            }
        }
        marker.built_ns = None;
        self.write(root, marker).map_err(failed)?;
        Err(TargetError::NoClock { dir: dir.to_path_buf() })
    }

    fn changed_ns(self, root: BorrowedFd<'_>) -> io::Result<i64> {
        let name = match self {
            Store::Attribute => b"".as_slice(),
            Store::File => MARKER_FILE,
        };
        Ok(sys::stat(root, name)?.ctime_ns)
    }

    fn read(self, root: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
        let read = match self {
            Store::Attribute => sys::xattr(root, Some(ATTRIBUTE)),
            Store::File => open(root, libc::O_RDONLY | libc::O_NONBLOCK).and_then(|file| {
                let mut text = Vec::new();
                file.take(LONGEST).read_to_end(&mut text).map(|_| text)
            }),
        };
        match read {
            Ok(text) => Ok(Some(text)),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENODATA | libc::ENOTSUP | libc::ENOENT)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn write(self, root: BorrowedFd<'_>, marker: &Marker) -> io::Result<()> {
        let text = serde_json::to_vec(marker)?;
        match self {
            Store::Attribute => sys::set_xattr(root, ATTRIBUTE, &text),
            Store::File => {
                // One write of a small file, padded so that a shorter text leaves no rest behind; no truncation between.
                let mut file = open(root, libc::O_WRONLY | libc::O_CREAT | libc::O_NONBLOCK)?;
                let mut padded = text;
                padded.resize(padded.len().next_multiple_of(512), b' ');
                file.write_all(&padded)?;
                file.set_len(padded.len() as u64)
            }
        }
    }
}

fn open(root: BorrowedFd<'_>, flags: i32) -> io::Result<File> {
    let resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV;
    let mode = if flags & libc::O_CREAT != 0 { 0o600 } else { 0 };
    let file = File::from(sys::openat2(root.as_fd(), MARKER_FILE, flags | libc::O_NOFOLLOW, mode, resolve)?);
    // A hostile tree could have put a link to a foreign file there.
    let about = sys::stat(file.as_fd(), b"")?;
    if about.kind() != libc::S_IFREG || about.nlink != 1 {
        return Err(io::Error::from_raw_os_error(libc::ENOENT));
    }
    Ok(file)
}
