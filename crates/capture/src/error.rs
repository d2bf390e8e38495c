//! What can go wrong with a recording, each with its cause, place and next step.

use std::io;
use std::path::{Path, PathBuf};

use reprise_trace::{End, FILE_LIMIT, Loss, WriteError, is_full, write_remedy};

use crate::record::Outcome;

/// Recording failed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Nothing to run.
    #[error("no command given; write it after `--`, as in `reprise record -- ls -l`")]
    NoCommand,
    /// The program does not exist.
    #[error("{command}: command not found; check the name and PATH")]
    NotFound {
        /// As it was given.
        command: String,
    },
    /// The program exists but cannot be executed.
    #[error("{command}: cannot be executed: {source}; check its permissions and format")]
    NotExecutable {
        /// As it was given.
        command: String,
        /// The system's error.
        source: io::Error,
    },
    /// The program could not be started under trace.
    #[error("cannot {step}: {source}; {advice}")]
    Start {
        /// What was tried.
        step: &'static str,
        /// The system's error.
        source: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// The child ended before it ran the program.
    #[error(
        "the child could not install its seccomp filter (exit code {code}); the kernel must be built with SECCOMP_FILTER, and an outer sandbox must allow it"
    )]
    NoFilter {
        /// Its exit code.
        code: i32,
    },
    /// Watching the program failed in a way that makes the trace worthless from here on.
    #[error("cannot {step} thread {tid}: {source}; the program was ended, the trace up to here is kept")]
    Trace {
        /// What was tried.
        step: &'static str,
        /// The thread.
        tid: i32,
        /// The system's error.
        source: io::Error,
    },
    /// A directory to snapshot cannot be read.
    #[error("{path}: cannot snapshot: {source}; give --tree a readable directory")]
    Tree {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// What was asked for is not to be had here.
    #[error("cannot record in the kernel: {cause}; `--backend ptrace` records here, more slowly")]
    NoBackend {
        /// Why not.
        cause: String,
    },
    /// A running process cannot be recorded.
    #[error("process {pid} cannot be recorded: {cause}; {advice}")]
    NoProcess {
        /// Its number.
        pid: i32,
        /// Why not.
        cause: String,
        /// What to do.
        advice: &'static str,
    },
    /// A control group, or container, cannot be recorded.
    #[error("{name} cannot be recorded: {cause}; {advice}")]
    NoGroup {
        /// As it was given.
        name: String,
        /// Why not.
        cause: String,
        /// What to do.
        advice: &'static str,
    },
    /// What runs already is not recorded by ptrace, and nothing in part.
    #[error(
        "{scope}: only recording in the kernel can do that{cause}; record by --backend ebpf, as root on a kernel that permits it, or record a command to its end"
    )]
    NotAttachable {
        /// What was asked for.
        scope: String,
        /// Why the kernel cannot, if it was asked.
        cause: String,
    },
    /// There is no raw recording.
    #[error(
        "{path}: no raw recording: {source}; `reprise recover` finishes a trace whose recorder was killed, or had no room left, and there is nothing to finish here"
    )]
    NoSpool {
        /// Where it should be.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A raw recording cannot be read.
    #[error("{path}: cannot read the raw recording: {source}; it is left as it is")]
    Spool {
        /// Its directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The raw recording could not be written any further. The program was not disturbed.
    #[error(
        "{path}: {source}; the program went on unrecorded ({how}): {next}", how = how(end), next = after_cut(source, trace)
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
        /// The trace.
        trace: PathBuf,
        /// How the program ended.
        end: End,
    },
    /// The directory of the trace is not where it was.
    #[error(
        "{path}: {source}; the directory was moved or removed while the program ran: where it is now, `reprise recover DIRECTORY` makes the trace"
    )]
    Gone {
        /// The raw recording in it.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The raw recording cannot be begun.
    #[error("{path}: {source}; {remedy}", remedy = write_remedy(source, "-o"))]
    Unspooled {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The raw recording cannot be made a trace.
    #[error("{source}; what was recorded is kept: {first}, and `reprise recover {trace}` makes the trace", first = before_recovery(source))]
    Unfinished {
        /// Why not.
        source: WriteError,
        /// The trace.
        trace: PathBuf,
    },
    /// Whoever waits for the trace waits no longer.
    #[error("interrupted; what was recorded is kept: `reprise recover {trace}` makes the trace")]
    Interrupted {
        /// The trace.
        trace: PathBuf,
    },
    /// The trace cannot be begun.
    #[error("{0}; {remedy}", remedy = .0.remedy("-o"))]
    Write(#[from] WriteError),
    /// The trace could not be written any further. The program was not disturbed.
    #[error("{source}; the program went on unrecorded ({how}): {holds}", how = how(&outcome.end), holds = holds(source, *is_gone, outcome))]
    Unwritten {
        /// Why not.
        source: WriteError,
        /// The directory of the trace is not where it was.
        is_gone: bool,
        /// What the recording has become.
        outcome: Box<Outcome>,
    },
}

/// What makes a trace of a raw recording that could not be written any further.
fn after_cut(error: &io::Error, trace: &Path) -> String {
    let then = |first: &str| {
        format!("{first}, and `reprise recover {}` makes a trace of what was kept until then", trace.display())
    };
    match error.kind() {
        _ if is_full(error) => then("make room there"),
        io::ErrorKind::FileTooLarge => then(FILE_LIMIT),
        io::ErrorKind::NotFound => {
            "the directory was moved or removed: where it is now, `reprise recover DIRECTORY` makes a trace of what was kept until then"
                .to_owned()
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => then("make it writable again"),
        _ => then("see to the disk (`dmesg` tells of its errors)"),
    }
}

/// What there is of a trace that could not be written any further, and what helps the next time.
fn holds(source: &WriteError, is_gone: bool, outcome: &Outcome) -> String {
    if is_gone {
        return "the directory of the trace was moved or removed, with what was written until then".to_owned();
    }
    let lost: u64 = outcome.ledger.losses.get(&Loss::Dropped).into_iter().flatten().map(|(_, entry)| entry.count).sum();
    let (actions, remedy) = (outcome.actions, source.remedy("-o"));
    format!("the trace holds what was written until then, {actions} actions ({lost} dropped): {remedy}")
}

/// What lets a trace be made of what was recorded.
fn before_recovery(error: &WriteError) -> &'static str {
    match error {
        WriteError::Io { source, .. } | WriteError::Contents { source, .. } if is_full(source) => "make room",
        WriteError::Io { source, .. } | WriteError::Contents { source, .. }
            if source.kind() == io::ErrorKind::FileTooLarge =>
        {
            FILE_LIMIT
        }
        _ => "see to that",
    }
}

fn how(end: &End) -> String {
    match (end.code, end.signal) {
        (_, Some(signal)) => format!("it was killed by signal {signal}"),
        (Some(code), None) => format!("it ended with exit code {code}"),
        (None, None) => "it has ended".to_owned(),
    }
}

impl CaptureError {
    /// The exit code a shell would give: 127 for a command not found, 126 for one that cannot be executed.
    pub fn shell_code(&self) -> Option<i32> {
        match self {
            CaptureError::NotFound { .. } => Some(127),
            CaptureError::NotExecutable { .. } => Some(126),
            _ => None,
        }
    }
}
