//! Distribution functions and quantiles, from `statrs`; `None` where a parameter is none.

use statrs::distribution::{ContinuousCDF, FisherSnedecor, Normal, StudentsT};

/// P(T ≤ t) of Student's distribution.
pub(super) fn student(t: f64, degrees: f64) -> Option<f64> {
    let distribution = StudentsT::new(0.0, 1.0, degrees).ok().filter(|_| !t.is_nan())?;
    Some(distribution.cdf(t)).filter(|p| p.is_finite())
}

/// The t below which a share `p` of Student's distribution lies.
pub(super) fn student_quantile(p: f64, degrees: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0) {
        return None;
    }
    let distribution = StudentsT::new(0.0, 1.0, degrees).ok()?;
    Some(refined(distribution.inverse_cdf(p), p, |t| distribution.cdf(t))).filter(|t| t.is_finite())
}

/// P(F ≤ f) of Fisher's distribution.
pub(super) fn fisher(f: f64, above: f64, below: f64) -> Option<f64> {
    let distribution = FisherSnedecor::new(above, below).ok().filter(|_| !f.is_nan())?;
    Some(distribution.cdf(f)).filter(|p| p.is_finite())
}

/// The f below which a share `p` of Fisher's distribution lies.
pub(super) fn fisher_quantile(p: f64, above: f64, below: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0) {
        return None;
    }
    let distribution = FisherSnedecor::new(above, below).ok()?;
    Some(refined(distribution.inverse_cdf(p), p, |f| distribution.cdf(f))).filter(|f| f.is_finite())
}

/// The z below which a share `p` of the normal distribution lies.
pub(super) fn normal_quantile(p: f64) -> Option<f64> {
    Normal::standard().inverse_cdf(p).into_finite()
}

trait Finite: Sized {
    fn into_finite(self) -> Option<Self>;
}

impl Finite for f64 {
    fn into_finite(self) -> Option<f64> {
        Some(self).filter(|x| x.is_finite())
    }
}

/// A quantile that was found roughly, bisected until the cumulative distribution agrees.
fn refined(rough: f64, p: f64, cumulative: impl Fn(f64) -> f64) -> f64 {
    if !rough.is_finite() {
        return rough;
    }
    let width = rough.abs().max(1.0) * 1e-3;
    let (mut low, mut high) = (rough - width, rough + width);
    if cumulative(low) > p || cumulative(high) < p {
        return rough;
    }
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if cumulative(middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}
