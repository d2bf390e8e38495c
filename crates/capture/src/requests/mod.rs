//! Asynchronous requests, of Linux AIO and io_uring: what is in flight, and who performs it in the trace.
//!
//! Each request is recorded as the call it stands for, performed by a *lane*: a thread of the trace, though not of the
//! program. A ring has as many lanes for a thread that submits as requests of it were in flight at once; linked requests
//! follow each other on one. `docs/ARCHITECTURE.md`, "Asynchronous requests".
//!
//! Goals: the interfaces' meaning, apart from how requests and completions are come by. Non-goals: writing actions; the
//! stops of a tracer (`tracer::requests`).

mod asked;
mod iocb;
mod numbers;
mod queue;
mod ring;
mod sqe;
mod table;

use std::collections::{HashMap, VecDeque};

use reprise_calls::Effect;
use reprise_calls::closing::{RING_NUMBERS, ranged};

use crate::arguments::Inputs;
use crate::effects::Before;
use crate::movers::Source;

pub use asked::{Asked, Shape};
pub use iocb::{BYTES as IOCB_BYTES, asked as iocb, data as iocb_data};
pub use numbers::{Ending, copied};
pub use queue::Queue;
pub use ring::{PARAMS, Ring};
#[cfg(ebpf)]
pub use sqe::BYTES as SQE_BYTES;
pub use sqe::{Choice, Request, Table, request as sqe};
pub use table::{Changed, Registration, TableRow, UNREAD_ENTRIES, chosen, given, names_registered, registration};

/// What a request comes to that was cancelled.
pub const ECANCELED: i64 = -125;

const ENXIO: i64 = -6;
const EINVAL: i64 = -22;
const ENFILE: i64 = -23;
const ENOBUFS: i64 = -105;

/// A completion as the program finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// Its place in the order of completions.
    pub place: u32,
    /// What tells the request: the mark that the program gave it, or the address of its `iocb`.
    pub key: u64,
    /// See [`Flight::data`].
    pub data: u64,
    /// Its result.
    pub result: i64,
    /// No further completion of the request follows.
    pub last: bool,
    /// It says something of the request's result.
    pub counts: bool,
    /// Number of the buffer that the kernel chose.
    pub buffer: Option<u16>,
    /// The program has taken it already, and may have used the buffer for something else.
    pub taken: bool,
}

/// What a look found.
#[derive(Debug, Default)]
pub struct Seen {
    /// New completions, in their order.
    pub completions: Vec<Completion>,
    /// Completions that were overwritten before.
    pub lost: u64,
}

/// A request in flight.
#[derive(Debug, Default)]
pub struct Flight {
    /// Its number in the trace.
    pub number: u64,
    /// See [`Completion::key`].
    pub key: u64,
    /// Of Linux AIO, what its completion will carry besides: the kernel has a copy of the `iocb`, so several requests can bear
    /// the address of the same.
    pub data: u64,
    /// The call it stands for; none if it touches no storage.
    pub asked: Option<Asked>,
    /// Arguments of the call that are places in the ring's table; they are looked up when the request begins.
    pub fixed: [Option<(usize, u32)>; 2],
    /// What it does to the ring's table.
    pub table: Table,
    /// The descriptors that it puts into the table in the place of others, or where there is room, as it was submitted.
    pub replaces: Vec<i32>,
    /// What it has to do with buffers that the kernel chooses.
    pub choice: Choice,
    /// Index of its lane.
    pub lane: Option<usize>,
    /// When it began: submitted, and all that it waits for complete.
    pub begin_ns: Option<u64>,
    /// The request it is linked to.
    pub after: Option<u64>,
    /// All before it come first, all after it later.
    pub drains: bool,
    /// See [`Request::breaks`].
    pub breaks: bool,
    /// The request that it is linked to is told of, whatever it comes to.
    pub after_told: bool,
    /// A success has no completion.
    pub silent: bool,
    /// When a success of which nothing is told is taken to have been, once others show that it may be over.
    pub over_ns: Option<u64>,
    /// Of Linux AIO: so many completions the program had taken from the queue's memory itself, if that is known.
    pub taken_itself: Option<u32>,
    /// See [`Request::malformed`].
    pub malformed: bool,
    /// It names rights of which nobody tells whether there are such.
    pub other_rights: bool,
    /// Numbers that stand for descriptors which ended while it was in flight.
    pub held: Vec<u32>,
    pub inputs: Inputs,
    pub before: Before,
    pub source: Option<Source>,
}

