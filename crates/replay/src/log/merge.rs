//! Records of all threads by the time of their completion, with one batch per overlapping thread in memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::iter::Peekable;

use super::reader::{Batch, Record, ReplayLog};
use super::records::Records;

/// An iterator over all records in the order of completion.
#[derive(Debug)]
pub struct Merged {
    log: ReplayLog,
    /// By completion of the first record that is left: thread.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    threads: HashMap<u32, Cursor>,
}

#[derive(Debug, Default)]
struct Cursor {
    batches: VecDeque<Batch>,
    records: Option<Peekable<Records>>,
}

impl Merged {
    pub(super) fn new(log: ReplayLog) -> Merged {
        let mut threads: HashMap<u32, Cursor> = HashMap::new();
        for batch in log.batches() {
            threads.entry(batch.thread).or_default().batches.push_back(*batch);
        }
        let first = |(thread, cursor): (&u32, &Cursor)| Some(Reverse((log.key(cursor.batches.front()?), *thread)));
        let queue = threads.iter().filter_map(first).collect();
        Merged { log, queue, threads }
    }

    fn step(&mut self, thread: u32) -> io::Result<Option<Record>> {
        let Some(cursor) = self.threads.get_mut(&thread) else {
            return Ok(None);
        };
        if cursor.records.as_mut().is_none_or(|records| records.peek().is_none())
            && let Some(batch) = cursor.batches.pop_front()
        {
            cursor.records = Some(self.log.load(batch)?.peekable());
        }
        let record = cursor.records.as_mut().and_then(Iterator::next).transpose()?;
        let following = cursor.records.as_mut().and_then(|records| records.peek());
        let next = match (following, cursor.batches.front()) {
            (Some(Ok(next)), _) => Some(next.end_ns),
            // To be told at once.
            (Some(Err(_)), _) => Some(0),
            (None, Some(batch)) => Some(self.log.key(batch)),
            (None, None) => None,
        };
        match next {
            Some(next) => self.queue.push(Reverse((next, thread))),
            None => drop(self.threads.remove(&thread)),
        }
        Ok(record)
    }
}

impl Iterator for Merged {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Reverse((_, thread)) = self.queue.pop()?;
            match self.step(thread) {
                Ok(Some(record)) => return Some(Ok(record)),
                Ok(None) => {}
                Err(e) => {
                    self.queue.clear();
                    return Some(Err(e));
                }
            }
        }
    }
}
