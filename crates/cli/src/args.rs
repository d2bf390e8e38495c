//! The arguments, and the help that documents them.

pub mod doctor;
pub mod export;
pub mod report;
pub mod slices;
pub mod sql;
pub mod validate;
pub mod workload;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::amounts::{Bytes, Interval, Memory, Period, Size};
use crate::exit::Exit;
use crate::span::{Span, TimeSpan};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold());

/// Record what programs do to storage, replay it anywhere, prove that the replay did the same.
#[derive(Debug, Parser)]
#[command(name = "reprise", version, styles = STYLES, after_help = Exit::help(), after_long_help = examples::MAIN, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The command, with help whose paragraphs are broken once: where the terminal ends, not where the source does.
pub fn command() -> clap::Command {
    flowing(Cli::command())
}

/// The arguments of this process.
pub fn parse() -> Cli {
    Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit())
}

fn flowing(command: clap::Command) -> clap::Command {
    let after = command.get_after_help().map(|text| unbroken(&text.to_string()));
    let command = command.mut_subcommands(flowing);
    if let Some(after) = after { command.after_help(after) } else { command }
}

/// Lines of a paragraph as one; what is indented (examples, lists) and titles stay lines.
fn unbroken(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut goes_on = false;
    for line in text.lines() {
        let flows = !line.is_empty() && !line.starts_with(' ');
        if !out.is_empty() {
            out.push(if goes_on && flows { ' ' } else { '\n' });
        }
        out.push_str(line);
        goes_on = flows && !line.ends_with(':');
    }
    out
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record a program: every storage-related call, with all data
    #[command(after_help = examples::RECORD)]
    Record(Record),
    /// Make a trace of what a recorder had kept when it was killed
    #[command(after_help = examples::RECOVER)]
    Recover(Recover),
    /// Make a trace from logs of strace
    #[command(after_help = examples::IMPORT)]
    Import(Import),
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
    /// Write a trace in a form that other tools read: Perfetto, CSV, JSON lines, strace, flame graphs
    #[command(after_help = export::EXPORT_EXAMPLES)]
    Export(export::Export),
    /// Write a report for browsers: a recording, and replays beside it
    #[command(after_help = report::REPORT_EXAMPLES)]
    Report(report::Report),
    /// Ask a trace in SQL
    #[command(after_help = sql::SQL_EXAMPLES)]
    Sql(sql::Sql),
    /// Show memory, processors, pressure and devices over the time of a trace
    #[command(after_help = examples::ENVIRONMENT)]
    Environment(Environment),
    /// Compile a trace to a plan, to replay it more than once
    #[command(after_help = examples::COMPILE)]
    Compile(Compile),
    /// Show the dependencies of a trace: edges by rule, the critical path, a picture, why an action waits
    #[command(after_help = examples::GRAPH)]
    Graph(Graph),
    /// Print, or extract, the tree as of any moment of a trace
    #[command(after_help = slices::TREE_EXAMPLES)]
    Tree(slices::Tree),
    /// Cut a part out of a trace, as a trace that replays by itself
    #[command(after_help = slices::SLICE_EXAMPLES)]
    Slice(slices::Slice),
    /// Perform a reference program that times its own calls, and writes them as a trace
    #[command(after_help = workload::EXAMPLES)]
    Workload(workload::Workload),
    /// Say how far the response times of replays can be trusted: the validation protocol of metrology
    #[command(after_help = validate::EXAMPLES)]
    Validate(validate::Validate),
    /// Compare several results: which differences are real, by how much, and which cannot be told
    #[command(after_help = validate::COMPARE_EXAMPLES)]
    Compare(validate::Compare),
    /// Say what this machine permits, and what disturbs measurements on it
    #[command(after_help = doctor::DOCTOR_EXAMPLES)]
    Doctor(doctor::Doctor),
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
    /// Write the reference of the book into a directory: `docs/reference`
    #[command(hide = true)]
    Reference {
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

/// Whether stores to shared mappings of files are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mapped {
    /// By looking at the pages before calls that could see them
    Full,
    /// Not at all: they are counted as dropped
    Off,
}

/// How a program is recorded.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum Backend {
    /// In the kernel where that is possible, else by ptrace; says which and why
    Auto,
    /// By programs in the kernel: the recorded program hardly slows down (needs root)
    Ebpf,
    /// By stopping the program at each call: works everywhere, slows calls down several times
    Ptrace,
}

