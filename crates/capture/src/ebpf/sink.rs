//! From the segments to the files of the spool.
//!
//! Goals: a full segment goes to a file, without what was said before, and is free again; once a second also what lies in those
//! that are not full, and then the instant up to which all is there, so that a killed recorder loses little, and nothing in
//! between. Where programs are faster, two hands write. Where the disk takes no more, all that is in the kernel goes into room that
//! was kept for it, and how far that goes is said. Non-goals: knowing what records say; how bytes get into files (`files`).

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::aside::Aside;
use super::files::{Aligned, Files, Hand, standing};
use super::kernel::Kernel;
use super::options::Sink;
use super::reserve::Reserve;
use super::shared::{STRIDE_BYTES, control, cpu, notice};
use super::ways::{Course, Way};
use super::{Reason, SpoolError, processors, rescue};
use crate::spool::layout::{SEGMENT_BYTES, SEGMENT_MAGIC, SegmentHead};
use crate::spool::mark::{self, Cut, Mark};
use crate::spool::record::SEGMENT_HEAD;
use crate::spool::{LACK_GIVEN_UP, LACK_ROOM, LACK_WAIT, Repeats};
use crate::sys::{self, Ring};

/// From one round over the segments that are not full to the next.
const ROUND: Duration = Duration::from_secs(1);
/// A record bears the time at which it was begun; so long after, it is complete.
const COMPLETE_AFTER_NS: u64 = 20_000_000;

/// Where no thread waits after its call, one stays in its call so long at most for room for its record.
const LINGER_NS: u64 = 500_000_000;
/// When nothing can be written any more, threads that wait for room are given so long to hear of it.
const HEARD: Duration = Duration::from_millis(500);

/// Of all segments one of so many may be in use before the other hand helps.
const PRESSED: u64 = 4;
/// Segments on the disk that room is kept for, at most, and one of so many parts of those that there may be.
const MOST_KEPT: u64 = 16;
const KEPT_PART: u64 = 8;

/// Writes segments.
pub struct Writer {
    kernel: Arc<Kernel>,
    ring: Ring,
    files: Files,
    how: Sink,
    /// Segments that there may be on the disk, and whether there are.
    most_slots: u64,
    limited: bool,
    /// Slots of segments that were written before they were full, by CPU and number.
    flushed: HashMap<(u32, u64), Flushed>,
    bounce: Aligned,
    repeats: Repeats,
    aside: Aside,
    /// Slots that were written while the other hand had a segment that they may refer to, and when it was given that: later
    /// records may refer to it, too.
    beside: Vec<u64>,
    given_ns: u64,
    /// When no record waited for room, or for a page, as far as was looked.
    calm_ns: u64,
    /// Where what is there is said; `None` where nothing is kept.
    mark: Option<Arc<Mark>>,
    reserve: Option<Reserve>,
    /// Set when the last task has ended.
    over: Arc<AtomicBool>,
}

/// The moment before nothing new was recorded any more.
struct Stopped {
    at_ns: u64,
    /// Records that had waited in vain, and that had found no room.
    given_up: u64,
    no_room: u64,
}

#[derive(Clone, Copy)]
struct Flushed {
    slot: u64,
    used: u32,
    course: Course,
}

impl Writer {
    /// A writer into a directory that exists, which has the mark, unless nothing is kept.
    pub fn new(
        kernel: Arc<Kernel>,
        directory: &Path,
        how: Sink,
        mark: Option<Arc<Mark>>,
        most_slots: Option<u64>,
        over: Arc<AtomicBool>,
    ) -> Result<Writer, SpoolError> {
        let ring = kernel.ring().map_err(Reason::Refused)?;
        let aside = Aside::new(kernel.clone())?;
        let reserve = mark.is_some().then(|| reserve(directory, most_slots)).transpose()?;
        Ok(Writer {
            kernel,
            ring,
            files: Files::new(directory),
            how,
            most_slots: most_slots.unwrap_or(u64::MAX),
            limited: false,
            flushed: HashMap::new(),
            bounce: Aligned::new(SEGMENT_BYTES),
            repeats: Repeats::default(),
            aside,
            beside: Vec::new(),
            given_ns: 0,
            calm_ns: 0,
            mark,
            reserve,
            over,
        })
    }

    /// Writes until it is told to stop; whether a limit was met before. An error ends the recording, not the program.
    pub fn run(mut self, stop: &AtomicBool) -> Result<bool, SpoolError> {
        let outcome = self.write_all(stop).map(|()| self.limited);
        if let Err(error) = &outcome {
            let stopped =
                Stopped { at_ns: sys::monotonic_ns(), given_up: self.given_up(), no_room: self.lack(LACK_ROOM) };
            self.kernel.number(control::STOPPED).store(1, Ordering::SeqCst);
            if let SpoolError::Unwritten { source, .. } = error {
                self.rescue(source, &stopped);
            }
            self.over.store(true, Ordering::SeqCst);
        }
        outcome
    }

