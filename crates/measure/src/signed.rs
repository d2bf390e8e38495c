//! Differences of times, which may be negative.

use serde::Serialize;

use crate::Samples;

/// Signed times in nanoseconds, as they come in.
#[derive(Debug, Clone, Default)]
pub struct SignedSamples {
    /// Magnitudes of those below 0.
    below: Samples,
    rest: Samples,
}

/// What is known of a set of signed times, in nanoseconds. All zero if there were none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct SignedDistribution {
    /// Number of samples.
    pub count: u64,
    /// Least.
    pub min_ns: i64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: i64,
    /// Quantile 0.9.
    pub p90_ns: i64,
    /// Quantile 0.99.
    pub p99_ns: i64,
    /// Greatest.
    pub max_ns: i64,
}

impl SignedSamples {
    /// Takes a sample in.
    pub fn add(&mut self, ns: i64) {
        if ns < 0 { self.below.add(ns.unsigned_abs()) } else { self.rest.add(ns.unsigned_abs()) }
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.below.count() + self.rest.count()
    }

    /// The sample of this rank, from 1.
    fn at_rank(&self, rank: u64) -> i64 {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let below = self.below.count();
        match rank.checked_sub(below + 1) {
            Some(beyond) => signed(self.rest.at_rank(beyond + 1)),
            None => -signed(self.below.at_rank(below + 1 - rank)),
        }
    }

    /// The distribution of the samples so far.
    pub fn distribution(&self) -> SignedDistribution {
        let count = self.count();
        if count == 0 {
            return SignedDistribution::default();
        }
        let quantile = |q: f64| self.at_rank(((q * count as f64).ceil() as u64).clamp(1, count));
        SignedDistribution {
            count,
            min_ns: self.at_rank(1),
            mean_ns: (self.rest.total_ns() as f64 - self.below.total_ns() as f64) / count as f64,
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            max_ns: self.at_rank(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_kept_in_order() {
        let mut samples = SignedSamples::default();
        assert_eq!(samples.distribution(), SignedDistribution::default());
        (-40..60).for_each(|ns| samples.add(ns));
        let d = samples.distribution();
        assert_eq!((d.count, d.min_ns, d.p50_ns, d.p90_ns, d.p99_ns, d.max_ns), (100, -40, 9, 49, 58, 59));
        assert!((d.mean_ns - 9.5).abs() < 1e-9);
    }

    #[test]
    fn many_agree_with_sorting() {
        let mut samples = SignedSamples::default();
        let mut all: Vec<i64> = (0..20_000).map(|i: i64| (i * 7_919) % 20_011 * 100 - 600_000).collect();
        all.iter().for_each(|ns| samples.add(*ns));
        all.sort_unstable();
        let d = samples.distribution();
        for (found, exact) in [(d.min_ns, all[0]), (d.p50_ns, all[9_999]), (d.p99_ns, all[19_799])] {
            assert!((found - exact).abs() <= exact.abs() / 500 + 100, "{found} {exact}");
        }
        assert_eq!(d.max_ns, all[19_999]);
    }

    #[test]
    fn extremes_do_no_harm() {
        let mut samples = SignedSamples::default();
        for _ in 0..1_000 {
            samples.add(i64::MIN);
            samples.add(i64::MAX);
        }
        let d = samples.distribution();
        assert_eq!((d.min_ns, d.max_ns), (-i64::MAX, i64::MAX));
    }
}
