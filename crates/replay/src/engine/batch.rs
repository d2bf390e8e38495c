//! Reads of a thread that are issued together (`--io uring`), or touched together (`--io touch`, [`super::touch`]).
//!
//! A read may go together with those before it if all that it waits for is completed and nothing but reads at given offsets
//! lies between: such reads do not depend on each other. With `linked` each still begins when the one before it is completed, and
//! reads that go on where the last one ended can be among them.
//!
//! Goals: an order that the plan permits, always; a thread never waits while reads of its own are not issued. Non-goals:
//! writes, opens and other calls: where the kernel hands them to workers of its own they are slower than a system call.

use std::sync::atomic::Ordering;

use reprise_plan::command::{Command, Expect, Op, Transfer, Wait, Way};

use super::failure::{Failure, Stop};
use super::ring::{DEPTH, Read, Ring};
use super::thread::Worker;
use super::touch::Touches;
use super::transfer::{Came, offset};
use super::{Compared, Settings, issue};
use crate::executor::Executor;
use crate::log::Times;
use crate::pace::Pace;

/// Bytes that are read together at most, and by one read.
const MOST_BYTES: usize = 1 << 20;
const LONGEST: u32 = 256 << 10;
/// Place of a read that is not compared, until it is known.
const SPARE: usize = usize::MAX;

/// Reads that wait to be issued.
#[derive(Debug)]
pub(super) struct Batch {
    ring: Ring,
    linked: bool,
    /// By a thread of the kernel.
    polled: bool,
    reads: Vec<Read>,
    transfers: Vec<Transfer>,
    results: Vec<i64>,
    /// Bytes of scratch memory for those that are compared; behind them is room for the others, the same for all.
    room: usize,
    spare_room: usize,
    /// The number of the last of them among the thread's commands.
    last: u64,
}

/// What a thread has of a batch.
#[derive(Debug)]
pub(super) enum Gathering {
    /// Nothing: every call is issued by itself.
    Off,
    /// A ring will be made for the first read.
    Wanted { linked: bool },
    /// There is one.
    On(Box<Batch>),
    /// Reads are touched instead.
    Touching(Box<Touches>),
}

impl Gathering {
    /// As the replay is to issue calls; a pace, an explored order and pages as they were need each by itself.
    pub(super) fn of(settings: &Settings, explored: bool) -> Gathering {
        let executor = settings.executor;
        match settings.pace == Pace::Afap && !settings.traced_cache && !explored {
            true if executor.has_rings() => Gathering::Wanted { linked: executor == Executor::Linked },
            true if executor == Executor::Touch => Gathering::Touching(Box::default()),
            _ => Gathering::Off,
        }
    }
}

impl Gathering {
    /// To be told of every other command: a thread of the kernel that performs reads keeps to the descriptor table that this thread
    /// had when the ring was made, so there is to be another ring when it has left that.
    pub(super) fn after(&mut self, command: &Command) {
        let may_leave = matches!(command.op, Op::CloseMany | Op::MarkMany | Op::Execute)
            || i64::from(command.number) == libc::SYS_unshare;
        if may_leave && matches!(self, Gathering::On(batch) if batch.polled) {
            *self = Gathering::Wanted { linked: false };
        }
    }
}

impl Batch {
    fn takes(&self, transfer: &Transfer) -> bool {
        let fits = transfer.length <= LONGEST && self.reads.len() < DEPTH;
        let ways = transfer.way == Way::ReadAt || self.linked && transfer.way == Way::Read;
        // One that comes short breaks a chain.
        let ends_chain = self.linked && self.transfers.last().is_some_and(|t| t.result != u64::from(t.length));
        fits && ways && !ends_chain && self.room + (transfer.length as usize) <= MOST_BYTES
    }
}

impl Worker {
    /// Takes a transfer into the batch; false: those before it are performed, and it is to be performed by itself.
    #[inline]
    pub(super) fn is_gathered(
        &mut self,
        transfer: &Transfer,
        waits: &[u64],
        count: u64,
        spare: &mut Command,
    ) -> Result<bool, Stop> {
        if matches!(self.gathering, Gathering::Off) {
            return Ok(false);
        }
        if self.gather_touch(transfer, waits, count) || self.gather(transfer, waits, count)? {
            return Ok(true);
        }
        self.perform_batch(spare)?;
        // What did not fit fits now.
        self.gather(transfer, waits, count)
    }

