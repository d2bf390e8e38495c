//! Why one action waits.

use std::collections::HashMap;

use reprise_trace::TraceReader;
use serde::Serialize;

use super::pass::{Seen, pass};
use crate::compile::CompileError;
use crate::order::{Edge, Order};

/// One dependency of the action.
#[derive(Debug, Clone, Serialize)]
pub struct Reason {
    /// The action that it waits for.
    pub action: u64,
    /// That action's thread.
    pub thread: u32,
    /// That action's call.
    pub call: String,
    /// That action's path, if it has one.
    pub path: Option<String>,
    /// The rule.
    pub rule: &'static str,
    /// What both touch.
    pub resource: Option<String>,
    /// From that action's end to this one's begin in the trace; negative if they overlapped.
    pub length_ns: i64,
    /// The thread has waited for this, or something later, before: no wait is compiled.
    pub implied: bool,
}

/// An action and its dependencies.
#[derive(Debug, Clone, Serialize)]
pub struct Why {
    /// The action.
    pub action: u64,
    /// Its thread.
    pub thread: u32,
    /// Its call.
    pub call: String,
    /// Its path, if it has one.
    pub path: Option<String>,
    /// From the end of the last dependency, also in its own thread, to its begin in the trace.
    pub predelay_ns: Option<u64>,
    /// What it waits for, the latest first.
    pub reasons: Vec<Reason>,
}

type Point = (u32, u64);

/// Explains an action; `None` if the trace has no such action.
///
/// # Errors
/// When the trace cannot be read, or contradicts itself.
pub fn why(trace: &TraceReader, order: Order, action: u64) -> Result<Option<Why>, CompileError> {
    let mut found: Option<(Why, Vec<Point>)> = None;
    pass(trace, order, true, &mut |seen| {
        if seen.action.seq == action {
            found = Some(explained(&seen));
        }
        seen.action.seq < action
    })?;
    let Some((mut why, points)) = found else { return Ok(None) };
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for action in trace.actions() {
        let action = action?;
        if action.seq >= why.action {
            break;
        }
        let count = counts.entry(action.thread).or_default();
        *count += 1;
        if let Some(at) = points.iter().position(|p| *p == (action.thread, *count)) {
            let reason = &mut why.reasons[at];
            reason.action = action.seq;
            reason.path = action.path.as_ref().map(|p| String::from_utf8_lossy(p).into_owned());
            reason.call = action.call.into_owned();
        }
    }
    why.reasons.sort_by_key(|r| r.length_ns);
    Ok(Some(why))
}

fn explained(seen: &Seen<'_>) -> (Why, Vec<Point>) {
    let begin_ns = seen.action.begin_ns;
    let reason = |edge: &Edge, implied| Reason {
        action: 0,
        thread: edge.wait.thread,
        call: String::new(),
        path: None,
        rule: edge.wait.rule.name(),
        resource: edge.resource.map(|resource| seen.world.describe(resource)),
        length_ns: begin_ns as i64 - edge.end_ns as i64,
        implied,
    };
    let edges = seen.waits.edges.iter().map(|e| (e, false)).chain(seen.waits.implied.iter().map(|e| (e, true)));
    let (reasons, points) = edges.map(|(e, implied)| (reason(e, implied), (e.wait.thread, e.wait.count))).unzip();
    let why = Why {
        action: seen.action.seq,
        thread: seen.action.thread,
        call: seen.action.call.to_string(),
        path: seen.action.path.as_ref().map(|p| String::from_utf8_lossy(p).into_owned()),
        predelay_ns: seen.waits.ready_ns.map(|ready| begin_ns.saturating_sub(ready)),
        reasons,
    };
    (why, points)
}
