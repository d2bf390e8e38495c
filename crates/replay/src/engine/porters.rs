//! Porters: threads of the engine that bring commands from the plan's file and take records to the log's, so that replay
//! threads wait for neither file. Where they would take a processor from a replay thread in the midst of a call, that writes its
//! records itself, between two calls.
//!
//! Goals: commands of any length in a few hundred kilobytes per thread, and nothing of them in the page cache (direct reads);
//! of the log no more than a few megabytes there. Non-goals: content of writes, which stays mapped; short plans, which are
//! mapped whole ([`super::stream`]).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::failure::{Failure, Stop, error_name};
use super::memory::{PAGE, Scratch};
use super::{Commands, Reserved, issue, lock};

/// Bytes of the log that are written to its device together, and then dropped from the page cache.
const LOG_STRIDE: u64 = 4 << 20;
/// Parts of the plan that are read at a time: one alone leaves a device idle between two reads.
const READERS: usize = 2;
/// Porters call the kernel and little else.
const STACK_BYTES: usize = 128 << 10;

/// Commands to be brought. Memory goes back and forth with what is asked for, so that none is allocated on the way.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Of the plan's file.
    pub part: Range<u64>,
    pub into: Scratch,
    pub to: Sender<Brought>,
}

/// A part of the plan's file: the memory, and where in it the part begins.
pub(super) type Brought = Result<(Scratch, usize), i64>;

/// A batch of records to be appended to the log.
#[derive(Debug)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    to: Sender<Appended>,
}

/// The memory that was appended, or the error.
pub(super) type Appended = Result<Vec<u8>, i64>;

/// The ways to the porters.
#[derive(Debug)]
pub(super) struct Porters {
    wanted: Sender<Wanted>,
    batches: Sender<Batch>,
    waiting: Mutex<Option<(Receiver<Wanted>, Receiver<Batch>)>>,
    carried: Arc<Carried>,
}

/// What porters have done so far, and the processor time that they took for it.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// Bytes of the plan.
    pub plan_bytes: AtomicU64,
    pub plan_ns: AtomicU64,
    /// Bytes of the log.
    pub log_bytes: AtomicU64,
    pub log_ns: AtomicU64,
    /// Of them, those that are no longer cached.
    dropped: AtomicU64,
}

impl Carried {
    /// Appends to the log as a whole, and has what is there since a while written out and dropped: 0, or an error as a negative number.
    fn append(&self, log: i32, bytes: &[u8]) -> i64 {
        match super::append(log, bytes) {
            n if n == bytes.len() as i64 => {}
            n if n < 0 => return n,
            // Only a full disk (or a limit) cuts a write to a file off.
            _ => return -i64::from(libc::ENOSPC),
        }
        let length = bytes.len() as u64;
        let logged = self.log_bytes.fetch_add(length, Ordering::Relaxed) + length;
        let dropped = self.dropped.load(Ordering::Relaxed);
        // What was handed to the device the last time is there by now.
        if logged.saturating_sub(dropped) >= 2 * LOG_STRIDE {
            let next = dropped + LOG_STRIDE;
            if self.dropped.compare_exchange(dropped, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                issue::write_out_and_forget(log, dropped, LOG_STRIDE);
            }
        }
        0
    }
}

impl Porters {
    pub(super) fn new() -> Porters {
        let ((wanted, asked), (batches, given)) = (channel(), channel());
        Porters { wanted, batches, waiting: Mutex::new(Some((asked, given))), carried: Arc::default() }
    }

    /// Lets them begin, once.
    pub(super) fn start(&self, reserved: Reserved, commands: Commands) -> Result<(), Failure> {
        let Some((wanted, batches)) = lock(&self.waiting).take() else { return Ok(()) };
        let carried = Arc::clone(&self.carried);
        thread(move || Log { number: reserved.log, carried }.all(&batches))?;
        let readers = if commands == Commands::Mapped { 0 } else { READERS };
        let wanted = Arc::new(Mutex::new(wanted));
        (0..readers).try_for_each(|_| {
            let (wanted, carried) = (Arc::clone(&wanted), Arc::clone(&self.carried));
            thread(move || Plan { number: reserved.plan, carried }.all(&wanted))
        })
    }

    /// What was carried so far.
    pub(super) fn carried(&self) -> &Carried {
        &self.carried
    }

    /// A way to ask for commands.
    pub(super) fn wanted(&self) -> Sender<Wanted> {
        self.wanted.clone()
    }
}

/// Processor time that a thread has told of already.
#[derive(Debug, Default)]
struct Spent(u64);

impl Spent {
    /// Adds what the calling thread has used since.
    fn add_to(&mut self, sum: &AtomicU64) {
        let now = issue::processor_ns();
        sum.fetch_add(now.saturating_sub(self.0), Ordering::Relaxed);
        self.0 = now;
    }
}

