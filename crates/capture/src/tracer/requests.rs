//! Asynchronous requests at the stops of their process: submitted at the entry of the call that submits them, complete
//! when their completion is found in the memory that the kernel shares with the program.
//!
//! Goals: a completion is seen before any call that the program made after it had seen it; every request that moved data
//! has its row. Non-goals: the instant of completion between two stops; what the program did meanwhile to a buffer that
//! had been filled (its content is taken when the completion is seen).

use std::time::{Duration, Instant};

use reprise_calls::{ArgKind, Call, Effect};
use reprise_trace::payload::append;
use reprise_trace::{Action, Loss, ThreadRow};

use super::Tracer;
use super::leave::moved;
use crate::arguments::{self, Outputs, UNREADABLE, failed};
use crate::effects;
use crate::memory::Memory;
use crate::movers::{self, Source};
use crate::procfs;
use crate::requests::{self, Asked, Channel, Choice, Completion, Flight, Key, Queue, Table, Way};

const GET_EVENTS: u64 = 1;
const REGISTERED_RING: u64 = 1 << 4;
/// More than a ring can hold.
const MOST_REQUESTS: u64 = 1 << 16;
/// How long requests in flight may keep a thread from ending what they use.
const PATIENCE: Duration = Duration::from_millis(20);
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// Said of requests of a queue that nobody saw begin. Whether there is one shows the result of the call.
const QUEUE_BEFORE: &str = "requests of a queue that was there before the recording";

/// What the call under way submits.
#[derive(Debug)]
pub(super) struct Submission {
    key: Key,
    /// Of a ring: heads of submissions and completions at the entry.
    heads: (u32, u32),
    /// The requests in order, and whether they have rows.
    numbers: Vec<(u64, bool)>,
}

/// A request as read from the program's memory.
struct Submitted {
    key: u64,
    data: u64,
    asked: Option<Asked>,
    fixed: [Option<(usize, u32)>; 2],
    table: Table,
    choice: Choice,
    after: Option<u64>,
    drains: bool,
    breaks: bool,
    silent: bool,
    malformed: bool,
    other_rights: bool,
}

