//! The order of effects: rows wait a while, so that overlapping calls can be put into the order that their results tell.
//!
//! Goals: calls that do not overlap, and calls of one thread, stay in their order; of those that overlap the one goes
//! first whose result the other would have made impossible; memory is bounded. Non-goals: knowing calls: what a call
//! found and left is given as [`Told`].

use std::collections::{BTreeMap, VecDeque};

use super::search::{Candidate, States, best};
use super::told::{Change, Condition, Found, Told};

/// Something that waits for its place.
#[derive(Debug)]
pub struct Item<T> {
    /// When it took effect, as far as one can tell from itself.
    pub key_ns: u64,
    /// When it began.
    pub begin_ns: u64,
    /// When it was over.
    pub end_ns: u64,
    /// Its thread.
    pub tid: i32,
    /// Whether it is complete; what is not holds back all behind it.
    pub is_ready: bool,
    /// What it is.
    pub what: T,
}

type Place = (u64, u64);

/// Something that has its place.
#[derive(Debug)]
pub struct Placed<T> {
    /// What it is.
    pub what: T,
    /// It saw another call half done.
    pub is_amid: bool,
}

/// Items in the order of their keys.
#[derive(Debug)]
pub struct Window<T> {
    items: BTreeMap<Place, Item<T>>,
    /// The same by when they began: those that last long come late by their keys.
    begins: BTreeMap<Place, Place>,
    next: u64,
    latest_ns: u64,
    states: States,
    /// The order of the next items, where it is settled already.
    settled: VecDeque<Place>,
    /// Items since two threads were at work at the same time.
    quiet: u32,
    /// What changed lately: thing, from, to, begin, end.
    changes: VecDeque<Changed>,
    /// Results that contradict the order, and that no overlapping call explains.
    pub untold: u64,
    /// Results of calls that saw another half done.
    pub amid: u64,
}

#[derive(Debug, Clone, Copy)]
struct Changed {
    thing: u64,
    from: u64,
    to: u64,
    begin_ns: u64,
    end_ns: u64,
}

/// So long a row waits for others that overlap it.
const PATIENCE_NS: u64 = 1_000_000_000;
/// So many wait at most.
const MOST: usize = 1 << 16;
/// So many are looked at together; where they contradict each other so many.
const NEAR: usize = 12;
const WIDE: usize = 40;
/// So long alone a thread needs no memory of what things are.
const QUIET: u32 = 4096;
const LATELY: usize = 64;

impl<T> Default for Window<T> {
    fn default() -> Self {
        Window {
            items: BTreeMap::new(),
            begins: BTreeMap::new(),
            next: 0,
            latest_ns: 0,
            states: States::default(),
            settled: VecDeque::new(),
            quiet: QUIET,
            changes: VecDeque::new(),
            untold: 0,
            amid: 0,
        }
    }
}

impl<T> Window<T> {
    /// Takes in an item; returns its place.
    pub fn push(&mut self, item: Item<T>) -> Place {
        self.latest_ns = self.latest_ns.max(item.end_ns);
        let place = (item.key_ns, self.next);
        self.begins.insert((item.begin_ns, self.next), place);
        self.next += 1;
        if self.settled.back().is_some_and(|last| place < *last) {
            self.settled.clear();
        }
        self.items.insert(place, item);
        place
    }

    /// The latest instant met.
    pub fn latest_ns(&self) -> u64 {
        self.latest_ns
    }

    /// An item that is not complete yet.
    pub fn waiting(&mut self, place: Place) -> Option<&mut Item<T>> {
        self.items.get_mut(&place)
    }

    /// The next in order, if nothing that is still to come can go before it; with `all` the next that there is.
    pub fn pop(&mut self, all: bool, told: &mut dyn FnMut(&mut T) -> Told) -> Option<Placed<T>> {
        let (place, item) = self.items.first_key_value()?;
        let full = self.items.len() > MOST;
        let due = place.0.saturating_add(PATIENCE_NS) < self.latest_ns && item.is_ready;
        if !(all || full || due) {
            return None;
        }
        let chosen = match self.settled.pop_front() {
            Some(settled) => settled,
            None => self.first(*place, told),
        };
        let is_amid = self.quiet < QUIET && self.settle(chosen, told);
        let item = self.items.remove(&chosen)?;
        self.begins.remove(&(item.begin_ns, chosen.1));
        Some(Placed { what: item.what, is_amid })
    }

    /// Which goes first: the one with the smallest key, unless results tell otherwise.
    fn first(&mut self, place: Place, told: &mut dyn FnMut(&mut T) -> Told) -> Place {
        let near = self.near(NEAR);
        let alone = near.iter().all(|at| self.items[at].tid == self.items[&place].tid);
        self.quiet = if alone { self.quiet.saturating_add(1) } else { 0 };
        if self.quiet == QUIET {
            self.states.clear();
            self.changes.clear();
        }
        if self.quiet >= QUIET {
            return place;
        }
        let (mut places, mut calls) = (if alone { vec![place] } else { near }, Vec::new());
        self.ask(&places, &mut calls, told);
        let (mut order, mut cost) = best(&self.states, &calls);
        if cost > 0 {
            places = self.wide(&places);
            self.ask(&places, &mut calls, told);
            (order, cost) = best(&self.states, &calls);
        }
        // What overlaps nothing that comes later stays as it is.
        let mut sorted: Vec<Place> = order.iter().map(|i| places[*i]).collect();
        let certain = match cost {
            0 => self.certain(&order, &calls),
            _ => 1,
        };
        sorted.truncate(certain.max(1));
        self.settled = sorted.into();
        self.settled.pop_front().unwrap_or(place)
    }

