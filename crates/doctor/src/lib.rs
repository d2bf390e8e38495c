//! What a machine permits, and what disturbs measurements on it, each with the command that mends it.
//!
//! Goals: nothing is changed; each finding says what was looked at; what cannot be found out is said to be unknown, not fine.
//! Looks at files below a root of its own, so that tests can make machines. Non-goals: mending.

mod disturbances;
mod machine;
mod permissions;

use std::path::PathBuf;

use serde::Serialize;

pub use machine::Machine;

/// How it stands with one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Good,
    /// It will show in measurements.
    Disturbs,
    /// Something that Reprise can do is not possible here.
    Missing,
    /// Could not be found out.
    Unknown,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, in a word or two.
    pub what: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub found: String,
    /// The command that mends it.
    pub mend: Option<String>,
}

impl Finding {
    fn good(what: &'static str, found: impl Into<String>) -> Finding {
        Finding { what, state: State::Good, found: found.into(), mend: None }
    }

    fn disturbs(what: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { what, state: State::Disturbs, found: found.into(), mend: Some(mend.into()) }
    }

    fn missing(what: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { what, state: State::Missing, found: found.into(), mend: Some(mend.into()) }
    }

    fn unknown(what: &'static str, found: impl Into<String>) -> Finding {
        Finding { what, state: State::Unknown, found: found.into(), mend: None }
    }
}

/// Where a measurement is to happen, as far as that is known.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Where traces are, or are written.
    pub trace: Option<PathBuf>,
    /// Where replays happen.
    pub target: Option<PathBuf>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Examination {
    /// What the machine permits.
    pub permits: Vec<Finding>,
    /// What disturbs measurements.
    pub disturbs: Vec<Finding>,
}

impl Examination {
    /// Whether programs can be recorded and replayed here at all.
    pub fn works(&self) -> bool {
        let good = |what| self.permits.iter().any(|f| f.what == what && f.state == State::Good);
        (good(permissions::EBPF) || good(permissions::PTRACE)) && good(permissions::CONFINEMENT)
    }
}

/// Looks at a machine.
pub fn examine(machine: &Machine, places: &Places) -> Examination {
    Examination { permits: permissions::all(machine), disturbs: disturbances::all(machine, places) }
}
