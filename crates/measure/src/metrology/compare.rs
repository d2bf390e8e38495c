//! Several results beside each other: which differences are real, by how much, and which cannot be told.

use serde::{Deserialize, Serialize};

use super::bias::{Bias, bias};

/// What is to be said of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The second is greater.
    Greater,
    /// The second is less.
    Less,
    /// They are shown to be equal within the margin.
    Equal,
    /// Too few or too scattered results to say.
    CannotBeTold,
}

/// Two results beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Place of the first.
    pub first: usize,
    /// Place of the second.
    pub second: usize,
    /// The second minus the first.
    pub difference: Bias,
    /// Probability, adjusted for the number of pairs (Holm).
    pub p_adjusted: f64,
    /// What it means.
    pub verdict: Verdict,
}

const LEVEL: f64 = 0.05;

/// Every pair of groups of replicated results; `margin` is the relative difference that would not matter.
pub fn differences(groups: &[&[f64]], margin: f64) -> Vec<Difference> {
    let mut out: Vec<Difference> = Vec::new();
    for first in 0..groups.len() {
        for second in first + 1..groups.len() {
            if let Some(difference) = bias(groups[second], groups[first]) {
                let p_adjusted = difference.p;
                out.push(Difference { first, second, difference, p_adjusted, verdict: Verdict::CannotBeTold });
            }
        }
    }
    holm(&mut out);
    for pair in &mut out {
        let base = pair.difference.bias / pair.difference.relative;
        let equal =
            || super::bias::equivalence(&pair.difference, (margin * base).abs()).is_some_and(|e| e.is_equivalent);
        pair.verdict = match pair.difference.bias {
            _ if equal() => Verdict::Equal,
            by if pair.p_adjusted < LEVEL && by > 0.0 => Verdict::Greater,
            _ if pair.p_adjusted < LEVEL => Verdict::Less,
            _ => Verdict::CannotBeTold,
        };
    }
    out
}

/// Adjusts probabilities: the more pairs, the more likely one of them looks real by chance.
fn holm(pairs: &mut [Difference]) {
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by(|a, b| pairs[*a].difference.p.total_cmp(&pairs[*b].difference.p));
    let mut least: f64 = 0.0;
    for (rank, place) in order.iter().enumerate() {
        let adjusted = (pairs[*place].difference.p * (pairs.len() - rank) as f64).min(1.0);
        least = least.max(adjusted);
        pairs[*place].p_adjusted = least;
    }
}
