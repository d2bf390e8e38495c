//! The spool: what is written while a program is recorded in the kernel, before it becomes a trace.
//!
//! Goals: the layout of its files, and what was there when it began. Non-goals: writing it (the kernel does), meaning.

mod begin;
pub mod layout;

pub use begin::{BEGIN, BeganDescriptor, BeganProcess, Begin};
