//! Which calls may be in the kernel at the same time, so that the order of their effects is known.
//!
//! Goals: calls that change state run alone, calls that look run together, first come first served; a descriptor number
//! does not end while a call that names it is still on its way to it; a call that waits for another thread does not hold
//! that one up. Non-goals: knowing calls; knowing threads (whoever asks says what a thread does, see [`Doing`]).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use reprise_calls::Admission;

/// How long a call that sleeps may keep others waiting.
pub const PATIENCE: Duration = Duration::from_millis(20);
/// How long any call may: one that runs, or waits for a device, comes to its end by itself, as a rule.
pub const LONGEST: Duration = Duration::from_secs(1);

/// What a thread in the kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It runs.
    Running,
    /// It is stopped after its call, which has not been reported yet.
    Stopped,
    /// It sleeps, perhaps for something that another thread does.
    Sleeping,
    /// It waits for a device or the like, or is gone.
    Other,
}

impl Doing {
    /// Whether it may still be on its way to what its call names.
    fn is_moving(self) -> bool {
        matches!(self, Doing::Running | Doing::Stopped)
    }
}

/// Descriptor numbers of a process, from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// The process, as the kernel numbers it.
    pub process: i32,
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

impl Numbers {
    fn meet(self, other: Numbers) -> bool {
        self.process == other.process && self.first <= other.last && other.first <= self.last
    }
}

/// What the gate needs to know of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Beside whom it may run.
    pub admission: Admission,
    /// It may wait for another thread: once it sleeps it is in nobody's way.
    pub yields: bool,
    /// Descriptors that it names; of importance where it is free.
    pub uses: [Option<Numbers>; 2],
    /// Descriptors that it ends or replaces.
    pub ends: Option<Numbers>,
}

impl Ticket {
    /// A call that names no descriptor.
    pub fn plain(admission: Admission) -> Ticket {
        Ticket { admission, yields: false, uses: [None; 2], ends: None }
    }

    /// Whether a descriptor that the other uses is ended by this one.
    fn ends_what(&self, other: &Ticket) -> bool {
        self.ends.is_some_and(|ends| other.uses.iter().flatten().any(|used| used.meet(ends)))
    }

    fn names_descriptors(&self) -> bool {
        self.uses != [None; 2]
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    tid: i32,
    ticket: Ticket,
    since: Instant,
}

/// The gate before the kernel.
#[derive(Debug, Default)]
pub struct Gate {
    inside: Vec<Entry>,
    /// Free calls in the kernel that name descriptors.
    free: Vec<Entry>,
    queue: VecDeque<Entry>,
    endings: u64,
}

impl Gate {
    /// A thread arrives with a call: true if it may go in at once, else it is in the queue.
    pub fn arrive(&mut self, tid: i32, ticket: Ticket, doing: impl Fn(i32) -> Doing) -> bool {
        let entry = Entry { tid, ticket, since: Instant::now() };
        let free = ticket.admission == Admission::Free;
        if (free || self.queue.is_empty()) && self.fits(&ticket, doing) {
            self.let_in(entry);
            return true;
        }
        self.queue.push_back(entry);
        false
    }

    /// A thread that has just been let in turns out to have another ticket: true if it may stay, else it is the first in
    /// the queue.
    pub fn exchange(&mut self, tid: i32, ticket: Ticket, doing: impl Fn(i32) -> Doing) -> bool {
        self.leave(tid);
        let entry = Entry { tid, ticket, since: Instant::now() };
        if self.fits(&ticket, doing) {
            self.let_in(entry);
            return true;
        }
        self.queue.push_front(entry);
        false
    }

    fn fits(&self, ticket: &Ticket, doing: impl Fn(i32) -> Doing) -> bool {
        match ticket.admission {
            Admission::Free => !self.inside.iter().any(|i| i.ticket.ends_what(ticket)),
            Admission::Shared => self.inside.iter().all(|i| i.ticket.admission == Admission::Shared),
            Admission::Exclusive => {
                let used = |f: &Entry| ticket.ends_what(&f.ticket) && doing(f.tid).is_moving();
                self.inside.is_empty() && !self.free.iter().any(used)
            }
        }
    }

