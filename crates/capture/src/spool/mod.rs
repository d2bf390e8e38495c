//! The spool: what is written while a program is recorded in the kernel, before it becomes a trace.
//!
//! Goals: the layout of its files, what was there when it began, reading it back. Non-goals: writing records (the
//! kernel does), meaning.

mod begin;
pub(crate) mod join;
mod kept;
mod known;
mod lacks;
pub mod layout;
pub mod mark;
pub(crate) mod reader;
pub(crate) mod record;
mod repeats;
mod stood;
mod told;

pub use begin::{
    Again, BEGIN, BeganDescriptor, BeganMapping, BeganProcess, Begin, JOINED, OPEN, SAMPLES, VERSION, code,
};
pub use kept::{KEPT, Kept};
pub use known::{Known, Passage};
pub use lacks::{LACK_GIVEN_UP, LACK_ROOM, LACK_WAIT, LACKS, Lacks, UNREADABLE_PAGES};
pub use repeats::{Repeats, Standing};
pub use stood::{STOOD, Stood};
