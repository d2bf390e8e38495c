//! Contents that were decoded before, uncompressed in a file without a name: who goes to and fro among more parts than fit into
//! memory decodes each of them twice at most.
//!
//! A part is kept when it is decoded for the second time, so that a pass in order writes nothing. What cannot be kept (no room) is
//! decoded again, as without this. In memory is a number a part; where each content is stands in the file, before the contents.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Marks the end of a content that was not kept.
const ABSENT: u64 = 1 << 63;
const ENTRY_BYTES: u64 = 8;

/// The file, and what is in it.
pub(crate) struct Spill {
    file: File,
    end: u64,
    decoded: HashSet<usize>,
    /// Where each part begins.
    parts: HashMap<usize, u64>,
}

impl Spill {
    /// An empty one, in the directory for temporary files.
    pub(crate) fn new() -> io::Result<Spill> {
        let (decoded, parts) = (HashSet::new(), HashMap::new());
        Ok(Spill { file: tempfile::tempfile()?, end: 0, decoded, parts })
    }

    /// Takes the contents of a part that was decoded, if it was before.
    pub(crate) fn take<'a>(&mut self, part: usize, contents: impl Iterator<Item = Option<&'a [u8]>> + Clone) {
        if self.decoded.insert(part) || self.parts.contains_key(&part) {
            return;
        }
        let (mut ends, mut end) = (Vec::new(), 0);
        for content in contents.clone() {
            end += content.map_or(0, <[u8]>::len) as u64;
            ends.extend((if content.is_some() { end } else { end | ABSENT }).to_le_bytes());
        }
        let bytes: Vec<u8> = contents.flatten().flatten().copied().collect();
        let kept = self.file.write_all_at(&ends, self.end);
        if kept.and_then(|()| self.file.write_all_at(&bytes, self.end + ends.len() as u64)).is_ok() {
            self.parts.insert(part, self.end);
            self.end += ends.len() as u64 + end;
        }
    }

    /// The content at a place of a part of so many: nothing if the part is not here, `Some(None)` of one that was not kept.
    pub(crate) fn content(&self, part: usize, at: usize, count: u64) -> Option<Option<Vec<u8>>> {
        let begin = *self.parts.get(&part)?;
        let at = at as u64;
        if at >= count {
            return None;
        }
        let end_of = |entry: u64| {
            let mut bytes = [0; ENTRY_BYTES as usize];
            self.file.read_exact_at(&mut bytes, begin + entry * ENTRY_BYTES).ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        let end = end_of(at)?;
        if end & ABSENT != 0 {
            return Some(None);
        }
        let from = if at == 0 { 0 } else { end_of(at - 1)? & !ABSENT };
        let mut bytes = vec![0; usize::try_from(end.checked_sub(from)?).ok()?];
        self.file.read_exact_at(&mut bytes, begin + count * ENTRY_BYTES + from).ok()?;
        Some(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decoded_twice_is_there() {
        let mut spill = Spill::new().unwrap();
        let parts: [Vec<Option<&[u8]>>; 3] =
            [vec![Some(b"one"), None, Some(b""), Some(b"four")], vec![None, Some(b"x")], vec![Some(b"never again")]];
        for pass in 0..3 {
            for (number, part) in parts.iter().enumerate().take(if pass == 0 { 3 } else { 2 }) {
                spill.take(number, part.iter().copied());
                assert_eq!(spill.content(number, 0, part.len() as u64).is_some(), pass > 0);
            }
        }
        for (number, part) in parts.iter().enumerate().take(2) {
            for (at, content) in part.iter().enumerate() {
                let found = spill.content(number, at, part.len() as u64);
                assert_eq!(found, Some(content.map(<[u8]>::to_vec)), "{number} {at}");
            }
            assert_eq!(spill.content(number, part.len(), part.len() as u64), None);
        }
        assert_eq!(spill.content(2, 0, 1), None, "decoded once");
        assert_eq!(spill.end, 4 * 8 + 7 + 2 * 8 + 1, "each is written once");
    }
}
