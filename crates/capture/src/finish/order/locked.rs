//! Who has which ranges of a file locked, as of the calls that have their places.
//!
//! Goals: ranges are cut where any lock begins or ends, and each part keeps what is known of the whole. Non-goals: very many
//! ranges, of which those are told apart that were spoken of last.

use std::collections::BTreeMap;

use super::super::told::{Change, Condition, Found, Told};
use super::locks::{Met, Request};
use super::{Thing, thing};
use reprise_calls::locking::Wish;

/// More ranges of a file are not told apart.
const MOST_RANGES: usize = 256;
/// Holders of a file's locks; each has a bit for shared and one for exclusive ones.
const MOST_HOLDERS: usize = 32;
const EXCLUSIVE: u32 = 32;

/// Who holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// A process, by its table of descriptors.
    Table(u32),
    /// An open file description.
    Description(u64),
    /// A process that has ended, and what it held with it.
    Ended,
}

/// A range, from where it begins to the next one.
#[derive(Debug, Clone, Copy)]
struct Range {
    /// Its number.
    number: u64,
    /// When it was spoken of last.
    turn: u64,
    /// Locks by bit; `None` if they are not known.
    held: Option<u64>,
}

/// Locks of one file, or those that `flock` knows.
#[derive(Debug)]
pub(super) struct Locked {
    /// By where they begin.
    ranges: BTreeMap<u64, Range>,
    /// Before the first of them.
    held: Option<u64>,
    /// By bit.
    holders: Vec<Holder>,
}

impl Default for Locked {
    fn default() -> Locked {
        Locked { ranges: BTreeMap::new(), held: Some(0), holders: Vec::new() }
    }
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

impl Locked {
    /// One of which nobody knows who has it locked.
    pub fn unknown() -> Locked {
        Locked { held: None, ..Locked::default() }
    }

    /// The bit of a holder; none if there are too many.
    pub fn bit(&mut self, holder: Holder) -> Option<u32> {
        let known = self.holders.iter().position(|known| *known == holder);
        if known.is_none() && self.is_full() {
            *self = Locked::unknown();
        }
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

    /// The open files that hold locks, or have held some.
    pub fn descriptions(&self) -> Vec<u64> {
        let id = |holder: &Holder| match holder {
            Holder::Description(id) => Some(*id),
            Holder::Table(_) | Holder::Ended => None,
        };
        self.holders.iter().filter_map(id).collect()
    }

    /// All bits of such holders.
    pub fn bits_of(&self, is_such: impl Fn(&Holder) -> bool) -> u64 {
        let such = self.holders.iter().enumerate().filter(|(_, holder)| is_such(holder));
        such.fold(0, |all, (bit, _)| all | bits(bit as u32))
    }

    /// What somebody found in each range who got the wish of a request, or did not, and what is there from now on.
    pub fn outcome(&self, request: &Request, bit: u32, could: bool) -> (Found, Change) {
        let own = bits(bit);
        // Also those of whom nothing was heard yet: their calls may have waited.
        let others = !(own | self.bits_of(|holder| *holder == Holder::Ended));
        let in_its_way = match request.wish {
            Wish::Shared => others & u64::MAX << EXCLUSIVE,
            Wish::Exclusive => others,
            Wish::Free => 0,
        };
        let taken = held(request.wish, bit);
        match (could, request.wish) {
            (false, _) => (Found::SomeOf(in_its_way), Change::Nothing),
            _ if request.asks => (Found::NoneOf(in_its_way), Change::Nothing),
            // Nobody else has any.
            (true, Wish::Exclusive) => (Found::NoneOf(in_its_way), Change::To(taken)),
            (true, Wish::Shared | Wish::Free) => (Found::NoneOf(in_its_way), Change::Bits(own, taken)),
        }
    }

    /// The same of every range that lies within these bytes.
    pub fn conditions(
        &self,
        begin: u64,
        end: u64,
        found: Found,
        change: Change,
    ) -> impl Iterator<Item = Condition> + use<'_> {
        self.ranges.range(begin..end.max(begin)).map(move |(_, range)| range.condition(found, change))
    }

    /// A lock was found: its holder had all of it, and nothing of its kind beside it.
    pub fn met(&mut self, met: &Met, holder: Holder, told: &mut Told) {
        let Some(bit) = self.bit(holder) else { return };
        let held = held(met.wish, bit);
        let within = Found::Bits { of: bits(bit), are: held };
        let before = self.ranges.range(..met.begin).next_back().map(|(_, range)| range);
        let beside = before.into_iter().chain(self.ranges.get(&met.end));
        told.all.extend(beside.map(|range| range.condition(Found::NoneOf(held), Change::Nothing)));
        told.all.extend(self.conditions(met.begin, met.end, within, Change::Nothing));
    }

    /// A call that changed these bytes has its place.
    pub fn apply(&mut self, begin: u64, end: u64, found: Found, change: Change) {
        for (_, range) in self.ranges.range_mut(begin..end.max(begin)) {
            let is = range.held.filter(|held| found.fits(Some(*held)));
            range.held = change.of(is, found);
        }
    }

    /// What had one of these bits is not known any more.
    pub fn unsettle(&mut self, bits: u64) {
        let such = self.ranges.values_mut().filter(|range| range.held.is_some_and(|held| held & bits != 0));
        such.for_each(|range| range.held = None);
    }

    /// A holder is gone, and with it what it held.
    pub fn ended(&mut self, holder: Holder) {
        let gone = self.bits_of(|known| *known == holder);
        self.ranges.values_mut().for_each(|range| range.held = range.held.map(|held| held & !gone));
        self.holders.iter_mut().filter(|known| **known == holder).for_each(|known| *known = Holder::Ended);
    }

    /// Ranges begin here from now on.
    pub fn cut(&mut self, at: [u64; 2], next: &mut u64) {
        *next += 1;
        let turn = *next;
        for begin in at {
            let before = self.ranges.range(..=begin).next_back().map(|(_, range)| *range);
            let held = before.map_or(self.held, |range| range.held);
            let mut number = || {
                *next += 1;
                *next
            };
            self.ranges.entry(begin).or_insert_with(|| Range { number: number(), turn, held }).turn = turn;
        }
        while self.ranges.len() > MOST_RANGES {
            let oldest = self.ranges.iter().min_by_key(|(_, range)| range.turn).map(|(begin, _)| *begin);
            let Some((begin, gone)) = oldest.and_then(|begin| self.ranges.remove_entry(&begin)) else { return };
            // What is true of one part only is not known of the whole.
            let before = self.ranges.range_mut(..begin).next_back();
            let held = before.map_or(&mut self.held, |(_, range)| &mut range.held);
            *held = held.filter(|held| Some(*held) == gone.held);
        }
    }
}

impl Range {
    fn condition(&self, found: Found, change: Change) -> Condition {
        Condition { known: Some(self.held), ..Condition::new(thing(Thing::Lock, self.number, 0), found, change) }
    }
}
