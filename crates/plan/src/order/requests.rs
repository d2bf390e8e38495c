//! Asynchronous requests: each is performed after it was submitted and before its completion is fetched.
//!
//! A lane performs the requests of one thread, its submitter. With T the submitter:
//! 1. a request waits for all that T had done before the call that submitted it: so it may begin while that call lasts,
//!    since one call can submit requests and wait for their ends;
//! 2. a call that fetched completions waits for their requests;
//! 3. what T does, itself or by a request, waits for all requests of T that were complete when it began: T could have
//!    seen that in the memory it shares with the kernel. A request that is linked to others, or drains, began when they
//!    were complete.
//!
//! Safe: T, with all that it submits, met no completion that is not waited for, and every dependency points to an earlier
//! effect. Where T had not looked, the third rule keeps an order that the trace had anyway, and never less concurrency
//! than the trace shows: what was in flight together is not ordered.

use std::collections::{HashMap, HashSet, VecDeque};

use foldhash::fast::RandomState;
use reprise_model::{Resource, Touch};

use super::needs::{Needs, Point};
use super::rule::Rule;

/// Completions that are remembered of each submitter, and until they are fetched.
const REMEMBERED: usize = 4096;
const UNFETCHED: usize = 1 << 16;

/// A request in flight whose submitting call is over.
#[derive(Debug, Clone, Copy)]
struct Submission {
    /// The submitter's action before that call.
    after: Point,
    /// When that one began: it waited for what was complete then.
    covered_ns: u64,
}

/// A thread that has lanes.
#[derive(Debug, Default)]
struct Submitter {
    /// When its last action began.
    begin_ns: u64,
    /// The latest requests that were completed, by the instant.
    completed: VecDeque<Point>,
}

impl Submitter {
    fn complete(&mut self, point: Point) {
        let at = self.completed.iter().rposition(|p| p.end_ns <= point.end_ns).map_or(0, |at| at + 1);
        self.completed.insert(at, point);
        if self.completed.len() > REMEMBERED {
            self.completed.pop_front();
        }
    }

    /// What was completed after the one instant and not after the other.
    fn between(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = Point> {
        let recent = self.completed.iter().rev().take_while(move |p| p.end_ns > from_ns);
        recent.filter(move |p| p.end_ns <= to_ns).copied()
    }
}

/// Who waits for what of the asynchronous requests.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Whether they are ordered.
    orders: bool,
    /// By thread.
    lane_of: Vec<Option<u32>>,
    submitters: HashMap<u32, Submitter, RandomState>,
    submitted: HashMap<u64, Submission, RandomState>,
    /// Complete before the call that submitted them was over; of rings that the kernel polls no call says so.
    ahead: HashSet<u64, RandomState>,
    latest_ahead: VecDeque<u64>,
    completed: HashMap<u64, Point, RandomState>,
    oldest: VecDeque<u64>,
}

impl Requests {
    /// For these lanes; `orders` says whether the rule is in force.
    pub fn new(lane_of: Vec<Option<u32>>, orders: bool) -> Requests {
        let threads = lane_of.len();
        let lane_of: Vec<_> = lane_of.iter().map(|of| of.filter(|submitter| (*submitter as usize) < threads)).collect();
        let submitters = lane_of.iter().flatten().map(|submitter| (*submitter, Submitter::default())).collect();
        Requests { orders, lane_of, submitters, ..Requests::default() }
    }

    fn wait(&self, point: Point, needs: &mut Needs) {
        if self.orders {
            needs.add(point, Rule::AioStage);
        }
    }

    pub fn submitter(&self, thread: u32) -> Option<u32> {
        self.lane_of.get(thread as usize).copied().flatten()
    }

    /// The next action of all. For a lane, what its submitter had done before it submitted the request.
    pub fn next(
        &mut self,
        own: Point,
        begin_ns: u64,
        last: &[Point],
        touches: &[(Resource, Touch)],
        needs: &mut Needs,
    ) -> Option<Point> {
        if let Some(submitter) = self.submitter(own.thread) {
            return Some(self.performed(own, begin_ns, submitter, last[submitter as usize], touches, needs));
        }
        let known = self.submitters.get(&own.thread);
        let covered_ns = known.map_or(0, |submitter| submitter.begin_ns);
        known.iter().flat_map(|s| s.between(covered_ns, begin_ns)).for_each(|p| self.wait(p, needs));
        for (resource, touch) in touches {
            match (resource, touch) {
                (Resource::Request(request), Touch::Create) if !self.ahead.remove(request) => {
                    let after = last[own.thread as usize];
                    self.submitted.insert(*request, Submission { after, covered_ns });
                }
                (Resource::Request(request), Touch::Look) => {
                    needs.about(*resource);
                    self.completed.get(request).into_iter().for_each(|p| self.wait(*p, needs));
                }
                _ => {}
            }
        }
        if let Some(submitter) = self.submitters.get_mut(&own.thread) {
            submitter.begin_ns = begin_ns;
        }
        None
    }

    fn is_ahead(&mut self, number: u64) {
        self.ahead.insert(number);
        self.latest_ahead.push_back(number);
        if self.latest_ahead.len() > UNFETCHED {
            self.latest_ahead.pop_front().into_iter().for_each(|oldest| _ = self.ahead.remove(&oldest));
        }
    }

