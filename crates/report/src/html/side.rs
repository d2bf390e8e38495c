//! What a report shows of one trace, in one pass.

use std::collections::BTreeMap;

use reprise_calls::{Category, Effect};
use reprise_measure::{
    Concurrency, Distribution, Overlap, Punctuality, ReplayAccount, ReplayTimes, Samples, SizeClass, Sizes,
};
use reprise_model::{World, asked_bytes, moved_bytes};
use reprise_trace::{Action, Kind, Name, ReadError};
use reprise_validate::Known;
use serde::Serialize;

use super::Given;
use super::bins::{Bins, Filled};
use super::chosen::Chosen;
use super::facts::{facts, validated};
use super::files::Files;
use super::hot::{Hot, Spent};
use super::losses::{Diverged, Divergences, Lost, lost};
use super::over_time::{Course, Happened, OverTime};
use super::punctual::{Gathered, Punctual};
use super::space::{Space, space};
use super::spans::{Encoded, Spans};
use crate::executed::executed;
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
    pub divergences: Divergences,
    /// The trace's loss ledger.
    pub lost: Vec<Lost>,
    pub skipped: u64,
    pub unsupported: u64,
    pub moved_bytes: u64,
    /// From the first action's begin to the last one's end.
    pub elapsed_ns: u64,
    /// The same of the actions that every replay came to: what is compared.
    pub reached_ns: u64,
    /// How a replay ended, if that was before its last action.
    pub ended_early: Option<String>,
    pub calls: Vec<CallSide>,
    pub course: Course,
    pub in_flight: Overlap,
    pub read_sizes: Vec<SizeClass>,
    pub write_sizes: Vec<SizeClass>,
    pub threads: Vec<ThreadSide>,
    pub files: Vec<Spent>,
    pub directories: Vec<Spent>,
    /// By how much actions were issued later or earlier than asked for, by what made it.
    pub issue_error: Vec<Punctual>,
    /// Space in use on the target.
    pub space: Vec<Space>,
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
    /// How far the mean can be trusted, if the machine was validated for replays of this kind.
    pub validated: Option<Known>,
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
    issue_errors: Gathered,
    account: ReplayAccount,
    actions: u64,
    compared: u64,
    errors: u64,
    diverged: u64,
    divergences: Diverged,
    skipped: u64,
    unsupported: u64,
    moved_bytes: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    /// Begin and end of what every replay came to.
    reached_ns: Option<(u64, u64)>,
}

/// What is known of a trace beside its actions.
struct Told<'a> {
    name: &'a str,
    replay: bool,
    ended_early: Option<String>,
    lost: Vec<Lost>,
    facts: BTreeMap<String, String>,
    space: Vec<Space>,
    known: &'a [Known],
}

/// Gathers one trace. `calls` numbers the calls of the whole report; `files` is filled from the original, which comes first.
pub fn side(given: &Given<'_>, chosen: &Chosen, calls: &mut Vec<String>, files: &mut Files) -> Result<Side, ReadError> {
    let Given { name, trace, known, .. } = given;
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
        if !replay {
            files.add(file.as_deref());
        }
        let known = action.origin.filter(|_| replay).and_then(|origin| files.file(origin));
        all.add(&action, known.or(file.as_deref()), replay, chosen, calls, &name_of);
        if let Some(call) = call {
            world.step(call, &action)?;
        }
    }
    let space = space(trace, all.first_ns.unwrap_or(0))?;
    let facts = facts(trace)?;
    let ended_early = trace.manifest().ended_early().map(str::to_owned);
    Ok(all.finish(Told { name, replay, ended_early, lost: lost(trace), facts, space, known }))
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
        if let Some(difference) = action.difference.as_deref().filter(|text| !text.starts_with("unavoidable: ")) {
            self.diverged += 1;
            self.divergences.add(action, file.unwrap_or_default(), difference);
        }
        self.skipped += u64::from(action.handling.as_deref() == Some("skipped"));
        self.unsupported += u64::from(action.handling.as_deref() == Some("unsupported"));
        let number = calls.iter().position(|c| *c == action.call).unwrap_or_else(|| {
            calls.push(action.call.to_string());
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
        if let Some(program) = executed(action) {
            thread.name = program;
        }
        thread.in_calls_ns[category as usize] += action.duration_ns;
        thread.waiting_ns += action.waited_ns.unwrap_or(0);
        thread.pacing_ns += action.paced_ns.unwrap_or(0);
        if replay {
            self.account.add(&sample(action, None));
        }
        if let Some(ns) = action.issue_error_ns {
            self.issue_errors.add(ns, Punctuality::of(action.punctuality.as_deref()));
        }
        let origin = if replay { action.origin } else { Some(action.seq) };
        if origin.is_some_and(|seq| chosen.reaches(seq)) {
            let (from, to) = self.reached_ns.unwrap_or((action.begin_ns, 0));
            self.reached_ns = Some((from, to.max(action.end_ns())));
        }
        // What is no call has no response time.
        let pseudo = call.is_some_and(|c| c.is_pseudo());
        if pseudo || category == Category::Process || !origin.is_some_and(|seq| chosen.has(seq)) {
            return;
        }
        self.compared += 1;
        let moved = call.and_then(|c| moved_bytes(c, action)).unwrap_or(0);
        self.moved_bytes += moved;
        let (samples, bins) = match self.calls.get_mut(&*action.call) {
            Some(found) => found,
            None => self.calls.entry(action.call.to_string()).or_default(),
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

    fn finish(self, told: Told<'_>) -> Side {
        let Told { name, replay, ended_early, lost, facts, space, known } = told;
        let first_ns = self.first_ns.unwrap_or(0);
        let threads = self.threads.len();
        let mut calls: Vec<CallSide> = self
            .calls
            .into_iter()
            .map(|(call, (samples, bins))| {
                let times = samples.distribution();
                let validated = if replay { validated(known, &facts, threads, &call, times.mean_ns) } else { None };
                CallSide { call, times, bins: bins.filled(), validated }
            })
            .collect();
        calls.sort_by_key(|c| std::cmp::Reverse(c.times.total_ns));
        let times = replay.then(|| self.account.times());
        let exact = times.as_ref().and_then(|t| t.issue_error_by);
        Side {
            name: name.to_owned(),
            replay,
            facts,
            actions: self.actions,
            compared: self.compared,
            errors: self.errors,
            diverged: self.diverged,
            divergences: self.divergences.divergences(),
            lost,
            skipped: self.skipped,
            unsupported: self.unsupported,
            moved_bytes: self.moved_bytes,
            elapsed_ns: self.last_ns.saturating_sub(first_ns),
            reached_ns: self.reached_ns.map_or(0, |(from, to)| to.saturating_sub(from)),
            ended_early,
            calls,
            course: self.over_time.course(),
            in_flight: self.in_flight.overlap(),
            read_sizes: self.reads.classes(),
            write_sizes: self.writes.classes(),
            threads: self.threads.into_values().collect(),
            files: self.hot.files(),
            directories: self.hot.directories(),
            issue_error: self.issue_errors.kinds(exact),
            space,
            times,
            spans: self.spans.encoded(first_ns),
        }
    }
}
