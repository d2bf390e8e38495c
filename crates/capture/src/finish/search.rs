//! The order of calls that overlap: the one whose results contradict each other least.
//!
//! Goals: the order of the keys wherever that is possible; the least number of contradictions else; bounded work.
//! Non-goals: knowing calls.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use super::told::{Change, Condition, Found, SOMETHING, Told};

/// One of the calls.
#[derive(Debug)]
pub struct Candidate {
    /// Its thread.
    pub tid: i32,
    /// When it began.
    pub begin_ns: u64,
    /// When it was over.
    pub end_ns: u64,
    /// What its result tells.
    pub told: Rc<Told>,
}

impl Candidate {
    /// Whether it was under way at the same time as something else.
    pub fn overlaps(&self, begin_ns: u64, end_ns: u64) -> bool {
        begin_ns < self.end_ns && self.begin_ns < end_ns
    }
}

/// Something was seen to be so when a call returned that had not left it so: another made it so before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    thing: u64,
    value: u64,
    until_ns: u64,
    /// Who saw it may as well have come after those that made it so.
    is_vague: bool,
}

/// What a call made of a thing that changes in steps, or out of turn: others that were under way can have seen it on the way.
#[derive(Debug, Clone, Copy)]
pub struct Changed {
    /// The thing.
    pub thing: u64,
    /// What it was.
    pub from: u64,
    /// What it became.
    pub to: u64,
    /// When the call began.
    pub begin_ns: u64,
    /// When it was over.
    pub end_ns: u64,
}

impl Changed {
    /// Whether a call can have seen a thing be this on the way.
    fn passed(&self, call: &Candidate, thing: u64, saw: u64) -> bool {
        self.thing == thing && call.overlaps(self.begin_ns, self.end_ns) && is_between(self.from, self.to, saw)
    }

    /// Leaves of what was changed, when a call has its place, so many and all that is under way then.
    pub fn forget(changes: &mut Vec<Changed>, call: &Candidate) {
        const LATELY: usize = 64;
        const MOST: usize = 4 * LATELY;
        if changes.len() > LATELY {
            changes.retain(|changed| changed.end_ns > call.begin_ns);
            changes.drain(..changes.len().saturating_sub(MOST));
        }
    }
}

/// Whether something that goes from one to the other passes this.
pub fn is_between(from: u64, to: u64, saw: u64) -> bool {
    from.min(to) < saw && saw < from.max(to)
}

/// A result that is impossible weighs more than something that was seen a little later.
const IMPOSSIBLE: u32 = 4;
const UNEXPLAINED: u32 = 1;
/// So many calls are put on trial at most, and where it was in vain for long.
pub const TRIALS: u32 = 3000;
pub const FEW_TRIALS: u32 = 64;

/// What things are, as far as it is known.
#[derive(Debug, Default, Clone)]
pub struct States {
    known: HashMap<u64, Option<u64>, BuildHasherDefault<Mixed>>,
    sights: Vec<Sight>,
    /// What changed lately.
    changes: Vec<Changed>,
    /// How often two made a thing more while both were under way, and each saw what both had made of it.
    pub guessed: u64,
    /// All that was known was too much, and is forgotten; who heeds that takes it back.
    pub has_forgotten: bool,
}

/// The numbers of things are well mixed.
#[derive(Debug, Default, Clone)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// More are not remembered.
const MOST: usize = 1 << 16;
const MOST_SIGHTS: usize = 64;

