//! What is done when the initial tree is there and before the replay starts: caches are emptied or filled, memory is
//! limited, the user's command is run.
//!
//! Goals: what was prepared is on the device, and then forgotten by the kernel; who may not say so to the kernel gets
//! what can be had, and a word. What the workers have cached is charged to them: neither what building the tree left
//! behind nor the plan that the engine reads. Non-goals: caches of the device itself or of a server.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Job, Options, ReplayError};
use crate::cache::{CacheReport, Start, contents};
use crate::engine::{Commands, issue};
use crate::limit::MemoryGroup;
use crate::sys;

const CONTENTS_ONLY: &str =
    "--cold: without root only cached contents of the initial tree were dropped, not names and attributes";

/// How often the process that fills the cache is looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// What the workers start with.
#[derive(Debug)]
pub(super) struct Ready {
    /// What limits their memory; it is removed with this.
    pub memory: Option<MemoryGroup>,
    /// What is known of the cache now.
    pub cache: CacheReport,
    /// What was not to be had.
    pub note: Option<&'static str>,
}

impl Ready {
    /// Why a worker ended without a word.
    pub fn died(&self, status: i32) -> ReplayError {
        match &self.memory {
            Some(group) if group.has_killed() => ReplayError::Memory { limit_bytes: group.limit_bytes() },
            _ => ReplayError::worker(status),
        }
    }
}

/// Does it all.
pub(super) fn make(jobs: &[Job<'_>], options: &Options) -> Result<Ready, ReplayError> {
    // Before caches are emptied for nothing.
    let memory = options.memory_bytes.map(MemoryGroup::make).transpose()?;
    let start = match (options.cache, &memory) {
        (Start::AsItWas, Some(_)) => Start::ContentsCold,
        (wanted, _) => wanted,
    };
    let mut ready = Ready { memory, cache: CacheReport { start, ..CacheReport::default() }, note: None };
    ready.cache.limit_bytes = ready.memory.as_ref().map(MemoryGroup::limit_bytes);
    if start != Start::AsItWas {
        // What is dirty stays in the caches, and would be written beside the replay's first calls.
        write_out(jobs)?;
    }
    if start == Start::Cold && !empty_machine() {
        ready.cache.start = Start::ContentsCold;
        ready.note = Some(CONTENTS_ONLY);
    }
    // Pages of what was written are as large as the writes, and cost reads less than those that were read: files that are
    // warm were read, whatever made them.
    if matches!(ready.cache.start, Start::ContentsCold | Start::Warm) || ready.memory.is_some() {
        empty_contents(jobs)?;
    }
    if start == Start::Warm {
        warm(jobs, ready.memory.as_ref(), options)?;
    }
    if let Some(command) = &options.before_start {
        before_start(command)?;
    }
    forget_commands(jobs, options);
    if start != Start::AsItWas {
        load_plans(jobs, options).map_err(|e| ReplayError::system("read the plan", e))?;
        ready.cache.cached_bytes = cached_bytes(jobs);
    }
    Ok(ready)
}

/// What is cached of the trees; several plans in one tree name the same files, and are not counted.
fn cached_bytes(jobs: &[Job<'_>]) -> Option<u64> {
    let apart = jobs.iter().enumerate().all(|(i, job)| jobs[..i].iter().all(|other| other.dir != job.dir));
    let each = || jobs.iter().map(|job| contents::cached_bytes(&job.plan.contents.tree, job.dir)).sum();
    if apart { each() } else { None }
}

fn write_out(jobs: &[Job<'_>]) -> Result<(), ReplayError> {
    let written = jobs.iter().try_for_each(|job| sys::synchronize(File::open(job.dir)?.as_fd()));
    written.map_err(|e| ReplayError::system("write the initial tree out", e))
}

/// Empties all caches of the machine, if this user may.
fn empty_machine() -> bool {
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Drops the trees' contents.
fn empty_contents(jobs: &[Job<'_>]) -> Result<(), ReplayError> {
    let done = jobs.iter().try_for_each(|job| contents::forget(&job.plan.contents.tree, job.dir));
    done.map_err(|e| ReplayError::system("empty the caches", e))
}

/// Reads the trees' contents in a process of its own, which is in the workers' group: what it has read counts as theirs.
fn warm(jobs: &[Job<'_>], memory: Option<&MemoryGroup>, options: &Options) -> Result<(), ReplayError> {
    let child = sys::fork().map_err(|e| ReplayError::system("fork a process that fills the cache", e))?;
    let Some(child) = child else {
        let _ = sys::die_with_parent();
        let joined = memory.map_or(Ok(()), MemoryGroup::join);
        let read = || jobs.iter().try_for_each(|job| contents::preload(&job.plan.contents.tree, job.dir));
        sys::exit(joined.and_then(|()| read()).map_or_else(|e| e.raw_os_error().unwrap_or(libc::EIO), |()| 0))
    };
    let waiting = |e| ReplayError::system("wait for the process that fills the cache", e);
    let status = loop {
        if let Some(status) = sys::has_ended(child).map_err(waiting)? {
            break status;
        }
        if options.interrupt.is_some_and(|asked| asked.load(Ordering::SeqCst) > 0) {
            issue::kill(child);
            sys::wait(child).map_err(waiting)?;
            return Err(ReplayError::Interrupted);
        }
        std::thread::sleep(PAUSE);
    };
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        return Ok(());
    }
    Err(ReplayError::Warm { how: how_it_ended(status) })
}

fn how_it_ended(status: i32) -> String {
    match libc::WIFEXITED(status) {
        true => io::Error::from_raw_os_error(libc::WEXITSTATUS(status)).to_string(),
        false => format!("ended by signal {}", libc::WTERMSIG(status)),
    }
}

/// Lets this process read the plans, which is no part of the replay's memory and reading.
fn load_plans(jobs: &[Job<'_>], options: &Options) -> io::Result<()> {
    for job in jobs {
        let mut file = job.plan.file.try_clone()?;
        let mut load = |from: u64, length: u64| {
            file.seek(SeekFrom::Start(from))?;
            io::copy(&mut (&mut file).take(length), &mut io::sink()).map(drop)
        };
        let commands = job.plan.contents.command_section;
        match Commands::of(&job.plan.contents, options.mapped_bytes) {
            Commands::Mapped => load(0, u64::MAX)?,
            Commands::Brought(begin) => {
                load(0, begin)?;
                load(begin.saturating_add(commands.length), u64::MAX)?;
            }
        }
    }
    Ok(())
}

/// Commands that are brought by direct reads were cached when the plan was checked; what is not cached needs no forgetting.
fn forget_commands(jobs: &[Job<'_>], options: &Options) {
    for job in jobs {
        if let Commands::Brought(begin) = Commands::of(&job.plan.contents, options.mapped_bytes) {
            let _ = sys::forget(job.plan.file.as_fd(), begin, job.plan.contents.command_section.length);
        }
    }
}

/// Runs the user's command; the replay starts only after its success.
fn before_start(command: &OsStr) -> Result<(), ReplayError> {
    let status = Command::new("sh").arg("-c").arg(command).status();
    let status = status.map_err(|e| ReplayError::system("run a shell", e))?;
    if status.success() {
        return Ok(());
    }
    Err(ReplayError::BeforeStart { command: command.to_string_lossy().into_owned(), status })
}
