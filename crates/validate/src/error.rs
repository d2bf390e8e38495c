//! Why a validation could not be done.

use std::io;
use std::path::PathBuf;

/// Why a validation could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    /// The settings make no sense.
    #[error("{0}")]
    Settings(String),
    /// The workload failed.
    #[error("the reference program: {0}")]
    Workload(#[from] reprise_workload::WorkloadError),
    /// An instrument or reference could not be started, or failed.
    #[error("{command} ended with {status}: {said}")]
    Run {
        /// What was run.
        command: String,
        /// How it ended.
        status: String,
        /// The end of what it said.
        said: String,
    },
    /// What an instrument wrote cannot be read.
    #[error("{}: {cause}; look at the instrument's command and its log's format (--log)", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// Why not.
        cause: String,
    },
    /// What was kept of a series does not go with this validation.
    #[error("{}: {cause}; give another directory (--series), or remove the file to measure it again", path.display())]
    Series {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: String,
    },
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] reprise_trace::ReadError),
    /// A file or directory of the procedure.
    #[error("cannot {doing} {}: {source}", path.display())]
    Files {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl ValidateError {
    pub(crate) fn files(doing: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        ValidateError::Files { doing, path: path.into(), source: source.into() }
    }
}
