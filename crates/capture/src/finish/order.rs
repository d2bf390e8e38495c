//! When a call took effect, and what its result tells of what it found: the cause goes before what it causes.
//!
//! What gives (the end of a descriptor, bytes into a pipe, a lock that is released) has taken effect at the latest when
//! somebody else sees it, and cannot have before it began: it stands at its begin. What takes stands at its end. So a
//! cause stands before its effect whatever the clocks of their returns say. A write that returns when the device has it shows
//! others what it wrote long before that: it stands at its begin, too.

#[cfg(test)]
mod attribute_tests;
mod attributes;
mod content;
#[cfg(test)]
mod descriptor_tests;
mod held;
mod links;
#[cfg(test)]
mod lock_tests;
mod locked;
mod locks;
mod names;
mod places;
#[cfg(test)]
mod replaced_tests;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod turn_tests;

use foldhash::HashMap;
use reprise_calls::locking::HeldLock;
use reprise_calls::moving::ends;
use reprise_calls::{ArgKind, Call, Effect, FlagSet};
use reprise_initial::{Seat, World};
use reprise_trace::payload::{Side, child_handle, split};

use super::decode::Pending;
use super::facts;
use super::queue::{FileMark, Reach};
use super::told::{Change, Condition, Found, NOTHING, Told};
use crate::arguments::failed;
use crate::locking;
use locks::{SeatOf, Seated};

const EBADF: i64 = -(libc::EBADF as i64);
const ECANCELED: i64 = -(libc::ECANCELED as i64);
/// Errors of calls with paths that tell that the directory was open where they begin, or was not.
const FROM_THERE: [i64; 4] = [EBADF, -(libc::ENOENT as i64), -(libc::ENOTDIR as i64), -(libc::EEXIST as i64)];

/// When it took effect, as far as it tells itself.
pub fn takes_effect_ns(pending: &Pending) -> u64 {
    let (action, call) = (&pending.action, pending.call);
    let gives = match call.effect {
        Effect::Close | Effect::CloseRange => true,
        Effect::Lock | Effect::Control => locking::releases(call, &action.args, &action.input),
        Effect::Write if failed(action.result) => false,
        Effect::Write => !is_plain(pending, action.args[0]) || waits_for_device(pending),
        Effect::Copy | Effect::Splice => {
            let target = ends(call).map(|ends| action.args[ends.target.fd]);
            !failed(action.result) && target.is_some_and(|fd| !is_plain(pending, fd))
        }
        Effect::Message => !failed(action.result) && sends(call),
        _ => false,
    };
    if gives { action.begin_ns } else { action.end_ns() }
}

/// Whether what a call tells is about open files and their numbers alone, and what it does changes no names and no numbers.
fn lasts(pending: &Pending) -> bool {
    match pending.call.effect {
        Effect::Read | Effect::Write | Effect::Seek | Effect::Sync | Effect::Poll | Effect::Wait | Effect::Advise => {
            true
        }
        // These name sockets by their paths.
        Effect::Message => !brings_numbers(pending.call) && !matches!(pending.call.name, "bind" | "connect"),
        _ => false,
    }
}

/// What calls tell of and change.
#[derive(Debug, Default)]
pub struct Reaches {
    /// When calls were over that closed a number, of whatever process, and when those were that closed others than they named.
    closed: HashMap<i32, u64>,
    some_closed_ns: u64,
}

impl Reaches {
    /// So many numbers are remembered.
    const MOST: usize = 1 << 14;

    /// That of a call; to be asked of calls in the order in which they were over.
    pub fn of(&mut self, pending: &Pending) -> Reach {
        let (call, action) = (pending.call, &pending.action);
        match call.effect {
            Effect::Close => self.closes(action.args[0] as i32, pending.end_ns()),
            Effect::DuplicateTo => self.closes(action.args[1] as i32, pending.end_ns()),
            Effect::CloseRange | Effect::Execute => self.some_closed_ns = self.some_closed_ns.max(pending.end_ns()),
            _ => {}
        }
        if !lasts(pending) || call.effect == Effect::Write && self.may_have_lost(pending) {
            return Reach::All;
        }
        let mut files = content::regular(pending);
        let (Some(file), another) = (files.next(), files.next()) else { return Reach::Numbers };
        let mark = FileMark::of(content::size_of(file));
        match call.effect {
            _ if another.is_some() => Reach::All,
            Effect::Read if pending.given_offset().is_some() => Reach::Content(mark),
            Effect::Read | Effect::Write | Effect::Seek => Reach::Changes(mark),
            _ => Reach::Content(mark),
        }
    }

