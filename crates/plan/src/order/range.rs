//! Order by byte range: of two actions on one file, those that meet in a byte that one of them changes keep their order.
//!
//! Goals: exact for the ranges of ordinary programs, bounded for all: beyond so many pieces neighbours become one, which can
//! only order more. Non-goals: sizes and attributes (chains of their own).

use std::collections::BTreeMap;

use super::needs::{Needs, Point, Points};
use super::rule::Rule;

/// Pieces of one file.
const LARGEST: usize = 512;

/// Bytes with one history.
#[derive(Debug, Clone, Default)]
struct Piece {
    /// Exclusive.
    to: u64,
    written: Points,
    /// Since then.
    read: Points,
}

#[derive(Debug, Default)]
pub(super) struct Ranges {
    pieces: BTreeMap<u64, Piece>,
    /// By all threads, anywhere.
    written: Points,
    /// By all threads: what made the file durable.
    flushed: Points,
}

impl Ranges {
    pub fn read(&mut self, own: Point, from: u64, to: u64, needs: &mut Needs) {
        self.cover(from, to, |piece| {
            needs.all(&piece.written, Rule::FileRange);
            piece.read.add(own);
        });
    }

    pub fn write(&mut self, own: Point, from: u64, to: u64, needs: &mut Needs) {
        if from >= to {
            return;
        }
        self.written.add(own);
        needs.all(&self.flushed, Rule::FileRange);
        if let Some(piece) = self.exactly(from, to) {
            needs.all(&piece.written, Rule::FileRange);
            needs.all(&piece.read, Rule::FileRange);
            piece.written.set(own);
            piece.read.clear();
            return;
        }
        self.split(from);
        self.split(to);
        let inside: Vec<u64> = self.pieces.range(from..to).map(|(at, _)| *at).collect();
        for at in inside {
            if let Some(piece) = self.pieces.remove(&at) {
                needs.all(&piece.written, Rule::FileRange);
                needs.all(&piece.read, Rule::FileRange);
            }
        }
        let mut piece = Piece { to, ..Piece::default() };
        piece.written.set(own);
        self.pieces.insert(from, piece);
        self.bound();
    }

    /// Waits for all writes, and later writes wait for it: it looks at every byte there is or will be. (Writers of a log
    /// take turns by handing on what they wrote once it is durable; without this they would flush at once.)
    pub fn flush(&mut self, own: Point, needs: &mut Needs) {
        needs.all(&self.written, Rule::FileRange);
        self.flushed.add(own);
    }

    /// The piece of just these bytes: most programs come back to the same blocks.
    fn exactly(&mut self, from: u64, to: u64) -> Option<&mut Piece> {
        self.pieces.get_mut(&from).filter(|piece| piece.to == to)
    }

    fn split(&mut self, at: u64) {
        let Some((_, piece)) = self.pieces.range_mut(..at).next_back() else {
            return;
        };
        if piece.to > at {
            let behind = piece.clone();
            piece.to = at;
            self.pieces.insert(at, behind);
        }
    }

    /// Lets every piece of a range be seen; what had none gets one.
    fn cover(&mut self, from: u64, to: u64, mut see: impl FnMut(&mut Piece)) {
        if from >= to {
            return;
        }
        if let Some(piece) = self.exactly(from, to) {
            return see(piece);
        }
        self.split(from);
        self.split(to);
        let mut at = from;
        let mut gaps = Vec::new();
        for (&begin, piece) in self.pieces.range_mut(from..to) {
            if at < begin {
                gaps.push((at, begin));
            }
            at = piece.to;
            see(piece);
        }
        if at < to {
            gaps.push((at, to));
        }
        for (begin, to) in gaps {
            let mut piece = Piece { to, ..Piece::default() };
            see(&mut piece);
            self.pieces.insert(begin, piece);
        }
        self.bound();
    }

    /// Every second piece becomes part of the one before.
    fn bound(&mut self) {
        if self.pieces.len() <= LARGEST {
            return;
        }
        let mut pieces = std::mem::take(&mut self.pieces).into_iter();
        while let Some((at, mut piece)) = pieces.next() {
            if let Some((_, next)) = pieces.next() {
                piece.to = next.to;
                piece.written.extend(&next.written);
                piece.read.extend(&next.read);
            }
            self.pieces.insert(at, piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs_of(threads: u32, run: impl FnOnce(&mut Needs)) -> Vec<(u32, u64)> {
        let mut needs = Needs::default();
        needs.begin(threads, None);
        run(&mut needs);
        needs.finish(&mut Default::default(), false).edges.iter().map(|e| (e.wait.thread, e.wait.count)).collect()
    }

    /// Against one history for each byte.
    #[test]
    fn agrees_with_a_byte_array() {
        let mut seed = 11u64;
        let mut random = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..300 {
            let mut ranges = Ranges::default();
            let mut bytes = vec![(Points::default(), Points::default()); 64];
            let mut counts = [0u64; 3];
            for _ in 0..40 {
                let thread = random(3) as u32;
                let (from, length) = (random(60), random(12));
                let to = (from + length).min(64);
                counts[thread as usize] += 1;
                let own = Point { thread, count: counts[thread as usize], end_ns: 0 };
                let write = random(2) == 0;
                let found = needs_of(thread, |needs| match write {
                    true => ranges.write(own, from, to, needs),
                    false => ranges.read(own, from, to, needs),
                });
                let expected = needs_of(thread, |needs| {
                    for (written, read) in bytes.iter_mut().take(to as usize).skip(from as usize) {
                        needs.all(written, Rule::FileRange);
                        if write {
                            needs.all(read, Rule::FileRange);
                            written.set(own);
                            read.clear();
                        } else {
                            read.add(own);
                        }
                    }
                });
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn a_flush_lies_between_writes_but_not_between_reads() {
        let mut ranges = Ranges::default();
        let point = |thread, count| Point { thread, count, end_ns: 0 };
        assert_eq!(needs_of(0, |needs| ranges.write(point(0, 1), 0, 10, needs)), []);
        assert_eq!(needs_of(1, |needs| ranges.flush(point(1, 1), needs)), [(0, 1)]);
        assert_eq!(needs_of(2, |needs| ranges.flush(point(2, 1), needs)), [(0, 1)]);
        assert_eq!(needs_of(3, |needs| ranges.read(point(3, 1), 20, 30, needs)), []);
        assert_eq!(needs_of(4, |needs| ranges.write(point(4, 1), 10, 20, needs)), [(1, 1), (2, 1)]);
    }

    #[test]
    fn many_pieces_become_few_and_order_no_less() {
        let mut ranges = Ranges::default();
        for i in 0..100_000u64 {
            let own = Point { thread: (i % 2) as u32, count: i + 1, end_ns: 0 };
            needs_of(9, |needs| ranges.write(own, i * 10, i * 10 + 5, needs));
        }
        assert!(ranges.pieces.len() <= LARGEST);
        let found = needs_of(9, |needs| ranges.read(Point { thread: 9, count: 1, end_ns: 0 }, 20, 21, needs));
        assert!(found.iter().any(|(thread, count)| *thread == 0 && *count >= 3), "{found:?}");
    }
}
