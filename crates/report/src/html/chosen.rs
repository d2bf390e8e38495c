//! Which actions are compared: those that every replay issued, so that like is compared with like. A bit an action.

use reprise_trace::{Action, ReadError, TraceReader};

/// A set of actions by number, or all.
#[derive(Debug)]
pub struct Chosen(Option<Vec<u64>>);

impl Chosen {
    /// Those that all of these replays issued; of no replay all.
    ///
    /// # Errors
    /// A trace cannot be read.
    pub fn by_all(results: &[&TraceReader]) -> Result<Chosen, ReadError> {
        let mut common: Option<Vec<u64>> = None;
        for result in results {
            let issued = issued(result)?;
            common = Some(match common {
                None => issued,
                Some(before) => before.iter().zip(&issued).map(|(a, b)| a & b).collect(),
            });
        }
        Ok(Chosen(common))
    }

    /// Whether it is one of them.
    pub fn has(&self, seq: u64) -> bool {
        let Some(words) = &self.0 else { return true };
        usize::try_from(seq / 64).ok().and_then(|at| words.get(at)).is_some_and(|word| word >> (seq % 64) & 1 == 1)
    }
}

/// Numbers beyond this are no plausible ones: a trace with so many actions is larger than any disk.
const MOST: u64 = 1 << 36;

fn issued(result: &TraceReader) -> Result<Vec<u64>, ReadError> {
    let mut words: Vec<u64> = Vec::new();
    let (mut rows, mut action) = (result.actions(), Action::default());
    // A replay has no more actions than its trace; a forged number must not take memory.
    let most = (result.count::<Action>() * 64).min(MOST);
    while rows.read(&mut action)? {
        if let (Some("issued"), Some(seq)) = (action.handling.as_deref(), action.origin.filter(|seq| *seq < most)) {
            let at = (seq / 64) as usize;
            if words.len() <= at {
                words.resize(at + 1, 0);
            }
            words[at] |= 1 << (seq % 64);
        }
    }
    Ok(words)
}