impl States {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.known.clear();
        self.sights.clear();
        self.changes.clear();
    }

    /// What a thing is.
    pub fn get(&self, condition: &Condition) -> Option<u64> {
        self.known.get(&condition.thing).copied().unwrap_or(condition.at_first)
    }

    /// Whether one that overlaps a call, and has its place, made a thing go past this.
    pub fn passed(&self, call: &Candidate, thing: u64, saw: u64) -> bool {
        self.changes.iter().any(|changed| changed.passed(call, thing, saw))
    }

    /// Whether it is known that a thing is this.
    pub fn is_known(&self, thing: u64, value: u64) -> bool {
        self.sights.is_empty() && self.known.get(&thing) == Some(&Some(value))
    }

    /// A thing is seen to be this. If it is known to be something else, another call may be about to make it so.
    pub fn learn(&mut self, thing: u64, value: u64) {
        let known = self.known.entry(thing).or_default();
        *known = known.or(Some(value));
    }

    /// Whether what a call found can be so now.
    pub fn permit(&self, told: &Told) -> bool {
        told.impossible(|c| self.value(c)).is_none()
    }

    /// What a thing is, where it is not remembered what is known of it otherwise.
    pub fn value(&self, condition: &Condition) -> Option<u64> {
        condition.known.unwrap_or_else(|| self.get(condition))
    }

    /// Whether all that a call found is so now, and nothing is known after it that is not known before: that it goes next
    /// contradicts nothing, whatever goes then.
    pub fn tells_nothing_new(&self, told: &Told) -> bool {
        let is_old = |c: &Condition| {
            let is = self.value(c);
            let tells_what_it_is = matches!(c.found, Found::Exactly(_) | Found::Something) || c.after.is_some();
            let is_known = if is.is_some() { c.after.is_none_or(|seen| Some(seen) == is) } else { !tells_what_it_is };
            c.change == Change::Nothing && is_known
        };
        let moves = told.moves.is_some() || told.turns;
        let is_likely = told.likely.iter().all(|c| c.found.fits(self.value(c)));
        self.sights.is_empty() && !moves && is_likely && told.all.iter().all(is_old) && self.permit(told)
    }

    /// A call has its place; gives what of it was impossible, and what that thing was.
    pub fn settle(&mut self, call: &Candidate) -> Option<(Condition, Option<u64>)> {
        let impossible = call.told.impossible(|c| self.value(c)).copied();
        let impossible = impossible.map(|c| (c, self.get(&c).filter(|_| call.told.all.contains(&c))));
        let mut trial = Trial::new(self);
        trial.changed.reserve(call.told.all.len());
        trial.perform(call);
        let Trial { changed, mut sights, changes, guessed, .. } = trial;
        self.guessed += guessed;
        sights.drain(..sights.len().saturating_sub(MOST_SIGHTS));
        self.sights = sights;
        self.changes.extend(changes);
        Changed::forget(&mut self.changes, call);
        if self.known.len() > MOST {
            self.known.clear();
            self.has_forgotten = true;
        }
        let passing = |thing: &u64| call.told.all.iter().any(|c| c.thing == *thing && c.known.is_some());
        self.known.extend(changed.into_iter().filter(|(thing, _)| !passing(thing)));
        impossible
    }
}

/// States as calls would change them.
struct Trial<'a> {
    base: &'a States,
    changed: Vec<(u64, Option<u64>)>,
    /// Where others begin elsewhere by now than when they were asked, and when the call was over that made it so.
    turned: Vec<(u64, u64)>,
    /// Whether it contradicts that a call begins elsewhere, which was under way when the first of the others made it so: as it was
    /// asked, it had begun before.
    is_strict: bool,
    sights: Vec<Sight>,
    /// Beside those of the states that it begins with.
    changes: Vec<Changed>,
    guessed: u64,
}

/// A trial as it was, for [`Trial::go_back`].
struct Mark {
    changed: usize,
    turns: usize,
    changes: usize,
    sights: Vec<Sight>,
}

impl<'a> Trial<'a> {
    fn new(base: &'a States) -> Self {
        let sights = base.sights.clone();
        let (changed, turned, changes) = (Vec::new(), Vec::new(), Vec::new());
        Trial { base, changed, turned, is_strict: false, sights, changes, guessed: 0 }
    }

    fn value(&self, condition: &Condition) -> Option<u64> {
        match self.changed.iter().rev().find(|(thing, _)| *thing == condition.thing) {
            Some((_, value)) => *value,
            None => self.base.value(condition),
        }
    }

    /// What a thing is, if that is remembered.
    fn known(&self, thing: u64) -> Option<u64> {
        let changed = self.changed.iter().rev().find(|(changed, _)| *changed == thing);
        changed.map_or_else(|| self.base.known.get(&thing).copied().flatten(), |(_, value)| *value)
    }

    /// Whether nothing contradicts the order in which calls are given.
    fn is_explained(&mut self, calls: &[Candidate], others_ns: u64) -> bool {
        calls.iter().all(|call| self.perform(call) == 0) && self.unexplained(others_ns).next().is_none()
    }

    /// What was seen and cannot have been made so by others, which begin then.
    fn unexplained(&self, others_ns: u64) -> impl Iterator<Item = &Sight> {
        self.sights.iter().filter(move |sight| sight.until_ns <= others_ns)
    }

    /// How much contradicts the order in which calls are given, and of which things.
    fn contradicted(&mut self, calls: &[Candidate], others_ns: u64) -> (u32, Vec<u64>) {
        let (mut cost, mut things) = (0, Vec::new());
        for call in calls {
            things.extend(call.told.found().filter(|c| !c.found.fits(self.value(c))).map(|c| c.thing));
            things.extend(self.sights.iter().map(|sight| sight.thing));
            cost += self.perform(call);
        }
        things.extend(self.unexplained(others_ns).map(|sight| sight.thing));
        (cost + self.remains(others_ns), things)
    }

