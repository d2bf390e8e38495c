//! Who comes next.
//!
//! Goals: orders that random choices hardly ever hit come up as well. Sources: priorities with few points of change find
//! every bug of small depth with a known probability (Burckhardt et al., A Randomized Scheduler with Probabilistic
//! Guarantees of Finding Bugs, ASPLOS 2010). Non-goals: knowing what threads do.

use std::collections::HashMap;

use super::Schedule;

/// Points at which priorities change.
const CHANGES: u64 = 3;
/// Steps whose number of choices is kept.
const MOST_DEGREES: usize = 1 << 16;

/// Random numbers (splitmix64).
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }
}

#[derive(Debug)]
enum Strategy {
    /// Any, with equal probability.
    Uniform,
    /// The one of highest priority; at the points of change, the one that would be next falls behind all others.
    Priorities { of: HashMap<u32, i64>, changes: Vec<u64>, lowest: i64 },
    /// One thread as far as it can go, then the others.
    Favourite(u64),
    /// One thread only when no other can go on.
    Straggler(u64),
    /// As told.
    Path(Vec<u32>),
}

/// Chooses.
#[derive(Debug)]
pub(super) struct Chooser {
    strategy: Strategy,
    random: Random,
    steps: u64,
    degrees: Vec<u32>,
}

impl Chooser {
    pub(super) fn new(schedule: &Schedule, actions: u64) -> Chooser {
        let (strategy, seed) = match schedule {
            Schedule::Path(path) => (Strategy::Path(path.clone()), 0),
            Schedule::Seed(seed) => {
                let mut random = Random(*seed);
                let strategy = match seed % 4 {
                    0 => Strategy::Uniform,
                    1 => Strategy::Priorities {
                        of: HashMap::new(),
                        changes: (0..CHANGES).map(|_| random.next() % actions.max(1)).collect(),
                        lowest: 0,
                    },
                    2 => Strategy::Favourite(seed / 4),
                    _ => Strategy::Straggler(seed / 4),
                };
                (strategy, *seed)
            }
        };
        Chooser { strategy, random: Random(!seed), steps: 0, degrees: Vec::new() }
    }

    pub(super) fn degrees(&self) -> &[u32] {
        &self.degrees
    }

    /// One of several threads, which are in order of their numbers.
    pub(super) fn choose(&mut self, threads: &[u32]) -> Option<u32> {
        self.steps += 1;
        if let [only] = threads {
            return Some(*only);
        }
        if self.degrees.len() < MOST_DEGREES {
            self.degrees.push(threads.len() as u32);
        }
        let random = &mut self.random;
        match &mut self.strategy {
            Strategy::Uniform => threads.get(random.below(threads.len())).copied(),
            Strategy::Priorities { of, changes, lowest } => {
                for thread in threads {
                    of.entry(*thread).or_insert_with(|| (random.next() >> 2) as i64);
                }
                let highest = |of: &HashMap<u32, i64>| threads.iter().copied().max_by_key(|t| of.get(t).copied());
                if changes.contains(&self.steps) {
                    *lowest -= 1;
                    of.extend(highest(of).map(|t| (t, *lowest)));
                }
                highest(of)
            }
            Strategy::Favourite(which) => Some(favourite(threads, *which)),
            Strategy::Straggler(which) => {
                let last = favourite(threads, *which);
                let others: Vec<u32> = threads.iter().copied().filter(|t| *t != last).collect();
                others.get(random.below(others.len())).copied()
            }
            Strategy::Path(path) => {
                let at = path.get(self.degrees.len() - 1).map_or(0, |i| *i as usize);
                threads.get(at.min(threads.len() - 1)).copied()
            }
        }
    }
}

/// The same thread whenever it can go on: of all that the plan has, the first at or after a number (the numbers go round).
fn favourite(threads: &[u32], which: u64) -> u32 {
    const AROUND: u64 = 8;
    let distance = |thread: u32| (u64::from(thread) + AROUND - which % AROUND) % AROUND;
    threads.iter().copied().min_by_key(|t| (distance(*t), *t)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which threads with so many actions each come.
    fn order(schedule: &Schedule, actions: &[u32]) -> Vec<u32> {
        let mut left = actions.to_vec();
        let mut chooser = Chooser::new(schedule, actions.iter().sum::<u32>().into());
        let mut out = Vec::new();
        loop {
            let able: Vec<u32> = (0..left.len() as u32).filter(|t| left[*t as usize] > 0).collect();
            if able.is_empty() {
                return out;
            }
            let thread = chooser.choose(&able).unwrap();
            left[thread as usize] -= 1;
            out.push(thread);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_order_and_seeds_differ() {
        let orders: Vec<_> = (0..64).map(|seed| order(&Schedule::Seed(seed), &[5, 5, 5])).collect();
        let again: Vec<_> = (0..64).map(|seed| order(&Schedule::Seed(seed), &[5, 5, 5])).collect();
        assert_eq!(orders, again);
        let different: std::collections::BTreeSet<_> = orders.iter().collect();
        assert!(different.len() > 32, "{}", different.len());
    }

    #[test]
    fn every_thread_is_the_favourite_once_and_the_straggler_once() {
        for thread in 0..3u32 {
            let first = order(&Schedule::Seed(4 * u64::from(thread) + 2), &[4, 4, 4]);
            assert!(first[..4].iter().all(|t| *t == thread), "{first:?}");
            let last = order(&Schedule::Seed(4 * u64::from(thread) + 3), &[4, 4, 4]);
            assert!(last[8..].iter().all(|t| *t == thread), "{last:?}");
        }
    }

    #[test]
    fn paths_reach_every_order() {
        // The tree of choices, depth first: the degrees say where there is another branch.
        let (mut seen, mut path) = (std::collections::BTreeSet::new(), Vec::new());
        loop {
            let schedule = Schedule::Path(path.clone());
            let mut chooser = Chooser::new(&schedule, 6);
            let mut left = [2, 2, 2];
            let mut taken = Vec::new();
            loop {
                let able: Vec<u32> = (0..3).filter(|t| left[*t as usize] > 0).collect();
                let Some(thread) = (!able.is_empty()).then(|| chooser.choose(&able)).flatten() else { break };
                left[thread as usize] -= 1;
                taken.push(thread);
            }
            assert!(seen.insert(taken), "an order comes twice");
            let degrees = chooser.degrees();
            path.resize(degrees.len(), 0);
            while path.last().zip(degrees.get(path.len().wrapping_sub(1))).is_some_and(|(i, d)| i + 1 >= *d) {
                path.pop();
            }
            match path.last_mut() {
                Some(last) => *last += 1,
                None => break,
            }
        }
        assert_eq!(seen.len(), 90, "6! / (2! 2! 2!)");
    }
}
