//! Why a replay could not begin, or ended early.

use std::io;
use std::path::PathBuf;

use reprise_plan::tree::NodeKind;

use crate::engine::Failure;
use crate::limit::{self, LimitError};
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
    /// The command to be run before the start failed, so nothing was replayed.
    #[error(
        "the command before the start failed ({status}): {command}; the initial tree is there, correct the command and replay again"
    )]
    BeforeStart {
        /// The command.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// The memory cannot be limited.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The memory that was given is too little for the worker itself.
    #[error(
        "the worker was killed for want of memory: the limit of {limit_bytes} bytes is for the engine, too (1 MiB and more, \
         buffers as large as the program's); give more with --memory"
    )]
    Memory {
        /// The limit.
        limit_bytes: u64,
    },
    /// The cache could not be filled.
    #[error("cannot read the initial tree into the cache: {how}; check the target's device, or replay without --warm")]
    Warm {
        /// What happened.
        how: String,
    },
    /// It was told to end before the first action.
    #[error("interrupted before the first action; the initial tree is there")]
    Interrupted,
    /// The worker could not be confined, so nothing was replayed.
    #[error("{text}")]
    Confine {
        /// The cause and the next step.
        text: String,
    },
    /// Two traces cannot share a tree.
    #[error(
        "{path} is a {} in trace {} and a {} in trace {}: they cannot share one tree; replay them with --side-by-side",
        first.1, first.0, second.1, second.0
    )]
    Conflict {
        /// The name.
        path: String,
        /// Number of the trace that came first, counted from 1, and what it has there.
        first: (usize, &'static str),
        /// The other.
        second: (usize, &'static str),
    },
    /// The engine ended the replay.
    #[error(transparent)]
    Engine(#[from] Failure),
    /// No more threads can be started.
    #[error(
        "cannot start a thread beside {alive} others: EAGAIN; permitted are {limits}: raise what is too low, then replay again"
    )]
    Threads {
        /// Replay threads that lived.
        alive: u64,
        /// What this machine permits, and by what that is raised.
        limits: String,
    },
    /// The worker hung, and was killed.
    #[error(
        "the worker gave no sign of life for {seconds} s and was killed ({places}); look at `dmesg`, replay again (the tree is restored), and report it if it happens twice"
    )]
    Silent {
        /// For how long.
        seconds: u64,
        /// What its threads were doing.
        places: String,
    },
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

    /// What the worker cannot find out by itself is looked up here.
    pub(super) fn ended(failure: Failure) -> ReplayError {
        match failure {
            Failure::Threads { alive, .. } => ReplayError::Threads { alive, limits: limit::of_threads() },
            other => ReplayError::Engine(other),
        }
    }

    /// Trees that do not go together; `jobs` are the numbers of the plans that were merged.
    pub(super) fn conflict(conflict: &reprise_plan::Conflict, jobs: &[usize]) -> ReplayError {
        let side = |(plan, kind): (usize, NodeKind)| (jobs.get(plan).map_or(plan, |job| *job) + 1, word(kind));
        let path = String::from_utf8_lossy(&conflict.path).into_owned();
        ReplayError::Conflict { path, first: side(conflict.first), second: side(conflict.second) }
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

fn word(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::File => "file",
        NodeKind::Directory => "directory",
        NodeKind::Symlink => "symbolic link",
        NodeKind::Fifo => "FIFO",
        NodeKind::Socket => "socket",
        NodeKind::CharDevice => "character device",
        NodeKind::BlockDevice => "block device",
    }
}
