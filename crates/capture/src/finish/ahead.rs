//! Which of the next items overlap no other in a way that matters: they have their places as they stand.
//!
//! Goals: it is found for many at once, in one pass from their back to their front. Non-goals: what items tell; that is asked of
//! those only that overlap.

use std::collections::VecDeque;

use super::queue::{LONG_NS, Place, Queue, Reach};

/// So many are looked at together, and so many behind them at most.
const BLOCK: usize = 64;
const BEHIND: usize = 256;
/// So many that last long are looked at; where there are more, all are asked.
const LONG: usize = 1024;
/// So many of one thread in a row are of a thread that is alone.
pub const ALONE: usize = 12;

/// What a look at those behind an item shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outlook {
    /// Nothing that is still to come overlaps it and concerns it.
    pub is_clear: bool,
    /// The next few are all of its thread, and nothing of another overlaps it that changes anything.
    pub is_alone: bool,
}

/// What is known of the next items.
#[derive(Debug, Default)]
pub struct Ahead {
    known: VecDeque<(Place, Outlook)>,
    /// Until then it is said of these that nothing overlaps them.
    end_ns: u64,
    /// What comes in before this place makes void what is known; if there is none, all that comes does.
    last: Option<Place>,
}

/// An instant for each reach.
#[derive(Debug, Clone, Copy)]
pub struct Instants([u64; Reach::COUNT]);

impl Instants {
    /// The same for all.
    pub fn all(at_ns: u64) -> Instants {
        Instants([at_ns; Reach::COUNT])
    }

    /// That of one.
    pub fn of(&mut self, reach: Reach) -> &mut u64 {
        &mut self.0[reach.number()]
    }

    /// Whether it is so for all that concern an item.
    pub fn concerning(&self, reach: Reach, is_so: impl Fn(u64) -> bool) -> bool {
        let of = |other: Reach| is_so(self.0[other.number()]);
        match reach {
            Reach::All => self.0.iter().all(|at_ns| is_so(*at_ns)),
            Reach::Numbers => of(Reach::All),
            Reach::Content(file) => of(Reach::All) && of(Reach::Changes(file)),
            Reach::Changes(file) => of(Reach::All) && of(Reach::Changes(file)) && of(Reach::Content(file)),
        }
    }
}

/// When what stands behind an item begins at the earliest.
struct Behind {
    of_reach: Instants,
    /// That of all that changes anything.
    changing_ns: u64,
}

impl Behind {
    fn all_begin(at_ns: u64) -> Behind {
        Behind { of_reach: Instants::all(at_ns), changing_ns: at_ns }
    }

    fn begins(&mut self, place: &Place) {
        let at = self.of_reach.of(place.reach);
        *at = place.begin_ns.min(*at);
        if place.reach.changes() {
            self.changing_ns = place.begin_ns.min(self.changing_ns);
        }
    }
}

impl Ahead {
    /// What is known of the first item of a queue.
    pub fn of_first<T>(&mut self, first: Place, queue: &Queue<T>) -> Outlook {
        // What went out of its turn is passed over: that it was there can only have hidden that others are clear.
        while self.known.front().is_some_and(|(place, _)| *place != first) {
            self.known.pop_front();
        }
        if self.known.is_empty() {
            self.look(queue);
        }
        self.known.front().map(|(_, outlook)| *outlook).unwrap_or_default()
    }

    /// A further item came in.
    pub fn came(&mut self, place: Place) {
        if place.begin_ns < self.end_ns || self.last.is_none_or(|last| place < last) {
            self.known.clear();
        }
    }

    fn look<T>(&mut self, queue: &Queue<T>) {
        let next = Next::of(queue);
        let mut behind = next.behind(queue);
        let is_end = next.places.len() == queue.len();
        let (mut tid, mut in_a_row) = (next.places.last().map(|last| last.tid), if is_end { ALONE } else { 0 });
        self.known.clear();
        self.end_ns = 0;
        self.last = next.places.get(BLOCK + ALONE - 1).copied().filter(|_| !is_end);
        for (i, place) in next.places.iter().enumerate().rev() {
            in_a_row = if Some(place.tid) == tid { in_a_row + 1 } else { 1 };
            tid = Some(place.tid);
            if i < BLOCK {
                let is_over = |begin_ns| begin_ns >= place.end_ns;
                let outlook = Outlook {
                    is_clear: place.came_ready && behind.of_reach.concerning(place.reach, is_over),
                    is_alone: place.came_ready && in_a_row >= ALONE && is_over(behind.changing_ns),
                };
                if outlook != Outlook::default() {
                    self.end_ns = self.end_ns.max(place.end_ns);
                }
                self.known.push_front((*place, outlook));
            }
            behind.begins(place);
            if !place.came_ready {
                (in_a_row, behind) = (0, Behind::all_begin(0));
            }
        }
    }
}

/// A block of items, and those behind it that may overlap them but for what lasts long.
struct Next {
    places: Vec<Place>,
    /// When the last of the block is over.
    end_ns: u64,
    /// When others begin at the earliest, but for what lasts long.
    others_ns: u64,
}

