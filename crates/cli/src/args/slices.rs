//! Arguments of `slice` and `tree`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use reprise_slice::{Moment, ProcessName};

/// Arguments of `slice`.
#[derive(Debug, Args)]
pub struct Slice {
    /// The trace
    pub trace: PathBuf,
    /// Where the slice goes
    #[arg(short, long, value_name = "SLICE")]
    pub output: PathBuf,
    /// From this moment: 1.5s, 200ms, 12345ns since the trace began, action:N, N%, begin
    #[arg(long, value_name = "T", default_value = "begin")]
    pub from: Moment,
    /// To this moment
    #[arg(long, value_name = "T", default_value = "end")]
    pub to: Moment,
    /// Only actions of this process: its number in the trace, or pid:N (may be repeated)
    #[arg(long, value_name = "N")]
    pub process: Vec<ProcessName>,
    /// Only actions of this thread (may be repeated)
    #[arg(long, value_name = "N")]
    pub thread: Vec<u32>,
    /// Only actions on this absolute path and below it (may be repeated)
    #[arg(long, value_name = "PREFIX")]
    pub path: Vec<OsString>,
    /// Only these calls, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub call: Vec<String>,
    /// Leave out what others did even where the chosen actions depend on it: they will diverge
    #[arg(long)]
    pub strict: bool,
    /// Print a summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `tree`.
#[derive(Debug, Args)]
pub struct Tree {
    /// The trace
    pub trace: PathBuf,
    /// As of this moment: 1.5s, 200ms, 12345ns since the trace began, action:N (before that action), N%, begin, end
    #[arg(long, value_name = "T", default_value = "end")]
    pub at: Moment,
    /// Only this absolute path and what is below it
    #[arg(long, value_name = "PREFIX")]
    pub path: Option<OsString>,
    /// With extended attributes, hash and origin of the content
    #[arg(short, long)]
    pub long: bool,
    /// Print a JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Write the tree, with contents, into this empty directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["path", "json", "long"])]
    pub extract: Option<PathBuf>,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
}

pub const SLICE_EXAMPLES: &str = "\
Examples:
  reprise slice app.reprise -o part.reprise --from 1.5s --to 2s
  reprise slice app.reprise -o child.reprise --process pid:4711
  reprise slice app.reprise -o db.reprise --path /srv/db --from 50%
  mkdir t && reprise replay part.reprise --target t            a slice is a trace like any other

A slice begins with the state of its first moment: names, contents, descriptors with their offsets and locks,
mappings, working directories, masks and users. A moment cuts the order of effects before the first action that had not completed then.
What is chosen by process, thread, path or call begins at the first such action; what others did from there on is kept
where chosen actions depend on it, counted, and marked `supporting` in the slice; --strict leaves it out.";

pub const TREE_EXAMPLES: &str = "\
Examples:
  reprise tree app.reprise                                     the final tree
  reprise tree app.reprise --at 1.5s --path /srv/db --long
  reprise tree app.reprise --at action:1200 --json | jq 'select(.size > 1e6)'
  mkdir before && reprise tree app.reprise --at begin --extract before

The tree is what the program met of it. Content that nobody read is not in the trace: it is said to be unknown, and
extracted as zeros.";
