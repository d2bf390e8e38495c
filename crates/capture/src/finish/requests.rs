//! Asynchronous requests, as the programs in the kernel tell of them: each is an action of a lane.
//!
//! A request of io_uring is told of when it is submitted and when it is complete, before the program can know of that: so
//! its times are exact, and its content is what it was then. Of Linux AIO the kernel tells nothing: its requests are taken
//! from the calls that submit them, and are complete when a call fetched them.
//!
//! Goals: the same actions as a recorder makes that watches ([`crate::requests`]). Non-goals: their order (`order`,
//! `window`).

mod early;
mod ended;
mod later;
mod queues;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use foldhash::{HashMap, HashSet};

use reprise_calls::{ArgKind, Call, Effect, Object as Made};
use reprise_trace::payload::append;
use reprise_trace::{Action, Loss};

use super::decode::{Pending, telling};
use super::lanes::NewLane;
use crate::arguments::{self, UNREADABLE, failed};
use crate::kept::{Kept, When};
use crate::log::Log;
use crate::memory::Memory;
use crate::requests::{
    self, Asked, Changed, Channel, Choice, Completion, Ending, Flight, Key, Registration, Requests, Table, TableRow,
    Way,
};
use crate::spool::join;
use crate::spool::layout::{MOVED_AT, state};
use crate::spool::record::{Object, Objects, Ring};

const CQE_MORE: u32 = 1 << 1;
const GET_EVENTS: u64 = 1;
const REGISTERED_RING: u64 = 1 << 4;
/// So long after it seems to be over a request may still fail whose success is not told: workers may have it. Less than a row
/// may wait for its place.
const DOUBT_NS: u64 = 500_000_000;

/// Said of completions of requests that were submitted before the recording.
const UNSEEN: &str = "a completion of no request that was seen";

/// What a call about requests submitted and fetched, as its action has it.
#[derive(Debug, Default)]
pub struct About {
    input: Option<Vec<u8>>,
    output: Option<Vec<u8>>,
}

impl About {
    /// Puts it into the action.
    pub fn put_into(self, action: &mut Action) {
        self.input.into_iter().for_each(|input| action.input = input);
        self.output.into_iter().for_each(|output| action.output = output);
    }
}

/// What a request came to.
#[derive(Debug)]
struct Outcome {
    at_ns: u64,
    result: i64,
    kept: Kept,
    objects: [Option<Object>; 2],
    chosen: Option<(u64, u64)>,
    /// See [`Flight::opened_in_vain`].
    in_vain: bool,
    /// Where in its file content stands that it moved inside the kernel.
    moved_at: Option<u64>,
    /// Why content may be lacking.
    lacks: &'static str,
    /// The kernel's number of a request whose content follows.
    later: Option<u64>,
}

impl Outcome {
    fn of(at_ns: u64, result: i64) -> Outcome {
        let lacks = UNREADABLE;
        Outcome {
            at_ns,
            result,
            kept: Kept::default(),
            objects: [None; 2],
            chosen: None,
            in_vain: false,
            moved_at: None,
            lacks,
            later: None,
        }
    }
}

/// Of a ring, beside what is in flight.
#[derive(Debug, Default)]
struct Habits {
    /// Thread and process that named it last: who submits, where a thread of the kernel takes the requests.
    user: (i32, i32),
    /// The request submitted last.
    last: Option<u64>,
    /// So many completions the program had taken.
    taken: u32,
    /// The process that made it has ended.
    abandoned: bool,
}

/// What comes of taking in what happened.
#[derive(Debug, Default)]
pub struct Out {
    /// Actions of lanes.
    pub rows: Vec<Pending>,
    /// Lanes that are new.
    pub lanes: Vec<NewLane>,
}

impl Out {
    /// Whether nothing comes of it.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.lanes.is_empty()
    }
}

