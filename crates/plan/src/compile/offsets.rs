//! Where each blob was placed: a table that is in memory for the newest blobs only.
//!
//! Blobs are numbered as they first appear, so most that are asked for are new; the others are looked up in a file, which is
//! the kernel's to keep in memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::CompileError;
use crate::file::Scratch;

/// Blobs whose places are in memory.
const WINDOW: usize = 1 << 16;
const ENTRY_BYTES: u64 = 8;

/// Offsets by number of blob.
pub(super) struct Offsets {
    scratch: Scratch,
    /// Number of the first blob of the window.
    first: u32,
    /// Offset plus one; 0 if the blob was not placed.
    window: Vec<u64>,
}

impl Offsets {
    pub fn new(scratch: Scratch) -> Offsets {
        Offsets { scratch, first: 0, window: Vec::new() }
    }

    fn file(&self) -> &File {
        &self.scratch.file
    }

    pub fn get(&self, blob: u32) -> Result<Option<u64>, CompileError> {
        let stored = match blob.checked_sub(self.first) {
            Some(at) => self.window.get(at as usize).copied().unwrap_or(0),
            None => self.stored(blob)?,
        };
        Ok(stored.checked_sub(1))
    }

    /// What the file says; behind its end no blob was placed.
    fn stored(&self, blob: u32) -> Result<u64, CompileError> {
        let mut word = [0; 8];
        let mut done = 0;
        while done < word.len() {
            let at = u64::from(blob) * ENTRY_BYTES + done as u64;
            match self.file().read_at(&mut word[done..], at) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.scratch.error(e).into()),
            }
        }
        Ok(u64::from_le_bytes(word))
    }

    pub fn set(&mut self, blob: u32, offset: u64) -> Result<(), CompileError> {
        let word = offset.saturating_add(1);
        match blob.checked_sub(self.first) {
            None => self.write(&[word], self.first_byte(blob)),
            Some(at) => {
                let mut at = at as usize;
                if at >= WINDOW {
                    self.write(&self.window, self.first_byte(self.first))?;
                    self.window.clear();
                    (self.first, at) = (blob, 0);
                }
                if self.window.len() <= at {
                    self.window.resize(at + 1, 0);
                }
                self.window[at] = word;
                Ok(())
            }
        }
    }

    fn first_byte(&self, blob: u32) -> u64 {
        u64::from(blob) * ENTRY_BYTES
    }

    fn write(&self, words: &[u64], at: u64) -> Result<(), CompileError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.file().write_all_at(&bytes, at).map_err(|e| self.scratch.error(e).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_far_behind_are_found_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let writer = crate::file::PlanWriter::create(&dir.path().join("plan")).expect("a plan");
        let mut offsets = Offsets::new(writer.scratch().expect("a file"));
        let blobs: Vec<u32> = (0..300_000).filter(|blob| blob % 3 != 1).collect();
        for &blob in &blobs {
            assert_eq!(offsets.get(blob).expect("read"), None);
            offsets.set(blob, u64::from(blob) * 64).expect("written");
        }
        offsets.set(1, 5).expect("written");
        for blob in 0..300_000 {
            let expected = match blob {
                1 => Some(5),
                _ => (blob % 3 != 1).then_some(u64::from(blob) * 64),
            };
            assert_eq!(offsets.get(blob).expect("read"), expected, "{blob}");
        }
    }
}
