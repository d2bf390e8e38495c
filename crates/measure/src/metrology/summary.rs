//! Mean and spread of replicated results.

use serde::{Deserialize, Deserializer, Serialize};

use super::probability::student_quantile;

/// Replicated results, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of results.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample (divided by count − 1).
    pub sd: f64,
    /// Standard deviation by mean; not a number where the mean is zero.
    #[serde(deserialize_with = "number_or_none")]
    pub cv: f64,
    /// Standard uncertainty of the mean: `sd` by the root of the number.
    pub u_mean: f64,
}

/// Standard deviations less than this, by the mean, are rounding: a sum of a million numbers has as much.
const ROUNDING: f64 = 1e-12;

/// JSON has no "not a number": it is written as null.
fn number_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

impl Summary {
    /// Of two results at least, all of them finite numbers.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let count = values.len();
        if count < 2 || !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (squares / (count - 1) as f64).sqrt();
        let cv = if mean == 0.0 { f64::NAN } else { sd / mean.abs() };
        Some(Summary { count, mean, sd, cv, u_mean: sd / (count as f64).sqrt() })
    }

    /// Expanded uncertainty of the mean: within it of `mean` lies what the mean of many results would be, with 95 %.
    pub fn expanded(&self) -> Option<f64> {
        Some(student_quantile(0.975, self.degrees())? * self.u_mean)
    }

    /// Whether the results differ by more than rounding.
    pub fn scatters(&self) -> bool {
        self.sd > ROUNDING * self.mean.abs()
    }

    /// Degrees of freedom of `sd`.
    pub fn degrees(&self) -> f64 {
        (self.count - 1) as f64
    }
}
