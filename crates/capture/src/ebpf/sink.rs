//! From the segments to the files of the spool.
//!
//! Goals: a full segment goes to the disk without a copy and is free again; once a second also what lies in those that are
//! not full, and then the instant up to which all is there, so that a killed recorder loses little, and nothing in
//! between. Non-goals: looking into records.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::kernel::Kernel;
use super::options::Sink;
use super::shared::{STRIDE_BYTES, control, cpu, notice};
use super::{Reason, SpoolError};
use crate::spool::layout::{SEGMENT_BYTES, SEGMENT_MAGIC, SegmentHead};
use crate::spool::mark;
use crate::sys::{self, Ring};

/// A file of the spool holds so many segments.
const SEGMENTS_PER_FILE: u64 = 4096;
/// Writes to the disk begin and end at multiples of this.
const BLOCK: usize = 4096;
/// From one round over the segments that are not full to the next.
const ROUND: Duration = Duration::from_secs(1);
/// A record bears the time at which it was begun; so long after, it is complete.
const COMPLETE_AFTER_NS: u64 = 20_000_000;

/// Name of a file of the spool.
pub fn file_name(number: u64) -> String {
    format!("{number:03}.seg")
}

/// Writes segments.
pub struct Writer {
    kernel: Arc<Kernel>,
    ring: Ring,
    directory: PathBuf,
    how: Sink,
    /// Segments that there may be on the disk, and whether there are.
    most_slots: u64,
    limited: bool,
    files: Vec<File>,
    next_slot: u64,
    /// Slots of segments that were written before they were full, by CPU and number.
    flushed: HashMap<(u32, u64), Flushed>,
    bounce: Aligned,
    /// Set when the last task has ended.
    over: Arc<AtomicBool>,
}

#[derive(Clone, Copy)]
struct Flushed {
    slot: u64,
    used: u32,
}

impl Writer {
    /// A writer into a directory that exists.
    pub fn new(
        kernel: Arc<Kernel>,
        directory: &Path,
        how: Sink,
        most_slots: Option<u64>,
        over: Arc<AtomicBool>,
    ) -> Result<Writer, SpoolError> {
        let ring = kernel.ring().map_err(Reason::Refused)?;
        Ok(Writer {
            kernel,
            ring,
            directory: directory.to_path_buf(),
            how,
            most_slots: most_slots.unwrap_or(u64::MAX),
            limited: false,
            files: Vec::new(),
            next_slot: 0,
            flushed: HashMap::new(),
            bounce: Aligned::new(SEGMENT_BYTES),
            over,
        })
    }

    /// Writes until it is told to stop; whether a limit was met before. An error ends the recording, not the program.
    pub fn run(mut self, stop: &AtomicBool) -> Result<bool, SpoolError> {
        let outcome = self.write_all(stop).map(|()| self.limited);
        if outcome.is_err() {
            self.kernel.number(control::STOPPED).store(1, Ordering::SeqCst);
            self.over.store(true, Ordering::SeqCst);
        }
        outcome
    }

    fn write_all(&mut self, stop: &AtomicBool) -> Result<(), SpoolError> {
        let mut looked = Instant::now();
        loop {
            let stopping = stop.load(Ordering::SeqCst);
            let notices = self.ring.poll(if stopping { 0 } else { 100 }).map_err(Reason::Refused)?;
            self.take(&notices)?;
            self.heed_limit();
            if stopping && notices.is_empty() {
                self.flush()?;
                return self.mark(u64::MAX);
            }
            if looked.elapsed() > ROUND {
                looked = Instant::now();
                self.round()?;
            }
        }
    }

    /// Calls that begin from now on are not recorded any more if what the kernel holds may fill the disk up to the limit.
    fn heed_limit(&mut self) {
        let held = self.kernel.segment_count;
        if !self.limited && self.next_slot.saturating_add(held) >= self.most_slots {
            self.limited = true;
            self.kernel.number(control::STOPPED).store(1, Ordering::SeqCst);
        }
    }