/// What is under way.
#[derive(Debug, Default)]
pub struct Asynchronous {
    books: Requests,
    habits: HashMap<Key, Habits>,
    /// By the kernel's identity.
    rings: HashMap<u64, Key>,
    /// Told of, and the call that makes them is not over.
    fresh: HashSet<Key>,
    /// By the kernel's number.
    under_way: HashMap<u64, (Key, u64)>,
    slots: HashMap<u64, u64>,
    /// By thread: what the call under way has submitted.
    submitted: HashMap<i32, (Key, Vec<u64>)>,
    lanes: u32,
    /// Requests that seem to be over, and of whose success nothing is told; since when.
    doubtful: VecDeque<(u64, Key, u64)>,
    /// By queue: what was fetched of requests that no call that is over has submitted.
    early: HashMap<Key, early::Early>,
    /// By the kernel's number.
    later: HashMap<u64, later::Later>,
    pub out: Out,
}

impl Asynchronous {
    /// A ring was made.
    pub fn ring(&mut self, tid: i32, pid: i32, ring: Ring, log: &mut Log) {
        let key = Key::Ring(pid, ring.fd as u32);
        self.set_aside(key, log);
        self.books.copies.remove(&key);
        self.books.channels.insert(key, Channel::new(format!("uring:{}", ring.fd), Way::Told));
        self.habits.insert(key, Habits { user: (tid, pid), ..Habits::default() });
        self.rings.insert(ring.ring, key);
        self.fresh.insert(key);
    }

    /// The ring of an identity; one that was there before the recording is as new.
    fn key_of(&mut self, ring: u64, (tid, pid): (i32, i32)) -> Key {
        if let Some(key) = self.rings.get(&ring) {
            return *key;
        }
        let key = self.books.nameless(pid);
        self.books.channels.insert(key, Channel::new("uring".to_owned(), Way::Told));
        self.habits.insert(key, Habits { user: (tid, pid), ..Habits::default() });
        self.rings.insert(ring, key);
        key
    }

    /// A ring that was there before the recording has the descriptor by which a call names it that submits to it.
    fn adopted(&mut self, key: Key, named: Key) -> Key {
        if key == named || !self.books.is_nameless(key) || self.books.channels.contains_key(&named) {
            return key;
        }
        self.rename(key, named);
        named
    }

    /// A ring gets another name.
    fn rename(&mut self, from: Key, to: Key) {
        self.books.rename(from, to);
        let habits = self.habits.remove(&from);
        habits.into_iter().for_each(|habits| _ = self.habits.insert(to, habits));
        let kept = |of: &mut Key| *of = if *of == from { to } else { *of };
        self.rings.values_mut().for_each(kept);
        self.under_way.values_mut().for_each(|(of, _)| kept(of));
        self.submitted.values_mut().for_each(|(of, _)| kept(of));
        self.doubtful.iter_mut().for_each(|(_, of, _)| kept(of));
    }

    /// Another ring has the name of one whose requests may not be complete yet: the kernel ends them when all else is done.
    fn set_aside(&mut self, key: Key, log: &mut Log) {
        if self.books.channels.get(&key).is_none_or(|channel| channel.flights.is_empty()) {
            return self.forget(key, log);
        }
        let aside = self.books.nameless(key.process());
        self.rename(key, aside);
    }