    fn let_in(&mut self, entry: Entry) {
        self.endings += u64::from(entry.ticket.ends.is_some());
        let entry = Entry { since: Instant::now(), ..entry };
        match entry.ticket.admission {
            Admission::Free if entry.ticket.names_descriptors() => self.free.push(entry),
            Admission::Free => {}
            Admission::Shared | Admission::Exclusive => self.inside.push(entry),
        }
    }

    /// Calls so far that ended descriptors: what a number names may have changed since it was another.
    pub fn endings(&self) -> u64 {
        self.endings
    }

    /// A call that is in turns out to be one that may wait for another thread.
    pub fn yields(&mut self, tid: i32) {
        self.inside.iter_mut().filter(|i| i.tid == tid).for_each(|i| i.ticket.yields = true);
    }

    /// A thread's call is over, or turned out to be free, or the thread is gone.
    pub fn leave(&mut self, tid: i32) {
        self.inside.retain(|i| i.tid != tid);
        self.free.retain(|i| i.tid != tid);
    }

    /// A thread is gone altogether.
    pub fn forget(&mut self, tid: i32) {
        self.leave(tid);
        self.queue.retain(|i| i.tid != tid);
    }

    /// The next thread from the queue that may go in now.
    pub fn next(&mut self, doing: impl Fn(i32) -> Doing) -> Option<i32> {
        let entry = *self.queue.front()?;
        if !self.fits(&entry.ticket, doing) {
            return None;
        }
        self.queue.pop_front();
        self.let_in(entry);
        Some(entry.tid)
    }

    /// Whether somebody waits for a call that may fall asleep at any moment, of which nobody is told.
    pub fn is_watching(&self) -> bool {
        let first = self.queue.front();
        first.is_some_and(|f| f.ticket.ends.is_some() && !self.free.is_empty())
            || first.is_some() && self.inside.iter().any(|i| i.ticket.yields)
    }

