//! Content that the trace lacks: of the initial tree, and of writes.
//!
//! A file of which a program read a few blocks would be restored with nothing but these blocks: holes cost no I/O and
//! blocks lie closer together than they did, so that the replay's timing would be another one. Filling gives every file
//! the space it had. Non-goals: knowing holes of the original from what was merely not observed.

use std::fmt;
use std::str::FromStr;

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
    /// Bytes that compress, and pieces that repeat, in these parts: `mixed:compress=50,dedup=30`.
    Mixed(Mix),
}

/// How far made content can be made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mix {
    /// Zeros in each [`PERIOD`], in per cent.
    pub compressible_percent: u8,
    /// Writes, and pieces of files of 1 MiB, that equal one another, in per cent.
    pub duplicate_percent: u8,
}

impl Mix {
    /// Whether the `n`-th of many is a duplicate: evenly spread, and the same each time.
    pub(super) fn is_duplicate(self, n: u64) -> bool {
        let share = u64::from(self.duplicate_percent);
        (n + 1) * share / 100 != n * share / 100
    }
}

impl FromStr for Fill {
    type Err = String;

    fn from_str(text: &str) -> Result<Fill, String> {
        match text {
            "hole" => Ok(Fill::Hole),
            "zero" => Ok(Fill::Zero),
            "random" => Ok(Fill::Random),
            "pattern" => Ok(Fill::Pattern),
            _ => match text.strip_prefix("mixed:").and_then(mix) {
                Some(mix) => Ok(Fill::Mixed(mix)),
                None => Err(format!(
                    "'{text}' is none of hole, zero, random, pattern, mixed:compress=50,dedup=30 (per cent)"
                )),
            },
        }
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fill::Hole => f.write_str("hole"),
            Fill::Zero => f.write_str("zero"),
            Fill::Random => f.write_str("random"),
            Fill::Pattern => f.write_str("pattern"),
            Fill::Mixed(mix) => {
                write!(f, "mixed:compress={},dedup={}", mix.compressible_percent, mix.duplicate_percent)
            }
        }
    }
}

fn mix(text: &str) -> Option<Mix> {
    let mut mix = Mix::default();
    for part in text.split(',') {
        let (name, percent) = part.split_once('=')?;
        let percent = percent.parse().ok().filter(|percent| *percent <= 100)?;
        match name {
            "compress" => mix.compressible_percent = percent,
            "dedup" => mix.duplicate_percent = percent,
            _ => return None,
        }
    }
    Some(mix)
}

impl Fill {
    /// What is written where the trace has no content, in words.
    pub fn words(self) -> &'static str {
        match self {
            Fill::Hole | Fill::Zero => "zeros",
            Fill::Random => "random bytes",
            Fill::Pattern => "a pattern",
            Fill::Mixed(_) => "bytes of which parts compress or repeat",
        }
    }

    /// So many bytes, at least, as they stand for content; the same in every plan, so that equal traces give equal trees.
    pub(super) fn made(self, length: u64) -> Vec<u8> {
        match self {
            Fill::Hole | Fill::Zero => vec![0; length as usize],
            Fill::Random => noise(length),
            Fill::Pattern => b"reprise pattern\n".repeat(length.div_ceil(16) as usize),
            Fill::Mixed(mix) => compressible(noise(length), mix.compressible_percent),
        }
    }

    /// Which part of made content of this length, of which `length` bytes are wanted, the `n`-th that asks for some gets: another one
    /// each time, at a multiple of 16 bytes, so that no two blocks are equal that are not meant to be.
    pub(super) fn place(self, n: u64, whole: u64, length: u64) -> u64 {
        match self {
            Fill::Mixed(mix) if mix.is_duplicate(n) => 0,
            Fill::Hole | Fill::Zero | Fill::Pattern | Fill::Random | Fill::Mixed(_) => {
                n.wrapping_mul(STEP) % (whole - length + 1) / 16 * 16
            }
        }
    }
}

