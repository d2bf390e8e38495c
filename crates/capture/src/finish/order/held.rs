//! Which files are open where: the file that a call wrote to whose number another thread closed meanwhile, and whether a number
//! that ends is the last of its open file.
//!
//! The kernel tells which files stand behind the numbers of a call when that returns. A write that waited for the disk had its file
//! in hand since it began; behind the number there may be none by then, or another.

use std::collections::hash_map::Entry;

use foldhash::{HashMap, HashSet};
use reprise_calls::closing::closes;
use reprise_calls::{Effect, Envelope};
use reprise_initial::Seat;
use reprise_trace::payload::{Side, split};

use super::super::decode::Pending;
use super::super::told::{Change, Condition, Found};
use super::content::{appends, is_regular, size_of};
use super::{EBADF, closed_by_name, opened, sends};
use crate::arguments::failed;
use crate::spool::record::Object;

/// A call so short had what was seen when it was over, unless nothing was.
const SHORT_NS: u64 = 50_000;

/// What becomes of an open file when a number of it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was the last, and what is locked by it is free.
    Ends,
    /// There are others.
    Stays,
    /// Whether there are others is not known.
    Unknown,
}

/// A number that leads to an open file.
#[derive(Debug, Clone, Copy)]
struct Number {
    file: Object,
    /// When the call was over that opened it.
    since_ns: u64,
}

/// What is known of a table of descriptors.
#[derive(Debug, Default, Clone)]
struct Table {
    /// Open files by number, as calls that have their place opened and closed them.
    open: HashMap<i32, Number>,
    /// Open files that it may have besides: they were open when all that was known of its numbers became void.
    perhaps: HashSet<u64>,
}

impl Table {
    /// Open files that it has, or may have.
    fn all(&self) -> impl Iterator<Item = u64> {
        self.open.values().map(|number| number.file.id).chain(self.perhaps.iter().copied())
    }
}

/// Open files of all tables.
#[derive(Debug, Default)]
pub(super) struct Held {
    tables: HashMap<u32, Table>,
    /// How many numbers lead to an open file.
    numbers: HashMap<u64, u32>,
    /// How many tables may have an open file besides.
    perhaps: HashMap<u64, u32>,
    /// Open files that may be held without a number: by mappings, rings and messages.
    elsewhere: HashSet<u64>,
}

impl Held {
    /// A call has its place.
    pub(super) fn took_place(&mut self, seat: Seat, pending: &Pending) {
        let (call, action) = (pending.call, &pending.action);
        let number = |file: Option<&Object>| file.map(|file| Number { file: *file, since_ns: action.end_ns() });
        match call.effect {
            // The number is gone, whatever the file system says of its file.
            Effect::Close if action.result != EBADF && closes(action.result, action.request.is_some()) => {
                self.keep(seat, action.args[0] as i32, None);
            }
            _ if failed(action.result) => {}
            Effect::CloseRange => closed_by_name(&action.args).for_each(|fd| self.keep(seat, fd as i32, None)),
            Effect::DuplicateTo => {
                let object = pending.object(action.args[1]);
                object.into_iter().for_each(|object| self.meet(object.id));
                self.keep(seat, action.args[1] as i32, number(object));
            }
            Effect::Map => self.elsewhere.extend(pending.object(action.args[4]).map(|object| object.id)),
            Effect::Message => self.sent(seat, pending),
            // It may keep files of its own.
            Effect::Asynchronous if call.name == "io_uring_register" => {
                let table = self.tables.get(&seat.table()).into_iter();
                self.elsewhere.extend(table.flat_map(Table::all));
            }
            _ => opened(pending).for_each(|fd| {
                let object = pending.object(fd);
                let id = object.map(|object| object.id);
                match call.effect {
                    Effect::Open | Effect::MakeObject(_) => id.into_iter().for_each(|id| self.begin(seat, id)),
                    _ => id.into_iter().for_each(|id| self.meet(id)),
                }
                self.keep(seat, fd as i32, number(object));
            }),
        }
    }

    /// An open file is new, even where the kernel gives it the memory of an earlier one.
    fn begin(&mut self, seat: Seat, id: u64) {
        self.elsewhere.remove(&id);
        if self.tables.get_mut(&seat.table()).is_some_and(|table| table.perhaps.remove(&id)) {
            fewer(&mut self.perhaps, id);
        }
    }

    /// A number that comes of another: where no call told of the open file before, other numbers of it are not known.
    fn meet(&mut self, id: u64) {
        if !self.numbers.contains_key(&id) && !self.perhaps.contains_key(&id) {
            self.elsewhere.insert(id);
        }
    }

    /// A number leads there from now on.
    fn keep(&mut self, seat: Seat, fd: i32, number: Option<Number>) {
        let table = self.tables.entry(seat.table()).or_default();
        let before = match number {
            Some(number) => table.open.insert(fd, number),
            None => table.open.remove(&fd),
        };
        number.into_iter().for_each(|number| more(&mut self.numbers, number.file.id));
        before.into_iter().for_each(|number| fewer(&mut self.numbers, number.file.id));
    }

    /// Open files that a message takes along are open until somebody has it.
    fn sent(&mut self, seat: Seat, pending: &Pending) {
        let Some(table) = self.tables.get(&seat.table()).filter(|_| sends(pending.call)) else { return };
        let given = split(pending.call, Side::Input, &pending.action.input);
        let envelopes = given.into_iter().flatten().flat_map(Envelope::decode);
        for fd in envelopes.flat_map(|envelope| envelope.descriptors) {
            match table.open.get(&(fd as i32)) {
                Some(number) => _ = self.elsewhere.insert(number.file.id),
                None => self.elsewhere.extend(&table.perhaps),
            }
        }
    }

