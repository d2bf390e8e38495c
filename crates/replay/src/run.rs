//! A whole replay: the target is prepared, a worker is forked, confined and watched, its log becomes a result.
//!
//! Goals: the caller's process never performs a traced call; an interrupted or failed replay keeps what was done so far;
//! every error names its cause and the next step. Non-goals: the result's trace (`emit`), printing.

mod error;
mod result;
mod worker;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reprise_plan::Plan;

pub use crate::engine::{Failure, Verify};
pub use error::ReplayError;
pub use result::{Counts, Divergence, End, MOST_DIVERGENCES, Preparation, ReplayResult};

use crate::engine::memory::Shared;
use crate::engine::{Board, Ended, Sections, issue};
use crate::log::{Clock, ReplayLog};
use crate::target::{self, State, Target};
use crate::{confine, sys};
use worker::Message;

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
    /// Counts requests to end, see [`catch_signals`]: the first ends the replay in order, the second at once.
    pub interrupt: Option<&'static AtomicU32>,
    /// Longest time without any progress before the replay is given up.
    pub patience: Duration,
    /// Longest wait for a lock that the traced program obtained.
    pub lock_patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            verify: Verify::Warn,
            confinement: confine::Options::default(),
            log_directory: std::env::temp_dir(),
            interrupt: None,
            patience: Duration::from_secs(120),
            lock_patience: Duration::from_secs(5),
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

/// From now on SIGINT and SIGTERM no longer end this process, but count in what is returned: for [`Options::interrupt`].
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
    let target = target::open(dir, &plan.contents.trace)?;
    let sections = Sections::map(plan).map_err(|source| ReplayError::system("map the plan", source))?;
    let sections = Arc::new(sections);
    let preparation = prepare(&target, plan, &sections, progress)?;
    let file_system = file_system(dir);
    drop(target);
    let log_error = |source| ReplayError::Log { directory: options.log_directory.clone(), source };
    let log = tempfile::Builder::new().append(true).tempfile_in(&options.log_directory).map_err(log_error)?.into_file();
    let board = Arc::new(Shared::<Board>::new().map_err(|e| ReplayError::system("share memory", e))?);
    let (mut from, to) = std::io::pipe().map_err(|e| ReplayError::system("make a pipe", e))?;
    let started_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let child = sys::fork().map_err(|e| ReplayError::system("fork a worker", e))?;
    let Some(child) = child else {
        let work =
            worker::Work { plan: &plan.contents, sections: &sections, board: &board, dir, options, log: &log, to };
        worker::work(work)
    };
    drop(to);
    let total = plan.contents.commands;
    let (text, killed) = watch(&mut from, child, &board, options, |done| {
        progress(Progress { phase: Phase::Replaying, done: done.min(total), total });
    });
    let status = sys::wait(child).map_err(|e| ReplayError::system("wait for the worker", e))?;

    let (mut confinement, mut ended) = (None, None);
    for message in text.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()) {
        match message {
            Message::Confined(report) => confinement = Some(report),
            Message::Refused(text) => return Err(ReplayError::Confine { text }),
            Message::Failed(failure) => return Err(ReplayError::Engine(failure)),
            Message::Ended(how, notes) => ended = Some((how, notes)),
        }
    }
    let (end, notes) = match ended {
        Some((Ended::Complete, notes)) => (End::Complete, notes),
        Some((Ended::FirstDivergence, notes)) => (End::FirstDivergence, notes),
        Some((Ended::Interrupted, notes)) => (End::Interrupted, notes),
        Some((Ended::Failed(failure), notes)) => (End::Failed(failure.into()), notes),
        None if killed => (End::Interrupted, Vec::new()),
        None => (End::Failed(ReplayError::worker(status)), Vec::new()),
    };
    let Some(confinement) = confinement else {
        return Err(match end {
            End::Failed(error) => error,
            _ => ReplayError::worker(status),
        });
    };
    let number = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
    let clock = Clock {
        first_ticks: number(&board.first_ticks),
        first_ns: number(&board.first_ns),
        last_ticks: number(&board.last_ticks),
        last_ns: number(&board.last_ns),
    };
    let log = ReplayLog::open(log, clock).map_err(log_error)?;
    let mut result = ReplayResult {
        trace: plan.contents.trace.clone(),
        order: plan.contents.order.clone(),
        target: dir.to_owned(),
        file_system,
        started_ns,
        end,
        counts: Counts::default(),
        planned: total,
        divergences: Vec::new(),
        elapsed_ns: 0,
        threads: 0,
        confinement,
        preparation,
        notes,
        log,
    };
    result.count().map_err(log_error)?;
    Ok(result)
}

fn prepare(
    target: &Target,
    plan: &Plan,
    sections: &Sections,
    progress: &mut dyn FnMut(Progress),
) -> Result<Preparation, ReplayError> {
    // The materializer reports often; whoever draws wants it now and then.
    let mut last = None;
    let mut now_and_then = |done, total| {
        let due = last.is_none_or(|at: Instant| at.elapsed() >= Duration::from_millis(TICK_MS as u64));
        if due || done == total {
            last = Some(Instant::now());
            progress(Progress { phase: Phase::Preparing, done, total });
        }
    };
    let tree = &plan.contents.tree;
    Ok(match target.state() {
        State::Empty => Preparation::Built(target.build(tree, &sections.buffers, &mut now_and_then)?),
        State::Ours(_) => Preparation::Restored(target.restore(tree, &sections.buffers, &mut now_and_then)?),
    })
}

/// What the worker said until it ended, and whether it was killed by a second request to end.
fn watch(
    from: &mut std::io::PipeReader,
    child: i32,
    board: &Board,
    options: &Options,
    mut progress: impl FnMut(u64),
) -> (Vec<u8>, bool) {
    let mut text = Vec::new();
    let (requests, mut killed) = (options.interrupt, false);
    loop {
        if issue::readable(from.as_raw_fd(), TICK_MS) {
            let mut piece = [0; 4096];
            match from.read(&mut piece) {
                Ok(0) => break,
                Ok(n) => text.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let asked = requests.map_or(0, |r| r.load(Ordering::SeqCst));
        if asked >= 1 {
            board.stop.store(asked, Ordering::SeqCst);
        }
        if asked >= 2 && !killed {
            killed = true;
            issue::kill(child);
        }
        progress(board.done.load(Ordering::Relaxed));
    }
    progress(board.done.load(Ordering::Relaxed));
    (text, killed)
}

/// The name of the target's file system.
fn file_system(dir: &Path) -> String {
    let kind = File::open(dir).ok().and_then(|d| issue::file_system(d.as_raw_fd())).map(|(kind, _)| kind);
    match kind {
        Some(0xef53) => "ext4".into(),
        Some(0x5846_5342) => "xfs".into(),
        Some(0x9123_683e) => "btrfs".into(),
        Some(0x0102_1994) => "tmpfs".into(),
        Some(0x794c_7630) => "overlay".into(),
        Some(0x2fc1_2fc1) => "zfs".into(),
        Some(0xf2f5_2010) => "f2fs".into(),
        Some(0xca45_1a4e) => "bcachefs".into(),
        Some(0x6969) => "nfs".into(),
        Some(kind) => format!("type {kind:#x}"),
        None => "unknown".into(),
    }
}
