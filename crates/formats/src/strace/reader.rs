//! Logs line by line, in bounded memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The longest line that is read; strace prints no longer ones unless asked for megabytes of content.
const LONGEST: usize = 64 << 20;
const BUFFER: usize = 1 << 18;

/// A log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The file.
    pub path: PathBuf,
    /// The thread that a log without prefixes is of: its name ends in `.TID` (`-ff`).
    pub tid: Option<i32>,
}

impl Log {
    /// A log; its name may say which thread it is of.
    pub fn new(path: impl Into<PathBuf>) -> Log {
        let path = path.into();
        let suffix = path.extension().and_then(|e| e.to_str()).and_then(|e| e.parse().ok());
        Log { tid: suffix.filter(|tid| *tid > 0), path }
    }
}

/// A line that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read1<'a> {
    /// A line without its end; whether it had one.
    Line(&'a [u8], bool),
    /// A line too long to be held.
    TooLong,
}

/// Reads a file line by line.
#[derive(Debug)]
pub struct Lines {
    file: File,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    ended: bool,
    /// Bytes taken so far.
    pub taken: u64,
}

impl Lines {
    /// Opens a file.
    pub fn open(path: &Path) -> io::Result<Lines> {
        let file = File::open(path)?;
        Ok(Lines { file, buffer: vec![0; BUFFER], begin: 0, end: 0, ended: false, taken: 0 })
    }

    /// The next line; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<Read1<'_>>> {
        let mut searched = 0;
        let mut too_long = false;
        loop {
            let pending = &self.buffer[self.begin..self.end];
            if let Some(at) = memchr::memchr(b'\n', &pending[searched..]) {
                let begin = self.begin;
                let at = begin + searched + at;
                self.begin = at + 1;
                self.taken += (self.begin - begin) as u64;
                let line = if too_long { Read1::TooLong } else { Read1::Line(&self.buffer[begin..at], true) };
                return Ok(Some(line));
            }
            searched = pending.len();
            if self.ended {
                let (begin, end) = (self.begin, self.end);
                self.begin = end;
                self.taken += (end - begin) as u64;
                return Ok(match (too_long, begin == end) {
                    (true, _) => Some(Read1::TooLong),
                    (false, true) => None,
                    (false, false) => Some(Read1::Line(&self.buffer[begin..end], false)),
                });
            }
            if searched >= LONGEST {
                too_long = true;
                self.taken += searched as u64;
                self.begin = self.end;
                searched = 0;
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        match self.file.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.ended = true,
            Ok(n) => self.end += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }
}
