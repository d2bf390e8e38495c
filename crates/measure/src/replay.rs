//! Where the time of a replay went, beside the original's.
//!
//! Goals: one pass; every nanosecond of a thread counted once: in calls, waiting for dependencies, waiting for the pace,
//! or else the engine's own; like compared with like (both sides hold the same actions). Non-goals: what calls are, where
//! the samples come from.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::punctuality::IssueErrors;
use crate::{Concurrency, Distribution, IssueErrorBy, Overlap, Punctuality, Samples, SignedDistribution};

/// One action of a replay.
#[derive(Debug, Clone, Copy)]
pub struct ReplaySample<'a> {
    /// Its thread.
    pub thread: u32,
    /// Its call.
    pub call: &'a str,
    /// The kind of work it is.
    pub category: &'static str,
    /// Whether it was issued.
    pub issued: bool,
    /// Whether it is work on storage: only that, if issued, counts as in flight.
    pub storage: bool,
    /// Whether it went differently.
    pub diverged: bool,
    /// Issue.
    pub begin_ns: u64,
    /// Completion.
    pub end_ns: u64,
    /// How long it was blocked for dependencies, if it was, and for which rule longest.
    pub waited: Option<(&'a str, u64)>,
    /// How long it waited for the pace.
    pub paced_ns: u64,
    /// Instant of issue minus the instant it was due, and why it may be late, if the replay has a pace.
    pub issue_error: Option<(i64, Punctuality)>,
    /// Issue and completion in the original, if known.
    pub original: Option<(u64, u64)>,
}

/// Gathers samples; those of one thread in order.
#[derive(Debug, Clone, Default)]
pub struct ReplayAccount {
    threads: BTreeMap<u32, ThreadTimes>,
    categories: BTreeMap<&'static str, Sides>,
    calls: BTreeMap<String, Sides>,
    waits: BTreeMap<String, Samples>,
    issue_error: IssueErrors,
    replay: Side,
    original: Side,
    issued: u64,
    diverged: u64,
}

/// Times of both sides.
#[derive(Debug, Clone, Default)]
struct Sides {
    replay: Samples,
    original: Samples,
}

/// What is in flight on one side, and from when to when.
#[derive(Debug, Clone, Default)]
struct Side {
    storage: Concurrency,
    span: Option<(u64, u64)>,
}

/// Where the time of a replay went.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ReplayTimes {
    /// From the first issue to the last completion.
    pub elapsed_ns: u64,
    /// The same of the same actions in the original.
    pub original_elapsed_ns: Option<u64>,
    /// Share of the issued actions that did not go differently.
    pub match_rate: f64,
    /// All threads together.
    pub total: ThreadTimes,
    /// By thread.
    pub threads: Vec<ThreadTimes>,
    /// Time in calls by kind of work; it adds up to that of all threads.
    pub categories: Vec<CategoryTimes>,
    /// Response times by call, the longest total first.
    pub calls: Vec<CallTimes>,
    /// Issued storage calls in flight.
    pub in_flight: Overlap,
    /// The same calls in the original.
    pub original_in_flight: Option<Overlap>,
    /// Mean in flight in the replay by that in the original.
    pub concurrency_ratio: Option<f64>,
    /// Time blocked for dependencies by rule, the longest first. An action's counts for the rule it was blocked for longest.
    pub waits: Vec<RuleTimes>,
    /// Instants of issue minus instants when due, if the replay has a pace.
    pub issue_error: Option<SignedDistribution>,
    /// The same by what made them so.
    pub issue_error_by: Option<IssueErrorBy>,
}

/// Where the time of one thread went: `wall_ns` is the sum of the four others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ThreadTimes {
    /// Number of the thread; of their number for all together.
    pub thread: u32,
    /// Actions.
    pub actions: u64,
    /// From when it first waited or issued to its last completion.
    pub wall_ns: u64,
    /// In calls; the times of those that were issued together count once here, and for each of them among calls and categories.
    pub in_calls_ns: u64,
    /// Blocked for dependencies.
    pub waiting_ns: u64,
    /// Waiting for the pace.
    pub pacing_ns: u64,
    /// Between all that: the engine's own.
    pub engine_ns: u64,
    #[serde(skip)]
    first_ns: Option<u64>,
    #[serde(skip)]
    last_ns: u64,
}

/// Time in one kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CategoryTimes {
    /// The kind.
    pub category: &'static str,
    /// Actions.
    pub actions: u64,
    /// Time in them.
    pub replay_ns: u64,
    /// Time in them in the original.
    pub original_ns: Option<u64>,
}

/// Response times of one call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallTimes {
    /// The call.
    pub call: String,
    /// In the replay.
    pub replay: Distribution,
    /// In the original.
    pub original: Option<Distribution>,
}

/// Time blocked for one rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleTimes {
    /// The rule.
    pub rule: String,
    /// The times of the actions that were blocked.
    pub blocked: Distribution,
}

