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
    /// Written by the program; what, need not be known.
    Written,
    /// Written by the program, and the trace has not what: a replay makes it up.
    Lost,
}

impl Source {
    pub(crate) fn advance(self, by: u64) -> Source {
        match self {
            Source::Initial { node, at } => Source::Initial { node, at: at.saturating_add(by) },
            Source::Blob { blob, at } => Source::Blob { blob, at: at + by as u32 },
            other => other,
        }
    }

    fn continues(self, length: u64, next: Source) -> bool {
        match (self, next) {
            (Source::Zero, Source::Zero) | (Source::Written, Source::Written) | (Source::Lost, Source::Lost) => true,
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

type Tree = BTreeMap<u64, (u64, Source)>;

/// The content of one file: disjoint pieces; what no piece covers is zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    pieces: Pieces,
}

/// Pieces by offset. Most files are one piece, which needs no tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Pieces {
    #[default]
    None,
    One(u64, (u64, Source)),
    /// Two or more, while nothing changes.
    Many(Tree),
}

impl Pieces {
    /// As a tree, for changing it.
    fn tree(&mut self) -> &mut Tree {
        if !matches!(self, Pieces::Many(_)) {
            let pieces = std::mem::take(self);
            *self = Pieces::Many(pieces.range(0, u64::MAX).collect());
        }
        match self {
            Pieces::Many(tree) => tree,
            Pieces::None | Pieces::One(..) => unreachable!("it was just made a tree"),
        }
    }

    /// After a change: without a tree if it needs none.
    fn settle(&mut self) {
        if let Pieces::Many(tree) = self
            && tree.len() < 2
        {
            *self = tree.first_key_value().map_or(Pieces::None, |(at, piece)| Pieces::One(*at, *piece));
        }
    }

    /// The pieces that begin in a range.
    fn range(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, (u64, Source))> + '_ {
        let (one, many) = match self {
            Pieces::None => (None, None),
            Pieces::One(at, piece) => (Some((*at, *piece)).filter(|(at, _)| (from..to).contains(at)), None),
            Pieces::Many(tree) => (None, Some(tree.range(from..to.max(from)).map(|(at, piece)| (*at, *piece)))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Where the last piece begins that begins before an offset.
    fn before(&self, at: u64) -> Option<u64> {
        match self {
            Pieces::None => None,
            Pieces::One(start, _) => Some(*start).filter(|start| *start < at),
            Pieces::Many(tree) => tree.range(..at).next_back().map(|(start, _)| *start),
        }
    }
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

    /// Removes what lies in the range.
    pub fn clear(&mut self, offset: u64, length: u64) {
        let (offset, length) = bounded(offset, length);
        clear(self.pieces.tree(), offset, offset + length);
        self.pieces.settle();
    }

    /// Replaces the range.
    pub fn put(&mut self, offset: u64, length: u64, source: Source) {
        let (offset, length) = bounded(offset, length);
        if length > 0 && !self.put_in_one(offset, length, source) {
            put(self.pieces.tree(), offset, length, source);
            self.pieces.settle();
        }
    }

    /// Replaces the range, if there is one piece before and after.
    fn put_in_one(&mut self, offset: u64, length: u64, source: Source) -> bool {
        let whole = (length, source);
        match &mut self.pieces {
            _ if source == Source::Zero => return false,
            Pieces::None => self.pieces = Pieces::One(offset, whole),
            Pieces::One(at, (n, s)) => {
                let (end, to) = (*at + *n, offset + length);
                if offset <= *at && end <= to {
                    (*at, (*n, *s)) = (offset, whole);
                } else if *at <= offset && offset <= end && s.continues(offset - *at, source) {
                    *n = (*n).max(to - *at);
                } else {
                    return false;
                }
            }
            Pieces::Many(_) => return false,
        }
        true
    }

    /// The pieces inside a range, cut to it, in order; gaps are zero.
    pub fn range(&self, offset: u64, length: u64) -> Vec<Piece> {
        let (offset, length) = bounded(offset, length);
        let end = offset + length;
        let mut out = Vec::new();
        for (start, (n, source)) in self.pieces.range(self.pieces.before(offset).unwrap_or(offset), end) {
            let (from, to) = (start.max(offset), (start + n).min(end));
            if from < to {
                out.push(Piece { offset: from, length: to - from, source: source.advance(from - start) });
            }
        }
        out
    }

    /// The parts of a range that no piece covers: offset and length.
    pub fn gaps(&self, offset: u64, length: u64) -> Vec<(u64, u64)> {
        let (mut at, length) = bounded(offset, length);
        let end = at + length;
        let mut out = Vec::new();
        for piece in self.range(at, length) {
            out.extend((at < piece.offset).then(|| (at, piece.offset - at)));
            at = piece.offset + piece.length;
        }
        out.extend((at < end).then(|| (at, end - at)));
        out
    }

    /// Removes the range and moves what is behind it forward (`FALLOC_FL_COLLAPSE_RANGE`).
    pub fn collapse(&mut self, offset: u64, length: u64) {
        let (offset, length) = bounded(offset, length);
        let tree = self.pieces.tree();
        clear(tree, offset, offset + length);
        let behind = tree.split_off(&offset);
        tree.extend(behind.into_iter().map(|(k, v)| (k - length, v)));
        self.pieces.settle();
    }

    /// Moves what is behind the offset back and leaves zeros (`FALLOC_FL_INSERT_RANGE`).
    pub fn insert(&mut self, offset: u64, length: u64) {
        let tree = self.pieces.tree();
        split(tree, offset);
        let behind = tree.split_off(&offset);
        let moved = behind.into_iter().map(|(k, v)| (k.saturating_add(length), v));
        tree.extend(moved.filter(|(k, _)| *k < LARGEST));
        self.pieces.settle();
    }

    /// All pieces.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        self.pieces.range(0, u64::MAX).map(|(offset, (length, source))| Piece { offset, length, source })
    }
}

/// Splits the piece that spans `at`, if any.
fn split(tree: &mut Tree, at: u64) {
    let Some((&start, &(length, source))) = tree.range(..at).next_back() else {
        return;
    };
    if start + length > at {
        tree.insert(start, (at - start, source));
        tree.insert(at, (start + length - at, source.advance(at - start)));
    }
}

fn clear(tree: &mut Tree, offset: u64, end: u64) {
    split(tree, offset);
    split(tree, end);
    while let Some((&at, _)) = tree.range(offset..end).next() {
        tree.remove(&at);
    }
}

fn put(tree: &mut Tree, offset: u64, length: u64, source: Source) {
    clear(tree, offset, offset + length);
    if source == Source::Zero {
        return;
    }
    let (mut start, mut total, mut first) = (offset, length, source);
    if let Some((&before, &(n, s))) = tree.range(..offset).next_back()
        && before + n == offset
        && s.continues(n, source)
    {
        (start, total, first) = (before, n + length, s);
    }
    if let Some(&(n, s)) = tree.get(&(offset + length))
        && first.continues(total, s)
    {
        tree.remove(&(offset + length));
        total += n;
    }
    tree.insert(start, (total, first));
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
