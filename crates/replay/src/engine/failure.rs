//! Why a replay ended early.

use serde::{Deserialize, Serialize};

/// Why the engine stopped before the end of the plan. It crosses from the worker to its parent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Failure {
    /// A command that no compiler makes.
    #[error("the plan is damaged: thread {thread}, command {command}: {cause}; compile it again from its trace")]
    Damaged {
        /// Thread.
        thread: u32,
        /// Its command, counted from 1.
        command: u64,
        /// What is wrong.
        cause: String,
    },
    /// The description asks for more than an engine can hold.
    #[error("the plan is damaged: {cause}; compile it again from its trace")]
    Absurd {
        /// What is wrong.
        cause: String,
    },
    /// No room in the target.
    #[error(
        "the target is full: {call} (action {origin}) returned {error} where the trace succeeded; choose a target with more room, or free some, then replay again (the tree is restored)"
    )]
    TargetFull {
        /// The call.
        call: String,
        /// The action of the trace.
        origin: u64,
        /// `ENOSPC` or `EDQUOT`.
        error: String,
    },
    /// The target cannot be written.
    #[error(
        "the target is read-only: {call} (action {origin}) returned EROFS; remount it (`mount -o remount,rw`) or choose another"
    )]
    TargetReadOnly {
        /// The call.
        call: String,
        /// The action of the trace.
        origin: u64,
    },
    /// The device fails.
    #[error(
        "the target's device fails: {call} (action {origin}) returned {error} where the trace succeeded; look at `dmesg`, and choose another target"
    )]
    TargetDevice {
        /// The call.
        call: String,
        /// The action of the trace.
        origin: u64,
        /// `EIO`, or what the kernel says of a file system that is damaged or whose server is gone.
        error: String,
    },
    /// Somebody has removed the target.
    #[error(
        "the target was removed meanwhile: {call} (action {origin}) returned ENOENT where the trace succeeded; replay into another directory"
    )]
    TargetGone {
        /// The call.
        call: String,
        /// The action of the trace.
        origin: u64,
    },
    /// A limit of the machine or user that the traced program did not meet.
    #[error("a limit is too low here: {what} where the trace succeeded; {next}, then replay again")]
    Limit {
        /// The call, the action of the trace, the error.
        what: String,
        /// How it is raised.
        next: String,
    },
    /// No more threads can be started.
    #[error("cannot start a thread beside {alive} others ({error})")]
    Threads {
        /// Replay threads that live.
        alive: u64,
        /// The error's name.
        error: String,
    },
    /// Threads that wait for each other.
    #[error(
        "stuck: thread {thread} waits for action {count} of thread {awaited}, which will never come; the plan is damaged or its ordering cyclic: compile it again"
    )]
    Stuck {
        /// A waiting thread.
        thread: u32,
        /// Whom it waits for.
        awaited: u32,
        /// For which of its actions, counted from 1.
        count: u64,
    },
    /// A call does not come back.
    #[error(
        "stuck: thread {thread} has been in {call} for {seconds} s without any progress; look at the target's device (`dmesg`), or allow more time"
    )]
    Stalled {
        /// The thread that has been in a call longest, as far as known.
        thread: u32,
        /// Its call.
        call: String,
        /// How long nothing was completed.
        seconds: u64,
    },
    /// The log of the replay cannot be written.
    #[error(
        "the replay's log cannot be written ({error}); make room where the result is written, or choose another place with -o"
    )]
    Log {
        /// The error's name.
        error: String,
    },
    /// The machine refuses what the engine itself needs.
    #[error("cannot {doing}: {error}; {next}")]
    System {
        /// What was tried.
        doing: String,
        /// The error's name.
        error: String,
        /// What to do.
        next: String,
    },
}

impl Failure {
    /// A refusal; `result` is an error number negated.
    pub(crate) fn system(doing: &str, result: i64) -> Failure {
        let next = match i32::try_from(-result) {
            Ok(libc::EAGAIN | libc::ENOMEM) => "free memory, or raise the limits (`ulimit -a`)",
            Ok(libc::EMFILE) => "raise the limit of open files (`ulimit -n`)",
            Ok(libc::ENFILE) => "permit more open files on this machine (`sysctl -w fs.file-max=…`)",
            _ => "run with sudo, or on another machine",
        };
        Failure::System { doing: doing.to_owned(), error: error_name(result), next: next.to_owned() }
    }
}

/// Why a thread stops.
#[derive(Debug)]
pub(super) enum Stop {
    /// Something is wrong; the whole replay ends. Boxed: each command's outcome would be as large as this.
    Failed(Box<Failure>),
    /// The command is malformed.
    Damaged(&'static str),
    /// The replay was told to end.
    Told,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(Box::new(failure))
    }
}

/// The name of the error in a negative result.
pub(crate) fn error_name(result: i64) -> String {
    let number = i32::try_from(result.unsigned_abs()).unwrap_or(0);
    reprise_calls::errno_name(number).map_or_else(|| format!("error {number}"), str::to_owned)
}
