//! Who did it, and what was around it: tables of the trace as they are, and its manifest and ledger.

use reprise_trace::{Descriptor, DeviceSample, Environment, Lock, Mapping, Process, ThreadRow, TreeNode};
use rusqlite::types::Value;

use super::actions::column;
use crate::table::{Column, Table, number, optional};

pub const THREADS: Table<ThreadRow> = Table {
    name: "threads",
    doc: "Threads, and lanes of asynchronous requests.",
    keyed: true,
    columns: &[
        column!("thread", "number in this trace", |t| number(t.thread.into())),
        column!("process", "`processes.process`", |t| number(t.process.into())),
        column!("tid", "the kernel's number", |t| Value::Integer(t.tid.into())),
        column!("parent", "thread that started it", |t| optional(t.parent.map(Into::into))),
        column!("created_by", "`actions.seq` of the call that started it", |t| optional(t.created_by)),
        column!("begin_ns", "when it was first seen", |t| number(t.begin_ns)),
        column!("name", "its name then", |t| Value::Text(t.name.to_text())),
        column!("lane_of", "of a lane: the thread whose requests it performs", |t| optional(t.lane_of.map(Into::into))),
    ],
};

pub const PROCESSES: Table<Process> = Table {
    name: "processes",
    doc: "Processes.",
    keyed: true,
    columns: &[
        column!("process", "number in this trace", |p| number(p.process.into())),
        column!("pid", "the kernel's number", |p| Value::Integer(p.pid.into())),
        column!("parent", "process that started it", |p| optional(p.parent.map(Into::into))),
        column!("umask", "as it began", |p| number(p.umask.into())),
        column!("cwd", "working directory as it began", |p| Value::Text(p.cwd.to_text())),
        column!("root", "root directory as it began", |p| Value::Text(p.root.to_text())),
        column!("executable", "program as it began", |p| Value::Text(p.executable.to_text())),
    ],
};

pub const DESCRIPTORS: Table<Descriptor> = Table {
    name: "descriptors",
    doc: "Descriptors that were open before the start.",
    keyed: false,
    columns: &[
        column!("process", "`processes.process`", |d| number(d.process.into())),
        column!("fd", "its number", |d| number(d.fd.into())),
        column!("path", "as `/proc/PID/fd` shows it", |d| Value::Text(d.path.to_text())),
        column!("flags", "as `F_GETFL`, with `O_CLOEXEC`", |d| number(d.flags)),
        column!("offset", "position", |d| number(d.offset)),
        column!("description", "equal numbers share one open file description", |d| number(d.description)),
    ],
};

pub const LOCKS: Table<Lock> = Table {
    name: "locks",
    doc: "Locks on files that were held before the start.",
    keyed: false,
    columns: &[
        column!("process", "`processes.process`", |l| number(l.process.into())),
        column!("fd", "the descriptor by which it was taken", |l| number(l.fd.into())),
        column!("kind", "1 the process's, 2 the open file's, 3 the open file's by `flock`", |l| number(l.kind.into())),
        column!("exclusive", "1: beside no other", |l| number(l.exclusive.into())),
        column!("start", "first byte", |l| number(l.start)),
        column!("length", "bytes; 0: to the end", |l| number(l.length)),
    ],
};

pub const MAPPINGS: Table<Mapping> = Table {
    name: "mappings",
    doc: "Mappings of files that were there before the start.",
    keyed: false,
    columns: &[
        column!("process", "`processes.process`", |m| number(m.process.into())),
        column!("address", "its first address", |m| number(m.address)),
        column!("length", "bytes", |m| number(m.length)),
        column!("protection", "1 loads, 2 stores, 4 code", |m| number(m.protection.into())),
        column!("flags", "1 shared, 2 private", |m| number(m.flags.into())),
        column!("offset", "where in the file it begins, bytes", |m| number(m.offset)),
        column!("path", "of the file", |m| Value::Text(m.path.to_text())),
    ],
};