    /// Nothing can be written any more, and nothing new is recorded: keeps what there is room for, and says up to when all is
    /// there. What cannot be said is as it was.
    fn rescue(&mut self, error: &io::Error, stopped: &Stopped) {
        let (Some(mark), Some(mut reserve)) = (self.mark.clone(), self.reserve.take()) else { return };
        let _ = self.aside.settle();
        let waited_ns = self.settle_threads(stopped.given_up);
        let leans_ns = self.aside.has_failed().then(|| self.earliest_beside());
        // What was being made when the recording was stopped is there then; what is recorded from here on is younger than that.
        std::thread::sleep(Duration::from_nanos(COMPLETE_AFTER_NS));
        let mut made_ns = sys::monotonic_ns().saturating_sub(COMPLETE_AFTER_NS);
        if self.lack(LACK_ROOM) != stopped.no_room {
            // Of what was being made something may have found no room, and could not wait for it any more.
            made_ns = stopped.at_ns.saturating_sub(COMPLETE_AFTER_NS);
        }
        let flushed = |cpu, number| self.flushed.get(&(cpu, number)).map(|flushed| flushed.used);
        let held = rescue::held(&self.kernel, self.bounce.bytes(), flushed);
        let lost_ns = rescue::put(&self.kernel, &held, &mut reserve, self.bounce.bytes());
        drop(reserve);
        let missing_ns = [waited_ns, leans_ns, lost_ns].into_iter().flatten().fold(made_ns, u64::min);
        let _ = mark.say(missing_ns.saturating_sub(1));
        let _ = mark.cut(&self.kernel.cut(Cut::by(error)));
    }

    /// Waits until no record waits any more. Most find room then, in what is kept for such; if one may not have, says how old it
    /// may be.
    fn settle_threads(&self, given_up: u64) -> Option<u64> {
        let since = Instant::now();
        while self.is_awaited() && since.elapsed() < HEARD {
            std::thread::sleep(Duration::from_millis(1));
        }
        let all_found_room = !self.is_awaited() && self.given_up() == given_up;
        let oldest_ns = match self.kernel.capabilities.waiting {
            true => self.calm_ns,
            false => sys::monotonic_ns().saturating_sub(LINGER_NS + since.elapsed().as_nanos() as u64),
        };
        (!all_found_room).then(|| oldest_ns.saturating_sub(COMPLETE_AFTER_NS))
    }

    /// Whether a record waits for room, or for a page.
    fn is_awaited(&self) -> bool {
        self.kernel.number(control::PENDING).load(Ordering::SeqCst) != 0
    }

    /// Records that waited in vain. Where no thread waits after its call there is no telling them from those that did not.
    fn given_up(&self) -> u64 {
        let unwaited = if self.kernel.capabilities.waiting { 0 } else { self.lack(LACK_ROOM) };
        self.lack(LACK_WAIT) + self.lack(LACK_GIVEN_UP) + unwaited
    }

    fn lack(&self, number: usize) -> u64 {
        self.kernel.sum(cpu::LACKS + 8 * number)
    }

    /// When the first record was made that may refer to a segment that was not written.
    fn earliest_beside(&mut self) -> u64 {
        let beside = std::mem::take(&mut self.beside);
        let bytes = self.bounce.bytes();
        let mut of = |slot: u64| match self.files.get(slot, bytes) {
            Ok(()) => {
                let used = crate::spool::record::SegmentHead::parse(bytes).map_or(0, |head| head.used as usize);
                rescue::earliest(&bytes[..used], SEGMENT_HEAD)
            }
            Err(_) => Some(0),
        };
        beside.into_iter().filter_map(&mut of).fold(self.given_ns, u64::min)
    }

