//! One worker: launched, watched, and what came of it.

use std::fs::File;
use std::io::{PipeReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use super::meeting::Meeting;
use super::ready::Ready;
use super::result::{Counts, End, Preparation, ReplayResult};
use super::several::Job;
use super::unfinished::Journal;
use super::vigil::{self, Vigil};
use super::worker::{self, Message};
use super::{Options, ReplayError, TICK_MS, file_system};
use crate::emit::{About, Opening};
use crate::engine::memory::Shared;
use crate::engine::{Board, Ended, Outcome, Sections, issue};
use crate::log::{Clock, ReplayLog};
use crate::sys;

/// A worker that runs.
pub(super) struct Launched<'a> {
    job: Job<'a>,
    from: PipeReader,
    child: i32,
    board: Arc<Shared<Board>>,
    log: File,
    journal: Option<Journal>,
    started_ns: u64,
    vigil: Vigil,
    /// It hung, and where.
    hung: Option<ReplayError>,
}

fn log_error(options: &Options) -> impl Fn(std::io::Error) -> ReplayError {
    |source| ReplayError::Log { directory: options.log_directory.clone(), source }
}

/// The same file once more, to be read past the page cache where its file system can do that.
fn reopened(file: &File) -> std::io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path);
    direct.or_else(|_| File::open(&path))
}

/// Where a replay's records go: to a file without a name, or to one that is kept.
fn log(job: Job<'_>, started_ns: u64, options: &Options, ready: &Ready) -> std::io::Result<(Option<Journal>, File)> {
    let Some(facts) = &options.kept else {
        let log = tempfile::Builder::new().append(true).tempfile_in(&options.log_directory)?;
        return Ok((None, log.into_file()));
    };
    let mut opening = Opening::of(&About {
        trace: job.rest.map_or(&job.plan.contents.trace, |rest| &rest.of),
        order: &job.plan.contents.order,
        pace: options.pace,
        executor: options.executor,
        target: job.dir,
        file_system: &file_system(job.dir),
        started_ns,
        planned: job.plan.contents.commands,
        rest: job.rest,
        cache: &ready.cache,
    });
    opening.facts.extend(facts.clone());
    let (journal, log) = Journal::begin(&options.log_directory, opening)?;
    Ok((Some(journal), log))
}

/// Forks a worker for a plan in a directory that was prepared.
pub(super) fn launch<'a>(
    job: Job<'a>,
    sections: &Arc<Sections>,
    options: &Options,
    ready: &Ready,
    meeting: Option<&Meeting>,
) -> Result<Launched<'a>, ReplayError> {
    let Job { plan, dir, .. } = job;
    let started_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let (journal, log) = log(job, started_ns, options, ready).map_err(log_error(options))?;
    let plan_file = reopened(&plan.file).map_err(|e| ReplayError::system("open the plan", e))?;
    let board = Arc::new(Shared::<Board>::new().map_err(|e| ReplayError::system("share memory", e))?);
    let (from, to) = std::io::pipe().map_err(|e| ReplayError::system("make a pipe", e))?;
    worker::silence_workers();
    let child = sys::fork().map_err(|e| ReplayError::system("fork a worker", e))?;
    let Some(child) = child else {
        drop(from);
        worker::work(worker::Work {
            plan: &plan.contents,
            sections,
            board: &board,
            dir,
            options,
            log: &log,
            plan_file: &plan_file,
            to,
            memory: ready.memory.as_ref(),
            meeting,
        })
    };
    let (vigil, hung) = (Vigil::new(options.patience), None);
    Ok(Launched { job, from, child, board, log, journal, started_ns, vigil, hung })
}

