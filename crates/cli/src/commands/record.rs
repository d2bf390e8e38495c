//! `reprise record`.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use reprise_capture::ebpf::{self, MOST_SEGMENTS, least_segments};
use reprise_capture::scope::{self, Scope};
use reprise_capture::{CaptureError, KernelOptions, Options, Outcome as Recorded, WHY};
use reprise_trace::{DataPolicy, Loss, WriteError};
use serde_json::json;

use super::{Outcome, several};
use crate::args::{self, Backend, Data, InKernel, Mapped, OnFull, Record, Recover, Sink};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;

/// Records; of a command ends as it ended.
pub fn run(args: Record) -> Outcome {
    let scope = scope(&args.scope).map_err(failure)?;
    let trace = args.output.unwrap_or_else(|| free_name(&called(&args.scope, &args.command)));
    let quiet = args.quiet;
    let mut options = Options::new(&trace, args.command);
    options.kernel = in_kernel(&args.kernel, args.backend)?;
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
    let say = |silent: bool| -> Box<dyn FnMut(&str)> {
        Box::new(move |text| {
            if !silent {
                let _ = writeln!(std::io::stderr(), "reprise: {text}");
            }
        })
    };
    // The summary has both, too.
    options.warn = say(quiet || args.json);
    options.chosen = say(quiet || args.json);
    options.backend = match args.backend {
        // What is measured is recording in the kernel.
        Backend::Auto if args.kernel.sink == Some(Sink::Null) => reprise_capture::Backend::Ebpf,
        Backend::Auto => reprise_capture::Backend::Auto,
        Backend::Ebpf => reprise_capture::Backend::Ebpf,
        Backend::Ptrace => reprise_capture::Backend::Ptrace,
    };
    options.progress = finishing(quiet);
    let recorded = reprise_capture::record(options).map_err(|error| {
        if args.json {
            tell_broken_off(&trace, &error);
        }
        failure(error)
    })?;
    let chain = match args.rotate.filter(|_| kept_nothing(&recorded).is_none()) {
        Some(length) => super::rotate::cut(&trace, length, args.keep.map(|n| n as usize), quiet)?,
        None => Vec::new(),
    };
    tell(&trace, &chain, &recorded, args.json, quiet);
    Ok(end_like(&recorded))
}

/// The options of recording in the kernel, if they can be had.
fn in_kernel(args: &InKernel, backend: Backend) -> Result<KernelOptions, Failure> {
    let usual = KernelOptions::default();
    let given = [
        ("--ring", args.ring.is_some()),
        ("--on-full", args.on_full.is_some()),
        ("--survey", args.survey.is_some()),
        ("--sink", args.sink.is_some()),
    ];
    if let Some((name, _)) = given.iter().find(|(_, given)| *given && backend == Backend::Ptrace) {
        return Err(Failure::new(Exit::Usage, format!("{name} is for --backend ebpf: by ptrace nothing lies between")));
    }
    let segments = args.ring.map_or(u64::from(usual.segments), |size| size.0 >> 20);
    let (least, most) = (least_segments(), MOST_SEGMENTS);
    if !(u64::from(least)..=u64::from(most)).contains(&segments) {
        let text = format!("--ring {segments}M: give {least}M (two more than there are processors) to {most}M");
        return Err(Failure::new(Exit::Usage, text));
    }
    Ok(KernelOptions {
        segments: segments as u32,
        on_full: match args.on_full {
            Some(OnFull::Drop) => ebpf::OnFull::Drop,
            Some(OnFull::Block) | None => ebpf::OnFull::Block,
        },
        sink: match args.sink {
            Some(Sink::Null) => ebpf::Sink::Null,
            Some(Sink::Disk) | None => ebpf::Sink::Disk,
        },
        survey: args.survey.unwrap_or(usual.survey),
    })
}

