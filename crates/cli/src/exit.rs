//! Exit codes, and errors on their way to the user.

use std::fmt::Display;
use std::process::ExitCode;

use reprise_trace::{ReadError, WriteError};

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
            | ReadError::Unfinished { .. }
            | ReadError::Damaged { .. }
            | ReadError::NoContents { .. } => Exit::Trace,
            ReadError::Io { .. } => Exit::System,
        };
        let next = match &error {
            ReadError::NotATrace { .. } => "; give the directory NAME.reprise that `reprise record` made",
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
            _ => Failure::new(Exit::System, format!("{error}; make room there, or choose another place with -o")),
        }
    }
}

impl From<reprise_plan::PlanError> for Failure {
    fn from(error: reprise_plan::PlanError) -> Failure {
        use reprise_plan::PlanError;
        let exit = match &error {
            PlanError::Io { .. } => Exit::System,
            PlanError::Damaged { .. } => Exit::Trace,
        };
        Failure::new(exit, error)
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
