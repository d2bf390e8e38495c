//! The memory that an io_uring shares with its program.
//!
//! Goals: the requests on their way into the kernel, the completions on their way out, found by what `io_uring_setup` said
//! and where the program mapped it. Non-goals: rings whose requests pass without a call (SQPOLL): the kernel takes them when
//! it likes, and the program may have overwritten them when we look.

use reprise_calls::Effect;

use super::sqe;
use super::{Asked, Completion, Seen};
use crate::memory::Memory;

/// `struct io_uring_params`.
pub const PARAMS: usize = 120;

const SETUP_IOPOLL: u32 = 1;
const SETUP_SQPOLL: u32 = 1 << 1;
const SETUP_SQE128: u32 = 1 << 10;
const SETUP_CQE32: u32 = 1 << 11;
const SETUP_NO_MMAP: u32 = 1 << 14;
const SETUP_REGISTERED_FD_ONLY: u32 = 1 << 15;
const SETUP_NO_SQARRAY: u32 = 1 << 16;
/// Beyond these the layout is not known.
const KNOWN: u32 = (1 << 18) - 1;

const OFFSET_COMPLETIONS: u64 = 0x0800_0000;
const OFFSET_REQUESTS: u64 = 0x1000_0000;
const CQE_BUFFER: u32 = 1;
const CQE_MORE: u32 = 1 << 1;
const CQE_NOTIFICATION: u32 = 1 << 3;
/// The kernel makes no larger rings; what is read from the program's memory may say so.
const MOST_ENTRIES: u32 = 1 << 15;
const MOST_COMPLETIONS: u32 = 1 << 16;
/// Heads and tails stand in the first bytes.
const HEAD: usize = 192;

/// A ring, as its parameters and mappings say.
#[derive(Debug)]
pub struct Ring {
    flags: u32,
    entries: u32,
    completions: u32,
    /// Offsets in the ring's memory: of submissions head, tail and array, of completions head, tail and entries.
    submitted: [u32; 3],
    completed: [u32; 3],
    base: Option<u64>,
    completion_base: Option<u64>,
    requests: Option<u64>,
    /// The next completion to look at.
    next: u32,
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl Ring {
    /// From the parameters as the kernel filled them, or why it cannot be followed.
    pub fn new(params: &[u8]) -> Result<Ring, &'static str> {
        let flags = half(params, 8);
        if flags & SETUP_SQPOLL != 0 {
            return Err("a ring that the kernel polls (SQPOLL)");
        }
        if flags & SETUP_REGISTERED_FD_ONLY != 0 {
            return Err("a ring without a descriptor (REGISTERED_FD_ONLY)");
        }
        if flags & !KNOWN != 0 {
            return Err("a ring of a layout that is not known");
        }
        let own_memory = flags & SETUP_NO_MMAP != 0;
        let given = |at: usize| Some(word(params, at)).filter(|_| own_memory);
        Ok(Ring {
            flags,
            entries: half(params, 0).min(MOST_ENTRIES),
            completions: half(params, 4).min(MOST_COMPLETIONS),
            submitted: [40, 44, 64].map(|at| half(params, at)),
            completed: [80, 84, 100].map(|at| half(params, at)),
            base: given(112),
            completion_base: None,
            requests: given(72),
            next: 0,
        })
    }

    /// The program has mapped a part of it.
    pub fn mapped(&mut self, offset: u64, address: u64) {
        match offset & 0xf800_0000 {
            0 => self.base = Some(address),
            OFFSET_COMPLETIONS => self.completion_base = Some(address),
            OFFSET_REQUESTS => self.requests = Some(address),
            _ => {}
        }
    }

    fn pair(&self, memory: Memory, base: Option<u64>, [first, second]: [u32; 2]) -> Option<(u32, u32)> {
        let mut bytes = [0; HEAD];
        if first.max(second) as usize > HEAD - 4 || memory.read(base?, &mut bytes) < HEAD {
            return None;
        }
        Some((half(&bytes, first as usize), half(&bytes, second as usize)))
    }

    /// Head and tail of the requests.
    pub fn submissions(&self, memory: Memory) -> Option<(u32, u32)> {
        self.pair(memory, self.base, [self.submitted[0], self.submitted[1]])
    }

    /// Head and tail of the completions.
    pub fn completions(&self, memory: Memory) -> Option<(u32, u32)> {
        self.pair(memory, self.completion_base.or(self.base), [self.completed[0], self.completed[1]])
    }

    /// The request at this place of the queue; none if its memory cannot be read.
    pub fn request(&self, memory: Memory, place: u32) -> Option<sqe::Request> {
        let mask = self.entries.checked_sub(1)?;
        let place = place & mask;
        let index = match self.flags & SETUP_NO_SQARRAY {
            0 => {
                let array = self.base?.wrapping_add(self.submitted[2].into());
                let at = array.wrapping_add(4 * u64::from(place));
                half(&memory.exact(at, 4)?, 0) & mask
            }
            _ => place,
        };
        let size = if self.flags & SETUP_SQE128 != 0 { 128 } else { 64 };
        let bytes = memory.exact(self.requests?.wrapping_add(size * u64::from(index)), sqe::BYTES)?;
        let request = sqe::request(bytes.first_chunk()?);
        // One whose completions are polled for only transfers.
        let transfers = |asked: &Asked| matches!(asked.call.effect, Effect::Read | Effect::Write);
        let is_foreign = self.flags & SETUP_IOPOLL != 0 && !request.asked.as_ref().is_some_and(transfers);
        Some(sqe::Request { malformed: request.malformed || is_foreign, ..request })
    }

    /// Completions that were not seen before.
    pub fn look(&mut self, memory: Memory) -> Seen {
        let mut out = Seen::default();
        let Some((head, tail)) = self.completions(memory) else { return out };
        let Some(mask) = self.completions.checked_sub(1) else { return out };
        let new = tail.wrapping_sub(self.next);
        if new > self.completions {
            out.lost = (new - self.completions).into();
            self.next = tail.wrapping_sub(self.completions);
        }
        let size = if self.flags & SETUP_CQE32 != 0 { 32 } else { 16 };
        let base = self.completion_base.or(self.base).unwrap_or(0).wrapping_add(self.completed[2].into());
        while self.next != tail {
            let at = base.wrapping_add(size * u64::from(self.next & mask));
            if let Some(bytes) = memory.exact(at, 16) {
                let (result, flags) = (half(&bytes, 8) as i32, half(&bytes, 12));
                out.completions.push(Completion {
                    place: self.next,
                    key: word(&bytes, 0),
                    data: 0,
                    result: result.into(),
                    taken: head.wrapping_sub(self.next) as i32 > 0,
                    last: flags & CQE_MORE == 0,
                    buffer: (flags & CQE_BUFFER != 0).then_some((flags >> 16) as u16),
                    counts: flags & CQE_NOTIFICATION == 0,
                });
            }
            self.next = self.next.wrapping_add(1);
        }
        out
    }
}
