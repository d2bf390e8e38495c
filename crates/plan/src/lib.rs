//! From a trace to a plan: ordering rules to edges, the initial tree, compiled commands.
pub mod tree;
