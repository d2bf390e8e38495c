//! Simulated overlaps: threads whose calls take effect at a random instant between begin and end; the window sees begin,
//! end and result only, and must find an order that every result permits.

use std::cell::Cell;

use super::queue::{FileMark, Reach};
use super::search::{Candidate, States, TRIALS, best};
use super::told::{Change, Condition, Found, SOMETHING, Told};
use super::window::{Item, Window};

/// Of a thread, by when it took effect, began and was over: complete, and showing nothing unasked.
pub(super) fn item<T>(tid: i32, [key_ns, begin_ns, end_ns]: [u64; 3], reach: Reach, what: T) -> Item<T> {
    Item { key_ns, begin_ns, end_ns, tid, is_ready: true, reach, shown: None, what }
}

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Names that all threads share; each has one more of its own.
const SHARED: u64 = 2;
const NAMES: usize = SHARED as usize + 3;
const LOOKS: u64 = 2;

/// A call on one name: it makes it (0), removes it (1), or looks.
#[derive(Debug, Clone)]
struct Call {
    tid: i32,
    begin: u64,
    effect: u64,
    end: u64,
    name: u64,
    what: u64,
    /// It takes effect when it begins, as is known of calls of its kind.
    gives: bool,
    stood: bool,
}

impl Call {
    fn told(&self) -> Told {
        let found = Found::Exactly(self.stood.into());
        let change = match (self.what, self.stood) {
            (0, false) => Change::To(1),
            (1, true) => Change::To(0),
            _ => Change::Nothing,
        };
        Told { all: vec![Condition::new(self.name, found, change)], ..Told::default() }
    }
}

/// How calls of several threads lie beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// Hardly ever at the same time.
    Apart,
    /// Overlapping, of much the same length; each on a name that all share.
    Alike,
    /// Overlapping, most short beside the longest; some on names that one thread uses, and some taking effect when they begin.
    Mixed,
}

/// Calls of three threads, with what each found.
fn simulate(seed: u64, beside: Beside) -> Vec<Call> {
    let (overlapping, mixed) = (beside != Beside::Apart, beside == Beside::Mixed);
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut calls = Vec::new();
    for tid in 0..3 {
        let mut now = 1 + r.below(100);
        for _ in 0..40 {
            let begin = now;
            let longest = match beside {
                Beside::Apart => 2,
                Beside::Alike => 60,
                Beside::Mixed => [20, 20, 20, 240][r.below(4) as usize],
            };
            let end = begin + 2 + r.below(longest);
            let gives = mixed && r.below(4) == 0;
            let effect = if gives { begin } else { begin + 1 + r.below(end - begin - 1) };
            let name = if mixed && r.below(3) == 0 { SHARED + tid as u64 } else { r.below(SHARED) };
            calls.push(Call { tid, begin, effect, end, name, what: r.below(3), gives, stood: false });
            now = end + 1 + r.below(if overlapping { 20 } else { 2000 });
        }
    }
    calls.sort_by_key(|c| (c.effect, c.tid));
    let mut stands = [false; NAMES];
    for call in &mut calls {
        call.stood = stands[call.name as usize];
        match call.what {
            0 => stands[call.name as usize] = true,
            1 => stands[call.name as usize] = false,
            _ => {}
        }
    }
    calls
}

fn ordered(calls: &[Call]) -> (Vec<Call>, u64) {
    let mut by_end = calls.to_vec();
    by_end.sort_by_key(|c| c.end);
    let (mut window, mut out) = (Window::default(), Vec::new());
    for call in by_end {
        let (begin_ns, end_ns) = (call.begin, call.end);
        let key_ns = if call.gives { begin_ns } else { end_ns };
        let file = FileMark::of(call.name << 60);
        let reach = if call.what == LOOKS { Reach::Content(file) } else { Reach::Changes(file) };
        window.push(item(call.tid, [key_ns, begin_ns, end_ns], reach, call));
        while let Some(call) = window.pop(false, &mut Call::told) {
            out.push(call.what);
        }
    }
    while let Some(call) = window.pop(true, &mut Call::told) {
        out.push(call.what);
    }
    (out, window.untold)
}

