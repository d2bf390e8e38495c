//! The replay's log: what every command did, written by the engine's threads, read by their parent.
//!
//! Goals: 64 bytes per command, 24 for a transfer that went as traced and 8 for one that is like the one before it, each with a few more
//! where it waited, bounded memory on both sides, a log cut off anywhere readable up to there.
//! Non-goals: an exchange format (the log lives only as long as its replay; `emit` makes a trace of it).

mod difference;
mod merge;
mod reader;
mod records;
mod short;
mod times;
mod wording;
mod writer;

pub use difference::{Class, Code, Difference, Field, Handling};
pub use merge::Merged;
pub use reader::{Clock, Numbers, Record, ReplayLog};
pub(crate) use short::Short;
pub use times::{Blocked, Pacing, Punctuality};
pub(crate) use times::{Paced, Times, Waiting};
pub(crate) use writer::{Entry, Writer};

/// Most bytes of a call's actual output that are kept.
pub const KEPT_OUTPUT: usize = 64 << 10;

const MAGIC: u32 = 0x4c52_5052;
const RECORD_BYTES: usize = 64;
