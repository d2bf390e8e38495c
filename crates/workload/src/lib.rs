//! Reference programs that time themselves: they read the clock right before and right after each call and write what they
//! did as a trace.
//!
//! Goals: response times as a program sees them, with no recorder in between, so that the times of a replay can be judged by
//! them; the same calls for the same seed; nothing but the calls and two readings of a counter in the measured loop.
//! Non-goals: recording other programs (`capture`), judging times (`measure`), control of caches.

mod clock;
mod error;
mod filebench;
mod micro;
mod perform;
mod prepare;
mod reference;
mod request;
mod run;
mod structures;
mod tree;

pub use clock::clock_quality;
pub use error::WorkloadError;
pub use filebench::{Filebench, Length, Personality};
pub use micro::{Access, Micro};
pub use prepare::{Prepared, bring, prepare};
pub use reference::{Written, write};
pub use request::{Call, FileSpec, Opening, Pause, PauseBy, Request, Sequence, Workload};
pub use run::{Performed, Run, perform};
