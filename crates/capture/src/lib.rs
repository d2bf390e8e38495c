//! Recording: runs a program under ptrace and writes a trace of its storage-related calls.
//!
//! Goals: every call of the table with arguments, result, times and content; the initial state it met (descriptors,
//! names, content) without asking the user; the program behaves as it would without us; the order of rows is the
//! order of effects. Non-goals: interpreting the trace (model), formats other than our own (formats).
//!
//! **Times.** `begin_ns` is when a call was let into the kernel, after any wait for its turn behind calls of other
//! threads; `duration_ns` counts until its exit stop was seen, so it includes one stop of the tracer (some
//! microseconds). Waits for a turn delay the program and show as time between calls, not as response time.
//!
//! **Order.** Calls that change state enter the kernel one at a time (see [`reprise_calls::Admission`]); calls that
//! may wait for another thread enter at any time and are ordered by completion, a wake-up after what caused it.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the recorder knows Linux on x86-64 only");

mod arguments;
mod cpu;
pub mod ebpf;
mod effects;
pub mod environment;
mod error;
mod filter;
mod finish;
mod gate;
mod kept;
mod kernel_side;
mod locking;
mod log;
mod mapped;
mod memory;
mod messages;
mod movers;
mod own_users;
mod procfs;
mod record;
mod requests;
pub mod scope;
mod served;
pub mod spool;
mod sys;
mod tracer;
mod unbegun;
mod world;

pub use error::CaptureError;
pub use finish::recover;
pub use record::{Backend, KernelOptions, Options, Outcome, SAMPLE_EVERY, WHY, record, snapshot_into};
pub use reprise_initial::Seeds;
pub use sys::die_by_signal;
