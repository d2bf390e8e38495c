//! The order of effects: rows wait a while, so that overlapping calls can be put into the order that their results tell.
//!
//! Goals: calls that do not overlap, and calls of one thread, stay in their order; of those that overlap the one goes
//! first whose result the other would have made impossible; memory is bounded. Non-goals: knowing calls: what a call
//! found and left is given as [`Told`].

use std::collections::VecDeque;
use std::rc::Rc;

use super::ahead::{ALONE, Ahead, Instants, Outlook};
use super::queue::{Held, Queue};
pub use super::queue::{Item, Place};
use super::search::{Candidate, Changed, FEW_TRIALS, States, TRIALS, best, is_between};
use super::told::{Change, Condition, DIRECTORY, Found, Told};

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
    items: Queue<Waiting<T>>,
    latest_ns: u64,
    states: States,
    /// The order of the next items, where it is settled already.
    settled: VecDeque<Place>,
    /// Which of the next items overlap no other that matters.
    ahead: Ahead,
    /// When what has its place was over at the latest.
    over: Instants,
    /// Items that got their places.
    placed: u64,
    /// Of these, how many the last was at that may have changed what others tell that lasts.
    changed: u64,
    /// Items since two threads were at work at the same time.
    quiet: u32,
    /// How often in a row no order was found that explains all.
    in_vain: u32,
    /// What calls changed that went before their turn, for where they began: what they did came later, perhaps. Until they are over.
    early: Vec<Changed>,
    /// Results that contradict the order, and that no overlapping call explains.
    pub untold: u64,
}

/// What waits for its place, and what it tells, once that was asked.
#[derive(Debug)]
struct Waiting<T> {
    what: T,
    known: Option<Known>,
}

/// What was told when so many items had their places.
#[derive(Debug)]
struct Known {
    told: Rc<Told>,
    placed: u64,
}

/// Tells what an item found and left.
type Teller<'a, T> = &'a mut dyn FnMut(&T) -> Told;

/// Calls that lasted longer than the next few.
#[derive(Debug, Default)]
struct Late {
    /// All that were looked at.
    places: Vec<Place>,
    /// They can have gone before some of the next few, or these before them; what they found is so now.
    may_precede: Vec<(Place, Candidate)>,
    /// What one of these found is not so yet.
    is_unsure: bool,
}

/// So long a row waits for others that overlap it.
const PATIENCE_NS: u64 = 1_000_000_000;
/// So many wait at most.
const MOST: usize = 1 << 16;
/// So many are looked at together; where they contradict each other so many.
const NEAR: usize = ALONE;
const WIDE: usize = 40;
/// So many that come late by their keys.
const LATE: usize = 6;
/// So long alone a thread needs no memory of what things are.
const QUIET: u32 = 4096;
/// So often in vain, and seldom then.
const IN_VAIN: u32 = 256;
const SELDOM: u32 = 16;

impl<T> Default for Window<T> {
    fn default() -> Window<T> {
        Window {
            items: Queue::default(),
            latest_ns: 0,
            states: States::default(),
            settled: VecDeque::new(),
            ahead: Ahead::default(),
            over: Instants::all(0),
            placed: 0,
            changed: 0,
            quiet: QUIET,
            in_vain: 0,
            early: Vec::new(),
            untold: 0,
        }
    }
}

impl<T> Window<T> {
    /// Takes in an item; returns its place.
    pub fn push(&mut self, item: Item<T>) -> Place {
        self.latest_ns = self.latest_ns.max(item.end_ns);
        let Item { key_ns, begin_ns, end_ns, tid, is_ready, reach, shown, what } = item;
        let what = Waiting { what, known: None };
        let place = self.items.push(Item { key_ns, begin_ns, end_ns, tid, is_ready, reach, shown, what });
        if self.settled.iter().any(|settled| place < *settled) {
            self.settled.clear();
        }
        self.ahead.came(place);
        place
    }

    /// Between how many pairs of items nothing tells which came first, though it makes a difference.
    pub fn guessed(&self) -> u64 {
        self.states.guessed
    }

    /// The latest instant met.
    pub fn latest_ns(&self) -> u64 {
        self.latest_ns
    }

