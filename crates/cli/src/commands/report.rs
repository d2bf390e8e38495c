//! `reprise report`.

use std::io::Write;
use std::path::{Path, PathBuf};

use reprise_report::{Given, printable};
use reprise_trace::{Host, Kind, TraceReader};
use reprise_validate::{Known, StoreError, state_directory, stored_of};

use super::{Outcome, names, print, print_json, reading};
use crate::args::report::Report;
use crate::exit::{Exit, Failure};
use crate::unfinished::Output;

/// A trace that was named, and the group of replications that it was named in.
struct Named {
    path: PathBuf,
    group: Option<String>,
}

/// Writes a report of a recording and replays of it.
pub fn run(args: Report) -> Outcome {
    let streamed = args.output == Path::new("-");
    if streamed && args.json {
        let text = "--json and the report cannot both go to the standard output; name a file with -o";
        return Err(Failure::new(Exit::Usage, text));
    }
    let named: Vec<Named> = args.traces.iter().flat_map(|text| named(text)).collect();
    let open = |named: &Named| reading(&named.path, args.quiet);
    let traces = named.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    check(&traces)?;
    let called = names::distinct(&named.iter().map(|named| named.path.as_path()).collect::<Vec<_>>());
    let mut trouble = None;
    let given: Vec<Given<'_>> = named
        .iter()
        .zip(&traces)
        .zip(called)
        .map(|((named, trace), name)| Given {
            name,
            group: named.group.clone(),
            trace,
            known: known(&trace.manifest().host).unwrap_or_else(|error| {
                trouble = Some(error);
                Vec::new()
            }),
        })
        .collect();
    let cannot = |e| {
        let text = format!("{}: cannot be written: {e}; choose another place with -o", args.output.display());
        Failure::new(Exit::System, text)
    };
    let mut out = (!streamed).then(|| Output::create(&args.output)).transpose().map_err(cannot)?;
    let report = reprise_report::report(&given)?;
    drop(given);
    let html = report.html();
    match out.take() {
        None => drop(print(&html)?),
        Some(mut out) => out.write_all(html.as_bytes()).and_then(|()| out.finish()).map_err(cannot)?,
    }
    if let Some(error) = trouble {
        eprintln!("reprise: how far times can be trusted is not in the report: {error}");
    }
    match (args.json, args.quiet || streamed) {
        (true, _) => print_json(&report.json()),
        (false, true) => Ok(Exit::Done.into()),
        (false, false) => print(&format!("{}\n{}\n", printable(report.verdict()), args.output.display())),
    }
}

/// `TRACE`, or `NAME=RESULT,RESULT…`: replications of each other.
fn named(text: &Path) -> Vec<Named> {
    let group = text.to_str().filter(|_| !text.exists()).and_then(|text| text.split_once('='));
    match group {
        None => vec![Named { path: text.to_owned(), group: None }],
        Some((name, results)) => {
            let one = |result: &str| Named { path: result.into(), group: Some(name.to_owned()) };
            results.split(',').map(one).collect()
        }
    }
}

/// What validations found on the machine of a trace.
fn known(host: &Host) -> Result<Vec<Known>, StoreError> {
    state_directory().map_or(Ok(Vec::new()), |directory| stored_of(&directory, host))
}

/// At most one recording, and replays of one trace: that one, if it is given.
fn check(traces: &[TraceReader]) -> Result<(), Failure> {
    let (recordings, results): (Vec<&TraceReader>, Vec<&TraceReader>) =
        traces.iter().partition(|trace| trace.manifest().kind == Kind::Record);
    if let [_, second, ..] = recordings[..] {
        let text = format!("{} is a second recording; a report has one, and replays of it", second.path().display());
        return Err(Failure::new(Exit::Usage, text));
    }
    let ids: Vec<_> = results.iter().map(|trace| (trace.path().to_owned(), trace.manifest().id.clone())).collect();
    reprise_validate::different_results(&ids).map_err(|error| Failure::new(Exit::Usage, error))?;
    let origins: std::collections::BTreeSet<_> = results.iter().map(|r| r.manifest().origin.as_deref()).collect();
    if origins.len() > 1 {
        return Err(Failure::new(Exit::Usage, "the results are replays of different traces; report each by itself"));
    }
    match recordings.first() {
        Some(original) => results.iter().try_for_each(|result| super::read::is_replay_of(result, original)),
        None => Ok(()),
    }
}
