//! The environment of a recording in the kernel: sampled while it runs, kept beside the spool.
//!
//! Goals: the samples that a recording by ptrace has, of whatever scope; they outlive the recorder. Non-goals: the tables,
//! which the finisher writes.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::kernel::Kernel;
use crate::environment::{Keeper, Observer, Sampler, Surroundings, Traced};
use crate::spool::SAMPLES;
use crate::sys;

/// The processes that the programs in the kernel record.
struct Members(Arc<Kernel>);

impl Traced for Members {
    fn processes(&self, into: &mut Vec<i32>) {
        into.extend(self.0.members());
    }
}

/// Keeps what is around the program in the directory of a spool, and begins to sample if that is wanted; times count from an
/// instant of `CLOCK_MONOTONIC`. A sample that cannot be kept (a full disk, of which the spool will tell) is left out.
pub fn start(
    kernel: &Arc<Kernel>,
    spool: &Path,
    every: Option<Duration>,
    began_ns: u64,
) -> io::Result<Option<Sampler>> {
    let mut keeper = Keeper::create(&spool.join(SAMPLES), &Surroundings::look())?;
    let Some(every) = every else { return Ok(None) };
    let since = Duration::from_nanos(sys::monotonic_ns().saturating_sub(began_ns));
    let began = Instant::now().checked_sub(since).unwrap_or_else(Instant::now);
    let sink = move |seen| drop(keeper.keep(&seen));
    Sampler::start(Observer::new(Members(kernel.clone())), every, began, sink).map(Some)
}
