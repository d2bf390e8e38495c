//! A bound on the memory of processes, their page cache included: a control group of the kernel.
//!
//! Goals: both interfaces (v2 `memory.max`, v1 `memory.limit_in_bytes`); nothing of the machine is changed but one group
//! that is made and removed again; without the rights an error says which. Non-goals: bounds of processors or devices,
//! enabling controllers, swap (what the machine swaps, it may swap here).

mod error;
mod place;
mod threads;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::LimitError;
use place::{Place, Version};
pub(crate) use threads::of_threads;

/// The most attempts to remove a group: its last process may take a moment to be gone.
const ATTEMPTS: u32 = 20;

/// A control group with a memory limit; removed when dropped, when no process is in it any longer.
#[derive(Debug)]
pub struct MemoryGroup {
    dir: PathBuf,
    version: Version,
    limit_bytes: u64,
}

impl MemoryGroup {
    /// Makes an empty group whose processes may have this much memory, page cache included, as near as possible to the group
    /// of this process.
    ///
    /// # Errors
    /// No controller, no rights, or a group above that permits less.
    pub fn make(limit_bytes: u64) -> Result<MemoryGroup, LimitError> {
        let places = place::places()?;
        let mut refused = None;
        for place in &places {
            match MemoryGroup::make_in(place, limit_bytes) {
                Ok(group) => return Ok(group),
                // The reason nearest to this process is the one to tell.
                Err(error) => _ = refused.get_or_insert(error),
            }
        }
        Err(refused.unwrap_or(LimitError::NoController))
    }

    /// Whether [`MemoryGroup::make`] would succeed now; nothing is left of the attempt.
    ///
    /// # Errors
    /// As there.
    pub fn probe(limit_bytes: u64) -> Result<(), LimitError> {
        MemoryGroup::make(limit_bytes).map(drop)
    }

    /// Makes a group and puts this process into it, until the value is dropped.
    ///
    /// # Errors
    /// As [`MemoryGroup::make`], or when the kernel refuses.
    pub fn enter(limit_bytes: u64) -> Result<Entered, LimitError> {
        let (_, home, _) = place::own("memory")?;
        let group = MemoryGroup::make(limit_bytes)?;
        let refused = |source| LimitError::System { doing: "enter it", place: group.dir.clone(), source };
        group.join().map_err(refused)?;
        Ok(Entered { home, group })
    }

    fn make_in(place: &Place, limit_bytes: u64) -> Result<MemoryGroup, LimitError> {
        if let Some(allowed) = place.allows_bytes().filter(|allowed| *allowed < limit_bytes) {
            return Err(LimitError::TooMuch { limit_bytes, allowed, place: place.dir.clone() });
        }
        let dir = place.dir.join(format!("reprise-{}", std::process::id()));
        make_anew(&dir).map_err(|source| LimitError::cannot_make(&dir, limit_bytes, source))?;
        // From here on it is removed whatever happens.
        let group = MemoryGroup { dir, version: place.version, limit_bytes };
        let file = group.dir.join(group.version.limit_file());
        let written = fs::write(&file, limit_bytes.to_string());
        written.map_err(|source| LimitError::System { doing: "set the memory limit", place: file, source })?;
        Ok(group)
    }

    /// Puts the calling process into it, which must have a single thread; what it starts is in it, too.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn join(&self) -> io::Result<()> {
        fs::write(self.dir.join("cgroup.procs"), "0")
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its limit.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// The most memory that was in use at once, if the kernel tells it (v2: since Linux 5.19).
    pub fn peak_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string(self.dir.join(self.version.peak_file())).ok()?;
        text.trim().parse().ok()
    }

    /// Whether the kernel has killed one of its processes because the limit was too low.
    pub fn has_killed(&self) -> bool {
        let text = fs::read_to_string(self.dir.join(self.version.kills_file())).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok());
        count.is_some_and(|count| count > 0)
    }
}

/// This process is in a group of its own.
#[derive(Debug)]
pub struct Entered {
    /// The group that it was in.
    home: PathBuf,
    group: MemoryGroup,
}

impl Entered {
    /// Its limit.
    pub fn limit_bytes(&self) -> u64 {
        self.group.limit_bytes
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Where this fails the group stays, empty when the process has ended.
        let _ = fs::write(self.home.join("cgroup.procs"), "0");
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        for attempt in 0..ATTEMPTS {
            match fs::remove_dir(&self.dir) {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(Duration::from_millis(1 << attempt.min(6)));
                }
                _ => return,
            }
        }
    }
}

/// A directory; one of the same name is left from a process that was killed: nobody else has this number.
fn make_anew(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir(dir)?;
            fs::create_dir(dir)
        }
        done => done,
    }
}
