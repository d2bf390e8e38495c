//! `reprise record`.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use reprise_capture::scope::{self, Scope};
use reprise_capture::{CaptureError, Options, Outcome as Recorded};
use reprise_trace::{DataPolicy, Loss, WriteError};
use serde_json::json;

use super::Outcome;
use crate::args::{self, Backend, Data, Mapped, Record, Recover};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;

/// Records; of a command ends as it ended.
pub fn run(args: Record) -> Outcome {
    let scope = scope(&args.scope).map_err(failure)?;
    let trace = args.output.unwrap_or_else(|| free_name(&called(&args.scope, &args.command)));
    let quiet = args.quiet;
    let mut options = Options::new(&trace, args.command);
    options.scope = scope;
    options.duration = args.duration.map(|period| period.0);
    options.data = match args.data {
        Data::Full => DataPolicy::Full,
        Data::Hash => DataPolicy::Hash,
        Data::None => DataPolicy::None,
    };
    options.trees = args.tree;
    options.libraries = args.libraries;
    options.mapped = args.mapped == Mapped::Full;
    options.cpu = args.cpu;
    options.sample_every = args.sample_every.0;
    options.writer.contents = args.blobs;
    options.writer.max_bytes = args.max_size.map(|size| size.0);
    options.whole_file_bytes = args.whole_files.saturating_mul(1024);
    options.warn = Box::new(move |text| {
        if !quiet {
            let _ = writeln!(std::io::stderr(), "reprise: {text}");
        }
    });
    options.backend = match args.backend {
        Backend::Auto => reprise_capture::Backend::Auto,
        Backend::Ebpf => reprise_capture::Backend::Ebpf,
        Backend::Ptrace => reprise_capture::Backend::Ptrace,
    };
    let recorded = reprise_capture::record(options).map_err(failure)?;
    tell(&trace, &recorded, args.json, quiet);
    Ok(end_like(&recorded))
}

/// Whom to record.
fn scope(args: &args::Scope) -> Result<Scope, CaptureError> {
    if let Some(name) = &args.cgroup {
        return scope::group(name).map(Scope::Group);
    }
    if let Some(name) = &args.container {
        return scope::container(name).map(Scope::Group);
    }
    Ok(match (args.system, args.pid.is_empty()) {
        (true, _) => Scope::System,
        (false, true) => Scope::Command,
        (false, false) => Scope::Processes { pids: args.pid.clone(), children: args.with_children },
    })
}

/// What a trace is called after.
fn called(args: &args::Scope, command: &[OsString]) -> OsString {
    let first = |list: &[i32]| list.first().map(|pid| format!("pid-{pid}").into());
    let container = || args.container.as_ref().map(|name| format!("container-{name}").into());
    let group = || args.cgroup.as_ref().and_then(|path| path.file_name()).map(OsStr::to_owned);
    command.first().cloned().or_else(|| first(&args.pid)).or_else(group).or_else(container).unwrap_or("system".into())
}

fn tell(trace: &Path, recorded: &Recorded, json: bool, quiet: bool) {
    if json {
        let _ = writeln!(std::io::stderr(), "{}", summary_json(trace, recorded));
    } else if !quiet {
        let _ = writeln!(std::io::stderr(), "{}", summary(trace, recorded));
    }
}

/// `reprise recover`.
pub fn recover(args: Recover) -> Outcome {
    let mut progress = Progress::new("recovering", "bytes", args.quiet);
    let recovered = reprise_capture::recover(&args.trace, &mut |done, all| progress.at(done, all)).map_err(failure)?;
    progress.clear();
    tell(&args.trace, &recovered, args.json, args.quiet);
    Ok(Exit::Done.into())
}

/// `COMMAND.reprise`, or with a number if that exists.
fn free_name(command: &OsStr) -> PathBuf {
    let base = Path::new(command).file_name().unwrap_or(OsStr::new("trace")).to_string_lossy().into_owned();
    let name = |n: u32| PathBuf::from(if n == 0 { format!("{base}.reprise") } else { format!("{base}-{n}.reprise") });
    (0..).map(name).find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| name(0))
}

fn failure(error: CaptureError) -> Failure {
    if let CaptureError::Write(error @ (WriteError::Exists { .. } | WriteError::Contents { .. })) = error {
        return error.into();
    }
    let exit = match &error {
        CaptureError::NotFound { .. } => Exit::NotFound,
        CaptureError::NotExecutable { .. } => Exit::NotExecutable,
        CaptureError::NoCommand | CaptureError::Tree { .. } => Exit::Usage,
        CaptureError::NoProcess { .. } | CaptureError::NoGroup { .. } => Exit::Usage,
        CaptureError::NoFilter { .. } | CaptureError::NoBackend { .. } | CaptureError::NotAttachable { .. } => {
            Exit::Machine
        }
        CaptureError::NoSpool { .. } | CaptureError::Spool { .. } => Exit::Trace,
        CaptureError::Start { .. }
        | CaptureError::Trace { .. }
        | CaptureError::Write(_)
        | CaptureError::Unwritten { .. } => Exit::Recorder,
    };
    Failure::new(exit, error)
}

const LOSSES: [Loss; 3] = [Loss::Dropped, Loss::Truncated, Loss::Unsupported];

fn summary(trace: &Path, recorded: &Recorded) -> String {
    let mut text = format!(
        "reprise: {} actions, {} of content recorded in {}",
        recorded.actions,
        reprise_report::bytes(recorded.bytes),
        trace.display()
    );
    for loss in LOSSES {
        for (cause, entry) in recorded.ledger.losses.get(&loss).into_iter().flatten() {
            text += &format!("\nreprise: {} {}: {cause}", entry.count, loss.word());
        }
    }
    for (note, count) in &recorded.ledger.notes {
        text +=
            &format!("\nreprise: note: {note}{}", if *count > 1 { format!(" ({count} times)") } else { String::new() });
    }
    text
}

fn summary_json(trace: &Path, recorded: &Recorded) -> serde_json::Value {
    json!({
        "trace": trace,
        "id": recorded.manifest.id,
        "actions": recorded.actions,
        "bytes": recorded.bytes,
        "end": recorded.end,
        "ledger": recorded.ledger,
    })
}

/// Ends with the program's exit code, or by the signal that killed it.
fn end_like(recorded: &Recorded) -> ExitCode {
    if let Some(signal) = recorded.end.signal {
        reprise_capture::die_by_signal(signal);
        return ExitCode::from(128u8.wrapping_add(signal as u8));
    }
    ExitCode::from(recorded.end.code.unwrap_or(0) as u8)
}
