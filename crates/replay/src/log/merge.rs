//! Records of all threads by the time of their completion, with one batch per overlapping thread in memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;

use super::reader::{Batch, Record, ReplayLog};

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
    records: VecDeque<Record>,
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
        if cursor.records.is_empty()
            && let Some(batch) = cursor.batches.pop_front()
        {
            cursor.records = self.log.load(batch)?.into();
        }
        let record = cursor.records.pop_front();
        let next = match (cursor.records.front(), cursor.batches.front()) {
            (Some(next), _) => Some(next.end_ns),
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