/// How well a result fits a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It is more than was asked for.
    Not,
    /// It can be.
    Perhaps,
    /// It is what was asked for.
    Exactly,
}

impl Flight {
    fn fit(&self, result: i64) -> Fit {
        let Some(asked) = &self.asked else { return Fit::Perhaps };
        let moves = !self.inputs.buffers.is_empty() && asked.call.returns == reprise_calls::Returns::Count;
        let room = self.inputs.buffers.iter().fold(0u64, |sum, b| sum.saturating_add(b.1));
        match u64::try_from(result) {
            Ok(moved) if moves && moved > room => Fit::Not,
            Ok(moved) if moves && moved == room => Fit::Exactly,
            _ => Fit::Perhaps,
        }
    }

    /// How it opens a file.
    fn open_flags(&self, asked: &Asked) -> u64 {
        let how = self.inputs.input.get(4..).unwrap_or_default();
        asked.call.effective_open_flags(&asked.args, how)
    }

    /// Whether it opened a file, and made or emptied it, for which the ring's table had no place: that is looked for when all else is done
    /// (`io_openat2`), and the file is closed again.
    pub fn opened_in_vain(&self, result: i64) -> bool {
        const CHANGES: u64 = (libc::O_CREAT | libc::O_TRUNC) as u64;
        // The first is refused where there is a place, the second with O_CREAT.
        const REFUSED: u64 = (libc::O_CLOEXEC | libc::O_DIRECTORY) as u64;
        const NOT_BLOCKING: u64 = libc::O_NONBLOCK as u64;
        let (Table::Puts(place), Some(asked), false) = (self.table, &self.asked, self.malformed) else { return false };
        if asked.call.effect != Effect::Open {
            return false;
        }
        let flags = self.open_flags(asked);
        let lacks_place = match result {
            ENFILE => place.is_none(),
            EINVAL => place.is_some() && !self.other_rights,
            // There is no table; or a pipe that nobody reads.
            ENXIO => flags & NOT_BLOCKING == 0,
            _ => false,
        };
        lacks_place && flags & CHANGES != 0 && flags & REFUSED == 0
    }

    /// Whether the kernel refused it for what no call can ask: then it stands for none.
    fn is_refused(&self, result: i64) -> bool {
        match self.table {
            Table::Puts(_) if self.opened_in_vain(result) => false,
            Table::Puts(_) if matches!(result, ENXIO | EINVAL | ENFILE) => true,
            Table::Drops(_) if result < 0 => true,
            _ if self.asked.as_ref().is_some_and(|asked| self.fails_earlier(asked, result)) => true,
            _ if (self.malformed || self.other_rights) && result == EINVAL => true,
            _ => matches!(self.choice, Choice::From(_)) && result == ENOBUFS,
        }
    }

    /// Whether it failed by what its call does not come to look at, or looks at later.
    fn fails_earlier(&self, asked: &Asked, result: i64) -> bool {
        const ENOENT: i64 = -2;
        const EBADF: i64 = -9;
        match asked.call.name {
            // Its files are looked at, though nothing is to be moved.
            "splice" => result == EBADF && asked.args[4] == 0,
            "tee" => result == EBADF && asked.args[2] == 0,
            // The call refuses its flags before it looks at its path.
            "openat" | "openat2" if result == ENOENT => {
                const REFUSED: u64 = (libc::O_CREAT | libc::O_DIRECTORY) as u64;
                let is_empty = self.inputs.path.as_ref().is_some_and(|path| path.0.is_empty());
                is_empty && self.open_flags(asked) & REFUSED == REFUSED
            }
            _ => false,
        }
    }

    /// What it comes to if it succeeds and nobody is told, if that is known.
    pub fn assumed(&self) -> Option<i64> {
        use reprise_calls::Returns;
        let Some(asked) = &self.asked else {
            return match self.table {
                Table::Replaces { count, .. } | Table::Chooses { count, .. } => Some(count.into()),
                Table::Untouched | Table::Puts(_) | Table::Drops(_) | Table::Sends { .. } => Some(0),
            };
        };
        match asked.call.returns {
            _ if matches!(self.table, Table::Puts(Some(_))) => Some(0),
            Returns::Zero => Some(0),
            Returns::Count if asked.writes() => Some(self.inputs.buffers.iter().fold(0, |sum, b| sum + b.1 as i64)),
            _ => None,
        }
    }