    /// How many of an order nothing behind them can move.
    fn certain(&self, order: &[usize], calls: &[Candidate]) -> usize {
        let mut last = 1;
        for cut in 1..order.len() {
            let end = order[..cut].iter().map(|i| calls[*i].end_ns).max().unwrap_or(0);
            let begin = order[cut..].iter().map(|i| calls[*i].begin_ns).min().unwrap_or(u64::MAX);
            if end <= begin {
                last = cut;
            }
        }
        last
    }

    /// Asks those of which nothing is known yet.
    fn ask(&mut self, places: &[Place], calls: &mut Vec<Candidate>, told: &mut dyn FnMut(&mut T) -> Told) {
        for at in &places[calls.len()..] {
            if let Some(item) = self.items.get_mut(at) {
                calls.push(candidate(item, told));
            }
        }
    }

    /// The next few, up to one that is not complete.
    fn near(&self, most: usize) -> Vec<Place> {
        let ready = self.items.iter().take(most).enumerate().take_while(|(i, (_, item))| *i == 0 || item.is_ready);
        ready.map(|(_, (at, _))| *at).collect()
    }

    /// These, those that overlap the first of them, and the next few.
    fn wide(&self, near: &[Place]) -> Vec<Place> {
        let mut out = near.to_vec();
        let end = near.first().and_then(|at| self.items.get(at)).map_or(0, |item| item.end_ns);
        let overlapping = self.begins.range(..(end, 0)).map(|(_, at)| *at).take(WIDE);
        for at in overlapping.chain(self.near(WIDE)) {
            if out.len() < WIDE && !out.contains(&at) && self.items.get(&at).is_some_and(|item| item.is_ready) {
                out.push(at);
            }
        }
        out
    }

    /// Takes in what an item found and left; whether it saw another half done.
    fn settle(&mut self, chosen: Place, told: &mut dyn FnMut(&mut T) -> Told) -> bool {
        let Some(item) = self.items.get_mut(&chosen) else { return false };
        let call = candidate(item, told);
        for c in call.told.all.iter().filter(|c| c.known.is_none() && c.change != Change::Nothing) {
            if let Some((from, to)) = self.states.get(c).and_then(|is| Some((is, c.change.of(Some(is), c.found)?))) {
                self.changes.push_back(Changed {
                    thing: c.thing,
                    from,
                    to,
                    begin_ns: call.begin_ns,
                    end_ns: call.end_ns,
                });
            }
        }
        let many = self.changes.len().saturating_sub(LATELY);
        self.changes.drain(..many);
        let is = |c: &Condition, states: &States| states.get(c);
        let before: Vec<Option<u64>> = call.told.all.iter().map(|c| is(c, &self.states)).collect();
        let (_, impossible) = self.states.settle(&call);
        let Some(impossible) = impossible else { return false };
        let at = call.told.all.iter().position(|c| *c == impossible);
        let was = at.and_then(|at| before[at]);
        if self.saw_amid(chosen, &call, &impossible, was, told) {
            self.amid += 1;
            // What it saw is over at once.
            if let (Some(was), Change::Nothing) = (was, impossible.change) {
                let again = Condition::new(impossible.thing, Found::Anything, Change::To(was));
                let told = Told { all: vec![again], any: Vec::new() };
                self.states.settle(&Candidate { told, ..call });
            }
            return true;
        }
        self.untold += 1;
        false
    }

    /// Whether what a call found lies between what one that overlaps it found and left.
    fn saw_amid(
        &mut self,
        chosen: Place,
        call: &Candidate,
        c: &Condition,
        was: Option<u64>,
        told: &mut dyn FnMut(&mut T) -> Told,
    ) -> bool {
        let (Found::Exactly(saw), Some(was)) = (c.found, was) else { return false };
        let between = |from: u64, to: u64| from.min(to) < saw && saw < from.max(to);
        let overlaps = |begin: u64, end: u64| begin < call.end_ns && call.begin_ns < end;
        if self.changes.iter().any(|o| o.thing == c.thing && overlaps(o.begin_ns, o.end_ns) && between(o.from, o.to)) {
            return true;
        }
        let later: Vec<Place> = self.wide(&[chosen]).into_iter().filter(|at| *at != chosen).collect();
        later.into_iter().any(|at| {
            let Some(item) = self.items.get_mut(&at) else { return false };
            if item.tid == call.tid || !overlaps(item.begin_ns, item.end_ns) {
                return false;
            }
            let other = candidate(item, told);
            let of_thing = other.told.all.iter().filter(|o| o.thing == c.thing);
            of_thing.into_iter().any(|o| o.change.of(Some(was), o.found).is_some_and(|to| between(was, to)))
        })
    }
}

fn candidate<T>(item: &mut Item<T>, told: &mut dyn FnMut(&mut T) -> Told) -> Candidate {
    Candidate { tid: item.tid, begin_ns: item.begin_ns, end_ns: item.end_ns, told: told(&mut item.what) }
}
