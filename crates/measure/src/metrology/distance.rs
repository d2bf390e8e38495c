//! How far two samples' distributions are apart: two of one mean may still have little in common.

use serde::{Deserialize, Serialize};

/// Distances of two empirical distributions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distance {
    /// Greatest difference of the cumulative distributions (Kolmogorov–Smirnov), from 0 to 1.
    pub kolmogorov_smirnov: f64,
    /// Where that is.
    pub at: f64,
    /// Mean distance by which values must be moved to make one of the other (Wasserstein), in the unit of the values.
    pub wasserstein: f64,
    /// Mean of the first minus mean of the second: where it is as great as the distance, one is the other moved to one side.
    pub mean_difference: f64,
}

/// Distances of two samples, which are sorted for it; `None` if one of them is empty.
pub fn distance(a: &mut [f64], b: &mut [f64]) -> Option<Distance> {
    if a.is_empty() || b.is_empty() || a.iter().chain(b.iter()).any(|x| !x.is_finite()) {
        return None;
    }
    a.sort_unstable_by(f64::total_cmp);
    b.sort_unstable_by(f64::total_cmp);
    let (na, nb) = (a.len() as f64, b.len() as f64);
    let (mut i, mut j) = (0, 0);
    let mut found = Distance { kolmogorov_smirnov: 0.0, at: a[0].min(b[0]), wasserstein: 0.0, mean_difference: 0.0 };
    let mut last = found.at;
    while i < a.len() || j < b.len() {
        let next = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.min(*y),
            (Some(x), None) | (None, Some(x)) => *x,
            (None, None) => break,
        };
        // Between the last value and this one both distributions are level.
        found.wasserstein += (i as f64 / na - j as f64 / nb).abs() * (next - last);
        i += a[i..].iter().take_while(|x| **x == next).count();
        j += b[j..].iter().take_while(|x| **x == next).count();
        let gap = (i as f64 / na - j as f64 / nb).abs();
        if gap > found.kolmogorov_smirnov {
            (found.kolmogorov_smirnov, found.at) = (gap, next);
        }
        last = next;
    }
    found.mean_difference = a.iter().sum::<f64>() / na - b.iter().sum::<f64>() / nb;
    Some(found)
}