fn contradictions(calls: &[Call]) -> usize {
    let mut stands = [false; NAMES];
    let mut wrong = 0;
    for call in calls {
        wrong += usize::from(stands[call.name as usize] != call.stood);
        stands[call.name as usize] = match call.what {
            0 => true,
            1 => false,
            _ => call.stood,
        };
    }
    wrong
}

#[test]
fn what_does_not_overlap_keeps_its_order() {
    for seed in 1..=50 {
        let calls = simulate(seed, Beside::Apart);
        let (out, untold) = ordered(&calls);
        assert_eq!(out.len(), calls.len());
        assert_eq!((contradictions(&out), untold), (0, 0), "seed {seed}");
    }
}

#[test]
fn overlapping_calls_are_put_where_their_results_permit() {
    let (before, after) = contradictions_left(Beside::Alike);
    assert!(after * 100 < before, "{after} of {before} contradictions remain");
    let (before, after) = contradictions_left(Beside::Mixed);
    assert!(after * 50 < before, "{after} of {before} contradictions remain");
}

/// How many contradictions there are in the order of the keys, and how many in that of the window; each thread's calls stay in
/// their order.
fn contradictions_left(beside: Beside) -> (usize, usize) {
    let (mut before, mut after, mut all) = (0, 0, 0);
    for seed in 1..=300 {
        let calls = simulate(seed, beside);
        let mut by_end = calls.clone();
        by_end.sort_by_key(|c| if c.gives { c.begin } else { c.end });
        before += contradictions(&by_end);
        let (out, _) = ordered(&calls);
        all += out.len();
        after += contradictions(&out);
        for tid in 0..3 {
            let own: Vec<u64> = out.iter().filter(|c| c.tid == tid).map(|c| c.begin).collect();
            assert!(own.is_sorted(), "seed {seed}: the calls of a thread stay in their order");
        }
    }
    assert!(before > all / 20, "the simulation must confuse an order by completion: {before} of {all}");
    (before, after)
}

/// What no order explains does not keep others from the order that explains them.
#[test]
fn what_can_be_put_right_is_put_right_beside_what_cannot() {
    let call = |tid: i32, name: u64, found: u64, change| {
        let condition = Condition { known: Some(Some(0)), ..Condition::new(name, Found::Exactly(found), change) };
        let told = Told { all: vec![condition], ..Told::default() };
        Candidate { tid, begin_ns: 10, end_ns: 1000 + tid as u64, told: told.into() }
    };
    // One finds a name that the next makes. Of others three found what nobody made.
    let mut calls = vec![call(0, 1, 1, Change::Nothing), call(1, 1, 0, Change::To(1))];
    calls.extend((2..40).map(|tid| call(tid, 100 + tid as u64, u64::from(tid % 13 == 5), Change::Nothing)));
    let (order, cost) = best(&States::default(), &calls, u64::MAX, TRIALS);
    let at = |i: usize| order.iter().position(|o| *o == i).unwrap();
    assert!(at(1) < at(0) && order.len() == calls.len(), "{order:?}");
    assert_eq!(cost, 3 * 4);
}

