//! What a workload is: files, and for each thread a sequence of requests.
//!
//! Goals: closed vocabularies that performing and writing the trace follow by exhaustive `match`. Non-goals: issuing.

use std::time::Duration;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::WorkloadError;

/// A file of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSpec {
    /// Its name in the directory of the workload.
    pub name: String,
    /// Its size before the start; `None` if it is not there then.
    pub initial_bytes: Option<u64>,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// To be read.
    Reading,
    /// To be overwritten in place.
    Writing,
    /// To be continued at its end.
    Appending,
    /// To be read, and continued at its end.
    Extending,
    /// It is made, and must not be there.
    Creating,
}

impl Opening {
    pub(crate) fn flags(self) -> OFlags {
        // `rustix` adds the last; a trace says what the kernel was given.
        OFlags::CLOEXEC
            | OFlags::LARGEFILE
            | match self {
                Opening::Reading => OFlags::RDONLY,
                Opening::Writing => OFlags::WRONLY,
                Opening::Appending => OFlags::WRONLY | OFlags::APPEND,
                Opening::Extending => OFlags::RDWR | OFlags::APPEND,
                Opening::Creating => OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
            }
    }
}

/// A call. A thread has one file open at a time, which all but `Open`, `Stat` and `Unlink` are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `openat`.
    Open(Opening),
    /// `read`.
    Read,
    /// `pread64`.
    ReadAt,
    /// `write`.
    Write,
    /// `pwrite64`.
    WriteAt,
    /// `lseek` to the begin of the file.
    Rewind,
    /// `fsync`.
    Sync,
    /// `close`.
    Close,
    /// `newfstatat`.
    Stat,
    /// `unlinkat`.
    Unlink,
}

impl Call {
    /// Its name, as in the man pages.
    pub fn name(self) -> &'static str {
        match self {
            Call::Open(_) => "openat",
            Call::Read => "read",
            Call::ReadAt => "pread64",
            Call::Write => "write",
            Call::WriteAt => "pwrite64",
            Call::Rewind => "lseek",
            Call::Sync => "fsync",
            Call::Close => "close",
            Call::Stat => "newfstatat",
            Call::Unlink => "unlinkat",
        }
    }

    /// Whether it moves content.
    pub(crate) fn moves(self) -> bool {
        matches!(self, Call::Read | Call::ReadAt | Call::Write | Call::WriteAt)
    }
}

/// A call of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Which.
    pub call: Call,
    /// Number of the file among [`Workload::files`].
    pub file: u32,
    /// Bytes asked for, of a transfer.
    pub bytes: u32,
    /// Offset in the file, of a transfer that has one.
    pub offset: u64,
}

/// Requests of a thread, in order.
pub type Sequence<'a> = Box<dyn Iterator<Item = Request> + Send + 'a>;

/// How a pause is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseBy {
    /// At work, looking at the clock: exactly as long as asked for.
    #[default]
    Spin,
    /// Asleep, as long as the kernel thinks: with its usual slack 50 µs longer.
    Sleep,
}

/// The time between the end of a transfer and the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    /// How long.
    pub length: Duration,
    /// How it is spent.
    pub by: PauseBy,
}

/// A program that can be performed.
pub trait Workload: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;
    /// Refuses settings that make no sense.
    ///
    /// # Errors
    /// When there are such settings; the message names the one to change.
    fn check(&self) -> Result<(), WorkloadError>;
    /// Number of its threads.
    fn threads(&self) -> u32;
    /// Its files.
    fn files(&self) -> Vec<FileSpec>;
    /// The requests of a thread: the same whenever they are asked for, whatever the other threads do.
    fn sequence(&self, thread: u32) -> Sequence<'_>;
    /// The time between two transfers of a thread.
    fn pause(&self) -> Option<Pause>;
    /// Bytes of the largest transfer.
    fn largest(&self) -> u32;
    /// How many calls a thread makes at most, if that is known.
    fn most_calls(&self) -> Option<u64>;
    /// After how long a thread ends when it has no file open, if it ends by time.
    fn time(&self) -> Option<Duration> {
        None
    }
}
