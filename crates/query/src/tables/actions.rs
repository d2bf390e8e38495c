//! The table of actions, with what the model knows of each.

use reprise_trace::{Action, Name};
use rusqlite::types::Value;

use crate::table::{Column, Table, number, optional, text};

/// An action, and what the model knows of it.
#[derive(Default)]
pub struct Known {
    pub action: Action,
    pub file: Option<String>,
    pub file_id: Option<u64>,
    pub offset: Option<u64>,
    pub asked: Option<u64>,
    pub moved: Option<u64>,
}

impl Known {
    /// Columns that only following the trace tells.
    pub const FOLLOWED: [&str; 3] = ["file", "file_id", "offset"];

    fn call(&self) -> Option<&'static reprise_calls::Call> {
        reprise_calls::by_name(&self.action.call)
    }
}

macro_rules! column {
    ($name:literal, $doc:literal, $value:expr) => {
        Column { name: $name, doc: $doc, value: $value }
    };
}
pub(super) use column;

fn name(name: &Option<Name>) -> Value {
    name.as_ref().map_or(Value::Null, |n| Value::Text(n.to_text()))
}

pub const ACTIONS: Table<Known> = Table {
    name: "actions",
    doc: "What the program did: a row a call, in the order of effects.",
    keyed: true,
    columns: &[
        column!("seq", "position in the order of effects, from 0", |k| number(k.action.seq)),
        column!("thread", "`threads.thread`", |k| number(k.action.thread.into())),
        column!("call", "name of the call", |k| Value::Text(k.action.call.to_string())),
        column!("category", "kind of work: read, write, sync, metadata, open/close, memory, process, other", |k| text(
            k.call().map(|call| call.category().word())
        )),
        column!("begin_ns", "entry, since the trace began", |k| number(k.action.begin_ns)),
        column!("duration_ns", "response time", |k| number(k.action.duration_ns)),
        column!("end_ns", "completion, since the trace began", |k| number(k.action.end_ns())),
        column!("result", "as the kernel returned it: negative is an error", |k| Value::Integer(k.action.result)),
        column!("errno", "name of the error", |k| text(k.action.errno.as_deref())),
        column!("file", "absolute path of the file that it concerns, or what its descriptor is (`[pipe]`)", |k| text(
            k.file.as_deref()
        )),
        column!("file_id", "of calls that move content: number of the file, whatever its names", |k| optional(
            k.file_id
        )),
        column!("offset", "of reads and writes that moved something: position in the file, implicit ones too", |k| {
            optional(k.offset)
        }),
        column!("asked_bytes", "of reads and writes: bytes asked for", |k| optional(k.asked)),
        column!("moved_bytes", "of calls that move content: bytes moved", |k| optional(k.moved)),
        column!("path", "first path argument, as passed", |k| name(&k.action.path)),
        column!("path2", "second path argument, as passed", |k| name(&k.action.path2)),
        column!("a0", "argument, as passed in a register; beyond 2⁶³ it is negative here", |k| number(
            k.action.args[0]
        )),
        column!("a1", "likewise", |k| number(k.action.args[1])),
        column!("a2", "likewise", |k| number(k.action.args[2])),
        column!("a3", "likewise", |k| number(k.action.args[3])),
        column!("a4", "likewise", |k| number(k.action.args[4])),
        column!("a5", "likewise", |k| number(k.action.args[5])),
        column!("data_bytes", "content moved, kept in the trace or not", |k| number(k.action.data_bytes)),
        column!("truncated_bytes", "content that the trace should have and has not", |k| number(
            k.action.truncated_bytes
        )),
        column!("cpu_ns", "processor time of the thread since its previous action (`record --cpu`)", |k| optional(
            k.action.cpu_ns
        )),
        column!("request", "of an asynchronous request: its number", |k| optional(k.action.request)),
        column!("origin", "of a replay's trace or a slice: `seq` in the original", |k| optional(k.action.origin)),
        column!("handling", "of a replay's trace: issued, simulated, skipped or unsupported", |k| text(
            k.action.handling.as_deref()
        )),
        column!(
            "difference",
            "of a replay's trace: how it differed; begins with `unavoidable: ` where none can do better",
            |k| { text(k.action.difference.as_deref()) }
        ),
        column!("waited_ns", "of a replay's trace: blocked for dependencies before it", |k| optional(
            k.action.waited_ns
        )),
        column!("waited_for", "of a replay's trace: the rule it was blocked for longest", |k| text(
            k.action.waited_for.as_deref()
        )),
        column!("paced_ns", "of a replay's trace: waited for the pace", |k| optional(k.action.paced_ns)),
        column!("issue_error_ns", "of a replay with a pace: instant of issue minus instant asked for", |k| {
            k.action.issue_error_ns.map_or(Value::Null, Value::Integer)
        }),
        column!("punctuality", "what made the issue error: see docs/FORMAT.md", |k| text(
            k.action.punctuality.as_deref()
        )),
    ],
};

/// An action of a replay, and which of the replays it is of.
pub struct Replayed {
    pub run: u64,
    pub action: Action,
}

pub const RESULTS: Table<Replayed> = Table {
    name: "results",
    doc: "What replays did (`--result`): a row an action of each, beside `actions` by `seq`.",
    keyed: false,
    columns: &[
        column!("run", "which `--result`, from 1", |r| number(r.run)),
        column!("seq", "`actions.seq` of what was replayed", |r| optional(r.action.origin)),
        column!("thread", "`threads.thread`", |r| number(r.action.thread.into())),
        column!("call", "name of the call", |r| Value::Text(r.action.call.to_string())),
        column!("begin_ns", "issue, since the replay began", |r| number(r.action.begin_ns)),
        column!("duration_ns", "response time", |r| number(r.action.duration_ns)),
        column!("result", "as the kernel returned it", |r| Value::Integer(r.action.result)),
        column!("handling", "issued, simulated, skipped or unsupported", |r| text(r.action.handling.as_deref())),
        column!("difference", "how it differed; begins with `unavoidable: ` where none can do better", |r| text(
            r.action.difference.as_deref()
        )),
        column!("waited_ns", "blocked for dependencies before it", |r| optional(r.action.waited_ns)),
        column!("waited_for", "the rule it was blocked for longest", |r| text(r.action.waited_for.as_deref())),
        column!("paced_ns", "waited for the pace", |r| optional(r.action.paced_ns)),
        column!("issue_error_ns", "instant of issue minus instant asked for", |r| {
            r.action.issue_error_ns.map_or(Value::Null, Value::Integer)
        }),
        column!("punctuality", "what made the issue error: see docs/FORMAT.md", |r| text(
            r.action.punctuality.as_deref()
        )),
    ],
};
