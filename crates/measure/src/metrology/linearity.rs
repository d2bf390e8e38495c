//! Linearity: whether precision or bias change with the load.

use serde::{Deserialize, Serialize};

use super::probability::{student, student_quantile};

/// A straight line through values at levels, and whether it is level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Change by one level.
    pub slope: f64,
    /// Between these, with a probability of 95 %, it lies.
    pub from: f64,
    /// The upper end.
    pub to: f64,
    /// Value at level 0.
    pub intercept: f64,
    /// Pearson's coefficient of correlation.
    pub correlation: f64,
    /// Degrees of freedom of the test.
    pub degrees: f64,
    /// Probability of such a slope, or a steeper one either way, if there is none.
    pub p: f64,
    /// Whether there is a slope, at the level of 5 %.
    pub is_significant: bool,
}

/// The trend of values over levels; `None` with fewer than three, or all at one level.
pub fn trend(points: &[(f64, f64)]) -> Option<Trend> {
    let n = points.len();
    if n < 3 || points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n as f64;
    let (mx, my) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(x - mx, y - my)).sum::<f64>();
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if xx == 0.0 {
        return None;
    }
    let slope = xy / xx;
    let degrees = (n - 2) as f64;
    let correlation = if yy == 0.0 { 0.0 } else { (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0) };
    let t = correlation.abs() * (degrees / (1.0 - correlation.powi(2))).sqrt();
    let p = if t.is_finite() { 2.0 * student(-t, degrees)? } else { 0.0 };
    let u_slope = ((1.0 - correlation.powi(2)) * yy / xx / degrees).sqrt();
    let reach = student_quantile(0.975, degrees)? * u_slope;
    Some(Trend {
        slope,
        from: slope - reach,
        to: slope + reach,
        intercept: my - slope * mx,
        correlation,
        degrees,
        p,
        is_significant: p < 0.05,
    })
}
