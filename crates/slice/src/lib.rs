//! A part of a trace as a trace of its own, and the tree as of any moment.
//!
//! Goals: what is taken replays by itself, since the state at its beginning is brought forward: names, contents,
//! descriptors with their offsets, directories, masks, users; what was left out and still matters is kept and counted.
//! Non-goals: changing what the actions say; replaying.

mod chain;
mod closure;
mod environment;
mod error;
mod facts;
mod moment;
mod rows;
mod selection;
mod snapshot;
mod write;

pub use chain::{Length, pieces};
pub use error::SliceError;
pub use moment::{Moment, Span};
pub use selection::{ProcessName, Selection};
pub use snapshot::{File, Known, Snapshot, snapshot_at};
pub use write::{SliceReport, slice, state};
