//! A build without the programs: everything is there but says so.

use std::convert::Infallible;

use super::{Capabilities, Reason, SpoolError, SpoolOptions, Summary};
use crate::sys::Signals;

/// Whether the kernel can record here: this build cannot.
///
/// # Errors
/// Always.
pub fn available() -> Result<Capabilities, Reason> {
    Err(Reason::NotBuilt)
}

/// Programs in the kernel; there are none in this build.
pub struct Ready(Infallible);

impl Ready {
    /// Loads the programs.
    ///
    /// # Errors
    /// Always.
    pub fn load(_: &SpoolOptions) -> Result<Ready, Reason> {
        Err(Reason::NotBuilt)
    }

    /// What the kernel does not let the recording do.
    pub fn lacks(&self) -> Option<String> {
        match self.0 {}
    }

    /// Starts the command and its recording.
    ///
    /// # Errors
    /// None: there is no such recording.
    pub fn start(self, _: &SpoolOptions, _: &mut dyn FnMut()) -> Result<Session, SpoolError> {
        match self.0 {}
    }
}

/// A recording in the kernel; there is none in this build.
pub struct Session(Infallible);

impl Session {
    /// Begins a recording.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: &SpoolOptions) -> Result<Session, SpoolError> {
        Err(Reason::NotBuilt.into())
    }

    /// Number of the command's process.
    pub fn pid(&self) -> i32 {
        match self.0 {}
    }

    /// As [`Session::run`].
    pub(crate) fn run_guarded(self) -> (Result<Summary, SpoolError>, Option<Signals>) {
        match self.0 {}
    }

    /// Records until all has ended.
    ///
    /// # Errors
    /// None: there is no such recording.
    pub fn run(self) -> Result<Summary, SpoolError> {
        match self.0 {}
    }
}
