//! Calls that wait for a lock.
//!
//! In the trace the lock was obtained, and all that had to come before has been performed: it is free, or about to be.
//! So it is tried without waiting, again and again, and a replay can never hang on it.

use std::time::{Duration, Instant};

use reprise_plan::command::Command;

use super::failure::Stop;
use super::thread::{Done, Worker};
use crate::log::{Class, Code, Difference};

const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

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
        let result = loop {
            let result = self.call_kernel(command.number, &prepared.checked);
            let again = taken(result) && command.result >= 0 && begin.elapsed() < self.engine.settings.lock_patience;
            if !again {
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
