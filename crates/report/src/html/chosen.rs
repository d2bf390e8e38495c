//! Which actions are compared: those that every replay issued, so that like is compared with like. A bit an action.

use std::ops::Range;

use reprise_trace::{Action, ReadError, TraceReader};

/// A set of actions by number.
#[derive(Debug)]
pub struct Chosen {
    /// Those that all replays issued; of no replay all.
    issued: Option<Vec<u64>>,
    /// Those that all replays came to: one that was interrupted, or that continues another, has a part.
    reached: Range<u64>,
}

impl Chosen {
    /// Those that all of these replays issued; of no replay all.
    ///
    /// # Errors
    /// A trace cannot be read.
    pub fn by_all(results: &[&TraceReader]) -> Result<Chosen, ReadError> {
        let mut common: Option<Vec<u64>> = None;
        let mut until = u64::MAX;
        for result in results {
            let (issued, last) = issued(result)?;
            // One that stopped by itself has no cut: it did nothing after its last action.
            let early = result.manifest().ended_early().map(|_| result.manifest().cut().unwrap_or(last + 1));
            until = until.min(early.unwrap_or(u64::MAX));
            common = Some(match common {
                None => issued,
                Some(before) => before.iter().zip(&issued).map(|(a, b)| a & b).collect(),
            });
        }
        let first = results.iter().filter_map(|result| result.manifest().first_action()).max();
        Ok(Chosen { issued: common, reached: first.unwrap_or(0)..until })
    }

    /// Whether all replays came to it, whatever they made of it.
    pub fn reaches(&self, seq: u64) -> bool {
        self.reached.contains(&seq)
    }

    /// Whether it is one of them.
    pub fn has(&self, seq: u64) -> bool {
        let Some(words) = &self.issued else { return true };
        usize::try_from(seq / 64).ok().and_then(|at| words.get(at)).is_some_and(|word| word >> (seq % 64) & 1 == 1)
    }
}

/// Numbers beyond this are no plausible ones: a trace with so many actions is larger than any disk.
const MOST: u64 = 1 << 36;

/// The actions that a replay issued, and the last one that it came to.
fn issued(result: &TraceReader) -> Result<(Vec<u64>, u64), ReadError> {
    let (mut words, mut last): (Vec<u64>, u64) = (Vec::new(), 0);
    let (mut rows, mut action) = (result.actions(), Action::default());
    // A replay has no more actions than its trace; a forged number must not take memory.
    let most = (result.count::<Action>() * 64).min(MOST);
    while rows.read(&mut action)? {
        last = last.max(action.origin.filter(|seq| *seq < most).unwrap_or(0));
        if let (Some("issued"), Some(seq)) = (action.handling.as_deref(), action.origin.filter(|seq| *seq < most)) {
            let at = (seq / 64) as usize;
            if words.len() <= at {
                words.resize(at + 1, 0);
            }
            words[at] |= 1 << (seq % 64);
        }
    }
    Ok((words, last))
}