    fn write_all(&mut self, stop: &AtomicBool) -> Result<(), SpoolError> {
        let mut looked = Instant::now();
        loop {
            let stopping = stop.load(Ordering::SeqCst);
            self.note_calm();
            let patience_ms = match (stopping, self.over.load(Ordering::SeqCst)) {
                (true, _) => 0,
                // It will be told to stop in a moment.
                (false, true) => 2,
                (false, false) => 100,
            };
            let notices = self.ring.poll(patience_ms).map_err(Reason::Refused)?;
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

    fn note_calm(&mut self) {
        let now = sys::monotonic_ns();
        if !self.is_awaited() {
            self.calm_ns = now;
        }
    }

    /// Calls that begin from now on are not recorded any more if what the kernel holds may fill the disk up to the limit.
    fn heed_limit(&mut self) {
        let held = self.kernel.segment_count;
        if !self.limited && self.files.given().saturating_add(held) >= self.most_slots {
            self.limited = true;
            self.kernel.number(control::STOPPED).store(1, Ordering::SeqCst);
        }
    }

    fn take(&mut self, notices: &[[u32; 2]]) -> Result<(), SpoolError> {
        for [kind, segment] in notices {
            match *kind {
                notice::FULL => self.full(*segment)?,
                notice::OVER => self.over.store(true, Ordering::SeqCst),
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

    /// Says that all is there up to an instant, as soon as the other hand has written what it has.
    fn mark(&mut self, until_ns: u64) -> Result<(), SpoolError> {
        self.aside.settle()?;
        let marked = self.mark.as_ref().map_or(Ok(()), |mark| mark.say(until_ns));
        marked.map_err(|source| SpoolError::Unwritten { path: self.files.directory().join(mark::MARK), source })
    }

    fn full(&mut self, segment: u32) -> Result<(), SpoolError> {
        let base = segment as usize * STRIDE_BYTES;
        let head = |offset| base + offset;
        let owner = self.kernel.segments.word(head(std::mem::offset_of!(SegmentHead, cpu))).load(Ordering::Relaxed);
        let number = self.kernel.segments.long(head(std::mem::offset_of!(SegmentHead, number))).load(Ordering::Relaxed);
        self.note_calm();
        let flushed = self.flushed.get(&(owner, number)).copied();
        if let Sink::Slow(pause) = self.how {
            std::thread::sleep(pause);
        }
        let taken = match self.how {
            Sink::Null => {
                // It counts, for who limits what is recorded.
                self.files.new_slot(Hand::Sink);
                false
            }
            Sink::Disk | Sink::Slow(_) => self.write(segment, flushed)?,
        };
        self.flushed.remove(&(owner, number));
        if !taken {
            self.kernel.free(segment).map_err(Reason::Refused)?;
        }
        Ok(())
    }

    /// Writes a segment that is full, without what was said before; true: the other hand does. What was written already of
    /// it may have been read by then, or be all that is left of the recording: it stays as it is.
    fn write(&mut self, segment: u32, flushed: Option<Flushed>) -> Result<bool, SpoolError> {
        let base = segment as usize * STRIDE_BYTES;
        let kernel = self.kernel.clone();
        let memory = &kernel.segments;
        if let Some(Flushed { slot, used, course }) = flushed {
            return self.files.put_segment(memory, base, slot, Some(used), course).map(|()| false);
        }
        let hurry = self.is_pressed();
        let hand = if hurry && self.is_other_hand_free()? { Hand::Aside } else { Hand::Sink };
        let slot = self.files.new_slot(hand);
        let (bytes, ahead_ns) = (memory.still(base, SEGMENT_BYTES), sys::ahead_ns());
        let shorter = self.repeats.shorten(bytes, standing(slot), ahead_ns, self.bounce.bytes());
        kernel.tell(self.repeats.learned());
        if let Some(length) = shorter {
            let course = self.files.choose(length, hurry);
            self.files.put_part(slot, None, &mut self.bounce, length, course)?;
            self.note_beside(slot);
            return Ok(false);
        }
        if let Hand::Aside = hand
            && let Some(target) = self.files.past_cache(slot)?
        {
            self.beside.clear();
            self.given_ns = sys::monotonic_ns();
            self.aside.take(segment, target);
            return Ok(true);
        }
        let course = self.files.choose(SEGMENT_BYTES, hurry);
        self.files.put_segment(memory, base, slot, None, course)?;
        self.note_beside(slot);
        Ok(false)
    }

    /// What was written may refer to what the other hand is at.
    fn note_beside(&mut self, slot: u64) {
        if self.aside.is_busy() {
            self.beside.push(slot);
        }
    }

    fn is_other_hand_free(&mut self) -> Result<bool, SpoolError> {
        let idle = self.aside.is_idle()?;
        if let Some(cost) = self.aside.took() {
            self.files.took(Way::Direct, cost);
        }
        Ok(idle)
    }

    /// Whether programs are faster than this sink: much is full, and waits here.
    fn is_pressed(&self) -> bool {
        let free = self.kernel.number(control::FREE).load(Ordering::Relaxed);
        free < self.kernel.segment_count / PRESSED * (PRESSED - 1)
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
        let bytes = &mut self.bounce.bytes()[..used as usize];
        memory.copy(base, bytes);
        // Meanwhile it may have been filled; then it is on its way here.
        if identity() != before {
            return Ok(());
        }
        let at = std::mem::offset_of!(SegmentHead, used);
        bytes[at..at + 4].copy_from_slice(&used.to_le_bytes());
        let at = std::mem::offset_of!(SegmentHead, dropped);
        bytes[at..at + 8].copy_from_slice(&dropped.to_le_bytes());
        let slot = known.map_or_else(|| self.files.new_slot(Hand::Sink), |k| k.slot);
        let course = known.map_or_else(|| self.files.choose(used as usize, false), |k| k.course);
        self.files.put_part(slot, known.map(|k| k.used), &mut self.bounce, used as usize, course)?;
        self.flushed.insert(before, Flushed { slot, used, course });
        Ok(())
    }
}

/// Room for what each processor has begun and one segment more, less where little is recorded.
fn reserve(directory: &Path, most_slots: Option<u64>) -> Result<Reserve, SpoolError> {
    let segments = (processors::online() + 1).min(MOST_KEPT).min(most_slots.unwrap_or(u64::MAX) / KEPT_PART);
    let kept = Reserve::keep(directory, segments * SEGMENT_BYTES as u64);
    kept.map_err(|source| SpoolError::Unwritten { path: directory.to_path_buf(), source })
}