    /// A request was submitted.
    pub fn asked(&mut self, asked: join::Asked, at_ns: u64, log: &mut Log) {
        let join::Asked { tid, pid, request, kept, .. } = asked;
        self.settle(at_ns, log);
        let key = self.key_of(request.ring, (tid, pid));
        let has = |bit: u32| request.state & bit != 0;
        if let Some(former) = self.slots.insert(request.slot, request.request)
            && let Some((key, number)) = self.under_way.remove(&former)
        {
            self.succeeded_before(key, number, at_ns, log);
            self.assume(key, number, at_ns, log);
        }
        let habits = self.habits.entry(key).or_default();
        habits.abandoned = false;
        if !has(state::POLLED) {
            habits.user = (tid, pid);
        }
        let (submitter, after) = (habits.user, habits.last.filter(|_| has(state::FOLLOWS)));
        if has(state::UNREAD) {
            log.loss(Loss::Dropped, "io_uring requests whose memory could not be read", 0);
        }
        if has(state::UNTOLD) {
            log.loss(Loss::Dropped, "io_uring requests beyond what can be followed in flight", 0);
        }
        let decoded = requests::sqe(&request.sqe);
        let lacks_memory = has(state::NO_ROOM) && decoded.asked.as_ref().is_some_and(names_memory);
        if lacks_memory {
            log.loss(Loss::Dropped, "paths and structures of io_uring requests that found no room", 0);
        }
        let touches = decoded.asked.is_some() || decoded.table != Table::Untouched;
        if decoded.pipe_in_table {
            log.loss(Loss::Dropped, requests::PIPE_IN_TABLE, 0);
        } else if !touches && decoded.choice == Choice::Nothing {
            log.note("asynchronous requests that touch no storage (polls, timers, messages …) are not recorded");
        }
        if decoded.several {
            log.loss(Loss::Dropped, "completions of a request that has several", 0);
        }
        let memory = Memory::Kept(&kept, When::Entry);
        let inputs = decoded.asked.as_ref().map(|asked| asked.inputs(memory, log)).unwrap_or_default();
        let flight = Flight {
            number: self.books.number(),
            key: decoded.mark,
            asked: decoded.asked,
            fixed: decoded.fixed,
            table: decoded.table,
            replaces: requests::given(decoded.table, memory),
            choice: decoded.choice,
            after,
            drains: decoded.drains,
            breaks: decoded.breaks,
            silent: decoded.silent,
            malformed: decoded.malformed || has(state::REFUSED),
            inputs,
            ..Flight::default()
        };
        let number = self.fly(key, submitter, flight, at_ns);
        self.under_way.insert(request.request, (key, number));
        self.habits.entry(key).or_default().last = Some(number);
        if !has(state::POLLED) {
            self.submits(tid, key, number);
        }
    }

    /// A request is in flight from now on.
    fn fly(&mut self, key: Key, (tid, pid): (i32, i32), mut flight: Flight, at_ns: u64) -> u64 {
        let number = flight.number;
        if flight.asked.is_some() {
            flight.lane = self.lane(key, (tid, pid), flight.after, at_ns);
        }
        if let Some(channel) = self.books.channels.get_mut(&key) {
            flight.begin_ns = channel.begins_at_once(flight.drains, flight.after).then_some(at_ns);
            channel.fly(flight);
        }
        number
    }

    fn submits(&mut self, tid: i32, key: Key, number: u64) {
        let has_row = |flight: &Flight| flight.number == number && flight.lane.is_some();
        let channel = self.books.channels.get(&key);
        if channel.is_some_and(|channel| channel.flights.iter().rev().any(has_row)) {
            self.submitted.entry(tid).or_insert((key, Vec::new())).1.push(number);
        }
    }

    /// A lane on which nothing is in flight; a new one if there is none.
    fn lane(&mut self, key: Key, (tid, pid): (i32, i32), after: Option<u64>, begin_ns: u64) -> Option<usize> {
        let channel = self.books.channels.get_mut(&key)?;
        if let Some(lane) = channel.free_lane(tid, after, begin_ns) {
            return Some(lane);
        }
        let number = self.lanes;
        self.lanes += 1;
        let name = format!("{}:{}", channel.name, channel.lanes());
        self.out.lanes.push(NewLane { submitter: tid, pid, name, begin_ns });
        Some(channel.add_lane(tid, number))
    }

