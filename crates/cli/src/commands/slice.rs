//! `reprise slice`.

use std::os::unix::ffi::OsStringExt;

use reprise_slice::{Selection, SliceError};
use reprise_trace::{TraceReader, discard};
use serde_json::json;

use super::{Outcome, print, print_json, several};
use crate::args::slices::Slice;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::unfinished::Unfinished;

/// Cuts a slice.
pub fn run(args: Slice) -> Outcome {
    let trace = TraceReader::open(&args.trace)?;
    let selection = selection(&args)?;
    if args.output.read_dir().is_ok_and(|mut entries| entries.next().is_some()) || args.output.is_file() {
        return Err(reprise_trace::WriteError::Exists { path: args.output.clone() }.into());
    }
    let (output, existed) = (args.output.clone(), args.output.is_dir());
    let unfinished = Unfinished::new("no slice was written; the same command begins anew", move || {
        discard(&output, existed);
    });
    let mut progress = Progress::new("slicing", "actions", args.quiet);
    let report = reprise_slice::slice(&trace, &args.output, &selection, &mut |done, total| {
        progress.at(done, total);
    });
    drop(progress);
    let report = report.map_err(failure)?;
    unfinished.whole(|| ());
    if args.json {
        return print_json(&json!({
            "slice": args.output,
            "of": trace.manifest().id,
            "selection": selection.to_string(),
            "actions": report.actions,
            "supporting": report.supporting,
            "missing": report.missing,
            "threads": report.threads.len(),
            "initial_threads": report.initial_threads,
            "processes": report.processes,
            "names": report.names,
            "first": report.origin.0,
            "last": report.origin.1,
            "notes": report.notes,
        }));
    }
    let mut text = format!(
        "{}: {} ({} to {} of the trace), {} in {}, {} in the initial tree\n",
        args.output.display(),
        several(report.actions, "action"),
        report.origin.0,
        report.origin.1,
        several(report.threads.len() as u64, "thread"),
        several(report.processes as u64, "process"),
        several(report.names, "name")
    );
    if report.supporting > 0 {
        text += &format!("  {} actions of others kept since chosen ones depend on them\n", report.supporting);
    }
    if report.missing > 0 {
        text += &format!(
            "  {} actions that chosen ones depend on are left out (--strict): expect divergences\n",
            report.missing
        );
    }
    for (note, count) in &report.notes {
        text += &format!("  note: {note} ({count})\n");
    }
    print(&text)
}

fn selection(args: &Slice) -> Result<Selection, Failure> {
    if let Some(unknown) = args.call.iter().find(|name| reprise_calls::by_name(name).is_none()) {
        return Err(Failure::new(Exit::Usage, format!("'{unknown}' is no call that is recorded; see `reprise calls`")));
    }
    if let Some(relative) = args.path.iter().find(|path| !path.as_encoded_bytes().starts_with(b"/")) {
        let text = format!("'{}' is no absolute path; give it as the program saw it", relative.display());
        return Err(Failure::new(Exit::Usage, text));
    }
    Ok(Selection {
        from: args.from,
        to: args.to,
        processes: args.process.clone(),
        threads: args.thread.clone(),
        paths: args.path.iter().map(|path| path.clone().into_vec()).collect(),
        calls: args.call.clone(),
        strict: args.strict,
    })
}

/// What went wrong, with its exit code.
pub fn failure(error: SliceError) -> Failure {
    match error {
        SliceError::Read(error) => error.into(),
        SliceError::Write(error) => error.into(),
        SliceError::Beyond { .. }
        | SliceError::Empty { .. }
        | SliceError::NothingChosen { .. }
        | SliceError::Unknown { .. }
        | SliceError::OfReplay { .. } => Failure::new(Exit::Usage, error),
    }
}