    /// The kernel chose the buffer: it stands in the call like one that was given.
    pub fn choose(&mut self, address: u64, length: u64) {
        let Some(asked) = &mut self.asked else { return };
        // 0 asks for all there is room for.
        let fitted = |wanted: u64| if wanted == 0 { length } else { wanted.min(length) };
        let wanted = match asked.shape {
            Shape::OneBuffer(wanted) => Some(wanted),
            _ if asked.is_vector() => Some(self.inputs.buffers.first().map_or(0, |buffer| buffer.1)),
            _ => None,
        };
        match wanted {
            Some(wanted) => {
                asked.becomes_one_buffer(address, fitted(wanted));
                self.inputs.input = asked.shape_input();
            }
            None => (asked.args[1], asked.args[2]) = (address, fitted(asked.args[2])),
        }
        self.inputs.buffers = [(address, length)].into();
    }

    /// Whether the content that it is given may come from a request that it follows: it is taken when it is complete.
    pub fn is_given_late(&self) -> bool {
        self.after.is_some() && self.asked.as_ref().is_some_and(Asked::writes)
    }

    /// Whether it fills buffers.
    pub fn fills(&self) -> bool {
        !self.inputs.buffers.is_empty() && self.asked.as_ref().is_some_and(|asked| !asked.writes())
    }

    /// Whether its buffers have bytes in common with others.
    pub fn meets(&self, others: &[(u64, u64)]) -> bool {
        let overlap =
            |(a, b): (&(u64, u64), &(u64, u64))| a.0 < b.0.saturating_add(b.1) && b.0 < a.0.saturating_add(a.1);
        self.inputs.buffers.iter().any(|one| others.iter().any(|other| overlap((one, other))))
    }

    fn resolve(&mut self, files: &HashMap<u32, u32>) {
        for fixed in &mut self.fixed {
            let Some((arg, place)) = *fixed else { continue };
            let number = files.get(&place).copied();
            self.asked.iter_mut().for_each(|asked| asked.args[arg] = number.unwrap_or(u32::MAX).into());
            // What is not known now may be met later.
            *fixed = fixed.filter(|_| number.is_none());
        }
    }

    /// The arguments that are one of these descriptors of its process.
    fn named(&self, first: u32, last: u32) -> impl Iterator<Item = usize> {
        use reprise_calls::ArgKind;
        let is_place = |arg: usize| self.fixed.iter().flatten().any(|(fixed, _)| *fixed == arg);
        let descriptors = self.asked.iter().flat_map(|asked| asked.call.args.iter().zip(asked.args).enumerate());
        let named = descriptors.filter(move |(i, (arg, fd))| {
            matches!(arg.kind, ArgKind::Fd(_)) && !is_place(*i) && (first..=last).contains(&(*fd as u32))
        });
        named.map(|(i, _)| i)
    }
}

/// A thread of the trace that performs requests.
#[derive(Debug)]
struct Lane {
    /// Its number in the trace.
    thread: u32,
    submitter: i32,
    /// Requests on it that are not complete.
    users: u32,
    /// Until when those that are complete were on it.
    until_ns: u64,
}

/// Where requests and completions pass.
#[derive(Debug)]
pub enum Way {
    /// io_uring.
    Ring(Ring),
    /// Linux AIO.
    Queue(Queue),
    /// Either, where the kernel tells of each.
    Told,
}

/// A ring or a queue, with what is in flight.
#[derive(Debug)]
pub struct Channel {
    /// How it is called in the names of its lanes.
    pub name: String,
    pub way: Way,
    pub flights: VecDeque<Flight>,
    lanes: Vec<Lane>,
    /// Completions that may not have been fetched, with their requests.
    unfetched: VecDeque<(Completion, u64)>,
    /// The ring's table: numbers by place.
    pub files: HashMap<u32, u32>,
    /// Buffers that the kernel chooses from, by group and number: address and length.
    pub buffers: HashMap<(u16, u16), (u64, u64)>,
    /// Rings of such buffers, by group: address and number of entries.
    pub buffer_rings: HashMap<u16, (u64, u32)>,
    /// Where the next request at a descriptor's own position will be.
    positions: HashMap<u32, u64>,
    /// Of Linux AIO: so many completions calls have fetched.
    pub fetched_by_calls: u64,
    /// When the call began that made it, if that is known: what ends another of its name may be over later.
    pub making_ns: u64,
}

