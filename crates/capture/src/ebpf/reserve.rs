//! Room on the disk that is kept for what the kernel holds when the disk is full.
//!
//! Goals: without it a processor that does little would still hold, on a full disk, what it recorded a second ago, and all that
//! others have written since would be in vain. The room is a file of the spool like any other, only that it has its blocks
//! before; who is killed leaves it empty. Non-goals: what goes there (`rescue`).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use rustix::process::{Resource, getrlimit};

use super::rescue::end_within;
use crate::spool::layout::{SEGMENT_BYTES, SegmentHead};

/// Name of the file. It is no number: nothing is said by its place in it.
const NAME: &str = "last.seg";
/// Of what is free so much is taken at most, one of so many parts.
const PART: u64 = 8;
/// So much is written at once: the room may end at any block.
const BLOCK: usize = 4096;

/// The room.
pub struct Reserve {
    path: PathBuf,
    file: File,
    /// Segments that are there.
    count: u64,
}

impl Reserve {
    /// Keeps so many bytes in the directory of a spool, or as many as there are.
    ///
    /// # Errors
    /// The file cannot be made. That it cannot have its blocks is no error.
    pub fn keep(directory: &Path, bytes: u64) -> io::Result<Reserve> {
        let path = directory.join(NAME);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        let bytes = bytes.min(free(&file) / PART).min(getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX));
        let bytes = bytes / BLOCK as u64 * BLOCK as u64;
        let had = bytes == 0 || rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes).is_ok();
        if !had {
            file.set_len(0)?;
        }
        Ok(Reserve { path, file, count: 0 })
    }

    /// Writes a segment, of which the records up to `from` are elsewhere; says up to where all of its records are here. If
    /// none is, nothing is.
    pub fn put(&mut self, segment: &[u8], from: usize) -> usize {
        let position = self.count * SEGMENT_BYTES as u64;
        let written = self.write(position, segment);
        let end = end_within(segment, written);
        let kept = end > from && (end == segment.len() || self.shorten(position, end).is_ok());
        if !kept {
            let _ = self.file.set_len(position);
            return from;
        }
        self.count += 1;
        self.free_behind(position, end as u64);
        end
    }

    /// How much of it could be written.
    fn write(&self, position: u64, segment: &[u8]) -> usize {
        if self.file.set_len(position + SEGMENT_BYTES as u64).is_err() {
            return 0;
        }
        let mut pieces = segment.chunks(BLOCK).enumerate().map(|(number, piece)| (number * BLOCK, piece));
        let failed = pieces.find(|(at, piece)| self.file.write_all_at(piece, position + *at as u64).is_err());
        failed.map_or(segment.len(), |(at, _)| at)
    }

    fn shorten(&self, position: u64, end: usize) -> io::Result<()> {
        let at = position + std::mem::offset_of!(SegmentHead, used) as u64;
        self.file.write_all_at(&(end as u32).to_le_bytes(), at)
    }

    /// What a segment does not need is for the next, which may lie beyond what was kept.
    fn free_behind(&self, position: u64, used: u64) {
        let (from, end) = (used.next_multiple_of(BLOCK as u64), SEGMENT_BYTES as u64);
        if from < end {
            let flags = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE;
            let _ = rustix::fs::fallocate(&self.file, flags, position + from, end - from);
        }
    }
}

impl Drop for Reserve {
    /// Gives back what is not used.
    fn drop(&mut self) {
        let _ = match self.count {
            0 => fs::remove_file(&self.path),
            count => self.file.set_len(count * SEGMENT_BYTES as u64),
        };
    }
}

/// Bytes that there are for who is not root.
fn free(file: &File) -> u64 {
    rustix::fs::fstatvfs(file).map_or(0, |system| system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::super::rescue::tests::segment;
    use super::*;

    #[test]
    fn what_is_kept_is_read_and_what_is_not_used_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let mut reserve = Reserve::keep(dir.path(), 2 << 20).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0, "there is no segment in it");
        let bytes = segment(&[5, 3, 9]);
        assert_eq!(reserve.put(&bytes, 64), bytes.len());
        assert_eq!(reserve.put(&bytes, bytes.len()), bytes.len(), "nothing new");
        drop(reserve);
        let read = fs::read(&path).unwrap();
        assert_eq!((read.len(), &read[..bytes.len()]), (SEGMENT_BYTES, &bytes[..]));
        drop(Reserve::keep(dir.path(), 1 << 20).unwrap());
        assert!(!path.exists());
    }
}
