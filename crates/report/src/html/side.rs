//! What a report shows of one trace, in one pass.

use std::collections::BTreeMap;

use reprise_calls::{Category, Effect};
use reprise_measure::{
    Concurrency, Distribution, Overlap, ReplayAccount, ReplayTimes, Samples, SignedDistribution, SizeClass, Sizes,
};
use reprise_model::{World, asked_bytes, moved_bytes};
use reprise_trace::{Action, Kind, Name, ReadError, TraceReader};
use serde::Serialize;

use super::bins::{Bins, Filled};
use super::chosen::Chosen;
use super::hot::{Hot, Spent};
use super::over_time::{Course, Happened, OverTime};
use super::spans::{Encoded, Spans};
use crate::replay_times::sample;

/// One trace in a report.
#[derive(Debug, Serialize)]
pub struct Side {
    pub name: String,
    /// Whether it is a replay.
    pub replay: bool,
    /// What is known of the run: machine, file system, ordering, pace.
    pub facts: BTreeMap<String, String>,
    pub actions: u64,
    /// Storage calls that are compared: those that every replay issued.
    pub compared: u64,
    pub errors: u64,
    pub diverged: u64,
    pub skipped: u64,
    pub unsupported: u64,
    pub moved_bytes: u64,
    pub elapsed_ns: u64,
    pub calls: Vec<CallSide>,
    pub course: Course,
    pub in_flight: Overlap,
    pub read_sizes: Vec<SizeClass>,
    pub write_sizes: Vec<SizeClass>,
    pub threads: Vec<ThreadSide>,
    pub files: Vec<Spent>,
    pub directories: Vec<Spent>,
    pub issue_error: Option<IssueError>,
    /// Where a replay's time went.
    pub times: Option<ReplayTimes>,
    pub spans: Encoded,
}

/// Response times of one call.
#[derive(Debug, Serialize)]
pub struct CallSide {
    pub call: String,
    pub times: Distribution,
    pub bins: Filled,
}

/// Where a thread's time went.
#[derive(Debug, Serialize)]
pub struct ThreadSide {
    pub thread: u32,
    pub name: String,
    /// By [`Category::ALL`].
    pub in_calls_ns: [u64; Category::ALL.len()],
    pub waiting_ns: u64,
    pub pacing_ns: u64,
}

/// Instants of issue minus instants asked for.
#[derive(Debug, Serialize)]
pub struct IssueError {
    pub early: Filled,
    pub late: Filled,
    pub distribution: Option<SignedDistribution>,
}