/// Said of requests that stand for no call since the kernel refused them.
pub const REFUSED: &str = "requests of io_uring that the kernel refused for what no call can ask (malformed, no such place in the ring's \
     table, no buffer left to choose): they did nothing";

/// Said of requests that never began, of which the kernel tells nothing.
pub const CANCELLED: &str =
    "requests of io_uring that were cancelled untold, since one failed that they were linked behind: they did nothing";

/// Said of requests for a pipe whose ends have no numbers.
pub const PIPE_IN_TABLE: &str = "pipes that io_uring made in a ring's table (what goes through them is not followed)";

/// Completions beyond this number were fetched long ago.
const UNFETCHED: usize = 1 << 16;

impl Channel {
    /// A new one.
    pub fn new(name: String, way: Way) -> Channel {
        let (flights, unfetched) = Default::default();
        let (files, buffers, buffer_rings, positions) = Default::default();
        let lanes = Vec::new();
        Channel {
            name,
            way,
            flights,
            lanes,
            unfetched,
            files,
            buffers,
            buffer_rings,
            positions,
            fetched_by_calls: 0,
            making_ns: 0,
        }
    }

    /// A lane of this submitter on which nothing is in flight from an instant on, or that of the request that it follows.
    pub fn free_lane(&mut self, submitter: i32, after: Option<u64>, begin_ns: u64) -> Option<usize> {
        let followed = after.and_then(|after| self.flights.iter().find(|f| f.number == after));
        let lane = followed.and_then(|f| f.lane);
        let is_free = |lane: &Lane| lane.users == 0 && lane.submitter == submitter && lane.until_ns <= begin_ns;
        lane.or_else(|| self.lanes.iter().position(is_free))
    }

    /// Adds a lane that performs requests of a thread.
    pub fn add_lane(&mut self, submitter: i32, thread: u32) -> usize {
        self.lanes.push(Lane { thread, submitter, users: 0, until_ns: 0 });
        self.lanes.len() - 1
    }

    /// The number in the trace of a lane.
    pub fn lane_thread(&self, lane: usize) -> u32 {
        self.lanes[lane].thread
    }

