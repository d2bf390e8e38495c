//! The counters without their fences, upon loom's parts.

pub mod sync {
    pub use crate::parts::*;
    pub const LOOKS: u32 = 1;
    pub fn frequent_barrier() {}
    pub fn rare_barrier() {}
}

#[allow(dead_code, reason = "one case is enough to miss the fences")]
#[path = "cases.rs"]
pub mod cases;
#[allow(dead_code, reason = "the engine uses more of it than these tests")]
#[path = "../../src/engine/counters.rs"]
pub mod counters;
