//! Stability over a long run: a chart of single results like Shewhart's, with the rules of runs (ISO 7870-2, Western Electric).
//!
//! Shewhart's limits are three standard deviations that are known. Those of few results are not: three of them, found from four,
//! would cry wolf in one of thirteen. The limits here are those between which the next result falls as often as within three known
//! standard deviations, whatever the number of results before (a prediction interval by Student's distribution).

use serde::{Deserialize, Serialize};

use super::probability::student_quantile;
use super::summary::Summary;

/// Why a result is a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Beyond the limits.
    BeyondLimits,
    /// Two of three in a row beyond two thirds of the way to a limit, on one side.
    TwoOfThree,
    /// Four of five in a row beyond a third of the way to a limit, on one side.
    FourOfFive,
    /// Eight in a row on one side of the centre.
    Run,
}

/// A control chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlChart {
    /// Mean of the baseline.
    pub centre: f64,
    /// Standard deviation of the baseline.
    pub sigma: f64,
    /// Lower limit.
    pub lower: f64,
    /// Upper limit.
    pub upper: f64,
    /// Signals: place of the result, and why.
    pub signals: Vec<(usize, Signal)>,
}

/// A share of a normal distribution: what lies below three standard deviations above its mean.
const BELOW_THREE: f64 = 0.998_650_101_968_369_9;

/// The chart of results in the order of time; the first `baseline` of them make the limits. `None` with fewer than two.
pub fn control_chart(values: &[f64], baseline: usize) -> Option<ControlChart> {
    if values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let Summary { mean: centre, sd: sigma, count, .. } = Summary::of(values.get(..baseline)?)?;
    let reach = student_quantile(BELOW_THREE, (count - 1) as f64)? * (1.0 + 1.0 / count as f64).sqrt() * sigma;
    let signals = (0..values.len()).filter_map(|i| Some((i, signal(values, i, centre, reach / 3.0)?))).collect();
    Some(ControlChart { centre, sigma, lower: centre - reach, upper: centre + reach, signals })
}

/// The strongest signal that ends with result `i`; a zone is a third of the way to a limit.
fn signal(values: &[f64], i: usize, centre: f64, zone: f64) -> Option<Signal> {
    if (values[i] - centre).abs() > 3.0 * zone {
        return Some(Signal::BeyondLimits);
    }
    let side = if values[i] >= centre { 1.0 } else { -1.0 };
    let beyond = |last: usize, far: f64| {
        let from = (i + 1).checked_sub(last)?;
        Some(values[from..=i].iter().filter(|v| (*v - centre) * side > far * zone).count())
    };
    // The result itself is one of those beyond.
    let ends_beyond = |far: f64| (values[i] - centre) * side > far * zone;
    if ends_beyond(2.0) && beyond(3, 2.0) >= Some(2) {
        return Some(Signal::TwoOfThree);
    }
    if ends_beyond(1.0) && beyond(5, 1.0) >= Some(4) {
        return Some(Signal::FourOfFive);
    }
    (beyond(8, 0.0) == Some(8)).then_some(Signal::Run)
}
