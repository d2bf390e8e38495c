//! What can go wrong with a trace, each with its place and next step.

use std::io;
use std::path::PathBuf;

use crate::manifest::{FORMAT_MAJOR, FORMAT_MINOR};

/// Reading failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No such directory.
    #[error("{path}: there is no trace here; `reprise record -o {path} -- COMMAND` makes one")]
    Missing {
        /// The path asked for.
        path: PathBuf,
    },
    /// A directory or file that is not a trace.
    #[error("{path}: not a trace (no manifest.json in it)")]
    NotATrace {
        /// The path asked for.
        path: PathBuf,
    },
    /// A directory with a manifest of something else.
    #[error("{path}: not a trace: its manifest.json is of the format `{format}`")]
    OtherFormat {
        /// The path asked for.
        path: PathBuf,
        /// What its manifest says that it is.
        format: String,
    },
    /// The recorder was killed before it made a trace of what it had kept, or is still at it.
    #[error(
        "{path}: the recording is not finished; if the recorder was killed, or had no room left, `reprise recover {path}` makes a trace of what it had kept"
    )]
    Unfinished {
        /// The trace.
        path: PathBuf,
    },
    /// Made by a newer Reprise in a format that this one cannot read.
    #[error(
        "{path}: trace format {major}.{minor} is newer than this program reads ({FORMAT_MAJOR}.{FORMAT_MINOR}); install a newer Reprise"
    )]
    TooNew {
        /// The trace.
        path: PathBuf,
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// Made in a format older than the oldest that is still read.
    #[error(
        "{path}: trace format {major}.{minor} is older than this program reads ({FORMAT_MAJOR}.{FORMAT_MINOR}); record it again, or convert it with the version that wrote it"
    )]
    TooOld {
        /// The trace.
        path: PathBuf,
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// Content does not match its checksum, or does not decode.
    #[error("{path}: damaged: {cause}; restore the file from a copy, or record again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// The contents are kept outside of the trace, and not where it says.
    #[error(
        "{path}: its contents are in {place}, which is not there; mount what it is on, or if they were moved: ln -sfn PLACE {path}/blobs"
    )]
    NoContents {
        /// The trace.
        path: PathBuf,
        /// Where its contents are to be.
        place: PathBuf,
    },
    /// The system could not read it.
    #[error("{path}: cannot read: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl ReadError {
    pub(crate) fn damaged(path: impl Into<PathBuf>, cause: impl ToString) -> ReadError {
        ReadError::Damaged { path: path.into(), cause: cause.to_string() }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> ReadError {
        ReadError::Io { path: path.into(), source }
    }
}

/// Writing failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Something is there already.
    #[error("{path}: exists already; choose another name with -o, or remove it")]
    Exists {
        /// The path asked for.
        path: PathBuf,
    },
    /// The system could not write it.
    #[error("{path}: cannot write the trace: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The contents cannot be kept in the directory that was chosen for them.
    #[error(
        "{path}: cannot keep the trace's contents there: {source}; give --blobs a directory that can be written to"
    )]
    Contents {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The columns could not be encoded.
    #[error("{table}: cannot encode: {cause}")]
    Encode {
        /// The table.
        table: &'static str,
        /// What is wrong.
        cause: String,
    },
}

/// Whether an error says that there is no room where something was to be written.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What helps who cannot write at a place that was chosen, by an option of this name.
pub fn write_remedy(error: &io::Error, option: &str) -> String {
    match error.kind() {
        _ if is_full(error) => format!("make room there, or choose another place with {option}"),
        io::ErrorKind::FileTooLarge => {
            format!("{FILE_LIMIT}, or choose another place with {option} if its file system has such a limit")
        }
        _ => format!("choose another place with {option}"),
    }
}

/// What helps against the limit on the size of files.
pub const FILE_LIMIT: &str = "raise the limit on the size of files that reprise was started with (`ulimit -f`)";

impl WriteError {
    /// What helps, if another place can be chosen by an option of this name.
    pub fn remedy(&self, option: &str) -> String {
        match self {
            WriteError::Io { source, .. } => write_remedy(source, option),
            // They say it themselves, or there is nothing to be done.
            WriteError::Exists { .. } | WriteError::Contents { .. } | WriteError::Encode { .. } => {
                format!("choose another place with {option}")
            }
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> WriteError {
        WriteError::Io { path: path.into(), source }
    }
}
