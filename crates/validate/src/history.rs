//! Whether a machine still measures as it did: the validations so far as a control chart.

use reprise_measure::metrology::{Signal, control_chart};
use serde::{Deserialize, Serialize};

use crate::store::Known;

/// Validations that make the limits, at least.
const LEAST_BASELINE: usize = 4;
/// Validations that are kept.
pub(crate) const MOST_KEPT: usize = 100;

/// What an earlier validation found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// When, nanoseconds since the epoch.
    pub when_ns: u64,
    /// Mean response time of the reference, in nanoseconds.
    pub reference_ns: f64,
    /// Combined standard uncertainty, relative.
    pub u_c: f64,
    /// Relative bias; `None` where it could not be determined.
    pub bias: Option<f64>,
}

/// What is charted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Charted {
    /// The reference's mean response time: the machine itself.
    Reference,
    /// The instrument's bias.
    Bias,
}

/// A present value that does not go with those before.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drift {
    /// Of what: workload, level, call, instrument.
    pub of: String,
    /// Which value.
    pub charted: Charted,
    /// It.
    pub value: f64,
    /// Lower limit.
    pub lower: f64,
    /// Upper limit.
    pub upper: f64,
    /// Why it is a signal.
    pub signal: Signal,
    /// Validations before.
    pub before: usize,
}

/// What has drifted among what has been validated often enough.
pub fn drifts(known: &[Known]) -> Vec<Drift> {
    let mut out = Vec::new();
    for known in known {
        for charted in [Charted::Reference, Charted::Bias] {
            let (mut values, now): (Vec<f64>, Option<f64>) = match charted {
                Charted::Reference => {
                    (known.history.iter().map(|past| past.reference_ns).collect(), Some(known.reference_ns))
                }
                Charted::Bias => (known.history.iter().filter_map(|past| past.bias).collect(), known.bias),
            };
            let Some(now) = now else { continue };
            let before = values.len();
            if before < LEAST_BASELINE {
                continue;
            }
            values.push(now);
            let Some(chart) = control_chart(&values, before) else { continue };
            let signal = chart.signals.iter().find(|(place, _)| *place == before);
            out.extend(signal.map(|(_, signal)| Drift {
                of: format!("{} level {} {} {}", known.workload, known.level, known.call, known.instrument),
                charted,
                value: now,
                lower: chart.lower,
                upper: chart.upper,
                signal: *signal,
                before,
            }));
        }
    }
    out
}
