//! Which calls may be in the kernel at the same time, so that the order of their effects is known.
//!
//! Goals: calls that change state run alone, calls that look run together, first come first served; a call that
//! blocks unexpectedly holds others up for a bounded time. Non-goals: knowing calls.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use reprise_calls::Admission;

/// How long a call may keep others waiting.
pub const PATIENCE: Duration = Duration::from_millis(20);

/// The gate before the kernel.
#[derive(Debug, Default)]
pub struct Gate {
    inside: Vec<(i32, Admission, Instant)>,
    queue: VecDeque<(i32, Admission, Instant)>,
}

impl Gate {
    /// A thread arrives with a call: true if it may go in at once, else it is in the queue.
    pub fn arrive(&mut self, tid: i32, admission: Admission) -> bool {
        if admission == Admission::Free {
            return true;
        }
        let now = Instant::now();
        if self.queue.is_empty() && self.fits(admission) {
            self.inside.push((tid, admission, now));
            return true;
        }
        self.queue.push_back((tid, admission, now));
        false
    }

    fn fits(&self, admission: Admission) -> bool {
        match admission {
            Admission::Free => true,
            Admission::Shared => self.inside.iter().all(|i| i.1 == Admission::Shared),
            Admission::Exclusive => self.inside.is_empty(),
        }
    }

    /// A thread's call is over, or turned out to be free, or the thread is gone.
    pub fn leave(&mut self, tid: i32) {
        self.inside.retain(|i| i.0 != tid);
    }

    /// A thread is gone altogether.
    pub fn forget(&mut self, tid: i32) {
        self.leave(tid);
        self.queue.retain(|i| i.0 != tid);
    }

    /// The next thread from the queue that may go in now.
    pub fn next(&mut self) -> Option<i32> {
        let (tid, admission, _) = *self.queue.front()?;
        if !self.fits(admission) {
            return None;
        }
        self.queue.pop_front();
        self.inside.push((tid, admission, Instant::now()));
        Some(tid)
    }

    /// Counts calls out that have kept others waiting for too long; returns how many.
    pub fn expire(&mut self) -> usize {
        let Some((_, _, since)) = self.queue.front() else {
            return 0;
        };
        let now = Instant::now();
        if now.duration_since(*since) < PATIENCE {
            return 0;
        }
        let before = self.inside.len();
        self.inside.retain(|i| now.duration_since(i.2) < PATIENCE);
        before - self.inside.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Admission::*;

    #[test]
    fn looking_together_changing_alone_in_order_of_arrival() {
        let mut gate = Gate::default();
        assert!(gate.arrive(1, Shared));
        assert!(gate.arrive(2, Shared));
        assert!(!gate.arrive(3, Exclusive));
        assert!(!gate.arrive(4, Shared), "no overtaking");
        assert!(gate.arrive(5, Free));
        assert_eq!(gate.next(), None);
        gate.leave(1);
        gate.leave(2);
        assert_eq!(gate.next(), Some(3));
        assert_eq!(gate.next(), None);
        gate.leave(3);
        assert_eq!(gate.next(), Some(4));
    }

    #[test]
    fn a_call_that_blocks_is_counted_out() {
        let mut gate = Gate::default();
        assert!(gate.arrive(1, Exclusive));
        assert!(!gate.arrive(2, Exclusive));
        assert_eq!(gate.expire(), 0);
        std::thread::sleep(PATIENCE + Duration::from_millis(5));
        assert_eq!(gate.expire(), 1);
        assert_eq!(gate.next(), Some(2));
    }

    #[test]
    fn a_thread_that_is_gone_waits_no_more() {
        let mut gate = Gate::default();
        assert!(gate.arrive(1, Exclusive));
        assert!(!gate.arrive(2, Exclusive));
        gate.forget(2);
        gate.forget(1);
        assert_eq!(gate.next(), None);
        assert!(gate.arrive(3, Exclusive));
    }
}
