//! The files of a spool, and how what goes into them gets there.
//!
//! Goals: a recorded program that waits for its own data to be on the disk does not wait for the recorder's, too. What is written
//! goes to the page cache as long as there is little in it that is not on the disk yet; a recording that is short, or tells
//! little, then takes nothing of the disk while the program runs. Beyond that it goes to the disk at once, without a copy, so
//! that neither the kernel nor anybody who writes has to wait for memory. Non-goals: outliving the machine: who kills the
//! recorder loses nothing of it, a power failure the last half a minute.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::SpoolError;
use crate::environment::memory_limit_bytes;
use crate::spool::Standing;
use crate::spool::layout::SEGMENT_BYTES;
use crate::sys::Shared;

/// A file of the spool holds so many segments.
const SEGMENTS_PER_FILE: u64 = 4096;
/// How much goes to the page cache before the kernel is asked again what is in it.
const LOOK_BYTES: u64 = 32 << 20;
const PAGE_BYTES: u64 = 4096;
/// What goes past the page cache begins and ends at multiples of this.
const BLOCK: usize = 4096;

/// Name of a file of the spool.
fn file_name(number: u64) -> String {
    format!("{number:03}.seg")
}

/// Where a segment stands that has a slot.
pub fn standing(slot: u64) -> Standing {
    let offset = slot % SEGMENTS_PER_FILE * SEGMENT_BYTES as u64;
    Standing { file: (slot / SEGMENTS_PER_FILE) as u32, offset: offset as u32 }
}

/// The files, as many as there are by now.
pub struct Files {
    directory: PathBuf,
    files: Vec<Pair>,
    room: Room,
}

/// A file, opened in both ways.
struct Pair {
    cached: File,
    /// Past the page cache; `None` where the file system has no such way.
    direct: Option<File>,
}

impl Files {
    /// None yet, in a directory that exists.
    pub fn new(directory: &Path) -> Files {
        Files { directory: directory.to_path_buf(), files: Vec::new(), room: Room::new() }
    }

    /// The directory that they are in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a whole segment, which lies at `base`. Where a part of it was put before, the rest goes the same way.
    pub fn put_segment(
        &mut self,
        memory: &Shared,
        base: usize,
        slot: u64,
        before: Option<Way>,
    ) -> Result<(), SpoolError> {
        let (number, position) = self.place(slot)?;
        let way = self.way(before, SEGMENT_BYTES);
        let written = memory.write_to(self.files[number].by(way), position, base, SEGMENT_BYTES);
        written.map_err(|source| self.unwritten(number, source))
    }

    /// Writes so much of a buffer in place of a segment; its slot is as long as any, with a hole at the end. Says which way
    /// that went.
    pub fn put_part(
        &mut self,
        slot: u64,
        buffer: &mut Aligned,
        length: usize,
        before: Option<Way>,
    ) -> Result<Way, SpoolError> {
        let (number, position) = self.place(slot)?;
        let padded = length.next_multiple_of(BLOCK);
        let way = self.way(before, padded);
        let bytes = &mut buffer.bytes()[..padded];
        bytes[length..].fill(0);
        let file = self.files[number].by(way);
        // Grown first, so that no file system makes room in advance behind what is written.
        let written = grow(file, position + SEGMENT_BYTES as u64).and_then(|()| file.write_all_at(bytes, position));
        written.map(|()| way).map_err(|source| self.unwritten(number, source))
    }

    fn way(&mut self, before: Option<Way>, bytes: usize) -> Way {
        before.unwrap_or_else(|| if self.room.take(bytes as u64) { Way::Cached } else { Way::Direct })
    }

    /// The file of a slot, made if need be, and the position in it.
    fn place(&mut self, slot: u64) -> Result<(usize, u64), SpoolError> {
        let Standing { file, offset } = standing(slot);
        let number = file as usize;
        while self.files.len() <= number {
            let next = self.files.len();
            let made = Pair::make(&self.path(next)).map_err(|source| self.unwritten(next, source))?;
            self.files.push(made);
        }
        Ok((number, offset.into()))
    }

    fn path(&self, number: usize) -> PathBuf {
        self.directory.join(file_name(number as u64))
    }

