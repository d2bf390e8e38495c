//! The critical path: the longest chain of dependent actions, without think time.
//!
//! It bounds what a replay as fast as possible can gain from reordering: with calls as long as in the trace no replay under
//! this ordering is shorter. Memory: 16 bytes for each action.

use std::collections::BTreeMap;

use reprise_trace::{ThreadRow, TraceReader};
use serde::Serialize;

use super::pass::pass;
use crate::compile::CompileError;
use crate::order::{Order, Rule};

/// An action on the critical path.
#[derive(Debug, Clone, Serialize)]
pub struct Link {
    /// The action.
    pub action: u64,
    /// Its thread.
    pub thread: u32,
    /// Its call.
    pub call: String,
    /// Its response time in the trace.
    pub duration_ns: u64,
    /// Why it follows the link before it.
    pub rule: Option<&'static str>,
}

/// The longest chain.
#[derive(Debug, Clone, Serialize)]
pub struct CriticalPath {
    /// Time in calls along the chain.
    pub length_ns: u64,
    /// Time in all calls of the trace.
    pub total_ns: u64,
    /// From the first action's begin to the last one's end in the trace.
    pub traced_ns: u64,
    /// How many calls are in flight on average if nothing but this ordering holds them back.
    pub concurrency: f64,
    /// Time on the chain by call.
    pub by_call_ns: BTreeMap<String, u64>,
    /// How often a rule continues the chain in another thread.
    pub changes_by_rule: BTreeMap<&'static str, u64>,
    /// The chain, in order.
    pub links: Vec<Link>,
}

/// The point that an action follows on its longest chain: thread in the upper 22 bits, rule, count; 0 is none.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    finish_ns: u64,
    before: u64,
}

/// Finds the longest chain.
///
/// # Errors
/// When the trace cannot be read, or contradicts itself.
pub fn critical_path(trace: &TraceReader, order: Order) -> Result<CriticalPath, CompileError> {
    let threads = trace.count::<ThreadRow>() as usize;
    let mut steps: Vec<Vec<Step>> = vec![Vec::new(); threads];
    let mut spawned: Vec<Option<(u32, u64)>> = vec![None; threads];
    let (mut begin_ns, mut end_ns, mut total_ns) = (u64::MAX, 0, 0u64);
    pass(trace, order, false, &mut |seen| {
        let thread = seen.action.thread;
        let own = seen.count.checked_sub(1).filter(|n| *n > 0).map(|n| (thread, n, Rule::Thread));
        let own = own.or(spawned[thread as usize].map(|(t, n)| (t, n, Rule::Spawn)));
        let waits = seen.waits.edges.iter().map(|e| (e.wait.thread, e.wait.count, e.wait.rule));
        let before = own.into_iter().chain(waits);
        let finish = |(t, n, _): &(u32, u64, Rule)| steps[*t as usize][*n as usize - 1].finish_ns;
        let last = before.max_by_key(finish);
        let start_ns = last.as_ref().map_or(0, finish);
        steps[thread as usize].push(Step {
            finish_ns: start_ns.saturating_add(seen.action.duration_ns),
            before: last.map_or(0, |(thread, count, rule)| crate::command::Wait { thread, count, rule }.to_word()),
        });
        if let Some(place) = seen.spawned.and_then(|child| spawned.get_mut(child as usize)) {
            *place = Some((thread, seen.count));
        }
        begin_ns = begin_ns.min(seen.action.begin_ns);
        end_ns = end_ns.max(seen.action.end_ns());
        total_ns = total_ns.saturating_add(seen.action.duration_ns);
        true
    })?;
    let chain = chain(&steps);
    let length_ns = steps.iter().flatten().map(|s| s.finish_ns).max().unwrap_or(0);
    let links = links(trace, &chain)?;
    let mut by_call_ns = BTreeMap::new();
    let mut changes_by_rule = BTreeMap::new();
    for (link, before) in links.iter().zip(std::iter::once(None).chain(links.iter().map(Some))) {
        *by_call_ns.entry(link.call.clone()).or_default() += link.duration_ns;
        if let (Some(rule), Some(_)) = (link.rule, before.filter(|b| b.thread != link.thread)) {
            *changes_by_rule.entry(rule).or_default() += 1;
        }
    }
    Ok(CriticalPath {
        length_ns,
        total_ns,
        traced_ns: end_ns.saturating_sub(begin_ns),
        concurrency: total_ns as f64 / length_ns.max(1) as f64,
        by_call_ns,
        changes_by_rule,
        links,
    })
}

/// The points of the longest chain, in order, each with the rule that continues it.
fn chain(steps: &[Vec<Step>]) -> Vec<(u32, u64, Option<Rule>)> {
    let all = steps.iter().enumerate().flat_map(|(t, s)| s.iter().enumerate().map(move |(n, step)| (t, n, step)));
    let Some((thread, index, _)) = all.max_by_key(|(.., step)| step.finish_ns) else {
        return Vec::new();
    };
    let mut chain = Vec::new();
    let (mut thread, mut count) = (thread as u32, index as u64 + 1);
    loop {
        let before = steps[thread as usize][count as usize - 1].before;
        let wait = crate::command::Wait::from_word(before);
        chain.push((thread, count, (wait.count > 0).then_some(wait.rule)));
        if wait.count == 0 {
            break;
        }
        (thread, count) = (wait.thread, wait.count);
    }
    chain.reverse();
    chain
}

/// The actions at these points.
fn links(trace: &TraceReader, chain: &[(u32, u64, Option<Rule>)]) -> Result<Vec<Link>, CompileError> {
    let mut wanted = chain.iter().peekable();
    let mut counts = vec![0u64; trace.count::<ThreadRow>() as usize];
    let mut links = Vec::with_capacity(chain.len());
    for action in trace.actions() {
        let action = action?;
        let Some(&&(thread, count, rule)) = wanted.peek() else { break };
        let Some(own) = counts.get_mut(action.thread as usize) else { break };
        *own += 1;
        // Dependencies point backwards: the chain is in the order of the trace.
        if (action.thread, *own) == (thread, count) {
            wanted.next();
            links.push(Link {
                action: action.seq,
                thread,
                call: action.call.into_owned(),
                duration_ns: action.duration_ns,
                rule: rule.map(Rule::name),
            });
        }
    }
    Ok(links)
}