    /// An item is complete as it is: it holds back nothing any more.
    pub fn complete(&mut self, place: Place) {
        self.items.get_mut(place).into_iter().for_each(|item| item.is_ready = true);
    }

    /// Takes one out that has not its place yet.
    pub fn remove(&mut self, place: Place) -> Option<T> {
        if self.settled.contains(&place) {
            self.settled.clear();
        }
        Some(self.items.remove(place)?.what)
    }

    fn is_ready(&self, place: Place) -> bool {
        self.items.get(place).is_some_and(|item| item.is_ready)
    }

    /// The next in order, if nothing that is still to come can go before it; with `all` the next that there is.
    pub fn pop(&mut self, all: bool, told: Teller<'_, T>) -> Option<Placed<T>> {
        let place = self.items.places().next()?;
        let full = self.items.len() > MOST;
        let due = || place.key_ns.saturating_add(PATIENCE_NS) < self.latest_ns && self.is_ready(place);
        if !(all || full || due()) {
            return None;
        }
        let (chosen, outlook) = match self.settled.pop_front() {
            Some(settled) => (settled, Outlook::default()),
            None => self.first(place, told),
        };
        let is_quiet = self.quiet >= QUIET;
        if is_quiet || outlook.is_clear && self.needs_no_asking(chosen) {
            self.placed(!is_quiet);
            return self.give(chosen, false);
        }
        let turn = chosen;
        let chosen = self.begun_there(turn, told)?;
        let chosen = self.seen_half_done(chosen, told).unwrap_or(chosen);
        let is_amid = self.settle(chosen, chosen != turn, told);
        self.give(chosen, is_amid)
    }

    /// Whether an item that nothing to come concerns changes nothing, has met nothing that concerns it, and shows what is known.
    fn needs_no_asking(&self, place: Place) -> bool {
        let is_after = || self.over.concerning(place.reach, |end_ns| place.begin_ns >= end_ns);
        let is_known = || self.shown_at(place).is_none_or(|(thing, value)| self.states.is_known(thing, value));
        !place.reach.changes() && self.early.is_empty() && is_after() && is_known()
    }

    fn give(&mut self, place: Place, is_amid: bool) -> Option<Placed<T>> {
        let item = self.items.remove(place)?;
        let over = self.over.of(place.reach);
        *over = place.end_ns.max(*over);
        Some(Placed { what: item.what, is_amid })
    }

    /// An item as a candidate for its place. It is asked again only if those that got theirs since can have changed what it tells.
    fn ask(&mut self, place: Place, told: Teller<'_, T>) -> Option<Candidate> {
        let (placed, changed) = (self.placed, self.changed);
        let item = self.items.get_mut(place)?;
        let is_so = |known: &Known| if known.told.lasts { known.placed >= changed } else { known.placed == placed };
        let told = match &item.what.known {
            Some(known) if is_so(known) => known.told.clone(),
            _ => {
                let told = Rc::new(told(&item.what.what));
                let is_within = place.reach.changes() || told.all.iter().all(|c| c.change == Change::Nothing);
                debug_assert!(is_within, "{:?}: {told:?}", place.reach);
                item.what.known = Some(Known { told: told.clone(), placed });
                told
            }
        };
        Some(Candidate { tid: place.tid, begin_ns: place.begin_ns, end_ns: place.end_ns, told })
    }

    /// The chosen one; before a call that makes others begin elsewhere another goes that began earlier, and there: it was on its
    /// way when the other came.
    fn begun_there(&mut self, mut chosen: Place, told: Teller<'_, T>) -> Option<Place> {
        while let Some(beginning) = self.ask(chosen, told)?.told.moves
            && let Some(earlier) = self.earlier(chosen, beginning, told)
        {
            self.settled.clear();
            chosen = earlier;
        }
        Some(chosen)
    }

