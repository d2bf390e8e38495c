//! Actions of a trace by number, for readers of another trace of the same actions.

use std::collections::HashMap;

use crate::error::ReadError;
use crate::reader::{Rows, TraceReader};
use crate::rows::Action;

/// Gives actions by number, each once, asked for nearly in order: what was passed over meanwhile is kept in memory.
pub struct Lookup {
    rows: Rows<Action>,
    ahead: HashMap<u64, Action>,
}

impl Lookup {
    /// Of this trace.
    pub fn new(trace: &TraceReader) -> Lookup {
        Lookup { rows: trace.actions(), ahead: HashMap::new() }
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
                    self.ahead.insert(row.seq, row);
                }
                None => return Ok(None),
            }
        }
    }
}
