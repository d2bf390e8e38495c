//! Ordering rules to dependencies.
//!
//! Goals: every mode compiles to the same pairs (thread, n), each with the rule that asked for it, so that the engine knows
//! no rules. Sources: ROOT, sections 3 and 4 (rules), Table 2 (modes), section 7 (ranges). Non-goals: which resources an
//! action touches (that is the model's). Each rule is justified in `docs/ORDERING.md`.

mod chain;
mod dense;
mod handoff;
mod join;
mod mode;
mod needs;
mod ordering;
mod range;
mod reaped;
mod requests;
mod rule;
mod series;
mod stage;
mod temporal;

pub use mode::{AioRule, FdRule, FileRule, HandoffRule, JoinRule, LockRule, Order, PathRule, Rules};
pub use needs::{Edge, Waits};
pub use ordering::Ordering;
pub use rule::Rule;
