//! Calls with plain arguments ([`Plain`]), issued as they stand in the plan: most of what programs do to names and attributes.
//!
//! Goals: as little as possible beside the call, as for transfers ([`super::transfer`]). Whatever is unusual (it went differently, its
//! arguments are not what they should be) takes the way of all commands. Non-goals: calls that fill memory.

use std::sync::atomic::Ordering;

use reprise_plan::command::{Command, CommandReader, Op, Plain, Wait};

use super::arguments::Range;
use super::batch::Gathering;
use super::failure::Stop;
use super::issue;
use super::thread::{UNREADABLE, Worker};
use crate::log::{Short, Times};

impl Worker {
    /// The plain command at the begin of `words`, if it may be performed as such.
    #[inline(always)]
    pub(super) fn plain_at<'w>(&self, words: &'w [u64]) -> Option<Plain<'w>> {
        let settings = &self.engine.settings;
        let is_told_of_others = matches!(self.gathering, Gathering::On(_)) || self.engine.turns.is_some();
        let plain = if is_told_of_others { None } else { Plain::read(words) }?;
        let depends_on_owners = !settings.identities && Self::is_for_want_of_permission(plain.result);
        let is_changed = plain.op == Op::IssueFd && settings.no_access_times;
        (!depends_on_owners && !is_changed).then_some(plain)
    }

    /// Performs it, the thread's `count`-th command. `spare` is for the way of all commands.
    ///
    /// Always part of the loop, as [`Worker::transfer`] is.
    #[inline(always)]
    pub(super) fn perform_plain(
        &mut self,
        plain: &Plain<'_>,
        words: &[u64],
        count: u64,
        spare: &mut Command,
    ) -> Result<(), Stop> {
        let engine = self.engine;
        let blocked = self.dependencies(plain.waits.iter().map(|word| Wait::from_word(*word)))?;
        let Some(ready) = engine.rows.prepare(&engine.sections, &engine.slots, plain) else {
            CommandReader::default().command(words, spare).ok_or(UNREADABLE)?;
            return self.after_dependencies(spare, count, blocked).map(drop);
        };
        if engine.counters.stopping() {
            return Err(Stop::Told);
        }
        self.counter.call.0.store(plain.number, Ordering::Relaxed);
        let due = self.approach(plain.timing)?;
        // While it slept descriptors may have become others, where nothing orders that.
        let again = due.and_then(|_| engine.rows.prepare(&engine.sections, &engine.slots, plain));
        let ready = again.unwrap_or(ready);
        let spun = engine.spin(due)?;
        let result = issue::call(plain.number, &ready);
        let end = engine.ticks();
        let (begin, paced) = (spun.at, engine.after(due, spun));
        self.ready = end;
        if result == -i64::from(libc::EINTR) && plain.result != result && engine.counters.stopping() {
            return Err(Stop::Told);
        }
        if plain.op == Op::IssueFd {
            self.keep(plain.produces, result)?;
        }
        engine.counters.complete(self.counter, count, end);
        let times = Times::of(begin, end, blocked, paced);
        // A descriptor's number is this replay's own.
        let is_as_traced = result == plain.result || plain.op == Op::IssueFd && result >= 0;
        if let (true, Ok(result)) = (is_as_traced, u64::try_from(plain.result)) {
            let Plain { origin, number, .. } = *plain;
            let waits = times.waits();
            let short = Short { origin, number, result, begin, end, compared: false, together: false, waits };
            if self.record_short(&short, &times)? {
                return Ok(());
            }
        }
        self.conclude_plain(words, result, times, spare)
    }

    #[cold]
    #[inline(never)]
    fn conclude_plain(&mut self, words: &[u64], result: i64, times: Times, spare: &mut Command) -> Result<(), Stop> {
        CommandReader::default().command(words, spare).ok_or(UNREADABLE)?;
        let done = match spare.op {
            Op::IssueFd => self.judged_number(spare, result),
            _ => self.judged(spare, result, Range::default()),
        }?;
        self.record(spare, &done, times)
    }
}
