//! Every edge between threads, streamed, each with the actions at its ends.
//!
//! Goals: the edges a plan has, as numbers of actions, for tables and pictures. What is remembered is a number for each action
//! of a thread that another may still wait for: eight bytes an action.

use reprise_trace::{ThreadRow, TraceReader};

use super::pass::pass;
use crate::compile::CompileError;
use crate::order::Order;

/// An edge between two actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arc {
    /// What is waited for: its `seq`.
    pub from: u64,
    /// Its thread.
    pub from_thread: u32,
    /// When it completed, nanoseconds since the trace began.
    pub from_end_ns: u64,
    /// What waits: its `seq`.
    pub to: u64,
    /// Its thread.
    pub to_thread: u32,
    /// When it began, nanoseconds since the trace began.
    pub to_begin_ns: u64,
    /// When it completed; before the other one, if they overlapped.
    pub to_end_ns: u64,
    /// The ordering rule.
    pub rule: &'static str,
}

/// Shows every edge of a trace under an ordering, those of one action together, in order of effect.
///
/// # Errors
/// When the trace cannot be read, or contradicts itself.
pub fn edges(trace: &TraceReader, order: Order, see: &mut dyn FnMut(Arc)) -> Result<(), CompileError> {
    let mut done: Vec<Vec<u64>> = vec![Vec::new(); trace.count::<ThreadRow>() as usize];
    pass(trace, order, false, &mut |seen| {
        let action = seen.action;
        for edge in &seen.waits.edges {
            let place = edge.wait.count.checked_sub(1).and_then(|n| usize::try_from(n).ok());
            let from = place.and_then(|place| done.get(edge.wait.thread as usize)?.get(place).copied());
            if let Some(from) = from {
                see(Arc {
                    from,
                    from_thread: edge.wait.thread,
                    from_end_ns: edge.end_ns,
                    to: action.seq,
                    to_thread: action.thread,
                    to_begin_ns: action.begin_ns,
                    to_end_ns: action.end_ns(),
                    rule: edge.wait.rule.name(),
                });
            }
        }
        // The pass has refused threads that are not in the table.
        done[action.thread as usize].push(action.seq);
        true
    })
}
