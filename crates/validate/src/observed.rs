//! What a run took: response times, and how its requests stand in time.

use std::collections::BTreeMap;

/// Slices of a run that are looked at: one that takes a thousand times longer than the trace has shown its rate by then.
const MOST_SLICES: usize = 100_000;

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    /// Its thread, if it is known.
    pub thread: Option<u32>,
    pub call: String,
    pub begin_ns: u64,
    pub end_ns: u64,
}

/// The requests of a run, in the order of issue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    requests: Vec<Request>,
    /// How often a thread of the run lost its processor, if the log tells.
    pub preemptions: Option<u64>,
    /// Bytes that the run had read from devices, likewise.
    pub device_bytes: Option<u64>,
    /// Steps in which instants are told; response times may be finer.
    pub instant_step_ns: f64,
}

impl Observed {
    pub fn new(mut requests: Vec<Request>) -> Observed {
        requests.sort_by_key(|request| request.begin_ns);
        Observed { requests, ..Observed::default() }
    }

    /// Response times of a call, in nanoseconds.
    pub fn times_ns(&self, call: &str) -> Vec<f64> {
        let of_call = self.requests.iter().filter(|request| request.call == call);
        of_call.map(|request| request.end_ns.saturating_sub(request.begin_ns) as f64).collect()
    }

    /// Whether its instants are finer than its response times: else neither order nor distances of requests can be told.
    pub fn tells_instants(&self) -> bool {
        if self.instant_step_ns == 0.0 {
            return true;
        }
        let mut times: Vec<u64> = self.requests.iter().map(|r| r.end_ns.saturating_sub(r.begin_ns)).collect();
        times.sort_unstable();
        times.get(times.len() / 2).is_some_and(|median| *median as f64 >= self.instant_step_ns)
    }

