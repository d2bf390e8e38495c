//! `reprise replay` of several traces at once.

use std::path::{Path, PathBuf};

use reprise_plan::{Fill, Plan};
use reprise_replay::run::{self, Job, Options, ReplayResult};
use reprise_replay::{emit, times};
use reprise_trace::{TraceReader, WriteError};
use serde_json::{Value, json};

use super::replay::{self, compile, lacks, open};
use super::trust::Trust;
use super::{Outcome, memory, print, print_json};
use crate::args::Replay;
use crate::exit::{Exit, Failure};

/// One of the traces.
struct Part {
    name: PathBuf,
    trace: Option<TraceReader>,
    plan: Plan,
    dir: PathBuf,
}

impl Part {
    /// What its trace lacks.
    fn lacks(&self, fill: Fill) -> Vec<String> {
        self.trace.iter().flat_map(|trace| lacks(trace, fill)).collect()
    }
}

/// Replays several traces, in one tree or side by side.
pub fn run(args: Replay) -> Outcome {
    check_output(&args)?;
    // Before anything is made: what is made is removed again.
    let interrupt = run::catch_signals();
    let directory = replay::scratch(args.output.as_deref(), "the plans")?;
    let mut parts = Vec::with_capacity(args.traces.len());
    for (number, name) in (1..).zip(&args.traces) {
        parts.push(part(&args, number, name, directory.path())?);
    }
    let traces: Vec<_> = parts.iter().map(|part| part.trace.as_ref()).collect();
    let memory_bytes = memory::limit_bytes(&args, &traces)?;
    let options = Options { memory_bytes, ..replay::options(&args, directory.path(), interrupt) };
    let jobs: Vec<Job<'_>> = parts.iter().map(|part| Job { plan: &part.plan, dir: &part.dir, rest: None }).collect();
    let results =
        replay::watched(&args, directory.path(), interrupt, |progress| run::replay_all(&jobs, &options, progress))?;
    let (results, samples) = results;
    for (number, (part, result)) in (1..).zip(parts.iter().zip(&results)) {
        if let (Some(trace), Some(output)) = (&part.trace, &args.output) {
            let name = output.join(format!("{number}.reprise"));
            emit::emit(result, trace, &name, &replay::around(&args, &samples, result)).map_err(replay::emit_failure)?;
        }
    }
    let trust = |(part, result): (&Part, &ReplayResult)| {
        let times = times::times(result, part.trace.as_ref()).map_err(replay::emit_failure)?;
        Ok(Trust::of(result, &times))
    };
    let trusts: Vec<Trust> = parts.iter().zip(&results).map(trust).collect::<Result<_, Failure>>()?;
    match args.json {
        true => print_json(&document(&args, &parts, &results, &trusts))?,
        false => print(&text(&args, &parts, &results, &trusts))?,
    };
    replay::end(results.into_iter().map(|result| (result, None)))
}

fn check_output(args: &Replay) -> Result<(), Failure> {
    if args.schedule.is_some() {
        return Err(Failure::new(Exit::Usage, "a schedule is for the replay of one trace"));
    }
    if args.resume.is_some() {
        let text = "several traces cannot be resumed at once; resume one that was replayed --side-by-side in its own directory";
        return Err(Failure::new(Exit::Usage, text));
    }
    let Some(output) = &args.output else { return Ok(()) };
    if output.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(WriteError::Exists { path: output.clone() }.into());
    }
    std::fs::create_dir_all(output)
        .map_err(|e| Failure::new(Exit::System, format!("{}: {e}; choose another place with -o", output.display())))
}

fn part(args: &Replay, number: usize, name: &Path, scratch: &Path) -> Result<Part, Failure> {
    let (trace, plan) = open(name)?;
    let plan = match (plan, &trace) {
        (Some(_), _) if args.output.is_some() => {
            let cause = "a plan alone cannot give a result's trace: replay the traces themselves, or leave -o out";
            return Err(Failure::new(Exit::Usage, cause));
        }
        (Some(plan), _) => plan,
        (None, Some(trace)) => {
            let place = scratch.join(number.to_string());
            std::fs::create_dir(&place)?;
            compile(trace, &place, args)?.0
        }
        (None, None) => return Err(Failure::new(Exit::Usage, "nothing to replay")),
    };
    let dir = match args.side_by_side {
        true => args.target.join(number.to_string()),
        false => args.target.clone(),
    };
    if args.side_by_side
        && let Err(e) = std::fs::create_dir(&dir)
        && e.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(Failure::new(
            Exit::Target,
            format!("{}: cannot be made: {e}; choose another target", dir.display()),
        ));
    }
    Ok(Part { name: name.to_owned(), trace, plan, dir })
}

fn document(args: &Replay, parts: &[Part], results: &[ReplayResult], trusts: &[Trust]) -> Value {
    let one = |(number, ((part, result), trust)): (usize, ((&Part, &ReplayResult), &Trust))| {
        let mut document = replay::document(result);
        let own = [
            ("trace", json!(part.name)),
            ("target", json!(part.dir)),
            ("result", json!(args.output.as_ref().map(|output| output.join(format!("{number}.reprise"))))),
            ("started_ns", json!(result.started_ns)),
            ("uncertainty", trust.document()),
            ("lacks", json!(part.lacks(args.fill))),
        ];
        document.extend(own.map(|(key, value)| (key.to_owned(), value)));
        Value::Object(document)
    };
    let replays: Vec<Value> = (1..).zip(parts.iter().zip(results).zip(trusts)).map(one).collect();
    json!({"side_by_side": args.side_by_side, "replays": replays})
}

fn text(args: &Replay, parts: &[Part], results: &[ReplayResult], trusts: &[Trust]) -> String {
    let how = if args.side_by_side { "side by side" } else { "in one tree" };
    let mut out = format!("replayed {} traces at once, {how}\n", parts.len());
    for ((part, result), trust) in parts.iter().zip(results).zip(trusts) {
        out += &format!("{}: {}{}", part.name.display(), replay::head_text(result), memory::text(&result.cache));
        out += &trust.text();
        out += &replay::divergences_text(result);
        for lack in part.lacks(args.fill) {
            out += &format!("  the trace: {lack}\n");
        }
        for (note, count) in &result.notes {
            out += &format!("  note: {note} ({count})\n");
        }
    }
    out
}
