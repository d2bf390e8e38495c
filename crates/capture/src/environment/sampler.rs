//! A thread that takes samples while a program runs.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Observation, Observer};
use crate::sys;

/// A sample that cost this much processor time is followed by a pause of as many times its cost at least: two per cent.
const LEAST_PAUSE: u32 = 49;

/// Takes samples until it is stopped or dropped.
pub struct Sampler {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Takes the first sample before it returns, further ones at this interval from a thread, and a last one when it is
    /// stopped. `began` is when the trace did. `sink` is not to wait for long.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn start(
        mut observer: Observer,
        every: Duration,
        began: Instant,
        mut sink: impl FnMut(Observation) + Send + 'static,
    ) -> io::Result<Sampler> {
        let mut observe = move || sink(observer.observe(began.elapsed().as_nanos() as u64));
        observe();
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("reprise-sampler".into()).spawn(move || {
            let mut pause = every;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let (begin, begin_cpu) = (Instant::now(), sys::thread_time());
                observe();
                let cost = sys::thread_time().saturating_sub(begin_cpu);
                pause = every.saturating_sub(begin.elapsed()).max(cost * LEAST_PAUSE);
            }
            observe();
        })?;
        Ok(Sampler { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}