    /// A call that began before this one, at this beginning, as far as its result tells: the first of its thread. Where
    /// others began before, too, and went before it where they met, the first of these.
    fn earlier(&mut self, moving: Place, beginning: u64, told: Teller<'_, T>) -> Option<Place> {
        let mut tids = vec![moving.tid];
        let mut begun: Vec<(Place, Rc<Told>)> = Vec::new();
        for at in self.items.begun_before(moving.begin_ns, WIDE, &[]) {
            if tids.contains(&at.tid) {
                continue;
            }
            tids.push(at.tid);
            let ready = self.is_ready(at).then(|| self.ask(at, told)).flatten();
            begun.extend(ready.map(|call| (at, call.told)));
        }
        begun.retain(|(_, found)| self.states.permit(found));
        let (at, found) = begun.iter().find(|(_, found)| found.begins_at.contains(&Some(beginning)))?;
        let meets = |(other, told): &&(Place, Rc<Told>)| {
            other < at && told.all.iter().any(|one| found.all.iter().any(|c| concerns(c, one)))
        };
        Some(begun.iter().filter(meets).map(|(other, _)| *other).min().unwrap_or(*at))
    }

    /// Who is seen half done by the chosen one, if it can have its turn: behind it what was seen stands as it was found, with more
    /// behind that; before it, it is not there.
    fn seen_half_done(&mut self, chosen: Place, told: Teller<'_, T>) -> Option<Place> {
        let call = self.ask(chosen, told)?;
        for c in call.told.all.iter().filter(|c| c.in_steps && c.change == Change::Nothing) {
            let (Found::Exactly(saw), Some(was)) = (c.found, self.states.value(c)) else { continue };
            if saw == was {
                continue;
            }
            let left = self.others_leave(chosen, &call, (c.thing, was), told);
            let past = left.into_iter().filter(|(_, to)| is_between(was, *to, saw)).map(|(at, _)| at);
            if let Some(other) = past.min_by_key(|at| at.begin_ns).filter(|at| self.may_go_next(*at, told)) {
                self.settled.clear();
                return Some(other);
            }
        }
        None
    }

    /// Whether all that must go before an item has its place: what was over when it began.
    fn may_go_next(&mut self, place: Place, told: Teller<'_, T>) -> bool {
        let before = |at: &Place| at.end_ns <= place.begin_ns || at.tid == place.tid;
        let may_precede = self.items.places().take_while(|at| at.key_ns <= place.begin_ns);
        !may_precede.into_iter().any(|at| before(&at))
            && self.ask(place, told).is_some_and(|call| !call.told.is_too_early && self.states.permit(&call.told))
    }

    /// Which goes first: the one with the smallest key, unless results tell otherwise. And what is known of it, if none was sought.
    fn first(&mut self, place: Place, told: Teller<'_, T>) -> (Place, Outlook) {
        let outlook = self.ahead.of_first(place, &self.items);
        self.quiet = if outlook.is_alone { self.quiet.saturating_add(1) } else { 0 };
        if self.quiet == QUIET {
            self.states.clear();
            self.early.clear();
        }
        if self.quiet >= QUIET || outlook.is_clear || self.tells_nothing_new(place, told) {
            return (place, outlook);
        }
        let first = self.searched(place, outlook.is_alone, told);
        (first, Outlook::default())
    }

    /// Searches for an order of the next few; the first of them.
    fn searched(&mut self, place: Place, is_alone: bool, told: Teller<'_, T>) -> Place {
        let (mut places, mut calls) = (if is_alone { vec![place] } else { self.near(NEAR) }, Vec::new());
        self.ask_all(&places, &mut calls, told);
        let late = self.late(&places, &calls, told);
        if !late.may_precede.is_empty() {
            for (at, call) in late.may_precede {
                places.push(at);
                calls.push(call);
            }
            (places, calls) = sorted(places, calls);
        }
        before_others_turn(&mut places, &mut calls);
        let trials = if self.is_in_vain() { FEW_TRIALS } else { TRIALS };
        let (mut order, mut cost) = best(&self.states, &calls, self.unseen_ns(&places), trials);
        if cost > 0 && self.is_in_vain() {
            self.in_vain = self.in_vain.wrapping_add(1);
        } else if cost > 0 {
            places = self.wide(&places);
            self.ask_all(&places, &mut calls, told);
            (places, calls) = sorted(places, calls);
            before_others_turn(&mut places, &mut calls);
            (order, cost) = best(&self.states, &calls, self.unseen_ns(&places), trials);
            self.in_vain = if cost > 0 { self.in_vain.wrapping_add(1) } else { 0 };
        } else {
            self.in_vain = 0;
        }
        let certain = match cost {
            0 if !late.is_unsure => self.certain(&order, &calls, &[&places[..], &late.places].concat()),
            _ => 1,
        };
        let certain = certain.max(1).min(self.in_turn(&order, &places));
        self.settled = order.iter().take(certain).map(|i| places[*i]).collect();
        self.settled.pop_front().unwrap_or(place)
    }

