//! The spool: what the programs in the kernel wrote, before it is a trace.

pub mod begin;
pub mod join;
pub mod reader;
pub mod record;
