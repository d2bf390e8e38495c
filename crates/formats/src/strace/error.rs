//! Why an import fails.

use std::io;
use std::path::PathBuf;

use reprise_trace::WriteError;

/// An import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A log cannot be read.
    #[error("{path}: {source}")]
    Log {
        /// The log.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A log cannot be read any further.
    #[error("the log cannot be read: {0}")]
    Read(io::Error),
    /// It is no log of strace.
    #[error("{path} is no log of strace; it looks like {kind}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        kind: &'static str,
    },
    /// Several logs that no time stamps put into order.
    #[error(
        "several logs without time stamps: the order of their calls is not known; trace with -ttt, or give one log only"
    )]
    NoOrder,
    /// Several logs that do not say which threads they are of.
    #[error("{path}: of several logs each must be of one thread and named FILE.TID, as strace -ff names them")]
    NoThread {
        /// The log.
        path: PathBuf,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl ImportError {
    pub(super) fn read(source: io::Error) -> ImportError {
        ImportError::Read(source)
    }
}