    fn tells_nothing_new(&mut self, place: Place, told: Teller<'_, T>) -> bool {
        self.ask(place, told).is_some_and(|call| self.states.tells_nothing_new(&call.told))
    }

    /// Whether looking further for an order is given up for now: it has been in vain for long, and is tried seldom.
    fn is_in_vain(&self) -> bool {
        self.in_vain >= IN_VAIN && !self.in_vain.is_multiple_of(SELDOM)
    }

    /// How many of an order nothing that was not looked at can go before: they were over when that began. What follows a call
    /// that makes others begin elsewhere is asked again, and so is what tells nothing before its thread is known, with all
    /// behind it.
    fn certain(&self, order: &[usize], calls: &[Candidate], looked_at: &[Place]) -> usize {
        let begin = self.unseen_ns(looked_at);
        let is_over = |call: &Candidate| call.end_ns <= begin && !call.told.is_too_early;
        let over = order.iter().take_while(|i| is_over(&calls[**i])).count();
        // So is what passes a directory that did not stand before.
        let makes_way = |c: &Condition| c.is_passed && c.change == Change::To(DIRECTORY);
        let turns = |told: &Told| told.turns || told.all.iter().any(makes_way);
        let turn = order[..over].iter().position(|i| turns(&calls[*i].told));
        turn.map_or(over, |at| at + 1)
    }

    /// How many of an order come before others have their turn that are not in it: what comes late by its key may go before those in
    /// the order that it comes behind, not before these.
    fn in_turn(&self, order: &[usize], places: &[Place]) -> usize {
        let Some(other) = self.unseen(places).next() else { return order.len() };
        let is_before = |i: &usize| places[*i] < other;
        order.iter().rposition(is_before).map_or(1, |last| last + 1)
    }

    /// When what was not looked at begins at the earliest.
    fn unseen_ns(&self, looked_at: &[Place]) -> u64 {
        self.unseen(looked_at).map(|at| at.begin_ns).min().unwrap_or(u64::MAX)
    }

    /// Of the next few those that were not looked at.
    fn unseen(&self, looked_at: &[Place]) -> impl Iterator<Item = Place> {
        let mut seen = looked_at.to_vec();
        seen.sort_unstable();
        let mut seen = seen.into_iter().peekable();
        self.items.places().take(NEAR + WIDE).filter(move |at| {
            while seen.next_if(|next| next < at).is_some() {}
            seen.next_if_eq(at).is_none()
        })
    }

    /// Those that overlap the next few and come late by their keys, since they lasted long.
    fn late(&mut self, near: &[Place], calls: &[Candidate], told: Teller<'_, T>) -> Late {
        let mut late = Late::default();
        let end = calls.iter().map(|call| call.end_ns).max().unwrap_or(0);
        let concern = |one: &Condition| calls.iter().any(|c| c.told.found().any(|found| concerns(found, one)));
        late.places = self.items.begun_before(end, LATE, near);
        let (mut calls_seen, mut held): (Vec<(Place, Candidate, bool)>, Vec<i32>) = (Vec::new(), Vec::new());
        for at in &late.places {
            if !self.is_ready(*at) {
                held.push(at.tid);
                continue;
            }
            let Some(call) = self.ask(*at, told) else { continue };
            let is_concerned = call.told.all.iter().chain(&call.told.any).any(concern);
            if held.contains(&call.tid) || !self.states.permit(&call.told) {
                late.is_unsure |= is_concerned;
                held.push(call.tid);
                continue;
            }
            calls_seen.push((*at, call, is_concerned));
        }
        // None goes before an earlier one of its thread: that comes along.
        let mut threads = Vec::new();
        for (at, call, is_concerned) in calls_seen.into_iter().rev() {
            if is_concerned {
                threads.push(call.tid);
            }
            if threads.contains(&call.tid) {
                late.may_precede.push((at, call));
            }
        }
        late
    }