impl Sides {
    fn add(&mut self, replay_ns: u64, original: Option<(u64, u64)>) {
        self.replay.add(replay_ns);
        if let Some((begin, end)) = original {
            self.original.add(end.saturating_sub(begin));
        }
    }
}

impl Side {
    fn add(&mut self, begin_ns: u64, end_ns: u64, in_flight: bool) {
        let (first, last) = self.span.unwrap_or((begin_ns, end_ns));
        self.span = Some((first.min(begin_ns), last.max(end_ns)));
        if in_flight {
            self.storage.add(begin_ns, end_ns);
        }
    }

    fn elapsed_ns(&self) -> Option<u64> {
        self.span.map(|(first, last)| last.saturating_sub(first))
    }
}

impl ThreadTimes {
    fn add(&mut self, sample: &ReplaySample<'_>) {
        let waited_ns = sample.waited.map_or(0, |(_, ns)| ns);
        let before_ns = waited_ns.saturating_add(sample.paced_ns);
        let from_ns = sample.begin_ns.saturating_sub(before_ns);
        self.first_ns.get_or_insert(from_ns);
        // Clocks of two kinds measured these: an overlap of a few nanoseconds with the action before is no time twice.
        let first_ns = self.first_ns.unwrap_or(from_ns);
        let before_ns = before_ns.min(sample.begin_ns.saturating_sub(self.last_ns.max(first_ns)));
        let waited_ns = waited_ns.min(before_ns);
        self.actions += 1;
        self.waiting_ns = self.waiting_ns.saturating_add(waited_ns);
        self.pacing_ns = self.pacing_ns.saturating_add(before_ns - waited_ns);
        // Calls that were issued together have the times of all of them.
        let begin_ns = sample.begin_ns.max(self.last_ns);
        self.in_calls_ns = self.in_calls_ns.saturating_add(sample.end_ns.saturating_sub(begin_ns));
        self.last_ns = self.last_ns.max(sample.end_ns);
    }

    fn finish(mut self) -> ThreadTimes {
        self.wall_ns = self.last_ns.saturating_sub(self.first_ns.unwrap_or(0));
        let known = self.in_calls_ns.saturating_add(self.waiting_ns).saturating_add(self.pacing_ns);
        self.engine_ns = self.wall_ns.saturating_sub(known);
        self
    }
}

impl ReplayAccount {
    /// Takes an action in.
    pub fn add(&mut self, sample: &ReplaySample<'_>) {
        let duration_ns = sample.end_ns.saturating_sub(sample.begin_ns);
        let thread = ThreadTimes { thread: sample.thread, ..ThreadTimes::default() };
        self.threads.entry(sample.thread).or_insert(thread).add(sample);
        self.categories.entry(sample.category).or_default().add(duration_ns, sample.original);
        match self.calls.get_mut(sample.call) {
            Some(call) => call.add(duration_ns, sample.original),
            None => self.calls.entry(sample.call.to_owned()).or_default().add(duration_ns, sample.original),
        }
        if let Some((rule, ns)) = sample.waited {
            match self.waits.get_mut(rule) {
                Some(times) => times.add(ns),
                None => self.waits.entry(rule.to_owned()).or_default().add(ns),
            }
        }
        if let Some((ns, punctuality)) = sample.issue_error {
            self.issue_error.add(ns, punctuality);
        }
        let in_flight = sample.issued && sample.storage;
        self.replay.add(sample.begin_ns, sample.end_ns, in_flight);
        if let Some((begin_ns, end_ns)) = sample.original {
            self.original.add(begin_ns, end_ns, in_flight);
        }
        self.issued += u64::from(sample.issued);
        self.diverged += u64::from(sample.diverged);
    }

    /// What the samples so far amount to.
    pub fn times(&self) -> ReplayTimes {
        let known = self.original.span.is_some();
        let in_flight = self.replay.storage.overlap();
        let original_in_flight = known.then(|| self.original.storage.overlap());
        let ratio = |original: &Overlap| (original.mean > 0.0).then(|| in_flight.mean / original.mean);
        let threads: Vec<ThreadTimes> = self.threads.values().map(|t| t.finish()).collect();
        ReplayTimes {
            elapsed_ns: self.replay.elapsed_ns().unwrap_or(0),
            original_elapsed_ns: self.original.elapsed_ns(),
            match_rate: match self.issued {
                0 => 1.0,
                issued => 1.0 - self.diverged as f64 / issued as f64,
            },
            total: total(&threads),
            threads,
            categories: self.categories(),
            calls: self.calls(),
            concurrency_ratio: original_in_flight.as_ref().and_then(ratio),
            in_flight,
            original_in_flight,
            waits: self.waits(),
            issue_error: self.issue_error.all(),
            issue_error_by: self.issue_error.by(),
        }
    }

