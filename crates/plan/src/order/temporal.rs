//! Temporal ordering: an action waits for every action that had completed when it began; overlapping ones are free.
//!
//! What had completed when a thread's action before began has been waited for then: only what ended in between is new.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};

use super::needs::{Needs, Point};
use super::rule::Rule;

/// Ends that are kept. A thread that has not acted since the earliest of them waits for more than it must.
const KEPT: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Temporal {
    /// By end and thread.
    ends: BTreeMap<(u64, u32), u64>,
    /// Up to which instant each thread has waited for the others.
    seen_ns: Vec<u64>,
    /// The last that is no longer kept, of each thread.
    forgotten: BTreeMap<u32, Point>,
}

impl Temporal {
    pub fn new(threads: usize) -> Temporal {
        Temporal { seen_ns: vec![0; threads], ..Temporal::default() }
    }

    /// The last action of every other thread that had ended at this instant, as far as the thread has not waited for it.
    pub fn completed_at(&mut self, thread: u32, instant_ns: u64, needs: &mut Needs) {
        let seen = &mut self.seen_ns[thread as usize];
        let late = self.forgotten.values().filter(|p| p.end_ns > *seen);
        late.for_each(|p| needs.add(*p, Rule::Temporal));
        if instant_ns > *seen {
            let news = (Excluded((*seen, u32::MAX)), Included((instant_ns, u32::MAX)));
            for (&(end_ns, thread), &count) in self.ends.range(news) {
                needs.add(Point { thread, count, end_ns }, Rule::Temporal);
            }
            *seen = instant_ns;
        }
    }

    pub fn ended(&mut self, point: Point) {
        self.ends.insert((point.end_ns.max(1), point.thread), point.count);
        if self.ends.len() > KEPT
            && let Some(((end_ns, thread), count)) = self.ends.pop_first()
        {
            self.forgotten.insert(thread, Point { thread, count, end_ns });
        }
    }
}
