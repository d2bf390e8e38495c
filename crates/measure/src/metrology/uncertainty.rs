//! Uncertainty: precision and bias as one number, and what contributes to it.
//!
//! As the Nordtest handbook and Pereira et al. do: u_c² = u(Rw)² + RMS_bias² + u(Cref)², all of them relative, from n replicated
//! results, each beside its reference.

use serde::{Deserialize, Deserializer, Serialize};

use super::probability::{normal_quantile, student_quantile};
use super::summary::Summary;

/// What a standard uncertainty is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// Scatter of the instrument's results: u(Rw).
    Precision,
    /// Systematic error: RMS_bias.
    Bias,
    /// What is not known of the reference: u(Cref).
    Reference,
}

/// A component's share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Contribution {
    /// Which.
    pub component: Component,
    /// Its standard uncertainty, relative.
    pub u: f64,
    /// Its degrees of freedom; that of the bias and the reference are those of their replications.
    pub degrees: f64,
    /// Its part of u_c².
    pub share: f64,
}

/// An expanded uncertainty: U = k · u_c.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Expanded {
    /// Coverage factor.
    pub k: f64,
    /// By the mean of the results.
    pub relative: f64,
    /// In their unit.
    pub absolute: f64,
}

/// Combined uncertainty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Uncertainty {
    /// Mean of the results.
    pub mean: f64,
    /// Mean of the references.
    pub reference: f64,
    /// u_c, relative.
    pub u_c: f64,
    /// In the unit of the results.
    pub u_c_absolute: f64,
    /// Effective degrees of freedom (Welch–Satterthwaite).
    #[serde(deserialize_with = "any_number")]
    pub degrees: f64,
    /// For k = 1, 2, 3.
    pub expanded: [Expanded; 3],
    /// For a coverage of 95 %: k is the quantile of Student's distribution with the effective degrees of freedom.
    pub expanded_95: Expanded,
    /// The budget, the greatest first.
    pub budget: Vec<Contribution>,
}

/// JSON has no infinity: it is written as null.
fn any_number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
}

/// Combines standard uncertainties that do not depend on each other, given with their degrees of freedom: u_c, and its
/// effective degrees of freedom.
pub fn combine(parts: &[(f64, f64)]) -> (f64, f64) {
    let u2: f64 = parts.iter().map(|(u, _)| u.powi(2)).sum();
    let below: f64 = parts.iter().filter(|(u, _)| *u > 0.0).map(|(u, degrees)| u.powi(4) / degrees).sum();
    (u2.sqrt(), if below > 0.0 { u2.powi(2) / below } else { f64::INFINITY })
}

/// The coverage factor of 95 %.
fn coverage(degrees: f64) -> Option<f64> {
    if degrees.is_finite() { student_quantile(0.975, degrees) } else { normal_quantile(0.975) }
}

/// The uncertainty of an instrument: `measured[i]` beside `reference[i]`, whose standard uncertainty is `u_reference[i]`. `None`
/// where a mean or a reference is not greater than zero: nothing is relative to that.
pub fn uncertainty(measured: &[f64], reference: &[f64], u_reference: &[f64]) -> Option<Uncertainty> {
    let n = measured.len();
    if reference.len() != n || u_reference.len() != n || reference.iter().any(|r| *r <= 0.0) {
        return None;
    }
    let (m, r) = (Summary::of(measured).filter(|m| m.mean > 0.0)?, Summary::of(reference)?);
    let mean_square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v.powi(2)).sum::<f64>() / n as f64;
    let precision = m.cv;
    let bias = mean_square(&mut measured.iter().zip(reference).map(|(x, r)| (x - r) / r)).sqrt();
    let known = mean_square(&mut u_reference.iter().zip(reference).map(|(u, r)| u / r)).sqrt();
    let parts = [
        (Component::Precision, precision, m.degrees()),
        (Component::Bias, bias, n as f64),
        (Component::Reference, known, r.degrees()),
    ];
    let (u_c, degrees) = combine(&parts.map(|(_, u, degrees)| (u, degrees)));
    if !u_c.is_finite() {
        return None;
    }
    let share = |u: f64| if u_c > 0.0 { (u / u_c).powi(2) } else { 0.0 };
    let mut budget: Vec<Contribution> =
        parts.map(|(component, u, degrees)| Contribution { component, u, degrees, share: share(u) }).into();
    budget.sort_by(|a, b| b.u.total_cmp(&a.u));
    let expand = |k: f64| Expanded { k, relative: k * u_c, absolute: k * u_c * m.mean };
    Some(Uncertainty {
        mean: m.mean,
        reference: r.mean,
        u_c,
        u_c_absolute: u_c * m.mean,
        degrees,
        expanded: [1.0, 2.0, 3.0].map(expand),
        expanded_95: expand(coverage(degrees)?),
        budget,
    })
}
