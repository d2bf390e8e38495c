//! Traces of other tools, read into Reprise's own.
//!
//! Goals: what people have can be replayed; every line is accounted for. Non-goals: recording (`capture`), what must have been
//! there before the first line (`initial`), following a trace (`model`).

pub mod strace;
