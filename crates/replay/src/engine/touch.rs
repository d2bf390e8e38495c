//! Reads that copy nothing (`--io touch`): of each page that a read is about, one byte of a mapping is loaded.
//!
//! What it costs is what the page cache and the processor's own translation cost: a few nanoseconds for a page that was touched
//! before, a page fault (about a microsecond, sixteen pages at a time) for the first touch, and a read of the device where the
//! page is not in memory. The page counts as accessed, as after a read.
//!
//! Goals: what a read would have returned is known beforehand, or a read is issued. Non-goals: comparing content; descriptors that
//! cannot be mapped, or that bypass the page cache.

use reprise_plan::command::Transfer;

use super::memory::Window;
use super::transfer::position;
use super::{Slots, issue};

/// Mappings that a thread keeps; a descriptor's slot has one place.
const PLACES: usize = 16;

/// A thread's mappings of the files that it reads.
#[derive(Debug, Default)]
pub(super) struct Windows {
    places: [Place; PLACES],
}

/// A mapping, and of which life of which slot.
#[derive(Debug, Default)]
struct Place {
    of: Option<(u32, u64)>,
    window: Option<Window>,
}

impl Windows {
    /// Touches what the read is about: what it would have returned, or `None` if a read is to be issued.
    #[inline]
    pub(super) fn touch(&mut self, slots: &Slots, transfer: &Transfer) -> Option<i64> {
        let word = slots.word(transfer.slot)?;
        let place = &mut self.places[transfer.slot as usize % PLACES];
        let number = Slots::number(word);
        if place.of != Some((transfer.slot, word)) {
            *place = Place { of: Some((transfer.slot, word)), window: Window::of(number) };
        }
        // Where nothing is mapped it may be a pipe, which has no position.
        place.window.as_ref()?;
        let (offset, length) = (position(transfer, number)?, u64::from(transfer.length));
        let ends_early = |window: &Window| offset.saturating_add(length) > window.size();
        if place.window.as_ref().is_some_and(ends_early) {
            // The file may have grown.
            place.window = Window::of(number);
        }
        let window = place.window.as_ref()?;
        let result = window.size().saturating_sub(offset).min(length);
        if result != transfer.result {
            return None;
        }
        if !window.touch(offset, result) {
            // It became shorter.
            *place = Place::default();
            return None;
        }
        if !transfer.way.is_at() {
            issue::seek_by(number, result, libc::SEEK_CUR);
        }
        Some(result as i64)
    }
}