    /// How much of what was seen is not explained in the end.
    fn remains(&self, others_ns: u64) -> u32 {
        UNEXPLAINED * self.unexplained(others_ns).count() as u32
    }

    fn mark(&self) -> Mark {
        let (changed, turns, changes) = (self.changed.len(), self.turned.len(), self.changes.len());
        Mark { changed, turns, changes, sights: self.sights.clone() }
    }

    fn go_back(&mut self, mark: Mark) {
        self.changed.truncate(mark.changed);
        self.turned.truncate(mark.turns);
        self.changes.truncate(mark.changes);
        self.sights = mark.sights;
    }

    /// Performs a call; gives how much it contradicts.
    fn perform(&mut self, call: &Candidate) -> u32 {
        let mut cost = self.expire(call.begin_ns);
        // Of the names that it passed from there nothing is known before it is asked again.
        let begins = |at: u64| call.told.begins_at.contains(&Some(at));
        let is_elsewhere = self.turned.iter().any(|(at, _)| begins(*at));
        let fits = |trial: &Self, c: &Condition| is_elsewhere && c.is_passed || c.found.fits(trial.value(c));
        let weighs = |c: &Condition| if self.saw_half_done(call, c, self.value(c)) { UNEXPLAINED } else { IMPOSSIBLE };
        cost += call.told.all.iter().filter(|c| !fits(self, c)).map(weighs).sum::<u32>();
        if !call.told.any.is_empty() && !call.told.any.iter().any(|c| fits(self, c)) {
            cost += IMPOSSIBLE;
        }
        if call.told.likely.iter().any(|c| !fits(self, c)) {
            cost += UNEXPLAINED;
        }
        let first_turn = self.turned.first().filter(|_| self.is_strict);
        if first_turn.is_some_and(|(at, end_ns)| begins(*at) && call.begin_ns < *end_ns) {
            cost += UNEXPLAINED;
        }
        self.turned.extend(call.told.moves.filter(|_| call.told.turns).map(|at| (at, call.end_ns)));
        for c in call.told.all.iter().filter(|c| !(is_elsewhere && c.is_passed)) {
            let was = self.value(c);
            // What was seen on the way is over at once.
            if self.saw_half_done(call, c, was) {
                continue;
            }
            // After a contradiction nothing is known but what was seen.
            let is = was.filter(|is| c.found.fits(Some(*is)));
            let left = match c.change {
                Change::Like(other) => self.known(other),
                change => change.of(is, c.found),
            };
            // Of what must have been something, what was seen tells what it was.
            let is_known = |left: &u64| *left != SOMETHING || c.found != Found::Something;
            let value = left.filter(is_known).or(c.after).or(left);
            let explained = self.sights.extract_if(.., |s| s.thing == c.thing && Some(s.value) == value);
            self.guessed += explained.filter(|s| s.is_vague && c.is_vague()).count() as u64;
            if let Some(seen) = c.after.filter(|seen| Some(*seen) != value) {
                let (thing, is_vague) = (c.thing, c.is_vague());
                self.sights.push(Sight { thing, value: seen, until_ns: call.end_ns, is_vague });
            }
            if let (Some(from), Some(to)) = (was, value)
                && c.change != Change::Nothing
                && c.in_steps
            {
                let Candidate { begin_ns, end_ns, .. } = *call;
                self.changes.push(Changed { thing: c.thing, from, to, begin_ns, end_ns });
            }
            self.changed.push((c.thing, value));
        }
        cost
    }

    /// Whether a call found something, or the kernel saw it as the call returned, to be what it passed when one changed it that has its
    /// place; `is` is what it is now.
    fn saw_half_done(&self, call: &Candidate, c: &Condition, is: Option<u64>) -> bool {
        if !c.in_steps || c.change != Change::Nothing || is.is_none() {
            return false;
        }
        let found = match c.found {
            Found::Exactly(saw) | Found::AtMost(saw) => Some(saw),
            _ => None,
        };
        let saw = found.filter(|_| !c.found.fits(is)).or(c.after.filter(|seen| Some(*seen) != is && c.found.fits(is)));
        let Some(saw) = saw else { return false };
        self.base.passed(call, c.thing, saw) || self.changes.iter().any(|changed| changed.passed(call, c.thing, saw))
    }

