//! Reading: the batches of a log and their records.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::MAGIC;
use super::difference::{Class, Difference, Handling};
use super::merge::Merged;
use super::records::Records;
use super::times::{Blocked, Pacing};
use super::writer::HEAD_BYTES;
use crate::resume::is_refusal;

/// What one command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The action of the trace.
    pub origin: u64,
    /// Thread.
    pub thread: u32,
    /// Number of the call.
    pub number: u32,
    /// Issue, in nanoseconds since the replay began.
    pub begin_ns: u64,
    /// Completion.
    pub end_ns: u64,
    /// The result; where a descriptor, address or process number was made as in the trace, the traced one.
    pub result: i64,
    /// What was done.
    pub handling: Handling,
    /// Whether what the call returned in memory was compared with the trace.
    pub compared: bool,
    /// Whether it was issued together with others: its times are those of all of them.
    pub together: bool,
    /// How it went differently.
    pub difference: Difference,
    /// How long it was blocked for its dependencies, if it was.
    pub blocked: Option<Blocked>,
    /// How it was paced, if the replay has a pace.
    pub pacing: Option<Pacing>,
    /// What the call returned in memory where that differs, at most [`super::KEPT_OUTPUT`] bytes.
    pub output: Vec<u8>,
}

impl Record {
    /// Whether the action was done: one that the target refused was not.
    pub(crate) fn is_completed(&self) -> bool {
        self.difference.class != Class::Diverged || !is_refusal(reprise_calls::by_number(self.number), self.result)
    }
}

/// From ticks to nanoseconds: two instants, read on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Clock {
    pub first_ticks: u64,
    pub first_ns: u64,
    pub last_ticks: u64,
    pub last_ns: u64,
}

impl Clock {
    /// Nanoseconds since the first instant; instants before it are 0.
    pub fn since_begin(&self, ticks: u64) -> u64 {
        self.length_ns(ticks.saturating_sub(self.first_ticks))
    }

    /// So many ticks in nanoseconds.
    pub(super) fn length_ns(&self, passed: u64) -> u64 {
        let run = self.last_ticks.saturating_sub(self.first_ticks);
        let span = self.last_ns.saturating_sub(self.first_ns);
        match run {
            0 => passed,
            run => u64::try_from(u128::from(passed) * u128::from(span) / u128::from(run)).unwrap_or(u64::MAX),
        }
    }
}

/// Where a batch lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    pub thread: u32,
    pub offset: u64,
    pub length: u64,
    pub first_end: u64,
}

/// A finished log.
#[derive(Debug, Clone)]
pub struct ReplayLog {
    file: Arc<File>,
    clock: Clock,
    batches: Arc<Vec<Batch>>,
    numbers: Arc<Numbers>,
}

/// Actions and threads as the trace counts them, where what was replayed is a part of it that counts from 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// The first action.
    pub first_action: u64,
    /// Of each thread the number in the trace; one that is not here has its own.
    pub threads: Vec<u32>,
}

impl ReplayLog {
    /// Finds the batches of a log. One that is cut off ends it.
    pub fn open(file: File, clock: Clock, numbers: Numbers) -> io::Result<ReplayLog> {
        let size = file.metadata()?.len();
        let mut batches = Vec::new();
        let mut offset = 0;
        while size - offset >= HEAD_BYTES as u64 {
            let mut head = [0; HEAD_BYTES];
            file.read_exact_at(&mut head, offset)?;
            let length = word(&head, 8);
            let begin = offset + HEAD_BYTES as u64;
            let end = begin.checked_add(length).filter(|end| *end <= size);
            let (true, Some(end)) = (word(&head, 0) as u32 == MAGIC, end) else {
                break;
            };
            let thread = (word(&head, 0) >> 32) as u32;
            batches.push(Batch { thread, offset: begin, length, first_end: word(&head, 16) });
            offset = end;
        }
        Ok(ReplayLog { file: Arc::new(file), clock, batches: Arc::new(batches), numbers: Arc::new(numbers) })
    }

    /// All records, batch by batch: those of one thread in order, those of different threads in none.
    pub fn each(&self, mut record: impl FnMut(Record)) -> io::Result<()> {
        for batch in self.batches.iter() {
            self.load(*batch)?.try_for_each(|found| found.map(&mut record))?;
        }
        Ok(())
    }

    /// All records by the time of their completion.
    pub fn merged(&self) -> Merged {
        Merged::new(self.clone())
    }

    pub(super) fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// The records of a batch.
    pub(super) fn load(&self, batch: Batch) -> io::Result<Records> {
        let mut bytes = vec![0; batch.length as usize];
        self.file.read_exact_at(&mut bytes, batch.offset)?;
        Ok(Records::new(bytes, batch.thread, self.clock, Arc::clone(&self.numbers)))
    }

    pub(super) fn key(&self, batch: &Batch) -> u64 {
        self.clock.since_begin(batch.first_end)
    }
}

pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;
    use reprise_plan::Rule;

    use super::*;
    use crate::log::times::Waited;
    use crate::log::{Paced, Punctuality, Short, Times, Writer};

    /// Transfers of one thread: mostly alike, one after the other, and some of them waited.
    fn transfers() -> impl Strategy<Value = Vec<(Short, Times)>> {
        let step = prop_oneof![6 => Just(1u64), 1 => 0u64..5000, 1 => Just(1 << 40)];
        let ticks = prop_oneof![6 => 0u64..2000, 1 => 0u64..1 << 25, 1 => 0u64..1 << 33];
        let blocked =
            (1u64..1 << 40, 0u8..2).prop_map(|(ticks, rule)| Waited { ticks, rule: Rule::from_number(rule).unwrap() });
        let paced = (0u64..1 << 40, 0u64..1 << 40, any::<bool>());
        let waits = (proptest::option::weighted(0.3, blocked), proptest::option::weighted(0.5, paced));
        let one = (step, ticks.clone(), ticks, 0u32..20, 0u32..8, any::<u8>(), waits);
        prop::collection::vec(one, 0..60).prop_map(|steps| {
            let (mut origin, mut begin, mut out) = (0, 1_000, Vec::new());
            for (step, gap, taken, number, result, flags, (blocked, paced)) in steps {
                (origin, begin) = (origin + step, begin + gap);
                let (number, result) = (number / 10, u64::from(result / 7) << 10);
                let (compared, together) = (flags < 20, flags > 235);
                let paced = paced.map(|(from, due, disturbed)| Paced { from, due, at: begin, disturbed });
                let times = Times { begin, end: begin + taken, blocked, paced };
                let waits = times.waits();
                out.push((
                    Short { origin, number, result, begin, end: begin + taken, compared, together, waits },
                    times,
                ));
            }
            out
        })
    }

    /// Distances of actions that were performed together.
    fn more() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(prop_oneof![9 => 0u64..64, 1 => 0u64..5000], 0..30)
    }

    /// What stands in 48 bits, and a duration in 32.
    fn fits((short, _): &&(Short, Times)) -> bool {
        short.origin < 1 << 48 && short.end - short.begin < 1 << 32
    }

    fn expected((short, times): &(Short, Times)) -> Record {
        let Short { origin, number, result, begin, end, compared, together, .. } = *short;
        let pacing = times.paced.map(|Paced { from, due, at, disturbed }| Pacing {
            waited_ns: at.saturating_sub(from),
            error_ns: at as i64 - due as i64,
            punctuality: match (disturbed, from > due) {
                (true, _) => Punctuality::Disturbed,
                (false, true) => Punctuality::Behind,
                (false, false) => Punctuality::OnTime,
            },
        });
        Record {
            origin,
            thread: 7,
            number,
            begin_ns: begin,
            end_ns: end,
            result: result as i64,
            handling: Handling::Issued,
            compared,
            together,
            difference: Difference::NONE,
            blocked: times.blocked.map(|waited| Blocked { ns: waited.ticks, rule: waited.rule }),
            pacing,
            output: Vec::new(),
        }
    }

    proptest! {
        #[test]
        fn transfers_are_read_as_they_were_added(transfers in transfers(), more in more(), cut in 0usize..400) {
            let mut writer = Writer::new(7);
            let mut added = Vec::new();
            for (i, (short, times)) in transfers.iter().enumerate() {
                if writer.add_short(short, times).is_none() {
                    continue;
                }
                added.push((*short, *times));
                // Some were performed together with others.
                if short.together && short.waits == 0 {
                    let all: Vec<_> = more.iter().skip(i % 8).scan(short.origin, |at, step| { *at += step; Some(*at) }).collect();
                    writer.add_more(&all, times);
                    added.extend(all.into_iter().map(|origin| (Short { origin, ..*short }, *times)));
                }
            }
            let alone = transfers.iter().filter(fits).count();
            prop_assert!(added.len() >= alone);
            let mut file = tempfile::tempfile().unwrap();
            let bytes = writer.finished().unwrap_or_default().to_vec();
            file.write_all(&bytes).unwrap();
            // One tick is a nanosecond.
            let clock = Clock { first_ticks: 0, first_ns: 0, last_ticks: 1 << 50, last_ns: 1 << 50 };
            let read = |file: File| {
                let mut found = Vec::new();
                let log = ReplayLog::open(file, clock, Numbers::default()).unwrap();
                log.each(|record| found.push(record)).map(|()| found)
            };
            let wanted: Vec<_> = added.iter().map(expected).collect();
            prop_assert_eq!(read(file.try_clone().unwrap()).unwrap(), wanted);
            // A batch that is cut off ends the log before it.
            file.set_len(bytes.len().saturating_sub(1 + cut) as u64).unwrap();
            prop_assert_eq!(read(file).unwrap(), vec![]);
        }
    }
}
