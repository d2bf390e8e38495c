//! Differences of one kind together, the worst first.

use std::collections::HashMap;
use std::hash::Hash;

use serde::Serialize;

/// Examples kept of each group.
pub const MOST_EXAMPLES: usize = 5;

/// An action that went differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The action: `actions.seq` of the original.
    pub origin: u64,
    /// Its thread.
    pub thread: u32,
    /// The path it concerns, escaped as in the trace; empty if none is known.
    pub path: String,
    /// How it differed, with both values.
    pub text: String,
}

/// Actions that went differently for one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// What differs, without values.
    pub cause: String,
    /// Name of the call.
    pub call: String,
    /// How often.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Example>,
}

/// Gathers by key; a smaller severity is worse.
pub(crate) struct Gathered<K, E> {
    groups: HashMap<K, Counted<E>>,
}

pub(crate) struct Counted<E> {
    pub severity: u8,
    pub count: u64,
    pub first: Vec<E>,
}

impl<K: Hash + Eq + Ord, E> Gathered<K, E> {
    pub fn new() -> Self {
        Gathered { groups: HashMap::new() }
    }

    pub fn add(&mut self, severity: u8, key: K, example: impl FnOnce() -> E) {
        let group = self.groups.entry(key).or_insert(Counted { severity, count: 0, first: Vec::new() });
        group.count += 1;
        if group.first.len() < MOST_EXAMPLES {
            group.first.push(example());
        }
    }

    /// The groups: by severity, then by number, then by key.
    pub fn worst_first(self) -> Vec<(K, Counted<E>)> {
        let mut all: Vec<_> = self.groups.into_iter().collect();
        all.sort_by(|(a, x), (b, y)| {
            (x.severity, std::cmp::Reverse(x.count), a).cmp(&(y.severity, std::cmp::Reverse(y.count), b))
        });
        all
    }
}
