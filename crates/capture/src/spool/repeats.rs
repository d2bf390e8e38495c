//! Content that stands in the spool already: a page of a database is read again and again, and is written once.
//!
//! Goals: a segment of which a good part was said before gets shorter, before it goes to the disk; what is said once costs one pass
//! of hashing at most, and hardly that where nothing is ever repeated; memory is bounded. Two contents are the same if
//! their 128-bit digests are, with a seed that nobody knows before. Non-goals: finding all that is repeated (a table of
//! fixed size forgets), contents that only overlap.

use std::hash::{BuildHasher, RandomState};

use twox_hash::XxHash3_128;

use super::known::{Known, Learning, Passage};
use super::layout::{self, OBJECT_AGAIN, RANGE_LACKING, RANGE_SAID, RANGE_STEADY, RANGE_UNWANTED, kind};
use super::record::{RECORD_HEAD, SEGMENT_HEAD};

/// Shorter content is not worth the look.
const LEAST_BYTES: usize = 512;
/// Of a segment so much must be repeated, one of so many parts, for it to be written anew.
const PART: usize = 4;
/// Digests that are remembered: a table of 12 MiB, in which each may stand in one of a few places.
const REMEMBERED: usize = 1 << 19;
const WAYS: usize = 4;
/// Of content so much must be repeated, one of so many parts, for the next segment to be looked at, too.
const WORTH: usize = 32;
/// Where nothing is repeated only one segment of so many is looked at.
const SELDOM: u32 = 16;

/// What stands in place of content.
const PLACE_BYTES: usize = 8;

/// Where something stands in a spool: the number of the file and the offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Number of the file, as in its name.
    pub file: u32,
    /// Offset; files are smaller than 4 GiB.
    pub offset: u32,
}

impl Standing {
    /// From one number of a record.
    pub fn from_word(word: u64) -> Standing {
        Standing { file: (word >> 32) as u32, offset: word as u32 }
    }

    /// As one number.
    pub fn to_word(self) -> u64 {
        u64::from(self.file) << 32 | u64::from(self.offset)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Remembered {
    digest: [u64; 2],
    /// [`Standing::to_word`]; 0: nothing is remembered here (a segment's head stands there).
    word: u64,
}

/// Content in the segment that is looked at.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Where the flags of its range stand, where its content begins, and how long this is.
    flags: usize,
    content: usize,
    kept: usize,
    /// Where the content stands already.
    said: Option<u64>,
    /// Its place in the table.
    slot: usize,
}

/// What was written so far, by its digests.
pub struct Repeats {
    table: Vec<Remembered>,
    /// So many were remembered.
    remembered: usize,
    seed: u64,
    pieces: Vec<Piece>,
    /// Segments that go by without a look, but at a few passages of files.
    pass: u32,
    /// Whether there were such in the last segment of which all was looked at.
    has_passages: bool,
    learning: Learning,
}

impl Default for Repeats {
    fn default() -> Repeats {
        let seed = RandomState::new().hash_one(0u8);
        Repeats {
            table: vec![Remembered::default(); REMEMBERED],
            remembered: 0,
            seed,
            pieces: Vec::new(),
            pass: 0,
            has_passages: false,
            learning: Learning::default(),
        }
    }
}

impl Repeats {
    /// Looks at a full segment that is to stand at `standing`. If a good part of it was said before, gives it in `into`
    /// without that, and how long that is. The times of records are `ahead_ns` behind those since the epoch.
    pub fn shorten(&mut self, segment: &[u8], standing: Standing, ahead_ns: u64, into: &mut [u8]) -> Option<usize> {
        let all = self.pass == 0;
        self.pass = self.pass.saturating_sub(1);
        if !all && !self.has_passages {
            return None;
        }
        let used = u32_at(segment, std::mem::offset_of!(layout::SegmentHead, used))? as usize;
        let segment = segment.get(..used)?;
        self.look(segment, standing, ahead_ns, all);
        let content: usize = self.pieces.iter().map(|piece| piece.kept).sum();
        let repeated: usize = self.pieces.iter().filter(|piece| piece.said.is_some()).map(|piece| piece.kept).sum();
        match repeated != 0 && repeated >= content / WORTH {
            true => self.pass = 0,
            false if all => self.pass = SELDOM - 1,
            false => {}
        }
        if repeated < used / PART {
            return None;
        }
        self.rewrite(segment, standing, into)
    }

