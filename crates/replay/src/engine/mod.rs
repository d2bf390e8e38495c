//! The engine: replays the commands of a plan inside a confined worker, one thread per traced thread, all in one
//! address space.
//!
//! Goals: descriptor tables, working directories, masks, users, offsets and locks are the kernel's own (threads stop
//! sharing them where traced processes did); a plan is never believed: slots, ranges, pointers and numbers are checked
//! at use. Non-goals: how ordering came to be; confinement (`confine`); what becomes of the log (`emit`).
//!
//! `unsafe` is in [`issue`], [`memory`] and [`ring`] only.

mod arguments;
mod batch;
mod clocks;
mod copying;
mod counters;
#[cfg(test)]
mod counters_tests;
mod descriptors;
mod failure;
mod guard;
mod identity;
pub(crate) mod issue;
mod judge;
mod listing;
mod locks;
mod mappings;
pub(crate) mod memory;
mod nameless;
mod pacing;
mod pages;
mod perform;
mod plain;
mod porters;
mod post;
mod ring;
mod schedule;
mod spawn;
mod start;
mod stream;
mod supervise;
mod sync;
mod thread;
mod touch;
mod transfer;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use reprise_plan::command::Arg;
use reprise_plan::{Contents, ProcessPlan, ThreadPlan};

use counters::Counters;
pub use failure::Failure;
use failure::Stop;
pub(crate) use failure::error_name;
pub(crate) use guard::allowed_calls;
pub(crate) use issue::catch_signals;
use judge::Circumstances;
use memory::{Section, Shared};
pub(crate) use porters::Carried;
pub use schedule::Schedule;
pub(crate) use stream::Commands;

/// What happens at a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// It is counted and noted, the replay goes on.
    #[default]
    Warn,
    /// The replay ends at the first that counts.
    Abort,
    /// As [`Verify::Warn`], but of what calls return in memory only one in [`SAMPLED`] is compared.
    Sampled,
    /// Nothing is compared.
    Off,
}

/// One action in so many has what it returned in memory compared, with [`Verify::Sampled`].
pub const SAMPLED: u64 = 16;

/// What of an action is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Compared {
    Nothing,
    /// Whether it succeeded, and what it returned.
    Result,
    /// That, and what it returned in memory.
    All,
}

impl Verify {
    fn of(self, origin: u64) -> Compared {
        match self {
            Verify::Warn | Verify::Abort => Compared::All,
            // A product spreads actions that come at regular distances; the same are compared in every replay.
            Verify::Sampled if (origin.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(SAMPLED) => {
                Compared::All
            }
            Verify::Sampled => Compared::Result,
            Verify::Off => Compared::Nothing,
        }
    }
}

/// The plan's sections in memory.
#[derive(Debug)]
pub(crate) struct Sections {
    pub commands: Section,
    pub bytes: Section,
    pub buffers: Section,
}

impl Sections {
    /// The content that an argument names.
    fn content(&self, arg: Option<&Arg>) -> Result<&[u8], Stop> {
        let Some(Arg::Content(begin, length)) = arg else {
            return Err(Stop::Damaged("an argument is not of the kind that its call takes"));
        };
        let found = memory::part(&self.buffers, *begin, *length);
        found.ok_or(Stop::Damaged("an argument lies outside its section"))
    }

    /// Maps all three.
    pub(crate) fn map(plan: &reprise_plan::Plan) -> std::io::Result<Sections> {
        let map = |s: reprise_plan::Section| Section::map(&plan.file, s.offset, s.length);
        Ok(Sections {
            commands: map(plan.contents.command_section)?,
            bytes: map(plan.contents.byte_section)?,
            buffers: map(plan.contents.buffer_section)?,
        })
    }
}

/// Real descriptor numbers by slot, -1 where none is known; above each how often the slot was filled.
#[derive(Debug)]
pub(crate) struct Slots(Vec<AtomicU64>);

impl Slots {
    fn new(count: u32) -> Slots {
        Slots((0..count).map(|_| AtomicU64::new(u64::from(u32::MAX))).collect())
    }

    /// A limit of open files with which no process of the plan comes to its end.
    fn wanted(&self) -> u64 {
        room_for_descriptors(self.0.len() as u64)
    }

    fn get(&self, slot: u32) -> Result<i32, Stop> {
        self.word(slot).map(Slots::number).ok_or(Stop::Damaged("there is no such descriptor slot"))
    }

