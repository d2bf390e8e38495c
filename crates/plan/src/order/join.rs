//! Joins: a thread that started others and idled while they ended had, as a rule, waited for them.
//!
//! The wait itself (a futex) is not in a trace. It is inferred where a thread did nothing while threads that it started
//! ended, and went on soon after the last of these ends: within a millisecond, or a tenth of the time that it idled. A
//! wrong guess keeps an order that the trace had anyway.

use super::needs::{Needs, Point};
use super::rule::Rule;

const SOON_NS: u64 = 1_000_000;
const PART: u64 = 10;

#[derive(Debug, Default)]
pub(super) struct Joins {
    /// Who started a thread.
    starter: Vec<Option<u32>>,
    /// Ends of threads since their starter's last action.
    ends: Vec<Vec<Point>>,
}

impl Joins {
    pub fn new(threads: usize) -> Joins {
        Joins { starter: vec![None; threads], ends: vec![Vec::new(); threads] }
    }

    pub fn started(&mut self, parent: u32, child: u32) {
        if let Some(starter) = self.starter.get_mut(child as usize) {
            *starter = Some(parent);
        }
    }

    pub fn ended(&mut self, point: Point) {
        if let Some(starter) = self.starter[point.thread as usize] {
            self.ends[starter as usize].push(point);
        }
    }

    /// A thread, with its last action, acts again.
    pub fn joined(&mut self, last: Point, begin_ns: u64, needs: &mut Needs) {
        let ends = &mut self.ends[last.thread as usize];
        let latest = ends.iter().map(|p| p.end_ns).filter(|end| *end <= begin_ns).max();
        if let Some(latest) = latest.filter(|latest| *latest >= last.end_ns) {
            let (delay, idle) = (begin_ns - latest, begin_ns - last.end_ns);
            if delay <= SOON_NS.max(idle / PART) {
                ends.iter().filter(|p| p.end_ns <= begin_ns).for_each(|p| needs.add(*p, Rule::Join));
            }
        }
        ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(ends: &[(u32, u64)], last_ns: u64, begin_ns: u64) -> Vec<u32> {
        let mut joins = Joins::new(4);
        (1..4).for_each(|child| joins.started(0, child));
        ends.iter().for_each(|&(thread, end_ns)| joins.ended(Point { thread, count: 9, end_ns }));
        let mut needs = Needs::default();
        needs.begin(0, None);
        joins.joined(Point { thread: 0, count: 5, end_ns: last_ns }, begin_ns, &mut needs);
        needs.finish(&mut Default::default(), false).edges.iter().map(|e| e.wait.thread).collect()
    }

    #[test]
    fn who_goes_on_soon_after_the_last_end_had_waited_for_all() {
        const S: u64 = 1_000_000_000;
        assert_eq!(joined(&[(1, S), (2, 3 * S)], 1_000, 3 * S + 20_000), [1, 2]);
        assert_eq!(joined(&[(1, S), (2, 3 * S)], 1_000, 30 * S), [0; 0]);
        assert_eq!(joined(&[(1, S)], 2 * S, 2 * S + 10), [0; 0]);
        assert_eq!(joined(&[], 0, S), [0; 0]);
    }
}
