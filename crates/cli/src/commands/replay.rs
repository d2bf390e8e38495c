//! `reprise replay`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use reprise_plan::{CompileReport, Plan};
use reprise_replay::emit;
use reprise_replay::run::{self, End, Failure as EngineFailure, Options, Phase, ReplayError, ReplayResult, Verify};
use reprise_trace::{DataPolicy, Loss, ReadError, TraceReader};
use serde_json::json;

use super::{Outcome, end_if_interrupted, print, print_json};
use crate::args::{Check, Replay};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;

/// A replay and what came before it.
struct Run {
    result: ReplayResult,
    compiled: Option<(CompileReport, Duration)>,
    wall: Duration,
    /// What the trace lacks, and therefore the replay.
    lacks: Vec<String>,
}

/// Replays a trace, or a plan.
pub fn run(args: Replay) -> Outcome {
    check_target(&args.target)?;
    let (trace, given_plan) = open(&args.trace)?;
    if let (None, Some(_)) = (&trace, &args.output) {
        let cause = "a plan alone cannot give a result's trace: replay the trace itself, or leave -o out";
        return Err(Failure::new(Exit::Usage, cause));
    }
    if let Some(output) = &args.output
        && output.read_dir().is_ok_and(|mut entries| entries.next().is_some())
    {
        return Err(reprise_trace::WriteError::Exists { path: output.clone() }.into());
    }
    // The plan and the log stay off the target.
    let scratch = args.output.as_deref().and_then(Path::parent).filter(|p| !p.as_os_str().is_empty());
    let scratch: PathBuf = scratch.map_or_else(std::env::temp_dir, Path::to_owned);
    let directory = tempfile::Builder::new().prefix("reprise-").tempdir_in(&scratch).map_err(|e| {
        Failure::new(
            Exit::System,
            format!("{}: cannot keep the plan: {e}; set TMPDIR to a place with room", scratch.display()),
        )
    })?;
    let interrupt = run::catch_signals();
    let (plan, compiled) = match (given_plan, &trace) {
        (Some(plan), _) => (plan, None),
        (None, Some(trace)) => {
            let (plan, report, took) = compile(trace, directory.path(), &args)?;
            (plan, Some((report, took)))
        }
        (None, None) => return Err(Failure::new(Exit::Usage, "nothing to replay")),
    };
    let options = Options {
        verify: match args.verify {
            Check::Warn => Verify::Warn,
            Check::Abort => Verify::Abort,
            Check::Off => Verify::Off,
        },
        log_directory: directory.path().to_owned(),
        interrupt: Some(interrupt),
        ..Options::default()
    };
    let begin = Instant::now();
    let mut preparing = Progress::new("preparing", "bytes", args.quiet);
    let mut replaying = Progress::new("replaying", "actions", args.quiet);
    let result = run::replay(&plan, &args.target, &options, &mut |p| match p.phase {
        Phase::Preparing => {
            end_if_interrupted(interrupt, directory.path(), "the next replay into the same directory begins anew");
            preparing.at(p.done, p.total);
        }
        Phase::Replaying => {
            preparing.clear();
            replaying.at(p.done, p.total);
        }
    });
    drop((preparing, replaying));
    let result = result.map_err(failure)?;
    let run = Run { result, compiled, wall: begin.elapsed(), lacks: trace.as_ref().map(lacks).unwrap_or_default() };
    if let (Some(trace), Some(output)) = (&trace, &args.output) {
        emit::emit(&run.result, trace, output, &Default::default()).map_err(|e| match e {
            emit::EmitError::Read(e) => e.into(),
            emit::EmitError::Write(e) => e.into(),
            other => Failure::new(Exit::System, other),
        })?;
    }
    report(&args, &run)?;
    end(run.result)
}

/// What is not in the trace, and so cannot be in the replay.
fn lacks(trace: &TraceReader) -> Vec<String> {
    let mut out = Vec::new();
    if !trace.manifest().complete {
        out.push("was not closed: it ends at the recorder's last flush".to_owned());
    }
    if trace.manifest().data != DataPolicy::Full {
        out.push(
            "was recorded without contents: writes are replayed as zeros, reads are judged by their length".into(),
        );
    }
    for loss in [Loss::Dropped, Loss::Truncated, Loss::Unsupported] {
        for (cause, entry) in trace.ledger().losses.get(&loss).into_iter().flatten() {
            out.push(format!("{} {}: {cause}", entry.count, loss.word()));
        }
    }
    out
}

/// What is wrong with a target is said before a long trace is compiled.
fn check_target(target: &Path) -> Result<(), Failure> {
    use reprise_replay::target::TargetError;
    let dir = target.to_owned();
    if !target.exists() {
        return Err(Failure::new(Exit::Target, TargetError::Missing { dir }));
    }
    if !target.is_dir() {
        return Err(Failure::new(Exit::Target, TargetError::NotADirectory { dir }));
    }
    Ok(())
}

fn open(path: &Path) -> Result<(Option<TraceReader>, Option<Plan>), Failure> {
    match TraceReader::open(path) {
        Ok(trace) => Ok((Some(trace), None)),
        Err(ReadError::NotATrace { .. }) if path.is_file() => Ok((None, Some(Plan::open(path)?))),
        Err(error) => Err(error.into()),
    }
}

