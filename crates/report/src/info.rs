//! What a trace is, and what it lacks.

use std::collections::BTreeMap;

use reprise_calls::Effect;
use reprise_trace::{Content, DataPolicy, End, Host, Kind, Ledger, Name, Process, ReadError, TraceReader, TreeNode};
use serde::Serialize;

use crate::environment::{self, Summary};

/// How often a call was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallCount {
    /// Its name.
    pub call: String,
    /// How often.
    pub count: u64,
    /// How often it failed.
    pub errors: u64,
}

/// The facts of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Info {
    /// Where it is.
    pub path: String,
    /// Its identity.
    pub id: String,
    /// Record or replay.
    pub kind: Kind,
    /// For a replay: identity of the trace that was replayed.
    pub origin: Option<String>,
    /// Version of the format.
    pub format: String,
    /// Program and version that wrote it.
    pub writer: String,
    /// What was run.
    pub command: Vec<String>,
    /// Start, nanoseconds since the epoch.
    pub started_ns: u64,
    /// From the start to the last completion, in nanoseconds.
    pub duration_ns: u64,
    /// The machine.
    pub host: Host,
    /// Facts of the recorder or the replay.
    pub facts: BTreeMap<String, String>,
    /// How content was kept.
    pub data: DataPolicy,
    /// Closed in order.
    pub complete: bool,
    /// How the program ended.
    pub end: Option<End>,
    /// How a replay ended, if that was before its last action.
    pub ended_early: Option<String>,
    /// Number of actions.
    pub actions: u64,
    /// Number of threads.
    pub threads: u64,
    /// Number of lanes, which perform asynchronous requests.
    pub lanes: u64,
    /// Number of processes.
    pub processes: u64,
    /// Actions that failed.
    pub errors: u64,
    /// Bytes that calls read.
    pub read_bytes: u64,
    /// Bytes that calls wrote.
    pub written_bytes: u64,
    /// Bytes that calls moved inside the kernel.
    pub copied_bytes: u64,
    /// Size on disk.
    pub stored_bytes: u64,
    /// Names of the initial tree.
    pub tree_names: u64,
    /// Ranges of content that were observed besides.
    pub contents: u64,
    /// Directories taken with contents before the start.
    pub snapshots: Vec<String>,
    /// All calls, the most frequent first.
    pub calls: Vec<CallCount>,
    /// Calls that this program has no row for: name, number of actions.
    pub unknown_calls: BTreeMap<String, u64>,
    /// Tables that this program does not know.
    pub unknown_tables: Vec<String>,
    /// Directory outside of the trace where its contents are.
    pub contents_in: Option<String>,
    /// Directory in which the program began.
    pub directory: Option<Name>,
    /// What was around the program.
    pub environment: Option<Summary>,
    /// Losses and notes.
    pub ledger: Ledger,
}

/// Gathers the facts of a trace; every action is read.
///
/// # Errors
/// The trace cannot be read.
pub fn info(trace: &TraceReader) -> Result<Info, ReadError> {
    let about = trace.manifest();
    let mut info = Info {
        path: trace.path().display().to_string(),
        id: about.id.clone(),
        kind: about.kind,
        origin: about.origin.clone(),
        format: format!("{}.{}", about.major, about.minor),
        writer: about.writer.clone(),
        command: about.command.clone(),
        started_ns: about.started_ns,
        duration_ns: 0,
        host: about.host.clone(),
        facts: about.facts.clone(),
        data: about.data,
        complete: about.complete,
        end: about.end,
        ended_early: about.ended_early().map(str::to_owned),
        actions: 0,
        threads: 0,
        lanes: 0,
        processes: trace.count::<Process>(),
        errors: 0,
        read_bytes: 0,
        written_bytes: 0,
        copied_bytes: 0,
        stored_bytes: trace.stored_bytes(),
        tree_names: trace.count::<TreeNode>(),
        contents: trace.count::<Content>(),
        snapshots: about.snapshots.clone(),
        calls: Vec::new(),
        unknown_calls: BTreeMap::new(),
        unknown_tables: trace.unknown_tables().into_iter().map(str::to_owned).collect(),
        contents_in: reprise_trace::contents_elsewhere(trace.path()).map(|place| place.display().to_string()),
        directory: trace.rows::<Process>().next().transpose()?.map(|first| first.cwd),
        environment: environment::summary(trace)?,
        ledger: trace.ledger().clone(),
    };
    for row in trace.rows::<reprise_trace::ThreadRow>() {
        let count = if row?.lane_of.is_some() { &mut info.lanes } else { &mut info.threads };
        *count += 1;
    }
    let mut calls: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for action in trace.actions() {
        let action = action?;
        info.actions += 1;
        let end = action.end_ns();
        info.duration_ns = info.duration_ns.max(end);
        let failed = u64::from(action.result < 0);
        info.errors += failed;
        let moved = u64::try_from(action.result).unwrap_or(0);
        match reprise_calls::by_name(&action.call).map(|c| c.effect) {
            Some(Effect::Read | Effect::MappedRead) => info.read_bytes = info.read_bytes.saturating_add(moved),
            Some(Effect::Write | Effect::MappedWrite) => info.written_bytes = info.written_bytes.saturating_add(moved),
            Some(Effect::Copy | Effect::Splice) => {
                info.copied_bytes = info.copied_bytes.saturating_add(moved);
            }
            Some(_) => {}
            None => *info.unknown_calls.entry(action.call.to_string()).or_default() += 1,
        }
        let (count, errors) = calls.entry(action.call.into_owned()).or_default();
        *count += 1;
        *errors += failed;
    }
    info.calls = calls.into_iter().map(|(call, (count, errors))| CallCount { call, count, errors }).collect();
    info.calls.sort_by_key(|c| std::cmp::Reverse(c.count));
    Ok(info)
}
