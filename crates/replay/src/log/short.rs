//! Short records: commands that were issued and went as traced, in 24 bytes, or 8 where one is like the one before it, and what there is to say of
//! its waits. Eight that were performed together share 8 bytes.
//!
//! A short record's first word has the bit [`SHORT`], then whether it was compared (62), whether issued together with others (61),
//! what it waited for (three flags from 57 on), the number of the call (from 48 on) and the origin; then begin, and 32 bits each of
//! result and duration. One of a single word has the bit [`LIKE`] too: call, result and flags are those of the short one before it in
//! the batch; then the distance of its origin (12 bits), that of its begin, and its duration (24 bits each). The words about waits
//! follow ([`super::times`]). A single word that also has the bit [`MORE`] is about up to eight transfers that only their origins tell
//! from the short one before them: their number (from 48 on), and the distances from one to the next (6 bits each).
//!
//! Goals: what is written and what is read stand side by side. Non-goals: all other records.

use super::times::{BLOCKED, DISTURBED, PACED, Times};

const SHORT: u64 = 1 << 63;
const COMPARED: u32 = 62;
const TOGETHER: u32 = 61;
const LIKE: u64 = 1 << 60;
/// Of a word with [`LIKE`].
const MORE: u64 = 1 << 61;
/// Transfers of a word with [`MORE`], and bits of the distance of each.
const MORE_AT_MOST: usize = 8;
const STEP_BITS: usize = 6;
const MOST_STEP: u64 = (1 << STEP_BITS) - 1;
const COUNT: u32 = 48;
/// The flags of [`super::times`] without that of what was compared.
const WAITS: u32 = 56;
const WAIT_FLAGS: u8 = BLOCKED | PACED | DISTURBED;
const MOST_NUMBER: u32 = 0x1ff;
const MOST_ORIGIN: u64 = (1 << 48) - 1;
const MOST_DISTANCE: u64 = 0xfff;
const MOST_TICKS: u64 = 0xff_ffff;

/// Length of the shortest record there is.
pub(super) const LEAST_BYTES: usize = 8;

/// A command that went as traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Short {
    pub origin: u64,
    pub number: u32,
    /// What it returned, no error.
    pub result: u64,
    /// In ticks.
    pub begin: u64,
    pub end: u64,
    pub compared: bool,
    /// It was issued together with others, and so are its times those of all.
    pub together: bool,
    /// What it waited for, as the flags of [`super::times`] say.
    pub waits: u8,
}

impl Short {
    /// Whether a short record has room for it.
    #[inline]
    pub(super) fn fits(&self) -> bool {
        self.origin <= MOST_ORIGIN && self.number <= MOST_NUMBER && self.result.max(self.taken()) <= u32::MAX.into()
    }

    /// Appends it, and what `times` say of its waits; `last` is the one before it in the batch.
    #[inline]
    pub(super) fn write(&self, times: &Times, last: Option<&Short>, buffer: &mut Vec<u8>) {
        match last.and_then(|last| self.like(last)) {
            Some(word) => buffer.extend_from_slice(&word.to_le_bytes()),
            None => buffer.extend_from_slice(self.words().as_flattened()),
        }
        if self.waits != 0 {
            times.store(buffer);
        }
    }

    fn taken(&self) -> u64 {
        self.end.wrapping_sub(self.begin)
    }

    fn words(&self) -> [[u8; 8]; 3] {
        let flags = SHORT | u64::from(self.compared) << COMPARED | u64::from(self.together) << TOGETHER;
        let flags = flags | u64::from(self.waits) << WAITS;
        let head = flags | u64::from(self.number) << 48 | self.origin;
        [head, self.begin, self.result << 32 | self.taken()].map(u64::to_le_bytes)
    }

    /// As a word, if it is like the one before.
    #[inline]
    fn like(&self, last: &Short) -> Option<u64> {
        let same = (self.number, self.result, self.compared, self.together, self.waits)
            == (last.number, last.result, last.compared, last.together, last.waits);
        let (origin, begin) = (self.origin.wrapping_sub(last.origin), self.begin.wrapping_sub(last.begin));
        let fits = origin <= MOST_DISTANCE && begin.max(self.taken()) <= MOST_TICKS;
        (same && fits).then(|| SHORT | LIKE | origin << 48 | begin << 24 | self.taken())
    }

    /// Whether such an action has room in a short record.
    #[inline]
    pub(crate) fn has_room_for(origin: u64) -> bool {
        origin <= MOST_ORIGIN
    }

    /// Becomes the last of those of `origins` that a word has room for, which were performed together with this: the word, and how many
    /// it is about. The first may be too far away: none.
    #[inline]
    pub(super) fn more(&mut self, origins: &[u64]) -> (u64, usize) {
        let (mut word, mut count) = (SHORT | LIKE | MORE, 0);
        for &origin in origins.iter().take(MORE_AT_MOST) {
            let step = origin.wrapping_sub(self.origin);
            if step > MOST_STEP {
                break;
            }
            word |= step << (count * STEP_BITS);
            (self.origin, count) = (origin, count + 1);
        }
        (word | (count as u64) << COUNT, count)
    }

    /// The distances in a word that is about several, if it is.
    pub(super) fn steps(head: u64) -> Option<Steps> {
        const KIND: u64 = SHORT | LIKE | MORE;
        let left = (head >> COUNT & 0xf) as usize;
        (head & KIND == KIND).then(|| Steps { word: head, left: left.min(MORE_AT_MOST) })
    }

    /// Whether a record whose first word this is is a short one.
    pub(super) fn is_head(head: u64) -> bool {
        head & SHORT != 0
    }

    /// The short record at the begin of `rest`, which moves on to the words about its waits; `last` is the one before it in the batch.
    pub(super) fn read(rest: &mut &[u8], last: Option<Short>) -> Option<Short> {
        let (head, tail) = word(rest)?;
        if head & LIKE != 0 {
            *rest = tail;
            let last = last?;
            let origin = last.origin.saturating_add(head >> 48 & MOST_DISTANCE);
            let begin = last.begin.saturating_add(head >> 24 & MOST_TICKS);
            return Some(Short { origin, begin, end: begin.saturating_add(head & MOST_TICKS), ..last });
        }
        let (begin, tail) = word(tail)?;
        let (came, tail) = word(tail)?;
        *rest = tail;
        Some(Short {
            origin: head & MOST_ORIGIN,
            number: (head >> 48) as u32 & MOST_NUMBER,
            result: came >> 32,
            begin,
            end: begin.saturating_add(came & 0xffff_ffff),
            compared: head >> COMPARED & 1 != 0,
            together: head >> TOGETHER & 1 != 0,
            waits: (head >> WAITS) as u8 & WAIT_FLAGS,
        })
    }
}

/// Distances from one origin to the next.
#[derive(Debug, Default)]
pub(super) struct Steps {
    word: u64,
    left: usize,
}

impl Steps {
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl Iterator for Steps {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let step = self.word & MOST_STEP;
        self.word >>= STEP_BITS;
        Some(step)
    }
}

fn word(bytes: &[u8]) -> Option<(u64, &[u8])> {
    bytes.split_first_chunk().map(|(word, rest)| (u64::from_le_bytes(*word), rest))
}
