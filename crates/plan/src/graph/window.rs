//! A part of the graph, small enough for a picture.

use std::ops::Range;

use reprise_trace::TraceReader;
use serde::Serialize;

use super::pass::{Seen, pass};
use crate::compile::CompileError;
use crate::order::{Order, Rule};

/// An action in the window.
#[derive(Debug, Clone, Serialize)]
pub struct Span {
    /// The action.
    pub action: u64,
    /// Its thread.
    pub thread: u32,
    /// Its place among its thread's actions, from 1.
    pub count: u64,
    /// Its call.
    pub call: String,
    /// Its path, or the first descriptor.
    pub object: String,
    /// Begin, nanoseconds since the trace began.
    pub begin_ns: u64,
    /// End, nanoseconds since the trace began.
    pub end_ns: u64,
}

/// An edge between two spans, by their places in [`Window::spans`].
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Arrow {
    /// What is waited for.
    pub from: usize,
    /// What waits.
    pub to: usize,
    /// Why.
    pub rule: &'static str,
}

/// Actions and the edges among them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Window {
    /// Every rule in force.
    pub order: String,
    /// The actions, in order of effect.
    pub spans: Vec<Span>,
    /// The edges; those to actions outside are left out.
    pub arrows: Vec<Arrow>,
    /// Edges to actions before the window.
    pub from_before: u64,
}

/// The actions that `chosen` picks by number and begin, as long as there are no more than `most`.
///
/// # Errors
/// When the trace cannot be read, or contradicts itself.
pub fn window(
    trace: &TraceReader,
    order: Order,
    actions: Range<u64>,
    times_ns: Range<u64>,
    most: usize,
) -> Result<Window, CompileError> {
    let mut window = Window { order: order.rules_text(), ..Window::default() };
    pass(trace, order, false, &mut |seen| {
        if actions.contains(&seen.action.seq) && times_ns.contains(&seen.action.begin_ns) {
            window.add(&seen);
        }
        window.spans.len() < most && seen.action.seq < actions.end
    })?;
    Ok(window)
}

impl Window {
    fn place(&self, thread: u32, count: u64) -> Option<usize> {
        self.spans.iter().rposition(|s| s.thread == thread && s.count == count)
    }

    fn add(&mut self, seen: &Seen<'_>) {
        let to = self.spans.len();
        let own = seen.count - 1;
        if let Some(from) = self.place(seen.action.thread, own) {
            self.arrows.push(Arrow { from, to, rule: Rule::Thread.name() });
        }
        for edge in &seen.waits.edges {
            match self.place(edge.wait.thread, edge.wait.count) {
                Some(from) => self.arrows.push(Arrow { from, to, rule: edge.wait.rule.name() }),
                None => self.from_before += 1,
            }
        }
        let action = seen.action;
        let object = match &action.path {
            Some(path) => String::from_utf8_lossy(path).into_owned(),
            None => (action.args[0] as i32).to_string(),
        };
        self.spans.push(Span {
            action: action.seq,
            thread: action.thread,
            count: seen.count,
            call: action.call.to_string(),
            object,
            begin_ns: action.begin_ns,
            end_ns: seen.action.end_ns(),
        });
    }
}
