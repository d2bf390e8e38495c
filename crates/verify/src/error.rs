//! Why nothing could be compared.

use std::io;
use std::path::PathBuf;

use reprise_trace::ReadError;

/// Comparing failed; this is never a difference.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A trace could not be read.
    #[error(transparent)]
    Trace(#[from] ReadError),
    /// The second trace is a recording.
    #[error("{path}: not the trace of a replay; `reprise replay TRACE --target DIR -o RESULT` makes one")]
    NotAReplay {
        /// The trace.
        path: PathBuf,
    },
    /// The second trace is the replay of another one.
    #[error(
        "{path}: is a replay of the trace {found}, not of {wanted}; give the trace that was replayed, or replay this one with -o"
    )]
    OtherOrigin {
        /// The replay's trace.
        path: PathBuf,
        /// Identity of what it replayed.
        found: String,
        /// Identity of the trace it was compared with.
        wanted: String,
    },
    /// The directory to compare with is missing or not a directory.
    #[error("{path}: no directory here; give the directory that was replayed in")]
    NoDirectory {
        /// The path asked for.
        path: PathBuf,
    },
    /// The system could not read the tree.
    #[error("{path}: cannot {action}: {source}; compare as the user who replayed, or as root")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
