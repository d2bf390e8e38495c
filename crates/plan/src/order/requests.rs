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
    /// By thread.
    lane_of: Vec<Option<u32>>,
    submitters: HashMap<u32, Submitter, RandomState>,
    submitted: HashMap<u64, Submission, RandomState>,
    /// Complete before the call that submitted them was over.
    ahead: HashSet<u64, RandomState>,
    completed: HashMap<u64, Point, RandomState>,
    oldest: VecDeque<u64>,
}

impl Requests {
    pub fn new(lane_of: Vec<Option<u32>>) -> Requests {
        let threads = lane_of.len();
        let lane_of: Vec<_> = lane_of.iter().map(|of| of.filter(|submitter| (*submitter as usize) < threads)).collect();
        let submitters = lane_of.iter().flatten().map(|submitter| (*submitter, Submitter::default())).collect();
        Requests { lane_of, submitters, ..Requests::default() }
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
        known.iter().flat_map(|s| s.between(covered_ns, begin_ns)).for_each(|p| needs.add(p, Rule::AioStage));
        for (resource, touch) in touches {
            match (resource, touch) {
                (Resource::Request(request), Touch::Create) if !self.ahead.remove(request) => {
                    let after = last[own.thread as usize];
                    self.submitted.insert(*request, Submission { after, covered_ns });
                }
                (Resource::Request(request), Touch::Look) => {
                    needs.about(*resource);
                    self.completed.get(request).into_iter().for_each(|p| needs.add(*p, Rule::AioStage));
                }
                _ => {}
            }
        }
        if let Some(submitter) = self.submitters.get_mut(&own.thread) {
            submitter.begin_ns = begin_ns;
        }
        None
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
        let state = self.submitters.entry(submitter).or_default();
        let submission = match number.map(|number| (number, self.submitted.remove(&number))) {
            Some((_, Some(submission))) => submission,
            early => {
                self.ahead.extend(early.map(|(number, _)| number));
                Submission { after: latest, covered_ns: state.begin_ns }
            }
        };
        number.into_iter().for_each(|number| needs.about(Resource::Request(number)));
        if submission.after.count > 0 {
            needs.add(submission.after, Rule::AioStage);
        }
        state.between(submission.covered_ns, begin_ns).for_each(|p| needs.add(p, Rule::AioStage));
        state.complete(own);
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