    /// A request is complete, or one step further.
    pub fn done(&mut self, done: join::Done, at_ns: u64, log: &mut Log) {
        let join::Done { completion, kept, .. } = done;
        self.settle(at_ns, log);
        if completion.state & state::SETTLED != 0 {
            return self.settled(&completion, &kept, log);
        }
        let Some(&(key, number)) = self.under_way.get(&completion.request) else {
            return log.note(UNSEEN);
        };
        if completion.state & state::GIVEN != 0 {
            return self.given(key, number, &kept, log);
        }
        let Some(channel) = self.books.channels.get_mut(&key) else { return };
        let has_row = channel.flights.iter().any(|f| f.number == number && f.asked.is_some());
        if completion.flags & CQE_MORE != 0 {
            if has_row {
                log.loss(Loss::Dropped, "completions of a request that has several", 0);
            }
            return;
        }
        self.under_way.remove(&completion.request);
        let failed = completion.result < 0 && completion.result != requests::ECANCELED;
        if failed && !channel.flights.iter().any(|f| f.number == number) {
            log.loss(Loss::Dropped, "failures of requests that had been taken as successful long before", 0);
        }
        let cancelled = channel.cancelled(number, completion.result);
        self.shows_others(key, number, at_ns, log);
        let habits = self.habits.entry(key).or_default();
        if completion.taken.wrapping_sub(habits.taken) as i32 > 0 {
            habits.taken = completion.taken;
        }
        let fetched = Completion {
            place: completion.place,
            key: 0,
            data: 0,
            result: completion.result,
            last: true,
            counts: true,
            buffer: None,
            taken: false,
        };
        if has_row && let Some(channel) = self.books.channels.get_mut(&key) {
            channel.completed(fetched, number);
        }
        let lacks = match completion.state {
            s if s & state::FOREIGN != 0 => "complete when the program's memory was not at hand",
            s if s & state::NO_ROOM != 0 => "it found no room while the program ran",
            _ => UNREADABLE,
        };
        let outcome = Outcome {
            at_ns,
            result: completion.result,
            kept,
            objects: completion.objects,
            chosen: completion.chosen,
            in_vain: false,
            moved_at: completion.moved_at,
            lacks,
            later: Some(completion.request).filter(|_| completion.state & state::LATER != 0),
        };
        self.complete(key, number, outcome, log);
        let Some(channel) = self.books.channels.get_mut(&key).filter(|_| !cancelled.is_empty()) else { return };
        log.note_several(requests::CANCELLED, channel.give_up(&cancelled));
        channel.begin_waiting(at_ns);
    }

    /// A request is complete: of those before it whose success is not told some had to succeed first. The others seem to be over;
    /// but workers may perform them still, and those that fail are told of.
    fn shows_others(&mut self, key: Key, number: u64, at_ns: u64, log: &mut Log) {
        self.succeeded_before(key, number, at_ns, log);
        let flights = self.books.channels.get_mut(&key).into_iter().flat_map(|channel| &mut channel.flights);
        for flight in flights.filter(|f| f.silent && f.number < number && f.over_ns.is_none()) {
            flight.over_ns = Some(at_ns);
            self.doubtful.push_back((at_ns, key, flight.number));
        }
    }

    fn succeeded_before(&mut self, key: Key, number: u64, at_ns: u64, log: &mut Log) {
        let channel = self.books.channels.get(&key);
        let succeeded = channel.map(|channel| channel.succeeded_before(number)).unwrap_or_default();
        succeeded.into_iter().for_each(|number| self.assume(key, number, at_ns, log));
    }

    /// What nothing was told of for long has succeeded.
    fn settle(&mut self, now_ns: u64, log: &mut Log) {
        while let Some((at_ns, key, number)) = self.doubtful.front().copied()
            && at_ns.saturating_add(DOUBT_NS) <= now_ns
        {
            self.doubtful.pop_front();
            self.assume(key, number, at_ns, log);
        }
    }

