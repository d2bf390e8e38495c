//! What is validated: a way of replaying, a way of recording, or any command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ValidateError;
use crate::caches::Caches;
use crate::iolog;
use crate::log::LogFormat;
use crate::shell::shell_word;

/// Content as the reference programs write it: each thread the same bytes, which do not compress, from the same memory again and
/// again. Other bytes for each write would come from memory that the processor's caches do not hold, and displace what they do.
const FILL: &str = "mixed:compress=0,dedup=100";

/// Whose times of a recorded program count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Those that the recorder wrote down.
    Recorder,
    /// Those that the program took itself while it was recorded: what recording does to it.
    Program,
}

/// A measuring instrument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instrument {
    /// `reprise replay`.
    Replay {
        /// `--order`.
        order: String,
        /// `--pace`.
        pace: String,
        /// `--io`.
        io: String,
        /// Whether it has the memory that the reference had; without a limit of the reference there is nothing to be matched.
        matched: bool,
    },
    /// `reprise record` of the reference program.
    Record {
        /// `--backend`.
        backend: String,
        /// Whose times count.
        view: View,
    },
    /// A command for the shell, with words in braces that stand for places.
    Command {
        /// What it is called in the results.
        name: String,
        /// `{trace}`, `{dir}`, `{log}`, `{iolog}`, `{threads}` are replaced.
        template: String,
        /// The format of `{log}`.
        log: LogFormat,
    },
}

/// Where an instrument works.
pub(crate) struct Places<'a> {
    /// The program that is running.
    pub reprise: &'a Path,
    /// The words after `reprise` that perform the reference program, without where its trace goes.
    pub reference: Vec<OsString>,
    /// The trace to be replayed.
    pub trace: &'a Path,
    /// Directory of the workload's files: what a command replays on.
    pub files: &'a Path,
    /// Directory that replays of ours have for themselves, on the same file system.
    pub target: &'a Path,
    /// Where the log goes.
    pub log: PathBuf,
    pub threads: u32,
    pub caches: Caches,
    /// Whether the reference's memory was limited.
    pub is_limited: bool,
}

impl Instrument {
    /// What it is called.
    pub fn name(&self) -> String {
        match self {
            Instrument::Replay { order, pace, io, matched: true } => format!("{order} {pace} {io}"),
            Instrument::Replay { order, pace, io, matched: false } => format!("{order} {pace} {io} all-memory"),
            Instrument::Record { backend, view: View::Recorder } => format!("record {backend}"),
            Instrument::Record { backend, view: View::Program } => format!("program under {backend}"),
            Instrument::Command { name, .. } => name.clone(),
        }
    }

    /// All that makes it what it is.
    pub(crate) fn description(&self) -> String {
        match self {
            Instrument::Command { name, template, log } => format!("{name}: {template} ({log:?})"),
            _ => self.name(),
        }
    }

    /// Whether it works on the workload's own files, which are restored before.
    pub(crate) fn uses_files(&self) -> bool {
        match self {
            Instrument::Replay { .. } => false,
            Instrument::Record { .. } | Instrument::Command { .. } => true,
        }
    }

    /// The command of a run.
    pub(crate) fn command(&self, at: &Places<'_>) -> Result<Command, ValidateError> {
        match self {
            Instrument::Replay { order, pace, io, matched } => {
                let mut command = Command::new(at.reprise);
                command.args(["replay", "-q", "--json", "--verify", "warn", "--fill", FILL]);
                // The trace is our own; a list of permitted calls would be part of each response time.
                command.args(["--confine", "lean"]);
                command.args(["--order", order, "--pace", pace, "--io", io]);
                // What is still to be written when the calls begin would be written during them, and its blocks would cost
                // nothing to free: the files of the reference are on the device, too.
                command.args(["--before-start", "sync"]);
                match at.caches {
                    Caches::Cold => command.arg("--cold"),
                    // In memory its plan needs no threads that bring it, and that interrupt calls where processors are few.
                    Caches::Warm => command.args(["--warm", "--plan-memory", "1G"]),
                };
                if *matched && at.is_limited {
                    command.args(["--memory", "recorded"]);
                }
                command.arg("--target").arg(at.target).arg("-o").arg(&at.log).arg(at.trace);
                Ok(command)
            }
            Instrument::Record { backend, view } => {
                let other = at.log.with_extension("other");
                let (recorded, own) = match view {
                    View::Recorder => (&at.log, &other),
                    View::Program => (&other, &at.log),
                };
                let mut command = Command::new(at.reprise);
                command.args(["record", "-q", "--data", "none", "--backend", backend, "-o"]).arg(recorded);
                command.arg("--").arg(at.reprise).args(&at.reference).arg("-o").arg(own);
                Ok(command)
            }
            Instrument::Command { template, .. } => {
                let mut text = template.clone();
                if text.contains("{iolog}") {
                    let logs = iolog::write(at.trace, &at.log.with_extension("iolog"))?;
                    let names: Vec<String> = logs.iter().map(|path| path.display().to_string()).collect();
                    text = text.replace("{iolog}", &shell_word(&names.join(":")));
                }
                let places = [("{trace}", at.trace), ("{dir}", at.files), ("{log}", &at.log)];
                for (word, place) in places {
                    text = text.replace(word, &shell_word(&place.display().to_string()));
                }
                text = text.replace("{threads}", &at.threads.to_string());
                let mut command = Command::new("sh");
                command.arg("-c").arg(text).current_dir(at.files);
                Ok(command)
            }
        }
    }

    /// The format of its log.
    pub(crate) fn log_format(&self) -> LogFormat {
        match self {
            Instrument::Replay { .. } | Instrument::Record { view: View::Program, .. } => LogFormat::Reprise,
            Instrument::Record { view: View::Recorder, .. } => LogFormat::Recording,
            Instrument::Command { log, .. } => *log,
        }
    }
}
