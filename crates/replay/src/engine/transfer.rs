//! Reads and writes of one buffer, issued as they stand in the plan.
//!
//! Memory begins where in its page the program's did: on processors of AMD a read of 128 KiB into memory that begins 8 bytes behind a
//! page takes 60 µs instead of 4.8, one 16 bytes behind it 7 (`docs/METROLOGY.md`, "Where a buffer begins").
//!
//! Goals: as little as possible beside the call: no allocation, no look-up of the call, a short record in the log. Whatever
//! is unusual (it went differently, its content is not there) takes the way of all commands.
//! Non-goals: other calls.

use std::sync::atomic::Ordering;

use reprise_plan::command::{Command, Expect, Transfer, Wait, Way, digest};

use super::arguments::Range;
use super::failure::Stop;
use super::issue::Ready;
use super::memory::{DIRECT_BYTES, PAGE, part};
use super::thread::Worker;
use super::{Compared, Sections, issue};
use crate::executor::Executor;
use crate::log::{Short, Times};

/// So much of a write's content stays in a processor's caches until it is written.
const NEAR_BYTES: usize = 128 << 10;
const LINE_BYTES: usize = 64;

/// What a transfer came to.
pub(super) struct Came {
    pub result: i64,
    /// Where in scratch memory what was read begins.
    pub at: usize,
    pub times: Times,
    /// It was issued together with others.
    pub together: bool,
    /// Its pages were touched, and nothing was read.
    pub touched: bool,
}

impl Worker {
    /// Performs one transfer, the thread's `count`-th command. `spare` is for the way of all commands.
    ///
    /// Always part of the loop: a system call in a function of its own, whose return follows it, took the kernel 190 ns longer (AMD with
    /// "Safe RET", cached reads of 1 KiB), in all of its functions.
    #[inline(always)]
    pub(super) fn transfer(
        &mut self,
        transfer: &Transfer,
        waits: &[u64],
        count: u64,
        spare: &mut Command,
    ) -> Result<(), Stop> {
        let engine = self.engine;
        let waits = waits.iter().map(|word| Wait::from_word(*word));
        let content = content(&engine.sections, transfer);
        let is_left_out = transfer.way.reads() && engine.settings.executor == Executor::SkipReads;
        if is_left_out || !transfer.way.reads() && content.is_none() {
            transfer.expand(spare);
            spare.waits.extend(waits);
            return self.one(spare, count).map(drop);
        }
        let blocked = self.dependencies(waits)?;
        if engine.counters.stopping() {
            return Err(Stop::Told);
        }
        self.counter.call.0.store(transfer.way.number(), Ordering::Relaxed);
        let fd = engine.slots.get(transfer.slot)?;
        let (length, within) = (transfer.length as usize, usize::from(transfer.within));
        // Where in scratch memory a write takes its content from; `None` if from the plan.
        let near = match content {
            Some(content) => self.bring_near(transfer.content, content, within)?,
            None => {
                self.reserve(within + length)?;
                self.scratch.populate(within + transfer.result as usize);
                None
            }
        };
        if engine.settings.traced_cache && transfer.way.reads() {
            self.prepare_pages(transfer, fd);
        }
        let due = self.approach(transfer.timing)?;
        let spun;
        let (result, touched) = if self.windows.is_some() && content.is_none() {
            spun = engine.spin(due)?;
            let touched = self.touch(transfer);
            let read = || issue::read(fd, self.scratch.bytes_mut(within, length), offset(transfer));
            (touched.unwrap_or_else(read), touched.is_some())
        } else {
            let ready = match (content, near) {
                (Some(_), Some(at)) => Ready::write(fd, self.scratch.bytes(at, length), offset(transfer)),
                (Some(content), None) => Ready::write(fd, content, offset(transfer)),
                (None, _) => Ready::read(fd, self.scratch.bytes_mut(within, length), offset(transfer)),
            };
            spun = engine.spin(due)?;
            (ready.go(), false)
        };
        let end = if touched { engine.ticks_after_loads() } else { engine.ticks() };
        let (begin, paced) = (spun.at, engine.after(due, spun));
        self.ready = end;
        if result == -i64::from(libc::EINTR) && engine.counters.stopping() {
            return Err(Stop::Told);
        }
        self.engine.counters.complete(self.counter, count, end);
        let times = Times::of(begin, end, blocked, paced);
        let came = Came { result, at: within, times, together: false, touched };
        let outcome = self.conclude(transfer, &came, spare);
        self.scratch.trim(length);
        outcome
    }