/// A call whose path begins where its process works has found its way as it began, however long it waited then.
#[test]
fn who_was_on_its_way_goes_before_who_moves_the_beginning_of_paths() {
    const PLACE: u64 = 7;
    const NAME: u64 = 8;
    /// Thread, begin, end, whether it moves, and the name that it found.
    type Moved = (i32, u64, u64, bool, u64);
    let order = |found: u64| {
        let calls: [Moved; 3] = [(1, 50, 52, true, 0), (1, 54, 56, false, 0), (2, 10, 100, false, found)];
        let mut told = |(.., moves, found): &Moved| Told {
            all: vec![Condition {
                known: Some(Some(1)),
                ..Condition::new(NAME, Found::Exactly(*found), Change::Nothing)
            }],
            begins_at: [None, (!*moves).then_some(PLACE)],
            moves: moves.then_some(PLACE),
            ..Told::default()
        };
        let mut window = Window::default();
        for call in calls {
            let (tid, begin_ns, end_ns, ..) = call;
            window.push(item(tid, [end_ns, begin_ns, end_ns], Reach::All, call));
        }
        let mut begun = Vec::new();
        while let Some(call) = window.pop(true, &mut told) {
            begun.push(call.what.1);
        }
        begun
    };
    assert_eq!(order(1), [10, 50, 54]);
    // From where it would have begun it cannot have found that.
    assert_eq!(order(2), [50, 54, 10]);
}

/// Who goes before its turn, since it began elsewhere, makes what it makes later: others that see nothing of it meanwhile saw it
/// half done.
#[test]
fn what_is_made_by_who_was_on_its_way_is_seen_later() {
    const PLACE: u64 = 7;
    const NAME: u64 = 8;
    // Thread, begin, end; the maker, who moves, and who looks while the maker is at work, or when it is over.
    let amid = |looks: (u64, u64)| {
        let calls = [(2, 10, 100), (1, 50, 52), (1, looks.0, looks.1)];
        let mut told = |(tid, begin, _): &(i32, u64, u64)| match (*tid, *begin) {
            (2, _) => Told {
                all: vec![Condition::new(NAME, Found::Exactly(0), Change::To(1))],
                begins_at: [Some(PLACE), None],
                ..Told::default()
            },
            (_, 50) => Told { moves: Some(PLACE), ..Told::default() },
            _ => Told { all: vec![Condition::new(NAME, Found::Exactly(0), Change::Nothing)], ..Told::default() },
        };
        let mut window = Window::default();
        for call in [(3, 1, 2)].into_iter().chain(calls) {
            let (tid, begin_ns, end_ns) = call;
            window.push(item(tid, [end_ns, begin_ns, end_ns], Reach::All, call));
        }
        let pops = std::iter::from_fn(|| window.pop(true, &mut told));
        pops.map(|call| (call.what.1, call.is_amid)).collect::<Vec<_>>()
    };
    assert_eq!(amid((60, 70)), [(1, false), (10, false), (50, false), (60, true)]);
    assert_eq!(amid((110, 120)).last(), Some(&(110, false)));
}

/// A write that is seen half done goes before who saw that: behind it the bytes that were read stand there. What the kernel saw as a
/// call returned meanwhile says nothing of what the next one finds, which sees it half done as well; nor does one that found the end there.
#[test]
fn who_is_seen_half_done_goes_first() {
    const SIZE: u64 = 7;
    // Thread, begin, end, what was seen as it returned; a write from 10 to 100, and who looks meanwhile.
    let amid = |seen: Option<u64>| {
        let looks = [(3, 22, 24, seen), (3, 26, 28, None), (3, 30, 32, None), (3, 34, 36, None)];
        let calls = [(1, 1, 2, None)].into_iter().chain(looks).chain([(2, 20, 60, None), (2, 70, 80, None)]);
        let mut told = |(_, begin, _, seen): &(i32, u64, u64, Option<u64>)| {
            let (found, change) = match *begin {
                1 => (Found::Anything, Change::To(10)),
                20 => (Found::Anything, Change::UpTo(100)),
                22 => (Found::AtLeast(5), Change::Nothing),
                26 => (Found::Exactly(40), Change::Nothing),
                30 => (Found::AtMost(40), Change::Nothing),
                34 => (Found::Exactly(70), Change::Nothing),
                _ => (Found::Exactly(100), Change::To(110)),
            };
            let condition = Condition { after: *seen, ..Condition::new(SIZE, found, change).in_steps() };
            Told { all: vec![condition], ..Told::default() }
        };
        let mut window = Window::default();
        for call in calls {
            let (tid, begin_ns, end_ns, _) = call;
            window.push(item(tid, [end_ns, begin_ns, end_ns], Reach::All, call));
        }
        let pops = std::iter::from_fn(|| window.pop(true, &mut told));
        pops.map(|call| (call.what.1, call.is_amid)).collect::<Vec<_>>()
    };
    let half_done = [(1, false), (22, false), (20, false), (26, true), (30, true), (34, true), (70, false)];
    assert_eq!(amid(None), half_done);
    assert_eq!(amid(Some(40)), half_done);
}

