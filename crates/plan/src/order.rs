//! Ordering rules to dependencies.
//!
//! Goals: every mode compiles to the same pairs (thread, n), so that the engine knows no rules. Sources: ROOT, sections
//! 3 and 4 (rules), Table 2 (modes). Non-goals: which resources an action touches (that is the model's).
//!
//! The default is ROOT's: thread and file sequential; path stage and name, which over directory entries is "a look
//! waits for the last change, a change waits for the last change and for every look since"; descriptors stage and
//! sequential, for each life of a number.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use reprise_model::{Resource, Touch};

use crate::command::Wait;

/// How a replay is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// ROOT's default.
    #[default]
    Root,
    /// An action waits for every action that had completed when it began.
    Temporal,
    /// One action at a time, in order of effect.
    Single,
    /// Each thread for itself.
    None,
}

impl FromStr for Order {
    type Err = String;
    fn from_str(text: &str) -> Result<Order, String> {
        match text {
            "root" => Ok(Order::Root),
            "temporal" => Ok(Order::Temporal),
            "single" => Ok(Order::Single),
            "none" => Ok(Order::None),
            other => Err(format!("'{other}' is no ordering; choose root, temporal, single or none")),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Root => "root",
            Order::Temporal => "temporal",
            Order::Single => "single",
            Order::None => "none",
        })
    }
}

/// The n-th action of a thread.
type Point = Wait;

#[derive(Default)]
struct State {
    changed: Option<Point>,
    /// Since the last change (for names: since it mattered), by thread.
    looked: HashMap<u32, u64>,
    added: HashMap<u32, u64>,
}

/// Turns touches into waits, action by action.
pub struct Ordering {
    order: Order,
    /// Actions so far, by thread.
    counts: Vec<u64>,
    /// What each thread has waited for already.
    known: Vec<HashMap<u32, u64>>,
    states: HashMap<Resource, State>,
    last: Option<Point>,
    /// Ends of actions that a later one may have overlapped, by thread, and their numbers (temporal).
    ends: Vec<Vec<(u64, u64)>>,
}

impl Ordering {
    /// For a trace of so many threads.
    pub fn new(order: Order, threads: usize) -> Ordering {
        Ordering {
            order,
            counts: vec![0; threads],
            known: vec![HashMap::new(); threads],
            states: HashMap::new(),
            last: None,
            ends: vec![Vec::new(); if order == Order::Temporal { threads } else { 0 }],
        }
    }

    /// The waits of the next action of a thread. Actions must come in order of effect.
    pub fn next(&mut self, thread: u32, begin_ns: u64, end_ns: u64, touches: &[(Resource, Touch)]) -> Vec<Wait> {
        let own = Wait { thread, count: self.counts[thread as usize] + 1 };
        let mut waits: HashMap<u32, u64> = HashMap::new();
        match self.order {
            Order::Root => touches.iter().for_each(|&(resource, touch)| self.touch(own, resource, touch, &mut waits)),
            Order::Temporal => self.completed_before(thread, begin_ns, &mut waits),
            Order::Single => waits.extend(self.last.map(|p| (p.thread, p.count))),
            Order::None => {}
        }
        self.last = Some(own);
        self.counts[thread as usize] = own.count;
        if self.order == Order::Temporal {
            self.ends[thread as usize].push((end_ns, own.count));
        }
        waits.remove(&thread);
        let known = &mut self.known[thread as usize];
        let mut out: Vec<Wait> = waits
            .into_iter()
            .filter(|(other, count)| known.get(other).is_none_or(|k| k < count))
            .map(|(thread, count)| Wait { thread, count })
            .collect();
        out.sort();
        known.extend(out.iter().map(|w| (w.thread, w.count)));
        out
    }

    /// Lets go of what is known of a resource that no later action touches.
    pub fn forget(&mut self, resource: Resource) {
        self.states.remove(&resource);
    }

