//! Items in the order of their keys, which come and go nearly in that order.
//!
//! Goals: taking in the latest and giving away the earliest costs next to nothing; memory in one piece. Non-goals: knowing what
//! items are, or which goes first.

use std::collections::{BTreeMap, VecDeque};

/// What an item tells of and changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// It changes nothing, and tells of numbers of open files alone.
    Numbers,
    /// It changes nothing, and tells of a file, too: what it holds, and who may open it.
    Content(FileMark),
    /// It changes what a file holds, or where in it others go on, but neither names nor numbers.
    Changes(FileMark),
    /// Whatever there is.
    All,
}

/// Tells a file from most others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileMark(u8);

impl FileMark {
    /// So many there are.
    pub const COUNT: usize = 16;

    /// That of a file, by a number whose first bits are well mixed.
    pub fn of(number: u64) -> FileMark {
        FileMark((number >> 60) as u8)
    }
}

impl Reach {
    /// How many there are.
    pub const COUNT: usize = 2 + 2 * FileMark::COUNT;

    /// A number below [`Reach::COUNT`].
    pub fn number(self) -> usize {
        match self {
            Reach::Numbers => 0,
            Reach::All => 1,
            Reach::Content(FileMark(mark)) => 2 + usize::from(mark),
            Reach::Changes(FileMark(mark)) => 2 + FileMark::COUNT + usize::from(mark),
        }
    }

    /// Whether it changes anything.
    pub fn changes(self) -> bool {
        matches!(self, Reach::Changes(_) | Reach::All)
    }
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
    /// What it tells of and changes.
    pub reach: Reach,
    /// What it shows without being asked: a thing, and what that was when it was over.
    pub shown: Option<(u64, u64)>,
    /// What it is.
    pub what: T,
}

/// What its place does not tell of an item.
#[derive(Debug)]
pub struct Held<T> {
    /// Whether it is complete by now.
    pub is_ready: bool,
    /// See [`Item::shown`].
    pub shown: Option<(u64, u64)>,
    /// What it is.
    pub what: T,
}

/// Where an item stands: in the order of their keys, and of two with the same that which came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its key.
    pub key_ns: u64,
    /// The how manieth it was.
    number: u64,
    /// When it began.
    pub begin_ns: u64,
    /// When it was over.
    pub end_ns: u64,
    /// Its thread.
    pub tid: i32,
    slot: u32,
    /// Whether it was complete when it came. What is complete later is so in [`Held`].
    pub came_ready: bool,
    /// See [`Item::reach`].
    pub reach: Reach,
}

impl Place {
    fn is_long(&self) -> bool {
        self.key_ns.saturating_sub(self.begin_ns) > LONG_NS
    }
}

/// Items that begin so long before their key are remembered apart.
pub const LONG_NS: u64 = 32_000;
/// So many that tell of numbers alone are given of those that began before an instant.
const FEW: usize = 6;

/// Items by when they began.
type ByBegin = BTreeMap<(u64, u64), Place>;

/// The items.
#[derive(Debug)]
pub struct Queue<T> {
    order: VecDeque<Place>,
    /// Those that last long come late by their keys: here they are by when they began.
    long: ByBegin,
    /// Of these those that tell of numbers alone: many may wait, and hardly any concerns others.
    long_of_numbers: ByBegin,
    /// Where items stay as long as they wait, each with its number, and where there is room.
    slots: Vec<Option<(u64, Held<T>)>>,
    free: Vec<u32>,
    next: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue {
            order: VecDeque::new(),
            long: ByBegin::new(),
            long_of_numbers: ByBegin::new(),
            slots: Vec::new(),
            free: Vec::new(),
            next: 0,
        }
    }
}

