//! How many intervals overlap, over time.
//!
//! Goals: an exact mean; a course over time in a fixed number of slices, each exact, whose width doubles as time goes on,
//! so that memory does not grow; intervals may come in any order. Non-goals: what the intervals are.

use serde::Serialize;

use crate::levels::Levels;

/// Most slices that time is divided into.
pub const MOST_SLICES: usize = 512;
/// Width of a slice to begin with: 2^10 ns.
const FIRST_SHIFT: u32 = 10;

/// Gathers intervals.
#[derive(Debug, Clone)]
pub struct Concurrency {
    shift: u32,
    /// Time in the intervals, by slice.
    busy_ns: Vec<u64>,
    levels: Levels,
    first_ns: u64,
    last_ns: u64,
}

/// How many intervals overlapped.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Overlap {
    /// From the first begin to the last end.
    pub elapsed_ns: u64,
    /// Sum of the intervals' lengths.
    pub busy_ns: u64,
    /// Mean number of intervals at a time.
    pub mean: f64,
    /// The mean number that is not exceeded for a tenth, half and nine tenths of the time, and the greatest: of slices.
    pub p10: f64,
    /// Half of the time.
    pub p50: f64,
    /// Nine tenths of the time.
    pub p90: f64,
    /// In the busiest slice.
    pub max: f64,
    /// Width of the slices.
    pub slice_ns: u64,
    /// Begin of the first slice, on the clock of the intervals.
    pub slices_from_ns: u64,
    /// Mean number in each slice.
    pub slices: Vec<f64>,
    /// The share of time with none, one, two … at a time, from the first begin to the last end.
    pub levels: Vec<f64>,
}

impl Default for Concurrency {
    fn default() -> Self {
        let (busy_ns, levels) = (vec![0; MOST_SLICES], Levels::default());
        Concurrency { shift: FIRST_SHIFT, busy_ns, levels, first_ns: u64::MAX, last_ns: 0 }
    }
}

impl Concurrency {
    /// Takes an interval in.
    pub fn add(&mut self, begin_ns: u64, end_ns: u64) {
        let end_ns = end_ns.max(begin_ns);
        self.first_ns = self.first_ns.min(begin_ns);
        self.last_ns = self.last_ns.max(end_ns);
        self.levels.add(begin_ns, end_ns);
        while (end_ns >> self.shift) as usize >= MOST_SLICES {
            self.double();
        }
        let mut from = begin_ns;
        while from < end_ns {
            let slice = from >> self.shift;
            let to = self.end_of(slice).min(end_ns);
            let busy = &mut self.busy_ns[slice as usize];
            *busy = busy.saturating_add(to - from);
            from = to;
        }
    }

    fn end_of(&self, slice: u64) -> u64 {
        (slice + 1).saturating_mul(1 << self.shift)
    }

    fn double(&mut self) {
        for i in 0..MOST_SLICES {
            let pair = self.busy_ns.get(2 * i..2 * i + 2).unwrap_or_default();
            self.busy_ns[i] = pair.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        }
        self.shift += 1;
    }

