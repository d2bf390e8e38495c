//! Reads that copy nothing (`--io touch`): of each page that a read is about, one byte of a mapping is loaded.
//!
//! What it costs is what the page cache and the processor's own translation cost: a few nanoseconds for a page that was touched
//! before, a page fault (about a microsecond, sixteen pages at a time) for the first touch, and a read of the device where the
//! page is not in memory. The page counts as accessed, as after a read.
//!
//! Goals: what a read would have returned is known beforehand, or a read is issued. Non-goals: comparing content; descriptors that
//! cannot be mapped, or that bypass the page cache.

use std::sync::atomic::Ordering;

use reprise_plan::Timing;
use reprise_plan::command::{Command, Expect, Tolerance, Transfer, Way};

use super::batch::Gathering;
use super::failure::Stop;
use super::memory::Window;
use super::thread::Worker;
use super::transfer::position;
use super::{Slots, issue};
use crate::log::{Difference, Entry, Handling, Short, Times, Writer};

/// Mappings that a thread keeps; a descriptor's slot has one place.
const PLACES: usize = 16;
/// Touches that are timed together at most: another thread that waits for the first waits for all of them, each of which may be a
/// read of the device.
const TOGETHER: usize = 32;

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
    /// Whether all that a read at an offset is about is mapped, and nothing has changed since.
    #[inline]
    fn has(&self, slots: &Slots, transfer: &Transfer) -> bool {
        let place = &self.places[transfer.slot as usize % PLACES];
        let (Some(window), Some(word)) = (&place.window, slots.word(transfer.slot)) else { return false };
        let is_same = place.of == Some((transfer.slot, word));
        let end = transfer.offset.checked_add(transfer.result);
        let is_whole = transfer.result == u64::from(transfer.length) && end.is_some_and(|end| end <= window.size());
        is_same && is_whole && transfer.way == Way::ReadAt && transfer.tolerance == Tolerance::None
    }

    /// Loads what [`Windows::has`]; false if some of it is gone.
    #[inline]
    fn load(&mut self, parts: &[Part]) -> bool {
        parts.iter().all(|part| {
            let at = part.slot as usize % PLACES;
            let Some(window) = &self.places[at].window else { return false };
            if self.chosen != Some(at) {
                window.choose();
                self.chosen = Some(at);
            }
            window.touch(part.offset, part.length.into())
        })
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

/// What a read is about, all of which was there in the trace.
#[derive(Debug, Clone, Copy)]
struct Part {
    offset: u64,
    slot: u32,
    length: u32,
    expect: Expect,
}

impl Part {
    /// A read of it.
    fn transfer(self, origin: u64) -> Transfer {
        let Part { offset, slot, length, expect } = self;
        let (way, result, content, within) = (Way::ReadAt, length.into(), 0, 0);
        let (tolerance, timing) = (Tolerance::None, Timing::default());
        Transfer { origin, way, result, slot, length, offset, expect, content, within, tolerance, timing }
    }
}

/// Reads at offsets that are to be touched.
#[derive(Debug, Default)]
pub(super) struct Touches {
    parts: Vec<Part>,
    /// The action of each.
    origins: [u64; TOGETHER],
    /// The number of the last of them among the thread's commands.
    last: u64,
}

impl Touches {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Worker {
    /// Takes a read, the thread's `count`-th command, among those that will be touched together, if nothing about it is left to be found
    /// out; else they are to be touched first. Every nanosecond counts here.
    #[inline(always)]
    pub(super) fn gather_touch(&mut self, transfer: &Transfer, waits: &[u64], count: u64) -> bool {
        let may_begin = self.are_met(waits) && Short::has_room_for(transfer.origin);
        let (Gathering::Touching(touches), Some(windows)) = (&mut self.gathering, &self.windows) else { return false };
        let at = touches.parts.len();
        if at == TOGETHER || !may_begin || !windows.has(&self.engine.slots, transfer) {
            return false;
        }
        touches.origins[at] = transfer.origin;
        let Transfer { offset, slot, length, expect, .. } = *transfer;
        touches.parts.push(Part { offset, slot, length, expect });
        touches.last = count;
        true
    }

    /// Touches what was gathered, and records it.
    pub(super) fn perform_touches(&mut self, spare: &mut Command) -> Result<(), Stop> {
        let engine = self.engine;
        let (Gathering::Touching(touches), Some(windows)) = (&mut self.gathering, &mut self.windows) else {
            return Ok(());
        };
        if engine.counters.stopping() {
            return Err(Stop::Told);
        }
        self.counter.call.0.store(Way::ReadAt.number(), Ordering::Relaxed);
        let begin = engine.ticks();
        let is_there = windows.load(&touches.parts);
        let end = engine.ticks_after_loads();
        if !is_there {
            return self.read_instead(spare);
        }
        self.ready = end;
        self.counter.complete(touches.last, end);
        let full = record(touches, begin, end, &mut self.log);
        touches.parts.clear();
        if full || self.is_overdue() { self.write_log() } else { Ok(()) }
    }

    /// A file became shorter: each by itself, from a mapping of what there is, or by a call.
    #[cold]
    fn read_instead(&mut self, spare: &mut Command) -> Result<(), Stop> {
        let Gathering::Touching(touches) = &mut self.gathering else { return Ok(()) };
        let (parts, origins, last) = (std::mem::take(&mut touches.parts), touches.origins, touches.last);
        for ((part, origin), behind) in parts.iter().zip(origins).zip((0..parts.len() as u64).rev()) {
            self.windows.iter_mut().for_each(|windows| windows.forget(part.slot));
            self.transfer(&part.transfer(origin), &[], last - behind, spare)?;
        }
        Ok(())
    }
}

/// Records all; true if the batch of records should be written.
#[inline]
fn record(touches: &Touches, begin: u64, end: u64, log: &mut Writer) -> bool {
    let (mut full, mut at) = (false, 0);
    let Touches { parts, origins, .. } = touches;
    let (number, compared, waits, together) = (Way::ReadAt.number(), false, 0, parts.len() > 1);
    let times = Times { begin, end, blocked: None, paced: None };
    while let Some((Part { length, .. }, others)) = parts[at..].split_first() {
        let alike = others.iter().take_while(|other| other.length == *length).count();
        let short =
            Short { origin: origins[at], number, result: (*length).into(), begin, end, compared, together, waits };
        full |= match log.add_transfer(&short, &times) {
            Some(full) => log.add_more(&origins[at + 1..=at + alike], &times) || full,
            None => origins[at..=at + alike].iter().fold(false, |full, &origin| {
                let (result, handling, difference) = ((*length).into(), Handling::Issued, Difference::NONE);
                let whole = Entry { origin, times, result, number, handling, difference, compared, output: &[] };
                log.add(&whole) || full
            }),
        };
        at += 1 + alike;
    }
    full
}