    /// How often each thread issued a call, whatever the threads are called.
    pub fn counts(&self, call: &str) -> Vec<usize> {
        let mut counts: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        for request in self.requests.iter().filter(|request| request.call == call) {
            *counts.entry(request.thread).or_default() += 1;
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable();
        counts
    }

    /// The longest response time, in nanoseconds.
    pub fn longest_ns(&self) -> u64 {
        self.requests.iter().map(|r| r.end_ns.saturating_sub(r.begin_ns)).max().unwrap_or(0)
    }

    /// Number of requests.
    pub fn count(&self) -> usize {
        self.requests.len()
    }

    /// What being preempted can have added to the mean of a call, in nanoseconds: as many of its longest times as there were
    /// preemptions, beyond its median. They are its own by its share of the threads' time.
    pub fn preempted_ns(&self, call: &str) -> Option<f64> {
        let preemptions = self.preemptions?;
        let mut times = self.times_ns(call);
        times.sort_unstable_by(|a, b| b.total_cmp(a));
        let threads = self.requests.iter().map(|r| r.thread).collect::<std::collections::BTreeSet<_>>().len();
        let share = times.iter().sum::<f64>() / (self.elapsed_ns()? * threads as f64);
        let median = *times.get(times.len() / 2)?;
        let lost = times.iter().take((preemptions as f64 * share.min(1.0)).round() as usize);
        Some(lost.map(|time| time - median).sum::<f64>() / times.len() as f64)
    }

    /// The calls that were made.
    pub fn calls(&self) -> impl Iterator<Item = &str> {
        self.requests.iter().map(|request| request.call.as_str())
    }

    /// Times from one issue to the next of the same thread, in nanoseconds; none where instants are not told.
    pub fn between_issues_ns(&self) -> Vec<f64> {
        if !self.tells_instants() {
            return Vec::new();
        }
        let mut last: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        let since = |request: &Request| {
            let before = last.insert(request.thread, request.begin_ns)?;
            Some((request.begin_ns - before) as f64)
        };
        self.requests.iter().filter_map(since).collect()
    }

    /// Requests issued in each slice of time from the first to the last, where instants are told.
    pub fn issued_by_slice(&self, slice_ns: f64) -> Vec<f64> {
        let (Some(first), Some(last)) = (self.requests.first(), self.requests.last()) else { return Vec::new() };
        if !self.tells_instants() || slice_ns <= 0.0 {
            return Vec::new();
        }
        let slice = |at: u64| ((at - first.begin_ns) as f64 / slice_ns) as usize;
        let mut counts = vec![0.0; (slice(last.begin_ns) + 1).min(MOST_SLICES)];
        for request in &self.requests {
            if let Some(count) = counts.get_mut(slice(request.begin_ns)) {
                *count += 1.0;
            }
        }
        counts
    }

    /// Requests in flight when each was issued, itself included; none where instants are not told.
    pub fn in_flight(&self) -> Vec<f64> {
        if !self.tells_instants() {
            return Vec::new();
        }
        let mut ends = std::collections::BinaryHeap::new();
        let at = |request: &Request| {
            while ends.peek().is_some_and(|std::cmp::Reverse(end)| *end <= request.begin_ns) {
                ends.pop();
            }
            ends.push(std::cmp::Reverse(request.end_ns));
            ends.len() as f64
        };
        self.requests.iter().map(at).collect()
    }

    /// From the first issue to the last completion, in nanoseconds.
    pub fn elapsed_ns(&self) -> Option<f64> {
        let first = self.requests.first()?.begin_ns;
        let last = self.requests.iter().map(|request| request.end_ns).max()?;
        last.checked_sub(first).filter(|ns| *ns > 0).map(|ns| ns as f64)
    }

    /// Requests a second in that time, where instants are told.
    pub fn rate(&self) -> Option<f64> {
        let elapsed_ns = self.elapsed_ns().filter(|_| self.tells_instants())?;
        Some(self.requests.len() as f64 / (elapsed_ns / 1e9))
    }

    /// Places in the order of issue, named by thread and number within it; `None` where threads are not known.
    fn names(&self) -> Option<Vec<(u32, u64)>> {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        let name = |request: &Request| {
            let thread = request.thread?;
            let count = counts.entry(thread).or_default();
            *count += 1;
            Some((thread, *count))
        };
        self.requests.iter().map(name).collect()
    }

    /// The places that this run's requests have in another run of the same requests, in the order of issue here; `None` where that
    /// order is not told.
    pub fn places_in(&self, other: &Observed) -> Option<Vec<u64>> {
        if !self.tells_instants() {
            return None;
        }
        let places: BTreeMap<(u32, u64), u64> = other.names()?.into_iter().zip(0..).collect();
        self.names()?.iter().map(|name| places.get(name).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(of: &[(u32, u64, u64)]) -> Observed {
        let request = |&(thread, begin_ns, end_ns): &(u32, u64, u64)| Request {
            thread: Some(thread),
            call: "read".into(),
            begin_ns,
            end_ns,
        };
        Observed::new(of.iter().map(request).collect())
    }

    #[test]
    fn requests_in_time() {
        let run = run(&[(0, 0, 10), (1, 5, 25), (0, 20, 30), (1, 40, 50)]);
        assert_eq!(run.times_ns("read"), [10.0, 20.0, 10.0, 10.0]);
        assert_eq!(run.between_issues_ns(), [20.0, 35.0]);
        assert_eq!(run.in_flight(), [1.0, 2.0, 2.0, 1.0]);
        assert_eq!(run.rate(), Some(4.0 / 50e-9));
        assert_eq!(run.issued_by_slice(10.0), [2.0, 0.0, 1.0, 0.0, 1.0]);
        assert_eq!(run.issued_by_slice(1e9), [4.0]);
    }

    #[test]
    fn coarse_instants_have_no_order() {
        let times = [(0, 0, 900), (0, 0, 1100), (1, 1_000_000, 1_000_950)];
        let fine = run(&times);
        let coarse = Observed { instant_step_ns: 1e6, ..run(&times) };
        assert_eq!((coarse.rate(), coarse.places_in(&fine)), (None, None));
        assert!(coarse.between_issues_ns().is_empty() && coarse.in_flight().is_empty());
        assert_eq!(coarse.times_ns("read"), fine.times_ns("read"));
        // Requests of two milliseconds do have one.
        let slow = Observed { instant_step_ns: 1e6, ..run(&[(0, 0, 2_000_000), (0, 2_000_000, 4_000_000)]) };
        assert!(slow.rate().is_some() && slow.places_in(&slow).is_some());
    }

    #[test]
    fn preemptions_are_the_longest_times() {
        // One thread that is in calls for half of its time: of four preemptions two were there.
        let requests: Vec<_> = (0..10).map(|i| (0, i * 200, i * 200 + if i < 3 { 300 } else { 10 })).collect();
        let mut run = run(&requests);
        assert_eq!(run.preempted_ns("read"), None);
        run.preemptions = Some(4);
        let share = 970.0 / run.elapsed_ns().unwrap();
        assert!((0.5..0.6).contains(&share), "{share}");
        assert_eq!(run.preempted_ns("read"), Some(2.0 * 290.0 / 10.0));
        run.preemptions = Some(0);
        assert_eq!(run.preempted_ns("read"), Some(0.0));
        run.preemptions = Some(1000);
        assert_eq!(run.preempted_ns("read"), Some(3.0 * 290.0 / 10.0));
    }

    #[test]
    fn order_is_that_of_the_other_run() {
        let original = run(&[(0, 0, 1), (1, 2, 3), (0, 4, 5), (1, 6, 7)]);
        let replay = run(&[(0, 0, 1), (0, 2, 3), (1, 4, 5), (1, 6, 7)]);
        assert_eq!(replay.places_in(&original), Some(vec![0, 2, 1, 3]));
        assert_eq!(original.places_in(&original), Some(vec![0, 1, 2, 3]));
        assert_eq!(run(&[(7, 0, 1)]).places_in(&original), None);
    }
}
