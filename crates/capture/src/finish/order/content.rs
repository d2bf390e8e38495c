//! What calls tell of the sizes of files and of the offsets of descriptions.

use reprise_calls::moving::{End, Ends, ends};
use reprise_calls::{ArgKind, Effect, FlagSet, makes_nameless};
use reprise_initial::{Seat, Seen, World};
use reprise_trace::payload::{Side, split};

use super::super::decode::Pending;
use super::super::facts;
use super::super::told::{Change, Condition, Found};
use super::{Teller, Thing, thing};
use crate::arguments::failed;
use crate::memory::PAGE;
use crate::spool::record::Object;

impl Teller {
    pub(super) fn content(&mut self, world: &mut World, seat: Seat, pending: &Pending, out: &mut Vec<Condition>) {
        if failed(pending.action.result) {
            return;
        }
        if self.held.written(seat, pending, out) {
            return;
        }
        offset(pending, out);
        match pending.call.effect {
            Effect::GetMetadata => self.looked_at(world, pending, out),
            Effect::Truncate if pending.action.path.is_some() => self.cut(world, seat, pending, out),
            _ => sizes(world, pending, out),
        }
    }

    /// A call told the size.
    fn looked_at(&mut self, world: &World, pending: &Pending, out: &mut Vec<Condition>) {
        let stat = facts::stat(pending.call, &pending.action.output);
        let Some(stat) = stat.filter(|s| s.mode & libc::S_IFMT == libc::S_IFREG) else { return };
        let (Some((device, inode)), Some(size)) = (stat.identity, stat.size) else { return };
        let by_path = pending.action.path.as_ref().is_some_and(|path| !path.is_empty());
        if !by_path && let Some(object) = pending.objects.iter().find(|o| o.inode == inode && o.device != device) {
            self.devices.insert(device, object.device);
        }
        let file = thing(Thing::Size, self.device(device), inode);
        let at_first = world.unchanged_size((device, inode));
        out.push(Condition { at_first, ..Condition::new(file, Found::Exactly(size), Change::Nothing).in_steps() });
    }

    /// `truncate`.
    fn cut(&self, world: &mut World, seat: Seat, pending: &Pending, out: &mut Vec<Condition>) {
        if let Some((device, inode)) = self.named(world, seat, pending) {
            let size = pending.action.args[1];
            out.push(Condition::new(thing(Thing::Size, device, inode), Found::Anything, Change::To(size)).in_steps());
        }
    }

    /// The file that a path led to, as an open file has it.
    pub(super) fn named(&self, world: &mut World, seat: Seat, pending: &Pending) -> Option<(u64, u64)> {
        let (call, result) = (pending.call, pending.action.result);
        let decoded = pending.decoded();
        let (steps, is_last) = world.passes(&Seen { seat, call, decoded: &decoded, result }, 0);
        let (device, inode) = steps.last().filter(|_| is_last).and_then(|step| step.identity)?;
        Some((self.device(device), inode))
    }

    /// The device of a file system, of the one that `stat` tells.
    pub(super) fn device(&self, told: u64) -> u64 {
        self.devices.get(&told).copied().unwrap_or(told)
    }
}

pub(super) fn is_regular(object: &Object) -> bool {
    object.mode & libc::S_IFMT == libc::S_IFREG
}

/// The files of a call's numbers.
pub(super) fn regular(pending: &Pending) -> impl Iterator<Item = &Object> {
    pending.objects.iter().filter(|object| is_regular(object))
}

/// The size of an open file, as a thing.
pub(super) fn size_of(object: &Object) -> u64 {
    thing(Thing::Size, object.device, object.inode)
}

/// Whether a write went to the end of the file, wherever it was told to write.
pub(super) fn appends(pending: &Pending, object: &Object) -> bool {
    let flags = pending.call.flags_arg(FlagSet::ReadWrite).map_or(0, |i| pending.action.args[i]);
    let (always, never) = (libc::RWF_APPEND as u64, libc::RWF_NOAPPEND as u64);
    flags & always != 0 || object.flags & libc::O_APPEND as u32 != 0 && flags & never == 0
}

/// Offsets that descriptions share.
fn offset(pending: &Pending, out: &mut Vec<Condition>) {
    const SET: u64 = libc::SEEK_SET as u64;
    let (call, action) = (pending.call, &pending.action);
    let Ok(moved) = u64::try_from(action.result) else { return };
    if matches!(call.effect, Effect::Open | Effect::MakeObject(_)) {
        // Its number may have been that of another, which is no more.
        let made = pending.object(moved).filter(|o| is_regular(o));
        let begins = |o: &Object| Condition::new(thing(Thing::Offset, o.id, 0), Found::Anything, Change::To(0));
        return out.extend(made.map(begins));
    }
    if let Some(Ends { source, target }) = ends(call) {
        return out.extend([source, target].into_iter().filter_map(|end| went_on(pending, end, moved)));
    }
    let Some(object) = pending.object(action.args[0]).filter(|o| is_regular(o)) else { return };
    let after = object.stands_at();
    let thing = thing(Thing::Offset, object.id, 0);
    let change = match call.effect {
        Effect::Read if pending.given_offset().is_none() => Change::More(moved),
        Effect::Write if pending.given_offset().is_none() && appends(pending, object) => Change::To(after),
        Effect::Write if pending.given_offset().is_none() => Change::More(moved),
        Effect::Seek if action.args[2] == SET || moved != 0 => Change::To(moved),
        Effect::Seek => Change::To(0),
        _ => return,
    };
    out.push(Condition::new(thing, Found::Anything, change).then(after));
}