    /// Which passages of files hold what stands in the spool: what was found out since this was asked last.
    pub fn learned(&mut self) -> impl Iterator<Item = Known> {
        self.learning.take()
    }

    /// Finds the pieces of content, and what of them stands already; remembers the others. If not all are of interest: always the
    /// same passages of files, since what is read in turn is else never met twice.
    fn look(&mut self, segment: &[u8], standing: Standing, ahead_ns: u64, all: bool) {
        self.pieces.clear();
        self.has_passages &= !all;
        let origin = standing.to_word();
        let within = origin..origin + segment.len() as u64;
        let mut at = SEGMENT_HEAD;
        let mut told = Vec::new();
        while let Some(record) = Record::at(segment, at) {
            let object = record.object(&mut told);
            let mut range = record.first;
            for _ in 0..record.count {
                let Some(Range { flags, content, kept, is_plain }) = record.range(segment, range) else { break };
                let passage = record.passage(segment, object, range);
                self.has_passages |= passage.is_some();
                let wanted = all || passage.is_some_and(|passage| self.learning.is_one_of(&passage, SELDOM));
                if wanted && is_plain && kept >= LEAST_BYTES {
                    let digest = self.digest(&segment[content..content + kept]);
                    let (said, slot) = self.remember(digest, origin + content as u64);
                    self.pieces.push(Piece { flags, content, kept, said, slot });
                    if let Some(passage) = passage {
                        // What stands in this segment may yet stand elsewhere in it.
                        let place = said.filter(|place| !within.contains(place));
                        self.learning.saw(passage, record.time_ns + ahead_ns, digest[0], place);
                    }
                }
                range = content + kept.next_multiple_of(8);
            }
            at = record.end;
        }
    }

    fn digest(&self, content: &[u8]) -> [u64; 2] {
        let hash = XxHash3_128::oneshot_with_seed(self.seed, content);
        // Equal digests of contents of unequal length are no reason to trust them less, but none to mix them up.
        [hash as u64, (hash >> 64) as u64 ^ content.len() as u64]
    }

    /// Where content stands already, and its place in the table; else it is remembered as standing at `word`.
    fn remember(&mut self, digest: [u64; 2], word: u64) -> (Option<u64>, usize) {
        let set = digest[0] as usize % (REMEMBERED / WAYS) * WAYS;
        let mut slots = set..set + WAYS;
        if let Some(slot) = slots.clone().find(|slot| self.table[*slot].digest == digest && self.table[*slot].word != 0)
        {
            return (Some(self.table[slot].word), slot);
        }
        let slot = slots.find(|slot| self.table[*slot].word == 0).unwrap_or_else(|| set + self.remembered % WAYS);
        self.remembered += 1;
        self.table[slot] = Remembered { digest, word };
        (None, slot)
    }

