//! The arguments, and the help that documents them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold());

/// Exit codes, as the help and the manual page show them.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    done; a replay or comparison found no divergence
  1    diverged: a replay went differently, or trees differ
  2    wrong usage
  3    the trace (or plan) is missing, damaged, or not a trace
  4    the trace's format is too old or too new for this program
  5    the target cannot be used: missing, not empty, read-only, full
  6    this machine or user lacks what is needed (namespaces, ptrace)
  7    interrupted; what was done so far is kept
  8    another system error
  `record` ends as the recorded program does; 125 if the recorder itself failed, 126 if the program cannot be
  executed, 127 if it is not found.";

/// Record what programs do to storage, replay it anywhere, prove that the replay did the same.
#[derive(Debug, Parser)]
#[command(name = "reprise", version, styles = STYLES, after_help = EXIT_CODES, after_long_help = examples::MAIN, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record a program: every storage-related call, with all data
    #[command(after_help = examples::RECORD)]
    Record(Record),
    /// Replay a trace into a directory, and check that it went the same
    #[command(after_help = examples::REPLAY)]
    Replay(Replay),
    /// Compare a trace with a replay's trace, or with a directory
    #[command(after_help = examples::VERIFY)]
    Verify(Verify),
    /// Say what a trace is, and what it lacks
    #[command(after_help = examples::INFO)]
    Info(Info),
    /// Print a trace's actions, one a line
    #[command(after_help = examples::CAT)]
    Cat(Cat),
    /// Count calls, bytes, errors and response times
    #[command(after_help = examples::STAT)]
    Stat(Stat),
    /// Compile a trace to a plan, to replay it more than once
    #[command(after_help = examples::COMPILE)]
    Compile(Compile),
    /// List the calls that Reprise knows
    #[command(after_help = examples::CALLS)]
    Calls(Calls),
    /// Print a shell's completion script
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    #[command(after_help = examples::MAN)]
    Man {
        /// The directory.
        directory: PathBuf,
    },
}

/// How much content is kept.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Data {
    /// Every byte
    Full,
    /// Lengths and hashes
    Hash,
    /// Lengths only
    None,
}

