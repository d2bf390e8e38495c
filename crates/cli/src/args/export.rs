//! Arguments of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// A form that other tools read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum To {
    /// Trace events for ui.perfetto.dev and chrome://tracing: threads as tracks, actions as spans
    Perfetto,
    /// Comma-separated values, a line an action
    Csv,
    /// A JSON object a line
    Jsonl,
    /// A log as strace -f -ttt -T -v writes it
    Strace,
    /// Folded stacks by path, for flame graphs
    Folded,
}

/// What folded stacks add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Weight {
    /// Bytes moved
    Bytes,
    /// Response time, in nanoseconds
    Time,
    /// Number of calls
    Calls,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The trace, or the trace of a replay
    pub trace: PathBuf,
    /// The form
    #[arg(long, value_enum, value_name = "FORM")]
    pub to: To,
    /// Where it goes; '-' is the standard output [default: -]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The trace is a replay's: show this original beside it (perfetto)
    #[arg(long, value_name = "ORIGINAL")]
    pub replay_of: Option<PathBuf>,
    /// Draw the dependencies of an ordering as arrows: as `replay --order` (perfetto)
    #[arg(long, value_name = "ORDER")]
    pub arrows: Option<reprise_plan::Order>,
    /// What folded stacks add up [default: time]
    #[arg(long, value_enum)]
    pub weight: Option<Weight>,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
}

pub const EXPORT_EXAMPLES: &str = "\
Examples:
  reprise export app.reprise --to perfetto -o app.json              then open it in https://ui.perfetto.dev
  reprise export result.reprise --replay-of app.reprise --to perfetto --arrows root -o both.json
  reprise export app.reprise --to csv | head
  reprise export app.reprise --to jsonl | jq 'select(.file == \"/srv/db/log\")'
  reprise export app.reprise --to strace -o app.log                 `reprise import app.log` reads it back
  reprise export app.reprise --to folded --weight bytes | flamegraph.pl --countname bytes > app.svg

What a form cannot hold is counted on standard error: in a log of strace what is no system call (loads and stores of
mapped files, asynchronous requests), and content beyond 8 MiB a call.";
