//! Exit codes, and errors on their way to the user.

use std::fmt::Display;
use std::process::ExitCode;

use reprise_trace::{ReadError, WriteError, is_full, write_remedy};

/// A documented exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    Diverged = 1,
    Usage = 2,
    Trace = 3,
    Version = 4,
    Target = 5,
    Machine = 6,
    Interrupted = 7,
    System = 8,
    Recorder = 125,
    NotExecutable = 126,
    NotFound = 127,
}

impl Exit {
    /// All of them, ascending.
    pub const ALL: [Exit; 12] = [
        Exit::Done,
        Exit::Diverged,
        Exit::Usage,
        Exit::Trace,
        Exit::Version,
        Exit::Target,
        Exit::Machine,
        Exit::Interrupted,
        Exit::System,
        Exit::Recorder,
        Exit::NotExecutable,
        Exit::NotFound,
    ];

    /// What it tells a caller: the help, the manual page and the reference say it in these words.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "done; a replay or comparison found no divergence",
            Exit::Diverged => "diverged: a replay went differently, or trees differ; of `compare`: something differs",
            Exit::Usage => "wrong usage",
            Exit::Trace => "the trace (or plan) is missing, damaged, or not a trace",
            Exit::Version => "the trace's format is too old or too new for this program",
            Exit::Target => "the target cannot be used: missing, not empty, read-only, full",
            Exit::Machine => "this machine or user lacks what is needed (namespaces, ptrace, limits)",
            Exit::Interrupted => {
                "interrupted; what a recording, a replay or a validation did so far is kept, and a replay with `-o` \
                 says by which command it goes on; of what else was being made nothing is left. Commands that only \
                 read and print end by the signal"
            }
            Exit::System => "another system error",
            Exit::Recorder => "of `record`: the recorder itself failed",
            Exit::NotExecutable => "of `record`: the program cannot be executed",
            Exit::NotFound => "of `record`: the program is not found",
        }
    }

    /// The list that the help shows.
    pub fn help() -> String {
        let lines = Exit::ALL.map(|exit| format!("  {:<4} {}\n", exit as u8, exit.meaning()));
        format!(
            "Exit codes:\n{}  Else `record` ends as the recorded program does, or by the same signal.",
            lines.concat()
        )
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// What a command failed with.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Display) -> Failure {
        Failure { exit, message: message.to_string() }
    }

    /// The standard output takes no more. A reader that has seen enough (`| head`) is no failure.
    pub fn output(error: std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure { exit: Exit::Done, message: String::new() };
        }
        let room = if is_full(&error) { "make room where it goes, or " } else { "" };
        let text = format!("the standard output cannot be written: {error}; {room}send it elsewhere");
        Failure::new(Exit::System, text)
    }

    /// Tells the user; a closed standard error changes nothing.
    pub fn report(self) -> ExitCode {
        use std::io::Write;
        if !self.message.is_empty() {
            let _ = writeln!(std::io::stderr(), "reprise: {}", self.message);
        }
        self.exit.into()
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        let exit = match &error {
            ReadError::TooNew { .. } | ReadError::TooOld { .. } => Exit::Version,
            ReadError::Missing { .. }
            | ReadError::NotATrace { .. }
            | ReadError::OtherFormat { .. }
            | ReadError::Unfinished { .. }
            | ReadError::Damaged { .. }
            | ReadError::NoContents { .. } => Exit::Trace,
            ReadError::Io { .. } => Exit::System,
        };
        let next = match &error {
            ReadError::NotATrace { .. } | ReadError::OtherFormat { .. } => {
                "; give the directory NAME.reprise that `reprise record` made"
            }
            ReadError::Io { .. } => "; check its permissions and the disk",
            _ => "",
        };
        Failure::new(exit, format!("{error}{next}"))
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Failure {
        match error {
            WriteError::Exists { .. } | WriteError::Contents { .. } => Failure::new(Exit::Usage, error),
            _ => Failure::new(Exit::System, format!("{error}; {}", error.remedy("-o"))),
        }
    }
}

impl From<reprise_plan::PlanError> for Failure {
    fn from(error: reprise_plan::PlanError) -> Failure {
        use reprise_plan::PlanError;
        match &error {
            PlanError::Io { source, .. } => {
                Failure::new(Exit::System, format!("{error}; {}", write_remedy(source, "-o or TMPDIR")))
            }
            PlanError::Damaged { .. } => Failure::new(Exit::Trace, error),
        }
    }
}

impl From<reprise_plan::CompileError> for Failure {
    fn from(error: reprise_plan::CompileError) -> Failure {
        use reprise_plan::CompileError;
        match error {
            CompileError::Trace(e) => e.into(),
            CompileError::Plan(e) => e.into(),
            CompileError::Malformed { .. } => Failure::new(Exit::Trace, error),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        // A reader that has seen enough (`| head`) is no failure.
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure { exit: Exit::Done, message: String::new() };
        }
        Failure::new(Exit::System, error)
    }
}
