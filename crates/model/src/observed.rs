//! What the recorder observed of the initial tree, taken in as the actions reach it.
//!
//! Names and contents are read from the trace as they are needed; both tables are in order of observation.

use reprise_trace::{Content, ReadError, Rows, TraceReader, TreeNode};

use crate::world::World;

/// Observations that no action has reached yet.
pub(crate) struct Observed {
    names: Ahead<TreeNode>,
    contents: Ahead<Content>,
}

/// Rows, and the next of them.
struct Ahead<R> {
    rows: Rows<R>,
    next: Option<R>,
    failed: Option<ReadError>,
}

impl<R: reprise_trace::Row> Ahead<R> {
    fn new(rows: Rows<R>) -> Self {
        let mut ahead = Ahead { rows, next: None, failed: None };
        ahead.advance();
        ahead
    }

    /// The next row; the one after it is fetched.
    fn advance(&mut self) -> Option<R> {
        let row = self.next.take();
        match self.rows.next() {
            Some(Ok(next)) => self.next = Some(next),
            Some(Err(error)) => self.failed = Some(error),
            None => {}
        }
        row
    }

    fn take_if(&mut self, due: impl FnOnce(&R) -> bool) -> Result<Option<R>, ReadError> {
        match &self.next {
            Some(row) if due(row) => Ok(self.advance()),
            Some(_) => Ok(None),
            None => self.failed.take().map_or(Ok(None), Err),
        }
    }
}

impl Observed {
    pub fn new(trace: &TraceReader) -> Observed {
        Observed { names: Ahead::new(trace.rows()), contents: Ahead::new(trace.rows()) }
    }
}

impl World {
    /// Takes in what was observed before the action with this number took effect.
    pub(crate) fn observe_until(&mut self, seq: u64) -> Result<(), ReadError> {
        while let Some(row) = self.observed.names.take_if(|row| row.seq <= seq)? {
            self.meet_name(&row);
        }
        while let Some(row) = self.observed.contents.take_if(|row| row.seq <= seq)? {
            self.meet_content(&row);
        }
        Ok(())
    }

    /// Takes in what was observed after the last action.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub fn finish(&mut self) -> Result<(), ReadError> {
        self.observe_until(u64::MAX)
    }
}