    /// What the intervals so far amount to.
    pub fn overlap(&self) -> Overlap {
        let elapsed_ns = self.last_ns.saturating_sub(self.first_ns);
        if elapsed_ns == 0 {
            return Overlap::default();
        }
        let busy_ns = self.busy_ns.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        let (first, last) = (self.first_ns >> self.shift, (self.last_ns - 1) >> self.shift);
        // The first and the last slice count for what of them lies between begin and end.
        let weighed: Vec<(f64, u64)> = (first..=last)
            .map(|slice| {
                let from = (slice << self.shift).max(self.first_ns);
                let to = self.end_of(slice).min(self.last_ns);
                (self.busy_ns[slice as usize] as f64 / (to - from) as f64, to - from)
            })
            .collect();
        let mut sorted = weighed.clone();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let quantile = |q: f64| {
            let mut left = q * elapsed_ns as f64;
            let found = sorted.iter().find(|(_, ns)| {
                left -= *ns as f64;
                left <= 0.0
            });
            found.or(sorted.last()).map_or(0.0, |(mean, _)| *mean)
        };
        Overlap {
            elapsed_ns,
            busy_ns,
            mean: busy_ns as f64 / elapsed_ns as f64,
            p10: quantile(0.1),
            p50: quantile(0.5),
            p90: quantile(0.9),
            max: quantile(1.0),
            slice_ns: 1 << self.shift,
            slices_from_ns: first << self.shift,
            slices: weighed.iter().map(|(mean, _)| *mean).collect(),
            levels: self.levels.shares(self.first_ns, self.last_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts nanosecond by nanosecond.
    fn brute_force(intervals: &[(u64, u64)]) -> Vec<u32> {
        let first = intervals.iter().map(|i| i.0).min().unwrap();
        let last = intervals.iter().map(|i| i.1).max().unwrap();
        (first..last).map(|ns| intervals.iter().filter(|(b, e)| (*b..*e).contains(&ns)).count() as u32).collect()
    }

    fn random(seed: &mut u64, below: u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % below
    }

    #[test]
    fn slices_agree_with_counting() {
        let mut seed = 7;
        for (count, reach) in [(1, 10), (5, 3_000), (40, 100_000), (60, 3_000_000)] {
            let mut intervals = Vec::new();
            let mut concurrency = Concurrency::default();
            for _ in 0..count {
                let begin = random(&mut seed, reach);
                let end = begin + 1 + random(&mut seed, reach / 3);
                intervals.push((begin, end));
                concurrency.add(begin, end);
            }
            let counted = brute_force(&intervals);
            let found = concurrency.overlap();
            assert_eq!(found.elapsed_ns, counted.len() as u64);
            let mean = |part: &[u32]| f64::from(part.iter().sum::<u32>()) / part.len() as f64;
            assert!((found.mean - mean(&counted)).abs() < 1e-9);
            let first = intervals.iter().map(|i| i.0).min().unwrap();
            let (mut at, mut slice_end) = (0, (found.slices_from_ns + found.slice_ns - first) as usize);
            for slice in &found.slices {
                let end = slice_end.min(counted.len());
                assert!((slice - mean(&counted[at..end])).abs() < 1e-9, "{at} {found:?}");
                (at, slice_end) = (end, end + found.slice_ns as usize);
            }
            assert_eq!(at, counted.len());
            assert!(found.p10 <= found.p50 && found.p50 <= found.p90 && found.p90 <= found.max);
            // Half of the time is at or below the median, and half at or above; slices at the ends are not whole.
            let many = found.slices.len() as f64;
            let below = found.slices.iter().filter(|s| **s < found.p50).count() as f64;
            let above = found.slices.iter().filter(|s| **s > found.p50).count() as f64;
            assert!(below <= many / 2.0 + 1.0 && above <= many / 2.0 + 1.0, "{found:?}");
        }
    }

    #[test]
    fn constant_overlap_is_found_whatever_the_span() {
        for span in [1, 1_000, 1 << 40, u64::MAX / 4] {
            let mut concurrency = Concurrency::default();
            for _ in 0..3 {
                concurrency.add(0, span);
            }
            let found = concurrency.overlap();
            for level in [found.mean, found.p10, found.p50, found.p90, found.max] {
                assert!((level - 3.0).abs() < 1e-6, "{span} {level}");
            }
        }
    }

    #[test]
    fn nothing_and_the_absurd_do_no_harm() {
        assert_eq!(Concurrency::default().overlap(), Overlap::default());
        let mut concurrency = Concurrency::default();
        concurrency.add(5, 3);
        assert_eq!(concurrency.overlap(), Overlap::default());
        concurrency.add(0, u64::MAX);
        concurrency.add(0, u64::MAX);
        assert!(concurrency.overlap().mean > 0.0);
    }
}
