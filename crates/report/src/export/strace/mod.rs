//! Lines as `strace -f -ttt -T -v` prints them, with contents as `-s` of 8 MiB would. `reprise import` reads them back.
//!
//! What is no system call (loads and stores of mapped files, requests of io_uring and Linux AIO) stands in remarks (`#`), and is
//! counted as left out. So do the working directories in which processes began, which strace would not say.

mod argument;
mod content;
mod structure;

use std::collections::HashMap;
use std::io::Write;

use reprise_calls::{Call, Effect, Returns, errno_name};
use reprise_trace::{Action, BlobReader, ThreadRow, TraceReader};

use super::{ExportError, Exported};
use crate::cat::quote::quote;

pub(super) fn write(
    trace: &TraceReader,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Exported, ExportError> {
    let threads: HashMap<u32, ThreadRow> = trace.threads()?.into_iter().map(|t| (t.thread, t)).collect();
    let mut log = Log { out, blobs: trace.blobs(), threads, started_ns: trace.manifest().started_ns };
    log.directories(trace)?;
    let mut exported = Exported::default();
    let (mut rows, mut action) = (trace.actions(), Action::default());
    let total = trace.count::<Action>();
    while rows.read(&mut action)? {
        log.action(&action, &mut exported)?;
        if exported.actions.is_multiple_of(1024) {
            progress(exported.actions, total);
        }
    }
    Ok(exported)
}

struct Log<'a> {
    out: &'a mut dyn Write,
    blobs: BlobReader,
    threads: HashMap<u32, ThreadRow>,
    started_ns: u64,
}

impl Log<'_> {
    /// Where threads began that no call started.
    fn directories(&mut self, trace: &TraceReader) -> Result<(), ExportError> {
        let processes = trace.processes()?;
        let mut threads: Vec<&ThreadRow> =
            self.threads.values().filter(|t| t.created_by.is_none() && t.lane_of.is_none()).collect();
        threads.sort_by_key(|t| t.thread);
        for thread in threads {
            if let Some(process) = processes.iter().find(|process| process.process == thread.process) {
                writeln!(self.out, "# {} works in {}", thread.tid, quote(&process.cwd))?;
            }
        }
        Ok(())
    }

    fn action(&mut self, action: &Action, exported: &mut Exported) -> Result<(), ExportError> {
        exported.actions += 1;
        let thread = self.threads.get(&action.thread);
        let (tid, lane) = thread.map_or((0, false), |t| (t.tid, t.lane_of.is_some()));
        let call = reprise_calls::by_name(&action.call).filter(|call| !call.is_pseudo() && !lane);
        let Some(call) = call else {
            exported.left_out += 1;
            return self.remark(action, tid);
        };
        let arguments = argument::arguments(call, action, &mut self.blobs)?;
        exported.shortened += u64::from(arguments.shortened);
        let time = Time { ns: self.started_ns.saturating_add(action.begin_ns) };
        let (text, result) = (arguments.text, result(call, action));
        let duration = Time { ns: action.duration_ns };
        writeln!(self.out, "{tid} {time} {}({text}) = {result} <{duration}>", action.call)?;
        if call.effect == Effect::Exit {
            writeln!(self.out, "{tid} {} +++ exited with {} +++", time, action.args[0] & 0xff)?;
        }
        Ok(())
    }

    /// What happened and no line of strace can say.
    fn remark(&mut self, action: &Action, tid: i32) -> Result<(), ExportError> {
        let name: String = action.call.chars().filter(|c| !c.is_control()).collect();
        Ok(writeln!(self.out, "# {tid} {name} of {} bytes = {}", action.data_bytes, action.result)?)
    }
}

fn result(call: &Call, action: &Action) -> String {
    match (action.result, call.returns) {
        (_, Returns::Never) => "?".to_owned(),
        (result @ -4095..0, _) => match errno_name(-result as i32) {
            Some(name) => format!("-1 {name} (error {})", -result),
            None => format!("-1 (errno {})", -result),
        },
        (result, Returns::Address) => format!("{result:#x}"),
        (result, _) => result.to_string(),
    }
}

/// Seconds with nine decimals.
struct Time {
    ns: u64,
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:09}", self.ns / 1_000_000_000, self.ns % 1_000_000_000)
    }
}
