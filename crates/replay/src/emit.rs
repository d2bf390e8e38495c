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
    Action, DeviceSample, Environment, FIRST_ACTION, Host, Kind, Lookup, Loss, Manifest, Mount, QueueSetting,
    ReadError, TraceReader, TraceWriter, WriteError, WriterOptions, random_identity,
};

use crate::log::{Class, Code, Handling, Record};
use crate::resume;
use crate::run::{End, ReplayResult};
use contents::Contents;

/// The fact `end` of a replay that performed all actions.
pub(crate) const COMPLETE: &str = "complete";
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
    let about = original.manifest();
    if about.id != result.trace {
        return Err(EmitError::OtherTrace { replayed: result.trace.clone(), given: about.id.clone() });
    }
    let id = random_identity()?;
    let mut manifest =
        Manifest::new(Kind::Replay, about.data, about.command.clone(), id, result.started_ns, Host::this());
    manifest.origin = Some(about.id.clone());
    let end = match &result.end {
        End::Complete => COMPLETE.to_owned(),
        End::FirstDivergence => "ended at the first divergence".to_owned(),
        End::Interrupted => "interrupted".to_owned(),
        End::Failed(error) => error.to_string(),
    };
    let own = [
        ("order", result.order.clone()),
        ("pace", result.pace.to_string()),
        ("io", result.executor.to_string()),
        ("target", result.target.display().to_string()),
        ("filesystem", result.file_system.clone()),
        ("confinement", result.confinement.clone()),
        ("end", end),
    ];
    manifest.facts.extend(own.map(|(name, value)| (name.to_owned(), value)));
    let continued = result.rest.iter().flat_map(|rest| {
        [(resume::CONTINUES, rest.continues.clone()), (FIRST_ACTION, rest.numbers.first_action.to_string())]
    });
    let cut = result.cut.map(|cut| (resume::CUT, cut.to_string()));
    manifest.facts.extend(continued.chain(cut).map(|(name, value)| (name.to_owned(), value)));
    manifest.facts.insert("cache".into(), result.cache.start.words().into());
    let limit = result.cache.limit_bytes.map(|bytes| format!("{} kB", bytes / 1024));
    manifest.facts.extend(limit.map(|text| ("memory_limit".to_owned(), text)));
    let used =
        [("involuntary_switches", result.involuntary_switches), ("device_bytes_read", result.cache.device_bytes)];
    manifest.facts.extend(used.into_iter().filter_map(|(name, count)| Some((name.to_owned(), count?.to_string()))));
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
    for (text, count) in &result.notes {
        *writer.ledger().notes.entry(text.clone()).or_default() += count;
    }
    around.write(&mut writer)?;
    actions(result, original, &mut writer)?;
    Ok(writer.close(about.end)?)
}

fn actions(result: &ReplayResult, original: &TraceReader, writer: &mut TraceWriter) -> Result<(), EmitError> {
    let mut rows = Lookup::starting(original, result.first_action());
    let mut contents = Contents::new(original);
    let mut seq = 0;
    for record in result.log.merged() {
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
