//! Why a replay could not begin, or ended early.

use std::io;
use std::path::PathBuf;

use crate::engine::Failure;
use crate::target::TargetError;

/// Why a replay could not begin, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The target cannot be used or prepared.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The machine refuses something that is needed.
    #[error("cannot {doing}: {source}; free memory or raise the limits (`ulimit -a`)")]
    System {
        /// What was tried.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The log cannot be kept.
    #[error("{}: cannot keep the replay's log: {source}; choose another place with -o", directory.display())]
    Log {
        /// Where.
        directory: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The worker could not be confined, so nothing was replayed.
    #[error("{text}")]
    Confine {
        /// The cause and the next step.
        text: String,
    },
    /// The engine ended the replay.
    #[error(transparent)]
    Engine(#[from] Failure),
    /// The worker ended without a word.
    #[error("the worker {how}; replay again (the tree is restored), and report it if it happens twice")]
    Worker {
        /// How it ended.
        how: String,
    },
}

impl ReplayError {
    pub(super) fn system(doing: &'static str, source: io::Error) -> ReplayError {
        ReplayError::System { doing, source }
    }

    /// By its wait status.
    pub(super) fn worker(status: i32) -> ReplayError {
        let how = match libc::WIFSIGNALED(status) {
            true => match libc::WTERMSIG(status) {
                libc::SIGKILL => "was killed (SIGKILL; is memory short? see `dmesg`)".to_owned(),
                signal => format!("died by signal {signal}"),
            },
            false => format!("ended unexpectedly (exit code {})", libc::WEXITSTATUS(status)),
        };
        ReplayError::Worker { how }
    }
}