    /// What a request is given whose success will not be told: as it is submitted, unless it comes from one that it follows.
    fn given(&mut self, key: Key, number: u64, kept: &Kept, log: &mut Log) {
        let Some(channel) = self.books.channels.get_mut(&key) else { return };
        let Some(at) = channel.flights.iter().position(|f| f.number == number) else { return };
        let flight = &channel.flights[at];
        let fills = |other: &&Flight| other.lane == flight.lane && other.number < number && other.fills();
        let meets = |other: &Flight| other.meets(&flight.inputs.buffers);
        if flight.after.is_some() && channel.flights.iter().filter(fills).any(meets) {
            return;
        }
        let flight = &mut channel.flights[at];
        if let Some(asked) = flight.asked.as_ref().filter(|asked| asked.writes()) {
            asked.read_again(&mut flight.inputs, Memory::Kept(kept, When::Exit), log);
        }
    }

    /// A request of which nothing more is heard is taken as complete.
    fn assume(&mut self, key: Key, number: u64, at_ns: u64, log: &mut Log) {
        let channel = self.books.channels.get(&key);
        let flight = channel.and_then(|channel| channel.flights.iter().find(|f| f.number == number));
        let Some(flight) = flight else { return };
        let at_ns = flight.over_ns.unwrap_or(at_ns).max(flight.begin_ns.unwrap_or(0));
        let Some(result) = untold(key, flight) else {
            log.loss(Loss::Dropped, "requests whose completion is not in the raw recording", 0);
            let channel = self.books.channels.get_mut(&key);
            channel.into_iter().for_each(|channel| drop(channel.land(number)));
            return;
        };
        if flight.asked.is_some() {
            log.note("a request whose completion the program never saw: taken as successful");
        }
        self.complete(key, number, Outcome::of(at_ns, result), log);
    }

    /// A request is complete: its action.
    fn complete(&mut self, key: Key, number: u64, mut outcome: Outcome, log: &mut Log) {
        let kept = std::mem::take(&mut outcome.kept);
        self.complete_from(key, number, outcome, &kept, log);
    }

    /// As [`Asynchronous::complete`], with memory that belongs to more than one.
    fn complete_from(&mut self, key: Key, number: u64, mut outcome: Outcome, kept: &Kept, log: &mut Log) {
        let Some(channel) = self.books.channels.get_mut(&key) else { return };
        let Some(mut flight) = channel.land(number) else { return };
        if outcome.objects[0].is_some() {
            self.books.meet_files(key, &flight);
        }
        let Some(channel) = self.books.channels.get_mut(&key) else { return };
        channel.resolve(&mut flight);
        outcome.chosen.into_iter().for_each(|(address, length)| flight.choose(address, length));
        flight.lane.into_iter().for_each(|lane| channel.was_used(lane, outcome.at_ns));
        let lane = flight.lane.map(|lane| channel.lane_thread(lane));
        let refused = self.books.is_refused(key, &flight, outcome.result);
        outcome.in_vain = flight.opened_in_vain(outcome.result);
        let at_ns = outcome.at_ns;
        let ended = self.is_ended_with_its_process(key, outcome.result);
        match (flight.asked.take(), lane) {
            (Some(_), _) if ended => log.note("requests in flight that came to nothing as their process ended"),
            (Some(_), _) if refused => log.note(requests::REFUSED),
            (Some(asked), Some(lane)) => match outcome.later {
                None => self.row((key, lane), asked, flight, &outcome, kept, log),
                Some(request) => {
                    self.later.insert(request, later::Later { lane: (key, lane), asked, flight, outcome });
                }
            },
            _ => self.changed(key, &flight, &outcome, kept, log),
        }
        let channel = self.books.channels.get_mut(&key);
        channel.into_iter().for_each(|channel| channel.begin_waiting(at_ns));
    }

