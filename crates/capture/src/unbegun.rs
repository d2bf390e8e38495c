//! What is made of a trace before the program begins: a signal takes it away, and ends the recorder as it would end any program.
//!
//! Goals: nothing is left of what has not begun, whatever it is interrupted in. Non-goals: what the program did, which is kept.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use reprise_trace::{WriteError, discard};

use crate::error::CaptureError;
use crate::sys::{self, Noted};

/// How soon a signal is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Whoever makes what is taken away goes on meanwhile, and may just have begun another part of it.
const PASSES: usize = 3;

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There is no trace yet.
    Nothing,
    /// There is one, and the program has not begun.
    Made,
    /// It began, or never will.
    Over,
}

/// A trace whose program has not begun. Signals are noted as long as it is kept.
pub struct Unbegun {
    watched: Arc<Watched>,
    _noted: Noted,
}

struct Watched {
    trace: PathBuf,
    /// Whether its directory was there before.
    existed: bool,
    stage: Mutex<Stage>,
}

impl Unbegun {
    /// From now on a signal ends this process.
    pub fn watch(trace: &Path) -> Result<Unbegun, CaptureError> {
        let failed = |step, advice| move |source| CaptureError::Start { step, source, advice };
        let noted = Noted::begin().map_err(failed("install signal handlers", "this is a defect"))?;
        let stage = Mutex::new(Stage::Nothing);
        let watched = Arc::new(Watched { trace: trace.to_owned(), existed: trace.is_dir(), stage });
        let theirs = watched.clone();
        let look = move || {
            while *theirs.stage() != Stage::Over {
                theirs.end_if_told();
                thread::sleep(LOOK_EVERY);
            }
        };
        let spawned = thread::Builder::new().name("unbegun".to_owned()).spawn(look);
        spawned.map_err(failed("make a thread", "check the limits on processes and memory"))?;
        Ok(Unbegun { watched, _noted: noted })
    }

    /// Makes the trace; no signal comes between that and that it is taken away.
    pub fn make<T>(&self, make: impl FnOnce() -> Result<T, WriteError>) -> Result<T, WriteError> {
        let mut stage = self.watched.stage();
        let made = make()?;
        *stage = Stage::Made;
        Ok(made)
    }

    /// The program begins: what signals mean is for its recorder to say.
    pub fn begins(&self) {
        self.watched.end_if_told();
        *self.watched.stage() = Stage::Over;
    }

    /// Takes away what was made of a trace that is not to be.
    pub fn discard(&self) {
        self.watched.discard();
    }
}

impl Drop for Unbegun {
    fn drop(&mut self) {
        *self.watched.stage() = Stage::Over;
    }
}

impl Watched {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_if_told(&self) {
        let stage = self.stage();
        let Some(signal) = sys::waiting_signal().filter(|_| *stage != Stage::Over) else { return };
        for pass in 0..PASSES * usize::from(*stage == Stage::Made) {
            if pass > 0 {
                thread::sleep(LOOK_EVERY);
            }
            self.discard();
        }
        sys::die_by_signal(signal);
    }

    fn discard(&self) {
        discard(&self.trace, self.existed);
    }
}