fn thread(work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    let number = |e: std::io::Error| -i64::from(e.raw_os_error().unwrap_or(libc::EAGAIN));
    started.map(drop).map_err(|e| Failure::system("start a thread", number(e)))
}

/// What a thread that has lost the porters says.
pub(super) fn gone<E>(_: E) -> Stop {
    Failure::Absurd { cause: "a thread that reads the plan has ended (a defect of Reprise)".to_owned() }.into()
}

/// Who brings commands.
struct Plan {
    number: i32,
    carried: Arc<Carried>,
}

impl Plan {
    fn all(self, wanted: &Mutex<Receiver<Wanted>>) {
        let mut spent = Spent::default();
        loop {
            let next = lock(wanted).recv();
            let Ok(Wanted { part, into, to }) = next else { return };
            // Who asked may have ended meanwhile: then nobody wants the answer.
            let _ = to.send(self.bring(&part, into));
            spent.add_to(&self.carried.plan_ns);
        }
    }

    /// Whole pages around the part, as direct reads need them.
    fn bring(&self, part: &Range<u64>, mut into: Scratch) -> Brought {
        let page = PAGE as u64;
        let begin = part.start / page * page;
        let length = (part.end - begin).next_multiple_of(page) as usize;
        if !into.reserve(length) {
            return Err(-i64::from(libc::ENOMEM));
        }
        let wanted = (part.end - begin) as usize;
        let mut there = 0;
        while there < wanted {
            let result = issue::read(self.number, into.bytes_mut(there, length - there), Some(begin + there as u64));
            match usize::try_from(result) {
                Ok(0) => return Err(-i64::from(libc::ENODATA)),
                Ok(n) => there += n,
                Err(_) if result == -i64::from(libc::EINTR) => {}
                // A file system that reads directly only now and then, or at other multiples.
                Err(_) if result == -i64::from(libc::EINVAL) && issue::read_through_cache(self.number) => {}
                Err(_) => return Err(result),
            }
        }
        self.carried.plan_bytes.fetch_add(there as u64, Ordering::Relaxed);
        Ok((into, (part.start - begin) as usize))
    }
}

/// Who takes records away.
struct Log {
    number: i32,
    carried: Arc<Carried>,
}

impl Log {
    fn all(self, batches: &Receiver<Batch>) {
        let mut spent = Spent::default();
        while let Ok(Batch { bytes, to }) = batches.recv() {
            let appended = self.carried.append(self.number, &bytes);
            let _ = to.send(if appended < 0 { Err(appended) } else { Ok(bytes) });
            spent.add_to(&self.carried.log_ns);
        }
    }
}

/// One thread's way to the log.
#[derive(Debug)]
pub(super) struct Outbox {
    log: i32,
    batches: Sender<Batch>,
    to: Sender<Appended>,
    back: Receiver<Appended>,
    /// Batches on their way.
    out: usize,
    carried: Arc<Carried>,
}

impl Outbox {
    pub(super) fn new(porters: &Porters, log: i32) -> Outbox {
        let (to, back) = channel();
        Outbox { log, batches: porters.batches.clone(), to, back, out: 0, carried: Arc::clone(&porters.carried) }
    }

    /// Sends a batch, and returns memory for the next; at most one other is on its way then.
    pub(super) fn send(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, Stop> {
        let spare = if self.out > 0 { self.receive()? } else { Vec::with_capacity(bytes.capacity()) };
        self.batches.send(Batch { bytes, to: self.to.clone() }).map_err(gone)?;
        self.out += 1;
        Ok(spare)
    }

    /// Appends a batch (or none, if it is empty) in this thread, after all that were sent.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        while self.out > 0 {
            self.receive()?;
        }
        if bytes.is_empty() {
            return Ok(());
        }
        match self.carried.append(self.log, bytes) {
            0.. => Ok(()),
            error => Err(not_logged(error)),
        }
    }

    fn receive(&mut self) -> Result<Vec<u8>, Stop> {
        self.out -= 1;
        self.back.recv().map_err(gone)?.map_err(not_logged)
    }
}

fn not_logged(result: i64) -> Stop {
    Failure::Log { error: error_name(result) }.into()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_porter_still_has_is_there_at_the_end() {
        let file = tempfile::tempfile().unwrap();
        let porters = Porters::new();
        let (_, batches) = lock(&porters.waiting).take().unwrap();
        let mut outbox = Outbox::new(&porters, file.as_raw_fd());
        outbox.send(b"sent".to_vec()).unwrap();
        let log = Log { number: file.as_raw_fd(), carried: Arc::default() };
        let porter = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            log.all(&batches);
        });
        outbox.append(&[]).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4);
        drop((outbox, porters));
        porter.join().unwrap();
    }
}
