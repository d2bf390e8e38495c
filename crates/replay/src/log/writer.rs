//! Writing: each thread gathers records in batches, each of which is written with one call at the end of the file.
//!
//! Non-goals: writing them (the engine does).

use super::difference::{Difference, Handling};
use super::times::{COMPARED, Times};
use super::{KEPT_OUTPUT, MAGIC, RECORD_BYTES, Short};

/// A batch's head: magic, thread, length of the records in bytes (u64), first end (ticks), number of records.
pub(crate) const HEAD_BYTES: usize = 32;
/// A batch is written when it is as long, or has so many records: they are not to grow old.
const FULL: usize = 64 << 10;
const MOST_RECORDS: u64 = 32 << 10;

/// What a record says; see [`super::Record`].
pub(crate) struct Entry<'a> {
    pub origin: u64,
    pub times: Times,
    pub result: i64,
    pub number: u32,
    pub handling: Handling,
    pub difference: Difference,
    pub compared: bool,
    pub output: &'a [u8],
}

impl Entry<'_> {
    /// As a short record, if it was issued, went as traced, and nothing is kept of it.
    fn short(&self) -> Option<Short> {
        let Entry { origin, times: Times { begin, end, .. }, number, compared, .. } = *self;
        let result = u64::try_from(self.result).ok()?;
        let is_plain =
            self.handling == Handling::Issued && self.difference == Difference::NONE && self.output.is_empty();
        let waits = self.times.waits();
        is_plain.then_some(Short { origin, number, result, begin, end, compared, together: false, waits })
    }
}

/// One thread's records.
#[derive(Debug)]
pub(crate) struct Writer {
    thread: u32,
    first_end: u64,
    count: u64,
    buffer: Vec<u8>,
    /// The short record before, in this batch.
    last: Option<Short>,
}

impl Writer {
    /// For a thread.
    pub(crate) fn new(thread: u32) -> Writer {
        let mut buffer = Vec::with_capacity(FULL / 16);
        buffer.resize(HEAD_BYTES, 0);
        Writer { thread, first_end: 0, count: 0, buffer, last: None }
    }

    /// Adds a record; true if the batch should be written.
    pub(crate) fn add(&mut self, entry: &Entry<'_>) -> bool {
        if let Some(is_full) = entry.short().and_then(|short| self.add_short(&short, &entry.times)) {
            return is_full;
        }
        if self.count == 0 {
            self.first_end = entry.times.end;
        }
        self.count += 1;
        let output = &entry.output[..entry.output.len().min(KEPT_OUTPUT)];
        let d = entry.difference;
        let mut record = [0u8; RECORD_BYTES];
        for (i, word) in [entry.origin, entry.times.begin, entry.times.end, entry.result as u64, d.found, d.traced]
            .into_iter()
            .enumerate()
        {
            record[i * 8..i * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        record[48..50].copy_from_slice(&(entry.number as u16).to_le_bytes());
        record[50] = entry.handling as u8;
        record[51] = entry.times.waits() | if entry.compared { COMPARED } else { 0 };
        record[52..56].copy_from_slice(&d.to_bytes());
        record[56..60].copy_from_slice(&d.unavoidable.to_le_bytes());
        record[60..64].copy_from_slice(&(output.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(&record);
        entry.times.store(&mut self.buffer);
        if !output.is_empty() {
            self.buffer.extend_from_slice(output);
            self.buffer.resize(self.buffer.len().next_multiple_of(8), 0);
        }
        self.is_full()
    }

    fn is_full(&self) -> bool {
        self.buffer.len() >= FULL || self.count >= MOST_RECORDS
    }

    /// Adds a command with these times in 8 or 24 bytes, and a few more if it waited; `None` if it does not fit, else whether the
    /// batch should be written.
    #[inline]
    pub(crate) fn add_short(&mut self, short: &Short, times: &Times) -> Option<bool> {
        if !short.fits() {
            return None;
        }
        if self.count == 0 {
            self.first_end = short.end;
        }
        self.count += 1;
        short.write(times, self.last.as_ref(), &mut self.buffer);
        self.last = Some(*short);
        Some(self.is_full())
    }

    /// Adds transfers that only their origins tell from the one that was added last; true if the batch should be written.
    #[inline]
    pub(crate) fn add_more(&mut self, mut origins: &[u64], times: &Times) -> bool {
        let Some(mut last) = self.last else { return false };
        self.count += origins.len() as u64;
        while let Some(&origin) = origins.first() {
            let (word, count) = last.more(origins);
            if count > 0 {
                self.buffer.extend_from_slice(&word.to_le_bytes());
            } else {
                let next = Short { origin, ..last };
                next.write(times, Some(&last), &mut self.buffer);
                last = next;
            }
            origins = &origins[count.max(1)..];
        }
        self.last = Some(last);
        self.is_full()
    }

    /// Whether nothing was gathered.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The batch of what was gathered, with its head; none if there is nothing.
    pub(crate) fn finished(&mut self) -> Option<&[u8]> {
        if self.count == 0 {
            return None;
        }
        let length = (self.buffer.len() - HEAD_BYTES) as u64;
        self.buffer[..4].copy_from_slice(&MAGIC.to_le_bytes());
        self.buffer[4..8].copy_from_slice(&self.thread.to_le_bytes());
        self.buffer[8..16].copy_from_slice(&length.to_le_bytes());
        self.buffer[16..24].copy_from_slice(&self.first_end.to_le_bytes());
        self.buffer[24..32].copy_from_slice(&self.count.to_le_bytes());
        Some(&self.buffer)
    }

    /// Begins another batch in the same memory.
    pub(crate) fn clear(&mut self) {
        self.buffer.truncate(HEAD_BYTES);
        self.count = 0;
        self.last = None;
    }

    /// Takes the batch away, with its memory.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Begins another batch in this memory.
    pub(crate) fn give(&mut self, memory: Vec<u8>) {
        self.buffer = memory;
        self.buffer.resize(HEAD_BYTES, 0);
        self.clear();
    }
}