/// Arguments of `recover`.
#[derive(Debug, Args)]
pub struct Recover {
    /// The trace whose recorder was killed, or had no room left
    pub trace: PathBuf,
    /// Show no progress, and no summary
    #[arg(short, long)]
    pub quiet: bool,
    /// Print a summary as JSON on standard error
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `record`.
#[derive(Debug, Args)]
pub struct Record {
    /// How the program is recorded
    #[arg(long, value_enum, default_value = "auto")]
    pub backend: Backend,
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
    /// Writes through shared mappings of files: found by looking at their pages (full), or counted as dropped (off)
    #[arg(long, value_enum, default_value_t = Mapped::Full)]
    pub mapped: Mapped,
    /// Record also the processor time used between calls, for `replay --pace cpu` (about 2 µs more per call)
    #[arg(long)]
    pub cpu: bool,
    /// How often memory, processors and devices are sampled, in milliseconds, or off
    #[arg(long, value_name = "MS|off", default_value = "100")]
    pub sample_every: Interval,
    /// Keep the contents in a directory of their own in DIR, on another device perhaps; the trace has a link to it
    #[arg(long, value_name = "DIR")]
    pub blobs: Option<PathBuf>,
    /// Stop recording when the trace takes this much on disk: 512M, 20G; the program goes on
    #[arg(long, value_name = "SIZE")]
    pub max_size: Option<Size>,
    /// Make a chain of traces TRACE.1, TRACE.2 ... each of which replays by itself: a new one when the calls of one moved this
    /// much, or after this time (512M, 10min)
    #[arg(long, value_name = "SIZE|TIME")]
    pub rotate: Option<reprise_slice::Length>,
    /// Of a chain, keep only the last N
    #[arg(long, value_name = "N", requires = "rotate", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: Option<u32>,
    #[command(flatten)]
    pub kernel: InKernel,
    /// Stop recording after this time: 10s, 5m, 1h; what is recorded goes on, a command too (in the kernel, as root)
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Period>,
    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Print a summary as JSON on standard error
    #[arg(long)]
    pub json: bool,
    /// What is recorded.
    #[command(flatten)]
    pub scope: Scope,
    /// The program and its arguments
    #[arg(
        required_unless_present_any = ["pid", "cgroup", "container", "system"],
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

/// What a thread does when the memory between kernel and disk is full.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum OnFull {
    /// It waits (before Linux 6.18 for half a second at most)
    Block,
    /// It goes on, and what it did is counted as dropped
    Drop,
}

/// Where what is recorded in the kernel goes.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum Sink {
    /// To the trace
    Disk,
    /// Nowhere
    Null,
}

/// What matters to recording in the kernel only.
#[derive(Debug, Args)]
pub struct InKernel {
    /// Memory between kernel and disk (--backend ebpf): 64M unless told
    #[arg(long, value_name = "SIZE")]
    pub ring: Option<Bytes>,
    /// What a thread does when all of that is full (--backend ebpf): wait unless told
    #[arg(long, value_enum)]
    pub on_full: Option<OnFull>,
    /// Names around the command that are looked at before it runs, at most (--backend ebpf): 20000 unless told. What it changes or
    /// removes is then known as it was; without contents, see --tree
    #[arg(long, value_name = "NAMES")]
    pub survey: Option<usize>,
    /// Keep nothing (--backend ebpf): to measure the cost of recording without a disk; no trace remains
    #[arg(long, value_enum, hide_short_help = true)]
    pub sink: Option<Sink>,
}

/// What `record` records, if it is no command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Instead of a command, what runs already (in the kernel, as root)")]
pub struct Scope {
    /// These processes, with all their threads, and all that they start from now on; until they have ended, or Ctrl-C
    #[arg(long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["cgroup", "container", "system", "command"])]
    pub pid: Vec<i32>,
    /// With --pid: also what these processes have started before
    #[arg(long, requires = "pid", conflicts_with_all = ["cgroup", "container", "system", "command"])]
    pub with_children: bool,
    /// A control group (v2), below /sys/fs/cgroup or as an absolute path: who is in it and below it, now and in future
    #[arg(long, value_name = "PATH", conflicts_with_all = ["container", "system", "command"])]
    pub cgroup: Option<PathBuf>,
    /// A container of Docker, Podman or systemd: by its number, or the name of its control group
    #[arg(long, value_name = "ID", conflicts_with_all = ["system", "command"])]
    pub container: Option<String>,
    /// All processes but the recorder
    #[arg(long, conflicts_with = "command")]
    pub system: bool,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct Import {
    /// A log of strace (`-` reads standard input), or all logs FILE.TID of `strace -ff`
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Where the trace goes
    #[arg(short, long, value_name = "TRACE")]
    pub output: PathBuf,
    /// Snapshot this directory, with contents: it is as the program found it
    #[arg(long, value_name = "DIR")]
    pub tree: Vec<PathBuf>,
    /// Keep the contents in a directory of their own in DIR, on another device perhaps; the trace has a link to it
    #[arg(long, value_name = "DIR")]
    pub blobs: Option<PathBuf>,
    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Print a summary as JSON
    #[arg(long)]
    pub json: bool,
}

/// What happens at a divergence.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum Check {
    /// Note it and go on
    Warn,
    /// Stop at the first
    Abort,
    /// Note it and go on; compare all results, but only of one action in 16 what it returned in memory
    Sampled,
    /// Compare nothing
    Off,
}

