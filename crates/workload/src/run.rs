//! The measured step: all threads begin together, and what they did is gathered.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::WorkloadError;
use crate::clock::{Counter, Scale};
use crate::perform::{Stage, ThreadRecord, thread};
use crate::prepare::check;
use crate::request::Workload;
use crate::tree::Before;

/// What a run is called with.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Where the files are.
    pub directory: &'a Path,
    /// Not 0 to stop the threads after their present call.
    pub stop: &'a AtomicU32,
}

/// What all threads did, with what was there before.
pub struct Performed {
    pub(crate) directory: PathBuf,
    pub(crate) names: Vec<String>,
    pub(crate) before: Before,
    pub(crate) threads: Vec<ThreadRecord>,
    pub(crate) scale: Scale,
    pub(crate) began_ns: u64,
    /// Bytes that came from devices meanwhile, if the kernel tells.
    pub(crate) device_bytes: Option<u64>,
}

impl Performed {
    /// Number of calls.
    pub fn calls(&self) -> u64 {
        self.threads.iter().map(|thread| thread.records.len() as u64).sum()
    }

    /// From the first call to the end of the last.
    pub fn elapsed_ns(&self) -> u64 {
        let all = || self.threads.iter().flat_map(|thread| &thread.records);
        let first = all().map(|record| record.begin).min().unwrap_or(0);
        let last = all().map(|record| record.end).max().unwrap_or(0);
        self.scale.ns(last).saturating_sub(self.scale.ns(first))
    }
}

/// Performs a workload on files that were prepared.
///
/// # Errors
/// When files are not as they must be, or a call fails.
pub fn perform(workload: &dyn Workload, run: &Run<'_>) -> Result<Performed, WorkloadError> {
    workload.check()?;
    let directory = run
        .directory
        .canonicalize()
        .map_err(|e| WorkloadError::Unprepared { path: run.directory.into(), what: e.to_string() })?;
    check(workload, &directory)?;
    let names: Vec<String> = workload.files().into_iter().map(|spec| spec.name).collect();
    let before = Before::look(&directory, &names)?;
    let paths = names.iter().map(|name| path(&directory, name)).collect::<Result<Vec<_>, _>>()?;
    let counter = Counter::new();
    let rate = counter.rate();
    let from = counter.pair();
    let stage = Stage { workload, paths: &paths, counter: &counter, rate, stop: run.stop };
    let device_bytes_before = device_bytes();
    let threads = all_threads(&stage);
    let device_bytes = device_bytes().zip(device_bytes_before).map(|(after, before)| after.saturating_sub(before));
    let scale = Scale::since(from, &counter);
    let performed = Performed { directory, names, before, threads, scale, began_ns: scale.began_ns(), device_bytes };
    performed.judged(run.stop)
}

/// What each thread did. The first is the calling one, so that a program of one thread has its descriptors for itself, as its replay
/// has: a call on a shared table counts references (30 ns of a cached `pread`).
fn all_threads(stage: &Stage<'_>) -> Vec<ThreadRecord> {
    let barrier = Barrier::new(stage.workload.threads() as usize);
    let ready = || {
        barrier.wait();
    };
    std::thread::scope(|scope| {
        let others: Vec<_> =
            (1..stage.workload.threads()).map(|number| scope.spawn(move || thread(stage, number, ready))).collect();
        let first = thread(stage, 0, ready);
        std::iter::once(first).chain(others.into_iter().map(|other| other.join().unwrap_or_default())).collect()
    })
}

impl Performed {
    fn judged(self, stop: &AtomicU32) -> Result<Performed, WorkloadError> {
        if stop.load(Ordering::Relaxed) != 0 {
            return Err(WorkloadError::Interrupted);
        }
        for (number, thread) in self.threads.iter().enumerate() {
            if let (Some(errno), Some(record)) = (thread.failed, thread.records.last()) {
                return Err(WorkloadError::Call {
                    call: record.request.call.name(),
                    path: self.directory.join(&self.names[record.request.file as usize]),
                    done: thread.records.len() - 1,
                    thread: number as u32,
                    source: errno.into(),
                });
            }
        }
        Ok(self)
    }
}

/// Bytes that this process had read from devices.
fn device_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

fn path(directory: &Path, name: &str) -> Result<CString, WorkloadError> {
    let path = directory.join(name);
    CString::new(path.as_os_str().as_bytes()).map_err(|e| WorkloadError::files("name", path, e))
}
