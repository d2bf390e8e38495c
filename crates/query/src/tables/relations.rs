//! What actions have to do with each other: resources that they touch, and dependencies that follow.

use reprise_model::{Resource, Touch};
use reprise_plan::graph::Arc;
use rusqlite::types::Value;

use super::actions::column;
use crate::table::{Column, Table, number, optional};

/// A resource that an action touches.
pub struct Touched {
    pub seq: u64,
    pub thread: u32,
    pub resource: Resource,
    pub touch: Touch,
}

pub const RESOURCES: Table<Touched> = Table {
    name: "resources",
    doc: "Which resources each action touches, and how: what ordering rules are about.",
    keyed: false,
    columns: &[
        column!("seq", "`actions.seq`", |t| number(t.seq)),
        column!("thread", "`threads.thread`", |t| number(t.thread.into())),
        column!(
            "resource",
            "file, content, size, attributes, locks, entry (a name), forgotten, names (of a directory), descriptor, \
             close_on_exec, offset, flags (of an open file), stream, request, mapping, table (of descriptors), directories, process",
            |t| Value::Text(kind(t.resource).0.to_owned())
        ),
        column!("id", "its number, never used again for another of that kind", |t| number(kind(t.resource).1)),
        column!("touch", "look, change, add, create, destroy, read, write, flush, send, receive", |t| Value::Text(
            how(t.touch).0.to_owned()
        )),
        column!("from_byte", "of a read or write of content: its begin", |t| optional(how(t.touch).1)),
        column!("to_byte", "its end; of a send or receive: bytes", |t| optional(how(t.touch).2)),
    ],
};

pub const EDGES: Table<Arc> = Table {
    name: "edges",
    doc: "Dependencies between actions of different threads (`--order`, `root:file=range` if not told); those that others imply are left out.",
    keyed: false,
    columns: &[
        column!("from_seq", "what is waited for: `actions.seq`", |a| number(a.from)),
        column!("from_thread", "its thread", |a| number(a.from_thread.into())),
        column!("from_end_ns", "when it completed", |a| number(a.from_end_ns)),
        column!("to_seq", "what waits: `actions.seq`", |a| number(a.to)),
        column!("to_thread", "its thread", |a| number(a.to_thread.into())),
        column!("to_begin_ns", "when it began", |a| number(a.to_begin_ns)),
        column!("rule", "the ordering rule", |a| Value::Text(a.rule.to_owned())),
    ],
};

fn kind(resource: Resource) -> (&'static str, u64) {
    match resource {
        Resource::File(id) => ("file", id.into()),
        Resource::Content(id) => ("content", id.into()),
        Resource::Size(id) => ("size", id.into()),
        Resource::Attributes(id) => ("attributes", id.into()),
        Resource::Locks(id) => ("locks", id.into()),
        Resource::Entry(id) => ("entry", id.into()),
        Resource::Forgotten(id) => ("forgotten", id.into()),
        Resource::Names(id) => ("names", id.into()),
        Resource::Descriptor(id) => ("descriptor", id.into()),
        Resource::CloseOnExec(id) => ("close_on_exec", id.into()),
        Resource::Offset(id) => ("offset", id.into()),
        Resource::Flags(id) => ("flags", id.into()),
        Resource::Stream(id) => ("stream", id.into()),
        Resource::Request(id) => ("request", id),
        Resource::Mapping(id) => ("mapping", id.into()),
        Resource::Table(id) => ("table", id.into()),
        Resource::Directories(id) => ("directories", id.into()),
        Resource::Process(id) => ("process", id.into()),
    }
}

/// In a word, and from where to where.
fn how(touch: Touch) -> (&'static str, Option<u64>, Option<u64>) {
    let end = |to| (to != u64::MAX).then_some(to);
    match touch {
        Touch::Look => ("look", None, None),
        Touch::Change => ("change", None, None),
        Touch::Add => ("add", None, None),
        Touch::Create => ("create", None, None),
        Touch::Destroy => ("destroy", None, None),
        Touch::Read(from, to) => ("read", Some(from), end(to)),
        Touch::Write(from, to) => ("write", Some(from), end(to)),
        Touch::Flush => ("flush", None, None),
        Touch::Send(bytes) => ("send", None, Some(bytes)),
        Touch::Receive(bytes) => ("receive", None, end(bytes)),
    }
}
