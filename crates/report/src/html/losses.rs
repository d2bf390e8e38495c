//! What of a replay diverged, and what a trace lost.

use std::collections::BTreeMap;

use reprise_trace::{Action, TraceReader};
use serde::Serialize;

/// Kinds of divergences that are told apart: of a replay that goes all wrong each action may be one.
const MOST_KINDS: usize = 1000;
/// Rows that a report shows.
const MOST_ROWS: usize = 100;

/// What went differently in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Divergence {
    call: String,
    file: String,
    difference: String,
    count: u64,
    /// The first of them: its number in the original.
    first: Option<u64>,
}

/// Divergences of a replay, the most frequent first.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Divergences {
    rows: Vec<Divergence>,
    /// Actions that diverged in other ways.
    others: u64,
}

/// Gathers divergences.
#[derive(Debug, Default)]
pub struct Diverged {
    kinds: BTreeMap<(String, String, String), (u64, Option<u64>)>,
    others: u64,
}

impl Diverged {
    /// Takes an action in that diverged.
    pub fn add(&mut self, action: &Action, file: &str, difference: &str) {
        let kind = (action.call.to_string(), file.to_owned(), difference.to_owned());
        if self.kinds.len() >= MOST_KINDS && !self.kinds.contains_key(&kind) {
            self.others += 1;
            return;
        }
        let (count, first) = self.kinds.entry(kind).or_insert((0, action.origin));
        *count += 1;
        *first = (*first).min(action.origin);
    }

    /// What a report shows of them.
    pub fn divergences(self) -> Divergences {
        let rows = self.kinds.into_iter().map(|((call, file, difference), (count, first))| Divergence {
            call,
            file,
            difference,
            count,
            first,
        });
        let mut rows: Vec<Divergence> = rows.collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.count), row.first));
        let hidden = rows.split_off(rows.len().min(MOST_ROWS));
        Divergences { rows, others: self.others + hidden.iter().map(|row| row.count).sum::<u64>() }
    }
}

/// An entry of a trace's loss ledger.
#[derive(Debug, Clone, Serialize)]
pub struct Lost {
    word: &'static str,
    cause: String,
    count: u64,
    bytes: u64,
    first: Option<u64>,
}

/// The loss ledger of a trace.
pub fn lost(trace: &TraceReader) -> Vec<Lost> {
    let words = trace.ledger().losses.iter();
    let entries = words.flat_map(|(word, causes)| causes.iter().map(move |(cause, entry)| (word, cause, entry)));
    let lost = |(word, cause, entry): (&reprise_trace::Loss, &String, &reprise_trace::Entry)| Lost {
        word: word.word(),
        cause: cause.clone(),
        count: entry.count,
        bytes: entry.bytes,
        first: entry.first,
    };
    entries.map(lost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ones_are_counted_and_no_number_of_them_takes_all_memory() {
        let mut diverged = Diverged::default();
        let action = |origin| Action { call: "lseek".into(), origin: Some(origin), ..Action::default() };
        (0..5).for_each(|origin| diverged.add(&action(9 - origin), "/f", "5 for 7"));
        (0..2000).for_each(|i| diverged.add(&action(i), "/f", &i.to_string()));
        let found = diverged.divergences();
        assert_eq!((found.rows[0].count, found.rows[0].first, found.rows.len()), (5, Some(5), MOST_ROWS));
        assert_eq!(found.rows.iter().map(|row| row.count).sum::<u64>() + found.others, 2005);
    }
}