/// Tells how the trace is being made, once the program has ended.
fn finishing(quiet: bool) -> Box<dyn FnMut(u64, u64)> {
    let mut shown = None;
    Box::new(move |done, all| {
        let begin = || {
            let line = "the program has ended; what it did is being made a trace";
            Progress::new("finishing", "bytes", quiet).or_line(line, quiet)
        };
        let progress: &mut Progress = shown.get_or_insert_with(begin);
        progress.at(done, all);
    })
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

fn tell(trace: &Path, chain: &[PathBuf], recorded: &Recorded, json: bool, quiet: bool) {
    if json {
        let mut summary = summary_json(trace, recorded);
        if !chain.is_empty() {
            (summary["trace"], summary["chain"]) = (json!(null), json!(chain));
        }
        let _ = writeln!(std::io::stderr(), "{summary}");
    } else if !quiet {
        let _ = writeln!(std::io::stderr(), "{}", summary(trace, recorded));
        if let (Some(first), Some(last)) = (chain.first(), chain.last()) {
            let (count, first, last) = (chain.len(), first.display(), last.display());
            let _ = writeln!(std::io::stderr(), "reprise: cut into {count} traces, {first} to {last}");
        }
    }
}

/// The summary of a recording that broke off while its program ran; nothing of one that never began.
fn tell_broken_off(trace: &Path, error: &CaptureError) {
    let mut summary = match error {
        CaptureError::Unwritten { outcome, .. } => summary_json(trace, outcome),
        CaptureError::NoRoom { end, .. } => json!({ "trace": trace, "end": end }),
        CaptureError::Gone { .. } | CaptureError::Unfinished { .. } => json!({ "trace": trace }),
        _ => return,
    };
    summary["error"] = json!(error.to_string());
    let _ = writeln!(std::io::stderr(), "{summary}");
}

/// `reprise recover`.
pub fn recover(args: Recover) -> Outcome {
    let mut progress = Progress::new("recovering", "bytes", args.quiet);
    let recovered = reprise_capture::recover(&args.trace, &mut |done, all| progress.at(done, all)).map_err(failure)?;
    progress.clear();
    tell(&args.trace, &[], &recovered, args.json, args.quiet);
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
        CaptureError::Interrupted { .. } => Exit::Interrupted,
        CaptureError::Start { .. }
        | CaptureError::Trace { .. }
        | CaptureError::Write(_)
        | CaptureError::NoRoom { .. }
        | CaptureError::Gone { .. }
        | CaptureError::Unspooled { .. }
        | CaptureError::Unfinished { .. }
        | CaptureError::Unwritten { .. } => Exit::Recorder,
    };
    Failure::new(exit, error)
}

const LOSSES: [Loss; 3] = [Loss::Dropped, Loss::Truncated, Loss::Unsupported];

fn summary(trace: &Path, recorded: &Recorded) -> String {
    let bytes = reprise_report::bytes(recorded.bytes);
    let mut text = match kept_nothing(recorded) {
        Some(in_kernel) => format!("reprise: {} records, {bytes}, went nowhere (--sink null)", in_kernel.records),
        None => {
            let actions = several(recorded.actions, "action");
            let kept = match recorded.manifest.data {
                DataPolicy::Full => "of content recorded",
                DataPolicy::Hash => "of content as hashes",
                DataPolicy::None => "of content left out, recorded",
            };
            format!("reprise: {actions}, {bytes} {kept} in {}", trace.display())
        }
    };
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

/// The summary of a recording that left no trace.
fn kept_nothing(recorded: &Recorded) -> Option<ebpf::Summary> {
    recorded.in_kernel.filter(|_| recorded.manifest.parts.is_none())
}

fn summary_json(trace: &Path, recorded: &Recorded) -> serde_json::Value {
    let fact = |name: &str| recorded.manifest.facts.get(name);
    let in_kernel = recorded.in_kernel.map(|k| {
        json!({
            "records": k.records,
            "bytes": k.bytes,
            "dropped": k.lacks.total() + k.missed + k.untold,
            "deferred": k.deferred,
            "waits": k.waits,
            "waited_ns": k.waited_ns,
            "abandoned": k.lacks.given_up(),
        })
    });
    json!({
        "trace": kept_nothing(recorded).is_none().then_some(trace),
        "backend": fact("backend"),
        "why": fact(WHY),
        "in_kernel": in_kernel,
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