/// Who found something where others find nothing came after who made it, also if nobody had met it before.
#[test]
fn who_found_something_goes_behind_who_made_it() {
    const NUMBER: u64 = 7;
    let order = |copy: Found| {
        // A copy of a table that takes effect as it begins, and an open that began before and was over later.
        let calls = [(1, 10, 40, 10, copy, Change::Nothing), (2, 5, 20, 20, Found::Exactly(0), Change::To(99))];
        let mut told = |(.., found, change): &(i32, u64, u64, u64, Found, Change)| Told {
            all: vec![Condition::new(NUMBER, *found, *change)],
            ..Told::default()
        };
        let mut window = Window::default();
        for call in calls {
            let (tid, begin_ns, end_ns, key_ns, ..) = call;
            window.push(item(tid, [key_ns, begin_ns, end_ns], Reach::All, call));
        }
        let pops = std::iter::from_fn(|| window.pop(true, &mut told));
        pops.map(|call| call.what.0).collect::<Vec<i32>>()
    };
    assert_eq!(order(Found::Something), [2, 1]);
    assert_eq!(order(Found::Anything), [1, 2]);

    // What it was is known as soon as somebody sees it.
    let mut states = States::default();
    let mut settle = |condition: Condition| {
        let told = Told { all: vec![condition], ..Told::default() };
        let impossible = states.settle(&Candidate { tid: 1, begin_ns: 1, end_ns: 2, told: told.into() });
        (impossible, states.get(&condition))
    };
    let something = Condition::new(NUMBER, Found::Something, Change::Nothing);
    assert_eq!(settle(something), (None, Some(SOMETHING)));
    assert_eq!(settle(something.then(99)), (None, Some(99)));
    assert_eq!(settle(something), (None, Some(99)));
}

/// What a thread found is known only when the thread is: it is not put in order before who made it.
#[test]
fn what_threads_found_is_asked_when_they_are_known() {
    const LOCK: u64 = 7;
    const OTHER: u64 = 8;
    // Thread, what it does, key, begin, end. The second thread is made while the third is at work, and has the lock when the first
    // has ended, long before that is told.
    let calls = [
        (1, "locks", [10, 1, 10]),
        (3, "works", [40, 5, 40]),
        (1, "makes the second", [20, 20, 25]),
        (2, "locks", [100, 30, 100]),
        (2, "works", [120, 110, 120]),
        (1, "ends", [200, 60, 200]),
    ];
    let is_born = Cell::new(false);
    let mut told = |(tid, what, _): &(i32, &str, [u64; 3])| {
        let lock = |found, change| Told { all: vec![Condition::new(LOCK, found, change)], ..Told::default() };
        match (*tid, *what) {
            (2, _) if !is_born.get() => Told::unborn(),
            (_, "locks") => lock(Found::Exactly(0), Change::To(1)),
            (_, "ends") => lock(Found::Anything, Change::To(0)),
            (_, "works") => {
                Told { all: vec![Condition::new(OTHER, Found::Anything, Change::To(1))], ..Told::default() }
            }
            _ => Told::default(),
        }
    };
    let mut window = Window::default();
    for call in calls {
        window.push(item(call.0, call.2, Reach::All, call));
    }
    let mut order = Vec::new();
    while let Some(call) = window.pop(true, &mut told) {
        is_born.set(is_born.get() || call.what.1 == "makes the second");
        order.push((call.what.0, call.what.1));
    }
    let at = |call| order.iter().position(|other| *other == call).unwrap();
    assert!(at((1, "ends")) < at((2, "locks")) && order.len() == calls.len(), "{order:?}");
}

