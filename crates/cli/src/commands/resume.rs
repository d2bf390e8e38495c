//! `reprise replay --resume`: what a replay that ended early has left to do, replayed as it was.
//!
//! The rest is a slice of the trace, from the first action that was not completed. Whatever is in the target is brought to the
//! state at that action, so what was done beyond it is done again, on the tree on which it was done first.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use reprise_replay::emit;
use reprise_replay::log::Numbers;
use reprise_replay::resume::{self, Cut, Rest, ResumeError};
use reprise_replay::run::{self, ReplayResult, Unfinished, UnfinishedError};
use reprise_slice::{Moment, Selection};
use reprise_trace::{Action, TraceReader};
use reprise_validate::shell_word;
use serde_json::{Value, json};

use super::replay::emit_failure;
use super::{end_if_interrupted, workplace};
use crate::args::{Io, Replay};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;

/// The fact of a result that says what stood for content that its trace lacks.
const FILL: &str = "fill";

/// Of the options of a replay what its result does not know.
pub(super) fn kept_facts(args: &Replay) -> BTreeMap<String, String> {
    BTreeMap::from([(FILL.to_owned(), args.fill.to_string())])
}

/// A replay that goes on.
pub(super) struct Resumed {
    pub cut: Cut,
    pub rest: Rest,
    /// What is left, as a trace of its own.
    pub trace: TraceReader,
    /// What could not be brought forward to its beginning.
    pub notes: BTreeMap<String, u64>,
}

/// Makes the result that a replay did not come to write before it was killed, if one is to be resumed that was. What is said if
/// nothing is left to do.
pub(super) fn finish_killed(trace: Option<&TraceReader>, args: &Replay) -> Result<Option<String>, Failure> {
    let (Some(trace), Some(path)) = (trace, &args.resume) else { return Ok(None) };
    let left = workplace::beside(path);
    if !Unfinished::is_in(&left) {
        return Ok(None);
    }
    let unfinished = Unfinished::read(&left).map_err(unfinished_failure)?;
    if TraceReader::open(path).is_ok_and(|result| result.manifest().complete) {
        // It was killed when nothing was left to do but this.
        std::fs::remove_dir_all(&left)?;
        return Ok(None);
    }
    workplace::write_result(&left, path, |out| emit::emit_unfinished(&unfinished, trace, out)).map_err(emit_failure)?;
    std::fs::remove_dir_all(&left)?;
    let result = TraceReader::open(path)?;
    match resume::cut(trace, &result) {
        Err(ResumeError::Complete { path, trace }) => Ok(Some(format!(
            "nothing was left to do but to write {}; compare it with `reprise verify {} {}`\n",
            path.display(),
            trace.display(),
            path.display()
        ))),
        _ => Ok(None),
    }
}

/// Where to go on, if that is asked for; `args` then say how the result was made.
pub(super) fn cut(trace: Option<&TraceReader>, args: &mut Replay) -> Result<Option<Cut>, Failure> {
    let Some(path) = args.resume.clone() else { return Ok(None) };
    let trace = trace.ok_or_else(|| {
        let cause =
            "a plan cannot be resumed: its trace says what the state was; give the trace that it was compiled from";
        Failure::new(Exit::Usage, cause)
    })?;
    let result = TraceReader::open(&path)?;
    let cut = resume::cut(trace, &result).map_err(failure)?;
    let facts = &result.manifest().facts;
    let fact = |name: &str| facts.get(name).map(String::as_str);
    args.order = parsed(&path, "order", fact("order"))?.unwrap_or(args.order);
    args.pace = parsed(&path, "pace", fact("pace"))?.unwrap_or(args.pace);
    args.fill = parsed(&path, FILL, fact(FILL))?.unwrap_or(args.fill);
    let io = fact("io").map(|text| Io::from_str(text, false).map_err(|e| not_understood(&path, "io", e)));
    args.io = io.transpose()?.unwrap_or(args.io);
    Ok(Some(cut))
}

fn parsed<T: FromStr<Err: ToString>>(path: &Path, name: &str, text: Option<&str>) -> Result<Option<T>, Failure> {
    text.map(|text| text.parse().map_err(|e: T::Err| not_understood(path, name, e.to_string()))).transpose()
}

fn not_understood(path: &Path, name: &str, cause: String) -> Failure {
    failure(ResumeError::Malformed { path: path.to_owned(), cause: format!("its fact `{name}`: {cause}") })
}

