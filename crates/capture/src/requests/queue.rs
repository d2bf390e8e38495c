//! The memory that a queue of Linux AIO shares with its program (`struct aio_ring`).

use super::{Completion, Seen};
use crate::memory::Memory;

const HEAD: usize = 32;
const EVENT: u64 = 32;
const MAGIC: u32 = 0xa10a_10a1;
/// The memory is the program's too: it may say anything.
const MOST_EVENTS: u32 = 1 << 20;

/// A queue, at the address that names it.
#[derive(Debug)]
pub struct Queue {
    address: u64,
    /// The next completion to look at.
    next: u32,
}

impl Queue {
    /// A new queue.
    pub fn new(address: u64) -> Queue {
        Queue { address, next: 0 }
    }

    /// Completions that were not seen before.
    pub fn look(&mut self, memory: Memory) -> Seen {
        let mut out = Seen::default();
        let Some(head) = memory.exact(self.address, HEAD) else { return out };
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let (size, first, tail) = (half(4), half(8), half(12));
        if half(16) != MAGIC || tail >= size || size > MOST_EVENTS || first >= size || self.next >= size {
            return out;
        }
        // Places go round: between head and tail are those that were not taken.
        let left = (tail + size - first) % size;
        while self.next != tail {
            let at = self.address.wrapping_add(HEAD as u64 + EVENT * u64::from(self.next));
            if let Some(bytes) = memory.exact(at, EVENT as usize) {
                let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
                let (data, key, result) = (word(0), word(8), word(16) as i64);
                let taken = (tail + size - self.next) % size > left;
                out.completions.push(Completion {
                    place: self.next,
                    key,
                    data,
                    result,
                    last: true,
                    counts: true,
                    buffer: None,
                    taken,
                });
            }
            self.next = (self.next + 1) % size;
        }
        out
    }
}