#[derive(Default)]
struct Gathering {
    calls: BTreeMap<String, (Samples, Bins)>,
    over_time: OverTime,
    in_flight: Concurrency,
    reads: Sizes,
    writes: Sizes,
    threads: BTreeMap<u32, ThreadSide>,
    hot: Hot,
    spans: Spans,
    early: Bins,
    late: Bins,
    account: ReplayAccount,
    actions: u64,
    compared: u64,
    errors: u64,
    diverged: u64,
    skipped: u64,
    unsupported: u64,
    moved_bytes: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// Gathers one trace. `calls` numbers the calls of the whole report.
pub fn side(trace: &TraceReader, name: &str, chosen: &Chosen, calls: &mut Vec<String>) -> Result<Side, ReadError> {
    let replay = trace.manifest().kind == Kind::Replay;
    let mut world = World::begin(trace, false)?;
    let mut all = Gathering::default();
    let threads = trace.threads()?;
    let name_of = |thread: u32| {
        let row = threads.iter().find(|t| t.thread == thread);
        row.map(|t| if t.lane_of.is_some() { "requests".to_owned() } else { t.name.to_text() }).unwrap_or_default()
    };
    let (mut rows, mut action) = (trace.actions(), Action::default());
    while rows.read(&mut action)? {
        let call = reprise_calls::by_name(&action.call);
        let file = call.and_then(|c| world.concerned_path(c, &action)).map(|path| Name(path).to_text());
        all.add(&action, file.as_deref(), replay, chosen, calls, &name_of);
        if let Some(call) = call {
            world.step(call, &action)?;
        }
    }
    Ok(all.finish(trace, name, replay))
}

impl Gathering {
    fn add(
        &mut self,
        action: &Action,
        file: Option<&str>,
        replay: bool,
        chosen: &Chosen,
        calls: &mut Vec<String>,
        name_of: &dyn Fn(u32) -> String,
    ) {
        let call = reprise_calls::by_name(&action.call);
        let category = call.map_or(Category::Other, |c| c.category());
        let first_ns = *self.first_ns.get_or_insert(action.begin_ns);
        self.last_ns = self.last_ns.max(action.end_ns());
        self.actions += 1;
        self.errors += u64::from(action.result < 0);
        self.diverged += u64::from(action.difference.as_ref().is_some_and(|d| !d.starts_with("unavoidable: ")));
        self.skipped += u64::from(action.handling.as_deref() == Some("skipped"));
        self.unsupported += u64::from(action.handling.as_deref() == Some("unsupported"));
        let number = calls.iter().position(|c| *c == action.call).unwrap_or_else(|| {
            calls.push(action.call.clone());
            calls.len() - 1
        });
        self.spans.add(action.thread, u16::try_from(number).unwrap_or(u16::MAX), action.begin_ns, action.duration_ns);
        let thread = self.threads.entry(action.thread).or_insert_with(|| ThreadSide {
            thread: action.thread,
            name: name_of(action.thread),
            in_calls_ns: [0; Category::ALL.len()],
            waiting_ns: 0,
            pacing_ns: 0,
        });
        thread.in_calls_ns[category as usize] += action.duration_ns;
        thread.waiting_ns += action.waited_ns.unwrap_or(0);
        thread.pacing_ns += action.paced_ns.unwrap_or(0);
        if replay {
            self.account.add(&sample(action, None));
        }
        if let Some(ns) = action.issue_error_ns {
            if ns < 0 { self.early.add(ns.unsigned_abs()) } else { self.late.add(ns.unsigned_abs()) }
        }
        let origin = if replay { action.origin } else { Some(action.seq) };
        // What is no call has no response time.
        let pseudo = call.is_some_and(|c| c.is_pseudo());
        if pseudo || category == Category::Process || !origin.is_some_and(|seq| chosen.has(seq)) {
            return;
        }
        self.compared += 1;
        let moved = call.and_then(|c| moved_bytes(c, action)).unwrap_or(0);
        self.moved_bytes += moved;
        let (samples, bins) = match self.calls.get_mut(&action.call) {
            Some(found) => found,
            None => self.calls.entry(action.call.clone()).or_default(),
        };
        samples.add(action.duration_ns);
        bins.add(action.duration_ns);
        let of = |wanted: Category| if category == wanted { moved } else { 0 };
        self.over_time.add(Happened {
            at_ns: action.begin_ns.saturating_sub(first_ns),
            duration_ns: action.duration_ns,
            read_bytes: of(Category::Read),
            written_bytes: of(Category::Write),
        });
        self.in_flight.add(action.begin_ns.saturating_sub(first_ns), action.end_ns().saturating_sub(first_ns));
        let asked = call.and_then(|c| asked_bytes(c, action));
        match (call.map(|c| c.effect), asked) {
            (Some(Effect::Read), Some(asked)) => self.reads.add(asked),
            (Some(Effect::Write), Some(asked)) => self.writes.add(asked),
            _ => {}
        }
        self.hot.add(file.unwrap_or("[no file]"), moved, action.duration_ns);
    }

    fn finish(self, trace: &TraceReader, name: &str, replay: bool) -> Side {
        let first_ns = self.first_ns.unwrap_or(0);
        let manifest = trace.manifest();
        let mut facts = manifest.facts.clone();
        facts.insert("kernel".to_owned(), manifest.host.kernel.clone());
        facts.insert("processors".to_owned(), manifest.host.processors.to_string());
        facts.insert("command".to_owned(), manifest.command.join(" "));
        let mut calls: Vec<CallSide> = self
            .calls
            .into_iter()
            .map(|(call, (samples, bins))| CallSide { call, times: samples.distribution(), bins: bins.filled() })
            .collect();
        calls.sort_by_key(|c| std::cmp::Reverse(c.times.total_ns));
        let times = replay.then(|| self.account.times());
        let distribution = times.as_ref().and_then(|t| t.issue_error);
        let paced = !self.early.is_empty() || !self.late.is_empty();
        Side {
            name: name.to_owned(),
            replay,
            facts,
            actions: self.actions,
            compared: self.compared,
            errors: self.errors,
            diverged: self.diverged,
            skipped: self.skipped,
            unsupported: self.unsupported,
            moved_bytes: self.moved_bytes,
            elapsed_ns: self.last_ns.saturating_sub(first_ns),
            calls,
            course: self.over_time.course(),
            in_flight: self.in_flight.overlap(),
            read_sizes: self.reads.classes(),
            write_sizes: self.writes.classes(),
            threads: self.threads.into_values().collect(),
            files: self.hot.files(),
            directories: self.hot.directories(),
            issue_error: paced.then(|| IssueError {
                early: self.early.filled(),
                late: self.late.filled(),
                distribution,
            }),
            times,
            spans: self.spans.encoded(first_ns),
        }
    }
}
