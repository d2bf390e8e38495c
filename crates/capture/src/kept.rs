//! The ranges of a program's memory that were kept with one call.
//!
//! Goals: what was kept is found by its address, as it was at entry or at exit; a call that moved more than fits into
//! memory is read from the spool. Non-goals: knowing what the bytes mean.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::spool::layout::MOVED_AT;

/// Bytes of a spool, whose files are open as long as it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    file: RawFd,
    offset: u64,
    length: usize,
}

/// When a range was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the call did anything.
    Entry,
    /// After it had done all.
    Exit,
}

/// Where the bytes of a range are.
#[derive(Debug, Clone)]
pub enum Bytes {
    /// In memory.
    Here(Vec<u8>),
    /// Nowhere: only how many they were was asked for. They are read as zeros.
    Unwanted(usize),
    /// In the spool.
    There {
        /// The file.
        file: Rc<File>,
        /// Where in it.
        offset: u64,
        /// How many.
        length: usize,
    },
}

impl Bytes {
    fn len(&self) -> usize {
        match self {
            Bytes::Here(bytes) => bytes.len(),
            Bytes::Unwanted(length) | Bytes::There { length, .. } => *length,
        }
    }

    fn copy(&self, from: usize, into: &mut [u8]) -> usize {
        match self {
            Bytes::Here(bytes) => {
                into.copy_from_slice(&bytes[from..from + into.len()]);
                into.len()
            }
            Bytes::Unwanted(_) => {
                into.fill(0);
                into.len()
            }
            Bytes::There { file, offset, .. } => {
                file.read_exact_at(into, offset + from as u64).map_or(0, |()| into.len())
            }
        }
    }
}

/// One range.
#[derive(Debug, Clone)]
pub struct Range {
    /// Its address in the program.
    pub address: u64,
    /// When it was kept.
    pub when: When,
    /// What was kept.
    pub bytes: Bytes,
}

/// Mostly there is one.
type Ranges = SmallVec<[Range; 1]>;

/// All ranges of a call.
#[derive(Debug, Default, Clone)]
pub struct Kept {
    entry: Ranges,
    exit: Ranges,
    held: usize,
}

/// Ranges of a call may overlap; so many before an address are looked at.
const OVERLAP: usize = 16;

impl Kept {
    /// Takes in a range.
    pub fn add(&mut self, range: Range) {
        self.held += match &range.bytes {
            Bytes::Here(bytes) => bytes.len(),
            Bytes::Unwanted(_) | Bytes::There { .. } => 0,
        };
        let side = match range.when {
            When::Entry => &mut self.entry,
            When::Exit => &mut self.exit,
        };
        // Mostly they come in ascending order.
        if side.last().is_none_or(|last| last.address <= range.address) {
            return side.push(range);
        }
        let at = side.partition_point(|r| r.address <= range.address);
        side.insert(at, range);
    }

    /// Where content begins that a call moved inside the kernel, as an address.
    pub fn moved(&self) -> Option<u64> {
        let at = self.exit.partition_point(|r| r.address < MOVED_AT);
        self.exit.get(at).map(|range| range.address)
    }

    /// Bytes held in memory.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Reads what was kept from an address on, until something was not; prefers what was kept `when`.
    pub fn read(&self, address: u64, into: &mut [u8], when: When) -> usize {
        self.walk(address, into.len(), when, |bytes, from, to| bytes.copy(from, &mut into[to]))
    }

    /// How much [`Kept::read`] would read of so many bytes.
    pub fn reach(&self, address: u64, length: usize, when: When) -> usize {
        self.walk(address, length, when, |_, _, to| to.len())
    }

    /// The bytes from an address on, if they stand in memory in one piece.
    pub fn bytes(&self, address: u64, length: usize, when: When) -> Option<&[u8]> {
        let range = self.range(address, when)?;
        let Bytes::Here(bytes) = &range.bytes else { return None };
        bytes.get((address - range.address) as usize..)?.get(..length)
    }

    /// Where in the spool the bytes from an address on stand, if they do in one piece.
    pub fn place(&self, address: u64, length: usize, when: When) -> Option<Place> {
        let range = self.range(address, when)?;
        let Bytes::There { file, offset, length: there } = &range.bytes else { return None };
        let from = (address - range.address) as usize;
        (from + length <= *there).then(|| Place { file: file.as_raw_fd(), offset: offset + from as u64, length })
    }

    /// The range that holds an address: what was kept then, or what otherwise.
    fn range(&self, address: u64, when: When) -> Option<&Range> {
        let (first, second) = match when {
            When::Entry => (&self.entry, &self.exit),
            When::Exit => (&self.exit, &self.entry),
        };
        find(first, address).or_else(|| find(second, address))
    }

    /// Goes through the pieces of a range: where in the bytes, and which part of the range it is; gives how much was taken.
    fn walk(
        &self,
        address: u64,
        length: usize,
        when: When,
        mut take: impl FnMut(&Bytes, usize, std::ops::Range<usize>) -> usize,
    ) -> usize {
        let mut got = 0;
        while got < length {
            let at = address.wrapping_add(got as u64);
            let Some(range) = self.range(at, when) else { break };
            let from = (at - range.address) as usize;
            let n = (range.bytes.len() - from).min(length - got);
            let taken = take(&range.bytes, from, got..got + n);
            got += taken;
            if taken < n {
                break;
            }
        }
        got
    }
}

/// A range that holds an address.
fn find(ranges: &[Range], address: u64) -> Option<&Range> {
    let after = ranges.partition_point(|r| r.address <= address);
    let near = &ranges[after.saturating_sub(OVERLAP)..after];
    near.iter().rev().find(|r| address - r.address < r.bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(address: u64, when: When, bytes: &[u8]) -> Range {
        Range { address, when, bytes: Bytes::Here(bytes.to_vec()) }
    }

    fn read(kept: &Kept, address: u64, length: usize, when: When) -> Vec<u8> {
        let mut out = vec![0; length];
        let got = kept.read(address, &mut out, when);
        out.truncate(got);
        out
    }

    #[test]
    fn neighbours_are_one_and_gaps_end() {
        let mut kept = Kept::default();
        kept.add(here(108, When::Exit, b"ijkl"));
        kept.add(here(100, When::Exit, b"abcdefgh"));
        kept.add(here(100, When::Entry, b"12"));
        assert_eq!(read(&kept, 102, 20, When::Exit), b"cdefghijkl");
        assert_eq!(read(&kept, 100, 4, When::Entry), b"12cd");
        assert_eq!(read(&kept, 112, 4, When::Exit), b"");
        assert_eq!(read(&kept, u64::MAX, 4, When::Exit), b"");
    }
}