fn compile(trace: &TraceReader, directory: &Path, args: &Replay) -> Result<(Plan, CompileReport, Duration), Failure> {
    let begin = Instant::now();
    let path = directory.join("plan");
    let mut progress = Progress::new("compiling", "actions", args.quiet);
    let interrupt = run::catch_signals();
    let report = reprise_plan::compile(trace, &path, args.order, &mut |done, total| {
        end_if_interrupted(interrupt, directory, "the target is untouched");
        progress.at(done, total);
    })?;
    let plan = Plan::open(&path)?;
    Ok((plan, report, begin.elapsed()))
}

fn report(args: &Replay, run: &Run) -> Outcome {
    let result = &run.result;
    let counts = result.counts;
    if args.json {
        let divergences: Vec<_> = result
            .divergences
            .iter()
            .map(|d| json!({"origin": d.origin, "call": d.call, "thread": d.thread, "text": d.text}))
            .collect();
        return print_json(&json!({
            "target": args.target,
            "result": args.output,
            "file_system": result.file_system,
            "order": result.order,
            "end": end_text(&result.end),
            "planned": result.planned,
            "actions": counts.actions,
            "threads": result.threads,
            "issued": counts.issued,
            "simulated": counts.simulated,
            "skipped": counts.skipped,
            "unsupported": counts.unsupported,
            "diverged": counts.diverged,
            "unavoidable": counts.unavoidable,
            "divergences": divergences,
            "compile_ns": run.compiled.as_ref().map(|(_, took)| took.as_nanos() as u64),
            "waits": run.compiled.as_ref().map(|(report, _)| report.waits),
            "surprises": run.compiled.as_ref().map(|(report, _)| report.surprises.clone()),
            "replay_ns": result.elapsed_ns,
            "wall_ns": run.wall.as_nanos() as u64,
            "confinement": result.confinement,
            "lacks": run.lacks,
            "notes": result.notes,
        }));
    }
    let mut text = format!(
        "replayed {} of {} actions of {} in {} ({}), ordering {}, on {}\n",
        counts.actions,
        result.planned,
        threads(result.threads),
        reprise_report::duration(result.elapsed_ns),
        end_text(&result.end),
        result.order,
        result.file_system
    );
    text += &format!(
        "  issued {}, simulated {}, skipped {}, unsupported {}, diverged {} (and {} differences that no replay can avoid)\n",
        counts.issued, counts.simulated, counts.skipped, counts.unsupported, counts.diverged, counts.unavoidable
    );
    for d in &result.divergences {
        text += &format!("  diverged: action {} (thread {}) {}: {}\n", d.origin, d.thread, d.call, d.text);
    }
    if counts.diverged > result.divergences.len() as u64 {
        text += &format!("  … and {} more\n", counts.diverged - result.divergences.len() as u64);
    }
    for lack in &run.lacks {
        text += &format!("  the trace: {lack}\n");
    }
    let surprises = run.compiled.iter().flat_map(|(report, _)| &report.surprises);
    for (surprise, count) in surprises {
        text += &format!("  note: {surprise} ({count})\n");
    }
    for (note, count) in &result.notes {
        text += &format!("  note: {note} ({count})\n");
    }
    if let (true, Some(output)) = (counts.diverged > 0, &args.output) {
        text += &format!("  see `reprise verify {} {}`\n", args.trace.display(), output.display());
    }
    print(&text)
}

fn end_text(end: &End) -> &'static str {
    match end {
        End::Complete => "complete",
        End::FirstDivergence => "stopped at the first divergence",
        End::Interrupted => "interrupted",
        End::Failed(_) => "failed",
    }
}

fn end(result: ReplayResult) -> Outcome {
    let diverged = result.counts.diverged > 0;
    match result.end {
        End::Complete | End::FirstDivergence => Ok(ExitCode::from(if diverged { Exit::Diverged } else { Exit::Done })),
        End::Interrupted => Err(Failure::new(
            Exit::Interrupted,
            "interrupted; the next replay into the same directory restores the initial tree first",
        )),
        End::Failed(error) => Err(failure(error)),
    }
}

fn failure(error: ReplayError) -> Failure {
    let exit = match &error {
        ReplayError::Target(_) => Exit::Target,
        ReplayError::Confine { .. } => Exit::Machine,
        ReplayError::Engine(failure) => match failure {
            EngineFailure::TargetFull { .. }
            | EngineFailure::TargetReadOnly { .. }
            | EngineFailure::TargetDevice { .. } => Exit::Target,
            EngineFailure::Damaged { .. } | EngineFailure::Absurd { .. } | EngineFailure::Stuck { .. } => Exit::Trace,
            EngineFailure::Stalled { .. } | EngineFailure::Log { .. } | EngineFailure::System { .. } => Exit::System,
        },
        ReplayError::System { .. } | ReplayError::Log { .. } | ReplayError::Worker { .. } => Exit::System,
    };
    Failure::new(exit, error)
}

fn threads(count: u64) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}
