//! `reprise compile`.

use std::time::Instant;

use reprise_trace::TraceReader;
use serde_json::json;

use super::{Outcome, print, print_json};
use crate::args::Compile;
use crate::progress::Progress;

/// Compiles a trace to a plan.
pub fn run(args: Compile) -> Outcome {
    let begin = Instant::now();
    let trace = TraceReader::open(&args.trace)?;
    let mut progress = Progress::new("compiling", "actions", args.quiet);
    let report = reprise_plan::compile(&trace, &args.output, args.order, &mut |done, total| progress.at(done, total))?;
    drop(progress);
    if args.json {
        return print_json(&json!({
            "plan": args.output,
            "order": args.order.to_string(),
            "actions": report.actions,
            "waits": report.waits,
            "names": report.names,
            "surprises": report.surprises,
            "compile_ns": begin.elapsed().as_nanos() as u64,
        }));
    }
    let mut text = format!(
        "{}: {} actions, {} dependencies, {} names in the initial tree\n",
        args.output.display(),
        report.actions,
        report.waits,
        report.names
    );
    for (surprise, count) in report.surprises {
        text += &format!("note: {surprise} ({count})\n");
    }
    print(&text)
}
