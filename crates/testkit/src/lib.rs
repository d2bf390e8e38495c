//! Means of the tests, a development dependency only: scratch file systems, the built program, raw system calls, and
//! the independent oracle of the table of calls.
//!
//! Goals: every test cleans up after itself and says why it could not run. Non-goals: any use by the product.

pub mod again;
pub mod oracle;
pub mod program;
pub mod raw;
pub mod rng;
pub mod scratch;
mod skip;
pub mod synthetic;
pub mod tree;

pub use skip::skip;
