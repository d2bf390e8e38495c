//! The files of a spool, and how what goes into them gets there.
//!
//! Goals: every segment has a slot, and goes into it whole, through the page cache or past it. Non-goals: which of the two
//! (`ways`); outliving the machine: who kills the recorder loses nothing of it, a power failure the last half a minute.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FallocateFlags;

use super::SpoolError;
use super::ways::{Cost, Course, Way, Ways};
use crate::spool::Standing;
use crate::spool::layout::{SEGMENT_BYTES, SegmentHead};
use crate::sys::Shared;

/// A file of the spool holds so many segments.
const SEGMENTS_PER_FILE: u64 = 4096;
/// What goes past the page cache begins and ends at multiples of this.
const BLOCK: usize = 4096;
/// Where a segment says how much of it is filled.
const USED: u64 = std::mem::offset_of!(SegmentHead, used) as u64;

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
    /// Which of the two ways what is written goes.
    ways: Ways,
    /// The next slot of each hand in its present file, if that has one.
    next: [Option<u64>; 2],
    /// Files that a hand has begun, and slots that were given out.
    begun: u64,
    given: u64,
}

/// Who writes. Each has files of its own: a file system lets nobody else write to a file that grows.
#[derive(Debug, Clone, Copy)]
pub enum Hand {
    /// The sink.
    Sink = 0,
    /// Its other hand (`aside`).
    Aside = 1,
}

/// A file, opened in both ways.
struct Pair {
    cached: Arc<File>,
    /// Whether what goes to the page cache is quicker there if it has its blocks before: ext4 then need not promise one for
    /// each page. (For XFS, Btrfs and tmpfs it is a longer way.)
    reserves: bool,
    /// Past the page cache; `None` where the file system has no such way.
    direct: Option<Arc<File>>,
}

/// Where a segment goes.
pub struct Target {
    file: Arc<File>,
    /// The same, through the page cache.
    cached: Arc<File>,
    path: PathBuf,
    position: u64,
    /// Bytes of it that were written before.
    before: Option<u32>,
    reserves: bool,
    /// Bytes that are written at once, at most.
    piece: usize,
}

impl Target {
    /// Writes the segment that lies at `base`, and says what that took.
    pub fn put(&self, memory: &Shared, base: usize) -> Result<Cost, SpoolError> {
        self.measure(|| {
            self.reserve(SEGMENT_BYTES);
            let put = |at: usize| {
                let length = self.piece.min(SEGMENT_BYTES - at);
                memory.write_to(&self.file, self.position + at as u64, base + at, length)
            };
            (0..SEGMENT_BYTES).step_by(self.piece).try_for_each(put)
        })
    }

    /// Writes the beginning of a segment, and says what that took; a hole follows.
    fn put_beginning(&self, bytes: &[u8]) -> Result<Cost, SpoolError> {
        self.measure(|| {
            self.reserve(bytes.len());
            // Grown first, so that no file system makes room in advance behind what is written.
            grow(&self.file, self.position + SEGMENT_BYTES as u64)?;
            let mut pieces = bytes.chunks(self.piece).zip((self.position..).step_by(self.piece));
            pieces.try_for_each(|(piece, at)| self.file.write_all_at(piece, at))
        })
    }

    fn measure(&self, write: impl FnOnce() -> io::Result<()>) -> Result<Cost, SpoolError> {
        let (written, cost) = Cost::of(write);
        written.map_err(|source| {
            self.take_back();
            SpoolError::Unwritten { path: self.path.clone(), source }
        })?;
        Ok(cost)
    }

    /// What was written in part is not there: of a new segment, which is the last of its file, nothing, of another what was
    /// there before. What cannot be taken back is found to be damaged when it is read.
    fn take_back(&self) {
        let _ = match self.before {
            None => self.cached.set_len(self.position),
            Some(used) => self.cached.write_all_at(&used.to_le_bytes(), self.position + USED),
        };
    }

    /// Gives so many bytes their blocks. What is wrong the writing itself will say.
    fn reserve(&self, bytes: usize) {
        if self.reserves {
            let _ = rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.position, bytes as u64);
        }
    }
}

impl Files {
    /// None yet, in a directory that exists.
    pub fn new(directory: &Path) -> Files {
        let directory = directory.to_path_buf();
        Files { directory, files: Vec::new(), ways: Ways::new(), next: [None; 2], begun: 0, given: 0 }
    }

