//! What calls tell of locks on files: who had them, and who cannot have had them.
//!
//! Goals: ranges as they are given, of processes (`fcntl`) and of open files (`flock`, `F_OFD_SETLK`), shared and exclusive.
//! A lock that `F_GETLK` finds ends where its holder has none of its kind beside it: the kernel joins them
//! (`posix_lock_inode`, fs/locks.c).
//! Non-goals: locks of open files (`flock`, `F_OFD_SETLK`) that were held before the recording: what is known of such a file
//! begins with the calls; files with very many holders: of these nothing
//! is told.

use foldhash::HashMap;
use reprise_calls::Effect;
use reprise_calls::locking::{HeldLock, LockKind, Wish, lock_command, locked_range};
use reprise_initial::Seat;
use reprise_trace::payload::Side;

use super::super::decode::Pending;
use super::super::told::{Change, Condition, Found, Told};
use super::held::{Fate, Held};
use super::locked::{Holder, Locked};
use crate::arguments::failed;
use crate::locking;

/// A call that is about a lock.
pub(super) struct Request {
    pub wish: Wish,
    pub holder: Holder,
    pub begin: u64,
    pub end: u64,
    /// `F_GETLK`: only asks.
    pub asks: bool,
}

/// A lock that `F_GETLK` has found.
pub(super) struct Met {
    pub wish: Wish,
    pub begin: u64,
    pub end: u64,
    /// The process that holds it; -1 if an open file does.
    pub pid: i32,
}

/// `flock` and `fcntl` know nothing of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    is_whole: bool,
    device: u64,
    inode: u64,
}

/// Files whose locks are followed.
#[derive(Debug, Default)]
pub struct Locks {
    files: HashMap<Key, Locked>,
    next: u64,
}

/// What a call wants, and of which file.
fn request(seat: Seat, pending: &Pending) -> Option<(Key, Request)> {
    let (call, args) = (pending.call, &pending.action.args);
    let is_whole = call.effect == Effect::Lock;
    let command = lock_command(call, args);
    if !is_whole && command.is_none() {
        return None;
    }
    let object = pending.object(args[0])?;
    let key = Key { is_whole, device: object.device, inode: object.inode };
    let of_description = Holder::Description(object.id);
    let Some(command) = command else {
        let wish = Wish::of_operation(args[1])?;
        return Some((key, Request { wish, holder: of_description, begin: 0, end: u64::MAX, asks: false }));
    };
    let lock = locking::flock(call, Side::Input, &pending.action.input)?;
    let (begin, end) = locked_range(lock, object.position, object.size)?;
    let holder = if command.kind == LockKind::Range { of_description } else { Holder::Table(seat.table()) };
    Some((key, Request { wish: Wish::of(lock)?, holder, begin, end, asks: command.asks }))
}

/// Whether the lock could be had then, and what was in its way if that is told; `None` if the call does not tell.
fn could(pending: &Pending, asks: bool) -> Option<(bool, Option<Met>)> {
    match pending.action.result {
        result if locking::is_refused(result) => Some((false, None)),
        result if failed(result) => None,
        _ if asks => {
            let found = locking::flock(pending.call, Side::Output, &pending.action.output)?;
            let wish = Wish::of(found)?;
            let is_free = wish == Wish::Free;
            Some((is_free, if is_free { None } else { met(wish, found) }))
        }
        _ => Some((true, None)),
    }
}

fn met(wish: Wish, lock: &[u8]) -> Option<Met> {
    // From the beginning of the file, whatever was asked for.
    let (begin, end) = locked_range(lock, 0, 0)?;
    let pid = i32::from_le_bytes(*lock.get(24..)?.first_chunk()?);
    Some(Met { wish, begin, end, pid })
}

/// What becomes of ranges that somebody had these locks on, with the fate of the open file.
fn without(bits: u64, fate: Fate) -> Change {
    match fate {
        Fate::Ends | Fate::Stays => Change::Bits(bits, 0),
        Fate::Unknown => Change::Unknown,
    }
}

/// Whether one of these locks may be on a range.
fn may_be(range: &Condition, bits: u64) -> bool {
    bits != 0 && range.known.flatten().is_none_or(|held| held & bits != 0)
}

/// Where a call was made, and which files are open where.
#[derive(Clone, Copy)]
pub(super) struct Seated<'a> {
    pub seat: Seat,
    pub held: &'a Held,
}

/// Where a process sits, if it is known and lives.
pub type SeatOf<'a> = &'a dyn Fn(i32) -> Option<Seat>;

impl Locks {
    /// A lock that was held at the beginning. Which open file one is of that belongs to none of the processes nobody tells.
    pub fn began(&mut self, seat: Seat, (device, inode): (u64, u64), lock: &HeldLock) {
        let file = self.files.entry(Key { is_whole: lock.kind == LockKind::Whole, device, inode }).or_default();
        if lock.kind != LockKind::Process {
            *file = Locked::unknown();
            return;
        }
        let Some(bit) = file.bit(Holder::Table(seat.table())) else { return };
        file.cut([lock.begin, lock.end], &mut self.next);
        let wish = if lock.exclusive { Wish::Exclusive } else { Wish::Shared };
        let request =
            Request { wish, holder: Holder::Table(seat.table()), begin: lock.begin, end: lock.end, asks: false };
        let (found, change) = file.outcome(&request, bit, true);
        file.apply(lock.begin, lock.end, found, change);
    }