    /// What was seen and not explained in time: what the thing is is not known any more.
    fn expire(&mut self, now_ns: u64) -> u32 {
        if self.sights.is_empty() {
            return 0;
        }
        let (late, rest): (Vec<Sight>, Vec<Sight>) = self.sights.iter().partition(|sight| sight.until_ns <= now_ns);
        self.sights = rest;
        self.changed.extend(late.iter().map(|sight| (sight.thing, None)));
        UNEXPLAINED * late.len() as u32
    }
}

/// The order of the calls, given by their keys, with the fewest contradictions: positions, and how much remains. Calls
/// that are not among these begin then at the earliest.
/// No more than so many calls are put on trial.
pub fn best(states: &States, calls: &[Candidate], others_ns: u64, trials: u32) -> (Vec<usize>, u32) {
    let given = || (0..calls.len()).collect();
    let search = |limit, is_strict| {
        let (done, order) = (vec![false; calls.len()], Vec::new());
        let trial = Trial { is_strict, ..Trial::new(states) };
        Search { calls, others_ns, trial, done, order, limit, left: trials }
    };
    if calls.iter().any(|call| call.told.turns) {
        let mut search = search(0, true);
        if search.go_on(0).is_some() {
            return (search.order, 0);
        }
    }
    let trial = || Trial::new(states);
    if trial().is_explained(calls, others_ns) {
        return (given(), 0);
    }
    let (cost, things) = trial().contradicted(calls, others_ns);
    let changes = |c: &Condition| c.change != Change::Nothing && things.contains(&c.thing);
    if !calls.iter().any(|call| call.told.turns || call.told.all.iter().any(changes)) {
        return (given(), cost);
    }
    // What contradicts early is put right before anything is changed behind it.
    for limit in [0, UNEXPLAINED, 2 * UNEXPLAINED, IMPOSSIBLE, 2 * IMPOSSIBLE].into_iter().filter(|limit| *limit < cost)
    {
        let mut search = search(limit, false);
        if let Some(found) = search.go_on(0) {
            return (search.order, found);
        }
    }
    // Where much contradicts whatever the order, trials are used up before what can be put right is found.
    let mut search = search(cost, false);
    let found = search.go_straight();
    if found < cost { (search.order, found) } else { (given(), cost) }
}

/// An order that costs no more than a limit.
struct Search<'a> {
    calls: &'a [Candidate],
    others_ns: u64,
    trial: Trial<'a>,
    done: Vec<bool>,
    order: Vec<usize>,
    limit: u32,
    left: u32,
}

impl Search<'_> {
    /// Completes the order, if it can; what it costs.
    fn go_on(&mut self, cost: u32) -> Option<u32> {
        if cost > self.limit {
            return None;
        }
        if self.order.len() == self.calls.len() {
            let cost = cost + self.trial.remains(self.others_ns);
            return (cost <= self.limit).then_some(cost);
        }
        for next in self.possible() {
            self.left = self.left.checked_sub(1)?;
            let mark = self.trial.mark();
            let more = self.take(next);
            if let Some(cost) = self.go_on(cost + more) {
                return Some(cost);
            }
            self.order.pop();
            self.done[next] = false;
            self.trial.go_back(mark);
        }
        None
    }

    /// Puts a call next; how much it contradicts.
    fn take(&mut self, next: usize) -> u32 {
        self.done[next] = true;
        self.order.push(next);
        self.trial.perform(&self.calls[next])
    }

    /// Completes the order with what contradicts least, and of that with the first by its key; what it costs.
    fn go_straight(&mut self) -> u32 {
        let mut cost = 0;
        while let Some((_, next)) = self.possible().into_iter().map(|next| (self.contradicts(next), next)).min() {
            cost += self.take(next);
        }
        let is_whole = self.order.len() == self.calls.len();
        if is_whole { cost + self.trial.remains(self.others_ns) } else { u32::MAX }
    }

    /// How much a call would contradict here.
    fn contradicts(&mut self, next: usize) -> u32 {
        let mark = self.trial.mark();
        let more = self.trial.perform(&self.calls[next]);
        self.trial.go_back(mark);
        more
    }

    /// The calls that can come next: each the first of its thread, begun before any other was over.
    fn possible(&self) -> Vec<usize> {
        let open = |i: &usize| !self.done[*i];
        let all: Vec<usize> = (0..self.calls.len()).filter(open).collect();
        let first_end = all.iter().map(|i| self.calls[*i].end_ns).min().unwrap_or(u64::MAX);
        let first = |i: &&usize| {
            let own = all.iter().find(|o| self.calls[**o].tid == self.calls[**i].tid);
            own == Some(*i) && self.calls[**i].begin_ns <= first_end
        };
        all.iter().filter(first).copied().collect()
    }
}
