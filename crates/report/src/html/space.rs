//! Space in use on a replay's target over time, from the samples of its environment.

use reprise_trace::{Environment, ReadError, TraceReader};
use serde::Serialize;

/// Most samples that are embedded.
const MOST: usize = 480;

/// Space in use at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Space {
    /// Since the first action, in nanoseconds; negative before it.
    pub time_ns: i64,
    /// Bytes in use on the whole file system of the target.
    pub used_bytes: u64,
}

/// The samples of a trace, evenly chosen if they are many; none if it has none. `first_ns` is the instant of its first action.
///
/// # Errors
/// The trace cannot be read.
pub fn space(trace: &TraceReader, first_ns: u64) -> Result<Vec<Space>, ReadError> {
    let mut all = Vec::new();
    for sample in trace.rows::<Environment>() {
        let sample = sample?;
        let since = i128::from(sample.time_ns) - i128::from(first_ns);
        let time_ns = i64::try_from(since).unwrap_or(i64::MAX);
        all.extend(sample.target_used_bytes.map(|used_bytes| Space { time_ns, used_bytes }));
    }
    Ok(evenly(all))
}

/// At most so many, the last one among them.
fn evenly(all: Vec<Space>) -> Vec<Space> {
    let (step, last) = (all.len().div_ceil(MOST - 1).max(1), all.len().saturating_sub(1));
    let kept = all.into_iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last);
    kept.map(|(_, sample)| sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_kept_all_and_of_many_the_last_too() {
        let samples = |n: u64| (0..n).map(|i| Space { time_ns: i as i64, used_bytes: i }).collect::<Vec<_>>();
        for n in [0, 1, 2, 479, 480, 481, 8192] {
            let kept = evenly(samples(n));
            assert!(
                kept.len() <= MOST && kept.last() == samples(n).last() && kept.first() == samples(n).first(),
                "{n}"
            );
            assert!(n > 479 || kept.len() as u64 == n, "{n}");
        }
    }
}