/// Who is looked at beyond the next few, since it could go before one of them, goes behind who tells nothing and comes before it.
#[test]
fn who_is_looked_at_early_keeps_its_turn() {
    const NUMBER: u64 = 7;
    let stored = std::iter::repeat_n((6, "stored", [999, 999, 999]), 11);
    let calls = [(4, "opens", [900, 890, 900])].into_iter().chain(stored);
    let calls = calls.chain([(6, "unmaps", [1000, 10, 1000]), (4, "maps", [1010, 950, 1010])]);
    let mut told = |(_, what, _): &(i32, &str, [u64; 3])| {
        let of_number = |found, change| vec![Condition::new(NUMBER, found, change)];
        match *what {
            "opens" => Told { all: of_number(Found::Exactly(0), Change::To(1)), ..Told::default() },
            "maps" => Told { all: of_number(Found::Exactly(1), Change::Nothing), ..Told::default() },
            _ => Told::default(),
        }
    };
    let mut window = Window::default();
    for call in calls {
        window.push(item(call.0, call.2, Reach::All, call));
    }
    let pops = std::iter::from_fn(|| window.pop(true, &mut told));
    let order: Vec<&str> = pops.map(|call| call.what.1).filter(|what| *what != "stored").collect();
    assert_eq!(order, ["opens", "unmaps", "maps"]);
}

/// A call that lasted long goes before who saw what it did, however many wait beside it.
#[test]
fn many_that_wait_do_not_hide_who_was_at_work_for_long() {
    const NAME: u64 = 7;
    const WAIT: u64 = 10_000_000;
    let waiting = (100..200).map(|tid| (tid, "waits", [WAIT, 10 + tid as u64, WAIT]));
    let removes = [(1, "removes", [900_000, 1_000, 900_000]), (2, "finds nothing", [100_000, 90_000, 100_000])];
    let mut told = |(_, what, _): &(i32, &str, [u64; 3])| {
        let of_name = |found, change| vec![Condition::new(NAME, Found::Exactly(found), change)];
        match *what {
            "removes" => Told { all: of_name(1, Change::To(0)), ..Told::default() },
            "finds nothing" => Told { all: of_name(0, Change::Nothing), ..Told::default() },
            _ => Told { lasts: true, ..Told::default() },
        }
    };
    let mut window = Window::default();
    let begun = (3, "begins", [50_000, 40_000, 50_000]);
    // What comes next is more than is looked at together.
    let next = std::iter::repeat_n((4, "waits", [800_000, 799_000, 800_000]), 60);
    for call in [begun].into_iter().chain(removes).chain(next).chain(waiting) {
        let reach = if call.1 == "waits" { Reach::Numbers } else { Reach::All };
        window.push(item(call.0, call.2, reach, call));
    }
    let pops = std::iter::from_fn(|| window.pop(true, &mut told));
    let order: Vec<&str> = pops.map(|call| call.what.1).filter(|what| *what != "waits").collect();
    assert_eq!((order, window.untold), (vec!["begins", "removes", "finds nothing"], 0));
}

