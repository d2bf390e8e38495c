//! What can go wrong, with cause, place and next step.

use std::io;
use std::path::PathBuf;

/// Why a workload could not be prepared or performed.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// Settings that make no sense.
    #[error("{0}")]
    Settings(String),
    /// The files are not as they must be before the start.
    #[error("{}: {what}; prepare the files first (--prepare)", path.display())]
    Unprepared {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A file or directory cannot be made or looked at.
    #[error("cannot {doing} {}: {source}", path.display())]
    Files {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A call of the workload failed.
    #[error("{call} of {} failed after {done} calls of thread {thread}: {source}", path.display())]
    Call {
        /// Which.
        call: &'static str,
        /// On what.
        path: PathBuf,
        /// Calls that the thread had done.
        done: usize,
        /// Of which thread.
        thread: u32,
        /// Why.
        source: io::Error,
    },
    /// It was asked to stop.
    #[error("interrupted; prepare the files again before the next run (--prepare)")]
    Interrupted,
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] reprise_trace::WriteError),
}

impl WorkloadError {
    pub(crate) fn files(doing: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        WorkloadError::Files { doing, path: path.into(), source: source.into() }
    }
}
