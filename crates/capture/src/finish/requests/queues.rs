//! Queues of Linux AIO: their requests are taken from the calls that submit them, and are complete when a call fetched them.
//!
//! Goals: what calls tell. Non-goals: completions that a program takes from a queue's memory by itself, beyond knowing that it does.

use reprise_trace::Loss;

use super::early::Fetched;
use super::{About, Asynchronous, Outcome, UNSEEN, encoded};
use crate::kept::When;
use crate::log::Log;
use crate::memory::Memory;
use crate::requests::{self, Channel, Completion, Flight, Key, Way};
use crate::spool::join;

const EVENT_BYTES: usize = 32;
/// The beginning of a queue's memory (`struct aio_ring`).
const QUEUE_BYTES: usize = 16;

impl Asynchronous {
    pub(super) fn new_queue(&mut self, heard: &join::Heard, at_ns: u64, log: &mut Log) {
        if let Some(address) = Memory::Kept(&heard.kept, When::Exit).word(heard.call.args[1]) {
            let (key, name) = (Key::Queue(heard.pid, address), format!("aio:{}", self.books.channels.len()));
            // One that had the name until now is at its end.
            self.queue_ends(key, at_ns, log);
            let mut channel = Channel::new(name, Way::Told);
            channel.making_ns = heard.call.begin_ns;
            self.books.channels.insert(key, channel);
        }
    }

    /// The kernel frees the name of a queue first, and waits for its requests then (`ioctx_destroy`): it may be another's by now.
    pub(super) fn queue_destroyed(&mut self, heard: &join::Heard, at_ns: u64, log: &mut Log) {
        let key = Key::Queue(heard.pid, heard.call.args[0]);
        let is_newer = |channel: &Channel| channel.making_ns > heard.call.begin_ns;
        if !self.books.channels.get(&key).is_some_and(is_newer) {
            self.queue_ends(key, at_ns, log);
        }
    }

    pub(super) fn submitted_iocbs(&mut self, heard: &join::Heard, end_ns: u64, log: &mut Log) -> About {
        let (args, memory) = (&heard.call.args, Memory::Kept(&heard.kept, When::Exit));
        let key = Key::Queue(heard.pid, args[0]);
        let count = heard.call.result.max(0) as u64;
        let (mut numbers, mut early) = (Vec::new(), Vec::new());
        if count > 0 {
            self.meet_queue(key);
        }
        let begin_ns = end_ns.saturating_sub(heard.end_ns.saturating_sub(heard.call.begin_ns));
        let channel = self.books.channels.get(&key);
        let taken_itself = channel.and_then(|channel| taken_itself(channel, memory, args[0]));
        for i in 0..count {
            let iocb = memory.word(args[2].wrapping_add(8 * i));
            let Some((address, bytes)) = iocb.and_then(|at| Some((at, memory.exact(at, requests::IOCB_BYTES)?))) else {
                log.loss_several(Loss::Dropped, "requests of io_submit whose memory could not be read", count - i);
                break;
            };
            // Most programs ask by a block again when they know what became of the earlier request: where no call told them, they
            // took that from the queue's memory themselves. Where they took nothing from there it is still to come.
            let is_over = |f: &&Flight| f.key == address && (taken_itself.is_none() || f.taken_itself != taken_itself);
            let flights = self.books.channels.get(&key).into_iter().flat_map(|channel| &channel.flights);
            let over: Vec<u64> = flights.filter(is_over).map(|flight| flight.number).collect();
            over.into_iter().for_each(|number| self.assume(key, number, begin_ns, log));
            let data = bytes.first_chunk().map_or(0, requests::iocb_data);
            let asked = bytes.first_chunk().and_then(requests::iocb);
            let inputs = asked.as_ref().map(|asked| asked.inputs(memory, log)).unwrap_or_default();
            let fetched = self.early.get_mut(&key).and_then(|early| early.take(address, data, begin_ns));
            let number = fetched.as_ref().map_or_else(|| self.books.number(), |fetched| fetched.number);
            early.extend(fetched);
            let flight = Flight { number, key: address, data, asked, taken_itself, inputs, ..Flight::default() };
            numbers.extend(flight.asked.is_some().then_some(number));
            self.fly(key, (heard.tid, heard.pid), flight, begin_ns);
        }
        // All were in flight at once: none can have the lane of one of these.
        for Fetched { completion, number, at_ns, kept, .. } in early {
            self.complete_from(key, number, Outcome::of(at_ns, completion.result), &kept, log);
        }
        About { input: Some(encoded(&numbers)), output: Some(Vec::new()) }
    }

    /// A queue that is not known was there before the recording, or else the call that made it is not over.
    fn meet_queue(&mut self, key: Key) {
        let name = format!("aio:{}", self.books.channels.len());
        self.books.channels.entry(key).or_insert_with(|| Channel::new(name, Way::Told));
    }

    pub(super) fn fetched_events(&mut self, heard: &join::Heard, end_ns: u64, log: &mut Log) -> About {
        let (args, memory) = (&heard.call.args, Memory::Kept(&heard.kept, When::Exit));
        let key = Key::Queue(heard.pid, args[0]);
        let (mut numbers, mut early) = (Vec::new(), Vec::new());
        let count = heard.call.result.max(0) as u64;
        if count > 0 {
            self.meet_queue(key);
        }
        let channel = self.books.channels.get_mut(&key);
        channel.into_iter().for_each(|c| c.fetched_by_calls = c.fetched_by_calls.wrapping_add(count));
        for i in 0..count {
            let at = args[3].wrapping_add(EVENT_BYTES as u64 * i);
            let Some(event) = memory.exact(at, EVENT_BYTES) else {
                log.loss(Loss::Dropped, "completions of Linux AIO whose memory could not be read", 0);
                break;
            };
            let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| event[at + i]));
            let (data, block, result) = (word(0), word(8), word(16) as i64);
            let completion = Completion { key: block, data, result, ..Completion::default() };
            let number = self.books.channels.get(&key).and_then(|channel| channel.of(&completion));
            let Some(number) = number else {
                let number = self.books.number();
                early.push((completion, number));
                numbers.push(number);
                continue;
            };
            numbers.push(number);
            let outcome = Outcome::of(end_ns, result);
            self.complete_from(key, number, outcome, &heard.kept, log);
        }
        if !early.is_empty() {
            let lost = self.early.entry(key).or_default().keep(&early, end_ns, &heard.kept);
            log.note_several(UNSEEN, lost);
        }
        About { input: None, output: Some(encoded(&numbers)) }
    }

    /// A queue ends; the kernel completes its requests first.
    pub(super) fn queue_ends(&mut self, key: Key, at_ns: u64, log: &mut Log) {
        let channel = self.books.channels.get(&key);
        let left: Vec<u64> = channel.into_iter().flat_map(|c| c.flights.iter().map(|f| f.number)).collect();
        left.into_iter().for_each(|number| self.assume(key, number, at_ns, log));
        self.books.channels.remove(&key);
        let early = self.early.remove(&key);
        log.note_several(UNSEEN, early.map_or(0, |early| early.left()));
    }
}

/// So many completions a program has taken from the memory of its queue without a call, as far as the queue goes round.
fn taken_itself(channel: &Channel, memory: Memory<'_>, queue: u64) -> Option<u32> {
    let bytes = memory.exact(queue, QUEUE_BYTES)?;
    let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let (size, head) = (half(4), half(8));
    let by_calls = channel.fetched_by_calls.checked_rem(size.into())? as u32;
    (head < size).then(|| ((u64::from(head) + u64::from(size - by_calls)) % u64::from(size)) as u32)
}
