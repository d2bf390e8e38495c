//! The counters as they are, upon loom's parts.

pub mod sync {
    pub use crate::parts::*;
    pub use loom::sync::atomic::fence;
    pub const LOOKS: u32 = 1;
}

#[path = "cases.rs"]
pub mod cases;
#[allow(dead_code, reason = "the engine uses more of it than these tests")]
#[path = "../../src/engine/counters.rs"]
pub mod counters;