    /// The number and which filling of the slot it is: another word means another descriptor.
    fn word(&self, slot: u32) -> Option<u64> {
        self.0.get(slot as usize).map(|word| word.load(Ordering::Acquire))
    }

    fn number(word: u64) -> i32 {
        word as u32 as i32
    }

    fn set(&self, slot: u32, number: i32) -> Result<(), Stop> {
        let place = self.0.get(slot as usize).ok_or(Stop::Damaged("there is no such descriptor slot"))?;
        let fillings = (place.load(Ordering::Acquire) >> 32).wrapping_add(1);
        place.store(fillings << 32 | u64::from(number as u32), Ordering::Release);
        Ok(())
    }
}

/// Descriptors of the engine in every table; no slot ever holds one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserved {
    /// All of them, and nothing else, are at or above this number.
    pub first: i32,
    /// The log.
    pub log: i32,
    /// The plan's file.
    pub plan: i32,
    /// `/dev/null`, or what stands in for it.
    pub null: i32,
    /// The target's root directory.
    pub root: i32,
    /// Both ends of the way to the thread that keeps descriptors: see [`post`].
    pub post: [i32; 2],
}

/// How the engine runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub verify: Verify,
    /// Files can be given any owner.
    pub owners: bool,
    /// Users and groups of the trace can be taken on.
    pub identities: bool,
    /// The time-stamp counter is the kernel's clock.
    pub tsc: bool,
    pub pace: crate::pace::Pace,
    pub executor: crate::executor::Executor,
    pub commands: Commands,
    /// Reads hit and miss as in the trace.
    pub traced_cache: bool,
    /// Replay threads stay each on one processor.
    pub pin: bool,
    /// `O_NOATIME` for what is opened.
    pub no_access_times: bool,
    /// Longest time without any progress.
    pub patience: std::time::Duration,
    /// Longest wait for a lock.
    pub lock_patience: std::time::Duration,
}

/// How the engine's run ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Ended {
    /// All commands were performed.
    Complete,
    /// [`Verify::Abort`] at the first difference.
    FirstDivergence,
    /// It was told to end.
    Interrupted,
    /// Something is wrong.
    Failed(Failure),
}

/// What a run came to.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Outcome {
    pub ended: Ended,
    /// Notes that were made, and how often.
    pub notes: Vec<(String, u64)>,
    /// See [`Schedule`]: at each step that left a choice the number of threads that could go on.
    pub degrees: Vec<u32>,
}

/// Shared with the parent process.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// Not 0: end.
    pub stop: std::sync::atomic::AtomicU32,
    /// Commands completed.
    pub done: AtomicU64,
    pub first_ticks: AtomicU64,
    pub first_ns: AtomicU64,
    pub last_ticks: AtomicU64,
    pub last_ns: AtomicU64,
}

/// How many numbers of descriptors a worker is given for a plan with so many slots: theirs and the engine's own, at most what a
/// machine permits unless it is told to permit more (`fs.nr_open`).
pub(crate) fn room_for_descriptors(slots: u64) -> u64 {
    /// bash and others ask for numbers up to 255.
    const FEWEST: u64 = 1024;
    const MOST: u64 = 1 << 20;
    slots.saturating_add(64).next_power_of_two().max(FEWEST).saturating_add(OWN_DESCRIPTORS).min(MOST)
}

/// Numbers kept for the engine.
pub(crate) const OWN_DESCRIPTORS: u64 = 8;

/// Slots of a plan beyond this number are absurd.
const MOST_SLOTS: u32 = 1 << 24;
/// Threads beyond this number are.
const MOST_THREADS: usize = 1 << 20;

