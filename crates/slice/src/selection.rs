//! Which actions are asked for.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use reprise_calls::{ArgKind, Call};
use reprise_model::World;
use reprise_trace::{Action, Name, Process, ThreadRow};

use crate::SliceError;
use crate::moment::Moment;

/// A process, as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessName {
    /// By its number in the trace.
    Number(u32),
    /// By the kernel's number; several processes of a trace may have had it.
    Pid(i32),
}

impl FromStr for ProcessName {
    type Err = String;
    fn from_str(text: &str) -> Result<ProcessName, String> {
        let wrong = |_| format!("'{text}' is no process; give its number in the trace, or pid:N");
        match text.strip_prefix("pid:") {
            Some(pid) => pid.parse().map(ProcessName::Pid).map_err(wrong),
            None => text.parse().map(ProcessName::Number).map_err(wrong),
        }
    }
}

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessName::Number(number) => write!(f, "{number}"),
            ProcessName::Pid(pid) => write!(f, "pid:{pid}"),
        }
    }
}

/// What is asked for: actions that fit every kind of condition that is given. Of one kind, any will do.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// From this moment.
    pub from: Moment,
    /// To this moment.
    pub to: Moment,
    /// Actions of these processes.
    pub processes: Vec<ProcessName>,
    /// Actions of these threads.
    pub threads: Vec<u32>,
    /// Actions on these paths, and what is below them.
    pub paths: Vec<Vec<u8>>,
    /// These calls.
    pub calls: Vec<String>,
    /// Leave out what others did, even where the chosen actions depend on it.
    pub strict: bool,
}

impl Selection {
    /// Whether everything between the moments is asked for.
    pub fn is_by_time_only(&self) -> bool {
        self.processes.is_empty() && self.threads.is_empty() && self.paths.is_empty() && self.calls.is_empty()
    }

    /// All conditions but the moments, in words.
    pub fn conditions(&self) -> String {
        let processes = self.processes.iter().map(|p| format!("--process {p}"));
        let threads = self.threads.iter().map(|t| format!("--thread {t}"));
        let paths = self.paths.iter().map(|p| format!("--path {}", Name(p.clone()).to_text()));
        let calls = self.calls.iter().map(|c| format!("--call {c}"));
        let strict = self.strict.then(|| "--strict".to_owned());
        processes.chain(threads).chain(paths).chain(calls).chain(strict).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions = self.conditions();
        let space = if conditions.is_empty() { "" } else { " " };
        write!(f, "--from {} --to {}{space}{conditions}", self.from, self.to)
    }
}

/// A selection with names looked up.
pub(crate) struct Chooser<'a> {
    selection: &'a Selection,
    threads: Option<HashSet<u32>>,
}

impl<'a> Chooser<'a> {
    pub fn new(selection: &'a Selection, threads: &[ThreadRow], processes: &[Process]) -> Result<Self, SliceError> {
        let mut chosen = HashSet::new();
        for &thread in &selection.threads {
            if !threads.iter().any(|t| t.thread == thread) {
                return Err(SliceError::Unknown { what: format!("thread {thread}") });
            }
            chosen.insert(thread);
        }
        for &name in &selection.processes {
            let is = |p: &&Process| match name {
                ProcessName::Number(number) => p.process == number,
                ProcessName::Pid(pid) => p.pid == pid,
            };
            let found: HashSet<u32> = processes.iter().filter(is).map(|p| p.process).collect();
            if found.is_empty() {
                return Err(SliceError::Unknown { what: format!("process {name}") });
            }
            chosen.extend(threads.iter().filter(|t| found.contains(&t.process)).map(|t| t.thread));
        }
        // What a thread submits is its own doing.
        let lanes = threads.iter().filter(|t| t.lane_of.is_some_and(|submitter| chosen.contains(&submitter)));
        chosen.extend(lanes.map(|t| t.thread).collect::<Vec<_>>());
        let all = selection.threads.is_empty() && selection.processes.is_empty();
        Ok(Chooser { selection, threads: (!all).then_some(chosen) })
    }

    /// Whether an action that is about to be followed is asked for.
    pub fn wants(&self, world: &World, call: Option<&Call>, action: &Action) -> bool {
        let s = self.selection;
        self.threads.as_ref().is_none_or(|threads| threads.contains(&action.thread))
            && (s.calls.is_empty() || s.calls.iter().any(|call| *call == action.call))
            && (s.paths.is_empty() || call.is_some_and(|call| self.on_path(world, call, action)))
    }

    fn on_path(&self, world: &World, call: &Call, action: &Action) -> bool {
        let below =
            |path: Option<Vec<u8>>| path.is_some_and(|path| self.selection.paths.iter().any(|p| is_below(&path, p)));
        (0..2).any(|number| below(world.argument_path(call, action, number)))
            || call.args.iter().zip(action.args).any(|(arg, value)| {
                matches!(arg.kind, ArgKind::Fd(_)) && below(world.descriptor_path(action.thread, value))
            })
    }
}

/// Whether a path is a place or lies below it.
pub(crate) fn is_below(path: &[u8], place: &[u8]) -> bool {
    let place = place.strip_suffix(b"/").unwrap_or(place);
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_is_by_component() {
        for (path, place, wanted) in [
            ("/a/b", "/a", true),
            ("/a", "/a", true),
            ("/a", "/a/", true),
            ("/ab", "/a", false),
            ("/a", "/", true),
            ("/", "/a", false),
        ] {
            assert_eq!(is_below(path.as_bytes(), place.as_bytes()), wanted, "{path} {place}");
        }
    }
}
