//! Instants on two clocks: the kernel's, which sleeps end by, and the time-stamp counter, which the log is kept in.
//!
//! Goals: both readings of an instant belong together within a microsecond, however busy the machine is. Non-goals:
//! anything between two instants (that is for whoever converts).

use super::issue;

/// Ticks within which nobody is interrupted, well under a microsecond; and how often one who was reads again.
const UNDISTURBED_TICKS: u64 = 2_000;
const TRIES: usize = 7;

/// One instant on both clocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Instant {
    pub ticks: u64,
    pub ns: u64,
}

/// The present instant; the counter is read on both sides of the clock, which takes longer. Who was interrupted between them
/// (the two are far apart: another program had the processor, or the clock's page was not there yet) reads once more.
pub(super) fn now(tsc: bool) -> Instant {
    if !tsc {
        let ns = issue::nanoseconds();
        return Instant { ticks: ns, ns };
    }
    let mut best = read();
    for _ in 0..TRIES {
        if best.0 <= UNDISTURBED_TICKS {
            break;
        }
        let other = read();
        best = if other.0 < best.0 { other } else { best };
    }
    best.1
}

/// How many ticks the reading took, and what was read.
fn read() -> (u64, Instant) {
    let before = issue::ticks();
    let ns = issue::nanoseconds();
    let width = issue::ticks() - before;
    (width, Instant { ticks: before + width / 2, ns })
}
