//! `reprise workload`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use reprise_capture::environment::Surroundings;
use reprise_replay::limit::MemoryGroup;
use reprise_replay::run::{ReplayError, catch_signals};
use reprise_trace::{MEMORY_LIMIT, WriteError, kib_text};
use reprise_workload::{Personality, Prepared, Run, WorkloadError};
use serde_json::json;

use super::{Outcome, print, print_json};
use crate::args::workload::{Common, Program, Workload};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;

/// Prepares or performs a reference program.
pub fn run(args: Workload) -> Outcome {
    match &args.program {
        Program::Micro(micro) => one(&micro.settings(), &micro.common),
        Program::Fileserver(args) => one(&args.settings(Personality::Fileserver), &args.common),
        Program::Varmail(args) => one(&args.settings(Personality::Varmail), &args.common),
        Program::Webproxy(args) => one(&args.settings(Personality::Webproxy), &args.common),
        Program::Webserver(args) => one(&args.settings(Personality::Webserver), &args.common),
    }
}

fn one(workload: &dyn reprise_workload::Workload, common: &Common) -> Outcome {
    match &common.output {
        Some(output) => perform(workload, common, output),
        None => prepare(workload, common),
    }
}

fn prepare(workload: &dyn reprise_workload::Workload, common: &Common) -> Outcome {
    let signal = catch_signals();
    let mut bar = Progress::new("preparing", "bytes", common.quiet);
    let prepared = reprise_workload::prepare(workload, &common.dir, &mut |done, total| {
        bar.at(done, total);
        signal.load(Ordering::Relaxed) == 0
    });
    drop(bar);
    let Prepared { made, bytes, kept, removed, replaced } = prepared.map_err(failure)?;
    if common.json {
        return print_json(
            &json!({"made": made, "bytes": bytes, "kept": kept, "removed": removed, "replaced": replaced}),
        );
    }
    let size = reprise_report::bytes(bytes);
    let of_them = if replaced > 0 { format!(", {replaced} of them in place of others") } else { String::new() };
    let dir = common.dir.display();
    print(&format!("{dir}: made {made} files ({size}{of_them}), kept {kept}, removed {removed}\n"))
}

fn perform(workload: &dyn reprise_workload::Workload, common: &Common, output: &Path) -> Outcome {
    if output.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(WriteError::Exists { path: output.to_owned() }.into());
    }
    let mut facts: BTreeMap<String, String> = Surroundings::look().facts;
    let limited = |error| super::replay::failure(ReplayError::Limit(error));
    let group = common.memory.map(|bytes| MemoryGroup::enter(bytes.0)).transpose().map_err(limited)?;
    if let Some(group) = &group {
        facts.insert(MEMORY_LIMIT.to_owned(), kib_text(group.limit_bytes()));
        reprise_workload::bring(workload, &common.dir, common.warm).map_err(failure)?;
    }
    let performed = reprise_workload::perform(workload, &Run { directory: &common.dir, stop: catch_signals() });
    drop(group);
    let performed = performed.map_err(failure)?;
    let command = std::env::args().collect();
    let existed = output.exists();
    let written = reprise_workload::write(&performed, output, command, facts);
    // A part of a trace is none.
    let written = written.inspect_err(|_| reprise_trace::discard(output, existed)).map_err(failure)?;
    let elapsed_ns = performed.elapsed_ns();
    if common.json {
        return print_json(&json!({
            "trace": output,
            "id": written.id,
            "workload": workload.name(),
            "threads": workload.threads(),
            "actions": written.actions,
            "elapsed_ns": elapsed_ns,
        }));
    }
    let took = reprise_report::duration(elapsed_ns);
    print(&format!("{}: {} calls in {took}\n", output.display(), written.actions))
}

/// What a workload failed with.
pub fn failure(error: WorkloadError) -> Failure {
    let exit = match error {
        WorkloadError::Trace(error) => return error.into(),
        WorkloadError::Settings(_) => Exit::Usage,
        WorkloadError::Unprepared { .. } | WorkloadError::Files { .. } => Exit::Target,
        WorkloadError::Call { .. } => Exit::System,
        WorkloadError::Interrupted => Exit::Interrupted,
    };
    Failure::new(exit, error)
}
