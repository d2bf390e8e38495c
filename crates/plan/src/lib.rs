//! From a trace to a plan: ordering rules to edges, the initial tree, compiled commands.
//!
//! Goals: everything decided before the replay starts, so that the engine knows nothing of rules, paths or formats.
//! Non-goals: how I/O is issued; foreign formats.

pub mod command;
mod compile;
mod file;
pub mod graph;
mod merge;
mod order;
mod timing;
pub mod tree;

pub use compile::{CompileError, CompileReport, Fill, Mix, compile, compile_filled};
pub use file::{
    Chunk, Contents, FdSource, InitialFd, InitialLock, InitialMapping, KinStart, Lane, PLAN_VERSION, Plan, PlanError,
    PlanWriter, ProcessPlan, ProcessStart, Section, ThreadPlan,
};
pub use merge::{Conflict, Merged, merge};
pub use order::{
    AioRule, Edge, FdRule, FileRule, HandoffRule, JoinRule, LockRule, Order, Ordering, PathRule, Rule, Rules, Waits,
};
pub use timing::Timing;
