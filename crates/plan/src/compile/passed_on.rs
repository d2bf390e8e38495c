//! What a thread writes of what it has just read: `tar`, `cp`, `dd`, a server of files.
//!
//! Goals: content that was a part of what the thread's last read filled, in the same memory, is placed once; a replay compares
//! that and writes it from there, at the place in its page that the program's memory had, and fetches half as much. Non-goals:
//! equal contents elsewhere (blobs are placed once anyway); what was read before that.

use std::ops::Range;

/// Longer reads are not looked at: their content lies where direct writes of all of it may want it.
const LONGEST: u64 = 128 << 10;

/// The last read of a thread.
#[derive(Debug, Clone, Copy)]
struct LastRead {
    address: u64,
    length: u64,
    blob: u32,
    at: u64,
}

/// What each thread has read last.
#[derive(Debug, Default)]
pub(super) struct PassedOn {
    threads: Vec<Option<LastRead>>,
}

/// A place in content that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The content that was read.
    pub blob: u32,
    /// Which bytes of it.
    pub range: Range<usize>,
    /// Where in the plan these begin.
    pub at: u64,
}

impl PassedOn {
    /// A read into memory at `address`, whose content was placed as a whole.
    pub fn read(&mut self, thread: u32, address: u64, length: u64, blob: u32, at: u64) {
        let thread = thread as usize;
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, None);
        }
        self.threads[thread] = keeps_place(length).then_some(LastRead { address, length, blob, at });
    }

    /// Where content in memory at `address` may come from: whoever asks compares it, since the memory may have changed.
    pub fn part(&self, thread: u32, address: u64, length: u64) -> Option<Part> {
        let last = (*self.threads.get(thread as usize)?)?;
        let begin = address.checked_sub(last.address)?;
        let end = begin.checked_add(length).filter(|end| *end <= last.length)?;
        Some(Part { blob: last.blob, range: begin as usize..end as usize, at: last.at + begin })
    }
}

/// Whether content that was read so, into memory whose place in its page is known, is to lie there in the plan.
pub(super) fn keeps_place(length: u64) -> bool {
    length <= LONGEST
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Part, PassedOn};

    #[test]
    fn a_part_of_the_last_read_is_found() {
        let mut passed = PassedOn::default();
        passed.read(1, 0x5000, 10240, 7, 4096);
        assert_eq!(passed.part(1, 0x5200, 9728), Some(Part { blob: 7, range: 512..10240, at: 4608 }));
        assert_eq!(passed.part(1, 0x5000, 10240), Some(Part { blob: 7, range: 0..10240, at: 4096 }));
    }

    #[test]
    fn what_lies_elsewhere_is_not() {
        let mut passed = PassedOn::default();
        passed.read(1, 0x5000, 10240, 7, 4096);
        for (thread, address, length) in [
            (0, 0x5000, 1),
            (2, 0x5000, 1),
            (1, 0x4fff, 10),
            (1, 0x5200, 9729),
            (1, u64::MAX, 2),
            (1, 0x5001, u64::MAX),
        ] {
            assert_eq!(passed.part(thread, address, length), None, "{thread} {address:#x} {length}");
        }
        passed.read(1, 0x5000, LONGEST + 1, 8, 0);
        assert_eq!(passed.part(1, 0x5000, 1), None);
    }
}