    fn unwritten(&self, number: usize, source: io::Error) -> SpoolError {
        SpoolError::Unwritten { path: self.path(number), source }
    }
}

/// How something goes into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Through the page cache.
    Cached,
    /// Past it.
    Direct,
}

impl Pair {
    fn by(&self, way: Way) -> &File {
        match (way, &self.direct) {
            (Way::Direct, Some(direct)) => direct,
            _ => &self.cached,
        }
    }

    fn make(path: &Path) -> io::Result<Pair> {
        let cached = OpenOptions::new().write(true).create_new(true).open(path)?;
        let direct = match OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path) {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => None,
            other => Some(other?),
        };
        Ok(Pair { cached, direct })
    }
}

/// A file is a whole number of slots, whatever is in the last.
fn grow(file: &File, length: u64) -> io::Result<()> {
    if file.metadata()?.len() < length { file.set_len(length) } else { Ok(()) }
}

/// Memory that begins at a multiple of [`BLOCK`].
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// So many bytes, a multiple of [`BLOCK`].
    pub fn new(length: usize) -> Aligned {
        let bytes = vec![0; length + BLOCK];
        let start = bytes.as_ptr().align_offset(BLOCK);
        Aligned { bytes, start, length }
    }

    /// Them.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// How much may still go to the page cache.
///
/// The kernel begins to write by itself when what waits in the page cache is over a threshold, and lets those who write
/// wait halfway to another one (`Documentation/admin-guide/sysctl/vm.rst`). A quarter of the first is left to everybody else.
struct Room {
    left_bytes: u64,
    /// The recorder lives under a memory limit, perhaps together with what it records: the page cache is not its to fill.
    limited: bool,
    /// What to write before the kernel is asked again, if there was no room.
    refused_bytes: u64,
}

impl Room {
    fn new() -> Room {
        Room { left_bytes: 0, limited: memory_limit_bytes("self").is_some(), refused_bytes: 0 }
    }

    /// Whether so many bytes may go to the page cache.
    fn take(&mut self, bytes: u64) -> bool {
        if self.limited {
            return false;
        }
        if self.left_bytes < bytes && self.refused_bytes == 0 {
            let free = fs::read_to_string("/proc/vmstat").ok().and_then(|text| free_bytes(&text)).unwrap_or(0);
            self.left_bytes = free.min(LOOK_BYTES);
            self.refused_bytes = if self.left_bytes < bytes { LOOK_BYTES } else { 0 };
        }
        let taken = self.left_bytes >= bytes;
        self.left_bytes -= if taken { bytes } else { 0 };
        self.refused_bytes = self.refused_bytes.saturating_sub(if taken { 0 } else { bytes });
        taken
    }
}

/// Of what the kernel tells of its memory: bytes to three quarters of the threshold.
fn free_bytes(vmstat: &str) -> Option<u64> {
    let pages = |name: &str| -> Option<u64> {
        vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    };
    let waiting = pages("nr_dirty")? + pages("nr_writeback")?;
    Some((pages("nr_dirty_background_threshold")? / 4 * 3).saturating_sub(waiting) * PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_threshold_is_left_to_others() {
        let told = "nr_dirty 100\nnr_writeback 20\nnr_writeback_temp 7\nnr_dirty_threshold 4000\nnr_dirty_background_threshold 1000\n";
        assert_eq!(free_bytes(told), Some(630 * PAGE_BYTES));
        assert_eq!(free_bytes(&told.replace("nr_dirty 100", "nr_dirty 800")), Some(0));
        assert_eq!(free_bytes("nr_dirty 1\n"), None);
    }

    #[test]
    fn under_a_memory_limit_nothing_goes_to_the_page_cache() {
        let mut room = Room { left_bytes: 1 << 30, limited: true, refused_bytes: 0 };
        assert!(!room.take(1));
    }

    #[test]
    fn who_was_refused_asks_again_after_a_while() {
        let mut room = Room { left_bytes: 5, limited: false, refused_bytes: 10 };
        assert!(!room.take(10));
        assert_eq!((room.left_bytes, room.refused_bytes), (5, 0));
        assert!(room.take(5));
    }
}
