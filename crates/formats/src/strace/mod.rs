//! Logs of strace, 4.5 to 6.x, with any of its options.
//!
//! Goals: each line is understood, or counted under a named reason with its place; what the log does not say is said, not
//! invented; as fast as the disk, in memory that does not grow with the log. Non-goals: other tracers; files that are none.

mod account;
mod clock;
mod decode;
mod error;
mod facts;
mod foreign;
mod import;
mod join;
mod lexer;
mod line;
mod merge;
mod names;
mod outcome;
mod reader;
mod scan;
mod symbols;
mod threads;
mod value;

use reprise_initial::Seeds;
use reprise_trace::TraceWriter;

pub use account::{Account, Place, REASONS, Reason, Tally};
pub use error::ImportError;
pub use import::Report;
pub use reader::Log;

use import::Importer;
use merge::Merged;
use scan::Hints;

/// A log that was read through once and found to be strace's.
pub struct Scanned {
    logs: Vec<Log>,
    hints: Hints,
}

/// Reads logs through: whether they are strace's, and what must be known beforehand. `progress` is told the bytes read.
pub fn scan(logs: Vec<Log>, progress: &mut dyn FnMut(u64)) -> Result<Scanned, ImportError> {
    let mut hints = Hints::default();
    let mut before = 0;
    for log in &logs {
        let unreadable = |source| ImportError::Log { path: log.path.clone(), source };
        if logs.len() > 1 && log.tid.is_none() {
            return Err(ImportError::NoThread { path: log.path.clone() });
        }
        let calls = (hints.calls, hints.strangers);
        scan::scan(log, &mut hints, &mut |bytes| progress(before + bytes)).map_err(unreadable)?;
        before += std::fs::metadata(&log.path).map_or(0, |m| m.len());
        let foreign = |kind| ImportError::Foreign { path: log.path.clone(), kind };
        // The log of a thread that did nothing is empty.
        if let Some(kind) = hints.foreign.take()
            && (logs.len() == 1 || kind != foreign::EMPTY)
        {
            return Err(foreign(kind));
        }
        if logs.len() == 1 && hints.calls - calls.0 <= (hints.strangers - calls.1) / 2 {
            return Err(foreign(hints.otherwise));
        }
    }
    if hints.calls == 0 {
        let path = logs.first().map(|l| l.path.clone()).unwrap_or_default();
        return Err(ImportError::Foreign { path, kind: hints.otherwise });
    }
    if logs.len() > 1 && !hints.dated {
        return Err(ImportError::NoOrder);
    }
    Ok(Scanned { logs, hints })
}

impl Scanned {
    /// Lines in all.
    pub fn lines(&self) -> u64 {
        self.hints.lines
    }

    /// Writes the trace. `seeds` are rows of the initial tree that are in the trace already. `progress` is told the bytes
    /// read.
    pub fn write(
        self,
        writer: TraceWriter,
        seeds: &Seeds,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Report, ImportError> {
        let births: std::collections::HashSet<i32> = self.hints.births.keys().copied().collect();
        let mut lines = Merged::open(&self.logs, |tid| births.contains(&tid)).map_err(ImportError::read)?;
        let mut importer = Importer::new(writer, self.hints);
        importer.world_mut().seed(seeds);
        importer.run(&mut lines, progress)?;
        importer.finish()
    }
}
