//! `reprise replay`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use reprise_measure::ReplayTimes;
use reprise_plan::{CompileReport, Fill, Plan};
use reprise_replay::limit::LimitError;
use reprise_replay::resume::Cut;
use reprise_replay::run::{
    self, Cost, End, Executor, Failure as EngineFailure, Job, Options, Phase, ReplayError, ReplayResult, Verify,
};
use reprise_replay::{confine, emit, times};
use reprise_report::Detail;
use reprise_trace::{DataPolicy, Kind, Loss, ReadError, TraceReader};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::samples::Samples;
use super::trust::Trust;
use super::workplace::{self, Workplace};
use super::{Outcome, end_if_interrupted, memory, print, print_json, resume, several, style};
use crate::args::{Cache, Check, Confine, Io, Replay};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;

/// A replay and what came before it.
struct Run {
    result: ReplayResult,
    compiled: Option<(CompileReport, Duration)>,
    wall: Duration,
    /// What the trace lacks, and therefore the replay.
    lacks: Vec<String>,
    times: ReplayTimes,
    /// Where it went on.
    cut: Option<Cut>,
    /// The command that does what is left.
    next: Option<String>,
}

/// Replays a trace, or a plan.
pub fn run(mut args: Replay) -> Outcome {
    check_target(&args.target)?;
    let name = match &args.traces[..] {
        [one] if !args.side_by_side => one.clone(),
        _ => return super::overlay::run(args),
    };
    let (trace, given_plan) = open(&name)?;
    if let Some(made) = resume::finish_killed(trace.as_ref(), &args)? {
        return print(&made);
    }
    let cut = resume::cut(trace.as_ref(), &mut args)?;
    if let (None, Some(_)) = (&trace, &args.output) {
        let cause = "a plan alone cannot give a result's trace: replay the trace itself, or leave -o out";
        return Err(Failure::new(Exit::Usage, cause));
    }
    if let Some(output) = &args.output
        && output.read_dir().is_ok_and(|mut entries| entries.next().is_some())
    {
        return Err(reprise_trace::WriteError::Exists { path: output.clone() }.into());
    }
    let memory_bytes = memory::limit_bytes(&args, &[trace.as_ref()])?;
    // Before anything is made: what is made is removed again.
    let interrupt = run::catch_signals();
    let directory = Workplace::of(&args)?;
    let resumed = match (&trace, cut) {
        (Some(trace), Some(cut)) => Some(resume::rest(trace, cut, directory.path(), args.quiet)?),
        _ => None,
    };
    let replayed = resumed.as_ref().map(|resumed| &resumed.trace).or(trace.as_ref());
    let (plan, compiled) = match (given_plan, replayed) {
        (Some(plan), _) => (plan, None),
        (None, Some(trace)) => {
            let (plan, report, took) = compile(trace, directory.path(), &args)?;
            (plan, Some((report, took)))
        }
        (None, None) => return Err(Failure::new(Exit::Usage, "nothing to replay")),
    };
    let kept = directory.outlives_this().then(|| resume::kept_facts(&args));
    let options = Options { memory_bytes, kept, ..options(&args, directory.path(), interrupt) };
    let begin = Instant::now();
    let job = Job { plan: &plan, dir: &args.target, rest: resumed.as_ref().map(|resumed| &resumed.rest) };
    let (mut result, samples) =
        watched(&args, directory.path(), interrupt, |progress| run::replay_job(job, &options, progress))?;
    if let Some(resumed) = &resumed {
        result.notes.extend(resumed.notes.clone());
    }
    let wall = begin.elapsed();
    let lacks = trace.as_ref().map(|trace| lacks(trace, args.fill)).unwrap_or_default();
    let times = times::times(&result, trace.as_ref()).map_err(emit_failure)?;
    let cut = resumed.map(|resumed| resumed.cut);
    let next = resume::next_command(&args, &result);
    let run = Run { result, compiled, wall, lacks, times, cut, next };
    if let (Some(trace), Some(output)) = (&trace, &args.output) {
        let around = around(&args, &samples, &run.result);
        let written =
            workplace::write_result(directory.path(), output, |out| emit::emit(&run.result, trace, out, &around));
        if let Err(error) = written {
            directory.keep();
            let Failure { exit, message } = emit_failure(error);
            return Err(Failure { exit, message: message + &resume::kept(&args) });
        }
    }
    drop(directory);
    report(&args, &run, trace.as_ref())?;
    end([(run.result, run.next)])
}