    fn row(
        &mut self,
        (key, lane): (Key, u32),
        asked: Asked,
        flight: Flight,
        outcome: &Outcome,
        kept: &Kept,
        log: &mut Log,
    ) {
        let Flight { number, table, begin_ns, mut inputs, .. } = flight;
        let (result, end_ns) = (if outcome.in_vain { 0 } else { outcome.result }, outcome.at_ns);
        let empty = Kept::default();
        let is_as_submitted = is_same_vector(&asked, &inputs, kept);
        let kept = if is_as_submitted { kept } else { &empty };
        let memory = Memory::Kept(kept, When::Exit);
        if asked.writes() && inputs.kept == 0 {
            asked.read_again(&mut inputs, memory, log);
        }
        let told = inputs.told();
        let mut out = arguments::outputs(memory, asked.call, &asked.args, result, inputs, log);
        if let (Some(at), 1..) = (outcome.moved_at, result) {
            out.moved = result as u64;
            let buffer = [(MOVED_AT.wrapping_add(at), out.moved)];
            let (data, kept) = arguments::content(memory, &buffer, out.moved, arguments::keep(asked.call), log);
            (out.data, out.truncated) = (data, out.moved - kept);
        }
        let telling = telling(memory, asked.call, &asked.args, result);
        let (in_trace, before, after) = match outcome.in_vain {
            true => {
                let (in_trace, after) = self.books.opened_in_vain();
                (in_trace, None, Some(after))
            }
            false => {
                let (in_trace, before) = self.books.table_result(key, table, result);
                (in_trace, before, None)
            }
        };
        before.iter().for_each(|row| self.table_row(lane, row, end_ns));
        let times = (begin_ns.unwrap_or(end_ns), end_ns);
        let lacks =
            if is_as_submitted { out.lacks(outcome.lacks) } else { "its vector was used again before it was complete" };
        let action = told.action(asked.call, asked.args, times, in_trace, out);
        self.out.rows.push(Pending {
            action: Action { request: Some(number), ..action },
            telling,
            objects: objects(&asked, table, outcome),
            lacks,
            ..Pending::of_lane(asked.call, lane)
        });
        after.iter().for_each(|row| self.table_row(lane, row, end_ns));
    }

    fn table_row(&mut self, lane: u32, row: &TableRow, at_ns: u64) {
        let Some(call) = reprise_calls::by_name(row.call) else { return };
        let action =
            Action { call: row.call.into(), begin_ns: at_ns, args: row.args, result: row.result, ..Action::default() };
        self.out.rows.push(Pending { action, ..Pending::of_lane(call, lane) });
    }

    /// Rows that changes of a ring's table make.
    fn table_rows(&mut self, key: Key, user: (i32, i32), rows: &[TableRow], at_ns: u64) {
        let Some(lane) = (!rows.is_empty()).then(|| self.lane(key, user, None, at_ns)).flatten() else { return };
        let lane = self.books.channels.get(&key).map_or(0, |channel| channel.lane_thread(lane));
        rows.iter().for_each(|row| self.table_row(lane, row, at_ns));
    }

    /// A request that stands for no call may have changed tables.
    fn changed(&mut self, key: Key, flight: &Flight, outcome: &Outcome, kept: &Kept, log: &mut Log) {
        let places = requests::chosen(flight.table, Memory::Kept(kept, When::Exit));
        let changed = self.books.changed(key, flight, &places, outcome.result);
        self.table_changed(key, self.user(key), &changed, outcome.at_ns, log);
    }

    /// Thread and process that a ring is used by.
    fn user(&self, key: Key) -> (i32, i32) {
        self.habits.get(&key).map_or((0, 0), |habits| habits.user)
    }

    fn table_changed(&mut self, key: Key, user: (i32, i32), changed: &Changed, at_ns: u64, log: &mut Log) {
        log.loss_several(Loss::Dropped, requests::UNREAD_ENTRIES, changed.unread);
        self.table_rows(key, user, &changed.rows, at_ns);
    }

