//! Files that were made without a name (`O_TMPFILE`), or in memory (`memfd_create`), and are open at the start.
//!
//! Goals: the first can be given a name (`linkat`), the second are sealed. A file that had a name and lost it cannot, so they are made
//! as the program made them, with the content that stands under a name in the initial tree. Non-goals: files whose last name was
//! removed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, FileTimes, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

use reprise_calls::makes_nameless;

use super::failure::error_name;
use super::{Engine, issue};

/// Those that were made, by the paths of their content.
#[derive(Debug, Default)]
pub(super) struct Nameless(HashMap<Vec<u8>, Made>);

#[derive(Debug)]
struct Made {
    number: i32,
    /// Seals that are still to be added.
    seals: u32,
}

impl Nameless {
    /// A descriptor for a file that stands at `path` and was opened with these flags, if it was made without a name and still
    /// has none, or in memory. All descriptors of it share an offset: without `/proc` it cannot be opened again.
    pub(super) fn open(
        &mut self,
        engine: &Engine,
        path: &[u8],
        flags: u64,
        offset: u64,
        seals: Option<u32>,
    ) -> Option<i64> {
        if let Some(number) = self.again(path) {
            return Some(number);
        }
        let is_in_memory = seals.is_some();
        if !(makes_nameless(flags) || is_in_memory) || !engine.nameless.iter().any(|nameless| nameless == path) {
            return None;
        }
        match made(Path::new(OsStr::from_bytes(path)), flags, is_in_memory) {
            Ok(file) => {
                let number = file.into_raw_fd();
                let on_exec = if flags & libc::O_CLOEXEC as u64 != 0 { libc::FD_CLOEXEC } else { 0 };
                issue::fcntl_number(number, libc::F_SETFD, on_exec as u64);
                issue::fcntl_number(number, libc::F_SETFL, flags & !(libc::O_ASYNC as u64));
                issue::seek(number, offset);
                self.0.insert(path.to_vec(), Made { number, seals: seals.unwrap_or(0) });
                Some(number.into())
            }
            Err(error) => {
                engine.note(match is_in_memory {
                    true => format!("a file of the target stands for one in memory ({error})"),
                    false => format!("a file that was made without a name cannot be given one ({error})"),
                });
                None
            }
        }
    }

    /// A further descriptor for one that was made.
    pub(super) fn again(&self, path: &[u8]) -> Option<i64> {
        self.0.get(path).map(|made| issue::duplicate(made.number, false))
    }

    /// Seals what is in memory, when all that may be mapped for stores is.
    pub(super) fn seal(&self, engine: &Engine) {
        for made in self.0.values().filter(|made| made.seals != 0) {
            let result = issue::fcntl_number(made.number, libc::F_ADD_SEALS, made.seals.into());
            if result < 0 {
                engine.note(format!("a file in memory is not sealed as it was ({})", error_name(result)));
            }
        }
    }
}

/// A file without a name that is as the one at `path`, but for extended attributes.
fn made(path: &Path, flags: u64, is_in_memory: bool) -> io::Result<File> {
    let from = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
    let about = from.metadata()?;
    if !about.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = match is_in_memory {
        true => File::from(issue::memory_file(true)?),
        false => {
            let reads = flags & libc::O_ACCMODE as u64 != libc::O_WRONLY as u64;
            let mut options = OpenOptions::new();
            options.read(reads).write(true).custom_flags(libc::O_TMPFILE).mode(about.mode() & 0o7777);
            options.open(path.parent().unwrap_or(Path::new("/")))?
        }
    };
    copy(&from, &file, about.len())?;
    // The mode after the owner, whose change takes bits from it.
    fchown(&file, Some(about.uid()), Some(about.gid()))?;
    file.set_permissions(about.permissions())?;
    file.set_times(FileTimes::new().set_accessed(about.accessed()?).set_modified(about.modified()?))?;
    Ok(file)
}

/// Copies what is no hole.
fn copy(from: &File, mut to: &File, length: u64) -> io::Result<()> {
    to.set_len(length)?;
    let mut at = 0;
    while let Ok(begin) = u64::try_from(issue::seek_by(from.as_raw_fd(), at, libc::SEEK_DATA)) {
        let hole = issue::seek_by(from.as_raw_fd(), begin, libc::SEEK_HOLE);
        let end = u64::try_from(hole).unwrap_or(length);
        let mut from = from;
        from.seek(SeekFrom::Start(begin))?;
        to.seek(SeekFrom::Start(begin))?;
        io::copy(&mut from.take(end.saturating_sub(begin)), &mut to)?;
        at = end.max(begin + 1);
    }
    Ok(())
}