/// How a replay issues calls.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum Io {
    /// Each by a system call of its own
    Sync,
    /// Reads of a thread that follow each other go together, through io_uring; their times are those of all of them
    Uring,
    /// The same, but each read begins when the one before it is completed
    Linked,
    /// As uring, but a thread of the kernel for each replayed one looks for reads to perform (SQPOLL): for machines with processors
    /// to spare
    Polled,
    /// Reads of cached files copy nothing: of each page one byte is loaded, and no content is compared
    Touch,
    /// Reads are left out: only what a replay leaves behind is of interest
    SkipReads,
}

/// What reads find in memory.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum Cache {
    /// What is there
    Present,
    /// What they found in the trace
    Traced,
}

/// What holds a replay in its target.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum Confine {
    /// Everything there is
    Full,
    /// What costs calls nothing
    Lean,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// The trace, or a plan compiled from one; several are replayed at once, in one tree
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// The directory to replay in: empty, or holding an earlier replay of the same trace
    #[arg(short, long, value_name = "DIR")]
    pub target: PathBuf,
    /// Replay several traces each in a tree of its own: DIR/1, DIR/2, ...
    #[arg(long)]
    pub side_by_side: bool,
    /// What may be reordered: root, root:KEY=RULE,... (see docs/ORDERING.md), temporal, think, single or none
    #[arg(long, default_value_t)]
    pub order: reprise_plan::Order,
    /// How fast: afap, natural, cpu or timestamp; a factor slows down or speeds up: x2, cpu:x0.5
    ///
    /// afap: an action is issued as soon as what it depends on is completed. natural: the traced think time later, so
    /// think time follows the dependencies. cpu: as natural, but only computing counts as thinking, as far as the trace
    /// knows it (record --cpu). timestamp: at the traced instant since the begin, but never before its dependencies.
    /// xF multiplies natural's think times by F: x2 thinks twice as long, x0.5 half as long; cpu:xF and timestamp:xF
    /// likewise.
    #[arg(long, default_value = "afap", value_name = "PACE")]
    pub pace: reprise_replay::run::Pace,
    /// How calls are issued
    #[arg(long, value_enum, default_value = "sync")]
    pub io: Io,
    /// What stands for content that the trace lacks (a plan has that already)
    ///
    /// hole: in files holes, which take the space of what is known of them, and in writes zeros. zero: zeros that are written.
    /// random: bytes that neither compress nor repeat. pattern: a line of text again and again. mixed:compress=C,dedup=D: C per
    /// cent of each block compress away, D per cent of the writes (of files: of their megabytes) repeat one another.
    #[arg(long, default_value = "hole", value_name = "FILL")]
    pub fill: reprise_plan::Fill,
    /// Empty the caches when the initial tree is there: the whole machine's as root, else those of the tree's contents
    #[arg(long, conflicts_with = "warm")]
    pub cold: bool,
    /// Read all files of the initial tree before the start, so that they are cached
    #[arg(long)]
    pub warm: bool,
    /// What reads are to find in memory
    ///
    /// present: what is there. traced: what the program's reads found: pages of a read that missed are dropped before it, those
    /// of one that hit are loaded before it. A traced read counts as a miss if it took longer than 25 us and 250 ns for each KiB;
    /// only recordings by --backend ebpf have times that tell. Reads by io_uring are then issued one by one.
    #[arg(long, value_enum, default_value = "present", value_name = "CACHE")]
    pub cache: Cache,
    /// What holds the replay in its target
    ///
    /// full: its root is the target, with namespaces of its own, without privileges it does not need, and under Landlock and a list
    /// of permitted system calls. These two cost some 30 ns of each call, and 0.1 to 0.3 us of each directory on the way of a path.
    /// lean: without these two, for traces that you trust. Paths and links lead nowhere else either way.
    #[arg(long, value_enum, default_value = "full", value_name = "CONFINE")]
    pub confine: Confine,
    /// Keep each replay thread on one processor, in turn
    #[arg(long)]
    pub pin: bool,
    /// Change no access times by reading, where this user owns the files or is root; `fcntl` then tells of one flag more
    #[arg(long)]
    pub noatime: bool,
    /// Keep the commands of the plan in memory if they take no more than that; those of longer plans are read from the
    /// file while the replay runs, past the page cache
    #[arg(long, value_name = "SIZE", default_value = "4M")]
    pub plan_memory: Bytes,
    /// Limit the memory of the replay, its page cache included: 64M, 2G, or recorded for what the program had
    ///
    /// The tree's contents then start uncached, with --warm cached as far as they fit. Needs control groups with a memory
    /// controller and the right to make one. recorded is the memory limit of the recorded program's control group; if it
    /// had none, the median of what the machine could give it. docs/ENGINE.md says what counts.
    #[arg(long, value_name = "SIZE|recorded")]
    pub memory: Option<Memory>,
    /// Run this by the shell when the initial tree is there and before the replay starts; nothing of the target is open
    #[arg(long, value_name = "COMMAND")]
    pub before_start: Option<OsString>,
    /// What to do when an action goes differently
    #[arg(long, value_enum, default_value = "warn")]
    pub verify: Check,
    /// For tests: one action at a time, in an order that the plan permits, drawn from a seed, or path:0,1,0
    ///
    /// At each step that leaves a choice, the path says which of the threads that can go on does; the result's "degrees"
    /// say how many there were.
    #[arg(long, value_name = "SEED|PATH")]
    pub schedule: Option<reprise_replay::run::Schedule>,
    /// Go on where this replay ended early: the directory that it wrote with -o
    ///
    /// The target is brought to the state at the first action that was not completed, whatever is in it (it may be another, empty
    /// directory), and the rest is replayed with the order, pace, calls and fill of that replay. Other options are to be
    /// given again.
    ///
    /// A replay that was killed has left RESULT.unfinished: the result is made of that first.
    #[arg(
        long,
        value_name = "RESULT",
        conflicts_with_all = ["order", "pace", "io", "fill", "schedule", "side_by_side"]
    )]
    pub resume: Option<PathBuf>,
    /// Write the replay's own trace here; of several, RESULT/1.reprise, ...
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
    /// The trace is a replay's: show where its time went, beside this original
    #[arg(long, value_name = "ORIGINAL", conflicts_with = "by")]
    pub replay_of: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `environment`.
