//! `reprise graph`.

use std::path::Path;

use reprise_plan::graph;
use reprise_trace::TraceReader;

use super::{Outcome, print, print_json};
use crate::args::Graph;
use crate::exit::{Exit, Failure};
use crate::unfinished;

/// Calls of the critical path that are named.
const CALLS: usize = 8;

/// Shows the dependencies of a trace.
pub fn run(args: Graph) -> Outcome {
    let trace = TraceReader::open(&args.trace)?;
    if let Some(action) = args.why {
        return why(&args, &trace, action);
    }
    if args.dot.is_some() || args.svg.is_some() {
        return pictures(&args, &trace);
    }
    let tally = graph::tally(&trace, args.order)?;
    let path = graph::critical_path(&trace, args.order)?;
    if args.json {
        return print_json(&serde_json::json!({"edges": tally, "critical_path": path}));
    }
    print(&(reprise_report::tally_text(&tally) + &reprise_report::critical_text(&path, CALLS)))
}

fn why(args: &Graph, trace: &TraceReader, action: u64) -> Outcome {
    let why = graph::why(trace, args.order, action)?.ok_or_else(|| {
        let last = trace.count::<reprise_trace::Action>();
        Failure::new(Exit::Usage, format!("the trace has no action {action}; it has {last}, numbered from 0"))
    })?;
    if args.json {
        return print_json(&why);
    }
    print(&reprise_report::why_text(&why))
}

fn pictures(args: &Graph, trace: &TraceReader) -> Outcome {
    let actions = args.actions.as_ref().map_or(0..u64::MAX, |s| s.0.clone());
    let time = args.time.as_ref().map_or(0..u64::MAX, |s| s.0.clone());
    let window = graph::window(trace, args.order, actions, time, args.most)?;
    if window.spans.is_empty() {
        return Err(Failure::new(Exit::Usage, "no action is in the window; `reprise info` shows the trace's length"));
    }
    if let Some(path) = &args.dot {
        write(path, &reprise_report::dot(&window), "--dot")?;
    }
    if let Some(path) = &args.svg {
        write(path, &reprise_report::svg(&window), "--svg")?;
    }
    if args.json { print_json(&window) } else { Ok(Exit::Done.into()) }
}

fn write(path: &Path, text: &str, option: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return print(text).map(|_| ());
    }
    unfinished::write(path, text.as_bytes(), option)
}
