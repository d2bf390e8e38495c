//! Reads that copy nothing (`--io touch`): of each page that a read is about, one byte of a mapping is loaded.
//!
//! What it costs is what the page cache and the processor's own translation cost: a few nanoseconds for a page that was touched
//! before, a page fault (about a microsecond, sixteen pages at a time) for the first touch, and a read of the device where the
//! page is not in memory. The page counts as accessed, as after a read.
//!
//! Goals: what a read would have returned is known beforehand, or a read is issued. Non-goals: comparing content; descriptors that
//! cannot be mapped, or that bypass the page cache.

use std::sync::atomic::Ordering;

use reprise_plan::command::{Transfer, Way};

use super::batch::Gathering;
use super::failure::Stop;
use super::memory::Window;
use super::thread::Worker;
use super::transfer::position;
use super::{Slots, issue};
use crate::log::{Difference, Entry, Handling, Short, Times};

/// Mappings that a thread keeps; a descriptor's slot has one place.
const PLACES: usize = 16;
/// Touches that are timed together at most: another thread that waits for the first waits for all of them, each of which may be a
/// read of the device.
const TOGETHER: usize = 16;

/// A thread's mappings of the files that it reads.
#[derive(Debug, Default)]
pub(super) struct Windows {
    places: [Place; PLACES],
    /// The place of the window that was chosen last, if that is there still.
    chosen: Option<usize>,
}

/// A mapping, and of which life of which slot.
#[derive(Debug, Default)]
struct Place {
    of: Option<(u32, u64)>,
    window: Option<Window>,
}

impl Windows {
    /// The mapping of all that a read at an offset is about, where it was looked for before and nothing has changed since.
    #[inline]
    fn ready(&mut self, slots: &Slots, transfer: &Transfer) -> Option<&Window> {
        let at = transfer.slot as usize % PLACES;
        let place = &self.places[at];
        let word = slots.word(transfer.slot)?;
        let window = place.window.as_ref().filter(|_| place.of == Some((transfer.slot, word)))?;
        let end = transfer.offset.checked_add(transfer.length.into())?;
        let is_whole = end <= window.size() && transfer.result == u64::from(transfer.length);
        if !is_whole || transfer.way != Way::ReadAt {
            return None;
        }
        if self.chosen != Some(at) {
            window.choose();
            self.chosen = Some(at);
        }
        Some(window)
    }

    /// Touches what the read is about: what it would have returned, or `None` if a read is to be issued.
    #[inline]
    pub(super) fn touch(&mut self, slots: &Slots, transfer: &Transfer) -> Option<i64> {
        let word = slots.word(transfer.slot)?;
        let at = transfer.slot as usize % PLACES;
        let place = &mut self.places[at];
        let number = Slots::number(word);
        if place.of != Some((transfer.slot, word)) {
            *place = Place { of: Some((transfer.slot, word)), window: Window::of(number) };
            self.chosen = None;
        }
        // Where nothing is mapped it may be a pipe, which has no position.
        place.window.as_ref()?;
        let (offset, length) = (position(transfer, number)?, u64::from(transfer.length));
        let ends_early = |window: &Window| offset.saturating_add(length) > window.size();
        if place.window.as_ref().is_some_and(ends_early) {
            // The file may have grown.
            place.window = Window::of(number);
            self.chosen = None;
        }
        let window = place.window.as_ref()?;
        let result = window.size().saturating_sub(offset).min(length);
        if result != transfer.result {
            return None;
        }
        window.choose();
        self.chosen = Some(at);
        if !window.touch(offset, result) {
            self.forget(transfer.slot);
            return None;
        }
        if !transfer.way.is_at() {
            issue::seek_by(number, result, libc::SEEK_CUR);
        }
        Some(result as i64)
    }
}

impl Windows {
    /// The file became shorter.
    #[cold]
    fn forget(&mut self, slot: u32) {
        self.places[slot as usize % PLACES] = Place::default();
        self.chosen = None;
    }
}

/// Touches of a thread that are done, but neither completed nor recorded.
#[derive(Debug, Default)]
pub(super) struct Touches {
    /// Before the first of them, in ticks.
    begin: u64,
    /// Bytes that a read would have returned, the same for all.
    result: u64,
    count: usize,
    /// The action of each.
    origins: [u64; TOGETHER],
    /// The number of the last of them among the thread's commands.
    last: u64,
}

impl Touches {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a read can be among them.
    #[inline]
    fn take(&self, transfer: &Transfer, waits: &[u64]) -> bool {
        // What was waited for was completed before the first of them began.
        let goes_on = self.is_empty() || waits.is_empty() && self.result == transfer.result;
        goes_on && Short::has_room_for(transfer.origin)
    }
}

impl Worker {
    /// Touches what a read is about, the thread's `count`-th command, where nothing is left to be found out; false, and nothing is done,
    /// where something is, or those before it are to be concluded first. Every nanosecond counts here.
    #[inline]
    pub(super) fn touch_together(&mut self, transfer: &Transfer, waits: &[u64], count: u64) -> Result<bool, Stop> {
        let (engine, may_begin) = (self.engine, self.are_met(waits));
        let (Gathering::Touching(touches), Some(windows)) = (&mut self.gathering, &mut self.windows) else {
            return Ok(false);
        };
        if !may_begin || !touches.take(transfer, waits) {
            return Ok(false);
        }
        let Some(window) = windows.ready(&engine.slots, transfer) else { return Ok(false) };
        if touches.is_empty() {
            if engine.counters.stopping() {
                return Err(Stop::Told);
            }
            self.counter.call.0.store(Way::ReadAt.number(), Ordering::Relaxed);
            (touches.begin, touches.result) = (engine.ticks(), transfer.result);
        }
        if !window.touch(transfer.offset, transfer.result) {
            windows.forget(transfer.slot);
            return Ok(false);
        }
        touches.origins[touches.count] = transfer.origin;
        touches.count += 1;
        touches.last = count;
        match touches.count {
            TOGETHER => self.conclude_touches().map(|()| true),
            _ => Ok(true),
        }
    }

    /// Completes and records what was touched.
    pub(super) fn conclude_touches(&mut self) -> Result<(), Stop> {
        let end = self.engine.ticks_after_loads();
        let Gathering::Touching(touches) = &mut self.gathering else { return Ok(()) };
        let origins = &touches.origins[..std::mem::take(&mut touches.count)];
        let Some((&origin, others)) = origins.split_first() else { return Ok(()) };
        self.ready = end;
        self.counter.complete(touches.last, end);
        let (number, result) = (Way::ReadAt.number(), touches.result);
        let times = Times { begin: touches.begin, end, blocked: None, paced: None };
        let (begin, together) = (times.begin, !others.is_empty());
        let short = Short { origin, number, result, begin, end, compared: false, together, waits: 0 };
        let full = match self.log.add_transfer(&short, &times) {
            Some(full) => self.log.add_more(others, &times) || full,
            None => origins.iter().fold(false, |full, &origin| self.log.add(&touched(origin, times, result)) || full),
        };
        if full || self.is_overdue() { self.write_log() } else { Ok(()) }
    }
}

/// A whole record of a touch.
fn touched(origin: u64, times: Times, result: u64) -> Entry<'static> {
    let (handling, difference) = (Handling::Issued, Difference::NONE);
    Entry {
        origin,
        times,
        result: result as i64,
        number: Way::ReadAt.number(),
        handling,
        difference,
        compared: false,
        output: &[],
    }
}
