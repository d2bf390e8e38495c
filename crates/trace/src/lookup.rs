//! Actions of a trace by number, for readers of another trace of the same actions.

use std::collections::HashMap;

use crate::error::ReadError;
use crate::reader::{Rows, TraceReader};
use crate::rows::Action;

/// Gives actions by number, each once, asked for nearly in order: what was passed over meanwhile is kept in memory.
pub struct Lookup {
    rows: Rows<Action>,
    ahead: HashMap<u64, Action>,
    /// Nothing before it is asked for.
    first: u64,
}

impl Lookup {
    /// Of this trace.
    pub fn new(trace: &TraceReader) -> Lookup {
        Lookup::starting(trace, 0)
    }

    /// Of the actions of this trace from this one on.
    pub fn starting(trace: &TraceReader, first: u64) -> Lookup {
        Lookup { rows: trace.actions(), ahead: HashMap::new(), first }
    }

    /// The action with this number; `None` if the trace does not have it, or has given it.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn take(&mut self, seq: u64) -> Result<Option<Action>, ReadError> {
        loop {
            if let Some(row) = self.ahead.remove(&seq) {
                return Ok(Some(row));
            }
            match self.rows.next() {
                Some(row) => {
                    let row = row?;
                    if row.seq >= self.first {
                        self.ahead.insert(row.seq, row);
                    }
                }
                None => return Ok(None),
            }
        }
    }
}
