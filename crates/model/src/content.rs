//! Content of files as ranges of known origin.

use std::collections::BTreeMap;

use crate::node::NodeId;

/// Where a byte range comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It was in this file of the initial tree, at this offset.
    Initial {
        /// The file.
        node: NodeId,
        /// Offset there.
        at: u64,
    },
    /// It is in a blob of the trace, from this offset.
    Blob {
        /// The blob.
        blob: u32,
        /// Offset in it.
        at: u32,
    },
    /// Zeros: never written, or punched.
    Zero,
    /// Written by the program, but not (or need not be) known.
    Written,
}

impl Source {
    fn advance(self, by: u64) -> Source {
        match self {
            Source::Initial { node, at } => Source::Initial { node, at: at.saturating_add(by) },
            Source::Blob { blob, at } => Source::Blob { blob, at: at + by as u32 },
            other => other,
        }
    }

    fn continues(self, length: u64, next: Source) -> bool {
        match (self, next) {
            (Source::Zero, Source::Zero) | (Source::Written, Source::Written) => true,
            (Source::Initial { .. }, Source::Initial { .. }) => self.advance(length) == next,
            _ => false,
        }
    }
}

/// A range of a file with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Where it comes from.
    pub source: Source,
}

/// The content of one file: disjoint pieces; what no piece covers is zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    pieces: BTreeMap<u64, (u64, Source)>,
}

/// The largest offset a file can have (`loff_t`); damaged traces may speak of larger ones.
const LARGEST: u64 = i64::MAX as u64;

/// A range cut to what a file can have.
fn bounded(offset: u64, length: u64) -> (u64, u64) {
    let offset = offset.min(LARGEST);
    (offset, length.min(LARGEST - offset))
}

impl Content {
    /// All of one source.
    pub fn whole(length: u64, source: Source) -> Content {
        let mut content = Content::default();
        content.put(0, length, source);
        content
    }

    /// Splits the piece that spans `at`, if any.
    fn split(&mut self, at: u64) {
        let Some((&start, &(length, source))) = self.pieces.range(..at).next_back() else {
            return;
        };
        if start + length > at {
            self.pieces.insert(start, (at - start, source));
            self.pieces.insert(at, (start + length - at, source.advance(at - start)));
        }
    }

    /// Removes what lies in the range.
    pub fn clear(&mut self, offset: u64, length: u64) {
        let (offset, length) = bounded(offset, length);
        let end = offset + length;
        self.split(offset);
        self.split(end);
        let inside: Vec<u64> = self.pieces.range(offset..end).map(|(k, _)| *k).collect();
        for key in inside {
            self.pieces.remove(&key);
        }
    }

    /// Replaces the range.
    pub fn put(&mut self, offset: u64, length: u64, source: Source) {
        let (offset, length) = bounded(offset, length);
        if length == 0 {
            return;
        }
        self.clear(offset, length);
        if source == Source::Zero {
            return;
        }
        let (mut start, mut total, mut first) = (offset, length, source);
        if let Some((&before, &(n, s))) = self.pieces.range(..offset).next_back()
            && before + n == offset
            && s.continues(n, source)
        {
            (start, total, first) = (before, n + length, s);
        }
        if let Some(&(n, s)) = self.pieces.get(&(offset + length))
            && first.continues(total, s)
        {
            self.pieces.remove(&(offset + length));
            total += n;
        }
        self.pieces.insert(start, (total, first));
    }

    /// The pieces inside a range, cut to it, in order; gaps are zero.
    pub fn range(&self, offset: u64, length: u64) -> Vec<Piece> {
        let (offset, length) = bounded(offset, length);
        let end = offset + length;
        let first = self.pieces.range(..offset).next_back().map_or(offset, |(k, _)| *k);
        let mut out = Vec::new();
        for (&start, &(n, source)) in self.pieces.range(first..end) {
            let (from, to) = (start.max(offset), (start + n).min(end));
            if from < to {
                out.push(Piece { offset: from, length: to - from, source: source.advance(from - start) });
            }
        }
        out
    }

    /// Removes the range and moves what is behind it forward (`FALLOC_FL_COLLAPSE_RANGE`).
    pub fn collapse(&mut self, offset: u64, length: u64) {
        let (offset, length) = bounded(offset, length);
        self.clear(offset, length);
        let behind = self.pieces.split_off(&offset);
        self.pieces.extend(behind.into_iter().map(|(k, v)| (k - length, v)));
    }

    /// Moves what is behind the offset back and leaves zeros (`FALLOC_FL_INSERT_RANGE`).
    pub fn insert(&mut self, offset: u64, length: u64) {
        self.split(offset);
        let behind = self.pieces.split_off(&offset);
        self.pieces.extend(behind.into_iter().map(|(k, v)| (k.saturating_add(length), v)));
    }

    /// All pieces.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        self.pieces.iter().map(|(&offset, &(length, source))| Piece { offset, length, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain array of sources per byte.
    #[test]
    fn agrees_with_a_byte_array() {
        let mut seed = 7u64;
        let mut random = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..200 {
            let mut content = Content::whole(64, Source::Initial { node: 1, at: 0 });
            let mut bytes: Vec<Source> = (0..64).map(|at| Source::Initial { node: 1, at }).collect();
            bytes.resize(256, Source::Zero);
            for blob in 0..12 {
                let (offset, length) = (random(100), random(20));
                let source = match random(3) {
                    0 => Source::Zero,
                    1 => Source::Written,
                    _ => Source::Blob { blob, at: 3 },
                };
                match random(5) {
                    0 => {
                        content.collapse(offset, length);
                        bytes.drain(offset as usize..(offset + length) as usize);
                        bytes.resize(256, Source::Zero);
                    }
                    1 => {
                        content.insert(offset, length);
                        bytes.splice(offset as usize..offset as usize, vec![Source::Zero; length as usize]);
                        bytes.truncate(256);
                    }
                    _ => {
                        content.put(offset, length, source);
                        for i in 0..length {
                            bytes[(offset + i) as usize] = source.advance(i);
                        }
                    }
                }
                let mut read = vec![Source::Zero; 256];
                for piece in content.range(0, 256) {
                    for i in 0..piece.length {
                        read[(piece.offset + i) as usize] = piece.source.advance(i);
                    }
                }
                assert_eq!(read, bytes);
            }
        }
    }
}
