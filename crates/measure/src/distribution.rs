//! Times: gathered, and summed up as a distribution.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Samples kept one by one; more go into a histogram.
const EXACT: usize = 512;
/// Significant decimal digits of the histogram.
const DIGITS: u8 = 3;

/// Times in nanoseconds, as they come in.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    store: Store,
    total_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

#[derive(Debug, Clone)]
enum Store {
    Exact(Vec<u64>),
    Binned(Box<Histogram<u64>>),
}

impl Default for Store {
    fn default() -> Self {
        Store::Exact(Vec::new())
    }
}

/// What is known of a set of times, in nanoseconds. All zero if there were none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Distribution {
    /// Number of samples.
    pub count: u64,
    /// Sum.
    pub total_ns: u64,
    /// Least.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median: at least half of the samples are not above it.
    pub p50_ns: u64,
    /// Quantile 0.9.
    pub p90_ns: u64,
    /// Quantile 0.99.
    pub p99_ns: u64,
    /// Quantile 0.999.
    pub p999_ns: u64,
    /// Greatest.
    pub max_ns: u64,
}

impl Samples {
    /// Takes a sample in.
    pub fn add(&mut self, ns: u64) {
        self.min_ns = if self.count() == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.total_ns = self.total_ns.saturating_add(ns);
        match &mut self.store {
            Store::Exact(all) if all.len() < EXACT => all.push(ns),
            Store::Exact(all) => {
                // Fails for impossible bounds only; then what is exact stays exact.
                match Histogram::new(DIGITS) {
                    Ok(mut histogram) => {
                        all.iter().chain([&ns]).for_each(|v| record(&mut histogram, *v));
                        self.store = Store::Binned(Box::new(histogram));
                    }
                    Err(_) => all.push(ns),
                }
            }
            Store::Binned(histogram) => record(histogram, ns),
        }
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        match &self.store {
            Store::Exact(all) => all.len() as u64,
            Store::Binned(histogram) => histogram.len(),
        }
    }

    /// Sum, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// The sample of this rank, from 1 to their number; 0 if there is none.
    pub(crate) fn at_rank(&self, rank: u64) -> u64 {
        let count = self.count();
        match &self.store {
            _ if rank <= 1 => self.min_ns,
            _ if rank >= count => self.max_ns,
            Store::Exact(all) => {
                let mut sorted = all.clone();
                sorted.sort_unstable();
                sorted[rank as usize - 1]
            }
            Store::Binned(h) => h.value_at_quantile(rank as f64 / count as f64).clamp(self.min_ns, self.max_ns),
        }
    }

    /// The distribution of the samples so far.
    pub fn distribution(&self) -> Distribution {
        let count = self.count();
        if count == 0 {
            return Distribution::default();
        }
        let [p50_ns, p90_ns, p99_ns, p999_ns] = match &self.store {
            Store::Exact(all) => {
                let mut sorted = all.clone();
                sorted.sort_unstable();
                QUANTILES.map(|q| {
                    let rank = (q * sorted.len() as f64).ceil() as usize;
                    sorted[rank.clamp(1, sorted.len()) - 1]
                })
            }
            // A bin's representative may lie just outside of what was seen.
            Store::Binned(h) => QUANTILES.map(|q| h.value_at_quantile(q).clamp(self.min_ns, self.max_ns)),
        };
        Distribution {
            count,
            total_ns: self.total_ns,
            min_ns: self.min_ns,
            mean_ns: self.total_ns as f64 / count as f64,
            p50_ns,
            p90_ns,
            p99_ns,
            p999_ns,
            max_ns: self.max_ns,
        }
    }
}

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

fn record(histogram: &mut Histogram<u64>, ns: u64) {
    // It grows to fit; beyond what it can hold the greatest it can counts.
    if histogram.record(ns).is_err() {
        histogram.saturating_record(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_are_exact() {
        let mut samples = Samples::default();
        assert_eq!(samples.distribution(), Distribution::default());
        for ns in [5, 1, 4, 2, 3] {
            samples.add(ns);
        }
        let d = samples.distribution();
        assert_eq!((d.count, d.total_ns, d.min_ns, d.p50_ns, d.p90_ns, d.max_ns), (5, 15, 1, 3, 5, 5));
        assert!((d.mean_ns - 3.0).abs() < 1e-12);
    }

    #[test]
    fn many_samples_are_within_a_thousandth() {
        let mut samples = Samples::default();
        for i in 1..=100_000u64 {
            samples.add(i * 1_000);
        }
        let d = samples.distribution();
        assert_eq!((d.count, d.min_ns, d.max_ns), (100_000, 1_000, 100_000_000));
        for (found, exact) in [(d.p50_ns, 50e6), (d.p90_ns, 90e6), (d.p99_ns, 99e6), (d.p999_ns, 99.9e6)] {
            assert!((found as f64 / exact - 1.0).abs() < 1e-3, "{found} {exact}");
        }
    }

    #[test]
    fn extremes_do_no_harm() {
        let mut samples = Samples::default();
        for _ in 0..1_000 {
            samples.add(u64::MAX);
            samples.add(0);
        }
        let d = samples.distribution();
        assert_eq!((d.min_ns, d.max_ns, d.total_ns, d.count), (0, u64::MAX, u64::MAX, 2_000));
    }
}
