//! Stability over a long run: Shewhart's chart of single results, with the rules of runs (ISO 7870-2, Western Electric).

use serde::{Deserialize, Serialize};

/// Why a result is a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Beyond three standard deviations.
    BeyondLimits,
    /// Two of three in a row beyond two standard deviations on one side.
    TwoOfThree,
    /// Four of five in a row beyond one standard deviation on one side.
    FourOfFive,
    /// Eight in a row on one side of the centre.
    Run,
}

/// A control chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlChart {
    /// Mean of the baseline.
    pub centre: f64,
    /// Standard deviation, by the mean range of neighbours.
    pub sigma: f64,
    /// Lower limit.
    pub lower: f64,
    /// Upper limit.
    pub upper: f64,
    /// Signals: place of the result, and why.
    pub signals: Vec<(usize, Signal)>,
}

/// Expected range of two values of a normal distribution, in standard deviations (d₂): 2 / √π.
const RANGE_OF_TWO: f64 = std::f64::consts::FRAC_2_SQRT_PI;

/// The chart of results in the order of time; the first `baseline` of them make the limits. `None` with fewer than two.
pub fn control_chart(values: &[f64], baseline: usize) -> Option<ControlChart> {
    let base = values.get(..baseline).filter(|base| base.len() >= 2)?;
    if values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let centre = base.iter().sum::<f64>() / base.len() as f64;
    let ranges: f64 = base.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum();
    let sigma = ranges / (base.len() - 1) as f64 / RANGE_OF_TWO;
    let signals = (0..values.len()).filter_map(|i| Some((i, signal(values, i, centre, sigma)?))).collect();
    Some(ControlChart { centre, sigma, lower: centre - 3.0 * sigma, upper: centre + 3.0 * sigma, signals })
}

/// The strongest signal that ends with result `i`.
fn signal(values: &[f64], i: usize, centre: f64, sigma: f64) -> Option<Signal> {
    if (values[i] - centre).abs() > 3.0 * sigma {
        return Some(Signal::BeyondLimits);
    }
    let side = if values[i] >= centre { 1.0 } else { -1.0 };
    let beyond = |last: usize, far: f64| {
        let from = (i + 1).checked_sub(last)?;
        Some(values[from..=i].iter().filter(|v| (*v - centre) * side > far * sigma).count())
    };
    // The result itself is one of those beyond.
    let ends_beyond = |far: f64| (values[i] - centre) * side > far * sigma;
    if ends_beyond(2.0) && beyond(3, 2.0) >= Some(2) {
        return Some(Signal::TwoOfThree);
    }
    if ends_beyond(1.0) && beyond(5, 1.0) >= Some(4) {
        return Some(Signal::FourOfFive);
    }
    (beyond(8, 0.0) == Some(8)).then_some(Signal::Run)
}
