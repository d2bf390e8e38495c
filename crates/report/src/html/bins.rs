//! Counts in bins of equal ratio, eight to a doubling: quantiles within 9 % at any scale, in bounded memory.

use serde::Serialize;

/// Bins to a doubling.
const TO_A_DOUBLING: f64 = 8.0;

/// Numbers of times, by their logarithm.
#[derive(Debug, Clone, Default)]
pub struct Bins {
    counts: Vec<u64>,
}

/// The bins that are not empty: lower bound and count.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Filled(Vec<(u64, u64)>);

impl Bins {
    /// Counts a time in nanoseconds.
    pub fn add(&mut self, ns: u64) {
        let bin = place(ns);
        if self.counts.len() <= bin {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The bins that are not empty, each by its lower bound.
    pub fn filled(&self) -> Filled {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Filled(filled.map(|(bin, count)| (bound(bin), *count)).collect())
    }
}

/// 0 has a bin of its own.
fn place(ns: u64) -> usize {
    match ns {
        0 => 0,
        ns => ((ns as f64).log2() * TO_A_DOUBLING) as usize + 1,
    }
}

fn bound(bin: usize) -> u64 {
    match bin {
        0 => 0,
        bin => ((bin - 1) as f64 / TO_A_DOUBLING).exp2() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_within_a_tenth() {
        for ns in [1, 7, 100, 12_345, 1_000_000_007, u64::MAX / 3] {
            let mut bins = Bins::default();
            bins.add(ns);
            let Filled(filled) = bins.filled();
            let [(bound, 1)] = filled[..] else { panic!("{filled:?}") };
            assert!(bound <= ns && ns as f64 <= (bound + 1) as f64 * 1.1, "{ns} {bound}");
        }
        let mut bins = Bins::default();
        bins.add(0);
        assert_eq!(bins.filled(), Filled(vec![(0, 1)]));
    }
}
