//! Shared mappings of files in one address space, by address.
//!
//! Goal: what file and which part of it an address stands for, as mapping calls move it. Non-goals: private mappings,
//! which keep their stores to themselves; mappings that can never be written.

use std::collections::BTreeMap;
use std::ops::Range;

const PAGE: u64 = 4096;

/// A piece of a mapping of a file, which is told by an `F`.
#[derive(Debug, Clone)]
pub struct Piece<F> {
    /// Addresses.
    pub at: Range<u64>,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file.
    pub file: F,
    /// Stores are permitted at present.
    pub writable: bool,
}

impl<F: Clone> Piece<F> {
    /// The part of the file that it shows.
    pub fn extent(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.at.end - self.at.start)
    }

    /// The part at these addresses.
    fn cut(&self, at: Range<u64>) -> Option<Piece<F>> {
        let at = at.start.max(self.at.start)..at.end.min(self.at.end);
        let offset = self.offset.saturating_add(at.start.saturating_sub(self.at.start));
        (at.start < at.end).then(|| Piece { at, offset, ..self.clone() })
    }
}

/// The pieces of one address space.
#[derive(Debug, Clone)]
pub struct Space<F> {
    pieces: BTreeMap<u64, Piece<F>>,
}

impl<F> Default for Space<F> {
    fn default() -> Self {
        Space { pieces: BTreeMap::new() }
    }
}

/// Whole pages from an address on.
pub fn pages(address: u64, length: u64) -> Range<u64> {
    address..address.saturating_add(length.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX))
}

impl<F: Clone> Space<F> {
    /// Whether nothing of a file is mapped.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// All pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece<F>> {
        self.pieces.values()
    }

    /// What lies at these addresses, cut to them.
    pub fn within(&self, at: Range<u64>) -> Vec<Piece<F>> {
        let first = self.pieces.range(..=at.start).next_back().map_or(at.start, |(start, _)| *start);
        self.pieces.range(first..at.end.max(first)).filter_map(|(_, piece)| piece.cut(at.clone())).collect()
    }

    /// Nothing of a file lies there any more.
    pub fn unmap(&mut self, at: Range<u64>) {
        if self.pieces.is_empty() {
            return;
        }
        let outside = [0..at.start, at.end..u64::MAX];
        let touched: Vec<u64> = self.within(at).iter().map(|piece| piece.at.start).collect();
        for start in touched {
            let Some((&key, _)) = self.pieces.range(..=start).next_back() else { continue };
            let Some(piece) = self.pieces.remove(&key) else { continue };
            for rest in outside.iter().filter_map(|rest| piece.cut(rest.clone())) {
                self.pieces.insert(rest.at.start, rest);
            }
        }
    }

    /// A file lies there now.
    pub fn map(&mut self, piece: Piece<F>) {
        self.unmap(piece.at.clone());
        self.pieces.insert(piece.at.start, piece);
    }

    /// Stores there are permitted from now on, or are not.
    pub fn protect(&mut self, at: Range<u64>, writable: bool) {
        for piece in self.within(at) {
            self.map(Piece { writable, ..piece });
        }
    }

    /// What lay at `from` lies at `to` now; the last piece makes up the difference of the lengths.
    pub fn remap(&mut self, from: Range<u64>, to: Range<u64>) {
        let mut moved = self.within(from.clone());
        if let Some(last) = moved.last_mut().filter(|last| last.at.end == from.end) {
            last.at.end = from.start.saturating_add(to.end - to.start).max(last.at.start);
        }
        self.unmap(from.clone());
        self.unmap(to.clone());
        for mut piece in moved {
            let shifted = |address: u64| to.start.saturating_add(address - from.start).min(to.end);
            piece.at = shifted(piece.at.start)..shifted(piece.at.end);
            if piece.at.start < piece.at.end {
                self.map(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(at: Range<u64>, offset: u64) -> Piece<u32> {
        Piece { at, offset, file: 1, writable: true }
    }

    fn shown(space: &Space<u32>) -> Vec<(u64, u64, u64, bool)> {
        space.pieces().map(|p| (p.at.start, p.at.end, p.offset, p.writable)).collect()
    }

    #[test]
    fn pieces_follow_the_calls() {
        let mut space = Space::default();
        space.map(piece(0x10_000..0x20_000, 0x1000));
        space.unmap(0x14_000..0x15_000);
        space.protect(0x18_000..0x19_000, false);
        assert_eq!(
            shown(&space),
            [
                (0x10_000, 0x14_000, 0x1000, true),
                (0x15_000, 0x18_000, 0x6000, true),
                (0x18_000, 0x19_000, 0x9000, false),
                (0x19_000, 0x20_000, 0xa000, true),
            ]
        );
        space.remap(0x19_000..0x20_000, 0x40_000..0x50_000);
        assert_eq!(shown(&space)[3], (0x40_000, 0x50_000, 0xa000, true));
        space.remap(0x10_000..0x14_000, 0x60_000..0x61_000);
        assert_eq!(shown(&space).last(), Some(&(0x60_000, 0x61_000, 0x1000, true)));
        space.map(piece(0..u64::MAX, 0));
        assert_eq!(shown(&space).len(), 1);
        space.unmap(0..u64::MAX);
        assert!(space.is_empty());
    }
}