impl<T> Queue<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Takes in an item; returns its place.
    pub fn push(&mut self, item: Item<T>) -> Place {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        let Item { key_ns, begin_ns, end_ns, tid, is_ready, reach, shown, what } = item;
        let place = Place { key_ns, number: self.next, begin_ns, end_ns, tid, slot, came_ready: is_ready, reach };
        self.next += 1;
        if place.is_long() {
            self.long_like(place).insert((place.begin_ns, place.number), place);
        }
        // Mostly none is later.
        match self.order.iter().rev().take_while(|other| other.key_ns > key_ns).count() {
            0 => self.order.push_back(place),
            later => self.order.insert(self.order.len() - later, place),
        }
        self.slots[slot as usize] = Some((place.number, Held { is_ready, shown, what }));
        place
    }

    /// The places from the first on.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.order.iter().copied()
    }

    /// The items from the first on, with their places.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &Held<T>)> {
        self.order.iter().filter_map(|place| Some((*place, self.get(*place)?)))
    }

    /// The item at a place.
    pub fn get(&self, place: Place) -> Option<&Held<T>> {
        let (_, item) = self.slots.get(place.slot as usize)?.as_ref().filter(|(number, _)| *number == place.number)?;
        Some(item)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, place: Place) -> Option<&mut Held<T>> {
        let slot = self.slots.get_mut(place.slot as usize)?;
        let (_, item) = slot.as_mut().filter(|(number, _)| *number == place.number)?;
        Some(item)
    }

    /// Takes out the item at a place.
    pub fn remove(&mut self, place: Place) -> Option<T> {
        self.get(place)?;
        match self.at(place)? {
            0 => self.order.pop_front(),
            at => self.order.remove(at),
        };
        self.free.push(place.slot);
        let (_, item) = self.slots[place.slot as usize].take()?;
        if place.is_long() {
            self.long_like(place).remove(&(place.begin_ns, place.number));
        }
        Some(item.what)
    }

    /// Where a place that lasts long is remembered.
    fn long_like(&mut self, place: Place) -> &mut ByBegin {
        if place.reach == Reach::Numbers { &mut self.long_of_numbers } else { &mut self.long }
    }

    /// Further places of items that began before an instant, the earliest first; at most so many, but of those that tell of numbers
    /// alone few, and those that are earlier ones of the threads of the others.
    pub fn begun_before(&self, end_ns: u64, most: usize, known: &[Place]) -> Vec<Place> {
        let by_begin = |place: &Place| (place.begin_ns, place.number);
        let is_new = |place: &Place| !known.contains(place);
        let near = self.order.iter().take_while(|place| place.key_ns <= end_ns.saturating_add(LONG_NS));
        let short = near.filter(|place| !place.is_long() && place.begin_ns < end_ns).copied().filter(is_new);
        let (mut of_numbers, mut all): (Vec<Place>, Vec<Place>) =
            short.partition(|place| place.reach == Reach::Numbers);
        all.extend(begun(&self.long, end_ns).filter(is_new).take(most));
        all.sort_unstable_by_key(by_begin);
        all.truncate(most);
        // What began behind the last may do so behind another of its thread that is left out.
        let last = all.last().filter(|_| all.len() == most).map_or((end_ns, 0), by_begin);
        of_numbers.extend(begun(&self.long_of_numbers, end_ns));
        of_numbers.retain(|place| by_begin(place) < last);
        of_numbers.sort_unstable_by_key(by_begin);
        let few = of_numbers.into_iter().filter(is_new).enumerate();
        let comes_along =
            |place: &Place| all.iter().any(|other| other.tid == place.tid && by_begin(place) < by_begin(other));
        let of_numbers: Vec<Place> =
            few.filter(|(n, place)| *n < FEW || comes_along(place)).map(|(_, place)| place).collect();
        all.extend(of_numbers);
        all.sort_unstable_by_key(by_begin);
        all
    }

    /// Places of items that last long and began before an instant.
    pub fn long_begun_before(&self, end_ns: u64) -> impl Iterator<Item = Place> {
        begun(&self.long, end_ns).chain(begun(&self.long_of_numbers, end_ns))
    }

    /// How many stand before a place. Those that are taken out stand near the front.
    fn at(&self, place: Place) -> Option<usize> {
        /// So many are looked at one after the other.
        const FRONT: usize = 16;
        let near = self.order.iter().take(FRONT).position(|other| *other == place);
        near.or_else(|| self.order.binary_search(&place).ok())
    }
}

/// Those that began before an instant.
fn begun(items: &ByBegin, end_ns: u64) -> impl Iterator<Item = Place> {
    items.range(..(end_ns, 0)).map(|(_, place)| *place)
}

#[cfg(test)]
mod tests {
    use super::super::window_tests::{Random, item};
    use super::*;

    /// Against a plain list that is sorted and searched anew each time.
    #[test]
    fn it_holds_what_a_sorted_list_holds() {
        let mut r = Random(0x9e37_79b9_7f4a_7c15);
        let (mut queue, mut list): (Queue<u64>, Vec<(Place, u64)>) = (Queue::default(), Vec::new());
        for now in (1_000..4_000_000u64).step_by(1_000) {
            let key_ns = now - r.below(1_000);
            let begin_ns = key_ns.saturating_sub(r.below(3 * LONG_NS));
            list.push((queue.push(item(1, [key_ns, begin_ns, now], Reach::All, begin_ns)), begin_ns));
            list.sort_unstable();
            if r.below(2) == 0 {
                let (place, begin) = list.remove(r.below(list.len().min(8) as u64) as usize);
                assert_eq!(queue.remove(place), Some(begin));
                assert!(queue.get(place).is_none());
            }
            assert!(queue.iter().map(|(place, _)| place).eq(list.iter().map(|(place, _)| *place)));
            let mut begun: Vec<(u64, u64, Place)> =
                list.iter().filter(|(_, begin)| *begin < now / 2).map(|(at, begin)| (*begin, at.number, *at)).collect();
            begun.sort_unstable_by_key(|(begin, number, _)| (*begin, *number));
            assert!(queue.begun_before(now / 2, 10, &[]).into_iter().eq(begun.into_iter().take(10).map(|(.., at)| at)));
        }
    }

    /// Who waits takes the place of nobody else, and goes before what its thread does next.
    #[test]
    fn few_that_wait_are_given_and_those_that_their_threads_waited_for() {
        const MOST: usize = 4;
        let mut queue: Queue<()> = Queue::default();
        let mut push = |tid, begin_ns, reach| queue.push(item(tid, [10_000_000, begin_ns, 10_000_000], reach, ()));
        let waiting: Vec<Place> = (0..50).map(|tid| push(tid, 100 + tid as u64, Reach::Numbers)).collect();
        // Their threads had waited before.
        let changing: Vec<Place> = (0..6).map(|n| push(40 + n, 1_000 + n as u64, Reach::All)).collect();
        let late = push(90, 2_000, Reach::Numbers);
        let given = queue.begun_before(9_000_000, MOST, &changing[..1]);
        assert_eq!(given, [&waiting[..FEW], &waiting[41..45], &changing[1..5]].concat());
        assert!(!given.contains(&late));
        assert_eq!(queue.long_begun_before(9_000_000).count(), 57);
    }
}
