//! What the counters are made of: atomic numbers, and a way to sleep until one changes.
//!
//! `counters.rs` knows nothing else of the machine, so that a test can put other parts in their place and try every
//! interleaving (`tests/counters.rs`).

pub(super) use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, compiler_fence, fence};
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::issue;
pub(super) use super::issue::{futex_wait, futex_wake, leave_processor, nanoseconds, processor};

/// Whether the kernel makes barriers in other threads on request.
static BARRIERS_ON_REQUEST: AtomicBool = AtomicBool::new(false);

/// To be called once, before there are other threads.
pub(super) fn prepare_barriers() {
    BARRIERS_ON_REQUEST.store(issue::register_barriers(), Ordering::SeqCst);
}

/// One of a pair of barriers, of which at least one side sees what the other has written: that of the side that passes often. It
/// costs nothing (a full fence 8 ns) where the other side has the kernel interrupt all threads that run, `membarrier(2)`.
#[inline]
pub(super) fn frequent_barrier() {
    match BARRIERS_ON_REQUEST.load(Ordering::Relaxed) {
        true => compiler_fence(Ordering::SeqCst),
        false => fence(Ordering::SeqCst),
    }
}

/// The other of the pair: that of the side that is about to sleep.
pub(super) fn rare_barrier() {
    fence(Ordering::SeqCst);
    if BARRIERS_ON_REQUEST.load(Ordering::Relaxed) {
        issue::barrier_in_all_threads();
    }
}

/// Looks at a number between two looks at the clock.
pub(super) const LOOKS: u32 = 256;

/// Processors that this process may use.
pub(super) fn processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u64)
}
