//! Which bytes of a file calls have changed (all others are still as they were at the beginning), or have shown.

/// Ranges that were changed, or shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Touched {
    /// Begin and end, ascending, apart from each other.
    ranges: Vec<(u64, u64)>,
}

/// More ranges of one file are not followed: all between the two closest counts as changed.
const MOST: usize = 4096;

impl Touched {
    /// A range was changed.
    pub fn add(&mut self, begin: u64, end: u64) {
        if begin >= end {
            return;
        }
        let first = self.ranges.partition_point(|r| r.1 < begin);
        let after = self.ranges.partition_point(|r| r.0 <= end);
        let (mut from, mut to) = (begin, end);
        if let (Some(a), true) = (self.ranges.get(first), first < after) {
            from = from.min(a.0);
            to = to.max(self.ranges[after - 1].1);
        }
        self.ranges.splice(first..after, [(from, to)]);
        if self.ranges.len() > MOST {
            self.join_closest();
        }
    }

    /// What another has, too.
    pub fn join(&mut self, other: &Touched) {
        for &(begin, end) in &other.ranges {
            self.add(begin, end);
        }
    }

    fn join_closest(&mut self) {
        let gap = |i: &usize| self.ranges[*i].0 - self.ranges[*i - 1].1;
        if let Some(at) = (1..self.ranges.len()).min_by_key(gap) {
            self.ranges[at - 1].1 = self.ranges[at].1;
            self.ranges.remove(at);
        }
    }

    /// Everything was changed, or nobody knows what.
    pub fn all(&mut self) {
        self.ranges = vec![(0, u64::MAX)];
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// What was not changed below `end`.
    pub fn rest(&self, begin: u64, end: u64) -> Vec<(u64, u64)> {
        let (mut out, mut at) = (Vec::new(), begin);
        for &(from, to) in self.ranges.iter().filter(|r| r.1 > begin && r.0 < end) {
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
        assert!(t.ranges.len() <= MOST);
        assert!(t.rest(0, 1).is_empty());
    }
}
