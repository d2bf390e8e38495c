//! The replay's trace of itself: the log, put together with what it shares with the original.
//!
//! Goals: rows in the order of completion, contents equal to the original's referred to by their hash, every loss and
//! every difference in the ledger; streamed. Non-goals: judging (the engine did), comparing traces (`verify`).
//!
//! Descriptors, addresses, processes and threads stand as in the original: what the replay's own numbers were is of no
//! use to anybody.

mod contents;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use reprise_calls::{Effect, Replay};
use reprise_trace::{
    Action, COMPLETE, CUT, DeviceSample, END, Environment, FIRST_ACTION, Host, Kind, Lookup, Loss, MEMORY_LIMIT,
    Manifest, Mount, QueueSetting, ReadError, TraceReader, TraceWriter, WriteError, WriterOptions, kib_text,
    random_identity,
};
use serde::{Deserialize, Serialize};

use crate::cache::CacheReport;
use crate::executor::Executor;
use crate::log::{Class, Code, Handling, Record, ReplayLog};
use crate::pace::Pace;
use crate::resume::{self, Rest};
use crate::run::{End, ReplayResult, Unfinished};
use contents::Contents;

/// The fact `end` of a replay that was killed.
const KILLED: &str = "killed";
/// How the text of a difference begins that no replay can avoid.
pub(crate) const UNAVOIDABLE: &str = "unavoidable: ";

/// Why the trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    /// The original cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The new one cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The replay's log cannot be read.
    #[error("cannot read the replay's log: {0}; replay again")]
    Log(#[from] io::Error),
    /// The result belongs to another trace.
    #[error("the replay is of the trace {replayed}, not of {given}; give the trace that was replayed")]
    OtherTrace {
        /// Identity of what was replayed.
        replayed: String,
        /// Identity of what was given.
        given: String,
    },
}

/// What is known of a replay when it begins, as far as its result says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opening {
    /// Identity of the trace.
    pub trace: String,
    pub started_ns: u64,
    /// Actions to perform.
    pub planned: u64,
    pub rest: Option<Rest>,
    /// Of the manifest.
    pub facts: BTreeMap<String, String>,
}

/// What an [`Opening`] is made of.
pub(crate) struct About<'a> {
    pub trace: &'a str,
    pub order: &'a str,
    pub pace: Pace,
    pub executor: Executor,
    pub target: &'a Path,
    pub file_system: &'a str,
    pub started_ns: u64,
    pub planned: u64,
    pub rest: Option<&'a Rest>,
    pub cache: &'a CacheReport,
}