#[derive(Debug, Args)]
pub struct Environment {
    /// The trace
    pub trace: PathBuf,
    /// Print all samples, a JSON object a line
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
    /// What may be reordered: root, root:KEY=RULE,... (see docs/ORDERING.md), temporal, think, single or none
    #[arg(long, default_value_t)]
    pub order: reprise_plan::Order,
    /// What stands for content that the trace lacks
    ///
    /// hole: in files holes, which take the space of what is known of them, and in writes zeros. zero: zeros that are written.
    /// random: bytes that neither compress nor repeat. pattern: a line of text again and again. mixed:compress=C,dedup=D: C per
    /// cent of each block compress away, D per cent of the writes (of files: of their megabytes) repeat one another.
    #[arg(long, default_value = "hole", value_name = "FILL")]
    pub fill: reprise_plan::Fill,
    /// Print a summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `graph`.
#[derive(Debug, Args)]
pub struct Graph {
    /// The trace
    pub trace: PathBuf,
    /// What may be reordered: as for `replay`
    #[arg(long, default_value_t)]
    pub order: reprise_plan::Order,
    /// Say why this action waits
    #[arg(long, value_name = "ACTION", conflicts_with_all = ["dot", "svg"])]
    pub why: Option<u64>,
    /// Write the graph for Graphviz; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub dot: Option<PathBuf>,
    /// Write the graph as a picture; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Of a picture: only actions with these numbers
    #[arg(long, value_name = "FROM..TO")]
    pub actions: Option<Span>,
    /// Of a picture: only actions that began in this time since the trace began, for example 1.5s..1.6s
    #[arg(long, value_name = "FROM..TO")]
    pub time: Option<TimeSpan>,
    /// Of a picture: at most so many actions
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub most: usize,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
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
  reprise record --blobs /mnt/big --max-size 20G -- ./load   contents on another device, at most 20 GiB in all
  reprise record --rotate 10min --keep 6 -o day.reprise -- ./server     the last hour, in traces day.reprise.N
  reprise record --backend ebpf --ring 256M -- ./load        in the kernel, with more memory before the program must wait
  reprise record --pid $(pidof server)                       what runs already, until it ends or Ctrl-C
  reprise record --cgroup system.slice/db.service --duration 30s
  reprise record --container 4f5c3e1a2b9d -o web.reprise     a container of Docker or Podman
  reprise record --system --duration 10s --data none         all processes, calls without content

The exit code is the program's own; when a signal ended it, reprise ends by that signal. 125: the recorder failed;
126, 127: the program cannot be run, or found. A trace that cannot be written any further (a full disk) does not stop
the program: it goes on unrecorded, what was written is kept, and the exit code is 125. With --max-size the trace holds
the run's beginning; what came after is counted as dropped, and the exit code is the program's. What was recorded in the
kernel becomes a trace when the program has ended; if that is interrupted, the exit code is 7 and `reprise recover` does it.
Where no command is recorded, and where --duration ended it, the exit code is 0, and what was recorded goes on.";
    pub const RECOVER: &str = "\
Examples:
  reprise recover app.reprise        then info, replay and all else take it

A recorder that keeps what happened in the kernel (--backend ebpf) makes the trace when the program has ended. If it is
killed before, the program goes on, and what was kept waits in app.reprise/spool.";
    pub const IMPORT: &str = "\
Examples:
  strace -f -ttt -T -yy -v -s 1048576 -o app.log ./app      a log that loses little
  reprise import app.log -o app.reprise
  strace -ff -ttt -o app.log ./app && reprise import app.log.* -o app.reprise
  reprise import --tree data app.log -o app.reprise         with what the program found in data

Any options of strace 4.5 to 6.x are understood. What a log does not say is stated, also by `reprise info`; each line that
is not in the trace is counted under a reason (docs/IMPORT.md). Exit code 3: the file is no log of strace.";
    pub const REPLAY: &str = "\
Examples:
  mkdir t && reprise replay app.reprise --target t
  reprise replay app.reprise --target /mnt/btrfs/t --order temporal -o result.reprise
  reprise replay app.reprise --target t --verify abort       stop at the first difference
  reprise replay app.reprise --target t --pace natural       think as long as the program did; x2: twice as long
  reprise replay app.reprise --target t --fill zero --cold   files of full size, nothing of them cached: for timing
  reprise replay app.reprise --target t --fill zero --memory 64M    with 64 MiB of memory, page cache included
  reprise replay app.reprise --target t --warm               all files cached before the start
  reprise replay app.reprise --target t --resume result.reprise -o result.2.reprise    what an interrupted one left to do

