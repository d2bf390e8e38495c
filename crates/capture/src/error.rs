//! What can go wrong with a recording, each with its cause, place and next step.

use std::io;
use std::path::PathBuf;

use reprise_trace::{End, WriteError};

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
        "{path}: {source}; the program went on unrecorded ({how}): make room there, and `reprise recover {trace}` makes a trace of what was kept until then", how = how(end)
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
    /// The raw recording cannot be begun.
    #[error("{path}: {source}; make room there, or choose another place with -o")]
    Unspooled {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The raw recording cannot be made a trace.
    #[error("{source}; what was recorded is kept: make room, and `reprise recover {trace}` makes the trace")]
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
    #[error("{0}; make room there, or choose another place with -o")]
    Write(#[from] WriteError),
    /// The trace could not be written any further. The program was not disturbed.
    #[error(
        "{source}; the program went on unrecorded ({how}), and the trace holds what was written until then: make room, or choose another place with -o", how = how(end)
    )]
    Unwritten {
        /// Why not.
        source: WriteError,
        /// How the program ended.
        end: End,
    },
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