impl Opening {
    pub(crate) fn of(about: &About<'_>) -> Opening {
        let own = [
            ("order", about.order.to_owned()),
            ("pace", about.pace.to_string()),
            ("io", about.executor.to_string()),
            // Whoever reads the result is elsewhere.
            ("target", std::path::absolute(about.target).unwrap_or_else(|_| about.target.into()).display().to_string()),
            ("filesystem", about.file_system.to_owned()),
            ("cache", about.cache.start.words().to_owned()),
        ];
        let continued = about.rest.into_iter().flat_map(|rest| {
            [(resume::CONTINUES, rest.continues.clone()), (FIRST_ACTION, rest.numbers.first_action.to_string())]
        });
        let limit = about.cache.limit_bytes.map(|bytes| (MEMORY_LIMIT, kib_text(bytes)));
        let facts = own.into_iter().chain(continued).chain(limit);
        Opening {
            trace: about.trace.to_owned(),
            started_ns: about.started_ns,
            planned: about.planned,
            rest: about.rest.cloned(),
            facts: facts.map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    fn of_result(result: &ReplayResult) -> Opening {
        Opening::of(&About {
            trace: &result.trace,
            order: &result.order,
            pace: result.pace,
            executor: result.executor,
            target: &result.target,
            file_system: &result.file_system,
            started_ns: result.started_ns,
            planned: result.planned,
            rest: result.rest.as_ref(),
            cache: &result.cache,
        })
    }
}

/// What was around the replay.
#[derive(Debug, Clone, Default)]
pub struct Around {
    /// Added to the manifest's own facts (`order`, `pace`, `target`, `filesystem`, `confinement`, `end`, `cache`, `memory_limit`; of one that ended early
    /// `cut`, of one that continues another `continues` and `first_action`).
    pub facts: BTreeMap<String, String>,
    /// Mounts at the start.
    pub mounts: Vec<Mount>,
    /// Settings of queues at the start.
    pub queues: Vec<QueueSetting>,
    /// Samples over time.
    pub environment: Vec<Environment>,
    /// Samples of devices over time.
    pub devices: Vec<DeviceSample>,
}

impl Around {
    fn write(&self, writer: &mut TraceWriter) -> Result<(), WriteError> {
        self.mounts.iter().cloned().try_for_each(|row| writer.mount(row))?;
        self.queues.iter().cloned().try_for_each(|row| writer.queue(row))?;
        self.environment.iter().cloned().try_for_each(|row| writer.environment(row))?;
        self.devices.iter().cloned().try_for_each(|row| writer.device(row))
    }
}

/// Writes the trace of a replay of `original` to the directory `out`, with what was around the replay.
///
/// # Errors
/// When the original or the log cannot be read, or the trace not be written.
pub fn emit(result: &ReplayResult, original: &TraceReader, out: &Path, around: &Around) -> Result<Manifest, EmitError> {
    let end = match &result.end {
        End::Complete => COMPLETE.to_owned(),
        End::FirstDivergence => "ended at the first divergence".to_owned(),
        End::Interrupted => "interrupted".to_owned(),
        End::Failed(error) => error.to_string(),
    };
    let mut opening = Opening::of_result(result);
    let cut = result.cut.map(|cut| (CUT, cut.to_string()));
    let cost = result.cost.iter().flat_map(|cost| cost.facts()).map(|(name, count)| (name, count.to_string()));
    let device_bytes = result.cache.device_bytes.map(|bytes| ("device_bytes_read", bytes.to_string()));
    let closing = [("confinement", result.confinement.clone()), (END, end)]
        .into_iter()
        .chain(cut)
        .chain(cost)
        .chain(device_bytes);
    opening.facts.extend(closing.map(|(name, value)| (name.to_owned(), value)));
    write(opening, &result.log, &result.notes, original, out, around)
}

/// The same of a replay that was killed before it could do so itself.
///
/// # Errors
/// As [`emit`].
pub fn emit_unfinished(left: &Unfinished, original: &TraceReader, out: &Path) -> Result<Manifest, EmitError> {
    let mut opening = left.opening.clone();
    let first = opening.rest.as_ref().map_or(0, |rest| rest.numbers.first_action);
    let all_done = left.cut >= first.saturating_add(opening.planned);
    let cut = (!all_done).then(|| (CUT, left.cut.to_string()));
    let end = if all_done { COMPLETE } else { KILLED };
    let closing = [(END, end.to_owned())].into_iter().chain(cut);
    opening.facts.extend(closing.map(|(name, value)| (name.to_owned(), value)));
    let notes =
        [("the replay was killed: its result was made afterwards, of the log that it left behind".to_owned(), 1)];
    write(opening, &left.log, &notes, original, out, &Around::default())
}

fn write(
    opening: Opening,
    log: &ReplayLog,
    notes: &[(String, u64)],
    original: &TraceReader,
    out: &Path,
    around: &Around,
) -> Result<Manifest, EmitError> {
    let about = original.manifest();
    if about.id != opening.trace {
        return Err(EmitError::OtherTrace { replayed: opening.trace, given: about.id.clone() });
    }
    let id = random_identity()?;
    let mut manifest =
        Manifest::new(Kind::Replay, about.data, about.command.clone(), id, opening.started_ns, Host::this());
    manifest.origin = Some(about.id.clone());
    manifest.facts.extend(opening.facts);
    manifest.facts.extend(around.facts.clone());
    let mut writer = TraceWriter::create(out, manifest, WriterOptions::default())?;
    for process in original.processes()? {
        writer.process(process)?;
    }
    for thread in original.threads()? {
        writer.thread(thread)?;
    }
    for descriptor in original.descriptors()? {
        writer.descriptor(descriptor)?;
    }
    for lock in original.locks()? {
        writer.lock(lock)?;
    }
    for mapping in original.mappings()? {
        writer.mapping(mapping)?;
    }
    for (text, count) in notes {
        *writer.ledger().notes.entry(text.clone()).or_default() += count;
    }
    around.write(&mut writer)?;
    let first_action = opening.rest.map_or(0, |rest| rest.numbers.first_action);
    actions(log, first_action, original, &mut writer)?;
    Ok(writer.close(about.end)?)
}

fn actions(
    log: &ReplayLog,
    first_action: u64,
    original: &TraceReader,
    writer: &mut TraceWriter,
) -> Result<(), EmitError> {
    let mut rows = Lookup::starting(original, first_action);
    let mut contents = Contents::new(original);
    let mut seq = 0;
    for record in log.merged() {
        let record = record?;
        let Some(row) = rows.take(record.origin)? else {
            writer.ledger().note("actions of the plan that the trace does not have, or has once only");
            continue;
        };
        let action = contents.action(&record, row, seq, writer)?;
        account(&record, &action, writer);
        writer.action(action)?;
        seq += 1;
    }
    Ok(())
}

/// Enters what was lost or differs into the ledger.
fn account(record: &Record, action: &Action, writer: &mut TraceWriter) {
    let seq = Some(action.seq);
    let call = &action.call;
    let difference = &record.difference;
    let reason = || match (difference.code, reprise_calls::by_number(record.number).map(|c| (c.replay, c.effect))) {
        (Code::MappingRange | Code::Refused, _) => difference.text(),
        (_, Some((Replay::Skip(reason) | Replay::Unsupported(reason), _))) => reason.to_owned(),
        (_, Some((_, Effect::MappedRead | Effect::MappedWrite))) => "its mapping does not exist here".to_owned(),
        (_, Some((_, Effect::Map | Effect::Unmap | Effect::Remap | Effect::MapAdvise | Effect::MapSync))) => {
            "concerns no file's mapping".to_owned()
        }
        (_, Some((_, Effect::DeviceControl))) => {
            "a request that no replay does, on a file it may have changed".to_owned()
        }
        (_, Some((_, Effect::Write))) => "stores to a mapped file through the memory of a process".to_owned(),
        (_, Some(_)) => "left out by the plan".to_owned(),
        (_, None) => "unknown call".to_owned(),
    };
    match record.handling {
        Handling::Issued | Handling::Simulated => {}
        Handling::Skipped => writer.ledger().count(Loss::Skipped, format!("{call}: {}", reason()), 0, seq),
        Handling::Unsupported => writer.ledger().count(Loss::Unsupported, format!("{call}: {}", reason()), 0, seq),
    }
    match difference.class {
        Class::Same => {}
        Class::Diverged => {
            writer.ledger().count(Loss::Diverged, format!("{call}: {}", difference.general()), 0, seq);
        }
        Class::Unavoidable => writer.ledger().note(format!("unavoidable: {}", difference.excuse())),
    }
}