impl Next {
    fn of<T>(queue: &Queue<T>) -> Next {
        let mut next = Next { places: Vec::with_capacity(2 * BLOCK), end_ns: 0, others_ns: u64::MAX };
        for place in queue.places() {
            match next.places.len() {
                ..BLOCK => next.end_ns = next.end_ns.max(place.end_ns),
                n if n >= BLOCK + ALONE && place.key_ns > next.end_ns.saturating_add(LONG_NS) => break,
                n if n == BLOCK + BEHIND => {
                    next.others_ns = place.key_ns.saturating_sub(LONG_NS);
                    break;
                }
                _ => {}
            }
            next.places.push(place);
        }
        next
    }

    /// When what stands behind all of these begins.
    fn behind<T>(&self, queue: &Queue<T>) -> Behind {
        let mut behind = Behind::all_begin(self.others_ns);
        for (n, place) in queue.long_begun_before(self.end_ns).enumerate() {
            if n == LONG {
                return Behind::all_begin(0);
            }
            if self.places.last().is_some_and(|last| place > *last) {
                behind.begins(&place);
            }
        }
        behind
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::{FileMark, Item};
    use super::super::window_tests::{Random, item};
    use super::*;

    /// Whether one of the two can have changed what the other tells.
    fn concerns(one: Reach, other: Reach) -> bool {
        match (one, other) {
            (Reach::All, _) | (_, Reach::All) => true,
            (Reach::Numbers, _) | (_, Reach::Numbers) | (Reach::Content(_), Reach::Content(_)) => false,
            (Reach::Changes(one), Reach::Changes(other) | Reach::Content(other))
            | (Reach::Content(one), Reach::Changes(other)) => one == other,
        }
    }

    #[test]
    fn who_changes_something_concerns_who_tells_of_it() {
        let marks = || (0..FileMark::COUNT as u64).map(|mark| FileMark::of(mark << 60));
        let of_files = marks().map(Reach::Content).chain(marks().map(Reach::Changes));
        let each: Vec<Reach> = [Reach::Numbers, Reach::All].into_iter().chain(of_files).collect();
        assert!(each.iter().map(|reach| reach.number()).eq(0..Reach::COUNT));
        for reach in &each {
            for other in &each {
                let mut instants = Instants::all(0);
                *instants.of(*other) = 1;
                assert_eq!(instants.concerning(*reach, |at_ns| at_ns == 0), !concerns(*reach, *other));
            }
        }
    }

    /// Against all pairs, whatever comes in and goes out, and in whatever order.
    #[test]
    fn what_is_clear_meets_nothing_that_concerns_it() {
        let mut r = Random(0x9e37_79b9_7f4a_7c15);
        let (mut queue, mut ahead) = (Queue::default(), Ahead::default());
        let (mut clear, mut alone, mut asked) = (0, 0, 0);
        let mut over = [0; 5];
        let of_files =
            [0, 1 << 60].map(FileMark::of).into_iter().flat_map(|file| [Reach::Content(file), Reach::Changes(file)]);
        let reaches: Vec<Reach> = of_files.chain([Reach::Numbers, Reach::All]).collect();
        for round in 0..60_000u64 {
            // Some time one thread, then several; most are short.
            let (tid, busy) = if round % 2_000 < 500 { (0, 1) } else { (r.below(5) as usize, 3) };
            let begin_ns = over[tid] + r.below(40_000) / busy;
            let longest = [500, 500, 2_000, 3 * LONG_NS][r.below(4) as usize];
            let end_ns = begin_ns + 1 + r.below(longest);
            over.iter_mut().for_each(|at| *at = end_ns.saturating_sub(100_000).max(*at));
            over[tid] = end_ns;
            let reach = reaches[r.below(reaches.len() as u64) as usize];
            let key_ns = if r.below(8) == 0 { begin_ns } else { end_ns };
            let is_ready = r.below(500) != 0;
            let item = item(tid as i32, [key_ns, begin_ns, end_ns], reach, ());
            let place = queue.push(Item { is_ready, ..item });
            ahead.came(place);
            if queue.len() < 400 {
                continue;
            }
            let places: Vec<Place> = queue.places().take(2).collect();
            let outlook = ahead.of_first(places[0], &queue);
            let meets = |place: &Place| place.begin_ns < places[0].end_ns;
            asked += 1;
            clear += usize::from(outlook.is_clear);
            alone += usize::from(outlook.is_alone);
            if outlook.is_clear {
                assert!(!queue.places().skip(1).any(|other| meets(&other) && concerns(other.reach, places[0].reach)));
            }
            if outlook.is_alone {
                // Some of the next few may have gone since.
                assert!(queue.places().take(ALONE / 2).all(|other| other.tid == places[0].tid));
                assert!(!queue.places().skip(1).any(|other| meets(&other) && other.reach.changes()));
            }
            // Now and then another goes before the first.
            let gone = if r.below(20) == 0 { places[1] } else { places[0] };
            queue.remove(gone);
        }
        assert!(clear > asked / 4 && clear < asked && alone > asked / 20, "{clear} clear, {alone} alone of {asked}");
    }
}
