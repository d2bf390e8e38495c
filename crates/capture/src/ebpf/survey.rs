//! A look around before a command runs: what stands in its working directory, below it, and where its words point to.
//!
//! Goals: what calls of the command will meet is mostly known as it was, names and attributes; nearest first, bounded in
//! number and time; the command's start is delayed, not the command. Non-goals: contents that are large or not in
//! memory (`--tree`), other file systems than that of where it begins, what commands inside of words name.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reprise_initial::Stat;

use super::cached;
use crate::finish::Live;
use crate::spool::Stood;

/// It takes no longer than this.
const PATIENCE: Duration = Duration::from_millis(500);

/// Looks around for a command that begins in `cwd`, at `most` names, and keeps `most_bytes` of small contents at most.
/// Directories in `left_out` are not entered.
pub fn survey(cwd: &Path, command: &[OsString], left_out: &[PathBuf], most: usize, most_bytes: u64) -> Stood {
    let mut survey = Survey {
        live: Live::new(b"/", 0),
        stood: Stood::default(),
        queue: VecDeque::new(),
        noted: HashSet::new(),
        small: Vec::new(),
        left_out,
        most,
        until: Instant::now() + PATIENCE,
    };
    survey.begin_at(cwd, true);
    for word in command.iter().skip(1) {
        if survey.is_over() {
            break;
        }
        survey.word(cwd, word);
    }
    survey.go_on();
    let Survey { mut stood, small, .. } = survey;
    cached::keep(&mut stood, &small, most_bytes);
    stood
}

struct Survey<'a> {
    live: Live,
    stood: Stood,
    /// Directories to list, with the file system that is not to be left; without one what is below is not listed.
    queue: VecDeque<(Vec<u8>, Option<u64>)>,
    /// All that were ever queued.
    noted: HashSet<(Vec<u8>, Option<u64>)>,
    /// Small files, nearest first.
    small: Vec<Vec<u8>>,
    left_out: &'a [PathBuf],
    most: usize,
    until: Instant,
}

impl Survey<'_> {
    fn is_over(&self) -> bool {
        self.stood.names.len() >= self.most || Instant::now() > self.until
    }

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
        for above in path.ancestors().skip(1) {
            self.look(above.as_os_str().as_bytes());
        }
        let Some(stat) = self.look(path.as_os_str().as_bytes()) else { return };
        self.list(&path, device(stat).filter(|_| enters));
    }

    /// Notes a directory to be listed, once however it was come by.
    fn list(&mut self, path: &Path, own: Option<u64>) {
        let listed = (path.as_os_str().as_bytes().to_vec(), own);
        if self.noted.insert(listed.clone()) {
            self.queue.push_back(listed);
        }
    }

    fn go_on(&mut self) {
        while let Some((directory, device)) = self.queue.pop_front() {
            let Ok(entries) = std::fs::read_dir(OsStr::from_bytes(&directory)) else { continue };
            let mut is_whole = true;
            for entry in entries {
                if self.is_over() {
                    return;
                }
                is_whole &= entry.is_ok_and(|entry| self.entry(&entry.path(), device));
            }
            if is_whole {
                self.stood.listed.insert(directory);
            }
        }
    }

    /// Notes what stands in a directory, and enters it if it is one, too; whether it could be looked at.
    fn entry(&mut self, path: &Path, own: Option<u64>) -> bool {
        let Some(stat) = self.look(path.as_os_str().as_bytes()) else { return false };
        let is_directory = stat.mode & libc::S_IFMT == libc::S_IFDIR;
        if is_directory && own.is_some() && device(stat) == own && !self.left_out.iter().any(|p| p == path) {
            self.list(path, own);
        }
        true
    }

    /// Notes what stands at a path; each is looked at once.
    fn look(&mut self, path: &[u8]) -> Option<Stat> {
        if let Some(known) = self.stood.names.get(path) {
            return known.stat;
        }
        let (looked, _) = self.live.now(path)?;
        let stat = looked.stat;
        if cached::is_small(&looked) {
            self.small.push(path.to_vec());
        }
        self.stood.names.insert(path.to_vec(), looked);
        stat
    }
}

fn device(stat: Stat) -> Option<u64> {
    stat.identity.map(|(device, _)| device)
}
