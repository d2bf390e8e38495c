//! Actions of a trace by number, for readers of another trace of the same actions.

use std::collections::{HashMap, VecDeque};

use crate::error::ReadError;
use crate::reader::{Rows, TraceReader};
use crate::rows::Action;

/// Gives actions by number, each once, asked for nearly in order: what was passed over meanwhile is kept in memory.
pub struct Lookup {
    rows: Rows<Action>,
    /// Nothing before it is asked for.
    start: u64,
    passed: Passed<Action>,
}

impl Lookup {
    /// Of this trace.
    pub fn new(trace: &TraceReader) -> Lookup {
        Lookup::starting(trace, 0)
    }

    /// Of the actions of this trace from this one on.
    pub fn starting(trace: &TraceReader, start: u64) -> Lookup {
        Lookup { rows: trace.actions(), start, passed: Passed::starting(start) }
    }

    /// The action with this number; `None` if the trace does not have it, or has given it.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn take(&mut self, seq: u64) -> Result<Option<Action>, ReadError> {
        if let Some(row) = self.passed.take(seq) {
            return Ok(Some(row));
        }
        for row in self.rows.by_ref() {
            let row = row?;
            if row.seq == seq {
                self.passed.skip(seq);
                return Ok(Some(row));
            }
            if row.seq >= self.start {
                self.passed.keep(row.seq, row);
            }
        }
        Ok(None)
    }
}

/// What was passed over. Numbers of actions have no gaps, so that a place in a queue is enough to find one; whatever does not go
/// on where the last one ended (a damaged trace, a trace of another version) is kept apart.
struct Passed<T> {
    /// The number of the first in the queue.
    first: u64,
    queue: VecDeque<Option<T>>,
    others: HashMap<u64, T>,
}

impl<T> Passed<T> {
    fn starting(first: u64) -> Passed<T> {
        Passed { first, queue: VecDeque::new(), others: HashMap::new() }
    }

    fn goes_on(&self, seq: u64) -> bool {
        self.first.checked_add(self.queue.len() as u64) == Some(seq)
    }

    /// This one is given to somebody at once.
    fn skip(&mut self, seq: u64) {
        if self.goes_on(seq) {
            self.queue.push_back(None);
            self.forget_given();
        }
    }

    fn keep(&mut self, seq: u64, row: T) {
        match self.goes_on(seq) {
            true => self.queue.push_back(Some(row)),
            false => drop(self.others.insert(seq, row)),
        }
    }

    fn take(&mut self, seq: u64) -> Option<T> {
        let place = seq.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let found = place.and_then(|place| self.queue.get_mut(place)).and_then(Option::take);
        match found {
            Some(row) => {
                self.forget_given();
                Some(row)
            }
            None if self.others.is_empty() => None,
            None => self.others.remove(&seq),
        }
    }

    fn forget_given(&mut self) {
        while let Some(None) = self.queue.front() {
            self.queue.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As [`Lookup::take`], over numbers that stand for rows.
    fn take(rows: &mut impl Iterator<Item = u64>, passed: &mut Passed<u64>, seq: u64) -> Option<u64> {
        if let Some(row) = passed.take(seq) {
            return Some(row);
        }
        for row in rows.by_ref() {
            if row == seq {
                passed.skip(seq);
                return Some(row);
            }
            passed.keep(row, row);
        }
        None
    }

    /// Numbers below `count` in an order in which none is further than `reach` from its place.
    fn nearly_in_order(count: u64, reach: u64, seed: u64) -> Vec<u64> {
        let mut keyed: Vec<(u64, u64)> = (0..count)
            .map(|n| (n + (n ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) % (reach + 1), n))
            .collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, n)| n).collect()
    }

    #[test]
    fn each_is_given_once_and_nothing_stays() {
        for (reach, seed) in [(0, 1), (3, 2), (50, 3), (1000, 4)] {
            let mut rows = 0..1000;
            let mut passed = Passed::starting(0);
            for seq in nearly_in_order(1000, reach, seed) {
                assert_eq!(take(&mut rows, &mut passed, seq), Some(seq), "{reach}");
                assert_eq!(take(&mut std::iter::empty(), &mut passed, seq), None, "given twice");
            }
            assert!(passed.queue.is_empty() && passed.others.is_empty(), "{reach}");
        }
    }

    #[test]
    fn numbers_that_do_not_go_on_are_found_too() {
        let numbers = [5, 6, 6, u64::MAX, 0, 1, 900, 2];
        let (mut rows, mut passed) = (numbers.into_iter(), Passed::starting(0));
        for seq in [2, u64::MAX, 0, 1, 6, 900, 5] {
            assert_eq!(take(&mut rows, &mut passed, seq), Some(seq));
        }
        assert_eq!(take(&mut rows, &mut passed, 7), None);
    }
}
