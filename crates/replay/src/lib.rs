//! Replays a plan: the target's initial tree, the confinement of the worker, the engine.
//!
//! Goals: nothing outside the target directory is ever touched, whatever a trace says; the target can be brought back to
//! its initial state quickly and exactly. Non-goals: how ordering came to be (`plan`), statistics (`measure`).

pub mod cache;
pub mod confine;
pub mod emit;
mod engine;
mod executor;
pub mod limit;
pub mod log;
mod pace;
pub mod resume;
pub mod run;
pub mod sys;
pub mod target;
pub mod times;
