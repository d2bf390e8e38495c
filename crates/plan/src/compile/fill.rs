//! Content that the trace lacks: of the initial tree, and of writes.
//!
//! A file of which a program read a few blocks would be restored with nothing but these blocks: holes cost no I/O and
//! blocks lie closer together than they did, so that the replay's timing would be another one. Filling gives every file
//! the space it had. Non-goals: knowing holes of the original from what was merely not observed.

use super::CompileError;
use super::store::Store;
use crate::tree::Extent;

/// What stands for content that the trace lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fill {
    /// In the initial tree nothing: holes. In writes zeros.
    #[default]
    Hole,
    /// Zeros that are written, and so take space.
    Zero,
    /// Bytes that do not compress.
    Random,
    /// A line of text again and again.
    Pattern,
}

impl Fill {
    /// What is written where the trace has no content, in words.
    pub fn words(self) -> &'static str {
        match self {
            Fill::Hole | Fill::Zero => "zeros",
            Fill::Random => "random bytes",
            Fill::Pattern => "a pattern",
        }
    }

    /// So many bytes, at least, as they stand for content; the same in every plan, so that equal traces give equal trees.
    pub(super) fn made(self, length: u64) -> Vec<u8> {
        match self {
            Fill::Hole | Fill::Zero => vec![0; length as usize],
            Fill::Random => noise(length),
            Fill::Pattern => b"reprise pattern\n".repeat(length.div_ceil(16) as usize),
        }
    }
}

/// All gaps refer to one piece of content of this size.
const PIECE: u64 = 1 << 20;
/// Bytes before the piece of noise.
const SHIFT: u64 = 8;
/// Larger files stay sparse: a damaged trace may speak of any size.
const LARGEST: u64 = 1 << 40;

/// Fills gaps.
pub(super) struct Filler {
    fill: Fill,
    /// Where the piece lies in the plan's buffers, once it is needed.
    piece: Option<u64>,
}

impl Filler {
    pub fn new(fill: Fill) -> Filler {
        Filler { fill, piece: None }
    }

    /// Adds extents to those of a file, which are ascending and disjoint, until they cover it.
    pub fn complete(&mut self, extents: &mut Vec<Extent>, size: u64, store: &mut Store) -> Result<(), CompileError> {
        if self.fill == Fill::Hole || size > LARGEST {
            return Ok(());
        }
        let gaps = gaps(extents, size);
        if gaps.is_empty() {
            return Ok(());
        }
        let buffer = self.piece(store)?;
        for (offset, end) in gaps {
            let starts = (offset..end).step_by(PIECE as usize);
            extents.extend(starts.map(|at| Extent { offset: at, length: PIECE.min(end - at), buffer }));
        }
        extents.sort_by_key(|extent| extent.offset);
        Ok(())
    }

    fn piece(&mut self, store: &mut Store) -> Result<u64, CompileError> {
        if let Some(at) = self.piece {
            return Ok(at);
        }
        let at = match self.fill {
            // A restore knows contents by where they lie in the plan: off a zero piece's alignment no piece of zeros lies.
            Fill::Random | Fill::Pattern => store.writer.content(&self.fill.made(PIECE + SHIFT))? + SHIFT,
            Fill::Hole | Fill::Zero => store.zeros(PIECE)?,
        };
        self.piece = Some(at);
        Ok(at)
    }
}

/// What the extents leave out: begins and ends.
fn gaps(extents: &[Extent], size: u64) -> Vec<(u64, u64)> {
    let mut at = 0;
    let mut out = Vec::new();
    for (offset, end) in extents.iter().map(|e| (e.offset, e.offset + e.length)).chain([(size, size)]) {
        if offset > at {
            out.push((at, offset));
        }
        at = end;
    }
    out
}

/// SplitMix64.
fn noise(length: u64) -> Vec<u8> {
    let mut state = 0u64;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    });
    words.take(length.div_ceil(8) as usize).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_extents_cover_the_file() {
        let extent = |offset, length| Extent { offset, length, buffer: 0 };
        assert_eq!(gaps(&[], 0), []);
        assert_eq!(gaps(&[], 10), [(0, 10)]);
        assert_eq!(gaps(&[extent(0, 10)], 10), []);
        assert_eq!(gaps(&[extent(2, 3), extent(5, 1), extent(8, 1)], 10), [(0, 2), (6, 8), (9, 10)]);
    }

    #[test]
    fn noise_does_not_repeat() {
        let noise = noise(PIECE + SHIFT);
        assert_eq!(noise.len() as u64, PIECE + SHIFT);
        let words: std::collections::HashSet<&[u8]> = noise.chunks(8).collect();
        assert_eq!(words.len() as u64, (PIECE + SHIFT) / 8);
    }
}
