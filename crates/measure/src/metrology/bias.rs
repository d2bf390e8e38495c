//! Bias: what the results of an instrument differ from the reference by, in the mean.
//!
//! That a bias is not significant proves nothing: with few or scattered results none ever is. Beside the significance stands
//! therefore a test of equivalence, which says whether the bias is shown to be small.

use serde::{Deserialize, Serialize};

use super::probability::{student, student_quantile};
use super::summary::Summary;

/// The bias of an instrument.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bias {
    /// Mean of the results minus mean of the references.
    pub bias: f64,
    /// By the mean of the references.
    pub relative: f64,
    /// Its standard uncertainty: of both means, combined.
    pub u: f64,
    /// Effective degrees of freedom of that (Welch–Satterthwaite).
    pub degrees: f64,
    /// Whether it is none by chance, at the level of 5 %, by Student's distribution with these degrees of freedom.
    pub is_significant: bool,
    /// Whether |bias| > 2 u, the criterion of Pereira et al.: with few results it is met by chance more often than that.
    pub is_beyond_2u: bool,
    /// Probability of such a bias, or a greater one either way, if there is none.
    pub p: f64,
    /// Between these, with a probability of 95 %, it lies.
    pub from: f64,
    /// The upper end.
    pub to: f64,
}

/// Two one-sided tests (TOST): is the bias within the margin either way?
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Equivalence {
    /// The bias that would not matter, absolute.
    pub margin: f64,
    /// The greater probability of the two tests.
    pub p: f64,
    /// Whether it is shown, at the level of 5 %.
    pub is_equivalent: bool,
    /// The least margin for which it would be shown.
    pub least_margin: f64,
}

const LEVEL: f64 = 0.05;

/// The bias of replicated results against references, which vary independently of each other; `None` where neither scatters, which
/// no measurement does.
pub fn bias(measured: &[f64], reference: &[f64]) -> Option<Bias> {
    let (m, r) = (Summary::of(measured)?, Summary::of(reference)?);
    if !m.scatters() && !r.scatters() {
        return None;
    }
    let bias = m.mean - r.mean;
    let u = m.u_mean.hypot(r.u_mean);
    let degrees = welch(&m, &r);
    let t = bias / u;
    let reach = student_quantile(1.0 - LEVEL / 2.0, degrees)? * u;
    Some(Bias {
        bias,
        relative: bias / r.mean,
        u,
        degrees,
        is_significant: bias.abs() > reach,
        is_beyond_2u: bias.abs() > 2.0 * u,
        p: 2.0 * student(-t.abs(), degrees)?,
        from: bias - reach,
        to: bias + reach,
    })
}

/// Whether the bias is shown to be smaller than `margin` either way.
pub fn equivalence(bias: &Bias, margin: f64) -> Option<Equivalence> {
    let below = student(-(bias.bias + margin) / bias.u, bias.degrees)?;
    let above = student((bias.bias - margin) / bias.u, bias.degrees)?;
    let p = below.max(above);
    let least_margin = bias.bias.abs() + student_quantile(1.0 - LEVEL, bias.degrees)? * bias.u;
    Some(Equivalence { margin, p, is_equivalent: p < LEVEL, least_margin })
}

/// Effective degrees of freedom of the difference of two means.
fn welch(a: &Summary, b: &Summary) -> f64 {
    let (a2, b2) = (a.u_mean.powi(2), b.u_mean.powi(2));
    (a2 + b2).powi(2) / (a2.powi(2) / a.degrees() + b2.powi(2) / b.degrees())
}