    /// A lane had a request until then.
    pub fn was_used(&mut self, lane: usize, until_ns: u64) {
        self.lanes[lane].until_ns = self.lanes[lane].until_ns.max(until_ns);
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Puts in the numbers of descriptors that a request names by their places in the table.
    pub fn resolve(&self, flight: &mut Flight) {
        flight.resolve(&self.files);
    }

    /// A request is about to be submitted; `position` says where a descriptor is. Those in flight will move it.
    pub fn will_move(&mut self, asked: &Asked, position: impl FnOnce(u32) -> Option<u64>) {
        let Some(fd) = asked.moves() else { return };
        if !self.flights.iter().any(|f| f.asked.as_ref().and_then(Asked::moves) == Some(fd)) {
            self.positions.remove(&fd);
            position(fd).into_iter().for_each(|position| _ = self.positions.insert(fd, position));
        }
    }

    /// Where in its file a request that is complete was, if that is known.
    pub fn position(&mut self, asked: &Asked, result: i64) -> Option<u64> {
        let Some(fd) = asked.moves() else {
            return asked.call.offset_arg().map(|i| asked.args[i]);
        };
        let position = self.positions.get_mut(&fd)?;
        let here = *position;
        *position = here.saturating_add(result.max(0) as u64);
        Some(here)
    }

    /// A request is in flight from now on.
    pub fn fly(&mut self, mut flight: Flight) {
        if flight.begin_ns.is_some() && !self.is_being_changed() {
            self.resolve(&mut flight);
        }
        flight.after_told = self.flights.iter().any(|f| Some(f.number) == flight.after && !f.silent);
        flight.lane.into_iter().for_each(|lane| self.lanes[lane].users += 1);
        self.flights.push_back(flight);
    }

    /// Whether a request in flight replaces entries of the table: the kernel does so, as a rule, before it comes to the next one, which
    /// is about the table as it is then.
    fn is_being_changed(&self) -> bool {
        self.flights.iter().any(|f| matches!(f.table, Table::Replaces { .. } | Table::Chooses { .. }))
    }

    /// Takes a request out that is complete, or was not submitted after all.
    pub fn land(&mut self, number: u64) -> Option<Flight> {
        let at = self.flights.iter().position(|f| f.number == number)?;
        let flight = self.flights.remove(at)?;
        flight.lane.into_iter().for_each(|lane| self.lanes[lane].users -= 1);
        Some(flight)
    }

    /// Takes requests out that never began; how many would have had rows.
    pub fn give_up(&mut self, numbers: &[u64]) -> u64 {
        let landed = numbers.iter().filter_map(|number| self.land(*number)?.asked);
        landed.count() as u64
    }

    /// The request that a completion is of: of those with equal marks the one that asked for just so much, else one that it fits,
    /// the oldest first.
    pub fn of(&self, completion: &Completion) -> Option<u64> {
        let best = self.marked(completion).map(|f| f.fit(completion.result)).max()?;
        self.marked(completion).find(|f| f.fit(completion.result) == best).map(|f| f.number)
    }

    /// Whether a completion may as well be of another request than [`Channel::of`] says, one that stands for a call, too.
    pub fn is_guess(&self, completion: &Completion) -> bool {
        let calls = self.marked(completion).filter(|f| f.asked.is_some());
        let (all, exact) = calls
            .fold((0, 0), |(all, exact), f| (all + 1, exact + usize::from(f.fit(completion.result) == Fit::Exactly)));
        all > 1 && exact != 1
    }

    fn marked(&self, completion: &Completion) -> impl Iterator<Item = &Flight> {
        let (key, data) = (completion.key, completion.data);
        self.flights.iter().filter(move |f| f.key == key && f.data == data)
    }

    /// Those linked behind a request, in their order.
    fn behind(&self, number: u64) -> Vec<u64> {
        let mut out = vec![number];
        let linked = self.flights.iter().filter(|f| f.after.is_some());
        linked.for_each(|f| out.extend((f.after.as_ref() == out.last()).then_some(f.number)));
        out.split_off(1)
    }

    /// A request is told of: those that the kernel cancels with it without telling of them. Of a request whose success would not
    /// be told that much is told if it has failed, and then nothing of those linked behind it, whatever they ask for.
    pub fn cancelled(&mut self, number: u64, result: i64) -> Vec<u64> {
        let Some(flight) = self.flights.iter().find(|f| f.number == number && f.silent) else { return Vec::new() };
        let (breaks, with_a_told_one) = (flight.breaks, result == ECANCELED && flight.after_told);
        let behind = self.behind(number);
        if with_a_told_one {
            // Where the one that failed is told of, so are all behind it.
            self.flights.iter_mut().filter(|f| behind.contains(&f.number)).for_each(|f| f.silent = false);
            return Vec::new();
        }
        if breaks { behind } else { Vec::new() }
    }

    /// A request is told of that was not cancelled: those before it, of whose success nothing is told, that had to succeed first.
    pub fn succeeded_before(&self, number: u64) -> Vec<u64> {
        let Some(flight) = self.flights.iter().find(|f| f.number == number) else { return Vec::new() };
        let (drains, mut after, mut out) = (flight.drains, flight.after, Vec::new());
        if !drains && after.is_none() {
            return out;
        }
        for earlier in self.flights.iter().rev().filter(|f| f.number < number) {
            let is_linked = after == Some(earlier.number);
            if is_linked {
                after = earlier.after;
            }
            out.extend((earlier.silent && (is_linked || drains)).then_some(earlier.number));
        }
        out.reverse();
        out
    }

    /// Lets those begin that waited for others, now that these are complete.
    pub fn begin_waiting(&mut self, now_ns: u64) {
        if self.flights.iter().all(|f| f.begin_ns.is_some()) {
            return;
        }
        let numbers: Vec<u64> = self.flights.iter().map(|f| f.number).collect();
        let first_drain = self.flights.iter().find(|f| f.drains).map_or(u64::MAX, |f| f.number);
        let oldest = numbers.first().copied().unwrap_or(u64::MAX);
        for flight in self.flights.iter_mut().filter(|f| f.begin_ns.is_none()) {
            let linked = flight.after.is_some_and(|after| numbers.contains(&after));
            let drained = if flight.drains { flight.number > oldest } else { flight.number > first_drain };
            if !linked && !drained {
                flight.begin_ns = Some(now_ns);
                flight.resolve(&self.files);
            }
        }
    }

    /// Whether a request submitted now begins at once.
    pub fn begins_at_once(&self, drains: bool, after: Option<u64>) -> bool {
        after.is_none() && (!drains || self.flights.is_empty()) && !self.flights.iter().any(|f| f.drains)
    }

    /// Remembers that a completion waits to be fetched.
    pub fn completed(&mut self, completion: Completion, number: u64) {
        self.unfetched.push_back((completion, number));
        if self.unfetched.len() > UNFETCHED {
            self.unfetched.pop_front();
        }
    }

    /// Of a ring: the requests whose completions are there from this place on. Those before were fetched.
    pub fn fetched_from(&mut self, place: u32) -> Vec<u64> {
        while self.unfetched.front().is_some_and(|(c, _)| place.wrapping_sub(c.place) as i32 > 0) {
            self.unfetched.pop_front();
        }
        self.unfetched.iter().map(|(_, number)| *number).collect()
    }

    /// Of a queue: the request of this `iocb` whose completion was fetched.
    pub fn fetched(&mut self, key: u64) -> Option<u64> {
        let at = self.unfetched.iter().position(|(c, _)| c.key == key)?;
        self.unfetched.remove(at).map(|(_, number)| number)
    }

    /// Whether a request in flight names one of these descriptors.
    pub fn uses(&self, first: u32, last: u32) -> bool {
        self.flights.iter().any(|f| f.named(first, last).next().is_some())
    }
}

/// What tells a channel from others: its process, and the ring's descriptor or the queue's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// By descriptor.
    Ring(i32, u32),
    /// By address.
    Queue(i32, u64),
}

