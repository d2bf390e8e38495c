//! The memory of a traced thread: as it is now, or what was kept of it.
//!
//! Goals: whatever prefix of a buffer is readable is read; strings are found without reading far beyond their end.
//! Non-goals: knowing what the bytes mean.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::kept::{Kept, Place, When};
use crate::{served, sys};

pub(crate) const PAGE: u64 = 4096;

/// Memory that a call was given or has filled.
#[derive(Debug, Clone, Copy)]
pub enum Memory<'a> {
    /// Of a stopped thread, as it is now.
    Live(i32),
    /// What was kept of it with the call, preferably as it was then.
    Kept(&'a Kept, When),
}

impl Memory<'_> {
    /// Reads as much of the range as is mapped, or was kept; returns the length of that prefix.
    pub fn read(&self, addr: u64, into: &mut [u8]) -> usize {
        match self {
            Memory::Live(tid) => read_live(*tid, addr, into),
            Memory::Kept(kept, when) => kept.read(addr, into, *when),
        }
    }

    /// How much of a range was kept; nothing that is still the program's is looked at.
    pub fn reach(&self, addr: u64, length: usize) -> Option<usize> {
        match self {
            Memory::Live(_) => None,
            Memory::Kept(kept, when) => Some(kept.reach(addr, length, *when)),
        }
    }

    /// What was kept of a range, if all of it stands in one piece.
    pub fn bytes(&self, addr: u64, length: usize) -> Option<&[u8]> {
        match self {
            Memory::Live(_) => None,
            Memory::Kept(kept, when) => kept.bytes(addr, length, *when),
        }
    }

    /// Where in a spool a range stands, if all of it does in one piece.
    pub fn place(&self, addr: u64, length: usize) -> Option<Place> {
        match self {
            Memory::Live(_) => None,
            Memory::Kept(kept, when) => kept.place(addr, length, *when),
        }
    }

    /// Reads buffers one after the other, addresses with lengths, as long as there is room and all of them is readable; returns how much that was.
    pub fn gather(&self, buffers: &[(u64, u64)], into: &mut [u8]) -> usize {
        let mut done = 0_usize;
        for &(address, length) in buffers {
            let end = into.len().min(done.saturating_add(length as usize));
            done += self.read(address, &mut into[done..end]);
            if done < end {
                break;
            }
        }
        done
    }

    /// Exactly `len` bytes, or nothing.
    pub fn exact(&self, addr: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        (addr != 0 && self.read(addr, &mut bytes) == len).then_some(bytes)
    }

    /// A string ended by NUL, at most `limit` bytes; `None` if it begins outside of the mapped memory.
    pub fn string(&self, addr: u64, limit: usize) -> Option<Vec<u8>> {
        if addr == 0 {
            return None;
        }
        let mut out = Vec::new();
        let mut step = 256;
        while out.len() < limit {
            let at = addr.wrapping_add(out.len() as u64);
            let n = step.min((PAGE - at % PAGE) as usize);
            step = PAGE as usize;
            let start = out.len();
            out.resize(start + n, 0);
            let got = self.read(at, &mut out[start..]);
            out.truncate(start + got);
            if let Some(end) = out[start..].iter().position(|b| *b == 0) {
                out.truncate(start + end);
                return Some(out);
            }
            if got < n {
                break;
            }
        }
        out.truncate(limit);
        (!out.is_empty()).then_some(out)
    }

    /// A null-terminated array of strings, each ended by NUL in the result; at most `limit` bytes.
    pub fn strings(&self, addr: u64, limit: usize) -> Option<Vec<u8>> {
        if addr == 0 {
            return None;
        }
        let mut out = Vec::new();
        for i in 0u64.. {
            let pointer = self.word(addr.wrapping_add(8 * i))?;
            if pointer == 0 || out.len() >= limit {
                break;
            }
            out.extend(self.string(pointer, 1 << 17)?);
            out.push(0);
        }
        Some(out)
    }

    /// One 64-bit word.
    pub fn word(&self, addr: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read(addr, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
    }

    /// An array of `iovec`: address and length of each element.
    pub fn vector(&self, addr: u64, count: u64) -> Option<Vec<(u64, u64)>> {
        const MOST: u64 = 1024; // UIO_MAXIOV: with more the call fails
        let bytes = self.exact(addr, 16 * count.min(MOST) as usize)?;
        let word = |b: &[u8]| b.try_into().map_or(0, u64::from_le_bytes);
        Some(bytes.chunks_exact(16).map(|b| (word(&b[..8]), word(&b[8..]))).collect())
    }
}

fn read_live(tid: i32, addr: u64, into: &mut [u8]) -> usize {
    let most = if served::any() { served::reach(tid, addr, into.len()) } else { into.len() };
    let (into, mut got) = (&mut into[..most], 0);
    while got < into.len() {
        let at = addr.wrapping_add(got as u64);
        if let Ok(n @ 1..) = sys::read_memory(tid, at, &mut into[got..]) {
            got += n;
            continue;
        }
        // The next page alone, by the two other means.
        let end = into.len().min(got + (PAGE - at % PAGE) as usize);
        let n = read_page(tid, at, &mut into[got..end]);
        got += n;
        if got < end {
            break;
        }
    }
    got
}

fn read_page(tid: i32, addr: u64, into: &mut [u8]) -> usize {
    let by_file = File::open(format!("/proc/{tid}/mem")).and_then(|memory| memory.read_at(into, addr));
    if let Ok(n @ 1..) = by_file {
        return n;
    }
    let mut got = 0;
    while got < into.len() {
        let Ok(word) = sys::peek(tid, addr.wrapping_add(got as u64)) else {
            break;
        };
        let n = word.len().min(into.len() - got);
        into[got..got + n].copy_from_slice(&word[..n]);
        got += n;
    }
    got
}
