//! One module a subcommand.

mod compare;
mod compile;
mod doctor;
mod export;
mod graph;
mod import;
mod memory;
mod names;
mod overlay;
mod read;
mod record;
mod replay;
mod report;
mod resume;
mod rotate;
mod samples;
mod slice;
mod sql;
mod tree;
mod trust;
mod validate;
mod workload;
mod workplace;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use reprise_report::Style;
use reprise_trace::{ReadError, TraceReader};

use crate::args::{Cli, Command, command};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;

type Outcome = Result<ExitCode, Failure>;

/// Runs the chosen subcommand.
pub fn run(cli: Cli) -> Outcome {
    match cli.command {
        Command::Record(args) => record::run(args),
        Command::Recover(args) => record::recover(args),
        Command::Import(args) => import::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Compile(args) => compile::run(args),
        Command::Graph(args) => graph::run(args),
        Command::Calls(args) => {
            if args.json {
                let number = |c: &reprise_calls::Call| (!c.is_pseudo()).then_some(c.number);
                let rows = reprise_calls::all()
                    .map(|c| serde_json::json!({"call": c.name, "number": number(c), "doc": c.doc}));
                return print_json(&rows.collect::<Vec<_>>());
            }
            let text = if args.markdown { crate::calls::markdown() } else { call_list() };
            print(&text)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "reprise", &mut script);
            write(&script)
        }
        Command::Man { directory } => {
            std::fs::create_dir_all(&directory)?;
            clap_mangen::generate_to(command(), &directory)?;
            Ok(Exit::Done.into())
        }
        Command::Reference { directory } => {
            for (name, text) in crate::reference::pages() {
                std::fs::write(directory.join(name), text)?;
            }
            Ok(Exit::Done.into())
        }
        Command::Verify(args) => read::verify(args),
        Command::Info(args) => read::info(args),
        Command::Cat(args) => read::cat(args),
        Command::Stat(args) => read::stat(args),
        Command::Export(args) => export::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Report(args) => report::run(args),
        Command::Sql(args) => sql::run(args),
        Command::Environment(args) => read::environment(args),
        Command::Tree(args) => tree::run(args),
        Command::Slice(args) => slice::run(args),
        Command::Workload(args) => workload::run(args),
        Command::Validate(args) => validate::run(args),
        Command::Compare(args) => compare::run(args),
    }
}

/// Opens a trace whose actions will be read, and shows how far that has come.
fn reading(path: &Path, quiet: bool) -> Result<TraceReader, ReadError> {
    let progress = Mutex::new(Progress::new("reading", "actions", quiet));
    let trace = TraceReader::open(path)?;
    Ok(trace.watched(move |done, total| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        if done == total { progress.clear() } else { progress.at(done, total) }
    }))
}

/// Whether what is read is shown on the terminal while it is read: progress would be in its way.
fn streams_to_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Ends the program if it was interrupted before the replay proper; what it put into `scratch` goes.
fn end_if_interrupted(signal: &AtomicU32, scratch: &Path, state: &str) {
    if signal.load(Ordering::Relaxed) == 0 {
        return;
    }
    let _ = std::fs::remove_dir_all(scratch);
    let _ = Failure::new(Exit::Interrupted, format!("interrupted; {state}")).report();
    std::process::exit(Exit::Interrupted as i32);
}

/// Colour where a person looks and has not declined it (<https://no-color.org>).
fn style() -> Style {
    let declined = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    if !declined && std::io::stdout().is_terminal() { Style::Colour } else { Style::Plain }
}

/// So many of what a noun names: `1 action`, `2 processes`.
fn several(n: u64, noun: &str) -> String {
    format!("{n} {}", reprise_report::plural(n, noun))
}

fn call_list() -> String {
    reprise_calls::all().map(|c| format!("{:20} {}\n", c.name, c.doc)).collect()
}

/// Prints to standard output; a reader that went away is no failure.
fn print(text: &str) -> Outcome {
    write(text.as_bytes())
}

fn write(bytes: &[u8]) -> Outcome {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::output)?;
    Ok(Exit::Done.into())
}

/// Prints a JSON value and a newline.
fn print_json(value: &impl serde::Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::new(Exit::System, e))?;
    print(&(text + "\n"))
}
