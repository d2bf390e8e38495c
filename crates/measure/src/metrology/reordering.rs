//! Requests that came in another order than in the original: Type-P-Reordered of RFC 4737.

use serde::{Deserialize, Serialize};

/// How much of a stream is reordered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
pub struct Reordering {
    /// Requests.
    pub count: u64,
    /// Of them reordered: one with a greater number came before it.
    pub reordered: u64,
    /// Their share.
    pub ratio: f64,
    /// Greatest extent: how many places before it the first with a greater number came.
    pub most_extent: u64,
}

/// Numbers in the original's order, as they came: reordered is each that is smaller than the greatest before it.
pub fn reordering(came: &[u64]) -> Reordering {
    let mut out = Reordering { count: came.len() as u64, ..Reordering::default() };
    // Numbers that were the greatest when they came, with their places: ascending both.
    let mut records: Vec<(u64, usize)> = Vec::new();
    for (place, &number) in came.iter().enumerate() {
        match records.last() {
            Some((greatest, _)) if number < *greatest => {
                let first = records.partition_point(|(record, _)| *record < number);
                out.reordered += 1;
                out.most_extent = out.most_extent.max((place - records[first].1) as u64);
            }
            _ => records.push((number, place)),
        }
    }
    out.ratio = if came.is_empty() { 0.0 } else { out.reordered as f64 / came.len() as f64 };
    out
}