    /// What a result tells; processes sit where `seat_of` says.
    pub(super) fn told(&mut self, at: Seated<'_>, seat_of: SeatOf<'_>, pending: &Pending, told: &mut Told) {
        for (key, bits, fate) in self.closed(at, pending) {
            told.all.extend(self.files[&key].conditions(0, u64::MAX, Found::Anything, without(bits, fate)));
        }
        let Some((key, request)) = request(at.seat, pending) else { return };
        let Some((could, met)) = could(pending, request.asks) else { return };
        let file = self.files.entry(key).or_default();
        let Some(bit) = file.bit(request.holder) else { return };
        if let Some((met, seat)) = met.and_then(|met| seat_of(met.pid).map(|seat| (met, seat))) {
            file.cut([met.begin, met.end], &mut self.next);
            return file.met(&met, Holder::Table(seat.table()), told);
        }
        file.cut([request.begin, request.end], &mut self.next);
        let (found, change) = file.outcome(&request, bit, could);
        let conditions = file.conditions(request.begin, request.end, found, change);
        if could { told.all.extend(conditions) } else { told.any.extend(conditions) }
    }

    /// A call has its place.
    pub(super) fn took_place(&mut self, at: Seated<'_>, pending: &Pending) {
        for (key, bits, fate) in self.closed(at, pending) {
            let Some(file) = self.files.get_mut(&key) else { continue };
            match without(bits, fate) {
                Change::Unknown => file.unsettle(bits),
                change => file.apply(0, u64::MAX, Found::Anything, change),
            }
            if let (Fate::Ends, Some(object)) = (fate, pending.object(pending.action.args[0])) {
                file.ended(Holder::Description(object.id));
            }
        }
        let Some((key, request)) = request(at.seat, pending) else { return };
        let Some((true, _)) = could(pending, request.asks) else { return };
        let file = self.files.entry(key).or_default();
        let Some(bit) = file.bit(request.holder) else { return };
        file.cut([request.begin, request.end], &mut self.next);
        let (found, change) = file.outcome(&request, bit, true);
        file.apply(request.begin, request.end, found, change);
    }

    /// The end of any descriptor of a file ends all that its process had locked there: the bits of these locks; that of the last
    /// of its description, whose fate that is, also what was locked by that.
    fn closed(&self, Seated { seat, held }: Seated<'_>, pending: &Pending) -> Vec<(Key, u64, Fate)> {
        let fd = pending.action.args[0];
        if pending.call.effect != Effect::Close || failed(pending.action.result) {
            return Vec::new();
        }
        let Some(object) = pending.object(fd) else { return Vec::new() };
        let keys = [false, true].map(|is_whole| Key { is_whole, device: object.device, inode: object.inode });
        let ended = |key: Key| {
            let file = self.files.get(&key)?;
            let of = |holder| file.bits_of(|known| *known == holder);
            let (description, own) = (of(Holder::Description(object.id)), of(Holder::Table(seat.table())));
            let fate = if description == 0 { Fate::Stays } else { held.fate(seat, fd as i32, object.id) };
            let bits = if fate == Fate::Stays { own } else { description | own };
            (bits != 0).then_some((key, bits, fate))
        };
        keys.into_iter().filter_map(ended).collect()
    }

    /// What the end of the last thread of a process tells that closed files which were locked, by it or by others: what it had is free,
    /// and most likely it had what it is known to have. What it may have had by open files counts as that, unless others are known
    /// to have these; what others hold stays.
    pub(super) fn ending(&self, Seated { seat, held }: Seated<'_>) -> Told {
        let gives_back = |holder: &Holder| match *holder {
            Holder::Description(id) => held.may_be_in(seat, id) && held.fate_without(seat, id) != Fate::Stays,
            holder => holder == Holder::Table(seat.table()),
        };
        let mut told = Told::default();
        for file in self.files.values() {
            let bits = file.bits_of(gives_back);
            let of_held = |found, change| file.conditions(0, u64::MAX, found, change).filter(|c| may_be(c, bits));
            told.all.extend(of_held(Found::Anything, Change::Bits(bits, 0)));
            told.likely.extend(of_held(Found::SomeOf(bits), Change::Nothing));
        }
        told
    }

    /// The last thread of a process has ended, and with it what the process held, and open files that nobody else has.
    pub(super) fn ended(&mut self, Seated { seat, held }: Seated<'_>) {
        for file in self.files.values_mut() {
            file.ended(Holder::Table(seat.table()));
            for id in file.descriptions() {
                match held.fate_without(seat, id) {
                    Fate::Ends => file.ended(Holder::Description(id)),
                    Fate::Stays => {}
                    Fate::Unknown => file.unsettle(file.bits_of(|holder| *holder == Holder::Description(id))),
                }
            }
        }
    }

    /// Descriptors of a process were closed that no call named; which locks ended with them is not known.
    pub(super) fn closed_some(&mut self, Seated { seat, held }: Seated<'_>) {
        let may_have_lost = |holder: &Holder| match *holder {
            Holder::Description(id) => held.may_be_in(seat, id),
            holder => holder == Holder::Table(seat.table()),
        };
        for file in self.files.values_mut() {
            file.unsettle(file.bits_of(may_have_lost));
        }
    }
}
