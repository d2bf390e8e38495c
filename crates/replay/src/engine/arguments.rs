//! The arguments of a traced call, as the kernel gets them.
//!
//! Goals: whatever a plan says, a pointer leads into the plan's sections or into scratch memory with enough room for
//! what the call reads or fills, and a descriptor is one that the replay obtained. Non-goals: whether the call is wise.
//! The safety of [`super::issue::call`] rests on this module and on `guard`: they alone make a [`Checked`].

mod layout;
mod plain;

use reprise_calls::{Access, ArgKind, Call, Effect, FcntlArg, Replay, Struct, fcntl_arg, ioctl_arg};
use reprise_plan::command::{Arg, Command};

use super::failure::Stop;
use super::guard;
use super::memory::{LONGEST, Scratch};
use super::{Sections, Slots};
use layout::{Layout, Place, finish};
pub(super) use plain::Rows;

/// An address where nothing is ever mapped (below `mmap_min_addr`): stands for a pointer that was bad in the trace.
const BAD_POINTER: u64 = 1;
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

const MISMATCH: Stop = Stop::Damaged("an argument is not of the kind that its call takes");

/// Prepares the arguments of `call`; `None` if a replay does not issue it with these.
pub(super) fn prepare(
    sections: &Sections,
    slots: &Slots,
    scratch: &mut Scratch,
    command: &Command,
    call: &Call,
) -> Result<Option<Prepared>, Stop> {
    if guard::refusal(command, call).is_some() {
        // A plan may ask for what only the row's arguments forbid; a whole call that is not issued is damage.
        return match call.replay {
            Replay::Issue => Ok(None),
            _ => Err(Stop::Damaged("its call is one that no replay issues")),
        };
    }
    let given = |i: usize| command.args.get(i).copied().unwrap_or(Arg::Value(0));
    let number = |i: u8| match given(i.into()) {
        Arg::Value(v) => v,
        _ => 0,
    };
    let by_command = || match call.effect {
        Effect::Control => fcntl_arg(number(1)),
        Effect::DeviceControl => ioctl_arg(number(1)),
        _ => FcntlArg::Value,
    };
    let size = |s: Struct| match s {
        Struct::Sized(i) | Struct::CloneArgs(i) => number(i).min(LONGEST_STRUCTURE),
        Struct::Words(i) => number(i).saturating_mul(4).min(LONGEST_STRUCTURE),
        Struct::ByCommand => match by_command() {
            FcntlArg::In(n) | FcntlArg::Out(n) | FcntlArg::InOut(n) => n as u64,
            FcntlArg::Value => 0,
        },
        s => s.size().unwrap_or(0) as u64,
    };
    let mut layout = Layout::new(sections, command.within);
    let mut places = [const { Place::Word(0) }; 6];
    let mut filled = None;
    for (i, place) in places.iter_mut().enumerate().take(call.args.len()) {
        let kind = call.args[i].kind;
        let value = given(i);
        let plain = matches!(kind, ArgKind::InOut(Struct::ByCommand)) && by_command() == FcntlArg::Value;
        *place = match kind {
            ArgKind::Fd(Access::Use | Access::Create | Access::Destroy) | ArgKind::Dirfd => {
                Place::Word(descriptor(slots, value)?)
            }
            _ if plain => match value {
                Arg::Value(v) => Place::Word(v),
                value => Place::Word(descriptor(slots, value)?),
            },
            ArgKind::Flags(_)
            | ArgKind::Command(_)
            | ArgKind::Mode
            | ArgKind::Offset
            | ArgKind::Length
            | ArgKind::Integer
            | ArgKind::Submits
            | ArgKind::Reaps
            | ArgKind::Number
            | ArgKind::Device
            | ArgKind::Owner => match value {
                Arg::Value(v) => Place::Word(v),
                _ => return Err(MISMATCH),
            },
            ArgKind::Address | ArgKind::Environment => match value {
                Arg::Value(v) => Place::Word(pointer(v)),
                _ => return Err(MISMATCH),
            },
            ArgKind::Path(_) | ArgKind::Text => Place::Word(text(sections, value)?),
            ArgKind::Strings => return Err(MISMATCH),
            ArgKind::InData(j) => input(&mut layout, value, number(j).min(LONGEST as u64))?,
            ArgKind::In(s) => input(&mut layout, value, size(s))?,
            ArgKind::OutData(j) => match value {
                Arg::Out(length) => {
                    let range = layout.take_content(number(j).max(length))?;
                    filled = filled.or(Some(range));
                    Place::Scratch(range)
                }
                value => output(&mut layout, value, number(j), &mut filled)?,
            },
            ArgKind::Out(s) | ArgKind::InOut(s) => output(&mut layout, value, size(s), &mut filled)?,
            ArgKind::InVector(j) => match value {
                Arg::ContentVector(offset, begin) => layout.vector(offset, number(j), Some(begin))?.0,
                Arg::Value(v) => Place::Word(pointer(v)),
                _ => return Err(MISMATCH),
            },
            ArgKind::OutVector(j) => match value {
                Arg::OutVector(offset) => {
                    let (place, range) = layout.vector(offset, number(j), None)?;
                    filled = filled.or(range);
                    place
                }
                Arg::Value(v) => Place::Word(pointer(v)),
                _ => return Err(MISMATCH),
            },
        };
    }
    let mut checked = Checked { words: finish(layout, places, scratch)? };
    if let (true, Some(range)) = (guard::names_descriptor(call, number(1)), filled) {
        let source = command.list.first().ok_or(Stop::Damaged("a cloned range has no source"))?;
        let source = i64::from(slots.get(*source)?);
        scratch.bytes_mut(range.at, 8).copy_from_slice(&source.to_le_bytes());
    }
    guard::soften(checked.words_mut(), command, call);
    Ok(Some(Prepared { checked, filled }))
}