    fn categories(&self) -> Vec<CategoryTimes> {
        let row = |(category, sides): (&&'static str, &Sides)| CategoryTimes {
            category,
            actions: sides.replay.count(),
            replay_ns: sides.replay.total_ns(),
            original_ns: (sides.original.count() > 0).then(|| sides.original.total_ns()),
        };
        let mut rows: Vec<CategoryTimes> = self.categories.iter().map(row).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.replay_ns));
        rows
    }

    fn calls(&self) -> Vec<CallTimes> {
        let row = |(call, sides): (&String, &Sides)| CallTimes {
            call: call.clone(),
            replay: sides.replay.distribution(),
            original: (sides.original.count() > 0).then(|| sides.original.distribution()),
        };
        let mut rows: Vec<CallTimes> = self.calls.iter().map(row).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.replay.total_ns));
        rows
    }

    fn waits(&self) -> Vec<RuleTimes> {
        let row = |(rule, times): (&String, &Samples)| RuleTimes { rule: rule.clone(), blocked: times.distribution() };
        let mut rows: Vec<RuleTimes> = self.waits.iter().map(row).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.blocked.total_ns));
        rows
    }
}

fn total(threads: &[ThreadTimes]) -> ThreadTimes {
    let mut total = ThreadTimes { thread: threads.len() as u32, ..ThreadTimes::default() };
    for t in threads {
        total.actions += t.actions;
        for (sum, part) in [
            (&mut total.wall_ns, t.wall_ns),
            (&mut total.in_calls_ns, t.in_calls_ns),
            (&mut total.waiting_ns, t.waiting_ns),
            (&mut total.pacing_ns, t.pacing_ns),
            (&mut total.engine_ns, t.engine_ns),
        ] {
            *sum = sum.saturating_add(part);
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(thread: u32, call: &str, begin_ns: u64, end_ns: u64) -> ReplaySample<'_> {
        ReplaySample {
            thread,
            call,
            category: if call == "read" { "read" } else { "write" },
            issued: true,
            storage: true,
            diverged: false,
            begin_ns,
            end_ns,
            waited: None,
            paced_ns: 0,
            issue_error: None,
            original: Some((begin_ns * 2, end_ns * 2)),
        }
    }

    #[test]
    fn calls_that_were_issued_together_take_their_time_once() {
        let mut account = ReplayAccount::default();
        (0..4).for_each(|_| account.add(&sample(0, "read", 100, 150)));
        account.add(&sample(0, "read", 160, 170));
        let times = account.times();
        let t = times.threads[0];
        assert_eq!((t.wall_ns, t.in_calls_ns, t.engine_ns), (70, 60, 10));
        assert_eq!(times.calls[0].replay.total_ns, 210);
    }

    #[test]
    fn every_nanosecond_counts_once() {
        let mut account = ReplayAccount::default();
        account.add(&ReplaySample {
            paced_ns: 40,
            issue_error: Some((-1, Punctuality::OnTime)),
            ..sample(0, "read", 100, 150)
        });
        account.add(&sample(1, "write", 120, 180));
        account.add(&ReplaySample { waited: Some(("fd_seq", 20)), paced_ns: 5, ..sample(0, "write", 180, 200) });
        account.add(&ReplaySample { waited: Some(("fd_seq", 300)), ..sample(1, "read", 480, 500) });
        // A wait that reaches back into the action before.
        account.add(&ReplaySample { waited: Some(("lock", 30)), ..sample(0, "read", 220, 230) });
        let times = account.times();
        let t = times.threads[0];
        let parts = (t.wall_ns, t.in_calls_ns, t.waiting_ns, t.pacing_ns, t.engine_ns);
        assert_eq!(parts, (170, 80, 40, 45, 5));
        for t in times.threads.iter().chain([&times.total]) {
            assert_eq!(t.wall_ns, t.in_calls_ns + t.waiting_ns + t.pacing_ns + t.engine_ns);
        }
        assert_eq!(times.total.in_calls_ns, times.categories.iter().map(|c| c.replay_ns).sum::<u64>());
        assert_eq!(times.total.in_calls_ns, times.calls.iter().map(|c| c.replay.total_ns).sum::<u64>());
        assert_eq!((times.elapsed_ns, times.original_elapsed_ns), (400, Some(800)));
        let waits: Vec<_> = times.waits.iter().map(|w| (w.rule.as_str(), w.blocked.total_ns)).collect();
        assert_eq!(waits, [("fd_seq", 320), ("lock", 30)]);
        assert_eq!(times.issue_error.map(|e| (e.count, e.max_ns)), Some((1, -1)));
        assert!((times.concurrency_ratio.unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_issued_is_not_in_flight() {
        let mut account = ReplayAccount::default();
        account.add(&sample(0, "read", 0, 10));
        account.add(&ReplaySample { issued: false, ..sample(1, "recvmsg", 0, 1_000) });
        account.add(&ReplaySample { storage: false, ..sample(2, "fork", 0, 1_000) });
        account.add(&ReplaySample { diverged: true, ..sample(0, "read", 10, 20) });
        let times = account.times();
        assert_eq!((times.in_flight.elapsed_ns, times.in_flight.busy_ns), (20, 20));
        assert!((times.match_rate - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(ReplayAccount::default().times().match_rate, 1.0);
    }
}
