//! What to record into a spool, and what came of it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use reprise_trace::{DataPolicy, End};

use super::processors;
use crate::scope::Scope;
use crate::spool::Lacks;
use crate::spool::layout::SEGMENT_BYTES;

/// What a thread does when there is no room for its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFull {
    /// It waits, before it returns to the program, before Linux 6.18 for half a second at most.
    Block,
    /// It goes on, and the record is counted as dropped.
    Drop,
}

/// What to record, and where to.
#[derive(Debug, Clone)]
pub struct SpoolOptions {
    /// Directory of the trace; the spool is `spool` in it.
    pub trace: PathBuf,
    /// Whom to record.
    pub scope: Scope,
    /// The program and its arguments, where it is a command.
    pub command: Vec<OsString>,
    /// The recording ends after so long, and what is recorded goes on.
    pub duration: Option<Duration>,
    /// How content is kept: [`DataPolicy::Hash`] needs the bytes here.
    pub data: DataPolicy,
    /// Number of segments of 1 MiB between the kernel and the disk; at least two more than there are processors.
    pub segments: u32,
    /// What happens when all of them are full.
    pub on_full: OnFull,
    /// Facts for the finisher: files up to this many bytes are captured whole.
    pub whole_file_bytes: u64,
    /// Facts for the finisher: whether what the loader maps is captured beyond that.
    pub libraries: bool,
    /// Facts for the finisher: whether processor time between calls is wanted.
    pub cpu: bool,
    /// Whether stores to mapped files, and loads, are followed, where the kernel lets them be.
    pub mapped: bool,
    /// Names around a command that are looked at before it runs, at most.
    pub survey: usize,
    /// How often the environment is sampled; `None`: not at all.
    pub sample_every: Option<Duration>,
    /// Bytes that the trace may take on disk. The spool takes half of them at most, since both are there while the one is
    /// made of the other; but room for [`least_segments`] in any case.
    pub max_bytes: Option<u64>,
    /// Facts for the finisher: the directory in which the contents are to get one of their own.
    pub contents: Option<PathBuf>,
    /// Where segments go.
    pub sink: Sink,
    /// Whether to do without the waiting of newer kernels, as older ones do; for tests.
    pub plain: bool,
}

/// Where segments go. Anything but the disk is for measurements and tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sink {
    /// To the files of the spool.
    #[default]
    Disk,
    /// Nowhere.
    Null,
    /// To the files, each after a pause.
    Slow(Duration),
}

impl SpoolOptions {
    /// The directory for the contents, wherever it is asked for.
    #[cfg_attr(not(ebpf), allow(dead_code))] // for recording in the kernel alone
    pub(super) fn contents_place(&self) -> Option<PathBuf> {
        self.contents.as_ref().map(|place| std::path::absolute(place).unwrap_or_else(|_| place.clone()))
    }

    /// The usual options: full data, 64 segments, waiting for room.
    pub fn new(trace: impl Into<PathBuf>, command: Vec<OsString>) -> SpoolOptions {
        SpoolOptions {
            trace: trace.into(),
            scope: Scope::Command,
            command,
            duration: None,
            data: DataPolicy::Full,
            segments: 64,
            on_full: OnFull::Block,
            whole_file_bytes: SEGMENT_BYTES as u64,
            libraries: false,
            cpu: false,
            mapped: true,
            survey: 0,
            sample_every: None,
            max_bytes: None,
            contents: None,
            sink: Sink::Disk,
            plain: false,
        }
    }
}

/// Segments that a recording needs at least: each processor fills one, and others are on their way to the disk.
pub fn least_segments() -> u32 {
    processors::online() as u32 + 2
}

/// More would be more memory than a map of the kernel's may have.
pub const MOST_SEGMENTS: u32 = 1024;

/// What the kernel lets a recording do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether threads can wait for room, and for pages that are not in memory: nothing is dropped then.
    pub waiting: bool,
    /// Whether pages of the page cache can be read: stores to mapped files can be followed.
    pub pages: bool,
    /// Whether the memory of a process can be looked through in a fault: loads from mapped files can be followed.
    pub loads: bool,
}

/// What a recording in the kernel has become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// How the command ended, if it did.
    pub end: End,
    /// Records written.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Records that are lacking, by cause.
    pub lacks: Lacks,
    /// Records that could not be made: where another was being made, and of threads that could not be followed.
    pub missed: u64,
    /// Calls, requests, beginnings and ends of threads, of any program, that the kernel did not tell.
    pub untold: u64,
    /// Whether the spool had reached the size it may have; the program went on.
    pub limited: bool,
    /// Calls from then on.
    pub passed: u64,
    /// Records that were made when there was room again.
    pub deferred: u64,
    /// Times that a thread waited for room.
    pub waits: u64,
    /// How long they waited, together.
    pub waited_ns: u64,
    /// What the kernel let the recording do.
    pub capabilities: Capabilities,
}
