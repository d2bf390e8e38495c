//! The result of comparing two traces.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::group::Group;

/// What two traces have in common and where they differ. Every action of the original is in exactly one of `before`,
/// `same`, `excused`, `simulated`, `skipped`, `unsupported`, `diverged` and `missing`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Comparison {
    /// Identity of the original trace.
    pub original: String,
    /// Actions of the original.
    pub actions: u64,
    /// Before the first action of a replay that continues another one: that one's result has them.
    pub before: u64,
    /// Issued, and the same but for the machine's own attributes (times, inode numbers …).
    pub same: u64,
    /// Issued, and different as in any replay.
    pub excused: u64,
    /// Taken from the trace instead of issued.
    pub simulated: u64,
    /// Left out on purpose.
    pub skipped: u64,
    /// Not replayed yet.
    pub unsupported: u64,
    /// Went differently.
    pub diverged: u64,
    /// Never replayed.
    pub missing: u64,
    /// Rows of the replay that are the replay of no action, or of one that was replayed before.
    pub extra: u64,
    /// Differences that no replay can avoid: cause, actions. An action may have several.
    pub unavoidable: BTreeMap<String, u64>,
    /// What of the actions could not be compared because a trace does not hold it: cause, actions.
    pub uncompared: BTreeMap<String, u64>,
    /// Actions that were not issued: how they were handled, call, actions.
    pub not_issued: BTreeMap<String, BTreeMap<String, u64>>,
    /// What differs, by cause and call, the worst first. Missing and extra rows are among it.
    pub groups: Vec<Group>,
    /// Both traces were closed in order; if not, what is missing may have been lost with the end of one.
    pub complete: bool,
}

impl Comparison {
    /// Whether nothing went differently that a replay could avoid.
    pub fn is_same(&self) -> bool {
        self.diverged == 0 && self.missing == 0 && self.extra == 0
    }
}
