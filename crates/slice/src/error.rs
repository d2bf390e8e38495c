//! Why there is no slice, or no tree.

use reprise_trace::{ReadError, WriteError};

/// Why there is no slice, or no tree.
#[derive(Debug, thiserror::Error)]
pub enum SliceError {
    /// The trace cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The slice cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A moment that the trace does not have.
    #[error("{asked} is beyond the trace, which ends at {end} after {actions} actions; choose an earlier moment")]
    Beyond {
        /// The moment, as it was asked for.
        asked: String,
        /// When the trace ends.
        end: String,
        /// How many actions it has.
        actions: u64,
    },
    /// The end is not after the beginning.
    #[error("nothing lies between {from} and {to}: no action took effect there; widen the range")]
    Empty {
        /// The beginning.
        from: String,
        /// The end.
        to: String,
    },
    /// No action was chosen.
    #[error("no action between {from} and {to} was chosen by {what}; see `reprise cat` for what there is")]
    NothingChosen {
        /// The beginning.
        from: String,
        /// The end.
        to: String,
        /// What was asked for.
        what: String,
    },
    /// A thread or process that the trace does not have.
    #[error("the trace has no {what}; `reprise stat --by thread` lists what it has")]
    Unknown {
        /// What was asked for.
        what: String,
    },
    /// A replay's trace is no beginning of anything.
    #[error("{trace} is the trace of a replay, without an initial tree; slice the trace that was replayed")]
    OfReplay {
        /// The trace.
        trace: String,
    },
}
