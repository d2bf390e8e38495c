//! What is there: reading a tree without following a link.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::attributes;
use crate::error::VerifyError;

/// How a replay marks its target where there are no attributes.
pub(super) const MARK_FILE: &str = ".reprise-tree";

/// Names and values.
pub(super) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// A longer path than this goes by descriptors of directories on its way: the kernel takes paths of fewer than 4096 bytes.
const LONGEST: usize = 3000;

/// Where a name lies.
pub(super) struct Place {
    path: PathBuf,
    /// The directory that the path begins at, if it is too long for one call.
    _from: Option<OwnedFd>,
}

impl Deref for Place {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

/// Where the name with this absolute path of the replayed world lies. Directories on its way must be known to be such.
pub(super) fn place(dir: &Path, path: &[u8]) -> Result<Place, VerifyError> {
    let mut rest = path.strip_prefix(b"/").unwrap_or(path);
    let mut place = Place { path: dir.to_owned(), _from: None };
    while rest.len() > LONGEST {
        // A name is shorter than this, so there is one before.
        let end = rest[..LONGEST].iter().rposition(|b| *b == b'/').unwrap_or(LONGEST);
        let way = place.path.join(OsStr::from_bytes(&rest[..end]));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&way, flags, Mode::empty()).map_err(|e| failed(&way, "open", e.into()))?;
        place = Place { path: format!("/proc/self/fd/{}", opened.as_raw_fd()).into(), _from: Some(opened) };
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    if !rest.is_empty() {
        place.path.push(OsStr::from_bytes(rest));
    }
    Ok(place)
}

fn failed(path: &Path, action: &'static str, source: io::Error) -> VerifyError {
    VerifyError::Io { path: path.to_owned(), action, source }
}

/// The attributes of the name itself; `None` if there is none.
pub(super) fn look(place: &Path) -> Result<Option<Metadata>, VerifyError> {
    match fs::symlink_metadata(place) {
        Ok(about) => Ok(Some(about)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed(place, "examine", e)),
    }
}

/// The names in a directory, sorted.
pub(super) fn list(place: &Path) -> Result<Vec<Vec<u8>>, VerifyError> {
    let entries = fs::read_dir(place).map_err(|e| failed(place, "list", e))?;
    let names: io::Result<Vec<Vec<u8>>> = entries.map(|entry| Ok(entry?.file_name().into_vec())).collect();
    let mut names = names.map_err(|e| failed(place, "list", e))?;
    names.sort_unstable();
    Ok(names)
}

/// Text of a symbolic link.
pub(super) fn target(place: &Path) -> Result<Vec<u8>, VerifyError> {
    let text = fs::read_link(place).map_err(|e| failed(place, "read the link", e))?;
    Ok(text.into_os_string().into_vec())
}

/// Opens a regular file; `None` if this user may not read it.
pub(super) fn open(place: &Path) -> Result<Option<File>, VerifyError> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    match OpenOptions::new().read(true).custom_flags(flags).open(place) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(e) => Err(failed(place, "open", e)),
    }
}

/// Whether a replay marked this directory as its own.
pub(super) fn is_replayed(dir: &Path) -> bool {
    const MARK: &[u8] = b"\"trace_id\"";
    let attribute = sized(|buffer| rustix::fs::getxattr(dir, attributes::MARK, buffer));
    let mark = attribute.ok().or_else(|| fs::read(dir.join(MARK_FILE)).ok());
    mark.is_some_and(|mark| mark.windows(MARK.len()).any(|part| part == MARK))
}

/// Extended attributes of the name itself, name and value; none where the file system has none, or this user may not see
/// them.
pub(super) fn xattrs(place: &Path) -> Result<Xattrs, VerifyError> {
    use rustix::io::Errno;
    let error = |e: Errno| failed(place, "read attributes of", e.into());
    let names = match sized(|buffer| rustix::fs::llistxattr(place, buffer)) {
        Ok(names) => names,
        Err(Errno::NOTSUP | Errno::ACCESS | Errno::PERM) => return Ok(Vec::new()),
        Err(e) => return Err(error(e)),
    };
    let mut out = Vec::new();
    for name in names.split(|b| *b == 0).filter(|n| !n.is_empty()) {
        match sized(|buffer| rustix::fs::lgetxattr(place, name, buffer)) {
            Ok(value) => out.push((name.to_vec(), value)),
            Err(Errno::NODATA | Errno::NOTSUP | Errno::ACCESS | Errno::PERM) => {}
            Err(e) => return Err(error(e)),
        }
    }
    Ok(out)
}

/// Whether the file system of a name holds attributes like this one.
pub(super) fn holds(place: &Path, name: &[u8]) -> bool {
    let asked = sized(|buffer| rustix::fs::lgetxattr(place, name, buffer));
    !matches!(asked, Err(rustix::io::Errno::NOTSUP))
}

/// Asks with room for most, then with room for all that the kernel allows.
fn sized(mut ask: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    const MOST: usize = 1 << 10;
    const ALL: usize = 64 << 10;
    let mut buffer = vec![0; MOST];
    let filled = match ask(&mut buffer) {
        Err(rustix::io::Errno::RANGE) => {
            buffer.resize(ALL, 0);
            ask(&mut buffer)?
        }
        filled => filled?,
    };
    buffer.truncate(filled);
    Ok(buffer)
}
