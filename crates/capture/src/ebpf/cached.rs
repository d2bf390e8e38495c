//! Contents of small files that are in the page cache, before a command runs.
//!
//! Goals: what a command replaces without reading it first is known all the same; nothing is fetched from a device, so that the
//! command finds the cache as it was. Non-goals: which files (the survey's).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use reprise_initial::Looked;

use crate::spool::Stood;
use crate::sys;
use crate::world::{is_synthetic, open_quietly};

/// Files up to this many bytes are small.
const SMALL_BYTES: u64 = 64 << 10;
/// Reading them takes no longer than this.
const PATIENCE: Duration = Duration::from_millis(100);

/// Whether the content of what was looked at is of interest.
pub fn is_small(looked: &Looked) -> bool {
    let regular = |mode: u32| mode & libc::S_IFMT == libc::S_IFREG;
    let small = |stat: reprise_initial::Stat| {
        regular(stat.mode) && stat.size.is_some_and(|size| (1..=SMALL_BYTES).contains(&size))
    };
    looked.stat.is_some_and(small) && !is_synthetic(looked.filesystem)
}

/// Keeps the contents of files of this look, in this order, as long as they are `most` bytes together at most.
pub fn keep(stood: &mut Stood, files: &[Vec<u8>], most: u64) {
    let until = Instant::now() + PATIENCE;
    for path in files {
        if Instant::now() > until {
            return;
        }
        let Some(stat) = stood.names.get(path).and_then(|looked| looked.stat) else { continue };
        let (Some(identity), Some(size)) = (stat.identity, stat.size) else { continue };
        if stood.contents.kept_bytes() + size > most {
            continue;
        }
        if let Some(bytes) = read(path, identity, size) {
            stood.contents.add(identity, &bytes);
        }
    }
}

/// The whole content of a file, if it is this one and in the page cache.
fn read(path: &[u8], identity: (u64, u64), size: u64) -> Option<Vec<u8>> {
    let file = open_quietly(OsStr::from_bytes(path)).ok()?;
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    let got = sys::read_cached(&file, &mut bytes).ok()?;
    let stat = sys::stat_fd(&file).ok()?;
    let same = (stat.id.device, stat.id.inode) == identity && stat.size == size;
    (same && got == bytes.len()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_files_are_read() {
        let of = |mode, size, filesystem| Looked {
            stat: Some(reprise_initial::Stat { complete: true, mode, size: Some(size), ..Default::default() }),
            target: None,
            xattrs: Vec::new(),
            filesystem,
        };
        const EXT4: u64 = 0xef53;
        const PROC: u64 = 0x9fa0;
        assert!(is_small(&of(libc::S_IFREG, SMALL_BYTES, EXT4)));
        for other in [
            of(libc::S_IFREG, SMALL_BYTES + 1, EXT4),
            of(libc::S_IFREG, 0, EXT4),
            of(libc::S_IFIFO, 1, EXT4),
            of(libc::S_IFREG, 1, PROC),
        ] {
            assert!(!is_small(&other));
        }
    }
}
