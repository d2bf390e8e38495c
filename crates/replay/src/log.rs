//! The replay's log: what every command did, written by the engine's threads, read by their parent.
//!
//! Goals: 64 bytes per command and a few more where it waited, 24 for a transfer that went as traced, bounded memory on both sides, a log cut off anywhere readable up to there.
//! Non-goals: an exchange format (the log lives only as long as its replay; `emit` makes a trace of it).

mod difference;
mod merge;
mod reader;
mod times;
mod wording;
mod writer;

pub use difference::{Class, Code, Difference, Field, Handling};
pub use merge::Merged;
pub use reader::{Clock, Numbers, Record, ReplayLog};
pub use times::{Blocked, Pacing, Punctuality};
pub(crate) use times::{Paced, Times, Waiting};
pub(crate) use writer::{Entry, Plain, Writer};

/// Most bytes of a call's actual output that are kept.
pub const KEPT_OUTPUT: usize = 64 << 10;

const MAGIC: u32 = 0x4c52_5052;
const RECORD_BYTES: usize = 64;
/// A short record: its first word has this bit, then whether it was compared (62), whether issued together with others (61),
/// the number of the call (from 48 on) and the origin; then begin, and 32 bits each of duration and result.
const SHORT: u64 = 1 << 63;
const SHORT_BYTES: usize = 24;
const SHORT_NUMBER: u32 = 0x1fff;
const SHORT_ORIGIN: u64 = (1 << 48) - 1;
