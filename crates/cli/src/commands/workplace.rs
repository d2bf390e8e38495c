//! Where a replay keeps its plan and its log: beside the result, `RESULT.unfinished`, or where there is to be none in a temporary
//! directory.
//!
//! Goals: a result is there as a whole or not at all; what a killed replay leaves behind is found again, and never overwritten.
//! Non-goals: what is in it (`reprise_replay::run::Unfinished`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reprise_replay::emit::EmitError;
use reprise_replay::run::Unfinished;
use reprise_trace::{Manifest, WriteError};
use tempfile::TempDir;

use super::{replay, resume};
use crate::args::Replay;
use crate::exit::{Exit, Failure};

/// A directory that is removed at the end.
pub(super) enum Workplace {
    /// Of a replay that has no result.
    Temporary(TempDir),
    /// Of one that has.
    Beside(Beside),
}

/// The directory beside a result.
pub(super) struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Workplace {
    /// Makes it. One of the same name that a killed replay left behind is an obstacle if anything was replayed.
    pub fn of(args: &Replay) -> Result<Workplace, Failure> {
        let Some(output) = &args.output else {
            return replay::scratch(None, "the plan").map(Workplace::Temporary);
        };
        let directory = beside(output);
        if Unfinished::is_in(&directory) {
            let shown = directory.display();
            let next = resume::command(args).unwrap_or_default();
            let text = format!(
                "{shown}: left by a replay that was killed, or still runs; go on with `{next}`, or remove it (`rm -r {shown}`)"
            );
            return Err(Failure::new(Exit::Usage, text));
        }
        let made = match fs::remove_dir_all(&directory) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => fs::create_dir(&directory),
        };
        made.map_err(|e| {
            let text = format!("{}: cannot keep the plan: {e}; choose another place with -o", directory.display());
            Failure::new(Exit::System, text)
        })?;
        Ok(Workplace::Beside(Beside(directory)))
    }

    pub fn path(&self) -> &Path {
        match self {
            Workplace::Temporary(directory) => directory.path(),
            Workplace::Beside(Beside(path)) => path,
        }
    }

    /// Whether it is found again if this process is killed.
    pub fn outlives_this(&self) -> bool {
        matches!(self, Workplace::Beside(_))
    }

    /// Leaves it where it is.
    pub fn keep(self) {
        match self {
            Workplace::Temporary(directory) => _ = directory.keep(),
            Workplace::Beside(beside) => std::mem::forget(beside),
        }
    }
}

/// The directory beside a result.
pub(super) fn beside(result: &Path) -> PathBuf {
    let mut name = result.components().as_path().as_os_str().to_owned();
    name.push(".unfinished");
    name.into()
}

/// Writes a result in the directory beside it, and then gives it its name. A directory that is there already, and empty, may be a mount
/// of its own: that is written to as it is.
pub(super) fn write_result(
    directory: &Path,
    output: &Path,
    emit: impl FnOnce(&Path) -> Result<Manifest, EmitError>,
) -> Result<(), EmitError> {
    if output.exists() {
        return emit(output).map(drop);
    }
    let part = directory.join("result");
    let _ = fs::remove_dir_all(&part);
    emit(&part)?;
    fs::rename(&part, output).map_err(|source| WriteError::Io { path: output.to_owned(), source }.into())
}