    /// A call is over that has to do with rings or queues: what it did to them, and what its action tells of requests.
    pub fn called(&mut self, heard: &join::Heard, call: &Call, end_ns: u64, log: &mut Log) -> About {
        let (result, args) = (heard.call.result, &heard.call.args);
        self.settle(end_ns, log);
        // All effects of the calls below.
        let is_about_them = match call.effect {
            // What failed may have emptied an entry of a table.
            Effect::Asynchronous if call.name == "io_uring_register" => true,
            Effect::Asynchronous => !failed(result) || call.position(|kind| kind == ArgKind::Submits).is_some(),
            Effect::MakeObject(Made::Ring)
            | Effect::Close
            | Effect::CloseRange
            | Effect::Duplicate
            | Effect::DuplicateTo
            | Effect::Execute => !failed(result),
            Effect::Control => !failed(result) && call.opens(args),
            _ => false,
        };
        if !is_about_them {
            return About::default();
        }
        match (call.effect, call.name) {
            (Effect::MakeObject(Made::Ring), _) if !self.fresh.remove(&Key::Ring(heard.pid, result as u32)) => {
                log.loss(Loss::Dropped, "requests on an io_uring, of which this kernel does not tell", 0);
            }
            (Effect::Close, _) => self.closed(Key::Ring(heard.pid, args[0] as u32), end_ns, log),
            (Effect::Duplicate | Effect::DuplicateTo | Effect::Control, _) => self.copied(heard, call, end_ns, log),
            (Effect::CloseRange, _) => {
                self.books.in_range(heard.pid, args).into_iter().for_each(|key| self.closed(key, end_ns, log));
            }
            (Effect::Execute, _) => self.process_ended(heard.pid, end_ns, log),
            (_, "io_setup") => self.new_queue(heard, end_ns, log),
            (_, "io_destroy") => self.queue_destroyed(heard, end_ns, log),
            (_, "io_submit") => return self.submitted_iocbs(heard, end_ns, log),
            (_, "io_getevents" | "io_pgetevents") => return self.fetched_events(heard, end_ns, log),
            (_, "io_uring_register") => self.registered(heard, end_ns, log),
            (_, "io_uring_enter") => return self.entered(heard),
            _ => {}
        }
        About::default()
    }

    fn ring_of(&mut self, heard: &join::Heard, registered: bool) -> Key {
        let fd = heard.call.args[0] as u32;
        let at_place = self.books.registered.get(&(heard.tid, fd)).filter(|_| registered);
        at_place.copied().unwrap_or_else(|| self.books.ring(Key::Ring(heard.pid, fd)))
    }

    fn entered(&mut self, heard: &join::Heard) -> About {
        let args = &heard.call.args;
        let submitted = self.submitted.remove(&heard.tid);
        let named = self.ring_of(heard, args[3] & REGISTERED_RING != 0);
        let (key, numbers) = submitted.unwrap_or((named, Vec::new()));
        let key = if args[3] & REGISTERED_RING == 0 { self.adopted(key, named) } else { key };
        let mut fetched = Vec::new();
        if let Some(habits) = self.habits.get_mut(&key) {
            habits.user = (heard.tid, heard.pid);
            let channel = self.books.channels.get_mut(&key).filter(|_| args[3] & GET_EVENTS != 0);
            fetched = channel.map(|channel| channel.fetched_from(habits.taken)).unwrap_or_default();
        }
        About { input: Some(encoded(&numbers)), output: Some(encoded(&fetched)).filter(|_| heard.call.result >= 0) }
    }