impl Launched<'_> {
    /// Commands completed.
    pub fn done(&self) -> u64 {
        self.board.done.load(Ordering::Relaxed)
    }

    /// Asks it to end.
    pub fn stop(&self, how: u32) {
        self.board.stop.store(how, Ordering::SeqCst);
    }

    /// Ends it at once.
    pub fn kill(&self) {
        issue::kill(self.child);
    }

    /// It was killed because it hung.
    pub fn has_hung(&self) -> bool {
        self.hung.is_some()
    }

    /// The instants that its log counts from and to.
    fn clock(&self) -> Clock {
        let number = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
        Clock {
            first_ticks: number(&self.board.first_ticks),
            first_ns: number(&self.board.first_ns),
            last_ticks: number(&self.board.last_ticks),
            last_ns: number(&self.board.last_ns),
        }
    }

    /// Reads what it says for a while; `false` when it has ended. One that hangs is killed.
    pub fn listen(&mut self, text: &mut Vec<u8>) -> bool {
        let clock = self.clock();
        self.journal.iter_mut().for_each(|journal| journal.keep(clock));
        if let Some(silent) = self.vigil.too_long(self.board.last_ns.load(Ordering::Relaxed), text.len())
            && self.hung.is_none()
        {
            self.hung = Some(ReplayError::Silent { seconds: silent.as_secs(), places: vigil::places(self.child) });
            self.kill();
        }
        if !issue::readable(self.from.as_raw_fd(), TICK_MS) {
            return true;
        }
        let mut piece = [0; 4096];
        match self.from.read(&mut piece) {
            Ok(0) => false,
            Ok(n) => {
                text.extend_from_slice(&piece[..n]);
                true
            }
            Err(e) => e.kind() == std::io::ErrorKind::Interrupted,
        }
    }

    /// What came of it, once it has ended; `text` is all that it said.
    pub fn finish(
        mut self,
        text: &[u8],
        killed: bool,
        (file_system, preparation): (String, Preparation),
        options: &Options,
        ready: &Ready,
    ) -> Result<ReplayResult, ReplayError> {
        let status = sys::wait(self.child).map_err(|e| ReplayError::system("wait for the worker", e))?;
        let died = |hung: Option<ReplayError>| hung.unwrap_or_else(|| ready.died(status));
        let (mut confinement, mut ended) = (None, None);
        let (mut cache, mut cost) = (ready.cache, None);
        for message in text.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()) {
            match message {
                Message::Confined(report) => confinement = Some(report),
                Message::Refused(text) => return Err(ReplayError::Confine { text }),
                Message::Failed(failure) => return Err(ReplayError::ended(failure)),
                Message::Used { device_bytes, cost: used } => {
                    cache.device_bytes = Some(device_bytes);
                    cost = Some(used);
                }
                Message::Ended(outcome) => ended = Some(outcome),
            }
        }
        let (end, notes, degrees) = match ended {
            Some(Outcome { ended, notes, degrees }) => {
                let end = match ended {
                    Ended::Complete => End::Complete,
                    Ended::FirstDivergence => End::FirstDivergence,
                    Ended::Interrupted => End::Interrupted,
                    Ended::Failed(failure) => End::Failed(ReplayError::ended(failure)),
                };
                (end, notes, degrees)
            }
            None if killed => {
                let hung = self.hung.iter().map(|error| (error.to_string(), 1)).collect();
                (End::Interrupted, hung, Vec::new())
            }
            None => (End::Failed(died(self.hung.take())), Vec::new(), Vec::new()),
        };
        let Some(confinement) = confinement else {
            return Err(match end {
                End::Failed(error) => error,
                _ => died(self.hung.take()),
            });
        };
        let clock = self.clock();
        self.journal.iter_mut().for_each(|journal| journal.keep(clock));
        let Job { plan, dir, rest } = self.job;
        let numbers = rest.map(|rest| rest.numbers.clone()).unwrap_or_default();
        let log = ReplayLog::open(self.log, clock, numbers).map_err(log_error(options))?;
        let mut result = ReplayResult {
            trace: rest.map_or_else(|| plan.contents.trace.clone(), |rest| rest.of.clone()),
            order: plan.contents.order.clone(),
            pace: options.pace,
            executor: options.executor,
            target: dir.to_owned(),
            file_system,
            started_ns: self.started_ns,
            end,
            counts: Counts::default(),
            planned: plan.contents.commands,
            rest: rest.cloned(),
            cut: None,
            divergences: Vec::new(),
            elapsed_ns: 0,
            threads: 0,
            confinement,
            preparation,
            cache,
            cost,
            notes,
            degrees,
            log,
        };
        result.count().map_err(log_error(options))?;
        Ok(result)
    }
}
