//! Traces of any length that no program made: written with the trace's own writer, as fast as it goes.
//!
//! Goals: realistic mixes whose effects fit together (a model that follows them is never surprised), several threads in
//! turn, live files and descriptors in bounded number where a real program has them so. The same mix, number of actions
//! and seed give the same trace. Non-goals: contents that mean anything.

mod build;
mod database;
mod mail;
mod processes;
mod reads;
mod tape;

use std::path::Path;
use std::str::FromStr;

use reprise_trace::WriteError;

pub use tape::Tape;

/// What the actions look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// A mail server: small files made, written, moved, read and removed; ever new names, few at a time.
    Mail,
    /// A database: few files, positioned reads and writes, syncs, a log that is begun anew.
    Database,
    /// A build: many files read, names searched in vain, a growing number of outputs.
    Build,
    /// Short processes: fork, exec, a few files, exit, wait.
    Processes,
    /// Cached reads of few files, and some writes: any length of little else.
    Reads,
}

impl Mix {
    /// All of them.
    pub const ALL: [Mix; 5] = [Mix::Mail, Mix::Database, Mix::Build, Mix::Processes, Mix::Reads];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Mail => "mail",
            Mix::Database => "database",
            Mix::Build => "build",
            Mix::Processes => "processes",
            Mix::Reads => "reads",
        }
    }
}

impl FromStr for Mix {
    type Err = String;
    fn from_str(text: &str) -> Result<Mix, String> {
        let found = Mix::ALL.into_iter().find(|mix| mix.name() == text);
        found.ok_or_else(|| format!("'{text}' is no mix; choose mail, database, build, processes or reads"))
    }
}

/// Writes a trace of about so many actions (a few more, so that all that was begun ends).
///
/// # Errors
/// When the trace cannot be written.
pub fn write(dir: &Path, mix: Mix, actions: u64, seed: u64) -> Result<(), WriteError> {
    let mut tape = Tape::create(dir, mix.name(), seed)?;
    match mix {
        Mix::Mail => mail::play(&mut tape, actions)?,
        Mix::Database => database::play(&mut tape, actions)?,
        Mix::Build => build::play(&mut tape, actions)?,
        Mix::Processes => processes::play(&mut tape, actions)?,
        Mix::Reads => reads::play(&mut tape, actions)?,
    }
    tape.close()
}
