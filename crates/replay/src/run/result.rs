//! What a replay did.

use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::path::PathBuf;

use reprise_calls::{Call, Effect};

use super::{Cost, ReplayError};
use crate::cache::CacheReport;
use crate::executor::Executor;
use crate::log::{Class, Handling, Record, ReplayLog};
use crate::pace::Pace;
use crate::resume::{Completed, Rest};
use crate::target::{BuildReport, RestoreReport};

/// Divergences that a result describes; all are in its log.
pub const MOST_DIVERGENCES: usize = 20;

/// How a replay ended.
#[derive(Debug)]
pub enum End {
    /// All actions were performed.
    Complete,
    /// At the first divergence, as [`super::Verify::Abort`] asks for.
    FirstDivergence,
    /// By request. What was done until then is kept.
    Interrupted,
    /// By an error. What was done until then is kept.
    Failed(ReplayError),
}

/// How the target was prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preparation {
    /// Built in an empty directory.
    Built(BuildReport),
    /// Restored by difference.
    Restored(RestoreReport),
}

/// Actions by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Performed, in whatever way.
    pub actions: u64,
    /// Issued to the kernel, or done by the engine in its own way.
    pub issued: u64,
    /// Taken from the trace.
    pub simulated: u64,
    /// Left out on purpose.
    pub skipped: u64,
    /// Not replayed yet.
    pub unsupported: u64,
    /// Went differently.
    pub diverged: u64,
    /// Went differently, as in any replay.
    pub unavoidable: u64,
}

/// An action that went differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// The action: `actions.seq` of the trace.
    pub origin: u64,
    /// Its call.
    pub call: String,
    /// Its thread.
    pub thread: u32,
    /// What went differently.
    pub text: String,
}

/// What a replay did.
#[derive(Debug)]
#[must_use = "a replay that began has a result even if it failed: look at `end`"]
pub struct ReplayResult {
    /// Identity of the trace.
    pub trace: String,
    /// The ordering.
    pub order: String,
    /// The pace.
    pub pace: Pace,
    /// How calls were issued.
    pub executor: Executor,
    /// The target.
    pub target: PathBuf,
    /// Its file system.
    pub file_system: String,
    /// When the replay began, nanoseconds since the epoch.
    pub started_ns: u64,
    /// How it ended.
    pub end: End,
    /// Actions by what became of them.
    pub counts: Counts,
    /// Actions of the plan.
    pub planned: u64,
    /// It continues another replay.
    pub rest: Option<Rest>,
    /// If not all was done: the first action of the trace that was not, where a replay can go on.
    pub cut: Option<u64>,
    /// The first divergences by time, at most [`MOST_DIVERGENCES`].
    pub divergences: Vec<Divergence>,
    /// From the first issue to the last completion, in nanoseconds.
    pub elapsed_ns: u64,
    /// Threads that performed at least one action.
    pub threads: u64,
    /// What held the worker, in words.
    pub confinement: String,
    /// How the target was prepared.
    pub preparation: Preparation,
    /// With what cache and memory it ran.
    pub cache: CacheReport,
    /// What it took of the machine; not known of a worker that was killed.
    pub cost: Option<Cost>,
    /// Facts that concern no single action, with how often they were met.
    pub notes: Vec<(String, u64)>,
    /// With [`super::Schedule`]: for each step that left a choice, the number of threads that could go on.
    pub degrees: Vec<u32>,
    /// What every action did.
    pub log: ReplayLog,
}

impl ReplayResult {
    /// The first action of the trace that it was to perform.
    pub fn first_action(&self) -> u64 {
        self.rest.as_ref().map_or(0, |rest| rest.numbers.first_action)
    }

    /// Fills in what the log says.
    pub(super) fn count(&mut self) -> io::Result<()> {
        let mut counts = Counts::default();
        let (mut first, mut last) = (u64::MAX, 0);
        let mut read_bytes = 0u64;
        let of = self.first_action();
        let end = if matches!(self.end, End::Complete) { of } else { of.saturating_add(self.planned) };
        let mut completed = Completed::none_of(of..end);
        let mut threads = std::collections::HashSet::new();
        let mut unsupported: BTreeMap<&str, u64> = BTreeMap::new();
        // The earliest by completion: the heap's greatest is the one to go.
        let mut earliest: BinaryHeap<Earliest> = BinaryHeap::new();
        self.log.each(|record| {
            counts.actions += 1;
            if record.is_completed() {
                completed.enter(record.origin);
            }
            *match record.handling {
                Handling::Issued => &mut counts.issued,
                Handling::Simulated => &mut counts.simulated,
                Handling::Skipped => &mut counts.skipped,
                Handling::Unsupported => &mut counts.unsupported,
            } += 1;
            first = first.min(record.begin_ns);
            last = last.max(record.end_ns);
            threads.insert(record.thread);
            if record.handling == Handling::Unsupported {
                *unsupported.entry(name_of(record.number)).or_default() += 1;
            }
            read_bytes = read_bytes.saturating_add(bytes_read(&record));
            match record.difference.class {
                Class::Same => {}
                Class::Unavoidable => counts.unavoidable += 1,
                Class::Diverged => {
                    counts.diverged += 1;
                    earliest.push(Earliest(record));
                    if earliest.len() > MOST_DIVERGENCES {
                        earliest.pop();
                    }
                }
            }
        })?;
        self.counts = counts;
        self.cut = Some(completed.cut()).filter(|cut| *cut < end);
        self.cache.read_bytes = read_bytes;
        self.elapsed_ns = last.saturating_sub(first);
        self.threads = threads.len() as u64;
        let describe = |Earliest(record): Earliest| Divergence {
            origin: record.origin,
            call: name_of(record.number).to_owned(),
            thread: record.thread,
            text: record.difference.text(),
        };
        self.divergences = earliest.into_sorted_vec().into_iter().map(describe).collect();
        let named = unsupported.into_iter().map(|(call, count)| (format!("unsupported: {call}"), count));
        self.notes.extend(named);
        Ok(())
    }
}

fn name_of(number: u32) -> &'static str {
    reprise_calls::by_number(number).map_or("?", |call| call.name)
}

/// What a call has read, or taken through the page cache to write it elsewhere.
fn bytes_read(record: &Record) -> u64 {
    let reads = |call: &Call| matches!(call.effect, Effect::Read | Effect::Copy | Effect::MappedRead);
    let read = record.handling == Handling::Issued && reprise_calls::by_number(record.number).is_some_and(reads);
    if read { u64::try_from(record.result).unwrap_or(0) } else { 0 }
}

#[derive(PartialEq, Eq)]
struct Earliest(Record);

impl Ord for Earliest {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0.end_ns, self.0.origin).cmp(&(other.0.end_ns, other.0.origin))
    }
}

impl PartialOrd for Earliest {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