/// What was around a replay, and of its options what its result does not know.
pub(super) fn around(args: &Replay, samples: &Samples, result: &ReplayResult) -> emit::Around {
    let mut around = samples.around(result.started_ns);
    around.facts.extend(resume::kept_facts(args));
    around
}

/// Where the plan and the log are: beside the result, off the target.
pub(super) fn scratch(output: Option<&Path>, what: &str) -> Result<TempDir, Failure> {
    let place = output.and_then(Path::parent).filter(|p| !p.as_os_str().is_empty());
    let place: PathBuf = place.map_or_else(std::env::temp_dir, Path::to_owned);
    tempfile::Builder::new().prefix("reprise-").tempdir_in(&place).map_err(|e| {
        let text = format!("{}: cannot keep {what}: {e}; set TMPDIR to a place with room", place.display());
        Failure::new(Exit::System, text)
    })
}

/// Replays, shows how far it has come, and samples what is around it.
pub(super) fn watched<T>(
    args: &Replay,
    directory: &Path,
    interrupt: &'static AtomicU32,
    replay: impl FnOnce(&mut dyn FnMut(run::Progress)) -> Result<T, ReplayError>,
) -> Result<(T, Samples), Failure> {
    let next = match args.resume {
        Some(_) => "the same command resumes the replay",
        None => "the next replay into the same directory begins anew",
    };
    let mut samples = Samples::new(&args.target);
    let mut preparing = Progress::new("preparing", "bytes", args.quiet);
    let mut replaying = Progress::new("replaying", "actions", args.quiet);
    let result = replay(&mut |p| match p.phase {
        Phase::Preparing => {
            end_if_interrupted(interrupt, directory, next);
            preparing.at(p.done, p.total);
        }
        Phase::Replaying => {
            samples.take(p.done == p.total);
            preparing.clear();
            replaying.at(p.done, p.total);
        }
    });
    drop((preparing, replaying));
    result.map_err(failure).map(|result| (result, samples))
}

/// How to replay, as the arguments say.
pub(super) fn options(args: &Replay, log_directory: &Path, interrupt: &'static AtomicU32) -> Options {
    Options {
        verify: match args.verify {
            Check::Warn => Verify::Warn,
            Check::Abort => Verify::Abort,
            Check::Sampled => Verify::Sampled,
            Check::Off => Verify::Off,
        },
        pace: args.pace,
        executor: match args.io {
            Io::Sync => Executor::Sync,
            Io::Uring => Executor::Uring,
            Io::Linked => Executor::Linked,
            Io::Polled => Executor::Polled,
            Io::Touch => Executor::Touch,
            Io::SkipReads => Executor::SkipReads,
        },
        log_directory: log_directory.to_owned(),
        interrupt: Some(interrupt),
        schedule: args.schedule.clone(),
        traced_cache: args.cache == Cache::Traced,
        pin: args.pin,
        no_access_times: args.noatime,
        confinement: match args.confine {
            Confine::Full => confine::Options::default(),
            Confine::Lean => confine::Options::lean(),
        },
        mapped_bytes: args.plan_memory.0,
        cache: memory::start(args),
        before_start: args.before_start.clone(),
        ..Options::default()
    }
}

/// What emitting a result failed with.
pub(super) fn emit_failure(error: emit::EmitError) -> Failure {
    match error {
        emit::EmitError::Read(e) => e.into(),
        emit::EmitError::Write(e) => e.into(),
        other @ (emit::EmitError::Log(_) | emit::EmitError::OtherTrace { .. }) => Failure::new(Exit::System, other),
    }
}

/// What is not in the trace, and so cannot be in the replay.
pub(super) fn lacks(trace: &TraceReader, fill: Fill) -> Vec<String> {
    let mut out = Vec::new();
    let about = trace.manifest();
    if !about.complete {
        out.push("was not closed: it ends at the recorder's last flush".to_owned());
    }
    if let (true, Kind::Record, Some(how)) = (about.complete, about.kind, about.ended_early()) {
        out.push(format!("is not complete: {how}"));
    }
    if about.data != DataPolicy::Full {
        out.push(format!(
            "was recorded without contents: writes are replayed as {}, reads are judged by their length",
            fill.words()
        ));
    }
    for loss in [Loss::Dropped, Loss::Truncated, Loss::Unsupported] {
        for (cause, entry) in trace.ledger().losses.get(&loss).into_iter().flatten() {
            out.push(format!("{} {}: {cause}", entry.count, loss.word()));
        }
    }
    out
}