    /// Counts calls out that sleep, and have kept others waiting for too long; returns how many did so unexpectedly.
    ///
    /// A call that has done its work and is about to say so is never counted out, however long the recorder was kept from
    /// hearing it: the order of what it did and of what comes after it would be lost.
    pub fn expire(&mut self, doing: impl Fn(i32) -> Doing) -> usize {
        let Some(first) = self.queue.front() else {
            return 0;
        };
        let now = Instant::now();
        let waited = now.duration_since(first.since);
        let mut unexpected = 0;
        self.inside.retain(|i| {
            let passed = now.duration_since(i.since).min(waited);
            if !i.ticket.yields && passed < PATIENCE {
                return true;
            }
            let out = match doing(i.tid) {
                Doing::Stopped => false,
                Doing::Sleeping => true,
                Doing::Running | Doing::Other => passed >= LONGEST,
            };
            unexpected += usize::from(out && !i.ticket.yields);
            !out
        });
        unexpected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Admission::*;
    use Doing::*;

    fn plain(admission: Admission) -> Ticket {
        Ticket::plain(admission)
    }

    fn number(process: i32, fd: u32) -> Option<Numbers> {
        Some(Numbers { process, first: fd, last: fd })
    }

    #[test]
    fn looking_together_changing_alone_in_order_of_arrival() {
        let running = |_| Running;
        let mut gate = Gate::default();
        assert!(gate.arrive(1, plain(Shared), running));
        assert!(gate.arrive(2, plain(Shared), running));
        assert!(!gate.arrive(3, plain(Exclusive), running));
        assert!(!gate.arrive(4, plain(Shared), running), "no overtaking");
        assert!(gate.arrive(5, plain(Free), running));
        assert_eq!(gate.next(running), None);
        gate.leave(1);
        gate.leave(2);
        assert_eq!(gate.next(running), Some(3));
        assert_eq!(gate.next(running), None);
        gate.leave(3);
        assert_eq!(gate.next(running), Some(4));
    }

    #[test]
    fn only_a_call_that_sleeps_is_counted_out() {
        let mut gate = Gate::default();
        assert!(gate.arrive(1, plain(Exclusive), |_| Running));
        assert!(!gate.arrive(2, plain(Exclusive), |_| Running));
        assert_eq!(gate.expire(|_| Sleeping), 0, "it has only just begun");
        std::thread::sleep(PATIENCE + Duration::from_millis(5));
        assert_eq!(gate.expire(|_| Stopped), 0, "it is over: nothing may come between");
        assert_eq!(gate.expire(|_| Running), 0, "it will be over soon");
        assert_eq!(gate.expire(|_| Other), 0, "it waits for a disk");
        assert_eq!(gate.expire(|_| Sleeping), 1);
        assert_eq!(gate.next(|_| Sleeping), Some(2));
    }

    #[test]
    fn a_call_that_is_over_is_never_counted_out() {
        let mut gate = Gate::default();
        assert!(gate.arrive(1, plain(Exclusive), |_| Running));
        assert!(!gate.arrive(2, plain(Exclusive), |_| Running));
        let ago = Instant::now().checked_sub(2 * LONGEST).unwrap();
        gate.inside[0].since = ago;
        gate.queue[0].since = ago;
        assert_eq!(gate.expire(|_| Stopped), 0);
        assert_eq!(gate.expire(|_| Other), 1);
    }

    #[test]
    fn a_call_that_may_wait_is_out_as_soon_as_it_sleeps() {
        let mut gate = Gate::default();
        assert!(gate.arrive(1, Ticket { yields: true, ..plain(Exclusive) }, |_| Running));
        assert!(!gate.is_watching());
        assert!(!gate.arrive(2, plain(Exclusive), |_| Running));
        assert!(gate.is_watching());
        assert_eq!(gate.expire(|_| Running), 0);
        assert_eq!(gate.next(|_| Running), None);
        assert_eq!(gate.expire(|_| Sleeping), 0, "as expected");
        assert_eq!(gate.next(|_| Sleeping), Some(2));
    }

    #[test]
    fn that_a_call_may_wait_can_turn_out_when_it_is_in() {
        let mut gate = Gate::default();
        assert!(gate.arrive(1, plain(Exclusive), |_| Running));
        gate.yields(1);
        assert!(!gate.arrive(2, plain(Exclusive), |_| Running));
        assert!(gate.is_watching());
        assert_eq!(gate.expire(|_| Running), 0);
        assert_eq!(gate.next(|_| Running), None, "it is on its way still");
        assert_eq!(gate.expire(|_| Sleeping), 0, "as expected");
        assert_eq!(gate.next(|_| Sleeping), Some(2));
    }

    #[test]
    fn a_number_does_not_end_under_a_call_on_its_way() {
        let write = Ticket { uses: [number(7, 6), None], ..plain(Free) };
        let close = Ticket { ends: number(7, 6), ..plain(Exclusive) };
        let mut gate = Gate::default();
        assert!(gate.arrive(1, write, |_| Running));
        assert!(gate.arrive(2, Ticket { ends: number(8, 6), ..plain(Exclusive) }, |_| Running), "another process");
        gate.leave(2);
        assert!(!gate.arrive(3, close, |_| Running));
        assert!(gate.is_watching());
        assert_eq!(gate.next(|_| Stopped), None);
        // It sleeps: it has got hold of what the number named.
        assert_eq!(gate.next(|_| Sleeping), Some(3));
        // Nor does a call set out while its number is ended, even if it is free.
        assert!(!gate.arrive(4, write, |_| Running));
        assert_eq!(gate.next(|_| Running), None);
        gate.leave(3);
        assert_eq!(gate.next(|_| Running), Some(4));
    }

    #[test]
    fn a_ticket_is_exchanged_for_what_a_number_names_by_now() {
        let running = |_| Running;
        let mut gate = Gate::default();
        let before = gate.endings();
        assert!(gate.arrive(1, Ticket { ends: number(7, 6), ..plain(Exclusive) }, running));
        assert_ne!(gate.endings(), before);
        assert!(!gate.arrive(2, Ticket { uses: [number(7, 6), None], ..plain(Free) }, running));
        assert!(!gate.arrive(3, plain(Exclusive), running));
        gate.leave(1);
        assert_eq!(gate.next(running), Some(2));
        assert!(gate.exchange(2, plain(Exclusive), running));
        assert_eq!(gate.next(running), None);
    }

    #[test]
    fn a_thread_that_is_gone_waits_no_more() {
        let running = |_| Running;
        let mut gate = Gate::default();
        assert!(gate.arrive(1, plain(Exclusive), running));
        assert!(!gate.arrive(2, plain(Exclusive), running));
        gate.forget(2);
        gate.forget(1);
        assert_eq!(gate.next(running), None);
        assert!(gate.arrive(3, plain(Exclusive), running));
    }
}
