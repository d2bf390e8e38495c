//! `reprise compile`.

use std::path::Path;
use std::time::Instant;

use reprise_trace::TraceReader;
use serde_json::json;

use super::{Outcome, print, print_json, several};
use crate::args::Compile;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::unfinished::Unfinished;

/// Compiles a trace to a plan.
pub fn run(args: Compile) -> Outcome {
    let begin = Instant::now();
    let trace = TraceReader::open(&args.trace)?;
    let mut progress = Progress::new("compiling", "actions", args.quiet);
    // Under its name a plan is whole.
    let cannot = |e| {
        Failure::new(
            Exit::System,
            format!("{}: cannot write the plan: {e}; choose another place with -o", args.output.display()),
        )
    };
    let place = args.output.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (scratch, unfinished) = Unfinished::begin("no plan was written; the same command begins anew", || {
        let scratch = tempfile::Builder::new().prefix(".reprise-").tempdir_in(place)?;
        let kept = scratch.path().to_owned();
        Ok((scratch, move || drop(std::fs::remove_dir_all(&kept))))
    })
    .map_err(cannot)?;
    let part = scratch.path().join("plan");
    let report = reprise_plan::compile_filled(&trace, &part, args.order, args.fill, &mut |done, total| {
        progress.at(done, total);
    })?;
    unfinished.whole(|| std::fs::rename(&part, &args.output)).map_err(cannot)?;
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
        "{}: {}, {} dependencies, {} in the initial tree\n",
        args.output.display(),
        several(report.actions, "action"),
        report.waits,
        several(report.names, "name")
    );
    for (surprise, count) in report.surprises {
        text += &format!("note: {surprise} ({count})\n");
    }
    print(&text)
}