/// All that the threads of a replay share. It lives as long as its process.
pub(crate) struct Engine {
    threads: Vec<ThreadPlan>,
    lanes: spawn::Lanes,
    starts: start::Starts,
    processes: Vec<ProcessPlan>,
    nameless: Vec<Vec<u8>>,
    sections: Arc<Sections>,
    board: Arc<Shared<Board>>,
    /// Changes about twice a second: records of before are to be taken to the log.
    pulse: AtomicU64,
    reserved: Reserved,
    settings: Settings,
    circumstances: Circumstances,
    /// What plain calls take.
    rows: arguments::Rows,
    slots: Slots,
    counters: Counters,
    /// Set where the order is explored.
    turns: Option<schedule::Turns>,
    pacer: pacing::Pacer,
    mappings: Vec<RwLock<Option<mappings::Held>>>,
    /// Mapping slots that each process has filled.
    mapped: Mutex<HashMap<u32, Vec<u32>>>,
    /// Processes that share a descriptor table with another one.
    joined: Mutex<HashSet<u32>>,
    listings: Mutex<HashMap<u64, listing::Sum>>,
    porters: porters::Porters,
    keeper: post::Keeper,
    /// One asks the keeper at a time.
    post_turn: Mutex<()>,
    /// Processors that replay threads are kept on in turn, if they are.
    processors: Vec<usize>,
    /// 1 when the root threads may begin: a futex.
    gate: AtomicU64,
    /// How many locks have not become free that were waited for.
    locks_in_vain: AtomicU32,
    ended: Mutex<Option<Ended>>,
    notes: Mutex<BTreeMap<String, u64>>,
}

/// A panic elsewhere cannot leave these values half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Prepares for a plan.
    pub(crate) fn new(
        plan: &Contents,
        sections: Arc<Sections>,
        board: Arc<Shared<Board>>,
        reserved: Reserved,
        settings: Settings,
        schedule: Option<&Schedule>,
    ) -> Result<Engine, Failure> {
        let absurd = |cause: &str| Failure::Absurd { cause: cause.to_owned() };
        if plan.slots > MOST_SLOTS || plan.mappings > MOST_SLOTS {
            return Err(absurd("it asks for more descriptors or mappings than a machine has"));
        }
        if plan.threads.len() > MOST_THREADS {
            return Err(absurd("it asks for more threads than a machine has"));
        }
        sync::prepare_barriers();
        Ok(Engine {
            threads: plan.threads.clone(),
            lanes: spawn::Lanes::of(&plan.threads),
            starts: start::Starts::of(&plan.threads, &plan.processes),
            processes: plan.processes.clone(),
            nameless: plan.nameless.clone(),
            sections,
            board,
            pulse: AtomicU64::new(0),
            reserved,
            settings,
            circumstances: Circumstances { owners: settings.owners },
            rows: arguments::Rows::new(),
            slots: Slots::new(plan.slots),
            counters: Counters::new(plan.threads.len(), settings.pace.follows_dependencies()),
            pacer: pacing::Pacer::calibrate(settings.pace, settings.tsc),
            turns: schedule.map(|s| schedule::Turns::new(s, plan.commands)),
            mappings: (0..plan.mappings).map(|_| RwLock::new(None)).collect(),
            mapped: Mutex::default(),
            joined: Mutex::default(),
            listings: Mutex::default(),
            porters: porters::Porters::new(),
            keeper: post::Keeper::new(),
            post_turn: Mutex::default(),
            processors: if settings.pin { issue::usable_processors() } else { Vec::new() },
            gate: AtomicU64::new(0),
            locks_in_vain: AtomicU32::new(0),
            ended: Mutex::new(None),
            notes: Mutex::default(),
        })
    }

    /// Ends the replay; the first reason counts.
    fn stop(&self, reason: Ended) {
        lock(&self.ended).get_or_insert(reason);
        self.counters.stop.store(1, Ordering::SeqCst);
    }

    /// Notes a fact.
    fn note(&self, text: impl Into<String>) {
        self.note_many(text, 1);
    }

    /// Notes a fact that was met so often.
    fn note_many(&self, text: impl Into<String>, count: u64) {
        if count > 0 {
            *lock(&self.notes).entry(text.into()).or_default() += count;
        }
    }

    /// What was read of the plan during the replay and written of the log.
    pub(crate) fn carried(&self) -> &Carried {
        self.porters.carried()
    }

    /// The present instant, in the units of the log.
    #[inline]
    fn ticks(&self) -> u64 {
        if self.settings.tsc { issue::ticks() } else { issue::nanoseconds() }
    }

    /// The present instant, after what was loaded from memory until now.
    #[inline]
    fn ticks_after_loads(&self) -> u64 {
        if self.settings.tsc { issue::ticks_after_loads() } else { issue::nanoseconds() }
    }
}

/// Writes to the end of the log, in one call.
pub(crate) fn append(fd: i32, bytes: &[u8]) -> i64 {
    issue::write(fd, bytes, None)
}