impl Key {
    /// Its process.
    pub fn process(self) -> i32 {
        match self {
            Key::Ring(pid, _) | Key::Queue(pid, _) => pid,
        }
    }
}

/// All channels of all processes.
#[derive(Debug, Default)]
pub struct Requests {
    pub channels: HashMap<Key, Channel>,
    /// Rings that threads have registered, by thread and place.
    pub registered: HashMap<(i32, u32), Key>,
    /// Rings by the descriptors that name them besides that by which they are known.
    pub copies: HashMap<Key, Key>,
    /// Rings that have no descriptor.
    nameless: u32,
    requests: u64,
    numbers: u32,
}

impl Requests {
    /// The number of the next request.
    pub fn number(&mut self) -> u64 {
        self.requests += 1;
        self.requests - 1
    }

    /// A number for a descriptor in a ring's table.
    pub fn fixed_number(&mut self) -> u32 {
        self.numbers = (self.numbers + 1) % RING_NUMBERS;
        RING_NUMBERS + self.numbers
    }

    /// Whether the kernel refused a request for what no call can ask; also to close a ring by a ring.
    pub fn is_refused(&self, key: Key, flight: &Flight, result: i64) -> bool {
        const EBADF: i64 = -9;
        let closes = |asked: &Asked| (asked.call.name == "close").then_some(asked.args[0] as u32);
        let closed = flight.asked.as_ref().and_then(closes).filter(|_| result == EBADF);
        let is_ring = |fd| self.channels.contains_key(&self.ring(Key::Ring(key.process(), fd)));
        flight.is_refused(result) || closed.is_some_and(is_ring)
    }

    /// The descriptors of rings of a process that a `close_range` with these arguments ends. One that only marks them ends none; of a
    /// table that it leaves to others, these go on using them.
    pub fn in_range(&self, pid: i32, args: &[u64; 6]) -> Vec<Key> {
        let range = ranged(args);
        let is_in = |key: &Key| args[2] as u32 == 0 && matches!(key, Key::Ring(_, fd) if range.contains(fd));
        let copies = self.copies.keys().copied().filter(|named| named.process() == pid);
        let mut out: Vec<Key> = self.of_process(pid).into_iter().chain(copies).filter(is_in).collect();
        out.sort_unstable();
        out
    }

