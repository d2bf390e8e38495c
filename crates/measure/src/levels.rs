//! For which share of time how many intervals overlap.
//!
//! Goals: levels as they are, not means of slices; intervals in any order; one addition at each end of an interval, whatever
//! its length; memory that does not grow. So the level is taken at evenly spaced instants, whose distance doubles as time goes
//! on: a share is exact within the distance of two instants for each of its pieces.

/// Most instants.
const MOST_INSTANTS: usize = 1 << 16;

/// Gathers intervals.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    shift: u32,
    /// For each instant, how much greater the level is than at the one before it.
    steps: Vec<i32>,
}

impl Default for Levels {
    fn default() -> Self {
        Levels { shift: 0, steps: vec![0; MOST_INSTANTS] }
    }
}

impl Levels {
    /// Takes an interval in.
    pub fn add(&mut self, begin_ns: u64, end_ns: u64) {
        while self.at_or_after(end_ns) >= MOST_INSTANTS {
            self.double();
        }
        let (from, to) = (self.at_or_after(begin_ns), self.at_or_after(end_ns));
        self.steps[from] += 1;
        self.steps[to] -= 1;
    }

    /// The first instant that is not before a time.
    fn at_or_after(&self, ns: u64) -> usize {
        let before = ns >> self.shift;
        (before + u64::from(before << self.shift != ns)) as usize
    }

    /// Leaves out every other instant.
    fn double(&mut self) {
        for i in 0..MOST_INSTANTS {
            let step = |at: usize| self.steps.get(at).copied().unwrap_or(0);
            self.steps[i] = step(2 * i) + if i > 0 { step(2 * i - 1) } else { 0 };
        }
        self.shift += 1;
    }

    /// The share of the time from `first_ns` to `last_ns` by number of intervals, from none at all.
    pub fn shares(&self, first_ns: u64, last_ns: u64) -> Vec<f64> {
        let (from, to) = (self.at_or_after(first_ns), self.at_or_after(last_ns));
        let mut level: i32 = self.steps[..from].iter().sum();
        let mut counts: Vec<u64> = Vec::new();
        for step in self.steps.get(from..to).unwrap_or_default() {
            level += step;
            let at = usize::try_from(level).unwrap_or(0);
            if counts.len() <= at {
                counts.resize(at + 1, 0);
            }
            counts[at] += 1;
        }
        counts.iter().map(|count| *count as f64 / (to - from) as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts nanosecond by nanosecond.
    fn counted(intervals: &[(u64, u64)]) -> Vec<f64> {
        let (first, last) = ends(intervals);
        let mut shares = vec![0.0; intervals.len() + 1];
        for ns in first..last {
            shares[intervals.iter().filter(|(b, e)| (*b..*e).contains(&ns)).count()] += 1.0 / (last - first) as f64;
        }
        shares
    }

    fn ends(intervals: &[(u64, u64)]) -> (u64, u64) {
        (intervals.iter().map(|i| i.0).min().unwrap(), intervals.iter().map(|i| i.1).max().unwrap())
    }

    fn found(intervals: &[(u64, u64)]) -> Vec<f64> {
        let mut levels = Levels::default();
        intervals.iter().for_each(|(begin, end)| levels.add(*begin, *end));
        let (first, last) = ends(intervals);
        levels.shares(first, last)
    }

    #[test]
    fn shares_are_those_of_each_nanosecond() {
        // Short spans are exact; beyond, and in any order, each piece within the distance of two instants.
        for (stretch, within) in [(1, 1e-12), (7, 1e-12), (300, 3e-4)] {
            let intervals: Vec<(u64, u64)> = (0..40u64).rev().map(|i| (i * 97, i * 97 + 13 + i * i % 211)).collect();
            let intervals: Vec<(u64, u64)> = intervals.iter().map(|(b, e)| (b * stretch + 5, e * stretch)).collect();
            for (level, (found, counted)) in found(&intervals).iter().zip(counted(&intervals)).enumerate() {
                assert!((found - counted).abs() < within * 40.0, "{stretch} {level}: {found} {counted}");
            }
        }
    }

    #[test]
    fn bursts_are_no_mean() {
        // For half of each microsecond four, else none: a mean of slices would say two, always.
        let intervals: Vec<(u64, u64)> =
            (0..4_000u64).map(|i| (i / 4 * 1000, i / 4 * 1000 + if i == 3_999 { 1000 } else { 501 })).collect();
        let shares = found(&intervals);
        assert!((shares[0] - 0.5).abs() < 0.02 && (shares[4] - 0.5).abs() < 0.02, "{shares:?}");
    }

    #[test]
    fn the_absurd_does_no_harm() {
        let mut levels = Levels::default();
        levels.add(0, u64::MAX);
        levels.add(3, 3);
        assert_eq!(levels.shares(0, u64::MAX).len(), 2);
        assert!(Levels::default().shares(0, 0).is_empty());
    }
}