    /// Asks those of which nothing is known yet.
    fn ask_all(&mut self, places: &[Place], calls: &mut Vec<Candidate>, told: Teller<'_, T>) {
        calls.extend(places[calls.len()..].iter().filter_map(|at| self.ask(*at, told)));
    }

    /// The next few, up to one that is not complete.
    fn near(&self, most: usize) -> Vec<Place> {
        self.next_few(most).map(|(at, _)| at).collect()
    }

    fn next_few(&self, most: usize) -> impl Iterator<Item = (Place, &Held<Waiting<T>>)> {
        let ready = self.items.iter().take(most).enumerate().take_while(|(i, (_, item))| *i == 0 || item.is_ready);
        ready.map(|(_, next)| next)
    }

    /// These, those that overlap the first of them, and the next few.
    fn wide(&self, near: &[Place]) -> Vec<Place> {
        let mut out = near.to_vec();
        let end = near.first().map_or(0, |at| at.end_ns);
        for at in self.items.begun_before(end, WIDE, near).into_iter().chain(self.near(WIDE)) {
            if out.len() < WIDE && !out.contains(&at) && self.is_ready(at) {
                out.push(at);
            }
        }
        out
    }

    /// Takes in what an item found and left; whether it saw another half done.
    fn settle(&mut self, chosen: Place, is_early: bool, told: Teller<'_, T>) -> bool {
        let Some(call) = self.ask(chosen, told) else { return false };
        if self.early.is_empty() && self.states.tells_nothing_new(&call.told) {
            self.learn(chosen);
            self.placed(call.told.lasts);
            return false;
        }
        self.note_early(&call, is_early);
        let is_amid = self.took_place(chosen, &call, told);
        self.placed(call.told.lasts);
        is_amid
    }

    /// What an item shows that tells nothing new may be known by other means; those that show the same need not be asked.
    fn learn(&mut self, place: Place) {
        let shown = self.shown_at(place);
        shown.into_iter().for_each(|(thing, value)| self.states.learn(thing, value));
    }

    fn shown_at(&self, place: Place) -> Option<(u64, u64)> {
        self.items.get(place).and_then(|item| item.shown)
    }

    /// One more has its place; what it tells lasts, or may have changed what all others tell.
    fn placed(&mut self, lasts: bool) {
        self.placed += 1;
        if !lasts || std::mem::take(&mut self.states.has_forgotten) {
            self.changed = self.placed;
        }
    }

    /// Remembers what a call changes that goes before its turn, until it is over.
    fn note_early(&mut self, call: &Candidate, is_early: bool) {
        let (begin_ns, end_ns) = (call.begin_ns, call.end_ns);
        for c in call.told.all.iter().filter(|c| is_early && c.change != Change::Nothing) {
            let found = match c.found {
                Found::Exactly(found) => Some(found),
                _ => None,
            };
            let changed = |from| {
                let to = c.change.of(Some(from), c.found)?;
                Some(Changed { thing: c.thing, from, to, begin_ns, end_ns })
            };
            self.early.extend(self.states.value(c).or(found).and_then(changed));
        }
        self.early.retain(|o| o.end_ns > begin_ns);
        Changed::forget(&mut self.early, call);
    }

    fn took_place(&mut self, chosen: Place, call: &Candidate, told: Teller<'_, T>) -> bool {
        let saw_what_was_before = self.saw_what_was_before(call);
        let without = self.without_half_done(chosen, call, told);
        let call = without.as_ref().unwrap_or(call);
        let Some((impossible, was)) = self.states.settle(call) else { return false };
        if saw_what_was_before || self.saw_amid(chosen, call, &impossible, was, told) {
            // What it saw is over at once.
            if let (Some(was), Change::Nothing) = (was, impossible.change) {
                let again = Condition::new(impossible.thing, Found::Anything, Change::To(was));
                let told = Rc::new(Told { all: vec![again], ..Told::default() });
                self.states.settle(&Candidate { told, ..*call });
            }
            return true;
        }
        self.untold += 1;
        false
    }

