//! What one action waits for, as the rules name it.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use reprise_model::Resource;

use super::reaped::Reaped;
use super::rule::Rule;
use crate::command::Wait;

/// The n-th action of a thread, and when it completed in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub thread: u32,
    pub count: u64,
    pub end_ns: u64,
}

/// The latest actions of several threads, one for each, by thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Points(Vec<Point>);

/// What a thread has waited for, by thread.
pub(super) type Known = HashMap<u32, u64, RandomState>;

/// Points of so many threads are many: perhaps most of the threads have ended.
const MANY: usize = 32;

impl Points {
    /// Adds a point; of two of one thread the later stays.
    pub fn add(&mut self, point: Point) {
        match self.0.binary_search_by_key(&point.thread, |p| p.thread) {
            Ok(at) => self.0[at] = self.0[at].max(point),
            Err(at) => self.0.insert(at, point),
        }
    }

    /// As [`Points::add`]; now and then, actions of processes that were waited for give way to the wait.
    pub fn add_with(&mut self, point: Point, reaped: &Reaped) {
        self.add(point);
        if self.0.len() >= MANY && self.0.len().is_power_of_two() {
            let points = std::mem::take(&mut self.0);
            points.into_iter().for_each(|p| self.add(reaped.later(p)));
        }
    }

    /// Adds all of another set: both are in the order of threads.
    pub fn extend(&mut self, other: &Points) {
        let mut at = 0;
        for &point in &other.0 {
            at += self.0[at..].iter().take_while(|p| p.thread < point.thread).count();
            match self.0.get_mut(at) {
                Some(own) if own.thread == point.thread => *own = point.max(*own),
                _ => self.0.insert(at, point),
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Point> + '_ {
        self.0.iter().copied()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Exactly this one point.
    pub fn set(&mut self, point: Point) {
        self.0.clear();
        self.0.push(point);
    }
}

/// A dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// What is waited for, and by which rule.
    pub wait: Wait,
    /// When that completed in the trace, nanoseconds since it began.
    pub end_ns: u64,
    /// What both touch; nothing in particular for temporal and single ordering.
    pub resource: Option<Resource>,
}

/// What an action waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    /// Other threads' actions, by thread; those that the thread has waited for before are left out.
    pub edges: Vec<Edge>,
    /// Those that were left out, if the ordering explains itself ([`super::Ordering::explain`]).
    pub implied: Vec<Edge>,
    /// When the last of all that it depends on completed in the trace, nanoseconds since it began: its own thread's action
    /// before, what started its thread, and everything that a rule names. `None` if it depends on nothing.
    pub ready_ns: Option<u64>,
    /// For a request of a lane: the number of actions that its submitter had completed when it submitted it.
    pub submitted_after: Option<u64>,
}

/// Gathers the needs of one action.
#[derive(Debug, Default)]
pub(super) struct Needs {
    own: u32,
    found: Vec<(Point, Rule, Option<Resource>)>,
    about: Option<Resource>,
    ready_ns: Option<u64>,
    pub reaped: Reaped,
}

impl Needs {
    pub fn begin(&mut self, thread: u32, before_ns: Option<u64>) {
        self.own = thread;
        self.found.clear();
        self.about = None;
        self.ready_ns = before_ns;
    }

    /// What is added from now on is needed because of this.
    pub fn about(&mut self, resource: Resource) {
        self.about = Some(resource);
    }

    pub fn add(&mut self, point: Point, rule: Rule) {
        // The thread's action before is in `ready_ns` from the begin; what touches one resource twice meets itself.
        if point.thread == self.own {
            return;
        }
        self.ready_ns = self.ready_ns.max(Some(point.end_ns));
        let need = (point, rule, self.about);
        match self.found.iter_mut().find(|(p, ..)| p.thread == point.thread) {
            Some(found) if found.0.count < point.count => *found = need,
            Some(_) => {}
            None => self.found.push(need),
        }
    }

    pub fn all(&mut self, points: &Points, rule: Rule) {
        points.iter().for_each(|p| self.add(p, rule));
    }

    /// The waits, without what is known already; that is told apart if it is to be explained.
    pub fn finish(&mut self, known: &mut Known, explain: bool) -> Waits {
        let mut waits = Waits { ready_ns: self.ready_ns, ..Waits::default() };
        for &(point, rule, resource) in &self.found {
            let wait = Wait { thread: point.thread, count: point.count, rule };
            let edge = Edge { wait, end_ns: point.end_ns, resource };
            if known.get(&point.thread).is_none_or(|k| *k < point.count) {
                waits.edges.push(edge);
                known.insert(point.thread, point.count);
            } else if explain {
                waits.implied.push(edge);
            }
        }
        waits.edges.sort_by_key(|e| e.wait.thread);
        waits
    }
}
