//! Where the memory of a call's arguments lies: in the plan's sections where it can, else in scratch memory.

use super::super::Sections;
use super::super::failure::{Failure, Stop};
use super::super::memory::{self, DIRECT_BYTES, LONGEST, PAGE, Scratch};
use super::{BAD_POINTER, Range};
use reprise_plan::command::NOWHERE;

/// Longest array of `iovec`.
const MOST_PIECES: u64 = 1024;

/// What lies where in scratch memory until its address is known.
pub(super) enum Place {
    Word(u64),
    Scratch(Range),
}

pub(super) struct Layout<'a> {
    pub sections: &'a Sections,
    /// Where in its page memory for content begins.
    within: usize,
    used: usize,
    /// Copies to make: from the sections (`None`: zeros), to.
    copies: Vec<(Option<&'a [u8]>, Range)>,
    /// `iovec` arrays to make: where, lengths, where the first piece begins (an address, or a place in the scratch).
    vectors: Vec<(Range, &'a [u8], Place)>,
}

impl<'a> Layout<'a> {
    pub(super) fn new(sections: &'a Sections, within: u16) -> Layout<'a> {
        Layout { sections, within: usize::from(within), used: 0, copies: Vec::new(), vectors: Vec::new() }
    }

    pub(super) fn take(&mut self, length: u64) -> Result<Range, Stop> {
        let alignment = if length >= 512 { PAGE } else { 64 };
        self.take_at(self.used.next_multiple_of(alignment), length)
    }

    /// Memory for content: there in its page where the program had it.
    pub(super) fn take_content(&mut self, length: u64) -> Result<Range, Stop> {
        self.take_at(self.used.next_multiple_of(PAGE) + self.within, length)
    }

    fn take_at(&mut self, at: usize, length: u64) -> Result<Range, Stop> {
        let length = usize::try_from(length).unwrap_or(LONGEST).min(LONGEST);
        self.used = at + length;
        if self.used > 8 * LONGEST {
            return Err(Stop::Damaged("a call fills more memory than any call can"));
        }
        Ok(Range { at, length })
    }

    pub(super) fn slice(section: &'a [u8], offset: u64, length: u64) -> Result<&'a [u8], Stop> {
        memory::part(section, offset, length).ok_or(Stop::Damaged("an argument lies outside its section"))
    }

    /// Memory of at least `need` bytes that begins with `source`: the section itself if it is long enough.
    pub(super) fn input(&mut self, source: &'a [u8], need: u64) -> Result<Place, Stop> {
        if source.len() as u64 >= need {
            return Ok(Place::Word(source.as_ptr() as u64));
        }
        self.copy(source, need)
    }

    /// Memory of at least `need` bytes that begins with content. If direct I/O may move so much it lies there in its page where the program
    /// had it (of a vector: at the page's begin), whatever place another call has it at: the kernel takes it, or refuses it, as it did.
    pub(super) fn content(&mut self, source: &'a [u8], need: u64) -> Result<Place, Stop> {
        let may_be_direct = !source.is_empty() && source.len().max(need as usize).is_multiple_of(DIRECT_BYTES);
        let lies_well = !may_be_direct || source.as_ptr() as usize % PAGE == self.within;
        if source.len() as u64 >= need && lies_well {
            return Ok(Place::Word(source.as_ptr() as u64));
        }
        let range = self.take_content(need.max(source.len() as u64))?;
        Ok(self.copy_to(source, range))
    }

    pub(super) fn copy(&mut self, source: &'a [u8], need: u64) -> Result<Place, Stop> {
        let range = self.take(need.max(source.len() as u64))?;
        Ok(self.copy_to(source, range))
    }

    /// Zeros follow what is known.
    fn copy_to(&mut self, source: &'a [u8], range: Range) -> Place {
        let source = &source[..source.len().min(range.length)];
        self.copies.push((None, Range { at: range.at + source.len(), length: range.length - source.len() }));
        self.copies.push((Some(source), Range { at: range.at, length: source.len() }));
        Place::Scratch(range)
    }

    pub(super) fn vector(
        &mut self,
        offset: u64,
        count: u64,
        begin: Option<u64>,
    ) -> Result<(Place, Option<Range>), Stop> {
        let bytes = &self.sections.bytes;
        let head = Self::slice(bytes, offset, 8)?;
        let pieces = word(head, 0);
        // Of an array that is too long the kernel reads nothing.
        let known = pieces.min(MOST_PIECES);
        if count > known && count <= MOST_PIECES {
            return Err(Stop::Damaged("a vector has fewer pieces than its count says"));
        }
        let lengths = Self::slice(bytes, offset.saturating_add(8), known * 8)?;
        let total = (0..known as usize).try_fold(0u64, |sum, i| sum.checked_add(word(lengths, i)));
        let array = self.take(known * 16)?;
        let (place, filled) = match begin {
            // No piece fits into no memory.
            Some(NOWHERE) => (Place::Scratch(Range::default()), None),
            Some(begin) => {
                let content = &self.sections.buffers;
                let total = total.ok_or(Stop::Damaged("a vector is longer than memory"))?;
                let place = match Self::slice(content, begin, total) {
                    Ok(source) => self.content(source, total)?,
                    // Only a part was moved, and so is known.
                    Err(_) => {
                        let rest = (content.len() as u64).saturating_sub(begin).min(total);
                        let source = Self::slice(content, begin.min(content.len() as u64), rest)?;
                        self.content(source, total)?
                    }
                };
                (place, None)
            }
            None => {
                let range = self.take(total.unwrap_or(u64::MAX))?;
                (Place::Scratch(range), Some(range))
            }
        };
        self.vectors.push((array, lengths, place));
        Ok((Place::Scratch(array), filled))
    }
}

fn word(bytes: &[u8], i: usize) -> u64 {
    bytes.get(i * 8..i * 8 + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Fills the scratch memory, and says what the arguments are.
pub(super) fn finish(layout: Layout<'_>, places: [Place; 6], scratch: &mut Scratch) -> Result<[u64; 6], Stop> {
    if !scratch.reserve(layout.used) {
        let no_memory = -i64::from(libc::ENOMEM);
        return Err(Failure::system("get memory for a call", no_memory).into());
    }
    for (source, to) in layout.copies {
        let to = scratch.bytes_mut(to.at, to.length);
        match source {
            Some(source) if source.len() == to.len() => to.copy_from_slice(source),
            _ => to.fill(0),
        }
    }
    for (array, lengths, begin) in layout.vectors {
        let (mut at, mut room) = match begin {
            Place::Word(address) => (address, u64::MAX),
            Place::Scratch(range) => (scratch.address(range.at), range.length as u64),
        };
        let pieces = array.length / 16;
        let target = scratch.bytes_mut(array.at, array.length);
        for (i, piece) in target.chunks_exact_mut(16).enumerate().take(pieces) {
            // Beyond what one call can move the kernel cuts off; the pieces there lie nowhere.
            let length = word(lengths, i);
            let (begin, given) = if length <= room { (at, length) } else { (BAD_POINTER, length) };
            piece[..8].copy_from_slice(&begin.to_le_bytes());
            piece[8..].copy_from_slice(&given.to_le_bytes());
            (at, room) = if length <= room { (at + length, room - length) } else { (at, 0) };
        }
    }
    Ok(places.map(|place| match place {
        Place::Word(word) => word,
        Place::Scratch(range) => scratch.address(range.at),
    }))
}
