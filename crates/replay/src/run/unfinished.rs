//! What a replay keeps on disk while it runs, so that a result can be made of it even if all its processes are killed.
//!
//! Goals: the log under a name, beside it what the log does not say and two instants of its clock; nothing of it costs a replay
//! thread anything. Non-goals: a crash of the machine (nothing is synced), the result's trace (`emit`).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::emit::Opening;
use crate::log::{Clock, ReplayLog};
use crate::resume::Completed;

const LOG: &str = "log";
const OPENING: &str = "opening.json";
const CLOCK: &str = "clock";
const CLOCK_BYTES: usize = 32;

/// Who writes it: a process by its number and the instant at which it began, since numbers are used again.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    process: u32,
    began: String,
}

impl Owner {
    fn of(process: u32) -> Option<Owner> {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name in parentheses may have anything in it; `starttime` is the twentieth word after it.
        let began = text.rsplit_once(')')?.1.split_whitespace().nth(19)?.to_owned();
        Some(Owner { process, began })
    }

    fn lives(&self) -> bool {
        Owner::of(self.process).is_some_and(|found| found == *self)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct About {
    owner: Option<Owner>,
    opening: Opening,
}

/// What is kept of a replay that runs.
#[derive(Debug)]
pub(super) struct Journal {
    clock: File,
    last_ns: u64,
}

impl Journal {
    /// Begins to keep in this directory; the log is to be appended to.
    pub fn begin(directory: &Path, opening: Opening) -> io::Result<(Journal, File)> {
        let log = File::options().create_new(true).read(true).append(true).open(directory.join(LOG))?;
        let clock = File::create(directory.join(CLOCK))?;
        let about = About { owner: Owner::of(std::process::id()), opening };
        fs::write(directory.join(OPENING), serde_json::to_vec_pretty(&about)?)?;
        Ok((Journal { clock, last_ns: 0 }, log))
    }

    /// Keeps the latest instant, if it is another; a full disk is left to the log to notice.
    pub fn keep(&mut self, clock: Clock) {
        if std::mem::replace(&mut self.last_ns, clock.last_ns) == clock.last_ns {
            return;
        }
        let words = [clock.first_ticks, clock.first_ns, clock.last_ticks, clock.last_ns];
        let _ = self.clock.write_all_at(words.map(u64::to_le_bytes).as_flattened(), 0);
    }
}

/// What a replay left behind that did not come to write its result.
#[derive(Debug)]
pub struct Unfinished {
    pub(crate) opening: Opening,
    pub(crate) log: ReplayLog,
    /// The first action that was not completed.
    pub(crate) cut: u64,
}

/// Why no result can be made of it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum UnfinishedError {
    /// It is being written.
    #[error("{}: the replay that keeps its log here still runs (process {process}); wait for its end, or stop it with `kill {process}`", directory.display())]
    Runs { directory: PathBuf, process: u32 },
    /// It cannot be read.
    #[error("{}: what the replay left behind cannot be read: {source}; remove it (`rm -r`), and replay the trace from its beginning", directory.display())]
    Unreadable { directory: PathBuf, source: io::Error },
}

impl Unfinished {
    /// Whether the directory is that of a replay that came to its first action.
    pub fn is_in(directory: &Path) -> bool {
        directory.join(OPENING).exists()
    }

    /// Reads it.
    ///
    /// # Errors
    /// Somebody still writes it, or it is damaged.
    pub fn read(directory: &Path) -> Result<Unfinished, UnfinishedError> {
        let unreadable = |source| UnfinishedError::Unreadable { directory: directory.to_owned(), source };
        let about = fs::read(directory.join(OPENING)).map_err(unreadable)?;
        let about: About = serde_json::from_slice(&about).map_err(|e| unreadable(e.into()))?;
        if let Some(owner) = about.owner.filter(Owner::lives) {
            return Err(UnfinishedError::Runs { directory: directory.to_owned(), process: owner.process });
        }
        Unfinished::load(directory, about.opening).map_err(unreadable)
    }

    fn load(directory: &Path, opening: Opening) -> io::Result<Unfinished> {
        let numbers = opening.rest.as_ref().map(|rest| rest.numbers.clone()).unwrap_or_default();
        let first = numbers.first_action;
        let log = ReplayLog::open(File::open(directory.join(LOG))?, clock(directory)?, numbers)?;
        let mut completed = Completed::none_of(first..first.saturating_add(opening.planned));
        log.each(|record| _ = record.is_completed() && completed.enter(record.origin))?;
        Ok(Unfinished { cut: completed.cut(), opening, log })
    }
}

/// The clock as it was kept last; one that never was has no length.
fn clock(directory: &Path) -> io::Result<Clock> {
    let bytes = fs::read(directory.join(CLOCK))?;
    let word = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    let [first_ticks, first_ns, last_ticks, last_ns] = [0, 8, 16, CLOCK_BYTES - 8].map(word);
    Ok(Clock { first_ticks, first_ns, last_ticks, last_ns })
}