    fn closes(&mut self, fd: i32, end_ns: u64) {
        if self.closed.len() >= Self::MOST {
            self.closed.clear();
            self.some_closed_ns = end_ns.max(self.some_closed_ns);
        }
        let at = self.closed.entry(fd).or_default();
        *at = end_ns.max(*at);
    }

    /// Whether a write may have gone to another file than the one that stood behind its number when it was over.
    fn may_have_lost(&self, pending: &Pending) -> bool {
        let fd = pending.action.args[0];
        let closed_ns = self.closed.get(&(fd as i32)).copied().unwrap_or(0).max(self.some_closed_ns);
        pending.action.result > 0 && (pending.object(fd).is_none() || closed_ns >= pending.action.begin_ns)
    }
}

/// The size of the file that a call was given first, as a thing, and what it was when the call was over.
pub fn size_shown(pending: &Pending) -> Option<(u64, u64)> {
    content::regular(pending).next().map(|file| (content::size_of(file), file.size))
}

/// Whether a message can bring descriptors, with numbers that the call does not name.
fn brings_numbers(call: &Call) -> bool {
    matches!(call.name, "recvmsg" | "recvmmsg")
}

fn sends(call: &Call) -> bool {
    matches!(call.name, "sendto" | "sendmsg" | "sendmmsg" | "connect" | "shutdown")
}

/// Whether a descriptor names a file that keeps what is written.
fn is_plain(pending: &Pending, fd: u64) -> bool {
    pending.object(fd).is_none_or(|o| !matches!(o.mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFSOCK | 0))
}

/// Whether a write by way of the page cache returns when the device has what it wrote (`generic_write_sync`). Of a request it is not
/// known when it was begun.
fn waits_for_device(pending: &Pending) -> bool {
    let (call, args) = (pending.call, &pending.action.args);
    let Some(object) = pending.object(args[0]).filter(|_| pending.action.request.is_none()) else { return false };
    let asked = call.flags_arg(FlagSet::ReadWrite).map_or(0, |i| args[i]) & (libc::RWF_DSYNC | libc::RWF_SYNC) as u64;
    let opened = object.flags as i32;
    opened & libc::O_DIRECT == 0 && (asked != 0 || opened & libc::O_DSYNC != 0)
}

/// Whether a call found a file by a name, and told it as one without any: the last name went in between, so that the call saw
/// the removal half done. Below `/proc` files without a name have one.
pub fn saw_removal(pending: &Pending) -> bool {
    let action = &pending.action;
    let is_named = action.path.as_ref().is_some_and(|path| !path.0.is_empty() && !path.0.starts_with(b"/proc/"));
    let links = || facts::stat(pending.call, &action.output)?.links;
    is_named && !failed(action.result) && links() == Some(0)
}

/// What calls tell, call by call.
#[derive(Debug, Default)]
pub struct Teller {
    /// Devices as `stat` tells them, where the file system has another.
    devices: HashMap<u64, u64>,
    /// How often what is known of the numbers of a table of descriptors became void.
    voided: HashMap<u32, u64>,
    locks: locks::Locks,
    held: held::Held,
    links: links::Links,
    /// Whether permissions of files were changed.
    has_modes: bool,
}

impl Teller {
    /// A lock that was held at the beginning, on a file of this identity.
    pub fn lock_began(&mut self, seat: Seat, file: (u64, u64), lock: &HeldLock) {
        self.locks.began(seat, file, lock);
    }

    /// What the result of a call tells; processes sit where `seat_of` says.
    pub fn told(&mut self, world: &mut World, seat: Seat, seat_of: SeatOf<'_>, pending: &Pending) -> Told {
        /// Most calls tell no more.
        const MOSTLY: usize = 4;
        let mut told = Told { lasts: lasts(pending), all: Vec::with_capacity(MOSTLY), ..Told::default() };
        self.descriptors(seat, pending, &mut told.all);
        self.content(world, seat, pending, &mut told.all);
        self.attributes(world, seat, pending, &mut told);
        let named = names::told(world, seat, pending, &mut told);
        self.links.opened(pending, named);
        self.links.told(pending, &mut told);
        self.locks.told(Seated { seat, held: &self.held }, seat_of, pending, &mut told);
        self.places(seat, pending, &mut told);
        told
    }

