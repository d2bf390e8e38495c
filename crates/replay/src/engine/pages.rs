//! Pages of reads as they were in the trace: in memory, or not (`--cache traced`).
//!
//! Goals: the read itself is what a read of such pages is; what it takes to bring that about is done before it is timed. Non-goals:
//! knowing what was in memory (the plan says it), pages that are dirty: the kernel keeps them.

use reprise_plan::command::Transfer;

use super::memory::PAGE;
use super::thread::Worker;
use super::transfer::position;
use super::{Engine, issue};

/// What was done, to be said at the end.
#[derive(Debug, Default)]
pub(super) struct Pages {
    dropped: u64,
    loaded: u64,
    found: u64,
    unknown: u64,
}

impl Pages {
    pub(super) fn note(&self, engine: &Engine) {
        engine.note_many("reads that missed in the trace: their pages were dropped before them", self.dropped);
        engine
            .note_many("reads that hit in the trace, whose pages were not in memory: loaded before them", self.loaded);
        engine.note_many("reads that hit in the trace, whose pages were in memory", self.found);
        engine.note_many("reads of which the trace does not tell whether they hit", self.unknown);
    }
}

impl Worker {
    /// Drops or loads the pages of a read. There is room for its result in scratch memory.
    pub(super) fn prepare_pages(&mut self, transfer: &Transfer, number: i32) {
        let (Some(offset), Some(cached)) = (position(transfer, number), transfer.timing.cached) else {
            self.pages.unknown += 1;
            return;
        };
        let length = transfer.result.min(u64::from(transfer.length));
        if !cached {
            let page = PAGE as u64;
            let begin = offset / page * page;
            let end = offset.saturating_add(length).checked_next_multiple_of(page).unwrap_or(u64::MAX);
            issue::forget(number, begin, end - begin);
            self.pages.dropped += 1;
            return;
        }
        let room = self.scratch.bytes_mut(0, length as usize);
        if issue::read_cached(number, room, offset) == length as i64 {
            self.pages.found += 1;
        } else {
            issue::read(number, room, Some(offset));
            self.pages.loaded += 1;
        }
    }
}
