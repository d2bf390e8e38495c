//! `reprise report`.

use std::path::Path;

use reprise_trace::{Kind, TraceReader};

use super::{Outcome, print};
use crate::args::report::Report;
use crate::exit::{Exit, Failure};

/// Writes a report of a recording and replays of it.
pub fn run(args: Report) -> Outcome {
    let traces = args.traces.iter().map(|path| TraceReader::open(path)).collect::<Result<Vec<_>, _>>()?;
    check(&traces)?;
    let named: Vec<(String, &TraceReader)> =
        args.traces.iter().zip(&traces).map(|(path, trace)| (name(path), trace)).collect();
    let report = reprise_report::report(&named)?;
    std::fs::write(&args.output, &report.html).map_err(|e| {
        let text = format!("{}: cannot be written: {e}; choose another place with -o", args.output.display());
        Failure::new(Exit::System, text)
    })?;
    if args.quiet { Ok(Exit::Done.into()) } else { print(&format!("{}\n{}\n", report.verdict, args.output.display())) }
}

/// At most one recording, and replays of one trace: that one, if it is given.
fn check(traces: &[TraceReader]) -> Result<(), Failure> {
    let (recordings, results): (Vec<&TraceReader>, Vec<&TraceReader>) =
        traces.iter().partition(|trace| trace.manifest().kind == Kind::Record);
    if let [_, second, ..] = recordings[..] {
        let text = format!("{} is a second recording; a report has one, and replays of it", second.path().display());
        return Err(Failure::new(Exit::Usage, text));
    }
    let origins: std::collections::BTreeSet<_> = results.iter().map(|r| r.manifest().origin.as_deref()).collect();
    if origins.len() > 1 {
        return Err(Failure::new(Exit::Usage, "the results are replays of different traces; report each by itself"));
    }
    match recordings.first() {
        Some(original) => results.iter().try_for_each(|result| super::read::is_replay_of(result, original)),
        None => Ok(()),
    }
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    name.strip_suffix(".reprise").unwrap_or(&name).to_owned()
}