    fn performed(
        &mut self,
        own: Point,
        begin_ns: u64,
        submitter: u32,
        latest: Point,
        touches: &[(Resource, Touch)],
        needs: &mut Needs,
    ) -> Point {
        let number = touches.iter().find_map(|touch| match touch {
            (Resource::Request(request), Touch::Change) => Some(*request),
            _ => None,
        });
        let latest_ns = self.submitters.get(&submitter).map_or(0, |state| state.begin_ns);
        let submission = match number.map(|number| (number, self.submitted.remove(&number))) {
            Some((_, Some(submission))) => submission,
            early => {
                early.into_iter().for_each(|(number, _)| self.is_ahead(number));
                Submission { after: latest, covered_ns: latest_ns }
            }
        };
        number.into_iter().for_each(|number| needs.about(Resource::Request(number)));
        if submission.after.count > 0 {
            self.wait(submission.after, needs);
        }
        let state = self.submitters.get(&submitter);
        let seen = state.iter().flat_map(|s| s.between(submission.covered_ns, begin_ns));
        seen.for_each(|p| self.wait(p, needs));
        self.submitters.entry(submitter).or_default().complete(own);
        if let Some(number) = number {
            self.completed.insert(number, own);
            self.oldest.push_back(number);
            if self.oldest.len() > UNFETCHED {
                self.oldest.pop_front().into_iter().for_each(|oldest| _ = self.completed.remove(&oldest));
            }
        }
        submission.after
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Order, Ordering};
    use super::*;

    /// Threads 0 and 9 of the program; 1 to 3 are lanes of 0.
    fn ordering() -> Ordering {
        let order: Order = "root".parse().expect("an ordering");
        let lanes = (0..10).map(|thread| (1..4).contains(&thread).then_some(0)).collect();
        Ordering::new(order, 10).with_lanes(lanes)
    }

    fn submit(request: u64) -> (Resource, Touch) {
        (Resource::Request(request), Touch::Create)
    }

    fn perform(request: u64) -> [(Resource, Touch); 1] {
        [(Resource::Request(request), Touch::Change)]
    }

    fn fetch(request: u64) -> (Resource, Touch) {
        (Resource::Request(request), Touch::Look)
    }

    fn waits(o: &mut Ordering, thread: u32, times: [u64; 2], touches: &[(Resource, Touch)]) -> Vec<(u32, u64)> {
        let waits = o.next(thread, times[0], times[1], touches);
        waits.edges.iter().map(|e| (e.wait.thread, e.wait.count)).collect()
    }

    #[test]
    fn one_call_submits_requests_and_waits_for_them() {
        let mut o = ordering();
        assert_eq!(waits(&mut o, 0, [0, 10], &[]), []);
        // Both are performed while the call lasts: they wait for what came before it, it waits for them.
        assert_eq!(waits(&mut o, 1, [20, 30], &perform(0)), [(0, 1)]);
        assert_eq!(waits(&mut o, 2, [20, 40], &perform(1)), [(0, 1)]);
        let call = [submit(0), submit(1), fetch(0), fetch(1)];
        assert_eq!(waits(&mut o, 0, [20, 50], &call), [(1, 1), (2, 1)]);
    }

    #[test]
    fn a_request_does_not_wait_for_a_call_that_waited_for_others() {
        let mut o = ordering();
        assert_eq!(waits(&mut o, 0, [0, 10], &[submit(0)]), []);
        assert_eq!(waits(&mut o, 1, [5, 30], &perform(0)), []);
        // Submits the second request and fetches the first.
        assert_eq!(waits(&mut o, 0, [20, 40], &[submit(1), fetch(0)]), [(1, 1)]);
        assert_eq!(waits(&mut o, 2, [20, 90], &perform(1)), [(0, 1)]);
        assert_eq!(o.next(3, 20, 95, &perform(2)).submitted_after, Some(2));
    }

    #[test]
    fn what_a_thread_could_have_seen_comes_before_what_it_does() {
        let mut o = ordering();
        assert_eq!(waits(&mut o, 0, [0, 10], &[submit(0), submit(1)]), []);
        assert_eq!(waits(&mut o, 1, [0, 50], &perform(0)), []);
        // No call fetched it, but the ring showed it.
        assert_eq!(waits(&mut o, 0, [40, 45], &[]), []);
        assert_eq!(waits(&mut o, 0, [60, 70], &[submit(2)]), [(1, 1)]);
        // In flight together with the first; submitted when that was complete.
        assert_eq!(waits(&mut o, 2, [0, 80], &perform(1)), []);
        assert_eq!(waits(&mut o, 3, [60, 90], &perform(2)), [(0, 2), (1, 1)]);
        // Nobody else is concerned, unless it fetches.
        assert_eq!(waits(&mut o, 9, [100, 110], &[]), []);
        assert_eq!(waits(&mut o, 9, [120, 130], &[fetch(1)]), [(2, 1)]);
    }

    #[test]
    fn one_that_drains_comes_after_what_was_complete_when_it_began() {
        let mut o = ordering();
        assert_eq!(waits(&mut o, 0, [0, 10], &[submit(0), submit(1)]), []);
        assert_eq!(waits(&mut o, 1, [0, 50], &perform(0)), []);
        assert_eq!(waits(&mut o, 0, [60, 70], &[]), [(1, 1)]);
        // Submitted with the first, begun when that was complete; the submitter has gone on meanwhile.
        assert_eq!(waits(&mut o, 2, [50, 80], &perform(1)), [(1, 1)]);
    }
}
