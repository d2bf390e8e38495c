//! Reads and writes of one buffer, issued as they stand in the plan.
//!
//! Goals: as little as possible beside the call: no allocation, no look-up of the call, a short record in the log. Whatever
//! is unusual (it waited, it is paced, it went differently, its content is not there) takes the way of all commands.
//! Non-goals: other calls.

use std::sync::atomic::Ordering;

use reprise_plan::command::{Command, Expect, Transfer, Wait, Way};

use super::arguments::Range;
use super::failure::{Failure, Stop, error_name};
use super::thread::Worker;
use super::{Sections, Verify, issue};
use crate::executor::Executor;
use crate::log::{Plain, Times};

/// Memory for longer transfers is given back.
const LONG: u32 = 1 << 20;

impl Worker {
    /// Performs one transfer, the thread's `count`-th command. `spare` is for the way of all commands.
    pub(super) fn transfer(
        &mut self,
        transfer: &Transfer,
        waits: &[u64],
        count: u64,
        spare: &mut Command,
    ) -> Result<(), Stop> {
        if transfer.way.reads() && self.engine.settings.executor == Executor::SkipReads {
            transfer.expand(spare);
            spare.waits.extend(waits.iter().map(|word| Wait::from_word(*word)));
            return self.one(spare, count).map(drop);
        }
        let blocked = self.dependencies(waits.iter().map(|word| Wait::from_word(*word)))?;
        let paced = self.pace(transfer.timing)?;
        let engine = self.engine;
        if engine.counters.stopping() {
            return Err(Stop::Told);
        }
        self.counter.call.store(transfer.way.number(), Ordering::Relaxed);
        let fd = engine.slots.get(transfer.slot)?;
        let content = content(&engine.sections, transfer);
        let begin = engine.ticks();
        let result = match (transfer.way.reads(), content) {
            (true, _) => self.read(fd, transfer)?,
            (false, Some(content)) => issue::write(fd, content, offset(transfer)),
            (false, None) => {
                transfer.expand(spare);
                return self.one(spare, count).map(drop);
            }
        };
        let end = engine.ticks();
        self.ready = end;
        if result == -i64::from(libc::EINTR) && engine.counters.stopping() {
            return Err(Stop::Told);
        }
        self.counter.complete(count, end);
        let (origin, number) = (transfer.origin, transfer.way.number());
        let is_plain = blocked.is_none() && paced.is_none() && self.went_as_traced(transfer, result, 0);
        let compared = matches!(transfer.expect, Expect::Content(..)) && engine.settings.verify != Verify::Off;
        let plain = Plain { origin, number, result: transfer.result, begin, end, compared, together: false };
        let times = Times { begin, end, blocked, paced };
        let outcome = self.conclude(is_plain.then_some(&plain), transfer, (result, 0), times, spare);
        if transfer.length > LONG {
            self.scratch.trim();
        }
        outcome
    }

    /// Records it, if nothing is unusual in short, else judged and recorded as all commands are. What was read begins at
    /// `at` in scratch memory.
    #[inline]
    pub(super) fn conclude(
        &mut self,
        plain: Option<&Plain>,
        transfer: &Transfer,
        (result, at): (i64, usize),
        times: Times,
        spare: &mut Command,
    ) -> Result<(), Stop> {
        match plain.and_then(|plain| self.log.add_transfer(plain)) {
            Some(false) => return Ok(()),
            Some(true) => return self.write_log(),
            None => {}
        }
        transfer.expand(spare);
        let length = if transfer.way.reads() { usize::try_from(result).unwrap_or(0) } else { 0 };
        let done = self.judged(spare, result, Range { at, length })?;
        self.record(spare, &done, times)
    }

    fn read(&mut self, fd: i32, transfer: &Transfer) -> Result<i64, Stop> {
        let length = transfer.length as usize;
        if !self.scratch.reserve(length) {
            return Err(Stop::Failed(Failure::system("get memory to read into", -i64::from(libc::ENOMEM))));
        }
        Ok(issue::read(fd, self.scratch.bytes_mut(0, length), offset(transfer)))
    }

    /// Whether all that is judged is equal, as far as that is told at once; what was read begins at `at` in scratch memory.
    pub(super) fn went_as_traced(&self, transfer: &Transfer, result: i64, at: usize) -> bool {
        if result != transfer.result as i64 {
            return false;
        }
        match transfer.expect {
            _ if self.engine.settings.verify == Verify::Off => true,
            Expect::Content(offset, length) => {
                let expected = part(&self.engine.sections.buffers, offset, length);
                expected.is_some_and(|expected| expected == self.scratch.bytes(at, length as usize))
            }
            Expect::Nothing | Expect::Outcome | Expect::Value => true,
            _ => false,
        }
    }

    fn write_log(&mut self) -> Result<(), Stop> {
        self.log.flush().map_err(|result| Stop::Failed(Failure::Log { error: error_name(result) }))
    }
}

/// The offset that a call is given.
fn offset(transfer: &Transfer) -> Option<u64> {
    transfer.way.is_at().then_some(transfer.offset)
}

/// The content of a write, if the plan has all of it.
fn content<'a>(sections: &'a Sections, transfer: &Transfer) -> Option<&'a [u8]> {
    match transfer.way {
        Way::Write | Way::WriteAt => part(&sections.buffers, transfer.content, transfer.length.into()),
        Way::Read | Way::ReadAt => None,
    }
}

fn part(section: &[u8], offset: u64, length: u64) -> Option<&[u8]> {
    let begin = usize::try_from(offset).ok()?;
    section.get(begin..begin.checked_add(usize::try_from(length).ok()?)?)
}