/// The offset of a file that content was moved from or to, where the call did not say where that begins.
fn went_on(pending: &Pending, end: End, moved: u64) -> Option<Condition> {
    let object = pending.object(pending.action.args[end.fd]).filter(|o| is_regular(o))?;
    let offset = Condition::new(thing(Thing::Offset, object.id, 0), Found::Anything, Change::More(moved));
    goes_on(pending, end).then(|| offset.then(object.stands_at()))
}

/// Whether content is moved from or to where a file stands.
fn goes_on(pending: &Pending, end: End) -> bool {
    end.cell.is_none_or(|cell| pending.action.args[cell] == 0)
}

/// What a call that moved content inside the kernel tells of the size of the file that it came from: as one that reads.
fn source(world: &World, pending: &Pending, ends: Ends, object: &Object) -> Option<Found> {
    /// No call moves more.
    const MOST: u64 = 0x7fff_f000;
    let args = &pending.action.args;
    let [from, to] = [ends.source, ends.target].map(|end| pending.object(args[end.fd]));
    let is_source = from.is_some_and(|from| from.fd == object.fd && from.inode == object.inode);
    // Of a file that a call copies to itself it tells what that was, and makes it longer.
    if !is_source || to.is_some_and(|to| (to.device, to.inode) == (object.device, object.inode)) {
        return None;
    }
    let moved = pending.action.result.unsigned_abs();
    let asked = pending.call.position(|kind| matches!(kind, ArgKind::Length)).map_or(moved, |i| args[i]).min(MOST);
    let position = object.stands_at();
    let begin = match goes_on(pending, ends.source) {
        true => position.saturating_sub(moved),
        false => ends.source.given(&split(pending.call, Side::Input, &pending.action.input))?,
    };
    let taken = Taken { begin, moved, asked };
    Some(match taken.found(world, object) {
        // A pipe or a socket may have had no room for more.
        Found::Exactly(end) if !to.is_some_and(is_regular) => Found::AtLeast(end),
        found => found,
    })
}

/// What was read of a file.
struct Taken {
    begin: u64,
    moved: u64,
    asked: u64,
}

impl Taken {
    /// What it tells of the size of the file.
    fn found(&self, world: &World, object: &Object) -> Found {
        let &Taken { begin, moved, asked } = self;
        let end = begin.saturating_add(moved);
        // Files that show the kernel's state have no size (`/proc`), or a page (`/sys`), whatever they hold, and give no more than a
        // page at a time (`/sys`). Others may have been emptied, or grown, before that was seen.
        let is_short = moved < asked && (object.size == PAGE && end < PAGE || moved == PAGE && end < object.size);
        let may_show_state = object.size == 0 && moved > 0 || is_short;
        let shows_state = may_show_state && !world.holds_what_is_written((object.device, object.inode));
        match moved {
            _ if shows_state => Found::Anything,
            0 if asked == 0 => Found::Anything,
            0 => Found::AtMost(begin),
            _ if moved < asked => Found::Exactly(end),
            _ => Found::AtLeast(end),
        }
    }
}

/// Sizes of files that a call has open.
fn sizes(world: &World, pending: &Pending, out: &mut Vec<Condition>) {
    for object in regular(pending) {
        let (found, change) = size(world, pending, object);
        let at_first = world.unchanged_size((object.device, object.inode));
        let size = Condition::new(size_of(object), found, change).in_steps().then(object.size);
        out.push(Condition { at_first, ..size });
    }
}

fn size(world: &World, pending: &Pending, object: &Object) -> (Found, Change) {
    const END: u64 = libc::SEEK_END as u64;
    const KEEP: u64 = libc::FALLOC_FL_KEEP_SIZE as u64;
    let (call, action) = (pending.call, &pending.action);
    let moved = action.result.unsigned_abs();
    let begin = pending.passage_begins(object);
    let end = begin.saturating_add(moved);
    let subject = object.fd == action.args[0] as i32;
    if let Some(found) = ends(call).and_then(|ends| source(world, pending, ends, object)) {
        return (found, Change::Nothing);
    }
    match call.effect {
        Effect::Open => {
            let flags = call.effective_open_flags(&action.args, action.input.get(4..).unwrap_or_default());
            let made = facts::object(object).made == Some(true) || makes_nameless(flags);
            let cut = (flags & libc::O_TRUNC as u64 != 0 || made) && object.fd == action.result as i32;
            (Found::Anything, if cut { Change::To(0) } else { Change::Nothing })
        }
        Effect::Write if !subject || moved == 0 => (Found::Anything, Change::Nothing),
        Effect::Write if appends(pending, object) => match pending.given_offset() {
            Some(_) => (Found::Anything, Change::More(moved)),
            None => (Found::Exactly(begin), Change::To(end)),
        },
        Effect::Write => (Found::Anything, Change::UpTo(end)),
        Effect::Read => {
            let asked = match call.position(|kind| matches!(kind, ArgKind::OutData(_))) {
                Some(_) => action.args[2],
                None => moved,
            };
            (Taken { begin, moved, asked }.found(world, object), Change::Nothing)
        }
        Effect::Seek if action.args[2] == END => {
            (Found::Exactly(action.result.wrapping_sub(action.args[1] as i64) as u64), Change::Nothing)
        }
        Effect::Truncate => (Found::Anything, Change::To(action.args[1])),
        Effect::Allocate => match action.args[1] {
            0 => (Found::Anything, Change::UpTo(action.args[2].saturating_add(action.args[3]))),
            mode if mode & KEEP != 0 => (Found::Anything, Change::Nothing),
            _ => (Found::Anything, Change::Unknown),
        },
        Effect::DeviceControl => (Found::Anything, Change::Unknown),
        Effect::Copy | Effect::Splice if moved > 0 => (Found::Anything, Change::Unknown),
        _ => (Found::Anything, Change::Nothing),
    }
}