impl Tracer<'_> {
    fn process_of(&self, tid: i32) -> i32 {
        self.threads.get(&tid).map_or(tid, |t| t.pid)
    }

    /// The ring that a call names.
    pub(super) fn ring_key(&self, tid: i32, fd: u64, registered: bool) -> Key {
        let fd = fd as u32;
        let at_place = self.requests.registered.get(&(tid, fd)).filter(|_| registered);
        at_place.copied().unwrap_or_else(|| self.requests.ring(Key::Ring(self.process_of(tid), fd)))
    }

    /// Before a call enters: what completed until then came before it; what it ends is waited for.
    pub(super) fn before_call(&mut self, tid: i32, call: &Call, args: &[u64; 6]) {
        let pid = self.process_of(tid);
        if self.requests.of_process(pid).is_empty() {
            return;
        }
        self.look(tid, false);
        let ended = match call.effect {
            Effect::Close => Some((args[0] as u32, args[0] as u32)),
            Effect::CloseRange => Some((args[0] as u32, args[1] as u32)),
            Effect::DuplicateTo => Some((args[1] as u32, args[1] as u32)),
            Effect::Exit | Effect::Execute => Some((0, u32::MAX)),
            Effect::Asynchronous if call.name == "io_destroy" => Some((0, u32::MAX)),
            _ => None,
        };
        let Some((first, last)) = ended else { return };
        let begun = Instant::now();
        while self.uses(pid, first, last) {
            if begun.elapsed() >= PATIENCE {
                return self.still_in_use(tid, call, (first, last));
            }
            std::thread::sleep(LOOK_AGAIN);
            self.look(tid, false);
        }
    }

    /// Descriptors end, and requests that name them are in flight still.
    fn still_in_use(&mut self, tid: i32, call: &Call, (first, last): (u32, u32)) {
        if !matches!(call.effect, Effect::Close | Effect::CloseRange | Effect::DuplicateTo) {
            return self.log.note("a descriptor was closed while a request that names it was in flight");
        }
        for key in self.requests.of_process(self.process_of(tid)) {
            let rows = self.requests.hold(key, first, last);
            self.write_table(key, tid, &rows);
        }
    }

    fn uses(&self, pid: i32, first: u32, last: u32) -> bool {
        let keys = self.requests.of_process(pid);
        keys.iter().any(|key| self.requests.channels.get(key).is_some_and(|channel| channel.uses(first, last)))
    }

    /// As a call enters: the requests that it submits are read.
    pub(super) fn submitting(&mut self, tid: i32, call: &Call, args: &[u64; 6], begin_ns: u64) -> Option<Submission> {
        match call.name {
            "io_submit" => self.submitting_iocbs(tid, args, begin_ns),
            "io_uring_enter" => self.submitting_ring(tid, args, begin_ns),
            _ => None,
        }
    }

    fn submitting_iocbs(&mut self, tid: i32, args: &[u64; 6], begin_ns: u64) -> Option<Submission> {
        let key = Key::Queue(self.process_of(tid), args[0]);
        if !self.requests.channels.contains_key(&key) {
            return None;
        }
        let memory = Memory::Live(tid);
        let mut numbers = Vec::new();
        for i in 0..args[1].min(MOST_REQUESTS) {
            let address = memory.word(args[2].wrapping_add(8 * i));
            let block = address.and_then(|at| Some((at, memory.exact(at, requests::IOCB_BYTES)?)));
            let Some((address, bytes)) = block else { break };
            let asked = bytes.first_chunk().and_then(requests::iocb);
            let submitted = Submitted {
                key: address,
                data: bytes.first_chunk().map_or(0, requests::iocb_data),
                asked,
                fixed: [None; 2],
                table: Table::Untouched,
                choice: Choice::Nothing,
                after: None,
                drains: false,
                breaks: false,
                silent: false,
                malformed: false,
                other_rights: false,
            };
            numbers.push(self.fly(key, tid, submitted, begin_ns));
        }
        Some(Submission { key, heads: (0, 0), numbers })
    }

    fn submitting_ring(&mut self, tid: i32, args: &[u64; 6], begin_ns: u64) -> Option<Submission> {
        let key = self.ring_key(tid, args[0], args[3] & REGISTERED_RING != 0);
        let memory = Memory::Live(tid);
        let ring = |channel: &Channel| match &channel.way {
            Way::Ring(ring) => Some((ring.submissions(memory)?, ring.completions(memory)?)),
            Way::Queue(_) | Way::Told => None,
        };
        let Some(((head, tail), (fetched, _))) = self.requests.channels.get(&key).and_then(ring) else {
            for _ in 0..args[1].min(MOST_REQUESTS) {
                self.log.loss(
                    Loss::Dropped,
                    "io_uring requests of a ring that ptrace cannot follow; the eBPF backend can (--backend ebpf)",
                    0,
                );
            }
            return None;
        };
        let count = args[1].min(tail.wrapping_sub(head).into()).min(MOST_REQUESTS) as u32;
        let (mut numbers, mut after) = (Vec::new(), None);
        for i in 0..count {
            let channel = self.requests.channels.get(&key)?;
            let Way::Ring(ring) = &channel.way else { return None };
            let Some(request) = ring.request(memory, head.wrapping_add(i)) else {
                self.log.loss(Loss::Dropped, "io_uring requests whose memory could not be read", 0);
                break;
            };
            // Where there are several completions, they are met.
            let requests::Request {
                mark,
                asked,
                fixed,
                table,
                choice,
                linked,
                breaks,
                drains,
                silent,
                malformed,
                other_rights,
                several: _,
                pipe_in_table,
            } = request;
            if pipe_in_table {
                self.log.loss(Loss::Dropped, requests::PIPE_IN_TABLE, 0);
            }
            let submitted = Submitted {
                key: mark,
                data: 0,
                asked,
                fixed,
                table,
                choice,
                after,
                drains,
                breaks,
                silent,
                malformed,
                other_rights,
            };
            let number = self.fly(key, tid, submitted, begin_ns);
            after = linked.then_some(number.0);
            numbers.push(number);
        }
        Some(Submission { key, heads: (head, fetched), numbers })
    }

    /// Takes a request into the books; its number, and whether it will have a row.
    fn fly(&mut self, key: Key, tid: i32, submitted: Submitted, begin_ns: u64) -> (u64, bool) {
        let Submitted {
            key: mark,
            data,
            asked,
            fixed,
            table,
            choice,
            after,
            drains,
            breaks,
            silent,
            malformed,
            other_rights,
        } = submitted;
        let number = self.requests.number();
        let (mut inputs, mut before, mut source) = Default::default();
        if let Some(asked) = &asked {
            inputs = asked.inputs(Memory::Live(tid), &mut self.log);
            self.look_before_request(tid, asked, &inputs, fixed.iter().any(Option::is_some));
            let args = self.as_called(key, tid, asked, &fixed);
            before = effects::before(&mut self.world, tid, asked.call, &args, &inputs, &mut self.log);
            source = movers::before(tid, asked.call, &args, &inputs.input);
        } else if table == Table::Untouched && choice == Choice::Nothing {
            self.log.note("asynchronous requests that touch no storage (polls, timers, messages …) are not recorded");
        }
        let lane = asked.is_some().then(|| self.lane(key, tid, after)).flatten();
        let recorded = lane.is_some();
        if let Some(channel) = self.requests.channels.get_mut(&key) {
            if let Some(asked) = &asked {
                // The position of what is in a ring's table is not followed.
                if fixed.iter().all(Option::is_none) {
                    channel.will_move(asked, |fd| Some(procfs::fd_info(tid, fd.into())?.position));
                }
            }
            let begin_ns = channel.begins_at_once(drains, after).then_some(begin_ns);
            channel.fly(Flight {
                number,
                key: mark,
                data,
                asked,
                fixed,
                table,
                replaces: requests::given(table, Memory::Live(tid)),
                choice,
                lane,
                begin_ns,
                after,
                drains,
                breaks,
                silent,
                malformed,
                other_rights,
                inputs,
                before,
                source,
                ..Flight::default()
            });
        }
        (number, recorded)
    }

    /// A lane on which nothing is in flight; a new one if there is none.
    pub(super) fn lane(&mut self, key: Key, tid: i32, after: Option<u64>) -> Option<usize> {
        let submitter = self.threads.get(&tid)?;
        let (lane_of, process) = (submitter.thread, *self.processes.get(&submitter.pid)?);
        let channel = self.requests.channels.get_mut(&key)?;
        // What begins now comes after all that was seen to be complete.
        if let Some(lane) = channel.free_lane(tid, after, u64::MAX) {
            return Some(lane);
        }
        let thread = self.next_thread;
        self.next_thread += 1;
        let name = format!("{}:{}", channel.name, channel.lanes());
        let lane = channel.add_lane(tid, thread);
        let begin_ns = self.log.now();
        self.log.thread(ThreadRow {
            thread,
            process,
            tid,
            parent: Some(lane_of),
            created_by: None,
            shares_descriptors: 1,
            shares_directories: 1,
            begin_ns,
            name: name.into_bytes().into(),
            lane_of: Some(lane_of),
        });
        Some(lane)
    }

    /// Takes in the completions that the process of a thread can see. What the kernel has just handed over (`fresh`) the
    /// program has not touched yet.
    pub(super) fn look(&mut self, tid: i32, fresh: bool) {
        let memory = Memory::Live(tid);
        for key in self.requests.of_process(self.process_of(tid)) {
            let Some(channel) = self.requests.channels.get_mut(&key) else { continue };
            let seen = match &mut channel.way {
                Way::Ring(ring) => ring.look(memory),
                Way::Queue(queue) => {
                    let mut seen = queue.look(memory);
                    seen.completions.iter_mut().for_each(|c| c.taken &= !fresh);
                    seen
                }
                Way::Told => continue,
            };
            for _ in 0..seen.lost {
                self.log.loss(Loss::Dropped, "completions that were overwritten before they were seen", 0);
            }
            let counted: Vec<Completion> = seen.completions.into_iter().filter(|c| c.counts).collect();
            for (i, completion) in counted.iter().enumerate() {
                self.complete(key, tid, completion, &counted[i + 1..]);
            }
        }
    }

    /// A request is complete; `later` completions are known as well.
    fn complete(&mut self, key: Key, tid: i32, completion: &Completion, later: &[Completion]) {
        let Some(channel) = self.requests.channels.get_mut(&key) else { return };
        if channel.is_guess(completion) {
            self.log.note("completions that bear the mark of several requests in flight: which is whose is a guess");
        }
        let Some(number) = channel.of(completion) else {
            match completion.result {
                ..0 => self.log.loss(Loss::Dropped, "failures of requests that had been taken as successful", 0),
                0.. => self.log.note("a completion of no request that was seen"),
            }
            return;
        };
        if !completion.last {
            self.log.loss(Loss::Dropped, "completions of a request that has several", 0);
            return;
        }
        let cancelled = channel.cancelled(number, completion.result);
        // One that fails is told of.
        let succeeds = |f: &&Flight| f.silent && f.number < number && !later.iter().any(|c| c.key == f.key);
        let silent: Vec<u64> = channel.flights.iter().filter(succeeds).map(|f| f.number).collect();
        silent.into_iter().for_each(|number| self.assume(key, tid, number));
        let Some(channel) = self.requests.channels.get_mut(&key) else { return };
        if let Some(mut flight) = channel.land(number) {
            channel.resolve(&mut flight);
            if flight.lane.is_some() {
                channel.completed(*completion, number);
            }
            let ended = channel.let_go(&mut flight);
            self.choose(key, tid, &mut flight, completion.buffer);
            self.write_request(key, tid, flight, completion.result, completion.taken);
            self.write_table(key, tid, &ended);
        }
        if cancelled.is_empty() {
            return;
        }
        let channel = self.requests.channels.get_mut(&key);
        let given_up = channel.map_or(0, |channel| channel.give_up(&cancelled));
        self.log.note_several(requests::CANCELLED, given_up);
        self.begin_waiting(key, self.log.now());
    }

    /// Where the kernel chose the buffer, it stands in the call like one that was given.
    fn choose(&mut self, key: Key, tid: i32, flight: &mut Flight, number: Option<u16>) {
        if let (Choice::From(group), Some(number)) = (flight.choice, number)
            && let Some((address, length)) = self.chosen_buffer(key, tid, group, number)
        {
            flight.choose(address, length);
        }
    }

    /// A request whose completion nobody sees is taken as complete.
    fn assume(&mut self, key: Key, tid: i32, number: u64) {
        let flight = self.requests.channels.get_mut(&key).and_then(|channel| channel.land(number));
        let Some(mut flight) = flight else { return };
        let channel = self.requests.channels.get(&key);
        channel.into_iter().for_each(|channel| channel.resolve(&mut flight));
        if flight.asked.is_none() {
            return;
        }
        let ended = channel.map(|channel| channel.let_go(&mut flight)).unwrap_or_default();
        match flight.assumed() {
            Some(result) => {
                self.log.note("a request whose completion the program never saw: taken as successful");
                // The program may have used its memory again since.
                self.write_request(key, tid, flight, result, true);
            }
            None => self.log.loss(Loss::Dropped, "requests whose result the program never asked for", 0),
        }
        self.write_table(key, tid, &ended);
    }

    /// Writes the action of a request that is complete.
    fn write_request(&mut self, key: Key, tid: i32, flight: Flight, result: i64, taken: bool) {
        let end_ns = self.log.now();
        let Some(thread) = self.requests.channels.get(&key).and_then(|c| flight.lane.map(|lane| c.lane_thread(lane)))
        else {
            self.changed_ring(key, tid, &flight, result, taken);
            // What is linked behind it begins with what it has put into the table.
            self.begin_waiting(key, self.log.now());
            return;
        };
        if self.requests.is_refused(key, &flight, result) {
            self.log.note(requests::REFUSED);
            return self.begin_waiting(key, end_ns);
        }
        let in_vain = flight.opened_in_vain(result);
        let result = if in_vain { 0 } else { result };
        let (late, waited) = (flight.is_given_late(), flight.after.is_some() || flight.drains);
        let Flight { number, asked, table, begin_ns, mut inputs, before, source, .. } = flight;
        let Some(asked) = asked else { return };
        if waited {
            self.look_after_request(tid, &asked, result);
        }
        let memory = Memory::Live(tid);
        let position = self.requests.channels.get_mut(&key).and_then(|channel| channel.position(&asked, result));
        if late {
            asked.read_again(&mut inputs, memory, &mut self.log);
        }
        let begin_ns = begin_ns.unwrap_or(end_ns);
        let told = inputs.told();
        let mut out = arguments::outputs(memory, asked.call, &asked.args, result, inputs, &mut self.log);
        if !failed(result) {
            let source = source.filter(|source| self.is_still(tid, &asked, *source));
            moved(tid, asked.call, source, result, &mut out, &mut self.log);
            if source.is_none() && asked.moves_by_table() {
                out.truncated = out.moved;
            }
            // What goes into a ring's table is no descriptor of the process.
            if !matches!(table, Table::Puts(_)) {
                effects::after(&mut self.world, tid, asked.call, result, &before, &mut self.log);
            }
            if taken {
                self.doubt(tid, &asked, position, late, &mut out);
            }
        }
        let (result, after) = match in_vain {
            true => {
                let (result, after) = self.requests.opened_in_vain();
                (result, Some(after))
            }
            false => (self.table_result(key, (tid, thread), table, result), None),
        };
        let why = if taken { "the program had gone on before its completion was seen" } else { out.lacks(UNREADABLE) };
        let action = told.action(asked.call, asked.args, (begin_ns, end_ns), result, out);
        let mut action = Action { thread, request: Some(number), ..action };
        self.log.action_lacking(&mut action, why);
        after.iter().for_each(|row| self.write_table_row(tid, thread, row));
        self.begin_waiting(key, end_ns);
    }

    /// What a request filled may be something else by now: it is believed where the file says the same, and a structure
    /// not at all.
    fn doubt(&mut self, tid: i32, asked: &Asked, position: Option<u64>, late: bool, out: &mut Outputs) {
        let is = |wanted: fn(ArgKind) -> bool| asked.call.position(wanted).is_some();
        if is(|kind| matches!(kind, ArgKind::Out(_))) {
            out.output.clear();
        }
        let fills = is(|kind| matches!(kind, ArgKind::OutData(_) | ArgKind::OutVector(_)));
        if out.moved == 0 || !(fills || late) {
            return;
        }
        let fd = asked.args[0] as u32;
        let (there, kept) = match position {
            Some(position) => movers::after(tid, Source::at(fd, position), out.moved, &mut self.log),
            None => (Vec::new(), 0),
        };
        match (late, kept == out.moved) {
            (_, true) if there == out.data => {}
            // What it wrote stands in the file.
            (true, true) => (out.data, out.truncated) = (there, 0),
            (true, false) => {}
            (false, readable) => {
                if let (true, Some(position)) = (readable, position) {
                    self.world.range(tid, fd, position, out.moved, "opened", &mut self.log);
                }
                out.data.clear();
                out.truncated = out.moved;
            }
        }
    }

    fn begin_waiting(&mut self, key: Key, now_ns: u64) {
        if let Some(channel) = self.requests.channels.get_mut(&key) {
            channel.begin_waiting(now_ns);
        }
    }

    /// As a call is over, before its row: completions until then, and for calls about requests what they were about
    /// (`input` and `output`).
    pub(super) fn after_call(
        &mut self,
        tid: i32,
        call: &Call,
        args: &[u64; 6],
        input: &[u8],
        result: i64,
        submission: Option<Submission>,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let pid = self.process_of(tid);
        if !self.requests.of_process(pid).is_empty() {
            self.look(tid, true);
        }
        if !failed(result) || call.name == "io_uring_register" {
            self.channel_changed(tid, call, args, result);
        }
        let (submitted, fetched) = match call.name {
            "io_submit" | "io_uring_enter" => self.submitted(tid, call, args, submission, result),
            "io_getevents" | "io_pgetevents" => (Vec::new(), self.fetched(tid, args, result)),
            _ => return None,
        };
        let encoded = |numbers: &[u64]| -> Vec<u8> {
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            let mut out = Vec::new();
            append(&mut out, Some(&bytes));
            out
        };
        let submits = call.name == "io_submit" || call.name == "io_uring_enter";
        let input = if submits { encoded(&submitted) } else { input.to_vec() };
        let output = if call.name == "io_submit" { Vec::new() } else { encoded(&fetched) };
        Some((input, output))
    }

    /// The requests that a call has submitted, and those whose completions it could fetch.
    fn submitted(
        &mut self,
        tid: i32,
        call: &Call,
        args: &[u64; 6],
        submission: Option<Submission>,
        result: i64,
    ) -> (Vec<u64>, Vec<u64>) {
        let Some(Submission { key, heads, numbers }) = submission else {
            if call.name == "io_submit" && result > 0 {
                self.log.loss_several(Loss::Dropped, QUEUE_BEFORE, result as u64);
            }
            return Default::default();
        };
        let Some(channel) = self.requests.channels.get_mut(&key) else { return Default::default() };
        let taken = match &channel.way {
            Way::Ring(ring) => {
                let head = ring.submissions(Memory::Live(tid)).map_or(heads.0, |(head, _)| head);
                head.wrapping_sub(heads.0) as usize
            }
            Way::Queue(_) | Way::Told => result.max(0) as usize,
        };
        let taken = taken.min(numbers.len());
        for (number, _) in &numbers[taken..] {
            channel.land(*number);
        }
        let submitted = numbers[..taken].iter().filter(|(_, recorded)| *recorded).map(|(number, _)| *number).collect();
        let waits = matches!(channel.way, Way::Ring(_)) && args[3] & GET_EVENTS != 0;
        let fetched = if waits { channel.fetched_from(heads.1) } else { Vec::new() };
        (submitted, fetched)
    }

    /// The requests of the events that a call returned.
    fn fetched(&mut self, tid: i32, args: &[u64; 6], result: i64) -> Vec<u64> {
        const EVENT: usize = 32;
        let key = Key::Queue(self.process_of(tid), args[0]);
        let Some(channel) = self.requests.channels.get_mut(&key) else { return Vec::new() };
        let count = result.clamp(0, MOST_REQUESTS as i64) as usize;
        let events = Memory::Live(tid).exact(args[3], EVENT * count).unwrap_or_default();
        let objects = events.chunks_exact(EVENT).map(|e| u64::from_le_bytes(std::array::from_fn(|i| e[8 + i])));
        objects.filter_map(|object| channel.fetched(object)).collect()
    }

    /// A process ends, or runs another program: nobody will see what its requests come to.
    pub(super) fn abandon_process(&mut self, pid: i32) {
        for key in self.requests.of_process(pid) {
            // Its descriptors end with it.
            if let Some(channel) = self.requests.channels.get_mut(&key) {
                let held = channel.flights.iter_mut().flat_map(|flight| flight.held.drain(..));
                let ended = channel.files.drain().map(|(_, number)| number).chain(held);
                ended.for_each(|number| _ = self.origins.remove(&number));
            }
            self.abandon(key, pid);
        }
        self.requests.forget_descriptors(pid);
    }

    /// A ring or queue ends. The kernel completes the requests of a queue first.
    pub(super) fn abandon(&mut self, key: Key, tid: i32) {
        let Some(channel) = self.requests.channels.get(&key) else { return };
        let is_queue = matches!(channel.way, Way::Queue(_));
        let left: Vec<(u64, bool)> = channel.flights.iter().map(|f| (f.number, f.silent || is_queue)).collect();
        for (number, assumed) in left {
            if assumed {
                self.assume(key, tid, number);
            } else if let Some(channel) = self.requests.channels.get_mut(&key)
                && let Some(mut flight) = channel.land(number)
                && flight.asked.is_some()
            {
                let ended = channel.let_go(&mut flight);
                self.log.loss(Loss::Dropped, "requests in flight when their ring ended", 0);
                self.write_table(key, tid, &ended);
            }
        }
        self.empty_table(key, tid);
        self.requests.channels.remove(&key);
    }

    /// A queue is there from now on.
    pub(super) fn new_queue(&mut self, tid: i32, cell: u64) {
        if let Some(address) = Memory::Live(tid).word(cell) {
            let key = Key::Queue(self.process_of(tid), address);
            let name = format!("aio:{}", self.requests.channels.len());
            self.requests.channels.insert(key, Channel::new(name, Way::Queue(Queue::new(address))));
        }
    }
}
