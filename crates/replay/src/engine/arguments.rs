//! The arguments of a traced call, as the kernel gets them.
//!
//! Goals: whatever a plan says, a pointer leads into the plan's sections or into scratch memory with enough room for
//! what the call reads or fills, and a descriptor is one that the replay obtained. Non-goals: whether the call is wise.
//! The safety of [`super::issue::call`] rests on this module and on `guard`: they alone make a [`Checked`].

use reprise_calls::{Access, ArgKind, Call, FcntlArg, Struct, fcntl_arg, ioctl_arg};
use reprise_plan::command::{Arg, Command};

use super::failure::Stop;
use super::guard;
use super::memory::{LONGEST, Scratch};
use super::{Sections, Slots};

/// An address where nothing is ever mapped (below `mmap_min_addr`): stands for a pointer that was bad in the trace.
const BAD_POINTER: u64 = 1;
/// Longest array of `iovec`.
const MOST_PIECES: u64 = 1024;
/// Structures are never longer.
const LONGEST_STRUCTURE: u64 = 1 << 18;

/// Arguments that may be passed to the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checked {
    words: [u64; 6],
}

impl Checked {
    pub(super) fn words(&self) -> [u64; 6] {
        self.words
    }

    /// For `guard` alone, which shares the duty of this module.
    pub(super) fn words_mut(&mut self) -> &mut [u64; 6] {
        &mut self.words
    }
}

/// A range of scratch memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Range {
    pub at: usize,
    pub length: usize,
}

/// Checked arguments, and where the call puts what it fills.
#[derive(Debug)]
pub(super) struct Prepared {
    pub checked: Checked,
    /// The first argument that is filled.
    pub filled: Option<Range>,
}

/// What lies where in scratch memory until its address is known.
enum Place {
    Word(u64),
    Scratch(Range),
}

