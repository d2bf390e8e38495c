//! The sink's other hand: a whole segment goes past the page cache while the sink copies others into it.
//!
//! Goals: where a program writes faster than the page cache takes it, the disk works meanwhile. One segment at a time: a disk
//! that is given a megabyte has enough to do. Non-goals: when that is so (`sink`), and in which file (`files`).

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use super::files::Target;
use super::kernel::Kernel;
use super::reason::{no_thread, step};
use super::shared::STRIDE_BYTES;
use super::ways::Cost;
use super::{Reason, SpoolError};
use crate::sys;

/// The hand. Its thread ends with it, when the segment that it has is written.
pub struct Aside {
    /// `None` at the end.
    given: Option<Sender<(u32, Target)>>,
    thread: Option<JoinHandle<()>>,
    done: Receiver<Result<Cost, SpoolError>>,
    busy: bool,
    failed: bool,
    last: Option<Cost>,
}

impl Aside {
    /// Starts its thread.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn new(kernel: Arc<Kernel>) -> Result<Aside, SpoolError> {
        let (given, taken) = channel::<(u32, Target)>();
        let (say, done) = channel();
        let thread = sys::spawn_quiet("spool-aside", move || {
            for (segment, target) in taken {
                if say.send(write(&kernel, segment, &target)).is_err() {
                    return;
                }
            }
        });
        Ok(Aside {
            given: Some(given),
            thread: Some(thread.map_err(no_thread)?),
            done,
            busy: false,
            failed: false,
            last: None,
        })
    }

    /// Takes a full segment, which is free when it is written. Only while [`Aside::is_idle`].
    pub fn take(&mut self, segment: u32, target: Target) {
        debug_assert!(!self.busy);
        // A thread that is gone is told of by `is_idle`.
        let _ = self.given.as_ref().map(|given| given.send((segment, target)));
        self.busy = true;
    }

    /// Whether it has nothing to do.
    ///
    /// # Errors
    /// What it had last could not be written.
    pub fn is_idle(&mut self) -> Result<bool, SpoolError> {
        if self.busy {
            match self.done.try_recv() {
                Ok(outcome) => self.done_with(outcome)?,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Err(gone()),
            }
        }
        Ok(!self.busy)
    }

    /// Waits until what it has is written.
    ///
    /// # Errors
    /// It could not be.
    pub fn settle(&mut self) -> Result<(), SpoolError> {
        if !self.busy {
            return Ok(());
        }
        let outcome = self.done.recv().map_err(|_| gone())?;
        self.done_with(outcome)
    }

    /// Whether it was given one that it may not have written yet.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Whether it could not write what it was given last.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// What the last one took, told once.
    pub fn took(&mut self) -> Option<Cost> {
        self.last.take()
    }

    fn done_with(&mut self, outcome: Result<Cost, SpoolError>) -> Result<(), SpoolError> {
        self.busy = false;
        self.failed = outcome.is_err();
        self.last = Some(outcome?);
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.given = None;
        // What it panicked with was printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn write(kernel: &Kernel, segment: u32, target: &Target) -> Result<Cost, SpoolError> {
    let took = target.put(&kernel.segments, segment as usize * STRIDE_BYTES)?;
    kernel.free(segment).map_err(Reason::Refused)?;
    Ok(took)
}

fn gone() -> SpoolError {
    step("write a segment", "this is a defect")(io::Error::other("its thread has ended"))
}
