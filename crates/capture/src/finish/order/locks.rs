//! What calls tell of locks on files: who had them, and who cannot have had them.
//!
//! Goals: ranges as they are given, of processes (`fcntl`) and of open files (`flock`, `F_OFD_SETLK`), shared and exclusive.
//! A lock that `F_GETLK` finds ends where its holder has none of its kind beside it: the kernel joins them
//! (`posix_lock_inode`, fs/locks.c).
//! Non-goals: locks that were there before the recording, files with very many ranges or holders: of these nothing is
//! told.

use std::collections::{BTreeSet, HashMap};

use reprise_calls::Effect;
use reprise_initial::Seat;
use reprise_trace::payload::Side;

use super::super::decode::Pending;
use super::super::told::{Change, Condition, Found, Told};
use super::{Thing, thing};
use crate::arguments::failed;
use crate::locking::{self, Wish};
use crate::spool::record::Object;

/// More ranges of a file are not told apart.
const MOST_CUTS: usize = 64;
/// Holders of a file's locks; each has a bit for shared and one for exclusive ones.
const MOST_HOLDERS: usize = 32;
const EXCLUSIVE: u32 = 32;

/// Who holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// A process, by its table of descriptors.
    Table(u32),
    /// An open file description.
    Description(u64),
    /// A process that has ended, and what it held with it.
    Ended,
}

/// A call that is about a lock.
struct Request {
    wish: Wish,
    holder: Holder,
    begin: u64,
    end: u64,
    /// `F_GETLK`: only asks.
    asks: bool,
}

/// A lock that `F_GETLK` has found.
struct Met {
    wish: Wish,
    begin: u64,
    end: u64,
    /// The process that holds it; -1 if an open file does.
    pid: i32,
}

/// Locks of one file, or those that `flock` knows.
#[derive(Debug)]
struct Locked {
    /// Its number; it gets another when nothing is known of it any more.
    number: u64,
    /// Where ranges begin.
    cuts: BTreeSet<u64>,
    /// By bit.
    holders: Vec<Holder>,
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

/// Those of a holder.
fn bits(bit: u32) -> u64 {
    1 << bit | 1 << (bit + EXCLUSIVE)
}

/// What a holder has who got its wish.
fn held(wish: Wish, bit: u32) -> u64 {
    match wish {
        Wish::Shared => 1 << bit,
        Wish::Exclusive => 1 << (bit + EXCLUSIVE),
        Wish::Free => 0,
    }
}

fn number(lock: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_le_bytes(*lock.get(at..)?.first_chunk()?))
}

/// First byte and the one behind the last of a `struct flock`.
fn range(lock: &[u8], object: &Object) -> Option<(u64, u64)> {
    let base = match i32::from(i16::from_le_bytes(*lock.get(2..)?.first_chunk()?)) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => object.position,
        libc::SEEK_END => i64::try_from(object.size).ok()?,
        _ => return None,
    };
    let (start, length) = (base.checked_add(number(lock, 8)?)?, number(lock, 16)?);
    let (begin, end) = match length {
        0 => (start, i64::MAX),
        1.. => (start, start.checked_add(length)?),
        _ => (start.checked_add(length)?, start),
    };
    Some((u64::try_from(begin).ok()?, u64::try_from(end).ok()?))
}

/// What a call wants, and of which file.
fn request(seat: Seat, pending: &Pending) -> Option<(Key, Request)> {
    let (call, args) = (pending.call, &pending.action.args);
    let is_whole = call.effect == Effect::Lock;
    let command = locking::command(call, args);
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
    let (begin, end) = range(lock, object)?;
    let holder = if command.is_of_description { of_description } else { Holder::Table(seat.table()) };
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
    let (begin, end) = range(lock, &Object::default())?;
    let pid = i32::from_le_bytes(*lock.get(24..)?.first_chunk()?);
    Some(Met { wish, begin, end, pid })
}

/// Where a process sits, if it is known and lives.
pub type SeatOf<'a> = &'a dyn Fn(i32) -> Option<Seat>;

impl Locks {
    /// What a result tells; processes sit where `seat_of` says.
    pub fn told(&mut self, seat: Seat, seat_of: SeatOf<'_>, pending: &Pending, told: &mut Told) {
        if pending.call.effect == Effect::Close && !failed(pending.action.result) {
            return self.closed(seat, pending, told);
        }
        let Some((key, request)) = request(seat, pending) else { return };
        let Some((could, met)) = could(pending, request.asks) else { return };
        let next = &mut self.next;
        let file = self.files.entry(key).or_insert_with(|| Locked::new(next));
        if file.is_full() {
            *file = Locked::new(next);
        }
        let (Some(bit), true) = (file.bit(request.holder), file.cut([request.begin, request.end])) else { return };
        if let Some((met, seat)) = met.and_then(|met| seat_of(met.pid).map(|seat| (met, seat))) {
            return file.met(&met, Holder::Table(seat.table()), told);
        }
        let things = file.things(request.begin, request.end);
        let own = bits(bit);
        let others = file.living() & !own;
        let taken = held(request.wish, bit);
        let in_its_way = match request.wish {
            Wish::Shared => others & u64::MAX << EXCLUSIVE,
            Wish::Exclusive => others,
            Wish::Free => 0,
        };
        match (could, request.wish) {
            (false, _) => {
                let one = things.map(|thing| Condition::new(thing, Found::SomeOf(in_its_way), Change::Nothing));
                told.any.extend(one);
            }
            (true, wish) => {
                let change = match wish {
                    _ if request.asks => Change::Nothing,
                    // Nobody else has any.
                    Wish::Exclusive => Change::To(taken),
                    Wish::Shared | Wish::Free => Change::Bits(own, taken),
                };
                told.all.extend(things.map(|thing| Condition::new(thing, Found::NoneOf(in_its_way), change)));
            }
        }
    }