/// What nothing explains here and there does not end the search for what can be explained.
#[test]
fn a_search_goes_on_where_some_of_it_is_in_vain() {
    const NAME: u64 = 7;
    const ODD: u64 = 8;
    const FINE: u64 = 9;
    let rounds = (0..300u64).flat_map(|round| {
        let at = move |begin: u64, end: u64| [end, begin, end].map(|ns| round * 3000 + ns);
        let odd = [(1, "clears", at(1, 10)), (1, "finds it set", at(50, 100)), (2, "sets another", at(60, 110))];
        // More than are looked at together.
        let fine = (1..20).flat_map(move |n| {
            [
                (1, "sees the other", at(100 * n + 100, 100 * n + 150)),
                (2, "sets another", at(100 * n + 110, 100 * n + 160)),
            ]
        });
        odd.into_iter().chain(fine)
    });
    let long = |tid: i32, begin: u64, end: u64| (tid, [end, begin, end].map(|ns| 1_000_000 + ns));
    let busy = (20..28).map(|tid| long(tid, 10 + tid as u64, 900_000)).map(|(tid, at)| (tid, "works", at));
    let next = std::iter::repeat_n(long(4, 799_000, 800_000), 60).map(|(tid, at)| (tid, "waits", at));
    let of_name = [("makes", 3, 1, 9), ("removes", 3, 1_000, 900_000), ("finds nothing", 2, 90_000, 100_000)];
    let of_name = of_name.map(|(what, tid, begin, end)| (tid, what, long(tid, begin, end).1));
    let mut told = |(tid, what, _): &(i32, &str, [u64; 3])| {
        let one = |thing, found, change| Told { all: vec![Condition::new(thing, found, change)], ..Told::default() };
        match *what {
            "clears" => one(ODD, Found::Anything, Change::To(0)),
            "finds it set" => one(ODD, Found::Exactly(1), Change::Nothing),
            "sets another" => one(FINE, Found::Anything, Change::To(1)),
            "sees the other" => one(FINE, Found::Exactly(1), Change::Nothing),
            "works" => one(100 + *tid as u64, Found::Anything, Change::To(1)),
            "makes" => one(NAME, Found::Anything, Change::To(1)),
            "removes" => one(NAME, Found::Exactly(1), Change::To(0)),
            "finds nothing" => one(NAME, Found::Exactly(0), Change::Nothing),
            _ => Told { lasts: true, ..Told::default() },
        }
    };
    let mut window = Window::default();
    for call in rounds.chain(of_name).chain(busy).chain(next) {
        let reach = if call.1 == "waits" { Reach::Numbers } else { Reach::All };
        window.push(item(call.0, call.2, reach, call));
    }
    let pops = std::iter::from_fn(|| window.pop(true, &mut told));
    let order: Vec<&str> = pops.map(|call| call.what.1).filter(|what| of_name.iter().any(|of| of.1 == *what)).collect();
    assert_eq!((order, window.untold), (vec!["makes", "removes", "finds nothing"], 300));
}

/// Two that append at once and see the file as both have left it have no order, unless one of them tells where it wrote.
#[test]
fn which_of_two_appends_came_first_is_a_guess() {
    const SIZE: u64 = 1;
    let appends = |tid: i32, found, length, seen| {
        let grows = Condition::new(SIZE, found, Change::More(length)).then(seen);
        (tid, Told { all: vec![grows], ..Told::default() })
    };
    let guessed = |first_sees, second_found| {
        let is_empty =
            (3, Told { all: vec![Condition::new(SIZE, Found::Exactly(0), Change::Nothing)], ..Told::default() });
        let (first, second) = (appends(1, Found::Anything, 10, first_sees), appends(2, second_found, 20, 30));
        let mut window = Window::default();
        for (call, at) in [(is_empty, [8, 5, 8]), (first, [100, 20, 100]), (second, [101, 30, 101])] {
            window.push(item(call.0, at, Reach::All, call));
        }
        let mut told = |(_, told): &(i32, Told)| told.clone();
        let order: Vec<i32> = std::iter::from_fn(|| window.pop(true, &mut told)).map(|call| call.what.0).collect();
        (order, window.guessed())
    };
    assert_eq!(guessed(30, Found::Anything), (vec![3, 1, 2], 1));
    assert_eq!(guessed(10, Found::Anything), (vec![3, 1, 2], 0), "it saw the file before the other was done");
    assert_eq!(guessed(30, Found::Exactly(10)), (vec![3, 1, 2], 0));
    assert_eq!(guessed(30, Found::Exactly(0)), (vec![3, 2, 1], 0));
}
