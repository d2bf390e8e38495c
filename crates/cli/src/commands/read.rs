//! The subcommands that only read: `info`, `cat`, `stat`, `verify`.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use reprise_report::{CatOptions, Detail};
use reprise_trace::TraceReader;
use reprise_verify::VerifyError;

use super::{Outcome, print, print_json, reading, streams_to_terminal, style};
use crate::args::{By, Cat, Environment, Info, Stat, Verify};
use crate::exit::{Exit, Failure};

/// Rows of `stat` that people read; `--json` has all.
const MOST_ROWS: usize = 40;

/// `reprise info`.
pub fn info(args: Info) -> Outcome {
    let trace = reading(&args.trace, false)?;
    if args.check {
        trace.check_all()?;
    }
    let info = reprise_report::info(&trace)?;
    if args.json { print_json(&info) } else { print(&info.text(style())) }
}

/// `reprise environment`.
pub fn environment(args: Environment) -> Outcome {
    let trace = TraceReader::open(&args.trace)?;
    if args.json {
        let mut out = BufWriter::new(std::io::stdout().lock());
        for line in reprise_report::environment_lines(&trace) {
            writeln!(out, "{}", line?).map_err(Failure::output)?;
        }
        out.flush().map_err(Failure::output)?;
        return Ok(Exit::Done.into());
    }
    match reprise_report::environment_table(&trace, MOST_ROWS, style())? {
        Some(table) => print(&table),
        None => {
            let cause = "has no samples of the environment; `record --sample-every` takes them (the default is 100 ms)";
            Err(Failure::new(Exit::Usage, format!("{}: {cause}", args.trace.display())))
        }
    }
}

/// `reprise cat`.
pub fn cat(args: Cat) -> Outcome {
    let trace = reading(&args.trace, streams_to_terminal())?;
    if let Some(unknown) = args.call.iter().find(|name| reprise_calls::by_name(name).is_none()) {
        return Err(Failure::new(Exit::Usage, format!("'{unknown}' is no call that is recorded; see `reprise calls`")));
    }
    let options = CatOptions { thread: args.thread, path: args.path, calls: args.call, json: args.json };
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in reprise_report::cat(&trace, options)? {
        writeln!(out, "{}", line?).map_err(Failure::output)?;
    }
    out.flush().map_err(Failure::output)?;
    Ok(Exit::Done.into())
}

/// `reprise stat`.
pub fn stat(args: Stat) -> Outcome {
    let trace = reading(&args.trace, false)?;
    if let Some(original) = &args.replay_of {
        return replay_times(&trace, original, args.json);
    }
    let by = match args.by {
        By::Call => reprise_report::By::Call,
        By::Path => reprise_report::By::Path,
        By::Thread => reprise_report::By::Thread,
    };
    let stat = reprise_report::stat(&trace, by)?;
    if args.json { print_json(&stat) } else { print(&stat.text(MOST_ROWS, style())) }
}

/// The trace that a replay's trace is the replay of.
pub(super) fn original_of(result: &TraceReader, original: &Path) -> Result<TraceReader, Failure> {
    let original = TraceReader::open(original)?;
    is_replay_of(result, &original)?;
    Ok(original)
}

/// Refuses the trace of a replay of another trace.
pub(super) fn is_replay_of(result: &TraceReader, original: &TraceReader) -> Result<(), Failure> {
    let (of, id) = (result.manifest().origin.as_deref(), original.manifest().id.as_str());
    if of == Some(id) {
        return Ok(());
    }
    let result = result.path().display();
    let cause = match of {
        Some(of) => {
            format!("{result} is a replay of the trace {of}, not of {id}; give the trace that was replayed")
        }
        None => format!("{result} is not a replay's trace; `reprise replay -o` writes one"),
    };
    Err(Failure::new(Exit::Usage, cause))
}

fn replay_times(result: &TraceReader, original: &Path, json: bool) -> Outcome {
    let original = original_of(result, original)?;
    let times = reprise_report::replay_times(result, Some(&original))?;
    if json { print_json(&times) } else { print(&reprise_report::replay_times_text(&times, Detail::Full, style())) }
}

/// `reprise verify`.
pub fn verify(args: Verify) -> Outcome {
    let trace = reading(&args.trace, false)?;
    let same = if args.tree {
        let found = reprise_verify::compare_tree(&trace, &args.result).map_err(failure)?;
        if args.json {
            print_json(&found)?;
        } else {
            print(&reprise_report::tree_text(&found, style()))?;
        }
        found.is_same()
    } else {
        let result = TraceReader::open(&args.result)?;
        let found = reprise_verify::compare(&trace, &result).map_err(failure)?;
        if args.json {
            print_json(&found)?;
        } else {
            print(&reprise_report::comparison_text(&found, style()))?;
        }
        found.is_same()
    };
    Ok(ExitCode::from(if same { Exit::Done } else { Exit::Diverged }))
}

fn failure(error: VerifyError) -> Failure {
    let exit = match error {
        VerifyError::Trace(error) => return error.into(),
        VerifyError::NotAReplay { .. } | VerifyError::OtherOrigin { .. } => Exit::Usage,
        VerifyError::NoDirectory { .. } => Exit::Target,
        VerifyError::Io { .. } => Exit::System,
    };
    Failure::new(exit, error)
}
