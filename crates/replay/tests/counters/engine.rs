//! The counters as they are, upon loom's parts.

pub mod sync {
    pub use crate::parts::*;
    pub const LOOKS: u32 = 1;

    /// What the kernel's barriers on request come to, together.
    pub fn frequent_barrier() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub fn rare_barrier() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

#[path = "cases.rs"]
pub mod cases;
#[allow(dead_code, reason = "the engine uses more of it than these tests")]
#[path = "../../src/engine/counters.rs"]
pub mod counters;
