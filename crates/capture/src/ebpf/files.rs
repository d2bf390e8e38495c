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
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    speed: Speed,
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
    cached: File,
    /// Past the page cache; `None` where the file system has no such way.
    direct: Option<Arc<File>>,
}

/// Where a whole segment goes past the page cache.
pub struct Target {
    file: Arc<File>,
    path: PathBuf,
    position: u64,
}

impl Target {
    /// Writes the segment that lies at `base`.
    pub fn put(&self, memory: &Shared, base: usize) -> Result<(), SpoolError> {
        let written = memory.write_to(&self.file, self.position, base, SEGMENT_BYTES);
        written.map_err(|source| SpoolError::Unwritten { path: self.path.clone(), source })
    }
}

impl Files {
    /// None yet, in a directory that exists.
    pub fn new(directory: &Path) -> Files {
        let directory = directory.to_path_buf();
        Files {
            directory,
            files: Vec::new(),
            room: Room::new(),
            speed: Speed::default(),
            next: [None; 2],
            begun: 0,
            given: 0,
        }
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
        let (number, position) = self.place(slot)?;
        let path = self.path(number);
        Ok(self.files[number].direct.clone().map(|file| Target { file, path, position }))
    }

    /// The directory that they are in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a whole segment, which lies at `base`.
    pub fn put_segment(&mut self, memory: &Shared, base: usize, slot: u64, way: Way) -> Result<(), SpoolError> {
        let (number, position) = self.place(slot)?;
        let began = Instant::now();
        let written = memory.write_to(self.files[number].by(way), position, base, SEGMENT_BYTES);
        self.took(way, began.elapsed());
        written.map_err(|source| self.unwritten(number, source))
    }

    /// Writes so much of a buffer in place of a segment; its slot is as long as any, with a hole at the end.
    pub fn put_part(&mut self, slot: u64, buffer: &mut Aligned, length: usize, way: Way) -> Result<(), SpoolError> {
        let (number, position) = self.place(slot)?;
        let bytes = &mut buffer.bytes()[..length.next_multiple_of(BLOCK)];
        bytes[length..].fill(0);
        let file = self.files[number].by(way);
        // Grown first, so that no file system makes room in advance behind what is written.
        let written = grow(file, position + SEGMENT_BYTES as u64).and_then(|()| file.write_all_at(bytes, position));
        written.map_err(|source| self.unwritten(number, source))
    }

    /// Which way so many bytes are to go, of somebody who is in a hurry or not: then it is the quicker one.
    pub fn way(&mut self, bytes: usize, hurry: bool) -> Way {
        let hurry_past = hurry && self.speed.is_quicker_past_the_cache();
        if !hurry_past && self.room.take(bytes.next_multiple_of(BLOCK) as u64) { Way::Cached } else { Way::Direct }
    }

    /// A whole segment took so long.
    pub fn took(&mut self, way: Way, time: Duration) {
        self.speed.note(way, time);
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
            other => Some(Arc::new(other?)),
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

/// How long a segment takes, in each way: the page cache may be the slower one, where its memory has to be had first.
#[derive(Default)]
struct Speed {
    cached: Option<Duration>,
    direct: Option<Duration>,
}

impl Speed {
    /// What is noted counts for so much less than all before.
    const WEIGHT: u32 = 8;

    fn note(&mut self, way: Way, time: Duration) {
        let mean = match way {
            Way::Cached => &mut self.cached,
            Way::Direct => &mut self.direct,
        };
        *mean = Some(mean.map_or(time, |mean| (mean * (Self::WEIGHT - 1) + time) / Self::WEIGHT));
    }

    /// Not said as long as one is not known.
    fn is_quicker_past_the_cache(&self) -> bool {
        self.direct.zip(self.cached).is_some_and(|(direct, cached)| direct < cached)
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
    fn who_hurries_goes_the_way_that_was_quicker_of_late() {
        let mut files = Files::new(Path::new("nowhere"));
        files.room = Room { left_bytes: 1 << 30, limited: false, refused_bytes: 0 };
        let (short, long) = (Duration::from_micros(100), Duration::from_millis(1));
        files.took(Way::Cached, long);
        assert_eq!(files.way(1, true), Way::Cached, "the other is not known");
        files.took(Way::Direct, short);
        assert_eq!((files.way(1, true), files.way(1, false)), (Way::Direct, Way::Cached));
        for _ in 0..100 {
            files.took(Way::Direct, 2 * long);
        }
        assert_eq!(files.way(1, true), Way::Cached);
    }

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