    /// The channels of a process, in a fixed order.
    pub fn of_process(&self, pid: i32) -> Vec<Key> {
        if self.channels.is_empty() {
            return Vec::new();
        }
        let mut keys: Vec<Key> = self.channels.keys().copied().filter(|key| key.process() == pid).collect();
        keys.sort_unstable();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EBADF: i64 = -9;

    /// Requests linked to each other, numbered from 0: whether their successes are not told.
    fn chain(silent: &[bool]) -> Channel {
        let mut channel = Channel::new("ring".into(), Way::Told);
        for (number, silent) in (0..).zip(silent.iter().copied()) {
            let after = (number > 0).then(|| number - 1);
            channel.fly(Flight { number, after, silent, breaks: true, ..Flight::default() });
        }
        channel
    }

    #[test]
    fn a_file_that_no_place_was_for_was_made() {
        let opens = |flags: i32, table| {
            let asked = Asked::call("openat", &[u64::MAX, 0x1000, flags as u64, 0o600]);
            Flight { asked, table, ..Flight::default() }
        };
        let (here, anywhere) = (Table::Puts(Some(7)), Table::Puts(None));
        for (flags, table, result, in_vain) in [
            (libc::O_CREAT, anywhere, ENFILE, true),
            (libc::O_CREAT, here, EINVAL, true),
            (libc::O_TRUNC, here, ENXIO, true),
            (libc::O_RDWR, here, EINVAL, false),
            (libc::O_CREAT, anywhere, EINVAL, false),
            (libc::O_CREAT | libc::O_CLOEXEC, here, EINVAL, false),
            (libc::O_CREAT, here, -2, false),
            (libc::O_CREAT, Table::Untouched, EINVAL, false),
        ] {
            let flight = opens(flags, table);
            assert_eq!(flight.opened_in_vain(result), in_vain, "{flags:o}, {table:?}, {result}");
            assert!(!in_vain || !flight.is_refused(result));
        }
        assert!(opens(libc::O_RDWR, here).is_refused(EINVAL));
    }

    #[test]
    fn what_fails_untold_cancels_all_behind_it_untold() {
        let mut channel = chain(&[true, true, false, true]);
        assert_eq!(channel.cancelled(1, EBADF), [2, 3]);
        channel.flights[1].breaks = false;
        assert!(channel.cancelled(1, EBADF).is_empty(), "a hard link");
        assert!(channel.cancelled(2, EBADF).is_empty(), "its success would have been told");
    }

    #[test]
    fn what_is_cancelled_with_one_that_is_told_is_told() {
        let mut channel = chain(&[false, true, true]);
        assert!(channel.cancelled(0, EBADF).is_empty());
        assert!(channel.cancelled(1, ECANCELED).is_empty());
        assert!(channel.cancelled(2, ECANCELED).is_empty());
    }

    #[test]
    fn what_is_told_proves_what_it_waited_for() {
        let mut channel = chain(&[true, true, false]);
        let alone = Flight { number: 3, silent: true, ..Flight::default() };
        channel.fly(alone);
        channel.fly(Flight { number: 4, ..Flight::default() });
        assert_eq!(channel.succeeded_before(2), [0, 1]);
        assert!(channel.succeeded_before(4).is_empty());
        channel.flights[4].drains = true;
        assert_eq!(channel.succeeded_before(4), [0, 1, 3]);
    }

    #[test]
    fn equal_marks_are_told_apart_by_what_was_asked_for() {
        let mut channel = chain(&[]);
        for (number, length) in [(0, 5000), (1, 100), (2, 5000)] {
            let asked = Asked::buffer(false, 3, (0x1000, length), 0, 0);
            let inputs = Inputs { buffers: [(0x1000, length)].into(), ..Inputs::default() };
            channel.fly(Flight { number, asked, inputs, ..Flight::default() });
        }
        let of = |channel: &Channel, result| {
            let completion = Completion { result, last: true, counts: true, ..Completion::default() };
            (channel.of(&completion), channel.is_guess(&completion))
        };
        assert_eq!(of(&channel, 100), (Some(1), false));
        assert_eq!(of(&channel, 5000), (Some(0), true), "which of the two is not known");
        assert_eq!(of(&channel, 4000), (Some(0), true));
        channel.land(0);
        assert_eq!(of(&channel, 5000), (Some(2), false));
        assert_eq!(of(&channel, -5), (Some(1), true));
        channel.land(2);
        assert_eq!(of(&channel, 50), (Some(1), false));
    }
}