/// What is wrong with a target is said before a long trace is compiled.
pub(super) fn check_target(target: &Path) -> Result<(), Failure> {
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

pub(super) fn open(path: &Path) -> Result<(Option<TraceReader>, Option<Plan>), Failure> {
    match TraceReader::open(path) {
        Ok(trace) => Ok((Some(trace), None)),
        Err(ReadError::NotATrace { .. }) if path.is_file() => Ok((None, Some(Plan::open(path)?))),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn compile(
    trace: &TraceReader,
    directory: &Path,
    args: &Replay,
) -> Result<(Plan, CompileReport, Duration), Failure> {
    let begin = Instant::now();
    let path = directory.join("plan");
    let mut progress = Progress::new("compiling", "actions", args.quiet);
    let interrupt = run::catch_signals();
    let report = reprise_plan::compile_filled(trace, &path, args.order, args.fill, &mut |done, total| {
        end_if_interrupted(interrupt, directory, "the target is untouched");
        progress.at(done, total);
    })?;
    let plan = Plan::open(&path)?;
    Ok((plan, report, begin.elapsed()))
}

/// What is said of every replay, as JSON.
pub(super) fn document(result: &ReplayResult) -> Map<String, Value> {
    let counts = result.counts;
    let divergences = result.divergences.iter();
    let divergences =
        divergences.map(|d| json!({"origin": d.origin, "call": d.call, "thread": d.thread, "text": d.text}));
    let facts = [
        ("order", json!(result.order)),
        ("end", json!(end_text(&result.end))),
        ("planned", json!(result.planned)),
        ("cut", json!(result.cut)),
        ("actions", json!(counts.actions)),
        ("threads", json!(result.threads)),
        ("issued", json!(counts.issued)),
        ("simulated", json!(counts.simulated)),
        ("skipped", json!(counts.skipped)),
        ("unsupported", json!(counts.unsupported)),
        ("diverged", json!(counts.diverged)),
        ("unavoidable", json!(counts.unavoidable)),
        ("divergences", divergences.collect()),
        ("replay_ns", json!(result.elapsed_ns)),
        ("cache", memory::document(&result.cache)),
        ("engine", json!(result.cost)),
        ("notes", json!(result.notes)),
    ];
    facts.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}

/// What is said of every replay first: how far it came, and the counts.
pub(super) fn head_text(result: &ReplayResult) -> String {
    let counts = result.counts;
    format!(
        "{} of {} of {} in {} ({}), ordering {}, on {}\n  \
         issued {}, simulated {}, skipped {}, unsupported {}, diverged {} (and {} differences that no replay can avoid)\n",
        counts.actions,
        several(result.planned, "action"),
        several(result.threads, "thread"),
        reprise_report::duration(result.elapsed_ns),
        end_text(&result.end),
        result.order,
        result.file_system,
        counts.issued,
        counts.simulated,
        counts.skipped,
        counts.unsupported,
        counts.diverged,
        counts.unavoidable
    )
}

/// What went differently, as far as it is told one by one.
pub(super) fn divergences_text(result: &ReplayResult) -> String {
    let mut text = String::new();
    for d in &result.divergences {
        text += &format!("  diverged: action {} (thread {}) {}: {}\n", d.origin, d.thread, d.call, d.text);
    }
    let more = result.counts.diverged.saturating_sub(result.divergences.len() as u64);
    if more > 0 {
        text += &format!("  … and {more} more\n");
    }
    text
}

fn report(args: &Replay, run: &Run, trace: Option<&TraceReader>) -> Outcome {
    let result = &run.result;
    let counts = result.counts;
    if args.json {
        let mut document = document(result);
        let own = [
            ("target", json!(args.target)),
            ("result", json!(args.output)),
            ("file_system", json!(result.file_system)),
            ("pace", json!(result.pace.to_string())),
            ("io", json!(result.executor.to_string())),
            ("compile_ns", json!(run.compiled.as_ref().map(|(_, took)| took.as_nanos() as u64))),
            ("waits", json!(run.compiled.as_ref().map(|(report, _)| report.waits))),
            ("surprises", json!(run.compiled.as_ref().map(|(report, _)| report.surprises.clone()))),
            ("wall_ns", json!(run.wall.as_nanos() as u64)),
            ("times", json!(run.times)),
            ("uncertainty", Trust::of(result, &run.times).document()),
            ("confinement", json!(result.confinement)),
            ("lacks", json!(run.lacks)),
            ("degrees", json!(result.degrees)),
            ("continues", resume::document(args, run.cut.as_ref())),
            ("resume_with", json!(run.next)),
        ];
        document.extend(own.map(|(key, value)| (key.to_owned(), value)));
        return print_json(&document);
    }
    let mut text = format!("replayed {}", head_text(result));
    text += &resume::text(args, run.cut.as_ref(), trace);
    text += &memory::text(&result.cache);
    text += &reprise_report::replay_times_text(&run.times, Detail::Short, style());
    text += &cost_text(result.cost.as_ref());
    text += &Trust::of(result, &run.times).text();
    text += &divergences_text(result);
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
    if let (End::FirstDivergence, Some(next)) = (&result.end, &run.next) {
        text += &format!("  go on with `{next}`\n");
    }
    if let (true, Some(output)) = (counts.diverged > 0, &args.output) {
        text += &format!("  see `reprise verify {} {}`\n", args.traces[0].display(), output.display());
    }
    print(&text)
}

/// What the replay took beside what its calls did.
fn cost_text(cost: Option<&Cost>) -> String {
    let Some(cost) = cost else { return String::new() };
    let duration = reprise_report::duration;
    let list = match cost.list_ns {
        0 => String::new(),
        ns => {
            format!("  confinement: {ns} ns of each call for the list of permitted calls (none with --confine lean)\n")
        }
    };
    let text = format!(
        "  processor time: {} in the engine, {} in the kernel; {} slept, {} lost a processor; at most {} resident\n",
        duration(cost.user_ns),
        duration(cost.system_ns),
        times(cost.voluntary_switches),
        times(cost.involuntary_switches),
        reprise_report::bytes(cost.resident_bytes)
    );
    text + &list
}

fn times(count: u64) -> String {
    several(count, "time")
}

fn end_text(end: &End) -> &'static str {
    match end {
        End::Complete => "complete",
        End::FirstDivergence => "stopped at the first divergence",
        End::Interrupted => "interrupted",
        End::Failed(_) => "failed",
    }
}

/// The outcome of replays that ran together; of each with the command that does what it left to do.
pub(super) fn end(results: impl IntoIterator<Item = (ReplayResult, Option<String>)>) -> Outcome {
    let mut diverged = false;
    for (result, next) in results {
        diverged |= result.counts.diverged > 0;
        match result.end {
            End::Complete | End::FirstDivergence => {}
            End::Interrupted => {
                let text = match next {
                    Some(next) => format!("interrupted; go on with `{next}`, or begin anew with the command that it was"),
                    None => "interrupted; the next replay into the same directory restores the initial tree first (a replay \
                             of one trace that writes its result, -o RESULT, can be resumed)"
                        .to_owned(),
                };
                return Err(Failure::new(Exit::Interrupted, text));
            }
            End::Failed(error) => {
                let Failure { exit, message } = failure(error);
                let next = next.map(|next| format!("; what was done is kept, go on with `{next}`")).unwrap_or_default();
                return Err(Failure { exit, message: message + &next });
            }
        }
    }
    Ok(ExitCode::from(if diverged { Exit::Diverged } else { Exit::Done }))
}

/// What went wrong, with its exit code.
pub fn failure(error: ReplayError) -> Failure {
    let exit = match &error {
        ReplayError::Target(_) => Exit::Target,
        ReplayError::Conflict { .. } => Exit::Usage,
        ReplayError::Confine { .. } | ReplayError::Threads { .. } => Exit::Machine,
        ReplayError::Engine(failure) => match failure {
            EngineFailure::TargetFull { .. }
            | EngineFailure::TargetReadOnly { .. }
            | EngineFailure::TargetDevice { .. }
            | EngineFailure::TargetGone { .. } => Exit::Target,
            EngineFailure::Limit { .. } | EngineFailure::Threads { .. } => Exit::Machine,
            EngineFailure::Damaged { .. } | EngineFailure::Absurd { .. } | EngineFailure::Stuck { .. } => Exit::Trace,
            EngineFailure::Stalled { .. } | EngineFailure::Log { .. } | EngineFailure::System { .. } => Exit::System,
        },
        ReplayError::Limit(error) => match error {
            LimitError::NoController | LimitError::NotPermitted { .. } => Exit::Machine,
            LimitError::TooMuch { .. } => Exit::Usage,
            LimitError::System { .. } => Exit::System,
        },
        ReplayError::BeforeStart { .. } => Exit::Usage,
        ReplayError::Interrupted => Exit::Interrupted,
        ReplayError::System { .. }
        | ReplayError::Log { .. }
        | ReplayError::Memory { .. }
        | ReplayError::Warm { .. }
        | ReplayError::Silent { .. }
        | ReplayError::Worker { .. } => Exit::System,
    };
    Failure::new(exit, error)
}
