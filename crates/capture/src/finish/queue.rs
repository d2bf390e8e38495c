//! Items in the order of their keys, which come and go nearly in that order.
//!
//! Goals: taking in the latest and giving away the earliest costs next to nothing; memory in one piece. Non-goals: knowing what
//! items are, or which goes first.

use std::collections::{BTreeMap, VecDeque};

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

/// Where an item stands: its key, and the how manieth it was.
pub type Place = (u64, u64);

/// Items that begin so long before their key are remembered apart.
const LONG_NS: u64 = 1_000_000;

/// The items.
#[derive(Debug)]
pub struct Queue<T> {
    items: VecDeque<(u64, Item<T>)>,
    /// Those that last long come late by their keys: here they are by when they began.
    long: BTreeMap<Place, Place>,
    next: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { items: VecDeque::new(), long: BTreeMap::new(), next: 0 }
    }
}

impl<T> Queue<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Takes in an item; returns its place.
    pub fn push(&mut self, item: Item<T>) -> Place {
        let place = (item.key_ns, self.next);
        self.next += 1;
        if is_long(&item) {
            self.long.insert((item.begin_ns, place.1), place);
        }
        let later = self.items.iter().rev().take_while(|(_, other)| other.key_ns > item.key_ns).count();
        self.items.insert(self.items.len() - later, (place.1, item));
        place
    }

    /// The items from the first on, with their places.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &Item<T>)> {
        self.items.iter().map(|(number, item)| ((item.key_ns, *number), item))
    }

    /// The item at a place.
    pub fn get(&self, place: Place) -> Option<&Item<T>> {
        self.at(place).map(|at| &self.items[at].1)
    }

    /// The same, to be changed; its times stay.
    pub fn get_mut(&mut self, place: Place) -> Option<&mut Item<T>> {
        self.at(place).map(|at| &mut self.items[at].1)
    }

    /// Takes out the item at a place.
    pub fn remove(&mut self, place: Place) -> Option<Item<T>> {
        let (_, item) = self.items.remove(self.at(place)?)?;
        if is_long(&item) {
            self.long.remove(&(item.begin_ns, place.1));
        }
        Some(item)
    }

    /// Places of items that began before an instant, the earliest first; at most so many.
    pub fn begun_before(&self, end_ns: u64, most: usize) -> Vec<Place> {
        let long = self.long.range(..(end_ns, 0)).take(most).map(|(begin, place)| (*begin, *place));
        let near = self.iter().take_while(|(place, _)| place.0 <= end_ns.saturating_add(LONG_NS));
        let short = near.filter(|(_, item)| !is_long(item) && item.begin_ns < end_ns);
        let mut all: Vec<(Place, Place)> = short.map(|(place, item)| ((item.begin_ns, place.1), place)).collect();
        all.extend(long);
        all.sort_unstable();
        all.into_iter().take(most).map(|(_, place)| place).collect()
    }

    fn at(&self, place: Place) -> Option<usize> {
        let number = |at: &usize| self.items.get(*at).is_some_and(|(number, item)| (item.key_ns, *number) == place);
        // The first few are asked for most.
        const FIRST: usize = 4;
        if let Some(at) = (0..FIRST).find(number) {
            return Some(at);
        }
        let at = self.items.partition_point(|(number, item)| (item.key_ns, *number) < place);
        Some(at).filter(number)
    }
}

fn is_long<T>(item: &Item<T>) -> bool {
    item.key_ns.saturating_sub(item.begin_ns) > LONG_NS
}

#[cfg(test)]
mod tests {
    use super::super::window_tests::Random;
    use super::*;

    /// Against a plain list that is sorted and searched anew each time.
    #[test]
    fn it_holds_what_a_sorted_list_holds() {
        let mut r = Random(0x9e37_79b9_7f4a_7c15);
        let (mut queue, mut list): (Queue<u64>, Vec<(Place, u64)>) = (Queue::default(), Vec::new());
        for now in (1_000..4_000_000u64).step_by(1_000) {
            let key_ns = now - r.below(1_000);
            let begin_ns = key_ns.saturating_sub(r.below(3 * LONG_NS));
            let item = Item { key_ns, begin_ns, end_ns: now, tid: 1, is_ready: true, what: begin_ns };
            list.push((queue.push(item), begin_ns));
            list.sort_unstable();
            if r.below(2) == 0 {
                let (place, begin) = list.remove(r.below(list.len().min(8) as u64) as usize);
                assert_eq!(queue.remove(place).map(|item| item.what), Some(begin));
                assert!(queue.get(place).is_none());
            }
            assert!(queue.iter().map(|(place, _)| place).eq(list.iter().map(|(place, _)| *place)));
            let mut begun: Vec<(u64, u64, Place)> =
                list.iter().filter(|(_, begin)| *begin < now / 2).map(|(at, begin)| (*begin, at.1, *at)).collect();
            begun.sort_unstable();
            assert!(queue.begun_before(now / 2, 10).into_iter().eq(begun.into_iter().take(10).map(|(.., at)| at)));
        }
    }
}
