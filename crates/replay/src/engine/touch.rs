//! Reads that copy nothing (`--io touch`): of each page that a read is about, one byte of a mapping is loaded.
//!
//! What it costs is what the page cache and the processor's own translation cost: a few nanoseconds for a page that was touched
//! before, a page fault (about a microsecond, sixteen pages at a time) for the first touch, and a read of the device where the
//! page is not in memory. The page counts as accessed, as after a read.
//!
//! Goals: what a read would have returned is known beforehand, or a read is issued. Non-goals: comparing content; descriptors that
//! cannot be mapped, or that bypass the page cache.

use std::sync::atomic::Ordering;

use reprise_plan::command::{Command, Transfer, Way};

use super::failure::Stop;
use super::memory::Window;
use super::thread::Worker;
use super::transfer::{Came, position};
use super::{Slots, issue};
use crate::log::Times;

/// Mappings that a thread keeps; a descriptor's slot has one place.
const PLACES: usize = 16;

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

impl Worker {
    /// Touches what a read is about that waits for nothing, the thread's `count`-th command, where nothing is left to be found out; false,
    /// and nothing is done, where something is. Every nanosecond counts here.
    #[inline]
    pub(super) fn touch_quickly(&mut self, transfer: &Transfer, count: u64, spare: &mut Command) -> Result<bool, Stop> {
        let engine = self.engine;
        let windows = self.windows.as_mut().filter(|_| self.hurries && !engine.counters.stopping());
        let Some(window) = windows.and_then(|windows| windows.ready(&engine.slots, transfer)) else { return Ok(false) };
        self.counter.call.0.store(Way::ReadAt.number(), Ordering::Relaxed);
        let begin = engine.ticks();
        if !window.touch(transfer.offset, transfer.result) {
            self.windows.iter_mut().for_each(|windows| windows.forget(transfer.slot));
            return Ok(false);
        }
        let end = engine.ticks_after_loads();
        self.ready = end;
        self.counter.complete(count, end);
        let times = Times { begin, end, blocked: None, paced: None };
        if let Some(full) = self.log.add_again(Way::ReadAt.number(), transfer.result, transfer.origin, [begin, end]) {
            return if full || self.is_overdue() { self.write_log().map(|()| true) } else { Ok(true) };
        }
        let came = Came { result: transfer.result as i64, at: 0, times, together: false, touched: true };
        self.conclude(transfer, &came, spare).map(|()| true)
    }
}