  reprise replay db.reprise backup.reprise --target t        both at once, in one tree
  reprise replay a.reprise b.reprise --target t --side-by-side

Several traces begin together. In one tree their initial trees are merged: equal names must be of one type, and what
two of them know differently is taken from the first. Nothing orders one trace after the other: where they touch the
same files they interfere, and diverge, which is what such a replay is to show; --side-by-side keeps them apart.

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
  reprise stat --by path app.reprise
  reprise stat --replay-of app.reprise result.reprise    response times, waits, concurrency, issue error";
    pub const ENVIRONMENT: &str = "\
Examples:
  reprise environment app.reprise
  reprise environment --json app.reprise | jq '[.time_ns, .dirty_bytes]'

`record --sample-every` takes the samples, a replay with -o takes its own. Processor time (user, system, iowait) is of the
whole machine, `stalled` the share of time in which some thread waited for storage, `read` and `written` what the block
devices did (a device on another, as loop, dm and md are, counts with it); all of them since the line above. `reprise info` shows a summary, with queue settings and mounts.";
    pub const GRAPH: &str = "\
Examples:
  reprise graph app.reprise                              edges by rule, critical path
  reprise graph app.reprise --order root                 the same under another ordering
  reprise graph app.reprise --why 1234                   what action 1234 waits for
  reprise graph app.reprise --time 1.5s..1.6s --svg g.svg
  reprise graph app.reprise --actions 100..150 --dot - | dot -Tpdf > g.pdf";
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
