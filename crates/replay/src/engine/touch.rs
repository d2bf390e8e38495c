//! Reads that copy nothing (`--io touch`): of each page that a read is about, one byte of a mapping is loaded.
//!
//! What it costs is what the page cache and the processor's own translation cost: a few nanoseconds for a page that was touched
//! before, a page fault (about a microsecond, sixteen pages at a time) for the first touch, and a read of the device where the
//! page is not in memory. The page counts as accessed, as after a read.
//!
//! Goals: what a read would have returned is known beforehand, or a read is issued. Non-goals: comparing content; descriptors that
//! cannot be mapped, or that bypass the page cache.

use std::ops::Range;
use std::sync::atomic::Ordering;

use reprise_plan::Timing;
use reprise_plan::command::{Command, CommandReader, Expect, Tolerance, Transfer, Way};

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

    /// The window of a slot's file, which the calling thread touches from now on.
    #[inline]
    fn choose(&mut self, slot: u32) -> Option<&Window> {
        let at = slot as usize % PLACES;
        let window = self.places[at].window.as_ref()?;
        if self.chosen != Some(at) {
            window.choose();
            self.chosen = Some(at);
        }
        Some(window)
    }

    /// The greatest offset from which a read has all its bytes.
    #[inline]
    fn furthest(&self, run: &Run) -> Option<u64> {
        self.places[run.slot as usize % PLACES].window.as_ref()?.size().checked_sub(run.length.into())
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
        if !window.touch(&[offset], result) {
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

/// Reads one after the other that differ in place and time alone, all bytes of which were there in the trace.
#[derive(Debug, Clone, Copy)]
struct Run {
    slot: u32,
    length: u32,
    expect: Expect,
    /// The number of its last one among the reads, plus 1.
    end: usize,
}

impl Run {
    /// A read of it.
    fn transfer(self, origin: u64, offset: u64) -> Transfer {
        let Run { slot, length, expect, .. } = self;
        let (way, result, digest, content, within) = (Way::ReadAt, length.into(), 0, 0, 0);
        let (tolerance, timing) = (Tolerance::None, Timing::default());
        Transfer { origin, way, result, slot, length, offset, expect, digest, content, within, tolerance, timing }
    }
}

/// Reads at offsets that are to be touched.
#[derive(Debug, Default)]
pub(super) struct Touches {
    runs: Vec<Run>,
    count: usize,
    /// The action of each, and its place in its file.
    origins: [u64; TOGETHER],
    offsets: [u64; TOGETHER],
    /// The number of the last of them among the thread's commands.
    last: u64,
}

impl Touches {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    fn add(&mut self, transfer: &Transfer) {
        let (at, Transfer { origin, offset, slot, length, expect, .. }) = (self.count, *transfer);
        (self.origins[at], self.offsets[at]) = (origin, offset);
        self.count += 1;
        let end = self.count;
        match self.runs.last_mut() {
            Some(run) if (run.slot, run.length, run.expect) == (slot, length, expect) => run.end = end,
            _ => self.runs.push(Run { slot, length, expect, end }),
        }
    }

    /// Each run, with the places of its reads among all.
    fn runs(&self) -> impl Iterator<Item = (&Run, Range<usize>)> {
        let begins = std::iter::once(0).chain(self.runs.iter().map(|run| run.end));
        self.runs.iter().zip(begins).map(|(run, begin)| (run, begin..run.end))
    }

    fn clear(&mut self) {
        self.runs.clear();
        self.count = 0;
    }
}

impl Worker {
    /// Takes a read, the thread's `count`-th command, among those that will be touched together, if nothing about it is left to be found
    /// out; else they are to be touched first. Every nanosecond counts here.
    #[inline(always)]
    pub(super) fn gather_touch(&mut self, transfer: &Transfer, waits: &[u64], count: u64) -> bool {
        let may_begin = self.are_met(waits) && Short::has_room_for(transfer.origin);
        let (Gathering::Touching(touches), Some(windows)) = (&mut self.gathering, &self.windows) else { return false };
        if touches.count == TOGETHER || !may_begin || !windows.has(&self.engine.slots, transfer) {
            return false;
        }
        touches.add(transfer);
        touches.last = count;
        true
    }

    /// Takes the reads at the begin of `words`, too, that differ from the one that was taken last, and read last, in place and time alone:
    /// how many they are.
    #[inline]
    pub(super) fn gather_run(&mut self, reader: &mut CommandReader, words: &[u64]) -> usize {
        let (Gathering::Touching(touches), Some(windows)) = (&mut self.gathering, &self.windows) else { return 0 };
        let Touches { runs, count, origins, offsets, last } = &mut **touches;
        let Some(run) = runs.last_mut() else { return 0 };
        let Some(furthest) = windows.furthest(run) else { return 0 };
        let mut places = origins[*count..].iter_mut().zip(&mut offsets[*count..]);
        let taken = reader.alike(words, |origin, offset| {
            if offset > furthest || !Short::has_room_for(origin) {
                return false;
            }
            let Some(place) = places.next() else { return false };
            (*place.0, *place.1) = (origin, offset);
            true
        });
        *count += taken;
        *last += taken as u64;
        run.end = *count;
        taken
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
        let is_there = touches.runs().all(|(run, reads)| {
            windows.choose(run.slot).is_some_and(|window| window.touch(&touches.offsets[reads], run.length.into()))
        });
        let end = engine.ticks_after_loads();
        if !is_there {
            return self.read_instead(spare);
        }
        self.ready = end;
        self.engine.counters.complete(self.counter, touches.last, end);
        let full = record(touches, begin, end, &mut self.log);
        touches.clear();
        if full || self.is_overdue() { self.write_log() } else { Ok(()) }
    }

    /// A file became shorter: each by itself, from a mapping of what there is, or by a call.
    #[cold]
    fn read_instead(&mut self, spare: &mut Command) -> Result<(), Stop> {
        let Gathering::Touching(touches) = &mut self.gathering else { return Ok(()) };
        let touches = std::mem::take(&mut **touches);
        let mut number = touches.last - touches.count as u64;
        for (run, reads) in touches.runs() {
            for at in reads {
                number += 1;
                self.windows.iter_mut().for_each(|windows| windows.forget(run.slot));
                self.transfer(&run.transfer(touches.origins[at], touches.offsets[at]), &[], number, spare)?;
            }
        }
        Ok(())
    }
}

/// Records all; true if the batch of records should be written.
#[inline]
fn record(touches: &Touches, begin: u64, end: u64, log: &mut Writer) -> bool {
    let (number, compared, waits, together) = (Way::ReadAt.number(), false, 0, touches.count > 1);
    let times = Times { begin, end, blocked: None, paced: None };
    let mut full = false;
    for (run, reads) in touches.runs() {
        let (origins, result) = (&touches.origins[reads], u64::from(run.length));
        let Some((&origin, others)) = origins.split_first() else { continue };
        let short = Short { origin, number, result, begin, end, compared, together, waits };
        full |= match log.add_short(&short, &times) {
            Some(full) => log.add_more(others, &times) || full,
            None => origins.iter().fold(false, |full, &origin| {
                let (result, handling, difference) = (result as i64, Handling::Issued, Difference::NONE);
                let whole = Entry { origin, times, result, number, handling, difference, compared, output: &[] };
                log.add(&whole) || full
            }),
        };
    }
    full
}