    fn registered(&mut self, heard: &join::Heard, end_ns: u64, log: &mut Log) {
        let args = &heard.call.args;
        let key = self.ring_of(heard, requests::names_registered(args));
        let is_made = !failed(heard.call.result);
        let changed = match requests::registration(Memory::Kept(&heard.kept, When::Exit), args) {
            Registration::Updates(first, numbers) => self.books.replace_files(key, first, &numbers, heard.call.result),
            _ if !is_made => return,
            Registration::Files(numbers) => {
                Changed { rows: self.books.put_files(key, 0, &numbers), ..Changed::default() }
            }
            Registration::NoFiles => Changed { rows: self.books.empty_table(key), ..Changed::default() },
            Registration::Rings(places) => {
                for (place, fd) in places {
                    match fd {
                        Some(fd) => {
                            let ring = self.books.ring(Key::Ring(heard.pid, fd));
                            self.books.registered.insert((heard.tid, place), ring);
                        }
                        None => _ = self.books.registered.remove(&(heard.tid, place)),
                    }
                }
                return;
            }
            // The kernel tells of each request where it stood, and which buffer was chosen.
            Registration::Buffers(..) | Registration::Beyond(_) | Registration::Nothing => return,
        };
        if changed.rows.is_empty() && is_made && !self.books.channels.contains_key(&key) {
            log.note("files were registered with a ring that was there before the recording");
        }
        self.table_changed(key, (heard.tid, heard.pid), &changed, end_ns, log);
    }

    /// A descriptor ends. If it was a ring's last, what is registered with the ring ends too.
    fn closed(&mut self, named: Key, at_ns: u64, log: &mut Log) {
        match self.books.descriptor_ends(named) {
            Ending::Nothing => {}
            Ending::LivesAs(to) => {
                self.set_aside(to, log);
                self.rename(named, to);
            }
            Ending::Ends => {
                let rows = self.books.empty_table(named);
                self.table_rows(named, self.user(named), &rows, at_ns);
            }
        }
    }

    /// A descriptor was copied, in the place of another where that was named.
    fn copied(&mut self, heard: &join::Heard, call: &Call, end_ns: u64, log: &mut Log) {
        let Some((from, to)) = requests::copied(call, &heard.call.args, heard.call.result) else { return };
        if from != to {
            self.closed(Key::Ring(heard.pid, to), end_ns, log);
            self.books.copied(heard.pid, (from, to));
        }
    }
}

/// What a request comes to of whose completion the kernel does not tell, if that is known.
fn untold(key: Key, flight: &Flight) -> Option<i64> {
    let is_told = flight.asked.is_some() && !flight.silent && matches!(key, Key::Ring(..));
    flight.assumed().filter(|_| !is_told)
}

fn encoded(numbers: &[u64]) -> Vec<u8> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    let mut out = Vec::new();
    append(&mut out, Some(&bytes));
    out
}

/// Whether a call names memory that is kept when it is submitted.
fn names_memory(asked: &Asked) -> bool {
    let names = |kind| matches!(kind, ArgKind::Path(_) | ArgKind::Text | ArgKind::InVector(_) | ArgKind::OutVector(_));
    asked.call.position(names).is_some()
}

/// Whether the vector that names the buffers is as it was when the request was submitted: the kernel has taken a copy, and
/// the program may use its own again.
fn is_same_vector(asked: &Asked, inputs: &arguments::Inputs, kept: &Kept) -> bool {
    if !asked.is_vector() {
        return true;
    }
    let now = Memory::Kept(kept, When::Exit).vector(asked.args[1], asked.args[2]);
    now.is_none_or(|now| now[..] == inputs.buffers[..])
}

/// The open files of a request by the numbers that its call has for them.
fn objects(asked: &Asked, table: Table, outcome: &Outcome) -> Objects {
    let [file, opened] = outcome.objects;
    let named = match asked.call.name {
        "splice" => 2,
        "tee" => 1,
        _ => 0,
    };
    let is_descriptor = asked.call.args.get(named).is_some_and(|arg| matches!(arg.kind, ArgKind::Fd(_)));
    let file = file.filter(|_| is_descriptor).map(|file| Object { fd: asked.args[named] as i32, ..file });
    file.into_iter().chain(opened.filter(|_| table == Table::Untouched)).collect()
}