    /// A place for a segment.
    pub fn new_slot(&mut self, hand: Hand) -> u64 {
        self.given += 1;
        let next = &mut self.next[hand as usize];
        let slot = next.take().unwrap_or_else(|| {
            self.begun += 1;
            (self.begun - 1) * SEGMENTS_PER_FILE
        });
        *next = Some(slot + 1).filter(|slot| !slot.is_multiple_of(SEGMENTS_PER_FILE));
        slot
    }

    /// How many slots were given out.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// Whither past the page cache; `None` where the file system has no such way.
    pub fn past_cache(&mut self, slot: u64) -> Result<Option<Target>, SpoolError> {
        let (number, _) = self.place(slot)?;
        if self.files[number].direct.is_none() {
            return Ok(None);
        }
        self.target(slot, None, Course::new(Way::Direct, true)).map(Some)
    }

    fn target(&mut self, slot: u64, before: Option<u32>, Course { way, piece }: Course) -> Result<Target, SpoolError> {
        let (number, position) = self.place(slot)?;
        let pair = &self.files[number];
        let reserves = pair.reserves && way == Way::Cached;
        let (file, cached) = (pair.by(way).clone(), pair.cached.clone());
        Ok(Target { file, cached, path: self.path(number), position, before, reserves, piece })
    }

    /// Which way so many bytes are to go; `hurry`: the program waits for them, or soon will.
    pub fn choose(&mut self, bytes: usize, hurry: bool) -> Course {
        self.ways.choose(bytes.next_multiple_of(BLOCK) as u64, hurry)
    }

    /// A whole segment took so much.
    pub fn took(&mut self, way: Way, cost: Cost) {
        self.ways.took(way, SEGMENT_BYTES, cost);
    }

    /// The directory that they are in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a whole segment, which lies at `base`; `before`: bytes of it that were written already, if any were.
    pub fn put_segment(
        &mut self,
        memory: &Shared,
        base: usize,
        slot: u64,
        before: Option<u32>,
        course: Course,
    ) -> Result<(), SpoolError> {
        let cost = self.target(slot, before, course)?.put(memory, base)?;
        self.took(course.way, cost);
        Ok(())
    }

    /// Writes so much of a buffer in place of a segment; its slot is as long as any, with a hole at the end.
    pub fn put_part(
        &mut self,
        slot: u64,
        before: Option<u32>,
        buffer: &mut Aligned,
        length: usize,
        course: Course,
    ) -> Result<(), SpoolError> {
        let bytes = &mut buffer.bytes()[..length.next_multiple_of(BLOCK)];
        bytes[length..].fill(0);
        let cost = self.target(slot, before, course)?.put_beginning(bytes)?;
        self.ways.took(course.way, bytes.len(), cost);
        Ok(())
    }

    /// A segment that was written, as far as it can be read.
    pub fn get(&self, slot: u64, into: &mut [u8]) -> io::Result<()> {
        let Standing { file, offset } = standing(slot);
        File::open(self.path(file as usize))?.read_exact_at(into, offset.into())
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

impl Pair {
    fn by(&self, way: Way) -> &Arc<File> {
        match (way, &self.direct) {
            (Way::Direct | Way::Sparing, Some(direct)) => direct,
            _ => &self.cached,
        }
    }

    fn make(path: &Path) -> io::Result<Pair> {
        let cached = Arc::new(OpenOptions::new().write(true).create_new(true).open(path)?);
        let direct = match OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path) {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => None,
            other => Some(Arc::new(other?)),
        };
        let reserves = rustix::fs::fstatfs(&cached)?.f_type == libc::EXT4_SUPER_MAGIC;
        Ok(Pair { cached, reserves, direct })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hand_has_files_of_its_own() {
        let mut files = Files::new(Path::new("nowhere"));
        let slots = [Hand::Sink, Hand::Sink, Hand::Aside, Hand::Sink].map(|hand| files.new_slot(hand));
        assert_eq!(slots, [0, 1, SEGMENTS_PER_FILE, 2]);
        let last = (3..SEGMENTS_PER_FILE).map(|_| files.new_slot(Hand::Sink)).last();
        assert_eq!(last, Some(SEGMENTS_PER_FILE - 1));
        let after = [Hand::Sink, Hand::Aside].map(|hand| files.new_slot(hand));
        assert_eq!(after, [2 * SEGMENTS_PER_FILE, SEGMENTS_PER_FILE + 1]);
        assert_eq!(files.given(), SEGMENTS_PER_FILE + 3);
    }
}
