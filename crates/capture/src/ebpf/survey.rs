//! A look around before a command runs: what stands in its working directory, below it, and where its words point to.
//!
//! Goals: what calls of the command will meet is mostly known as it was, names and attributes; nearest first, bounded in
//! number and time; the command's start is delayed, not the command. Non-goals: contents (`--tree`), other file systems
//! than that of where it begins, what commands inside of words name.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::finish::Live;
use crate::spool::Stood;

/// It takes no longer than this.
const PATIENCE: Duration = Duration::from_millis(500);

/// Looks around for a command that begins in `cwd`, at `most` names. Directories in `left_out` are not entered.
pub fn survey(cwd: &Path, command: &[OsString], left_out: &[PathBuf], most: usize) -> Stood {
    let mut survey = Survey {
        live: Live::new(b"/", 0, Stood::default()),
        stood: Stood::default(),
        queue: VecDeque::new(),
        left_out,
        most,
        until: Instant::now() + PATIENCE,
    };
    survey.begin_at(cwd, true);
    for word in command.iter().skip(1) {
        survey.word(cwd, word);
    }
    survey.go_on();
    survey.stood
}

struct Survey<'a> {
    live: Live,
    stood: Stood,
    /// Directories to list, with the file system that is not to be left; without one what is below is not listed.
    queue: VecDeque<(Vec<u8>, Option<u64>)>,
    left_out: &'a [PathBuf],
    most: usize,
    until: Instant,
}

impl Survey<'_> {
    /// What a word of the command names, as a whole or behind `=`: a directory with all below it, else that which would
    /// hold it.
    fn word(&mut self, cwd: &Path, word: &OsStr) {
        let bytes = word.as_bytes();
        let value = bytes.iter().position(|b| *b == b'=').map(|at| &bytes[at + 1..]);
        for name in [Some(bytes), value].into_iter().flatten().filter(|name| !name.is_empty() && !name.contains(&0)) {
            let path = cwd.join(OsStr::from_bytes(name));
            match path.is_dir() {
                true => self.begin_at(&path, true),
                false => path.parent().into_iter().for_each(|above| self.begin_at(above, false)),
            }
        }
    }

    /// Notes a directory, and what it stands in, to be listed.
    fn begin_at(&mut self, path: &Path, enters: bool) {
        let Ok(path) = path.canonicalize() else { return };
        for above in path.ancestors() {
            self.look(above.as_os_str().as_bytes());
        }
        let device = self.device(&path);
        let listed = (path.into_os_string().as_bytes().to_vec(), device.filter(|_| enters));
        if device.is_some() && !self.queue.contains(&listed) {
            self.queue.push_back(listed);
        }
    }

    fn device(&self, path: &Path) -> Option<u64> {
        let looked = self.stood.0.get(path.as_os_str().as_bytes())?;
        Some(looked.stat?.identity?.0)
    }

    fn go_on(&mut self) {
        while let Some((directory, device)) = self.queue.pop_front() {
            let Ok(entries) = std::fs::read_dir(OsStr::from_bytes(&directory)) else { continue };
            for entry in entries.flatten() {
                if self.stood.0.len() >= self.most || Instant::now() > self.until {
                    return;
                }
                let path = entry.path();
                let is_directory = self.look(path.as_os_str().as_bytes());
                let enters = is_directory && device.is_some() && self.device(&path) == device;
                if enters && !self.left_out.contains(&path) {
                    self.queue.push_back((path.into_os_string().as_bytes().to_vec(), device));
                }
            }
        }
    }

    /// Notes what stands at a path; whether that is a directory.
    fn look(&mut self, path: &[u8]) -> bool {
        let Some((looked, stat)) = self.live.now(path) else { return false };
        self.stood.0.entry(path.to_vec()).or_insert(looked);
        stat.is_dir()
    }
}