    /// A new process has a copy of a table of descriptors.
    pub fn forked(&mut self, maker: Seat, made: Seat) {
        self.held.copied(maker, made);
    }

    /// What the birth of a process tells of its maker's descriptors: which numbers were open when they were copied, bit by bit,
    /// and which the call got a descriptor of the child at.
    pub fn born(&self, seat: Seat, open: &[u64], call: Option<&Pending>) -> Told {
        /// Higher numbers that are not open are not looked at: who opens a file gets the lowest.
        const NEXT: u64 = 16;
        let is_open = |fd: u64| open[fd as usize / 64] >> (fd % 64) & 1 == 1;
        let numbers = open.len() as u64 * 64;
        let highest = (0..numbers).rev().find(|fd| is_open(*fd)).unwrap_or(0);
        let handle = call.and_then(handle);
        let found = |is_open| if is_open { Found::Something } else { Found::Exactly(NOTHING) };
        let copied = (0..numbers.min(highest + NEXT + 1)).filter(|fd| handle != Some(*fd));
        let copied = copied.map(|fd| Condition::new(self.number(seat, fd), found(is_open(fd)), Change::Nothing));
        let made = handle.map(|fd| Condition::new(self.number(seat, fd), Found::Exactly(NOTHING), Change::Unknown));
        Told { all: copied.chain(made).collect(), ..Told::default() }
    }

    /// A number in a table of descriptors.
    fn number(&self, seat: Seat, fd: u64) -> u64 {
        let table = u64::from(seat.table()) << 32 | self.voided.get(&seat.table()).copied().unwrap_or(0);
        thing(Thing::Descriptor, table, fd & 0xffff_ffff)
    }

    /// A call has its place: numbers that it opened or closed without naming them are not known any more.
    pub fn took_place(&mut self, seat: Seat, pending: &Pending) {
        self.locks.took_place(Seated { seat, held: &self.held }, pending);
        self.held.took_place(seat, pending);
        if failed(pending.action.result) {
            return;
        }
        let (closes, voids) = match pending.call.effect {
            Effect::CloseRange => (true, closed_by_name(&pending.action.args).is_empty()),
            Effect::Execute => (true, true),
            Effect::DuplicateTo => (true, false),
            Effect::Message => (false, brings_numbers(pending.call)),
            _ => (false, false),
        };
        if closes {
            self.locks.closed_some(Seated { seat, held: &self.held });
        }
        if voids {
            self.held.forget(seat);
            self.void(seat);
        }
    }

    /// When a request began that was submitted before its file was opened.
    pub fn looked_up_ns(&self, seat: Seat, pending: &Pending) -> Option<u64> {
        self.held.looked_up_ns(seat, pending)
    }

    /// What the end of the last thread that uses a table tells: what was locked is free.
    pub fn ending(&self, seat: Seat) -> Told {
        self.locks.ending(Seated { seat, held: &self.held })
    }

    /// The last thread that used a table has ended, and with it locks.
    pub fn ended(&mut self, seat: Seat) {
        self.locks.ended(Seated { seat, held: &self.held });
        self.held.ended(seat);
    }

    /// Nothing is known any more of the numbers of a table.
    pub fn void(&mut self, seat: Seat) {
        *self.voided.entry(seat.table()).or_default() += 1;
    }

