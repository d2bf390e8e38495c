//! Issue errors, apart by what made them: the replayer, the target, or the machine.
//!
//! Goals: the error of the instrument itself is not mixed with what it could not help. Non-goals: telling them apart (who
//! issues does).

use serde::Serialize;

use crate::{SignedDistribution, SignedSamples};

/// How an action stood to the instant it was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Punctuality {
    /// It waited for that instant: its error is that of the instrument.
    #[default]
    OnTime,
    /// What had to come before was completed later than that: its error is the target's, or the think time's.
    Behind,
    /// It waited, but the machine let its thread run too late: woken after the instant, or interrupted before it.
    Disturbed,
}

impl Punctuality {
    /// Its word in a trace; none for [`Punctuality::OnTime`].
    pub const fn word(self) -> Option<&'static str> {
        match self {
            Punctuality::OnTime => None,
            Punctuality::Behind => Some("behind"),
            Punctuality::Disturbed => Some("disturbed"),
        }
    }

    /// The one of this word; an unknown one counts as disturbed, which nobody takes for the instrument's.
    pub fn of(word: Option<&str>) -> Punctuality {
        match word {
            None => Punctuality::OnTime,
            Some("behind") => Punctuality::Behind,
            Some(_) => Punctuality::Disturbed,
        }
    }
}

/// Issue errors, by [`Punctuality`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct IssueErrorBy {
    /// The instrument's own.
    pub on_time: SignedDistribution,
    /// Of those that came after they were due.
    pub behind: SignedDistribution,
    /// Of those whose wait was disturbed.
    pub disturbed: SignedDistribution,
}

/// As they come in.
#[derive(Debug, Clone, Default)]
pub(crate) struct IssueErrors {
    all: SignedSamples,
    on_time: SignedSamples,
    behind: SignedSamples,
    disturbed: SignedSamples,
}

impl IssueErrors {
    pub(crate) fn add(&mut self, ns: i64, punctuality: Punctuality) {
        self.all.add(ns);
        match punctuality {
            Punctuality::OnTime => self.on_time.add(ns),
            Punctuality::Behind => self.behind.add(ns),
            Punctuality::Disturbed => self.disturbed.add(ns),
        }
    }

    pub(crate) fn all(&self) -> Option<SignedDistribution> {
        (self.all.count() > 0).then(|| self.all.distribution())
    }

    pub(crate) fn by(&self) -> Option<IssueErrorBy> {
        (self.all.count() > 0).then(|| IssueErrorBy {
            on_time: self.on_time.distribution(),
            behind: self.behind.distribution(),
            disturbed: self.disturbed.distribution(),
        })
    }
}
