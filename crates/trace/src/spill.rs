//! Blobs that were decoded before, uncompressed in a file without a name: who goes to and fro among more parts than fit into
//! memory decodes each of them twice at most.
//!
//! A part is kept when it is decoded for the second time, so that a pass in order writes nothing. What cannot be kept is decoded again,
//! as without this: others want the disk, too, so a share of what is free is all that it takes. In memory is a number a part; what is
//! known of each blob stands in the file, before the contents.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;

use bytes::Bytes;

use crate::blobs::Payload;

/// What is known of a blob: where its content begins in the file, its length, whether it is there, and the hash.
const ENTRY_BYTES: u64 = 8 + 4 + 4 + 32;

/// One of so many bytes that are free where the file is may be taken.
const SHARE: u64 = 4;

/// The file, and what is in it.
pub(crate) struct Spill {
    file: Option<File>,
    end: u64,
    decoded: HashSet<usize>,
    /// Where each part begins.
    parts: HashMap<usize, u64>,
}

impl Spill {
    /// One in an empty file, or in one that is made when it is needed.
    pub(crate) fn new(file: Option<File>) -> Spill {
        Spill { file, end: 0, decoded: HashSet::new(), parts: HashMap::new() }
    }

    /// Takes a part that was decoded, if it was before.
    pub(crate) fn take(&mut self, part: usize, payloads: &[Payload]) {
        if self.decoded.insert(part) || self.parts.contains_key(&part) {
            return;
        }
        let entries = payloads.len() as u64 * ENTRY_BYTES;
        let contents: u64 = payloads.iter().filter_map(|p| p.content.as_ref()).map(|c| c.len() as u64).sum();
        let begin = self.end;
        let Some(file) = self.file_for(entries + contents) else {
            return;
        };
        let mut bytes = Vec::with_capacity((entries + contents) as usize);
        let mut at = begin + entries;
        for payload in payloads {
            bytes.extend(at.to_le_bytes());
            bytes.extend(payload.length.to_le_bytes());
            bytes.extend(u32::from(payload.content.is_some()).to_le_bytes());
            bytes.extend(payload.blake3);
            at += payload.content.as_ref().map_or(0, Bytes::len) as u64;
        }
        for content in payloads.iter().filter_map(|payload| payload.content.as_ref()) {
            bytes.extend_from_slice(content);
        }
        if file.write_all_at(&bytes, begin).is_ok() {
            self.parts.insert(part, begin);
            self.end = at;
        }
    }

    /// The file, if it has room for so many bytes more.
    fn file_for(&mut self, more: u64) -> Option<&File> {
        if self.file.is_none() {
            self.file = tempfile::tempfile().ok();
        }
        let file = self.file.as_ref()?;
        let disk = rustix::fs::fstatvfs(file).ok()?;
        (self.end + more <= disk.f_bavail.saturating_mul(disk.f_frsize) / SHARE).then_some(file)
    }

    /// The blob at a place of a part of `count`, if the part is here.
    pub(crate) fn payload(&self, part: usize, at: usize, count: u64) -> Option<Payload> {
        let (begin, file) = (*self.parts.get(&part)?, self.file.as_ref()?);
        let at = Some(at as u64).filter(|at| *at < count)?;
        let mut entry = [0; ENTRY_BYTES as usize];
        file.read_exact_at(&mut entry, begin + at * ENTRY_BYTES).ok()?;
        let (begin, rest) = entry.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (kept, blake3) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length);
        let content = match u32::from_le_bytes(*kept) {
            0 => None,
            _ => {
                let mut bytes = vec![0; length as usize];
                file.read_exact_at(&mut bytes, u64::from_le_bytes(*begin)).ok()?;
                Some(Bytes::from(bytes))
            }
        };
        Some(Payload { blake3: blake3.try_into().ok()?, length, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decoded_twice_is_there() {
        let mut spill = Spill::new(None);
        let blob = |n: u8, content: Option<&'static [u8]>| Payload {
            blake3: [n; 32],
            length: content.map_or(7, |c| c.len() as u32),
            content: content.map(Bytes::from_static),
        };
        let parts = [
            vec![blob(0, Some(b"one")), blob(1, None), blob(2, Some(b"")), blob(3, Some(b"four"))],
            vec![blob(4, None), blob(5, Some(b"x"))],
            vec![blob(6, Some(b"never again"))],
        ];
        for pass in 0..3 {
            for (number, part) in parts.iter().enumerate().take(if pass == 0 { 3 } else { 2 }) {
                spill.take(number, part);
                assert_eq!(spill.payload(number, 0, part.len() as u64).is_some(), pass > 0);
            }
        }
        for (number, part) in parts.iter().enumerate().take(2) {
            for (at, payload) in part.iter().enumerate() {
                let found = spill.payload(number, at, part.len() as u64);
                assert_eq!(found.as_ref(), Some(payload), "{number} {at}");
            }
            assert_eq!(spill.payload(number, part.len(), part.len() as u64), None);
        }
        assert_eq!(spill.payload(2, 0, 1), None, "decoded once");
        assert_eq!(spill.end, 4 * ENTRY_BYTES + 7 + 2 * ENTRY_BYTES + 1, "each is written once");
    }
}
