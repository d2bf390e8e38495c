//! What the counters are made of: atomic numbers, and a way to sleep until one changes.
//!
//! `counters.rs` knows nothing else of the machine, so that a test can put other parts in their place and try every
//! interleaving (`tests/counters.rs`).

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

pub(super) use super::issue::{futex_wait, futex_wake, nanoseconds};

/// Looks at a number between two looks at the clock.
pub(super) const LOOKS: u32 = 256;

/// Processors that this process may use.
pub(super) fn processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u64)
}
