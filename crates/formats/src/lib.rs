//! Traces of other tools, read into Reprise's own.
//!
//! Goals: what people have can be replayed; every line is accounted for. Non-goals: recording (`capture`), following a trace
//! (`model`): what is inferred here is only what must have been there before the first line.

mod initial;
pub mod strace;