/// Makes a trace of what is left.
pub(super) fn rest(trace: &TraceReader, cut: Cut, directory: &Path, quiet: bool) -> Result<Resumed, Failure> {
    let out = directory.join("rest");
    let selection = Selection { from: Moment::Action(cut.action), to: Moment::End, ..Selection::default() };
    let interrupt = run::catch_signals();
    let mut progress = Progress::new("slicing", "actions", quiet);
    let report = reprise_slice::slice(trace, &out, &selection, &mut |done, total| {
        end_if_interrupted(interrupt, directory, "the target is untouched");
        progress.at(done, total);
    });
    drop(progress);
    let report = report.map_err(super::slice::failure)?;
    let numbers = Numbers { first_action: cut.action, threads: report.threads };
    let rest = Rest { of: trace.manifest().id.clone(), continues: cut.result.clone(), numbers };
    Ok(Resumed { cut, rest, trace: TraceReader::open(&out)?, notes: report.notes })
}

/// What is said of it, as JSON.
pub(super) fn document(args: &Replay, cut: Option<&Cut>) -> Value {
    json!(cut.map(|cut| json!({
        "result": args.resume,
        "id": cut.result,
        "first_action": cut.action,
        "again": cut.again,
    })))
}

/// The same as text.
pub(super) fn text(args: &Replay, cut: Option<&Cut>, trace: Option<&TraceReader>) -> String {
    let (Some(cut), Some(path), Some(trace)) = (cut, &args.resume, trace) else { return String::new() };
    let again = match cut.again {
        0 => String::new(),
        again => format!("; {again} actions that it did beyond that were done again"),
    };
    let of = trace.count::<Action>();
    format!("  continues {} from action {} of {of}{again}\n", path.display(), cut.action)
}

/// The command that does what a replay left to do, if that can be done.
pub(super) fn next_command(args: &Replay, result: &ReplayResult) -> Option<String> {
    result.cut.and_then(|_| command(args))
}

/// What is said where the result could not be written.
pub(super) fn kept(args: &Replay) -> String {
    command(args).map(|next| format!("; what was done is kept, go on there with `{next}`")).unwrap_or_default()
}

/// The command that goes on where a replay with these arguments ended.
pub(super) fn command(args: &Replay) -> Option<String> {
    let (Some(output), [trace]) = (&args.output, &args.traces[..]) else { return None };
    let word = |path: &Path| shell_word(&path.to_string_lossy());
    let words = [trace.as_path(), Path::new("--target"), &args.target, Path::new("--resume"), output.as_path()];
    let words = words.into_iter().map(word).collect::<Vec<_>>().join(" ");
    Some(format!("reprise replay {words} -o {}", word(&next_name(output))))
}

/// `a.reprise`, `a.2.reprise`, `a.3.reprise` …: the first that does not exist.
fn next_name(output: &Path) -> PathBuf {
    let extension = output.extension().filter(|e| *e == OsStr::new("reprise"));
    let stem = if extension.is_some() { output.with_extension("") } else { output.to_owned() };
    let number = |path: &Path| path.extension()?.to_str()?.parse::<u64>().ok();
    let (stem, from) = match number(&stem) {
        Some(number) => (stem.with_extension(""), number.saturating_add(1)),
        None => (stem, 2),
    };
    let named = |number: u64| {
        let mut name = stem.clone().into_os_string();
        name.push(format!(".{number}"));
        if let Some(extension) = extension {
            name.push(".");
            name.push(extension);
        }
        PathBuf::from(name)
    };
    (from..).map(named).find(|name| !name.exists()).unwrap_or_else(|| named(from))
}

fn unfinished_failure(error: UnfinishedError) -> Failure {
    let exit = match &error {
        UnfinishedError::Runs { .. } => Exit::Usage,
        UnfinishedError::Unreadable { .. } => Exit::Trace,
    };
    Failure::new(exit, error)
}

fn failure(error: ResumeError) -> Failure {
    match error {
        ResumeError::Read(error) => error.into(),
        ResumeError::NotAResult { .. } | ResumeError::OtherTrace { .. } | ResumeError::Complete { .. } => {
            Failure::new(Exit::Usage, error)
        }
        ResumeError::Malformed { .. } => Failure::new(Exit::Trace, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_up() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let next = |name: &str| next_name(&at(name)).strip_prefix(dir.path()).unwrap().to_owned();
        for (name, wanted) in [
            ("a.reprise", "a.2.reprise"),
            ("a.2.reprise", "a.3.reprise"),
            ("a", "a.2"),
            ("a.9", "a.10"),
            ("a.b", "a.b.2"),
        ] {
            assert_eq!(next(name), Path::new(wanted), "{name}");
        }
        std::fs::create_dir(at("a.2.reprise")).unwrap();
        assert_eq!(next("a.reprise"), Path::new("a.3.reprise"));
    }
}
