//! The order of effects: rows wait a while, so that overlapping calls can be put into the order that their results tell.
//!
//! Goals: calls that do not overlap, and calls of one thread, stay in their order; of those that overlap the one goes
//! first whose result the other would have made impossible; memory is bounded. Non-goals: knowing calls: what a call
//! found and left is given as [`Condition`]s.

use std::collections::{BTreeMap, HashMap};

/// What a call found and left of one thing: a descriptor number, a name, an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// The thing.
    pub thing: u64,
    /// What it must have been, if the result tells.
    pub found: Option<u64>,
    /// What it is from then on, if the call changed it.
    pub left: Option<u64>,
    /// Whether that can be relied on later: nothing but calls changes it.
    pub lasts: bool,
}

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

impl<T> Item<T> {
    fn overlaps(&self, other: &Item<T>) -> bool {
        self.tid != other.tid && self.begin_ns < other.end_ns && other.begin_ns < self.end_ns
    }
}

/// Items in the order of their keys.
#[derive(Debug)]
pub struct Window<T> {
    items: BTreeMap<(u64, u64), Item<T>>,
    next: u64,
    latest_ns: u64,
    /// What things were left as; forgotten all at once when they are many.
    states: HashMap<u64, u64>,
    /// Results that contradict the order, and that no overlapping call explains.
    pub untold: u64,
    /// Items that went before others with an earlier key.
    pub mended: u64,
}

/// So long a row waits for others that overlap it.
const PATIENCE_NS: u64 = 20_000_000;
/// So many wait at most.
const MOST: usize = 1 << 16;
/// So many that overlap are looked at.
const NEAR: usize = 64;
const MOST_STATES: usize = 1 << 16;

impl<T> Default for Window<T> {
    fn default() -> Self {
        Window { items: BTreeMap::new(), next: 0, latest_ns: 0, states: HashMap::new(), untold: 0, mended: 0 }
    }
}

impl<T> Window<T> {
    /// Takes in an item; returns its place.
    pub fn push(&mut self, item: Item<T>) -> (u64, u64) {
        self.latest_ns = self.latest_ns.max(item.end_ns);
        let place = (item.key_ns, self.next);
        self.next += 1;
        self.items.insert(place, item);
        place
    }

    /// The latest instant met.
    pub fn latest_ns(&self) -> u64 {
        self.latest_ns
    }

    /// An item that is not complete yet.
    pub fn waiting(&mut self, place: (u64, u64)) -> Option<&mut Item<T>> {
        self.items.get_mut(&place)
    }

    /// The next in order, if nothing that is still to come can go before it; with `all` the next that there is.
    pub fn pop(&mut self, all: bool, conditions: &mut dyn FnMut(&mut T) -> Vec<Condition>) -> Option<T> {
        let (place, item) = self.items.first_key_value()?;
        let full = self.items.len() > MOST;
        let due = place.0.saturating_add(PATIENCE_NS) < self.latest_ns && item.is_ready;
        if !(all || full || due) {
            return None;
        }
        let chosen = self.first(*place, conditions);
        let item = self.items.remove(&chosen)?;
        if self.states.len() > MOST_STATES {
            self.states.clear();
        }
        Some(item.what)
    }

    /// Which goes first: the one with the smallest key, or one that overlaps it and could not come after it.
    fn first(&mut self, place: (u64, u64), conditions: &mut dyn FnMut(&mut T) -> Vec<Condition>) -> (u64, u64) {
        let mut chosen = place;
        let mut passed = Vec::new();
        loop {
            let Some(tid) = self.items.get(&chosen).map(|item| item.tid) else { return place };
            if self.items.values().take(NEAR).all(|other| other.tid == tid) {
                // Alone there is nothing to be told apart, and nothing to be remembered.
                self.states.clear();
                return chosen;
            }
            let others = self.overlapping(chosen);
            let of_item = self.ask(chosen, conditions);
            let mut better = None;
            for other in others.iter().filter(|other| !passed.contains(*other)) {
                let of_other = self.ask(*other, conditions);
                if goes_first(&of_other, &of_item, &self.states) {
                    better = Some(*other);
                    break;
                }
            }
            passed.push(chosen);
            match better {
                Some(other) if passed.len() < NEAR => {
                    self.mended += 1;
                    chosen = other;
                }
                _ => {
                    self.settle(&of_item, !others.is_empty());
                    return chosen;
                }
            }
        }
    }

    fn ask(&mut self, place: (u64, u64), conditions: &mut dyn FnMut(&mut T) -> Vec<Condition>) -> Vec<Condition> {
        self.items.get_mut(&place).map_or(Vec::new(), |item| conditions(&mut item.what))
    }

    /// Items of other threads that overlap one, each the first of its thread.
    fn overlapping(&self, place: (u64, u64)) -> Vec<(u64, u64)> {
        let Some(item) = self.items.get(&place) else { return Vec::new() };
        let (mut threads, mut out) = (vec![item.tid], Vec::new());
        for (other, candidate) in self.items.iter().take(NEAR) {
            // An earlier item of its thread must go first.
            if threads.contains(&candidate.tid) {
                continue;
            }
            threads.push(candidate.tid);
            if candidate.is_ready && item.overlaps(candidate) {
                out.push(*other);
            }
        }
        // The item itself must be the first of its thread, or nothing goes before it.
        let first = self.items.iter().find(|(_, i)| i.tid == item.tid).map(|(at, _)| *at);
        if first == Some(place) { out } else { Vec::new() }
    }

    fn settle(&mut self, of_item: &[Condition], overlapped: bool) {
        for condition in of_item {
            let known = self.states.get(&condition.thing);
            if overlapped && matches!((known, condition.found), (Some(is), Some(found)) if *is != found) {
                self.untold += 1;
            }
            if let Some(state) = condition.left.or(condition.found).filter(|_| condition.lasts) {
                self.states.insert(condition.thing, state);
            }
        }
    }
}

/// Whether `second`, which would come first by its key, is possible only after `first`, or `first` only before it.
fn goes_first(first: &[Condition], second: &[Condition], states: &HashMap<u64, u64>) -> bool {
    let shared = |c: &&Condition| second.iter().any(|s| s.thing == c.thing);
    if !first.iter().any(|c| shared(&c)) {
        return false;
    }
    !is_possible(second, first, states) && is_possible(first, second, states)
}

/// Whether one can be followed by the other.
fn is_possible(one: &[Condition], other: &[Condition], states: &HashMap<u64, u64>) -> bool {
    one.iter().all(|c| fits(states.get(&c.thing).copied(), c.found))
        && other.iter().all(|c| {
            let after = one.iter().rev().find(|o| o.thing == c.thing).and_then(|o| o.left.or(o.found));
            fits(after.or_else(|| states.get(&c.thing).copied()), c.found)
        })
}

fn fits(is: Option<u64>, found: Option<u64>) -> bool {
    match (is, found) {
        (Some(is), Some(found)) => is == found,
        _ => true,
    }
}
