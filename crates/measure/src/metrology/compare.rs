//! Several results beside each other: which differences are real, by how much, and which cannot be told.
//!
//! Whoever looks at many pairs finds a difference by chance. What one answer is drawn from is therefore judged together, as one
//! family of tests: all pairs of all quantities.

use serde::{Deserialize, Serialize};

use super::bias::{Bias, bias, equivalence};
use super::summary::Summary;

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
    /// The second minus the first; probability and interval are those of this pair alone.
    pub difference: Bias,
    /// Probability, adjusted for the number of pairs of all quantities (Holm).
    pub p_adjusted: f64,
    /// Probability that they differ by more than the margin (TOST), adjusted in the same way.
    pub p_unequal_adjusted: f64,
    /// What it means.
    pub verdict: Verdict,
}

const LEVEL: f64 = 0.05;

/// Every pair of groups of replicated results of each quantity, judged as one family; `margin` is the relative difference that would
/// not matter. Pairs that do not scatter, or that have too few results, are not among them.
pub fn differences(quantities: &[Vec<Vec<f64>>], margin: f64) -> Vec<Vec<Difference>> {
    let mut all: Vec<Vec<Difference>> = quantities.iter().map(|groups| pairs(groups, margin)).collect();
    let mut family: Vec<&mut Difference> = all.iter_mut().flatten().collect();
    adjust(&mut family, |pair| &mut pair.p_adjusted);
    adjust(&mut family, |pair| &mut pair.p_unequal_adjusted);
    for pair in family {
        pair.verdict = match pair.difference.bias {
            _ if pair.p_unequal_adjusted < LEVEL => Verdict::Equal,
            by if pair.p_adjusted < LEVEL && by > 0.0 => Verdict::Greater,
            _ if pair.p_adjusted < LEVEL => Verdict::Less,
            _ => Verdict::CannotBeTold,
        };
    }
    all
}

/// The pairs of a quantity, with probabilities that are not adjusted yet.
fn pairs(groups: &[Vec<f64>], margin: f64) -> Vec<Difference> {
    let pair = |first: usize, second: usize| {
        let difference = bias(&groups[second], &groups[first])?;
        let margin = margin * Summary::of(&groups[first])?.mean.abs();
        Some(Difference {
            first,
            second,
            difference,
            p_adjusted: difference.p,
            p_unequal_adjusted: equivalence(&difference, margin)?.p,
            verdict: Verdict::CannotBeTold,
        })
    };
    let places = (0..groups.len()).flat_map(|first| (first + 1..groups.len()).map(move |second| (first, second)));
    places.filter_map(|(first, second)| pair(first, second)).collect()
}

/// Holm's adjustment of a probability: the more tests, the more likely one of them looks real by chance.
fn adjust(family: &mut [&mut Difference], of: fn(&mut Difference) -> &mut f64) {
    family.sort_by(|a, b| of(&mut { **a }).total_cmp(of(&mut { **b })));
    let count = family.len();
    let mut least: f64 = 0.0;
    for (rank, pair) in family.iter_mut().enumerate() {
        let p = of(pair);
        least = least.max((*p * (count - rank) as f64).min(1.0));
        *p = least;
    }
}