    /// Whether what a call found is as it was before one that overlaps it and went before its turn.
    fn saw_what_was_before(&self, call: &Candidate) -> bool {
        let was_before = |c: &Condition, o: &Changed| {
            o.thing == c.thing
                && call.overlaps(o.begin_ns, o.end_ns)
                && c.found.fits(Some(o.from))
                && !c.found.fits(self.states.value(c))
        };
        let found = call.told.all.iter().chain(&call.told.any);
        found.into_iter().any(|c| self.early.iter().any(|o| was_before(c, o)))
    }

    /// Whether what a call found lies between what one that overlaps it found and left.
    fn saw_amid(
        &mut self,
        chosen: Place,
        call: &Candidate,
        c: &Condition,
        was: Option<u64>,
        told: Teller<'_, T>,
    ) -> bool {
        let (Found::Exactly(saw) | Found::AtMost(saw), Some(was), true) = (c.found, was, c.in_steps) else {
            return false;
        };
        if self.states.passed(call, c.thing, saw) {
            return true;
        }
        let left = self.others_leave(chosen, call, (c.thing, was), told);
        left.into_iter().any(|(_, to)| is_between(was, to, saw))
    }

    /// A call without what the kernel saw as it returned, where that lies between what one that overlaps it found and left: that is
    /// over at once, and says nothing of what others find. None where it saw nothing of the kind.
    fn without_half_done(&mut self, chosen: Place, call: &Candidate, told: Teller<'_, T>) -> Option<Candidate> {
        let mut half_done = Vec::new();
        for c in call.told.all.iter().filter(|c| c.in_steps && c.change == Change::Nothing) {
            let (Some(saw), Some(was)) = (c.after, self.states.value(c)) else { continue };
            if saw == was {
                continue;
            }
            let left = self.others_leave(chosen, call, (c.thing, was), told);
            let is_amid =
                left.iter().any(|(_, to)| is_between(was, *to, saw)) || self.states.passed(call, c.thing, saw);
            let is_explained = left.iter().any(|(_, to)| *to == saw);
            half_done.extend((is_amid && !is_explained).then_some(c.thing));
        }
        if half_done.is_empty() {
            return None;
        }
        let mut told = Told::clone(&call.told);
        told.all.iter_mut().filter(|c| half_done.contains(&c.thing)).for_each(|c| c.after = None);
        Some(Candidate { told: Rc::new(told), ..*call })
    }

    /// Those that overlap a call and have no place yet, and what each makes of a thing that was this.
    fn others_leave(
        &mut self,
        chosen: Place,
        call: &Candidate,
        (thing, was): (u64, u64),
        told: Teller<'_, T>,
    ) -> Vec<(Place, u64)> {
        let mut left = Vec::new();
        for at in self.wide(&[chosen]) {
            if at == chosen || at.tid == call.tid || !call.overlaps(at.begin_ns, at.end_ns) {
                continue;
            }
            let Some(other) = self.ask(at, told) else { continue };
            let of_thing = other.told.all.iter().filter(|o| o.thing == thing);
            left.extend(of_thing.filter_map(|o| Some((at, o.change.of(Some(was), o.found)?))));
        }
        left
    }
}

/// Whether it makes a difference which of the two comes first.
fn concerns(c: &Condition, one: &Condition) -> bool {
    c.thing == one.thing && (c.change != Change::Nothing || one.change != Change::Nothing)
}

/// Leaves those that begin before the first call is over that makes others begin elsewhere: the rest is asked again then.
fn before_others_turn(places: &mut Vec<Place>, calls: &mut Vec<Candidate>) {
    let Some(end_ns) = calls.iter().find(|call| call.told.turns).map(|call| call.end_ns) else { return };
    places.retain(|at| at.begin_ns <= end_ns);
    calls.retain(|call| call.begin_ns <= end_ns);
}

/// By their keys.
fn sorted(places: Vec<Place>, calls: Vec<Candidate>) -> (Vec<Place>, Vec<Candidate>) {
    let mut pairs: Vec<(Place, Candidate)> = places.into_iter().zip(calls).collect();
    pairs.sort_by_key(|(place, _)| *place);
    pairs.into_iter().unzip()
}
