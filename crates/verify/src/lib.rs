//! Proves that a replay did the same: two traces compared action by action, and a trace with a tree.
//!
//! Goals: an opinion of its own (what the replay says of itself is only ever held against it); every difference named with its
//! cause, the worst first; what no replay can avoid recognised and counted apart; what could not be compared counted too.
//! Non-goals: timing, formatting.

mod error;
mod group;
mod traces;
mod tree;

pub use error::VerifyError;
pub use group::{Example, Group, MOST_EXAMPLES};
pub use traces::{Comparison, compare};
pub use tree::{TreeComparison, TreeExample, TreeGroup, compare_tree};
