//! Whether a traced read found its pages in memory: told by how long it took.
//!
//! A read out of the page cache costs the call and the copy; one that misses waits for a device, which takes tens of microseconds and
//! more. The rule: a read that took longer than [`MISS_NS`] and [`MISS_NS_PER_KIB`] for each KiB of its result was a miss. Reads
//! during which the thread lost its processor count as misses wrongly; fast devices' misses that took less, as hits.
//!
//! Goals: nothing is said where times are not the program's own (a recorder that stops it). Non-goals: which pages of a read missed.

use reprise_calls::{Call, Effect};
use reprise_trace::{Action, IN_THE_KERNEL, Manifest, RESPONSE_TIME};

/// Longest time of a hit, beside its copy.
pub const MISS_NS: u64 = 25_000;
/// Longest time that copying a KiB out of the page cache takes (4 GiB/s).
pub const MISS_NS_PER_KIB: u64 = 250;

/// Tells hits from misses in a trace, where that is possible.
#[derive(Debug, Clone, Copy)]
pub(super) struct Residency {
    times_are_own: bool,
}

impl Residency {
    pub(super) fn of(manifest: &Manifest) -> Residency {
        let times_are_own = manifest.facts.get(RESPONSE_TIME).is_some_and(|how| how == IN_THE_KERNEL);
        Residency { times_are_own }
    }

    /// Whether the action was a read that found its pages in memory; `None` if that is not known, or it was no read.
    pub(super) fn cached(self, call: &Call, action: &Action) -> Option<bool> {
        let bytes = u64::try_from(action.result).ok().filter(|bytes| *bytes > 0)?;
        (self.times_are_own && call.effect == Effect::Read)
            .then(|| action.duration_ns <= MISS_NS.saturating_add(bytes / 1024 * MISS_NS_PER_KIB))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_tell_where_they_are_the_programs_own() {
        let (known, unknown) = (Residency { times_are_own: true }, Residency { times_are_own: false });
        let read = reprise_calls::by_name("pread64").unwrap();
        let action = |duration_ns, result| Action { duration_ns, result, ..Action::default() };
        assert_eq!(known.cached(read, &action(1_000, 4096)), Some(true));
        assert_eq!(known.cached(read, &action(80_000, 4096)), Some(false));
        // A mebibyte is copied in a fifth of a millisecond.
        assert_eq!(known.cached(read, &action(200_000, 1 << 20)), Some(true));
        assert_eq!(known.cached(read, &action(2_000_000, 1 << 20)), Some(false));
        for (rule, call, result) in [
            (unknown, read, 4096),
            (known, reprise_calls::by_name("write").unwrap(), 4096),
            (known, read, 0),
            (known, read, -5),
        ] {
            assert_eq!(rule.cached(call, &action(80_000, result)), None);
        }
    }
}