    fn touch(&mut self, own: Point, resource: Resource, touch: Touch, waits: &mut HashMap<u32, u64>) {
        fn need(waits: &mut HashMap<u32, u64>, thread: u32, count: u64) {
            let least = waits.entry(thread).or_default();
            *least = (*least).max(count);
        }
        let state = self.states.entry(resource).or_default();
        // File and descriptor are sequential whatever the touch.
        let touch = match resource {
            Resource::File(_) | Resource::Descriptor(_) => Touch::Change,
            Resource::Entry(_) | Resource::Names(_) | Resource::Directories(_) | Resource::Process(_) => touch,
        };
        if let Some(changed) = state.changed {
            need(waits, changed.thread, changed.count);
        }
        match touch {
            Touch::Look => {
                state.added.iter().for_each(|(t, n)| need(waits, *t, *n));
                state.looked.insert(own.thread, own.count);
            }
            Touch::Add => {
                state.looked.iter().for_each(|(t, n)| need(waits, *t, *n));
                state.added.insert(own.thread, own.count);
            }
            Touch::Change => {
                state.added.drain().for_each(|(t, n)| need(waits, t, n));
                state.looked.drain().for_each(|(t, n)| need(waits, t, n));
                state.changed = Some(own);
            }
        }
    }

    fn completed_before(&mut self, thread: u32, begin_ns: u64, waits: &mut HashMap<u32, u64>) {
        for (other, ends) in self.ends.iter_mut().enumerate() {
            if other as u32 == thread || ends.is_empty() {
                continue;
            }
            let completed = ends.partition_point(|(end, _)| *end <= begin_ns);
            if completed > 0 {
                waits.insert(other as u32, ends[completed - 1].1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(order: &mut Ordering, thread: u32, touches: &[(Resource, Touch)]) -> Vec<(u32, u64)> {
        order.next(thread, 0, 0, touches).iter().map(|w| (w.thread, w.count)).collect()
    }

    #[test]
    fn looks_do_not_order_but_changes_do() {
        let mut o = Ordering::new(Order::Root, 4);
        let entry = Resource::Entry(7);
        assert_eq!(waits(&mut o, 0, &[(entry, Touch::Change)]), []);
        assert_eq!(waits(&mut o, 1, &[(entry, Touch::Look)]), [(0, 1)]);
        assert_eq!(waits(&mut o, 2, &[(entry, Touch::Look)]), [(0, 1)]);
        assert_eq!(waits(&mut o, 3, &[(entry, Touch::Change)]), [(0, 1), (1, 1), (2, 1)]);
        assert_eq!(waits(&mut o, 1, &[(entry, Touch::Look)]), [(3, 1)]);
    }

    #[test]
    fn names_of_a_directory_may_be_added_together_but_not_while_listed() {
        let mut o = Ordering::new(Order::Root, 3);
        let names = Resource::Names(1);
        assert_eq!(waits(&mut o, 0, &[(names, Touch::Add)]), []);
        assert_eq!(waits(&mut o, 1, &[(names, Touch::Add)]), []);
        assert_eq!(waits(&mut o, 2, &[(names, Touch::Look)]), [(0, 1), (1, 1)]);
        assert_eq!(waits(&mut o, 0, &[(names, Touch::Add)]), [(2, 1)]);
    }

    #[test]
    fn a_wait_is_not_repeated() {
        let mut o = Ordering::new(Order::Root, 2);
        let file = Resource::File(1);
        assert_eq!(waits(&mut o, 0, &[(file, Touch::Look)]), []);
        assert_eq!(waits(&mut o, 1, &[(file, Touch::Look)]), [(0, 1)]);
        assert_eq!(waits(&mut o, 1, &[(file, Touch::Look)]), []);
    }

    #[test]
    fn temporal_frees_what_overlapped() {
        let mut o = Ordering::new(Order::Temporal, 3);
        assert_eq!(o.next(0, 0, 10, &[]), []);
        assert_eq!(o.next(1, 5, 20, &[]), []);
        assert_eq!(o.next(2, 15, 30, &[]), [Wait { thread: 0, count: 1 }]);
        assert_eq!(o.next(2, 40, 50, &[]), [Wait { thread: 1, count: 1 }]);
    }
}