    fn take(&mut self, notices: &[[u32; 2]]) -> Result<(), SpoolError> {
        for [kind, segment] in notices {
            match *kind {
                notice::FULL => self.full(*segment)?,
                notice::OVER => self.over.store(true, Ordering::SeqCst),
                notice::JOINED => self.kernel.joined.store(true, Ordering::SeqCst),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes all that was there when it began, and says so. What was full by then, or became so while the others were
    /// written, has been announced.
    fn round(&mut self) -> Result<(), SpoolError> {
        let until = sys::monotonic_ns().saturating_sub(COMPLETE_AFTER_NS);
        self.flush()?;
        let announced = self.ring.poll(0).map_err(Reason::Refused)?;
        self.take(&announced)?;
        self.mark(until)
    }

    fn mark(&self, until_ns: u64) -> Result<(), SpoolError> {
        if self.how == Sink::Null {
            return Ok(());
        }
        let marked = mark::write(&self.directory, until_ns);
        marked.map_err(|source| SpoolError::Unwritten { path: self.directory.join(mark::MARK), source })
    }

    fn full(&mut self, segment: u32) -> Result<(), SpoolError> {
        let base = segment as usize * STRIDE_BYTES;
        let head = |offset| base + offset;
        let owner = self.kernel.segments.word(head(std::mem::offset_of!(SegmentHead, cpu))).load(Ordering::Relaxed);
        let number = self.kernel.segments.long(head(std::mem::offset_of!(SegmentHead, number))).load(Ordering::Relaxed);
        let slot = match self.flushed.remove(&(owner, number)) {
            Some(flushed) => flushed.slot,
            None => self.new_slot(),
        };
        match self.how {
            Sink::Null => {}
            Sink::Disk => self.write_segment(base, slot)?,
            Sink::Slow(pause) => {
                std::thread::sleep(pause);
                self.write_segment(base, slot)?;
            }
        }
        Ok(self.kernel.free(segment).map_err(Reason::Refused)?)
    }

    fn write_segment(&mut self, base: usize, slot: u64) -> Result<(), SpoolError> {
        let (file, position) = self.place(slot)?;
        let written = self.kernel.segments.write_to(&self.files[file], position, base, SEGMENT_BYTES);
        written.map_err(|source| self.unwritten(file, source))
    }

    fn new_slot(&mut self) -> u64 {
        self.next_slot += 1;
        self.next_slot - 1
    }

    /// The file of a slot, made if need be, and the position in it.
    fn place(&mut self, slot: u64) -> Result<(usize, u64), SpoolError> {
        let number = (slot / SEGMENTS_PER_FILE) as usize;
        while self.files.len() <= number {
            let next = self.files.len();
            let made = self.make(next).map_err(|source| self.unwritten(next, source))?;
            self.files.push(made);
        }
        Ok((number, slot % SEGMENTS_PER_FILE * SEGMENT_BYTES as u64))
    }

    fn make(&self, number: usize) -> io::Result<File> {
        let path = self.directory.join(file_name(number as u64));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        match options.custom_flags(libc::O_DIRECT).open(&path) {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                // Refused after the file was made, or before.
                options.create_new(false).create(true).custom_flags(0).open(&path)
            }
            other => other,
        }
    }

    fn unwritten(&self, file: usize, source: io::Error) -> SpoolError {
        SpoolError::Unwritten { path: self.directory.join(file_name(file as u64)), source }
    }

    /// Writes what is in segments that are not full.
    fn flush(&mut self) -> Result<(), SpoolError> {
        if self.how == Sink::Null {
            return Ok(());
        }
        for number in 0..self.kernel.cpu_count {
            let at = number * cpu::BYTES;
            let segment = self.kernel.cpus.word(at + cpu::SEGMENT).load(Ordering::Acquire);
            if segment != 0 {
                let dropped = self.kernel.cpus.long(at + cpu::DROPPED).load(Ordering::Relaxed);
                self.flush_one(segment - 1, dropped)?;
            }
        }
        Ok(())
    }

    fn flush_one(&mut self, segment: u32, dropped: u64) -> Result<(), SpoolError> {
        let base = segment as usize * STRIDE_BYTES;
        let field = |offset| base + offset;
        let kernel = self.kernel.clone();
        let memory = &kernel.segments;
        let identity = || {
            let cpu = memory.word(field(std::mem::offset_of!(SegmentHead, cpu))).load(Ordering::Acquire);
            let number = memory.long(field(std::mem::offset_of!(SegmentHead, number))).load(Ordering::Acquire);
            (cpu, number)
        };
        let magic = memory.long(field(0)).load(Ordering::Acquire);
        let before = identity();
        let used = memory.word(field(std::mem::offset_of!(SegmentHead, used))).load(Ordering::Acquire);
        let known = self.flushed.get(&before).copied();
        let news = known.is_none_or(|k| k.used != used);
        if magic != SEGMENT_MAGIC || used as usize > SEGMENT_BYTES || !news {
            return Ok(());
        }
        let bytes = self.bounce.bytes();
        memory.copy(base, &mut bytes[..used as usize]);
        // Meanwhile it may have been filled; then it is on its way here.
        if identity() != before {
            return Ok(());
        }
        let end = (used as usize).next_multiple_of(BLOCK);
        bytes[used as usize..end].fill(0);
        let at = std::mem::offset_of!(SegmentHead, used);
        bytes[at..at + 4].copy_from_slice(&used.to_le_bytes());
        let at = std::mem::offset_of!(SegmentHead, dropped);
        bytes[at..at + 8].copy_from_slice(&dropped.to_le_bytes());
        let slot = known.map_or_else(|| self.new_slot(), |k| k.slot);
        self.flushed.insert(before, Flushed { slot, used });
        let (file, position) = self.place(slot)?;
        let target = &self.files[file];
        let written = target
            .write_all_at(&self.bounce.bytes()[..end], position)
            .and_then(|()| grow(target, position + SEGMENT_BYTES as u64));
        written.map_err(|source| self.unwritten(file, source))
    }
}

/// A file is a whole number of slots, whatever is in the last.
fn grow(file: &File, length: u64) -> io::Result<()> {
    if file.metadata()?.len() < length { file.set_len(length) } else { Ok(()) }
}

/// Memory that begins at a multiple of [`BLOCK`].
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(length: usize) -> Aligned {
        let bytes = vec![0; length + BLOCK];
        let start = bytes.as_ptr().align_offset(BLOCK);
        Aligned { bytes, start, length }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}
