//! Which bytes of a file calls have changed (all others are still as they were at the beginning), or have shown.

use std::collections::BTreeMap;

/// Ranges that were changed, or shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Touched {
    /// End by begin, apart from each other.
    ranges: BTreeMap<u64, u64>,
    /// What lies between some of them counts as well.
    joined: bool,
    /// One that was added to last, or lies within it: mostly the next is in it again.
    last: (u64, u64),
}

/// So many ranges of one file are followed; of twice as many the closest are joined: all between two counts as changed.
const MOST: usize = 4096;

impl Touched {
    /// A range was changed.
    pub fn add(&mut self, begin: u64, end: u64) {
        if begin >= end || self.last.0 <= begin && end <= self.last.1 {
            return;
        }
        let (mut from, mut to) = (begin, end);
        if let Some((&before, &until)) = self.ranges.range(..=begin).next_back()
            && until >= begin
        {
            if until >= end {
                self.last = (before, until);
                return;
            }
            from = before;
        }
        while let Some((&next, &until)) = self.ranges.range(from..=to).next() {
            self.ranges.remove(&next);
            to = to.max(until);
        }
        self.ranges.insert(from, to);
        self.last = (from, to);
        if self.ranges.len() > 2 * MOST {
            self.join_closest();
        }
    }

    /// What another has, too.
    pub fn join(&mut self, other: &Touched) {
        for (&begin, &end) in &other.ranges {
            self.add(begin, end);
        }
    }

    /// Joins what is closest until not too many are left.
    fn join_closest(&mut self) {
        let gaps = self.ranges.values().zip(self.ranges.keys().skip(1)).map(|(end, next)| next - end);
        let mut gaps: Vec<u64> = gaps.collect();
        let many = self.ranges.len().saturating_sub(MOST);
        let Some(&mut widest) = many.checked_sub(1).filter(|i| *i < gaps.len()).map(|i| gaps.select_nth_unstable(i).1)
        else {
            return;
        };
        // Of those that are as wide as the widest no more than have to be.
        let mut as_wide = gaps[..many].iter().filter(|gap| **gap == widest).count();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(MOST);
        for (&begin, &end) in &self.ranges {
            let gap = joined.last().map(|last| begin - last.1);
            let is_widest = gap == Some(widest) && as_wide > 0;
            as_wide -= usize::from(is_widest);
            match joined.last_mut().filter(|_| is_widest || gap.is_some_and(|gap| gap < widest)) {
                Some(last) => last.1 = end,
                None => joined.push((begin, end)),
            }
        }
        self.ranges = joined.into_iter().collect();
        self.joined = true;
    }

    /// Everything was changed, or nobody knows what.
    pub fn all(&mut self) {
        self.ranges = BTreeMap::from([(0, u64::MAX)]);
        self.last = (0, u64::MAX);
    }

    /// Whether no more counts than what was added.
    pub fn is_exact(&self) -> bool {
        !self.joined
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// What was not changed below `end`.
    pub fn rest(&self, begin: u64, end: u64) -> Vec<(u64, u64)> {
        let (mut out, mut at) = (Vec::new(), begin);
        let before = self.ranges.range(..begin).next_back().filter(|(_, until)| **until > begin);
        for (&from, &to) in before.into_iter().chain(self.ranges.range(begin..end.max(begin))) {
            if from > at {
                out.push((at, from));
            }
            at = at.max(to);
        }
        if at < end {
            out.push((at, end));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_leave_the_rest() {
        let mut t = Touched::default();
        assert_eq!(t.rest(0, 10), [(0, 10)]);
        for (begin, end) in [(5, 7), (1, 2), (9, 12), (2, 3), (7, 7)] {
            t.add(begin, end);
        }
        assert_eq!(t.rest(0, 14), [(0, 1), (3, 5), (7, 9), (12, 14)]);
        t.add(0, 8);
        assert_eq!(t.rest(0, 10), [(8, 9)]);
        t.all();
        assert!(t.rest(0, u64::MAX).is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let mut t = Touched::default();
        (0..3 * MOST as u64).for_each(|i| t.add(10 * i, 10 * i + 1));
        assert!(t.ranges.len() <= 2 * MOST && t.ranges.len() >= MOST);
        assert!(t.rest(0, 1).is_empty() && !t.is_exact());
        // What is far apart stays so.
        let mut t = Touched::default();
        (0..2 * MOST as u64).for_each(|i| t.add(10 * i, 10 * i + 1));
        t.add(1 << 40, (1 << 40) + 1);
        assert_eq!(t.rest(1 << 30, 1 << 41), [(1 << 30, 1 << 40), ((1 << 40) + 1, 1 << 41)]);
    }

    /// The same as bits, one for each byte.
    #[test]
    fn ranges_are_those_of_a_row_of_bits() {
        let (mut t, mut bits, mut state) = (Touched::default(), [false; 64], 1u64);
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (begin, length) = (state >> 33 & 63, state >> 40 & 3);
            let end = (begin + length).min(64);
            t.add(begin, end);
            (begin..end).for_each(|at| bits[at as usize] = true);
            let rest = t.rest(5, 60);
            assert!((5..60).all(|at| bits[at as usize] != rest.iter().any(|r| (r.0..r.1).contains(&at))));
            assert!(rest.is_sorted_by(|a, b| a.1 < b.0));
            if state >> 50 & 31 == 0 {
                (t, bits) = (Touched::default(), [false; 64]);
            }
        }
    }
}