    /// The end of any descriptor of a file ends all that its process had locked there. Whether it was the last of its
    /// description nobody tells.
    fn closed(&self, seat: Seat, pending: &Pending, told: &mut Told) {
        let Some(object) = pending.object(pending.action.args[0]) else { return };
        for is_whole in [false, true] {
            let Some(file) = self.files.get(&Key { is_whole, device: object.device, inode: object.inode }) else {
                continue;
            };
            let change = match file.holders.contains(&Holder::Description(object.id)) {
                true => Change::Unknown,
                false => match file.holders.iter().position(|h| *h == Holder::Table(seat.table())) {
                    Some(bit) => Change::Bits(bits(bit as u32), 0),
                    None => continue,
                },
            };
            told.all.extend(file.things(0, u64::MAX).map(|thing| Condition::new(thing, Found::Anything, change)));
        }
    }

    /// The last thread of a process has ended, and with it what the process held.
    pub fn ended(&mut self, seat: Seat) {
        for file in self.files.values_mut() {
            file.holders.iter_mut().filter(|h| **h == Holder::Table(seat.table())).for_each(|h| *h = Holder::Ended);
        }
        self.forget(|holder| matches!(holder, Holder::Description(_)));
    }

    /// Descriptors of a process were closed that no call named; which locks ended with them is not known.
    pub fn closed_some(&mut self, seat: Seat) {
        self.forget(|holder| matches!(holder, Holder::Description(_)) || *holder == Holder::Table(seat.table()));
    }

    fn forget(&mut self, may_have_lost: impl Fn(&Holder) -> bool) {
        for file in self.files.values_mut().filter(|file| file.holders.iter().any(&may_have_lost)) {
            *file = Locked::new(&mut self.next);
        }
    }
}

impl Locked {
    fn new(next: &mut u64) -> Locked {
        *next += 1;
        Locked { number: *next, cuts: BTreeSet::new(), holders: Vec::new() }
    }

    /// The bit of a holder; none if there are too many.
    fn bit(&mut self, holder: Holder) -> Option<u32> {
        let known = self.holders.iter().position(|known| *known == holder);
        let at = known.or_else(|| {
            let is_new = self.holders.len() < MOST_HOLDERS;
            is_new.then(|| self.holders.push(holder)).map(|()| self.holders.len() - 1)
        })?;
        u32::try_from(at).ok()
    }

    /// Most of its holders have ended.
    fn is_full(&self) -> bool {
        let ended = self.holders.iter().filter(|holder| **holder == Holder::Ended).count();
        self.holders.len() == MOST_HOLDERS && ended > MOST_HOLDERS / 2
    }

    /// A lock was found: its holder had all of it, and nothing of its kind beside it.
    fn met(&mut self, met: &Met, holder: Holder, told: &mut Told) {
        let (Some(bit), true) = (self.bit(holder), self.cut([met.begin, met.end])) else { return };
        let held = held(met.wish, bit);
        let within = self.things(met.begin, met.end).map(|thing| (thing, Found::Bits { of: bits(bit), are: held }));
        let beside = self.beside(met.begin, met.end).map(|thing| (thing, Found::NoneOf(held)));
        let all = within.chain(beside).map(|(thing, found)| Condition::new(thing, found, Change::Nothing));
        told.all.extend(all);
    }

    /// The bits of those that may hold something.
    fn living(&self) -> u64 {
        let ended = self.holders.iter().enumerate().filter(|(_, holder)| **holder == Holder::Ended);
        !ended.fold(0, |all, (bit, _)| all | bits(bit as u32))
    }

    /// Ranges begin here from now on; whether all are told apart.
    fn cut(&mut self, at: [u64; 2]) -> bool {
        self.cuts.extend(at);
        self.cuts.len() <= MOST_CUTS
    }

    /// The ranges, between places where any begins or ends, that lie within these bytes: a thing each.
    fn things(&self, begin: u64, end: u64) -> impl Iterator<Item = u64> {
        self.cuts.range(begin..end.max(begin)).map(|cut| thing(Thing::Lock, self.number, *cut))
    }

    /// The range before these bytes, where some begins or ends, and the one behind them.
    fn beside(&self, begin: u64, end: u64) -> impl Iterator<Item = u64> {
        let (before, behind) = (self.cuts.range(..begin).next_back(), self.cuts.get(&end));
        before.into_iter().chain(behind).map(|cut| thing(Thing::Lock, self.number, *cut))
    }
}
