//! Counting what was found.

use reprise_trace::Action;

use super::Waiting;
use super::comparison::Comparison;
use super::judge::{Kind, Verdict};
use crate::group::{Example, Gathered, Group};

/// The counts so far.
pub(super) struct Tally {
    pub counts: Comparison,
    groups: Gathered<(String, String), Example>,
}

impl Tally {
    pub fn new(counts: Comparison) -> Tally {
        Tally { counts, groups: Gathered::new() }
    }

    pub fn excused(&mut self, cause: &str) {
        self.counts.excused += 1;
        *self.counts.unavoidable.entry(cause.to_owned()).or_default() += 1;
    }

    pub fn diverged(&mut self, waiting: &Waiting, verdict: Verdict) {
        let Some(d) = verdict.difference else { return };
        self.counts.diverged += 1;
        let action = &waiting.action;
        self.groups.add(d.kind as u8, (d.cause, action.call.to_string()), || Example {
            origin: action.seq,
            thread: action.thread,
            path: waiting.context.path.clone(),
            text: d.text,
        });
    }

    pub fn extra(&mut self, found: &Action, origin: u64, cause: &str) {
        self.counts.extra += 1;
        self.groups.add(Kind::Extra as u8, (cause.to_owned(), found.call.to_string()), || Example {
            origin,
            thread: found.thread,
            path: passed_path(found),
            text: format!("row {} of the replay's trace", found.seq),
        });
    }

    pub fn missing(&mut self, action: &Action, path: String) {
        self.counts.missing += 1;
        let key = ("never replayed".to_owned(), action.call.to_string());
        self.groups.add(Kind::Missing as u8, key, || Example {
            origin: action.seq,
            thread: action.thread,
            path,
            text: "never replayed".to_owned(),
        });
    }

    /// The result, with its groups.
    pub fn finish(mut self) -> Comparison {
        let groups = self.groups.worst_first().into_iter();
        self.counts.groups =
            groups.map(|((cause, call), g)| Group { cause, call, count: g.count, first: g.first }).collect();
        self.counts
    }
}

/// The path of an action as it was passed, for actions that the model does not follow.
pub(super) fn passed_path(action: &Action) -> String {
    action.path.as_ref().map(|p| p.to_text()).unwrap_or_default()
}
