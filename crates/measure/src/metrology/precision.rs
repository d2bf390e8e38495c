//! Precision: how closely replicated results agree, and whether an instrument's agree less than the reference's.

use serde::{Deserialize, Serialize};

use super::probability::{fisher, fisher_quantile};
use super::summary::Summary;

/// Precision of an instrument beside its reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Precision {
    /// Results of the instrument.
    pub measured: Summary,
    /// Results of the reference.
    pub reference: Summary,
    /// The test of their variances; `None` where one of them does not scatter.
    pub ratio: Option<VarianceRatio>,
}

/// F-test, one-sided: is the first variance greater than the second?
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VarianceRatio {
    /// First variance by second.
    pub f: f64,
    /// Degrees of freedom of the first.
    pub degrees_above: f64,
    /// Degrees of freedom of the second.
    pub degrees_below: f64,
    /// Level of significance.
    pub alpha: f64,
    /// What the ratio must exceed.
    pub critical: f64,
    /// Probability of such a ratio, or a greater one, if the variances are equal.
    pub p: f64,
    /// Whether the first variance is greater.
    pub is_greater: bool,
}

/// Compares two variances; `None` if one of them is zero or there are no degrees of freedom.
pub fn variance_ratio(above: &Summary, below: &Summary, alpha: f64) -> Option<VarianceRatio> {
    let (degrees_above, degrees_below) = (above.degrees(), below.degrees());
    let f = (above.sd / below.sd).powi(2);
    if !f.is_finite() || f <= 0.0 {
        return None;
    }
    let critical = fisher_quantile(1.0 - alpha, degrees_above, degrees_below)?;
    let p = 1.0 - fisher(f, degrees_above, degrees_below)?;
    Some(VarianceRatio { f, degrees_above, degrees_below, alpha, critical, p, is_greater: f > critical })
}

/// The precision of replicated results.
pub fn precision(measured: &[f64], reference: &[f64], alpha: f64) -> Option<Precision> {
    let (measured, reference) = (Summary::of(measured)?, Summary::of(reference)?);
    Some(Precision { measured, reference, ratio: variance_ratio(&measured, &reference, alpha) })
}