    /// The segment without what was said before. What stands elsewhere now is remembered there.
    fn rewrite(&mut self, segment: &[u8], standing: Standing, into: &mut [u8]) -> Option<usize> {
        let origin = standing.to_word();
        let within = origin..origin + segment.len() as u64;
        // Offsets of pieces before and after.
        let mut moved: Vec<(u64, u64)> = Vec::with_capacity(self.pieces.len());
        let (mut from, mut to) = (0, 0);
        let mut copy = |from: usize, until: usize, to: &mut usize| -> Option<()> {
            into.get_mut(*to..*to + until - from)?.copy_from_slice(segment.get(from..until)?);
            *to += until - from;
            Some(())
        };
        let mut at = SEGMENT_HEAD;
        let mut pieces = self.pieces.iter().peekable();
        let mut heads: Vec<(usize, u32)> = Vec::new();
        let mut links: Vec<(usize, usize, u64)> = Vec::new();
        while let Some(Record { end, .. }) = Record::at(segment, at) {
            let head = to + (at - from);
            let before = end - at;
            let mut saved = 0;
            while let Some(piece) = pieces.next_if(|piece| piece.flags < end) {
                let content = piece.content;
                copy(from, content, &mut to)?;
                from = content;
                let Some(said) = piece.said else {
                    moved.push((origin + content as u64, origin + to as u64));
                    if self.table[piece.slot].word == origin + content as u64 {
                        self.table[piece.slot].word = origin + to as u64;
                    }
                    continue;
                };
                links.push((to - (content - piece.flags), to, said));
                copy(content, content + PLACE_BYTES, &mut to)?;
                from = content + piece.kept.next_multiple_of(8);
                saved += piece.kept.next_multiple_of(8) - PLACE_BYTES;
            }
            if saved > 0 {
                heads.push((head, (before - saved) as u32));
            }
            at = end;
        }
        copy(from, segment.len(), &mut to)?;
        for (at, bytes) in heads {
            put(into, at, &bytes.to_le_bytes());
        }
        for (flags, at, said) in links {
            let now = match within.contains(&said) {
                true => moved.binary_search_by_key(&said, |(before, _)| *before).map(|found| moved[found].1).ok()?,
                false => said,
            };
            put(into, at, &now.to_le_bytes());
            put(into, flags, &RANGE_SAID.to_le_bytes());
        }
        put(into, std::mem::offset_of!(layout::SegmentHead, used), &(to as u32).to_le_bytes());
        Some(to)
    }
}

fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    into[at..at + bytes.len()].copy_from_slice(bytes);
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u8_at(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at).copied().map(usize::from)
}

/// A record that may have content.
struct Record {
    end: usize,
    /// Where its ranges begin, and how many they are.
    first: usize,
    count: usize,
    is_brief: bool,
    seen: Seen,
    time_ns: u64,
}

/// The open file of a record in brief.
enum Seen {
    No,
    /// It stands here.
    Here(usize),
    /// It is this one of those that the segment has told.
    Again(usize),
}

/// A range of a record.
struct Range {
    /// Where its flags stand, and where its content begins.
    flags: usize,
    content: usize,
    /// How much was kept.
    kept: usize,
    /// It is there, whole.
    is_plain: bool,
}

impl Seen {
    /// That of the record with this body, in which it stands at `at`, and how many bytes it takes there.
    fn at(segment: &[u8], body: usize, at: usize) -> Option<(Seen, usize)> {
        let named = u8_at(segment, body + std::mem::offset_of!(layout::BriefBody, object))?;
        if named == 0 {
            return Some((Seen::No, 0));
        }
        if named & usize::from(OBJECT_AGAIN) == 0 {
            return Some((Seen::Here(at), size_of::<layout::BriefObject>()));
        }
        let which = u32_at(segment, at + std::mem::offset_of!(layout::BriefAgain, object))? as usize;
        let moved = u32_at(segment, at + std::mem::offset_of!(layout::BriefAgain, moved))? != 0;
        let bytes = size_of::<layout::BriefAgain>() + usize::from(moved) * size_of::<layout::BriefMoved>();
        Some((Seen::Again(which), bytes))
    }
}