    /// Has the content of a write where a program has just made it: in the processor's caches, and so far `within` its page. What it
    /// takes to fetch it from the plan is no part of the call. Where in scratch memory it is, if it is there: a copy, or what the thread
    /// has just read.
    #[inline]
    fn bring_near(&mut self, offset: u64, content: &[u8], within: usize) -> Result<Option<usize>, Stop> {
        if let Some(at) = self.scratch.held(offset, content.len() as u64)
            && at % PAGE == within
        {
            return Ok(Some(at));
        }
        let place = content.as_ptr() as usize % PAGE;
        // Direct I/O refuses memory for where it begins.
        let may_be_refused =
            content.len().is_multiple_of(DIRECT_BYTES) && place % DIRECT_BYTES != within % DIRECT_BYTES;
        if place == within || content.len() > NEAR_BYTES && !may_be_refused {
            load(&content[..content.len().min(NEAR_BYTES)]);
            return Ok(None);
        }
        self.reserve(within + content.len())?;
        self.scratch.bytes_mut(within, content.len()).copy_from_slice(content);
        Ok(Some(within))
    }

    /// Touches instead of reading, where that is asked for and possible.
    #[inline]
    fn touch(&mut self, transfer: &Transfer) -> Option<i64> {
        self.windows.as_mut()?.touch(&self.engine.slots, transfer)
    }

    /// Records it: in short if nothing about it is unusual, else judged and recorded as all commands are.
    #[inline]
    pub(super) fn conclude(&mut self, transfer: &Transfer, came: &Came, spare: &mut Command) -> Result<(), Stop> {
        let Came { result, at, times, together, touched } = *came;
        if touched || self.went_as_traced(transfer, result, at) {
            let verifies = self.engine.settings.verify.of(transfer.origin) == Compared::All && !touched;
            let short = Short {
                origin: transfer.origin,
                number: transfer.way.number(),
                result: transfer.result,
                begin: times.begin,
                end: times.end,
                compared: verifies && matches!(transfer.expect, Expect::Content(..)),
                together,
                waits: times.waits(),
            };
            if self.record_short(&short, &times)? {
                return Ok(());
            }
        }
        self.conclude_unusual(transfer, came, spare)
    }

    #[cold]
    #[inline(never)]
    fn conclude_unusual(&mut self, transfer: &Transfer, came: &Came, spare: &mut Command) -> Result<(), Stop> {
        let Came { result, at, times, touched, .. } = *came;
        transfer.expand(spare);
        if touched {
            spare.expect = Expect::Value;
        }
        let length = if transfer.way.reads() && !touched { usize::try_from(result).unwrap_or(0) } else { 0 };
        let done = self.judged(spare, result, Range { at, length })?;
        self.record(spare, &done, times)
    }

    /// Whether all that is judged is equal, as far as that is told at once; what was read begins at `at` in scratch memory.
    fn went_as_traced(&mut self, transfer: &Transfer, result: i64, at: usize) -> bool {
        if result != transfer.result as i64 {
            return false;
        }
        match transfer.expect {
            _ if self.engine.settings.verify.of(transfer.origin) != Compared::All => true,
            Expect::Content(offset, length) => {
                let came = self.scratch.bytes(at, length as usize);
                let is_equal = transfer.digest != 0 && transfer.digest == digest(came)
                    || part(&self.engine.sections.buffers, offset, length).is_some_and(|expected| expected == came);
                if is_equal {
                    self.scratch.hold(at, offset, length);
                }
                is_equal
            }
            Expect::Nothing | Expect::Outcome | Expect::Value => true,
            _ => false,
        }
    }
}

/// The offset that a call is given.
pub(super) fn offset(transfer: &Transfer) -> Option<u64> {
    transfer.way.is_at().then_some(transfer.offset)
}

/// Loads each line of the processor's caches.
fn load(content: &[u8]) {
    for line in content.chunks(LINE_BYTES) {
        std::hint::black_box(line[0]);
    }
}

/// Where a transfer begins in the file of its descriptor; `None` if there is no such place (a pipe).
pub(super) fn position(transfer: &Transfer, number: i32) -> Option<u64> {
    offset(transfer).or_else(|| u64::try_from(issue::seek_by(number, 0, libc::SEEK_CUR)).ok())
}

/// The content of a write, if the plan has all of it.
fn content<'a>(sections: &'a Sections, transfer: &Transfer) -> Option<&'a [u8]> {
    match transfer.way {
        Way::Write | Way::WriteAt => part(&sections.buffers, transfer.content, transfer.length.into()),
        Way::Read | Way::ReadAt => None,
    }
}