/// Arguments of `record`.
#[derive(Debug, Args)]
pub struct Record {
    /// Where the trace goes [default: COMMAND.reprise, with a number if that exists]
    #[arg(short, long, value_name = "TRACE")]
    pub output: Option<PathBuf>,
    /// What is kept of the content that calls move
    #[arg(long, value_enum, default_value = "full")]
    pub data: Data,
    /// Snapshot this directory, with contents, before the start
    #[arg(long, value_name = "DIR")]
    pub tree: Vec<PathBuf>,
    /// Keep files up to this size whole when they are opened, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 1024)]
    pub whole_files: u64,
    /// Keep also what the program's loader maps: complete, but slow for programs with large libraries
    #[arg(long)]
    pub libraries: bool,
    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Print a summary as JSON on standard error
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What happens at a divergence.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum Check {
    /// Note it and go on
    Warn,
    /// Stop at the first
    Abort,
    /// Compare nothing
    Off,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// The trace, or a plan compiled from one
    pub trace: PathBuf,
    /// The directory to replay in: empty, or holding an earlier replay of the same trace
    #[arg(short, long, value_name = "DIR")]
    pub target: PathBuf,
    /// What may be reordered: root, temporal, single or none
    #[arg(long, default_value = "root")]
    pub order: reprise_plan::Order,
    /// What to do when an action goes differently
    #[arg(long, value_enum, default_value = "warn")]
    pub verify: Check,
    /// Write the replay's own trace here
    #[arg(short, long, value_name = "RESULT")]
    pub output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// Compare the final tree of the trace with a directory
    #[arg(long)]
    pub tree: bool,
    /// The original trace
    pub trace: PathBuf,
    /// The replay's trace, or with --tree the directory that was replayed in
    pub result: PathBuf,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `info`.
#[derive(Debug, Args)]
pub struct Info {
    /// The trace
    pub trace: PathBuf,
    /// Read every part and check its checksum
    #[arg(long)]
    pub check: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `cat`.
#[derive(Debug, Args)]
pub struct Cat {
    /// The trace
    pub trace: PathBuf,
    /// Only this thread
    #[arg(long, value_name = "N")]
    pub thread: Option<u32>,
    /// Only actions on a path that contains this text: as passed, absolute, or of a descriptor
    #[arg(long, value_name = "TEXT")]
    pub path: Option<String>,
    /// Only these calls, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub call: Vec<String>,
    /// Print a JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// What `stat` groups by.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum By {
    /// By call
    Call,
    /// By path
    Path,
    /// By thread
    Thread,
}

/// Arguments of `stat`.
#[derive(Debug, Args)]
pub struct Stat {
    /// The trace
    pub trace: PathBuf,
    /// What a row is
    #[arg(long, value_enum, default_value = "call")]
    pub by: By,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `compile`.
#[derive(Debug, Args)]
pub struct Compile {
    /// The trace
    pub trace: PathBuf,
    /// The plan to write
    #[arg(short, long, value_name = "PLAN")]
    pub output: PathBuf,
    /// What may be reordered: root, temporal, single or none
    #[arg(long, default_value = "root")]
    pub order: reprise_plan::Order,
    /// Print a summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `calls`.
#[derive(Debug, Args)]
pub struct Calls {
    /// Print the reference document `docs/CALLS.md`
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

mod examples {
    pub const MAIN: &str = "\
Examples:
  reprise record -o app.reprise -- ./app --load     record a program
  reprise info app.reprise                          what was recorded, and what is missing
  mkdir /mnt/xfs/t && reprise replay app.reprise --target /mnt/xfs/t
                                                    replay it on another file system, checking every result
  reprise verify --tree app.reprise /mnt/xfs/t      compare the final tree

Exit codes: 0 same, 1 diverged, 2 usage, 3 trace damaged, 4 trace version, 5 target unusable, 6 machine lacks
something, 7 interrupted, 8 system error; `record` ends as the recorded program does.";
    pub const RECORD: &str = "\
Examples:
  reprise record sqlite3 my.db < load.sql
  reprise record -o build.reprise --tree src -- make -j4
  reprise record --data none -o long.reprise -- ./server     calls without content

The exit code is the program's own; when a signal ended it, reprise ends by that signal. 125: the recorder failed;
126, 127: the program cannot be run, or found. A trace that cannot be written any further (a full disk) does not stop
the program: it goes on unrecorded, what was written is kept, and the exit code is 125.";
    pub const REPLAY: &str = "\
Examples:
  mkdir t && reprise replay app.reprise --target t
  reprise replay app.reprise --target /mnt/btrfs/t --order temporal -o result.reprise
  reprise replay app.reprise --target t --verify abort       stop at the first difference

The original's /a/b is DIR/a/b afterwards. Nothing outside DIR is read, changed or run, whatever the trace says.
Replaying again into the same DIR first restores the initial tree by difference. Exit code 1: something diverged.";
    pub const VERIFY: &str = "\
Examples:
  reprise verify app.reprise result.reprise        action by action
  reprise verify --tree app.reprise /mnt/xfs/t     the final tree";
    pub const INFO: &str = "\
Examples:
  reprise info app.reprise
  reprise info --json app.reprise | jq .ledger
  reprise info --check app.reprise                 read and check every byte";
    pub const CAT: &str = "\
Examples:
  reprise cat app.reprise | less
  reprise cat --call openat,rename --path /etc app.reprise
  reprise cat --json app.reprise | jq 'select(.result < 0)'";
    pub const STAT: &str = "\
Examples:
  reprise stat app.reprise
  reprise stat --by path app.reprise";
    pub const CALLS: &str = "\
Examples:
  reprise calls | grep xattr
  reprise calls --markdown > CALLS.md";
    pub const COMPLETIONS: &str = "\
Examples:
  reprise completions bash > /etc/bash_completion.d/reprise
  reprise completions zsh > ~/.zfunc/_reprise
  reprise completions fish > ~/.config/fish/completions/reprise.fish";
    pub const MAN: &str = "\
Examples:
  reprise man man1 && man -l man1/reprise-record.1";
    pub const COMPILE: &str = "\
Examples:
  reprise compile app.reprise -o app.plan && reprise replay app.plan --target t";
}