impl Record {
    /// The record at a place; `None` at the end.
    fn at(segment: &[u8], at: usize) -> Option<Record> {
        let bytes = u32_at(segment, at)? as usize;
        let end = at.checked_add(bytes).filter(|end| *end <= segment.len() && bytes >= RECORD_HEAD)?;
        let body = at + RECORD_HEAD;
        let of = u16_at(segment, at + std::mem::offset_of!(layout::RecordHead, kind))?;
        let time_ns = u64_at(segment, at + std::mem::offset_of!(layout::RecordHead, time_ns))?;
        let mut seen = Seen::No;
        let (first, count) = match of {
            kind::CALL => {
                let field = |offset| u16_at(segment, body + offset).map(usize::from);
                let objects = field(std::mem::offset_of!(layout::CallBody, objects))?;
                let first = body + size_of::<layout::CallBody>() + objects * size_of::<layout::Object>();
                (first, field(std::mem::offset_of!(layout::CallBody, ranges))?)
            }
            kind::BRIEF => {
                let behind = body + size_of::<layout::BriefBody>();
                let object;
                (seen, object) = Seen::at(segment, body, behind)?;
                let arguments = u8_at(segment, body + std::mem::offset_of!(layout::BriefBody, arguments))?;
                let first = behind + object + arguments * size_of::<u64>();
                (first, usize::from(first < end))
            }
            kind::MORE => (body + size_of::<layout::MoreBody>(), 1),
            _ => (end, 0),
        };
        Some(Record { end, first, count, is_brief: of == kind::BRIEF, seen, time_ns })
    }

    /// Where its open file stands, of the segment that has told of these; takes in its own.
    fn object(&self, told: &mut Vec<usize>) -> Option<usize> {
        match self.seen {
            Seen::No => None,
            Seen::Here(at) => {
                told.push(at);
                Some(at)
            }
            Seen::Again(which) => told.get(which).copied(),
        }
    }

    /// The passage of a file, whose open file stands at `object`, that its range at a place has, if nobody writes to that file.
    fn passage(&self, segment: &[u8], object: Option<usize>, at: usize) -> Option<Passage> {
        if !self.is_brief || u16_at(segment, at + std::mem::offset_of!(layout::BriefRange, flags))? & RANGE_STEADY == 0
        {
            return None;
        }
        let (object, steady) = (object?, at + size_of::<layout::BriefRange>());
        Some(Passage {
            device: u32_at(segment, object + std::mem::offset_of!(layout::BriefObject, device))?,
            generation: u32_at(segment, object + std::mem::offset_of!(layout::BriefObject, generation))?,
            inode: u64_at(segment, object + std::mem::offset_of!(layout::BriefObject, inode))?,
            changed_ns: u64_at(segment, steady + std::mem::offset_of!(layout::Steady, changed_ns))?,
            offset: u64_at(segment, steady + std::mem::offset_of!(layout::Steady, offset))?,
            length: u32_at(segment, at + std::mem::offset_of!(layout::BriefRange, length))?,
        })
    }

    /// Its range at a place.
    fn range(&self, segment: &[u8], at: usize) -> Option<Range> {
        let (at_kept, at_flags, head, lead) = match self.is_brief {
            true => {
                let lead = u8_at(segment, at + std::mem::offset_of!(layout::BriefRange, lead))?;
                let (length, flags) =
                    (std::mem::offset_of!(layout::BriefRange, length), std::mem::offset_of!(layout::BriefRange, flags));
                (length, flags, size_of::<layout::BriefRange>(), lead)
            }
            false => {
                let lead = u32_at(segment, at + std::mem::offset_of!(layout::RangeHead, lead))? as usize;
                let (kept, flags) =
                    (std::mem::offset_of!(layout::RangeHead, kept), std::mem::offset_of!(layout::RangeHead, flags));
                (kept, flags, size_of::<layout::RangeHead>(), lead)
            }
        };
        let (kept, flags) = (u32_at(segment, at + at_kept)? as usize, at + at_flags);
        let is_plain = u16_at(segment, flags)? & (RANGE_LACKING | RANGE_UNWANTED | RANGE_SAID) == 0;
        // In brief the length stands there, also where nothing is kept.
        let kept = if self.is_brief && !is_plain { 0 } else { kept };
        let content = at + head + lead;
        (content + kept.next_multiple_of(8) <= self.end).then_some(Range { flags, content, kept, is_plain })
    }
}

#[cfg(test)]
#[path = "repeats_tests.rs"]
mod tests;
