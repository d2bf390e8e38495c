//! The records of a batch, one after the other.
//!
//! Goals: nothing but the batch itself in memory, however many records it has; any bytes are survived.

use std::io;
use std::sync::Arc;

use super::difference::{Difference, Handling};
use super::reader::{Clock, Numbers, Record, word};
use super::short::{LEAST_BYTES, Steps};
use super::times;
use super::{KEPT_OUTPUT, RECORD_BYTES, Short};

/// What is left of a batch.
#[derive(Debug)]
pub(super) struct Records {
    bytes: Vec<u8>,
    at: usize,
    thread: u32,
    clock: Clock,
    numbers: Arc<Numbers>,
    /// The short record before.
    last: Option<Short>,
    /// Of a word about several, those that are left.
    steps: Steps,
}

impl Records {
    pub(super) fn new(bytes: Vec<u8>, thread: u32, clock: Clock, numbers: Arc<Numbers>) -> Records {
        Records { bytes, at: 0, thread, clock, numbers, last: None, steps: Steps::default() }
    }

    /// The next one, of the trace's actions and threads as the plan counts them; `None` if it is damaged.
    fn decode(&mut self) -> Option<Record> {
        if let Some(step) = self.steps.next() {
            return self.another(step);
        }
        let mut rest = self.bytes.get(self.at..)?;
        let (left, head) = (rest.len(), word(rest, 0));
        if let Some(mut steps) = Short::steps(head) {
            let first = steps.next()?;
            self.steps = steps;
            self.at += LEAST_BYTES;
            return self.another(first);
        }
        let record = if Short::is_head(head) {
            self.last = Short::read(&mut rest, self.last);
            self.last.and_then(|short| self.expanded(short, &mut rest))
        } else {
            self.whole(&mut rest)
        };
        self.at += left - rest.len();
        record
    }

    /// One that only its origin tells from the one before.
    fn another(&mut self, step: u64) -> Option<Record> {
        let short = self.last.as_mut()?;
        short.origin = short.origin.saturating_add(step);
        let short = *short;
        self.expanded(short, &mut &[][..])
    }

    /// The record at the begin of `rest`, which moves on.
    fn whole(&self, rest: &mut &[u8]) -> Option<Record> {
        let (head, mut tail) = rest.split_first_chunk::<RECORD_BYTES>()?;
        let (begin, flags) = (word(head, 8), head[51]);
        let (blocked, pacing) = times::load(flags, begin, &self.clock, &mut tail)?;
        let length = (word(head, 56) >> 32) as usize;
        let output = tail.get(..length).filter(|o| o.len() <= KEPT_OUTPUT)?;
        *rest = tail.get(length.next_multiple_of(8)..).unwrap_or_default();
        let difference = Difference::from_bytes([head[52], head[53], head[54], head[55]])?;
        let unavoidable = word(head, 56) as u32;
        Some(Record {
            origin: word(head, 0),
            thread: self.thread,
            number: u32::from(u16::from_le_bytes([head[48], head[49]])),
            begin_ns: self.clock.since_begin(begin),
            end_ns: self.clock.since_begin(word(head, 16)),
            result: word(head, 24) as i64,
            handling: Handling::from_byte(head[50])?,
            compared: flags & times::COMPARED != 0,
            together: false,
            blocked,
            pacing,
            difference: Difference { unavoidable, found: word(head, 32), traced: word(head, 40), ..difference },
            output: output.to_vec(),
        })
    }

    /// The record of a short one; what it says of waits is at the begin of `rest`, which moves on.
    fn expanded(&self, short: Short, rest: &mut &[u8]) -> Option<Record> {
        let (blocked, pacing) = times::load(short.waits, short.begin, &self.clock, rest)?;
        Some(Record {
            origin: short.origin,
            thread: self.thread,
            number: short.number,
            begin_ns: self.clock.since_begin(short.begin),
            end_ns: self.clock.since_begin(short.end),
            result: short.result as i64,
            handling: Handling::Issued,
            compared: short.compared,
            together: short.together,
            blocked,
            pacing,
            difference: Difference::NONE,
            output: Vec::new(),
        })
    }

    /// As the trace counts actions and threads.
    fn numbered(&self, mut record: Record) -> Record {
        record.origin = record.origin.saturating_add(self.numbers.first_action);
        record.thread = self.numbers.threads.get(record.thread as usize).copied().unwrap_or(record.thread);
        record
    }
}

impl Iterator for Records {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.steps.is_empty() && self.bytes.len().saturating_sub(self.at) < LEAST_BYTES {
            return None;
        }
        let record = self.decode().map(|record| self.numbered(record));
        if record.is_none() {
            // Nothing behind it can be trusted.
            (self.at, self.steps) = (self.bytes.len(), Steps::default());
        }
        Some(record.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the replay's log is damaged")))
    }
}
