//! Issue errors of a replay, apart by what made them.

use reprise_measure::{IssueErrorBy, Punctuality, SignedDistribution};
use serde::Serialize;

use super::bins::{Bins, Filled};

/// The kinds in the order in which they are told, and what each is called.
const KINDS: [(Punctuality, &str); 3] = [
    (Punctuality::OnTime, "the replayer's own"),
    (Punctuality::Behind, "behind: what must come before was late"),
    (Punctuality::Disturbed, "disturbed: the machine ran the thread late"),
];

/// Issue errors of one kind.
#[derive(Debug, Serialize)]
pub struct Punctual {
    /// Which kind, as [`Punctuality`] is serialized.
    pub kind: Punctuality,
    /// What it is called.
    pub words: &'static str,
    /// How far from the instant asked for, either way.
    pub bins: Filled,
    /// The same with its sign, exact.
    pub distribution: SignedDistribution,
}

/// Gathers.
#[derive(Debug, Default)]
pub struct Gathered([Bins; 3]);

impl Gathered {
    /// Takes an issue error in.
    pub fn add(&mut self, ns: i64, punctuality: Punctuality) {
        let place = KINDS.iter().position(|(kind, _)| *kind == punctuality);
        place.into_iter().for_each(|place| self.0[place].add(ns.unsigned_abs()));
    }

    /// The kinds that there were.
    pub fn kinds(&self, exact: Option<IssueErrorBy>) -> Vec<Punctual> {
        let exact = exact.unwrap_or_default();
        let distribution = |kind| match kind {
            Punctuality::OnTime => exact.on_time,
            Punctuality::Behind => exact.behind,
            Punctuality::Disturbed => exact.disturbed,
        };
        let all = KINDS.into_iter().zip(&self.0).filter(|(_, bins)| !bins.is_empty());
        all.map(|((kind, words), bins)| Punctual { kind, words, bins: bins.filled(), distribution: distribution(kind) })
            .collect()
    }
}