    /// Takes a transfer into the batch, if it can be: else the batch is to be performed first.
    #[inline]
    fn gather(&mut self, transfer: &Transfer, waits: &[u64], count: u64) -> Result<bool, Stop> {
        match self.gathering {
            Gathering::Touching(_) => return Ok(self.gather_touch(transfer, waits, count)),
            Gathering::Wanted { .. } | Gathering::On(_) if transfer.way.reads() => {}
            _ => return Ok(false),
        }
        if let Gathering::Wanted { linked } = self.gathering {
            self.gathering = self.begin_gathering(transfer, linked)?;
        }
        let may_begin = self.are_met(waits);
        let Gathering::On(batch) = &mut self.gathering else { return Ok(false) };
        if !batch.takes(transfer) || !may_begin {
            return Ok(false);
        }
        let compares = self.engine.settings.verify.of(transfer.origin) == Compared::All
            && matches!(transfer.expect, Expect::Content(..) | Expect::Digest(..));
        let length = transfer.length as usize;
        let at = if compares { batch.room } else { SPARE };
        match compares {
            true => batch.room += length.next_multiple_of(64),
            false => batch.spare_room = batch.spare_room.max(length),
        }
        let fd = self.engine.slots.get(transfer.slot)?;
        batch.reads.push(Read { fd, length: transfer.length, offset: offset(transfer), at });
        batch.transfers.push(*transfer);
        batch.last = count;
        Ok(true)
    }

    /// Whether all that is to be waited for is completed.
    #[inline]
    pub(super) fn are_met(&self, waits: &[u64]) -> bool {
        let counters = &self.engine.counters;
        let is_met = |wait: Wait| counters.get(wait.thread).is_some_and(|awaited| awaited.completed() >= wait.count);
        waits.iter().all(|word| is_met(Wait::from_word(*word)))
    }

    /// A ring, where it helps.
    fn begin_gathering(&self, transfer: &Transfer, linked: bool) -> Result<Gathering, Stop> {
        let fd = self.engine.slots.get(transfer.slot)?;
        if issue::cannot_try(fd) {
            self.engine.note("io_uring would hand every read to a worker on this file system: system calls instead");
            return Ok(Gathering::Off);
        }
        let polled = self.engine.settings.executor == Executor::Polled;
        match Ring::new(polled) {
            Ok(ring) => {
                let (reads, transfers, results) = (Vec::with_capacity(DEPTH), Vec::with_capacity(DEPTH), Vec::new());
                Ok(Gathering::On(Box::new(Batch {
                    ring,
                    linked,
                    polled,
                    reads,
                    transfers,
                    results,
                    room: 0,
                    spare_room: 0,
                    last: 0,
                })))
            }
            Err(error) => {
                self.engine.note(format!("there is no io_uring here ({error}): system calls instead"));
                Ok(Gathering::Off)
            }
        }
    }

    /// Issues what was gathered, and judges it.
    #[inline]
    pub(super) fn perform_batch(&mut self, spare: &mut Command) -> Result<(), Stop> {
        match &self.gathering {
            Gathering::On(batch) if !batch.reads.is_empty() => self.perform_gathered(spare),
            Gathering::Touching(touches) if !touches.is_empty() => self.perform_touches(spare),
            _ => Ok(()),
        }
    }

    fn perform_gathered(&mut self, spare: &mut Command) -> Result<(), Stop> {
        let engine = self.engine;
        if engine.counters.stopping() {
            return Err(Stop::Told);
        }
        let Gathering::On(mut batch) = std::mem::replace(&mut self.gathering, Gathering::Off) else { return Ok(()) };
        self.counter.call.0.store(Way::ReadAt.number(), Ordering::Relaxed);
        batch.reads.iter_mut().filter(|read| read.at == SPARE).for_each(|read| read.at = batch.room);
        self.reserve(batch.room + batch.spare_room)?;
        let begin = engine.ticks();
        let Batch { ring, linked, reads, results, .. } = &mut *batch;
        let read = ring.read(reads, *linked, &mut self.scratch, results);
        let end = engine.ticks();
        if let Err(error) = read {
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            return Err(Failure::system("read by io_uring", -i64::from(number)).into());
        }
        self.ready = end;
        self.again(&mut batch)?;
        self.engine.counters.complete(self.counter, batch.last, end);
        let times = Times { begin, end, blocked: None, paced: None };
        self.judge_batch(&batch, times, spare)?;
        batch.reads.clear();
        batch.transfers.clear();
        (batch.room, batch.spare_room) = (0, 0);
        self.gathering = Gathering::On(batch);
        Ok(())
    }

    /// What came short without having to, or was cancelled after such a read, is read by a call of its own.
    fn again(&mut self, batch: &mut Batch) -> Result<(), Stop> {
        for i in 0..batch.reads.len() {
            let (read, traced) = (batch.reads[i], batch.transfers[i].result as i64);
            if batch.results[i] == traced || read.offset.is_none() && batch.results[i] >= 0 {
                continue;
            }
            let room = self.scratch.bytes_mut(read.at, read.length as usize);
            batch.results[i] = issue::read(read.fd, room, read.offset);
            if self.engine.counters.stopping() {
                return Err(Stop::Told);
            }
        }
        Ok(())
    }

    fn judge_batch(&mut self, batch: &Batch, times: Times, spare: &mut Command) -> Result<(), Stop> {
        let together = batch.reads.len() > 1;
        for ((transfer, read), result) in batch.transfers.iter().zip(&batch.reads).zip(&batch.results) {
            let came = Came { result: *result, at: read.at, times, together, touched: false };
            self.conclude(transfer, &came, spare)?;
        }
        Ok(())
    }
}
