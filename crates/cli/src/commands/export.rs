//! `reprise export`.

use std::io::{BufWriter, Write};
use std::path::Path;

use reprise_report::counted;
use reprise_report::export::{self, ExportError, Exported, Format, Request};
use reprise_trace::{TraceReader, write_remedy};

use super::Outcome;
use crate::args::export::{Export, To, Weight};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::unfinished::Output;

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 1 << 16;

/// Writes a trace in another form.
pub fn run(mut args: Export) -> Outcome {
    args.output = args.output.filter(|path| path != Path::new("-"));
    let only = [
        (args.replay_of.is_some(), "--replay-of", To::Perfetto, "perfetto"),
        (args.arrows.is_some(), "--arrows", To::Perfetto, "perfetto"),
        (args.weight.is_some(), "--weight", To::Folded, "folded"),
    ];
    if let Some((_, what, _, form)) = only.into_iter().find(|(given, _, to, _)| *given && args.to != *to) {
        return Err(Failure::new(Exit::Usage, format!("{what} is for `--to {form}` only; leave it out")));
    }
    let trace = TraceReader::open(&args.trace)?;
    let original = args.replay_of.as_deref().map(|path| super::read::original_of(&trace, path)).transpose()?;
    let request = Request {
        trace: &trace,
        original: original.as_ref(),
        format: format(args.to),
        weight: weight(args.weight.unwrap_or(Weight::Time)),
        arrows: args.arrows,
    };
    let quiet = args.quiet || args.output.is_none();
    let mut progress = Progress::new("exporting", "actions", quiet);
    let mut tell = |done, total| progress.at(done, total);
    let written = match &args.output {
        Some(path) => {
            let file = Output::create(path).map_err(|e| unwritable(path, &e))?;
            let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
            let written = export::export(&request, &mut out, &mut tell).map_err(|e| failure(e, path));
            let file = out.into_inner().map_err(|e| unwritable(path, e.error()));
            match written {
                Ok(written) => file?.finish().map_err(|e| unwritable(path, &e)).map(|()| written),
                failed => failed,
            }
        }
        None => {
            let mut out = BufWriter::with_capacity(BUFFER_BYTES, std::io::stdout().lock());
            export::export(&request, &mut out, &mut tell).map_err(|e| failure(e, Path::new("-")))
        }
    };
    drop(progress);
    let written = written?;
    if !args.quiet {
        say(&args, written);
    }
    Ok(Exit::Done.into())
}

/// What was written where, and what could not be; on standard error, since the output may be the standard one.
fn say(args: &Export, written: Exported) {
    let mut text = String::new();
    if let Some(path) = &args.output {
        text += &format!("{}: {}\n", path.display(), counted(written.actions, "action"));
    }
    if written.left_out > 0 {
        text += &format!("  {} actions left out: they are no system calls, and stand in remarks\n", written.left_out);
    }
    if written.shortened > 0 {
        text += &format!("  {} actions with content that is not in the trace, or cut short\n", written.shortened);
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn format(to: To) -> Format {
    match to {
        To::Perfetto => Format::Perfetto,
        To::Csv => Format::Csv,
        To::Jsonl => Format::Jsonl,
        To::Strace => Format::Strace,
        To::Folded => Format::Folded,
    }
}

fn weight(weight: Weight) -> export::Weight {
    match weight {
        Weight::Bytes => export::Weight::Bytes,
        Weight::Time => export::Weight::Time,
        Weight::Calls => export::Weight::Calls,
    }
}

fn failure(error: ExportError, path: &Path) -> Failure {
    match error {
        ExportError::Read(error) => error.into(),
        ExportError::Order(error) => error.into(),
        ExportError::Write(error) if path == Path::new("-") => Failure::output(error),
        ExportError::Write(error) => unwritable(path, &error),
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let text = format!("{}: cannot be written: {error}; {}", path.display(), write_remedy(error, "-o"));
    Failure::new(Exit::System, text)
}
