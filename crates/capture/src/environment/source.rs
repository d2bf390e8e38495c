//! Files of the kernel that are read again and again.
//!
//! Goals: each is opened once, and read where its text lay before. Non-goals: what it says.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A file of `/proc`; one that this kernel lacks is empty.
pub(super) struct Source {
    file: Option<File>,
    buffer: Vec<u8>,
    length: usize,
}

impl Source {
    /// What the kernel gives at once, at least.
    const PIECE: usize = 4096;

    /// One that cannot be opened is empty.
    pub fn open(path: &str) -> Source {
        Source { file: File::open(path).ok(), buffer: vec![0; Source::PIECE], length: 0 }
    }

    /// Reads up to four kilobytes, in which all is that is looked for.
    pub fn beginning(&mut self) -> &str {
        self.length = 0;
        self.read_more();
        self.text()
    }

    /// Reads all.
    pub fn whole(&mut self) -> &str {
        self.length = 0;
        while self.read_more() {
            if self.buffer.len() - self.length < Source::PIECE {
                self.buffer.resize(self.buffer.len() + Source::PIECE, 0);
            }
        }
        self.text()
    }

    fn read_more(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        let read = file.read_at(&mut self.buffer[self.length..], self.length as u64).unwrap_or(0);
        self.length += read;
        read > 0
    }

    /// What was read last.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.buffer[..self.length]).unwrap_or_default()
    }
}