struct Layout<'a> {
    sections: &'a Sections,
    used: usize,
    /// Copies to make: from the sections (`None`: zeros), to.
    copies: Vec<(Option<&'a [u8]>, Range)>,
    /// `iovec` arrays to make: where, lengths, where the first piece begins (an address, or a place in the scratch).
    vectors: Vec<(Range, &'a [u8], Place)>,
}

impl<'a> Layout<'a> {
    fn take(&mut self, length: u64) -> Result<Range, Stop> {
        let length = usize::try_from(length).unwrap_or(LONGEST).min(LONGEST);
        let alignment = if length >= 512 { 4096 } else { 64 };
        let at = self.used.next_multiple_of(alignment);
        self.used = at + length;
        if self.used > 8 * LONGEST {
            return Err(Stop::Damaged("a call fills more memory than any call can"));
        }
        Ok(Range { at, length })
    }

    fn slice(section: &'a [u8], offset: u64, length: u64) -> Result<&'a [u8], Stop> {
        let end = offset.checked_add(length).filter(|end| *end <= section.len() as u64);
        let end = end.ok_or(Stop::Damaged("an argument lies outside its section"))?;
        Ok(&section[offset as usize..end as usize])
    }

    /// Memory of at least `need` bytes that begins with `source`: the section itself if it is long enough.
    fn input(&mut self, source: &'a [u8], need: u64) -> Result<Place, Stop> {
        if source.len() as u64 >= need {
            return Ok(Place::Word(source.as_ptr() as u64));
        }
        self.copy(source, need)
    }

    fn copy(&mut self, source: &'a [u8], need: u64) -> Result<Place, Stop> {
        let range = self.take(need.max(source.len() as u64))?;
        let source = &source[..source.len().min(range.length)];
        self.copies.push((None, Range { at: range.at + source.len(), length: range.length - source.len() }));
        self.copies.push((Some(source), Range { at: range.at, length: source.len() }));
        Ok(Place::Scratch(range))
    }

    fn vector(&mut self, offset: u64, count: u64, begin: Option<u64>) -> Result<(Place, Option<Range>), Stop> {
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
            Some(begin) => {
                let content = &self.sections.buffers;
                let total = total.ok_or(Stop::Damaged("a vector is longer than memory"))?;
                let place = match Self::slice(content, begin, total) {
                    Ok(source) => Place::Word(source.as_ptr() as u64),
                    // Only a part was moved, and so is known.
                    Err(_) => {
                        let rest = (content.len() as u64).saturating_sub(begin).min(total);
                        let source = Self::slice(content, begin.min(content.len() as u64), rest)?;
                        self.copy(source, total)?
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

const MISMATCH: Stop = Stop::Damaged("an argument is not of the kind that its call takes");

/// Prepares the arguments of `call`.
pub(super) fn prepare(
    sections: &Sections,
    slots: &Slots,
    scratch: &mut Scratch,
    command: &Command,
    call: &Call,
) -> Result<Prepared, Stop> {
    if guard::refusal(command, call).is_some() {
        return Err(Stop::Damaged("a call that no replay issues"));
    }
    let given = |i: usize| command.args.get(i).copied().unwrap_or(Arg::Value(0));
    let number = |i: u8| match given(i.into()) {
        Arg::Value(v) => v,
        _ => 0,
    };
    let by_command = || match call.name {
        "fcntl" => fcntl_arg(number(1)),
        "ioctl" => ioctl_arg(number(1)),
        _ => FcntlArg::Value,
    };
    let size = |s: Struct| match (s, by_command()) {
        (Struct::Sized(i), _) => number(i).min(LONGEST_STRUCTURE),
        (Struct::Words(i), _) => number(i).saturating_mul(4).min(LONGEST_STRUCTURE),
        (Struct::ByCommand, FcntlArg::In(n) | FcntlArg::Out(n) | FcntlArg::InOut(n)) => n as u64,
        (s, _) => s.size().unwrap_or(0) as u64,
    };
    let mut layout = Layout { sections, used: 0, copies: Vec::new(), vectors: Vec::new() };
    let mut places = [const { Place::Word(0) }; 6];
    let mut filled = None;
    for (i, place) in places.iter_mut().enumerate().take(call.args.len()) {
        let kind = call.args[i].kind;
        let value = given(i);
        let plain = matches!(kind, ArgKind::InOut(Struct::ByCommand)) && by_command() == FcntlArg::Value;
        *place = match kind {
            ArgKind::Fd(Access::Use | Access::Create | Access::Destroy) | ArgKind::Dirfd => descriptor(slots, value)?,
            _ if plain => match value {
                Arg::Value(v) => Place::Word(v),
                value => descriptor(slots, value)?,
            },
            ArgKind::Flags(_)
            | ArgKind::Command(_)
            | ArgKind::Mode
            | ArgKind::Offset
            | ArgKind::Length
            | ArgKind::Integer
            | ArgKind::Number
            | ArgKind::Device
            | ArgKind::Owner => match value {
                Arg::Value(v) => Place::Word(v),
                _ => return Err(MISMATCH),
            },
            ArgKind::Address => match value {
                Arg::Value(v) => pointer(v),
                _ => return Err(MISMATCH),
            },
            ArgKind::Path(_) | ArgKind::Text => match value {
                Arg::Bytes(offset, length) => {
                    let length = length.checked_add(1).ok_or(MISMATCH)?;
                    let text = Layout::slice(&sections.bytes, offset, length)?;
                    if text.last() != Some(&0) {
                        return Err(Stop::Damaged("a string has no end"));
                    }
                    Place::Word(text.as_ptr() as u64)
                }
                Arg::Value(v) => pointer(v),
                _ => return Err(MISMATCH),
            },
            ArgKind::Strings => return Err(MISMATCH),
            ArgKind::InData(j) => input(&mut layout, value, number(j).min(LONGEST as u64))?,
            ArgKind::In(s) => input(&mut layout, value, size(s))?,
            ArgKind::OutData(j) => output(&mut layout, value, number(j), &mut filled)?,
            ArgKind::Out(s) | ArgKind::InOut(s) => output(&mut layout, value, size(s), &mut filled)?,
            ArgKind::InVector(j) => match value {
                Arg::ContentVector(offset, begin) => layout.vector(offset, number(j), Some(begin))?.0,
                Arg::Value(v) => pointer(v),
                _ => return Err(MISMATCH),
            },
            ArgKind::OutVector(j) => match value {
                Arg::OutVector(offset) => {
                    let (place, range) = layout.vector(offset, number(j), None)?;
                    filled = filled.or(range);
                    place
                }
                Arg::Value(v) => pointer(v),
                _ => return Err(MISMATCH),
            },
        };
    }
    let mut checked = finish(layout, places, scratch)?;
    if let (true, Some(range)) = (guard::names_descriptor(call, number(1)), filled) {
        let source = command.list.first().ok_or(Stop::Damaged("a cloned range has no source"))?;
        let source = i64::from(slots.get(*source)?);
        scratch.bytes_mut(range.at, 8).copy_from_slice(&source.to_le_bytes());
    }
    guard::soften(checked.words_mut(), command, call);
    Ok(Prepared { checked, filled })
}

fn pointer(value: u64) -> Place {
    Place::Word(if value == 0 { 0 } else { BAD_POINTER })
}

/// A descriptor that the replay obtained; other numbers (never opened in the trace) are none: -1.
fn descriptor(slots: &Slots, value: Arg) -> Result<Place, Stop> {
    let number = match value {
        Arg::Fd(slot) => slots.get(slot)?,
        Arg::Value(v) => (v as i32).min(-1),
        _ => return Err(MISMATCH),
    };
    Ok(Place::Word(i64::from(number) as u64))
}

fn input<'a>(layout: &mut Layout<'a>, value: Arg, need: u64) -> Result<Place, Stop> {
    let (section, offset, length): (&'a [u8], u64, u64) = match value {
        Arg::Content(offset, length) => (&layout.sections.buffers, offset, length),
        Arg::Bytes(offset, length) | Arg::InOut(offset, length) => (&layout.sections.bytes, offset, length),
        Arg::Value(v) => return Ok(pointer(v)),
        _ => return Err(MISMATCH),
    };
    let source = Layout::slice(section, offset, length)?;
    layout.input(source, need)
}

fn output<'a>(layout: &mut Layout<'a>, value: Arg, need: u64, filled: &mut Option<Range>) -> Result<Place, Stop> {
    let place = match value {
        Arg::Out(length) => Place::Scratch(layout.take(need.max(length))?),
        Arg::InOut(offset, length) | Arg::Bytes(offset, length) => {
            let source = Layout::slice(&layout.sections.bytes, offset, length)?;
            layout.copy(source, need)?
        }
        Arg::Value(v) => return Ok(pointer(v)),
        _ => return Err(MISMATCH),
    };
    if let (Place::Scratch(range), None) = (&place, &filled) {
        *filled = Some(*range);
    }
    Ok(place)
}

fn finish(layout: Layout<'_>, places: [Place; 6], scratch: &mut Scratch) -> Result<Checked, Stop> {
    if !scratch.reserve(layout.used) {
        let no_memory = -i64::from(libc::ENOMEM);
        return Err(Stop::Failed(super::Failure::system("get memory for a call", no_memory)));
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
    let words = places.map(|place| match place {
        Place::Word(word) => word,
        Place::Scratch(range) => scratch.address(range.at),
    });
    Ok(Checked { words })
}