/// Distance between the parts that two get; odd multiples, so that the parts go on differing.
const STEP: u64 = 69_621 * 16 + 16;
/// Gaps are filled with pieces of this size.
const PIECE: u64 = 1 << 20;
/// In so many bytes noise and zeros alternate: short enough for every compressor's window, long enough for its shortest match.
const PERIOD: usize = 512;
/// Made content that pieces are parts of.
const MADE: u64 = 4 << 20;
/// Bytes before made content.
const SHIFT: u64 = 8;
/// Larger files stay sparse: a damaged trace may speak of any size.
const LARGEST: u64 = 1 << 40;

/// Fills gaps.
pub(super) struct Filler {
    fill: Fill,
    /// Where made content lies in the plan's buffers, once it is needed.
    made: Option<u64>,
    /// Pieces so far.
    pieces: u64,
}

impl Filler {
    pub fn new(fill: Fill) -> Filler {
        Filler { fill, made: None, pieces: 0 }
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
        for (offset, end) in gaps {
            for at in (offset..end).step_by(PIECE as usize) {
                extents.push(Extent { offset: at, length: PIECE.min(end - at), buffer: self.piece(store)? });
            }
        }
        extents.sort_by_key(|extent| extent.offset);
        Ok(())
    }

    fn piece(&mut self, store: &mut Store) -> Result<u64, CompileError> {
        // A restore knows contents by where they lie in the plan: off a zero piece's alignment no piece of zeros lies.
        let (fill, whole) = (self.fill, MADE + SHIFT);
        let at = match (self.made, fill) {
            (Some(at), _) => at,
            (None, Fill::Random | Fill::Mixed(_)) => store.writer.content(&fill.made(whole), 0)? + SHIFT,
            (None, Fill::Pattern) => store.writer.content(&fill.made(PIECE + SHIFT), 0)? + SHIFT,
            (None, Fill::Hole | Fill::Zero) => store.zeros(PIECE)?,
        };
        self.made = Some(at);
        self.pieces += 1;
        Ok(match fill {
            Fill::Hole | Fill::Zero | Fill::Pattern => at,
            Fill::Random | Fill::Mixed(_) => at + fill.place(self.pieces - 1, MADE, PIECE),
        })
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

/// Zeros at the end of each period.
fn compressible(mut bytes: Vec<u8>, percent: u8) -> Vec<u8> {
    for period in bytes.chunks_mut(PERIOD) {
        let kept = period.len() * usize::from(100 - percent.min(100)) / 100;
        period[kept..].fill(0);
    }
    bytes
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
    fn a_mix_is_what_it_says() {
        let fill: Fill = "mixed:compress=40,dedup=25".parse().unwrap();
        let Fill::Mixed(mix) = fill else { panic!("{fill:?}") };
        let bytes = fill.made(MADE);
        let zeros = bytes.iter().filter(|b| **b == 0).count() as f64 / bytes.len() as f64;
        assert!((0.39..0.42).contains(&zeros), "{zeros}");
        assert_eq!((0..1000).filter(|n| mix.is_duplicate(*n)).count(), 250);
        let places: Vec<u64> = (0..1000).map(|n| fill.place(n, MADE, PIECE)).collect();
        let others: std::collections::HashSet<&u64> = places.iter().filter(|at| **at != 0).collect();
        assert_eq!((places.iter().filter(|at| **at == 0).count(), others.len()), (251, 749));
        assert!(places.iter().all(|at| at % 16 == 0 && at + PIECE <= MADE));
        for wrong in ["mixed", "mixed:", "mixed:compress=101", "mixed:dedup", "noise", ""] {
            assert!(wrong.parse::<Fill>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn fills_are_said_as_they_are_written() {
        for text in ["hole", "zero", "random", "pattern", "mixed:compress=50,dedup=30"] {
            assert_eq!(text.parse::<Fill>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn noise_does_not_repeat() {
        let noise = noise(PIECE + SHIFT);
        assert_eq!(noise.len() as u64, PIECE + SHIFT);
        let words: std::collections::HashSet<&[u8]> = noise.chunks(8).collect();
        assert_eq!(words.len() as u64, (PIECE + SHIFT) / 8);
    }
}