pub const TREE: Table<TreeNode> = Table {
    name: "tree",
    doc: "Names of the initial tree, as the program met them.",
    keyed: false,
    columns: &[
        column!("seq", "the action before which it was observed; 0: before the start", |n| number(n.seq)),
        column!("parent_device", "device of its directory", |n| number(n.parent_device)),
        column!("parent_inode", "inode of its directory", |n| number(n.parent_inode)),
        column!("name", "the name", |n| Value::Text(n.name.to_text())),
        column!("device", "device", |n| number(n.device)),
        column!("inode", "inode; equal ones are hard links", |n| number(n.inode)),
        column!("mode", "type and permissions", |n| number(n.mode.into())),
        column!("uid", "owner", |n| number(n.uid.into())),
        column!("gid", "group", |n| number(n.gid.into())),
        column!("size", "bytes", |n| number(n.size)),
        column!("target", "text of a symbolic link", |n| Value::Text(n.target.to_text())),
    ],
};

pub const ENVIRONMENT: Table<Environment> = Table {
    name: "environment",
    doc: "Memory, processors and pressure over time; times count since boot: two rows give what happened between them.",
    keyed: false,
    columns: &[
        column!("time_ns", "when, since the trace began", |e| number(e.time_ns)),
        column!("resident_bytes", "resident memory of the program", |e| number(e.resident_bytes)),
        column!("cached_bytes", "page cache of files", |e| number(e.cached_bytes)),
        column!("dirty_bytes", "waits to be written", |e| number(e.dirty_bytes)),
        column!("writeback_bytes", "is being written", |e| number(e.writeback_bytes)),
        column!("free_bytes", "in no use", |e| number(e.free_bytes)),
        column!("available_bytes", "programs could still get it", |e| number(e.available_bytes)),
        column!("user_ns", "processor time in programs, whole machine", |e| number(e.user_ns)),
        column!("system_ns", "processor time in the kernel", |e| number(e.system_ns)),
        column!("iowait_ns", "idle while somebody waited for a device", |e| number(e.iowait_ns)),
        column!("steal_ns", "given to other virtual machines", |e| number(e.steal_ns)),
        column!("idle_ns", "idle otherwise", |e| number(e.idle_ns)),
        column!("io_some_ns", "some thread waited for storage", |e| optional(e.io_some_ns)),
        column!("io_full_ns", "all active threads waited for storage", |e| optional(e.io_full_ns)),
    ],
};

pub const DEVICES: Table<DeviceSample> = Table {
    name: "devices",
    doc: "What block devices had done since boot, at the samples of `environment`.",
    keyed: false,
    columns: &[
        column!("time_ns", "when, since the trace began", |d| number(d.time_ns)),
        column!("name", "its name", |d| Value::Text(d.name.clone())),
        column!("reads", "reads completed", |d| number(d.reads)),
        column!("read_bytes", "bytes read", |d| number(d.read_bytes)),
        column!("read_ns", "time spent on reads, summed over requests", |d| number(d.read_ns)),
        column!("writes", "writes completed", |d| number(d.writes)),
        column!("written_bytes", "bytes written", |d| number(d.written_bytes)),
        column!("write_ns", "time spent on writes", |d| number(d.write_ns)),
        column!("flushes", "flushes completed", |d| number(d.flushes)),
        column!("flush_ns", "time spent on flushes", |d| number(d.flush_ns)),
        column!("in_flight", "requests under way", |d| number(d.in_flight.into())),
        column!("busy_ns", "time with at least one request under way", |d| number(d.busy_ns)),
    ],
};

/// A fact of the manifest.
pub struct Fact {
    pub name: String,
    pub value: String,
}

pub const MANIFEST: Table<Fact> = Table {
    name: "manifest",
    doc: "What the trace is: its command, machine, kind, and further facts.",
    keyed: false,
    columns: &[
        column!("name", "the fact", |f| Value::Text(f.name.clone())),
        column!("value", "as text", |f| Value::Text(f.value.clone())),
    ],
};

/// A line of the ledger.
pub struct Lost {
    pub word: &'static str,
    pub cause: String,
    pub count: u64,
    pub bytes: u64,
    pub first: Option<u64>,
}

pub const LEDGER: Table<Lost> = Table {
    name: "ledger",
    doc: "Losses by word and cause, and notes.",
    keyed: false,
    columns: &[
        column!("word", "dropped, truncated, unsupported, skipped, diverged; or note, which is no loss", |l| {
            Value::Text(l.word.to_owned())
        }),
        column!("cause", "why", |l| Value::Text(l.cause.clone())),
        column!("count", "how often", |l| number(l.count)),
        column!("bytes", "bytes concerned", |l| number(l.bytes)),
        column!("first", "the first action concerned", |l| optional(l.first)),
    ],
};
