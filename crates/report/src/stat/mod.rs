//! Calls, errors, bytes and response times, by call, path or thread.
//!
//! Goals: one pass, memory in proportion to the number of groups; descriptors counted under the path they were opened as.
//! Non-goals: judging whether a time is to be trusted.

mod text;

use std::collections::HashMap;

use reprise_calls::{Call, Effect};
use reprise_measure::{Distribution, Samples, SizeClass, Sizes};
use reprise_model::{World, asked_bytes, moved_bytes};
use reprise_trace::{Action, Name, ReadError, ThreadRow, TraceReader};
use serde::Serialize;

/// What actions are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The call.
    #[default]
    Call,
    /// The file: the first path argument as an absolute path, or the path that the first descriptor was opened as.
    Path,
    /// The thread.
    Thread,
}

/// One group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatRow {
    /// Call, path, or number and name of the thread.
    pub key: String,
    /// Number of actions.
    pub calls: u64,
    /// How many failed.
    pub errors: u64,
    /// Bytes moved by those that succeeded.
    pub bytes: u64,
    /// Response times.
    pub response: Distribution,
}

/// The counts of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stat {
    /// What the rows are.
    pub by: By,
    /// The groups, the longest total time first.
    pub rows: Vec<StatRow>,
    /// All actions.
    pub total: StatRow,
    /// Sizes of reads: bytes asked for.
    pub read_sizes: Vec<SizeClass>,
    /// Sizes of writes: bytes given.
    pub write_sizes: Vec<SizeClass>,
}

#[derive(Default)]
struct Group {
    errors: u64,
    bytes: u64,
    response: Samples,
}

impl Group {
    fn add(&mut self, action: &Action, bytes: u64) {
        self.errors += u64::from(action.result < 0);
        self.bytes = self.bytes.saturating_add(bytes);
        self.response.add(action.duration_ns);
    }

    fn row(&self, key: String) -> StatRow {
        StatRow {
            key,
            calls: self.response.count(),
            errors: self.errors,
            bytes: self.bytes,
            response: self.response.distribution(),
        }
    }
}

/// Counts the actions of a trace.
///
/// # Errors
/// The trace cannot be read.
pub fn stat(trace: &TraceReader, by: By) -> Result<Stat, ReadError> {
    let mut world = (by == By::Path).then(|| World::begin(trace, false)).transpose()?;
    let threads = if by == By::Thread { trace.threads()? } else { Vec::new() };
    let mut groups: HashMap<String, Group> = HashMap::new();
    let (mut total, mut reads, mut writes) = (Group::default(), Sizes::default(), Sizes::default());
    for action in trace.actions() {
        let action = action?;
        let call = reprise_calls::by_name(&action.call);
        let moved = call.and_then(|call| moved_bytes(call, &action)).unwrap_or(0);
        match call.map(|c| (c, c.effect)) {
            Some((call, Effect::Read)) => reads.add(asked_bytes(call, &action).unwrap_or(0)),
            Some((call, Effect::Write)) => writes.add(asked_bytes(call, &action).unwrap_or(0)),
            _ => {}
        }
        let key = match (&mut world, by) {
            (Some(world), _) => path(world, call, &action)?,
            (None, By::Thread) => thread_key(&threads, action.thread),
            (None, By::Call | By::Path) => action.call.to_string(),
        };
        groups.entry(key).or_default().add(&action, moved);
        total.add(&action, moved);
    }
    let mut rows: Vec<StatRow> = groups.into_iter().map(|(key, group)| group.row(key)).collect();
    rows.sort_by(|a, b| b.response.total_ns.cmp(&a.response.total_ns).then_with(|| a.key.cmp(&b.key)));
    Ok(Stat {
        by,
        rows,
        total: total.row("total".to_owned()),
        read_sizes: reads.classes(),
        write_sizes: writes.classes(),
    })
}

/// The path an action concerns. Follows the action.
fn path(world: &mut World, call: Option<&'static Call>, action: &Action) -> Result<String, ReadError> {
    let Some(call) = call else { return Ok("[unknown call]".to_owned()) };
    let found = world.concerned_path(call, action);
    world.step(call, action)?;
    Ok(found.map_or_else(|| "[no file]".to_owned(), |p| Name(p).to_text()))
}

fn thread_key(threads: &[ThreadRow], thread: u32) -> String {
    let row = threads.iter().find(|t| t.thread == thread);
    let name = row.map(|t| format!(" {}", t.name)).unwrap_or_default();
    format!("T{thread}{name}")
}
