//! A trace in the forms that other tools read.
//!
//! Goals: streamed, in memory that does not grow with the number of actions (folded stacks: with the number of files); what a
//! form cannot hold is counted. Non-goals: forms that need a second pass; what the tools make of it.

mod csv;
mod folded;
mod jsonl;
mod perfetto;
mod strace;

use std::io::{self, Write};

use reprise_model::{World, moved_bytes};
use reprise_plan::{CompileError, Order};
use reprise_trace::{Action, Name, ReadError, TraceReader};
use serde::Serialize;

pub use csv::quoted;

/// A form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Trace events in JSON, for <https://ui.perfetto.dev> and `chrome://tracing`.
    Perfetto,
    /// Comma-separated values with a head line (RFC 4180).
    Csv,
    /// A JSON object a line.
    Jsonl,
    /// As strace prints calls with `-f -ttt -T -v`.
    Strace,
    /// `directory;file;call NUMBER` lines, for flame graphs.
    Folded,
}

/// What folded stacks add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weight {
    /// Bytes moved.
    Bytes,
    /// Response time in nanoseconds.
    #[default]
    Time,
    /// Number of calls.
    Calls,
}

/// What is exported, and how.
pub struct Request<'a> {
    /// The trace.
    pub trace: &'a TraceReader,
    /// Of a replay's trace: the original, to stand beside it (Perfetto only).
    pub original: Option<&'a TraceReader>,
    /// The form.
    pub format: Format,
    /// What folded stacks add up.
    pub weight: Weight,
    /// Draw the dependencies of this ordering as arrows (Perfetto only).
    pub arrows: Option<Order>,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Exported {
    /// Actions in it.
    pub actions: u64,
    /// Actions that the form cannot hold.
    pub left_out: u64,
    /// Actions whose content is cut short.
    pub shortened: u64,
}

/// Why an export failed.
#[derive(Debug)]
pub enum ExportError {
    /// A trace cannot be read.
    Read(ReadError),
    /// Its dependencies cannot be found.
    Order(CompileError),
    /// The output cannot be written.
    Write(io::Error),
}

impl From<ReadError> for ExportError {
    fn from(error: ReadError) -> Self {
        ExportError::Read(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        ExportError::Write(error)
    }
}

/// Writes a trace in another form. `progress` is told how many actions of how many are done.
///
/// # Errors
/// The trace cannot be read, or the output not written.
pub fn export(
    request: &Request<'_>,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Exported, ExportError> {
    let written = match request.format {
        Format::Perfetto => perfetto::write(request, out, progress),
        Format::Csv => csv::write(request.trace, out, progress),
        Format::Jsonl => jsonl::write(request.trace, out, progress),
        Format::Strace => strace::write(request.trace, out, progress),
        Format::Folded => folded::write(request.trace, request.weight, out, progress),
    }?;
    out.flush()?;
    Ok(written)
}

/// Is shown an action and the file that it concerns.
type See<'a> = dyn FnMut(&Action, Option<String>) -> Result<(), ExportError> + 'a;

/// Shows every action with the file that it concerns.
fn each(trace: &TraceReader, progress: &mut dyn FnMut(u64, u64), see: &mut See<'_>) -> Result<u64, ExportError> {
    let mut world = World::begin(trace, false)?;
    let (mut rows, mut action) = (trace.actions(), Action::default());
    let (mut done, total) = (0, trace.count::<Action>());
    while rows.read(&mut action)? {
        let call = reprise_calls::by_name(&action.call);
        let file = call.and_then(|call| world.concerned_path(call, &action)).map(|path| Name(path).to_text());
        see(&action, file)?;
        if let Some(call) = call {
            world.step(call, &action)?;
        }
        done += 1;
        if done % 1024 == 0 {
            progress(done, total);
        }
    }
    Ok(done)
}

/// Bytes of content that an action moved.
fn moved(action: &Action) -> u64 {
    reprise_calls::by_name(&action.call).and_then(|call| moved_bytes(call, action)).unwrap_or(0)
}
