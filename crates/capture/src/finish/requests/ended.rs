//! Ends of rings and queues, by their processes or with the recording: what becomes of requests in flight.
//!
//! Goals: what could still be complete is, and what is not known is counted. Non-goals: descriptors of rings that are closed, since
//! the kernel completes their requests all the same.

use reprise_trace::Loss;

use super::{Asynchronous, Habits, untold};
use crate::log::Log;
use crate::requests::{Flight, Key};

impl Asynchronous {
    /// A process has ended, or runs another program: its rings and queues have ended, what is registered with them with its descriptors.
    pub fn process_ended(&mut self, pid: i32, at_ns: u64, log: &mut Log) {
        for key in self.books.of_process(pid) {
            self.habits.get_mut(&key).into_iter().for_each(|habits| habits.abandoned = true);
            self.books.channels.get_mut(&key).into_iter().for_each(|channel| channel.files.clear());
            self.ends(key, at_ns, log);
        }
        self.books.forget_descriptors(pid);
    }

    fn ends(&mut self, key: Key, at_ns: u64, log: &mut Log) {
        match key {
            Key::Queue(..) => self.queue_ends(key, at_ns, log),
            Key::Ring(..) => self.ring_ends(key, at_ns, log),
        }
    }

    /// Of a ring that is gone: what could be complete is, and nobody is told.
    fn ring_ends(&mut self, key: Key, at_ns: u64, log: &mut Log) {
        let channel = self.books.channels.get(&key);
        let silent = channel.into_iter().flat_map(|c| c.flights.iter().filter(|f| f.silent).map(|f| f.number));
        silent.collect::<Vec<_>>().into_iter().for_each(|number| self.assume(key, number, at_ns, log));
    }

    /// Another ring has its name, or the recording is over.
    pub(super) fn forget(&mut self, key: Key, log: &mut Log) {
        let Some(channel) = self.books.channels.remove(&key) else { return };
        let left = channel.flights.iter().filter(|f| f.asked.is_some()).count();
        log.loss_several(Loss::Dropped, "requests in flight when their ring ended", left as u64);
        self.under_way.retain(|_, (of, _)| *of != key);
        self.rings.retain(|_, of| *of != key);
        self.habits.remove(&key);
    }

    /// The recording is over, and the program goes on: what its requests come to happens after that, as with calls under way.
    fn leave(&mut self, key: Key, log: &mut Log) {
        if self.habits.get(&key).is_some_and(|habits| habits.abandoned) {
            return;
        }
        let Some(channel) = self.books.channels.get_mut(&key) else { return };
        let goes_on = |f: &&Flight| f.asked.is_some() && !f.silent && untold(key, f).is_none();
        let left: Vec<u64> = channel.flights.iter().filter(goes_on).map(|f| f.number).collect();
        log.note_several("requests in flight when the recording ended", left.len() as u64);
        left.into_iter().for_each(|number| drop(channel.land(number)));
    }

    /// Nothing more comes.
    pub fn finish(&mut self, at_ns: u64, log: &mut Log) {
        self.never_settled(log);
        let mut keys: Vec<Key> = self.books.channels.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            self.leave(key, log);
            self.ends(key, at_ns, log);
            self.forget(key, log);
        }
    }

    /// Whether a request came to nothing since its process had ended, which nobody was told of: the kernel ends what is in flight when
    /// the descriptors of a process are closed.
    pub(super) fn is_ended_with_its_process(&self, key: Key, result: i64) -> bool {
        let of_the_dead = |habits: &Habits| habits.abandoned && habits.user.1 == key.process();
        result < 0 && self.habits.get(&key).is_some_and(of_the_dead)
    }
}
