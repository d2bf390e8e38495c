//! Reads and writes of one buffer, issued as they stand in the plan.
//!
//! Goals: as little as possible beside the call: no allocation, no look-up of the call, a short record in the log. Whatever
//! is unusual (it waited, it is paced, it went differently, its content is not there) takes the way of all commands.
//! Non-goals: other calls.

use std::sync::atomic::Ordering;

use reprise_plan::command::{Command, Expect, Transfer, Wait, Way};

use super::arguments::Range;
use super::failure::Stop;
use super::memory::part;
use super::thread::Worker;
use super::{Compared, Sections, issue};
use crate::executor::Executor;
use crate::log::{Plain, Times};

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
        let length = transfer.length as usize;
        let may_touch = self.windows.is_some();
        match content {
            Some(content) => bring_near(content),
            None if !may_touch => self.reserve(length)?,
            None => {}
        }
        if engine.settings.traced_cache && transfer.way.reads() {
            self.prepare_pages(transfer, fd);
        }
        // All is ready: between the instant that it is due and the call there is nothing left to do.
        let paced = self.pace(transfer.timing)?;
        let begin = paced.map_or_else(|| engine.ticks(), |paced| paced.at);
        let touched = if content.is_none() { self.touch(transfer) } else { None };
        let result = match (touched, content) {
            (Some(result), _) => result,
            (None, Some(content)) => issue::write(fd, content, offset(transfer)),
            (None, None) => {
                if may_touch {
                    self.reserve(length)?;
                }
                issue::read(fd, self.scratch.bytes_mut(0, length), offset(transfer))
            }
        };
        let end = if touched.is_some() { engine.ticks_after_loads() } else { engine.ticks() };
        self.ready = end;
        if result == -i64::from(libc::EINTR) && engine.counters.stopping() {
            return Err(Stop::Told);
        }
        self.counter.complete(count, end);
        let times = Times::of(begin, end, blocked, paced);
        let came = Came { result, at: 0, times, together: false, touched: touched.is_some() };
        let outcome = self.conclude(transfer, &came, spare);
        self.scratch.trim(length);
        outcome
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
        if times.blocked.is_none() && times.paced.is_none() && (touched || self.went_as_traced(transfer, result, at)) {
            let verifies = self.engine.settings.verify.of(transfer.origin) == Compared::All && !touched;
            let plain = Plain {
                origin: transfer.origin,
                number: transfer.way.number(),
                result: transfer.result,
                begin: times.begin,
                end: times.end,
                compared: verifies && matches!(transfer.expect, Expect::Content(..)),
                together,
            };
            if let Some(full) = self.log.add_transfer(&plain) {
                return if full || self.is_overdue() { self.write_log() } else { Ok(()) };
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
    fn went_as_traced(&self, transfer: &Transfer, result: i64, at: usize) -> bool {
        if result != transfer.result as i64 {
            return false;
        }
        match transfer.expect {
            _ if self.engine.settings.verify.of(transfer.origin) != Compared::All => true,
            Expect::Content(offset, length) => {
                let expected = part(&self.engine.sections.buffers, offset, length);
                expected.is_some_and(|expected| expected == self.scratch.bytes(at, length as usize))
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

/// Has the content of a write in the processor's caches, as it is where a program has just made it: what it takes to fetch it from
/// the plan is no part of the call.
fn bring_near(content: &[u8]) {
    for line in content[..content.len().min(NEAR_BYTES)].chunks(LINE_BYTES) {
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