    /// A table begins as a copy of another.
    pub(super) fn copied(&mut self, from: Seat, to: Seat) {
        if let Some(table) = self.tables.get(&from.table()).cloned() {
            table.open.values().for_each(|number| more(&mut self.numbers, number.file.id));
            table.perhaps.iter().for_each(|id| more(&mut self.perhaps, *id));
            self.ended(to);
            self.tables.insert(to.table(), table);
        }
    }

    /// Nothing is known any more of the numbers of a table.
    pub(super) fn forget(&mut self, seat: Seat) {
        let Some(table) = self.tables.get_mut(&seat.table()) else { return };
        for Number { file, .. } in std::mem::take(&mut table.open).into_values() {
            fewer(&mut self.numbers, file.id);
            if table.perhaps.insert(file.id) {
                more(&mut self.perhaps, file.id);
            }
        }
    }

    /// All numbers of a table ended.
    pub(super) fn ended(&mut self, seat: Seat) {
        let Some(table) = self.tables.remove(&seat.table()) else { return };
        table.open.values().for_each(|number| fewer(&mut self.numbers, number.file.id));
        table.perhaps.iter().for_each(|id| fewer(&mut self.perhaps, *id));
    }

    /// What the end of a number does to its open file.
    pub(super) fn fate(&self, seat: Seat, fd: i32, id: u64) -> Fate {
        let held = self.tables.get(&seat.table()).and_then(|table| table.open.get(&fd));
        let own = u32::from(held.is_some_and(|held| held.file.id == id));
        if own == 0 { Fate::Unknown } else { self.fate_without_some(id, own, 0) }
    }

    /// What the end of a whole table does to an open file.
    pub(super) fn fate_without(&self, seat: Seat, id: u64) -> Fate {
        let Some(table) = self.tables.get(&seat.table()) else { return self.fate_without_some(id, 0, 0) };
        let own = table.open.values().filter(|number| number.file.id == id).count();
        self.fate_without_some(id, own as u32, u32::from(table.perhaps.contains(&id)))
    }

    /// What becomes of an open file that has so many numbers less, and may be in so many tables less.
    fn fate_without_some(&self, id: u64, numbers: u32, perhaps: u32) -> Fate {
        let count = |of: &HashMap<u64, u32>| of.get(&id).copied().unwrap_or(0);
        match (count(&self.numbers), count(&self.perhaps)) {
            _ if self.elsewhere.contains(&id) => Fate::Unknown,
            (all, _) if all > numbers => Fate::Stays,
            // Nobody has told of it.
            (0, 0) => Fate::Unknown,
            (_, all) if all > perhaps => Fate::Unknown,
            _ => Fate::Ends,
        }
    }

    /// Whether a table may have a number of an open file.
    pub(super) fn may_be_in(&self, seat: Seat, id: u64) -> bool {
        let is_known = self.numbers.contains_key(&id) && !self.elsewhere.contains(&id);
        let has = |table: &Table| table.perhaps.contains(&id) || table.open.values().any(|number| number.file.id == id);
        !is_known || self.tables.get(&seat.table()).is_some_and(has)
    }

    /// The file that a call wrote to, if behind its number there was another, or none, when it was over.
    fn lost(&self, seat: Seat, pending: &Pending) -> Option<&Object> {
        let action = &pending.action;
        if pending.call.effect != Effect::Write || action.result <= 0 {
            return None;
        }
        let held = &self.tables.get(&seat.table())?.open.get(&(action.args[0] as i32))?.file;
        if !is_regular(held) {
            return None;
        }
        match pending.object(action.args[0]) {
            Some(seen) if seen.id == held.id || action.duration_ns < SHORT_NS => None,
            // It is told what that had.
            Some(_) if action.request.is_some() => None,
            _ => Some(held),
        }
    }

    /// When a request can have begun at the earliest whose file was opened after it was submitted: threads of the kernel's own look
    /// numbers up when they begin with requests.
    pub(super) fn looked_up_ns(&self, seat: Seat, pending: &Pending) -> Option<u64> {
        let table = self.tables.get(&seat.table()).filter(|_| pending.action.request.is_some())?;
        let file = pending.objects.first()?;
        let number = table.open.get(&file.fd).filter(|number| number.file.id == file.id)?;
        Some(number.since_ns).filter(|since_ns| *since_ns > pending.action.begin_ns)
    }

    /// What a write left of such a file; false: it was given no such file.
    pub(super) fn written(&self, seat: Seat, pending: &Pending, out: &mut Vec<Condition>) -> bool {
        let Some(held) = self.lost(seat, pending) else { return false };
        let moved = pending.action.result.unsigned_abs();
        let change = match pending.given_offset() {
            _ if appends(pending, held) => Change::More(moved),
            Some(at) => Change::UpTo(at.saturating_add(moved)),
            None => Change::Unknown,
        };
        out.push(Condition::new(size_of(held), Found::Anything, change));
        true
    }
}

/// One more of a thing.
fn more(counts: &mut HashMap<u64, u32>, of: u64) {
    *counts.entry(of).or_default() += 1;
}

/// One less; what there is none of has no entry.
fn fewer(counts: &mut HashMap<u64, u32>, of: u64) {
    if let Entry::Occupied(mut count) = counts.entry(of) {
        match count.get() {
            1 => drop(count.remove()),
            _ => *count.get_mut() -= 1,
        }
    }
}
