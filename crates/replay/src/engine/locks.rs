//! Calls that wait for a lock.
//!
//! In the trace the lock was obtained, and all that had to come before has been performed: it is free, or about to be.
//! So it is tried without waiting, again and again, and a replay can never hang on it. Where locks have not become free, those
//! that are waited for later are given less time: what went wrong once makes many of them wait for nothing.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use reprise_plan::command::Command;

use super::failure::Stop;
use super::thread::{Done, Worker};
use crate::log::{Class, Code, Difference};

const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// How long a lock is waited for when so many have not become free: half as long with each, down to some milliseconds.
fn patience(whole: Duration, in_vain: u32) -> Duration {
    const LEAST_SHARE: u32 = 9;
    whole / (1 << in_vain.min(LEAST_SHARE))
}

fn taken(result: i64) -> bool {
    result == -i64::from(libc::EAGAIN) || result == -i64::from(libc::EACCES)
}

impl Worker {
    pub(super) fn wait_for_lock(&mut self, command: &Command) -> Result<Done, Stop> {
        let Some(prepared) = self.prepared(command)? else {
            return Ok(Self::refused(command));
        };
        let begin = Instant::now();
        let mut pause = FIRST_PAUSE;
        let in_vain = &self.engine.locks_in_vain;
        let patience = patience(self.engine.settings.lock_patience, in_vain.load(Ordering::Relaxed));
        let result = loop {
            let result = self.call_kernel(command.number, &prepared.checked);
            let must_become_free = taken(result) && command.result >= 0;
            if !must_become_free {
                break result;
            }
            if begin.elapsed() >= patience {
                in_vain.fetch_add(1, Ordering::Relaxed);
                break result;
            }
            if self.engine.counters.stopping() {
                return Err(Stop::Told);
            }
            match &self.engine.turns {
                Some(turns) if turns.await_lock(self.engine, self.me)? => {}
                Some(_) => break result,
                None => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        // A wait that a signal or a deadlock ended in the trace: without waiting the lock is merely not there.
        let ended = [libc::EINTR, libc::EDEADLK].map(|e| -i64::from(e)).contains(&command.result);
        let result = if taken(result) && ended { command.result } else { result };
        let mut done = self.judged(command, result, Default::default())?;
        if taken(result) && done.difference.class == Class::Diverged {
            done.difference = Difference { code: Code::Lock, ..done.difference };
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_waited_for_in_vain_shortens_the_next_wait() {
        let whole = Duration::from_secs(5);
        assert_eq!(patience(whole, 0), whole);
        assert_eq!(patience(whole, 1), whole / 2);
        let all: Duration = (0..1000).map(|in_vain| patience(whole, in_vain)).sum();
        assert!(all < 4 * whole && patience(whole, u32::MAX) > Duration::from_millis(5), "{all:?}");
    }
}
