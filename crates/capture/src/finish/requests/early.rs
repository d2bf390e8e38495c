//! Completions of Linux AIO that were fetched before the call was over that submitted their requests.
//!
//! The kernel performs requests while `io_submit` goes on, and another thread may fetch them meanwhile. Goals: they are kept until that
//! call is over, as far as there is room. Non-goals: requests that were submitted before the recording: theirs are never asked for.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::kept::Kept;
use crate::requests::Completion;

/// So many are kept of a queue, and so much memory that was filled.
const MOST: usize = 1 << 16;
const MOST_BYTES: usize = 64 << 20;

/// A completion that belongs to no request that is known.
#[derive(Debug)]
pub struct Fetched {
    pub completion: Completion,
    /// The number that its request will have: the call that fetched it tells of it.
    pub number: u64,
    pub at_ns: u64,
    /// The memory of the call that fetched it.
    pub kept: Rc<Kept>,
    /// Its part of that.
    bytes: usize,
}

/// Those of a queue, in the order in which they were fetched.
#[derive(Debug, Default)]
pub struct Early {
    fetched: VecDeque<Fetched>,
    bytes: usize,
}

impl Early {
    /// Keeps completions that a call has fetched, with the numbers that their requests will have; how many of the oldest had no room.
    pub fn keep(&mut self, completions: &[(Completion, u64)], at_ns: u64, kept: &Kept) -> u64 {
        if completions.is_empty() {
            return 0;
        }
        let (bytes, kept) = (kept.held().div_ceil(completions.len()), Rc::new(kept.clone()));
        for &(completion, number) in completions {
            self.bytes += bytes;
            self.fetched.push_back(Fetched { completion, number, at_ns, kept: Rc::clone(&kept), bytes });
        }
        let mut lost = 0;
        while self.fetched.len() > MOST || self.bytes > MOST_BYTES {
            let Some(oldest) = self.fetched.pop_front() else { break };
            self.bytes -= oldest.bytes;
            lost += 1;
        }
        lost
    }

    /// The completion of a request that was submitted from `begin_ns` on: what was fetched before that is not its.
    pub fn take(&mut self, key: u64, data: u64, begin_ns: u64) -> Option<Fetched> {
        let is_its = |f: &Fetched| (f.completion.key, f.completion.data) == (key, data) && f.at_ns >= begin_ns;
        let at = self.fetched.iter().position(is_its)?;
        let fetched = self.fetched.remove(at)?;
        self.bytes -= fetched.bytes;
        Some(fetched)
    }

    /// How many nobody has asked for.
    pub fn left(&self) -> u64 {
        self.fetched.len() as u64
    }
}
