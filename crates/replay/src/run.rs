//! A whole replay: the target is prepared, a worker is forked, confined and watched, its log becomes a result.
//!
//! Goals: the caller's process never performs a traced call; an interrupted or failed replay keeps what was done so far;
//! every error names its cause and the next step. Non-goals: the result's trace (`emit`), printing.

mod cost;
mod error;
mod extract;
mod launch;
mod meeting;
mod ready;
mod result;
mod several;
mod unfinished;
mod vigil;
mod worker;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use reprise_plan::Plan;
use reprise_trace::file_system_name;

pub use crate::engine::{Failure, Schedule, Verify};
pub use crate::executor::Executor;
pub use crate::pace::{By, Pace};
pub use cost::Cost;
pub use error::ReplayError;
pub use extract::extract;
pub use result::{Counts, Divergence, End, MOST_DIVERGENCES, Preparation, ReplayResult};
pub use several::{Job, replay_all};
pub use unfinished::{Unfinished, UnfinishedError};

use crate::cache;
use crate::confine;
use crate::engine::issue;

/// How often the worker's progress is looked at, in milliseconds.
const TICK_MS: i32 = 100;

/// How to replay.
#[derive(Debug, Clone)]
pub struct Options {
    /// What happens at a difference.
    pub verify: Verify,
    /// Layers of confinement beyond the mandatory ones.
    pub confinement: confine::Options,
    /// Where the log is kept while it is needed (an unlinked file): beside the result, outside the target.
    pub log_directory: PathBuf,
    /// The log of a single replay has a name there, so that it survives if all processes are killed ([`Unfinished`]), and its result
    /// these facts. Whoever made the directory removes it.
    pub kept: Option<BTreeMap<String, String>>,
    /// Counts requests to end, see [`catch_signals`]: the first ends the replay in order, the second at once.
    pub interrupt: Option<&'static AtomicU32>,
    /// How fast it goes.
    pub pace: Pace,
    /// How calls are issued.
    pub executor: Executor,
    /// Reads find their pages in memory, or not, as they did in the trace, as far as that is known.
    pub traced_cache: bool,
    /// Each replay thread stays on one processor, in turn.
    pub pin: bool,
    /// What is opened is read without changing access times (`O_NOATIME`), where the user may ask for that.
    pub no_access_times: bool,
    /// Longest time without any progress before the replay is given up.
    pub patience: Duration,
    /// Longest wait for a lock that the traced program obtained.
    pub lock_patience: Duration,
    /// One action at a time, in an order that is chosen: for tests.
    pub schedule: Option<Schedule>,
    /// How the contents of the initial tree are cached at the start.
    pub cache: cache::Start,
    /// Commands of a plan that are as long in all are mapped; of longer ones each thread has three chunks in memory, and the page cache
    /// none.
    pub mapped_bytes: u64,
    /// Limit of the memory of all workers together, their page cache included. The tree's contents then start uncached,
    /// or in the workers' own memory: what others have cached would cost them nothing.
    pub memory_bytes: Option<u64>,
    /// Run by the shell before the start.
    pub before_start: Option<OsString>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            verify: Verify::Warn,
            confinement: confine::Options::default(),
            log_directory: std::env::temp_dir(),
            kept: None,
            interrupt: None,
            pace: Pace::Afap,
            executor: Executor::Sync,
            traced_cache: false,
            pin: false,
            no_access_times: false,
            patience: Duration::from_secs(120),
            lock_patience: Duration::from_secs(5),
            schedule: None,
            cache: cache::Start::AsItWas,
            mapped_bytes: 4 << 20,
            memory_bytes: None,
            before_start: None,
        }
    }
}

/// What the replay is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Building or restoring the initial tree; in bytes, see [`target::Progress`].
    Preparing,
    /// Replaying; in actions.
    Replaying,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// In what.
    pub phase: Phase,
    /// Done.
    pub done: u64,
    /// Of how much.
    pub total: u64,
}

/// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT no longer end this process, but count in what is returned: for
/// [`Options::interrupt`]. The last two, if they are not ignored (`nohup`), and count as one, however often they come.
pub fn catch_signals() -> &'static AtomicU32 {
    crate::engine::catch_signals()
}

/// Replays a plan in the directory `dir`, which must be empty or hold the tree of the same trace.
///
/// Call it while this process has no other threads that work (it forks); a replay that began has a result, however it
/// ended: see [`ReplayResult::end`].
///
/// # Errors
/// When the replay could not begin: target, machine, log.
pub fn replay(
    plan: &Plan,
    dir: &Path,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<ReplayResult, ReplayError> {
    replay_job(Job { plan, dir, rest: None }, options, progress)
}

/// As [`replay`], also of the rest of a trace.
///
/// # Errors
/// As [`replay`].
pub fn replay_job(
    job: Job<'_>,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<ReplayResult, ReplayError> {
    let mut results = replay_all(&[job], options, progress)?;
    results.pop().ok_or(ReplayError::Worker { how: "was never begun".into() })
}

/// The name of the target's file system.
fn file_system(dir: &Path) -> String {
    let kind = File::open(dir).ok().and_then(|d| issue::file_system(d.as_raw_fd())).map(|(kind, _)| kind);
    kind.map_or_else(|| "unknown".into(), file_system_name)
}
