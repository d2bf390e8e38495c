//! Shared mappings of files in one address space, by address.
//!
//! Goal: what file and which part of it an address stands for, as mapping calls move it. Non-goals: private mappings,
//! which keep their stores to themselves; mappings that can never be written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::ops::Range;

const PAGE: u64 = 4096;

/// What tells which file a piece is of.
pub trait Shown: Clone {
    /// The file itself.
    type File: Copy + Eq + Hash;

    /// Which it is.
    fn file(&self) -> Self::File;
}

/// Device and inode.
impl Shown for (u64, u64) {
    type File = (u64, u64);

    fn file(&self) -> (u64, u64) {
        *self
    }
}

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

/// The pieces of one address space. There may be thousands, of as many files.
#[derive(Debug, Clone)]
pub struct Space<F: Shown> {
    pieces: BTreeMap<u64, Piece<F>>,
    /// Where the pieces of a file begin.
    places: HashMap<F::File, BTreeSet<u64>>,
    /// Files whose pieces are others than they were.
    touched: HashSet<F::File>,
}

impl<F: Shown> Default for Space<F> {
    fn default() -> Self {
        Space { pieces: BTreeMap::new(), places: HashMap::new(), touched: HashSet::new() }
    }
}

/// Whole pages from an address on.
pub fn pages(address: u64, length: u64) -> Range<u64> {
    address..address.saturating_add(length.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX))
}

impl<F: Shown> Space<F> {
    /// Whether nothing of a file is mapped.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// All pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece<F>> {
        self.pieces.values()
    }

    /// The pieces of a file.
    pub fn of_file(&self, file: F::File) -> impl Iterator<Item = &Piece<F>> {
        self.places.get(&file).into_iter().flatten().filter_map(|start| self.pieces.get(start))
    }

    /// Whether something of a file is mapped.
    pub fn shows(&self, file: F::File) -> bool {
        self.places.contains_key(&file)
    }

    /// All files of which something is mapped.
    pub fn files(&self) -> impl Iterator<Item = F::File> {
        self.places.keys().copied()
    }

    /// Files whose pieces are others than when this was asked last.
    pub fn take_touched(&mut self) -> HashSet<F::File> {
        std::mem::take(&mut self.touched)
    }

    fn insert(&mut self, piece: Piece<F>) {
        let (start, file) = (piece.at.start, piece.file.file());
        self.pieces.insert(start, piece);
        self.places.entry(file).or_default().insert(start);
        self.touched.insert(file);
    }

    fn remove(&mut self, start: u64) -> Option<Piece<F>> {
        let piece = self.pieces.remove(&start)?;
        let file = piece.file.file();
        if let Some(places) = self.places.get_mut(&file) {
            places.remove(&start);
            if places.is_empty() {
                self.places.remove(&file);
            }
        }
        self.touched.insert(file);
        Some(piece)
    }

    /// The piece that an address lies in.
    pub fn around(&self, address: u64) -> Option<&Piece<F>> {
        let (_, piece) = self.pieces.range(..=address).next_back()?;
        piece.at.contains(&address).then_some(piece)
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
            let Some(piece) = self.remove(key) else { continue };
            for rest in outside.iter().filter_map(|rest| piece.cut(rest.clone())) {
                self.insert(rest);
            }
        }
    }

    /// A file lies there now.
    pub fn map(&mut self, piece: Piece<F>) {
        self.unmap(piece.at.clone());
        self.insert(piece);
    }

    /// Stores there are permitted from now on, or are not.
    pub fn protect(&mut self, at: Range<u64>, writable: bool) {
        for piece in self.within(at) {
            self.map(Piece { writable, ..piece });
        }
    }

    /// What lies at an address is mapped a second time, at `to`.
    pub fn map_once_more(&mut self, address: u64, to: Range<u64>) {
        let found = self.within(address..address.saturating_add(1)).pop();
        self.unmap(to.clone());
        if let Some(piece) = found.filter(|_| to.start < to.end) {
            self.map(Piece { at: to, ..piece });
        }
    }

    /// A successful `mremap` of what lay at `from`, with these flags.
    pub fn remapped(&mut self, from: Range<u64>, to: Range<u64>, flags: u64) {
        // What is made of no length is a second mapping of the same.
        if from.is_empty() {
            return self.map_once_more(from.start, to);
        }
        let moved = self.moved(&from, &to);
        if flags & libc::MREMAP_DONTUNMAP as u64 == 0 {
            self.unmap(from);
        }
        self.unmap(to);
        moved.into_iter().for_each(|piece| self.map(piece));
    }

    /// What lies at `from`, as it would lie at `to`; the last piece makes up the difference of the lengths.
    fn moved(&self, from: &Range<u64>, to: &Range<u64>) -> Vec<Piece<F>> {
        let mut moved = self.within(from.clone());
        if let Some(last) = moved.last_mut().filter(|last| last.at.end == from.end) {
            last.at.end = from.start.saturating_add(to.end - to.start).max(last.at.start);
        }
        let shifted = |address: u64| to.start.saturating_add(address - from.start).min(to.end);
        for piece in &mut moved {
            piece.at = shifted(piece.at.start)..shifted(piece.at.end);
        }
        moved.retain(|piece| piece.at.start < piece.at.end);
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: (u64, u64) = (8, 1);

    fn piece(at: Range<u64>, offset: u64) -> Piece<(u64, u64)> {
        Piece { at, offset, file: FILE, writable: true }
    }

    fn shown(space: &Space<(u64, u64)>) -> Vec<(u64, u64, u64, bool)> {
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
        space.remapped(0x19_000..0x20_000, 0x40_000..0x50_000, 0);
        assert_eq!(shown(&space)[3], (0x40_000, 0x50_000, 0xa000, true));
        space.remapped(0x10_000..0x14_000, 0x60_000..0x61_000, 0);
        assert_eq!(shown(&space).last(), Some(&(0x60_000, 0x61_000, 0x1000, true)));
        const KEEPS: u64 = libc::MREMAP_DONTUNMAP as u64;
        space.remapped(0x15_000..0x18_000, 0x70_000..0x73_000, KEEPS);
        space.remapped(0x16_000..0x16_000, 0x80_000..0x84_000, 0);
        assert_eq!(shown(&space)[0], (0x15_000, 0x18_000, 0x6000, true));
        assert_eq!(shown(&space)[4..], [(0x70_000, 0x73_000, 0x6000, true), (0x80_000, 0x84_000, 0x7000, true)]);
        space.map(piece(0..u64::MAX, 0));
        assert_eq!(shown(&space).len(), 1);
        space.unmap(0..u64::MAX);
        assert!(space.is_empty());
    }

    #[test]
    fn pieces_are_found_by_their_file() {
        let other = (8, 2);
        let mut space = Space::default();
        space.map(piece(0x10_000..0x20_000, 0));
        space.map(Piece { file: other, ..piece(0x30_000..0x31_000, 0) });
        assert_eq!(space.take_touched(), HashSet::from([FILE, other]));
        space.unmap(0x14_000..0x15_000);
        assert_eq!(space.of_file(FILE).map(|p| p.at.start).collect::<Vec<_>>(), [0x10_000, 0x15_000]);
        assert_eq!(space.take_touched(), HashSet::from([FILE]));
        space.map(Piece { file: other, ..piece(0x10_000..0x20_000, 0) });
        assert!(!space.shows(FILE) && space.shows(other));
        assert_eq!(space.files().collect::<Vec<_>>(), [other]);
        space.unmap(0..u64::MAX);
        assert!(!space.shows(other));
    }
}