fn pointer(value: u64) -> u64 {
    if value == 0 { 0 } else { BAD_POINTER }
}

/// A string of the plan.
fn text(sections: &Sections, value: Arg) -> Result<u64, Stop> {
    match value {
        Arg::Bytes(offset, length) => {
            let length = length.checked_add(1).ok_or(MISMATCH)?;
            let text = Layout::slice(&sections.bytes, offset, length)?;
            if text.last() != Some(&0) {
                return Err(Stop::Damaged("a string has no end"));
            }
            Ok(text.as_ptr() as u64)
        }
        Arg::Value(v) => Ok(pointer(v)),
        _ => Err(MISMATCH),
    }
}

/// A descriptor that the replay obtained; other numbers (never opened in the trace) are none: -1.
fn descriptor(slots: &Slots, value: Arg) -> Result<u64, Stop> {
    let number = match value {
        Arg::Fd(slot) => slots.get(slot)?,
        Arg::Value(v) => (v as i32).min(-1),
        _ => return Err(MISMATCH),
    };
    Ok(i64::from(number) as u64)
}

fn input<'a>(layout: &mut Layout<'a>, value: Arg, need: u64) -> Result<Place, Stop> {
    let (section, offset, length): (&'a [u8], u64, u64) = match value {
        // Of a write that was cut short the content after the cut is not always known.
        Arg::Content(offset, length) => {
            let buffers: &'a [u8] = &layout.sections.buffers;
            let known = (buffers.len() as u64).checked_sub(offset);
            (buffers, offset, known.map_or(length, |known| known.min(length)))
        }
        Arg::Bytes(offset, length) | Arg::InOut(offset, length) => (&layout.sections.bytes, offset, length),
        Arg::Value(v) => return Ok(Place::Word(pointer(v))),
        _ => return Err(MISMATCH),
    };
    let source = Layout::slice(section, offset, length)?;
    match value {
        Arg::Content(..) => layout.content(source, need),
        _ => layout.input(source, need),
    }
}

fn output<'a>(layout: &mut Layout<'a>, value: Arg, need: u64, filled: &mut Option<Range>) -> Result<Place, Stop> {
    let place = match value {
        Arg::Out(length) => Place::Scratch(layout.take(need.max(length))?),
        Arg::InOut(offset, length) | Arg::Bytes(offset, length) => {
            let source = Layout::slice(&layout.sections.bytes, offset, length)?;
            layout.copy(source, need)?
        }
        Arg::Value(v) => return Ok(Place::Word(pointer(v))),
        _ => return Err(MISMATCH),
    };
    if let (Place::Scratch(range), None) = (&place, &filled) {
        *filled = Some(*range);
    }
    Ok(place)
}
