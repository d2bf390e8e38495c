//! The replay's log: what every command did, written by the engine's threads, read by their parent.
//!
//! Goals: 64 bytes per command and a few more where it waited, 24 for a transfer that went as traced and 8 for one that is like the
//! one before it, bounded memory on both sides, a log cut off anywhere readable up to there.
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
const SHORT_NUMBER: u32 = 0xfff;
const SHORT_ORIGIN: u64 = (1 << 48) - 1;
/// A short record of one word that has this bit too: call, result and flags are those of the short one before it in the batch; then
/// the distance of its origin (12 bits), that of its begin, and its duration (24 bits each).
const LIKE: u64 = 1 << 60;
const LIKE_BYTES: usize = 8;
const LIKE_ORIGIN: u64 = 0xfff;
const LIKE_TICKS: u64 = 0xff_ffff;