    fn descriptors(&self, seat: Seat, pending: &Pending, out: &mut Vec<Condition>) {
        let (call, action) = (pending.call, &pending.action);
        let number = |fd: u64| self.number(seat, fd);
        let file = |fd: u64| pending.object(fd).map(|object| object.id);
        let ok = !failed(action.result);
        // Behind a number that somebody has closed since nothing is seen.
        let new = |fd: u64| {
            let change = file(fd).map_or(Change::Unknown, Change::To);
            Condition::new(number(fd), Found::Exactly(NOTHING), change)
        };
        match call.effect {
            Effect::Close if ok => {
                out.push(Condition::new(number(action.args[0]), Found::Something, Change::To(NOTHING)));
            }
            Effect::CloseRange if ok => out.extend(
                closed_by_name(&action.args).map(|fd| Condition::new(number(fd), Found::Anything, Change::To(NOTHING))),
            ),
            Effect::DuplicateTo if ok => {
                let change = file(action.args[1]).or_else(|| file(action.args[0]));
                let change = change.map_or(Change::Unknown, Change::To);
                out.push(Condition::new(number(action.args[0]), Found::Something, Change::Nothing));
                out.push(Condition::new(number(action.args[1]), Found::Anything, change));
            }
            _ => {
                let used = numbers(pending).filter(|fd| *fd >= 0).map(|fd| fd as u64);
                match action.result {
                    // A number that is open is bad where it is open for something else.
                    EBADF => {
                        let is_sure = numbers(pending).all(|fd| fd >= 0);
                        let closed = used.take(1).filter(|fd| is_sure && file(*fd).is_none());
                        out.extend(
                            closed.map(|fd| Condition::new(number(fd), Found::Exactly(NOTHING), Change::Nothing)),
                        );
                    }
                    // A request that was cancelled looked at no number.
                    ECANCELED => {}
                    _ => out.extend(used.map(|fd| {
                        let used = |found| Condition::new(number(fd), found, Change::Nothing);
                        match file(fd) {
                            // The one that it had, also where a thread of the kernel's own looked it up, and when.
                            Some(file) if action.request.is_some() => used(Found::Known(file)),
                            seen => Condition { after: seen, ..used(Found::Something) },
                        }
                    })),
                }
            }
        }
        if ok {
            out.extend(opened(pending).map(new));
        }
    }
}

/// The numbers that a call was given, of files and of directories where its paths begin, as far as its result tells of them.
fn numbers(pending: &Pending) -> impl Iterator<Item = i32> {
    let result = pending.action.result;
    let tells = !failed(result) || FROM_THERE.contains(&result);
    let directories = places::directories(pending).filter(move |fd| tells && *fd != libc::AT_FDCWD);
    files(pending).chain(directories)
}

/// The numbers of files that a call was given.
fn files(pending: &Pending) -> impl Iterator<Item = i32> {
    let given = pending.call.args.iter().zip(pending.action.args);
    given.filter(|(arg, _)| matches!(arg.kind, ArgKind::Fd(_))).map(|(_, fd)| fd as i32)
}

/// The numbers that a call opened that did not fail, but for one that it was told (`dup2`).
fn opened(pending: &Pending) -> impl Iterator<Item = u64> {
    let (call, action) = (pending.call, &pending.action);
    let new = call.opens(&action.args) && call.effect != Effect::DuplicateTo;
    let one = new.then_some(action.result as u64).or_else(|| handle(pending));
    one.into_iter().chain(pair(pending).into_iter().flatten())
}

/// The numbers that `close_range` closes, if they are few, and the table stays the same.
fn closed_by_name(args: &[u64; 6]) -> std::ops::Range<u64> {
    const FEW: u64 = 64;
    let [first, last, flags, ..] = args.map(|arg| arg & 0xffff_ffff);
    let is_plain = flags == 0 && last.saturating_sub(first) < FEW;
    if is_plain { first..last + 1 } else { 0..0 }
}

/// The number of the handle of a child.
fn handle(pending: &Pending) -> Option<u64> {
    let spawns = pending.call.effect == Effect::Spawn;
    spawns.then(|| child_handle(pending.call, &pending.action.output)).flatten().map(u64::from)
}

/// The two numbers that a call made.
fn pair(pending: &Pending) -> Option<[u64; 2]> {
    use reprise_calls::Struct;
    if !matches!(pending.call.effect, Effect::MakeObject(_)) {
        return None;
    }
    let at = pending.call.position(|kind| matches!(kind, ArgKind::Out(Struct::FdPair)))?;
    let bytes = split(pending.call, Side::Output, &pending.action.output)[at]?.first_chunk::<8>()?;
    let both = u64::from_le_bytes(*bytes);
    Some([both & 0xffff_ffff, both >> 32])
}

/// Kinds of things, mixed into their numbers.
#[derive(Debug, Clone, Copy)]
enum Thing {
    Descriptor = 1,
    Name = 2,
    Offset = 3,
    Size = 4,
    Inode = 5,
    Lock = 6,
    Mode = 7,
    Mask = 8,
    Place = 9,
}

fn thing(kind: Thing, one: u64, other: u64) -> u64 {
    let mix = |n: u64| (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mix(mix(one.wrapping_add((kind as u64) << 56)).wrapping_add(other))
}
