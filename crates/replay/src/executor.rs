//! How a replay issues calls.
//!
//! Goals: one closed vocabulary for the command line, results and manifests. Non-goals: issuing (`engine`).

use std::fmt;

/// How calls are issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Executor {
    /// Each by a system call of its own.
    #[default]
    Sync,
    /// Reads of a thread that follow each other go together, through io_uring.
    Uring,
    /// The same, but each begins when the one before it is completed.
    Linked,
    /// As [`Executor::Uring`], but a thread of the kernel looks for reads to perform (SQPOLL).
    Polled,
    /// Reads of files copy nothing: of each page one byte of a mapping is loaded.
    Touch,
    /// Reads are left out: what a replay leaves behind is the same.
    SkipReads,
}

impl Executor {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Executor::Sync => "sync",
            Executor::Uring => "uring",
            Executor::Linked => "linked",
            Executor::Polled => "polled",
            Executor::Touch => "touch",
            Executor::SkipReads => "skip-reads",
        }
    }

    /// Whether threads make rings.
    pub(crate) fn has_rings(self) -> bool {
        matches!(self, Executor::Uring | Executor::Linked | Executor::Polled)
    }
}

impl fmt::Display for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
