//! The loss ledger: what is not in the trace, or went differently, counted under five words that are never merged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The five words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// An event that happened and is not in the trace.
    Dropped,
    /// An event whose content is not all in the trace.
    Truncated,
    /// An event that Reprise cannot interpret or replay.
    Unsupported,
    /// An action that the replay left out on purpose.
    Skipped,
    /// An action whose replay went differently.
    Diverged,
}

impl Loss {
    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            Loss::Dropped => "dropped",
            Loss::Truncated => "truncated",
            Loss::Unsupported => "unsupported",
            Loss::Skipped => "skipped",
            Loss::Diverged => "diverged",
        }
    }
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Entry {
    /// How often.
    pub count: u64,
    /// How many bytes are concerned, where bytes are.
    pub bytes: u64,
    /// The first action concerned, by sequence number.
    pub first: Option<u64>,
}

/// Losses by word and cause, and notes that are no losses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// Losses: word, cause, count.
    pub losses: BTreeMap<Loss, BTreeMap<String, Entry>>,
    /// Facts a reader of the trace should know, with how often they were met.
    pub notes: BTreeMap<String, u64>,
}

impl Ledger {
    /// Counts a loss.
    pub fn count(&mut self, loss: Loss, cause: impl Into<String>, bytes: u64, action: Option<u64>) {
        self.count_several(loss, cause, 1, bytes, action);
    }

    /// Counts several losses at once.
    pub fn count_several(&mut self, loss: Loss, cause: impl Into<String>, count: u64, bytes: u64, action: Option<u64>) {
        let entry = self.losses.entry(loss).or_default().entry(cause.into()).or_default();
        entry.count = entry.count.saturating_add(count);
        entry.bytes = entry.bytes.saturating_add(bytes);
        if entry.first.is_none() {
            entry.first = action;
        }
    }

    /// Notes a fact.
    pub fn note(&mut self, text: impl Into<String>) {
        *self.notes.entry(text.into()).or_default() += 1;
    }

    /// How often a word was counted, over all causes.
    pub fn total(&self, loss: Loss) -> u64 {
        self.losses.get(&loss).map_or(0, |causes| causes.values().map(|e| e.count).sum())
    }
}
