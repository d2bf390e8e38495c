//! One thread's measured loop.
//!
//! Goals: between two calls nothing but drawing the next request and writing down the last; all memory is there, and touched,
//! before the first call. Non-goals: what the requests are.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, SeekFrom, Stat};
use rustix::io::Errno;

use crate::clock::Counter;
use crate::prepare::noise;
use crate::request::{Call, PauseBy, Request, Workload};

/// Records of a thread whose number of calls is not known before.
const UNKNOWN_CALLS: u64 = 1 << 18;
/// Records that memory is taken for beforehand, at most.
const MOST_RECORDS: u64 = 1 << 22;

/// A call that was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub request: Request,
    /// Readings of the counter right before and right after.
    pub begin: u64,
    pub end: u64,
    /// What it returned; negative is an error number negated.
    pub result: i64,
}

/// What a thread did.
#[derive(Debug, Default)]
pub(crate) struct ThreadRecord {
    pub tid: i32,
    pub name: String,
    pub records: Vec<Record>,
    /// What `stat` filled, with the number of its record.
    pub stats: Vec<(usize, Stat)>,
    /// How often it lost its processor while it performed, if the kernel tells.
    pub preemptions: Option<u64>,
    /// Whether more records came than there was memory for: some calls stand after an allocation.
    pub grew: bool,
    /// The call that failed: the last record.
    pub failed: Option<Errno>,
    /// Address of the memory that it reads into and writes from.
    pub memory: u64,
}

/// What all threads share.
pub(crate) struct Stage<'a> {
    pub workload: &'a dyn Workload,
    pub paths: &'a [CString],
    pub counter: &'a Counter,
    /// Ticks of a nanosecond, about.
    pub rate: f64,
    pub stop: &'a AtomicU32,
}

/// Performs the requests of a thread; `ready` waits for the others.
pub(crate) fn thread(stage: &Stage<'_>, number: u32, ready: impl FnOnce()) -> ThreadRecord {
    let workload = stage.workload;
    let mut sequence = workload.sequence(number);
    let mut out = ThreadRecord {
        tid: rustix::thread::gettid().as_raw_nonzero().get(),
        name: format!("{}-{number}", workload.name()),
        records: touched(workload.most_calls().unwrap_or(UNKNOWN_CALLS).min(MOST_RECORDS) as usize),
        ..ThreadRecord::default()
    };
    let mut hands =
        Hands { paths: stage.paths, open: None, buffer: noise(workload.largest() as usize, number), stat: None };
    out.memory = hands.buffer.as_ptr() as u64;
    let counter = stage.counter;
    let ticks_in = |time: Duration| (time.as_nanos() as f64 * stage.rate) as u64;
    let pause = workload.pause().map(|pause| (pause, ticks_in(pause.length)));
    let lasting = workload.time().map(ticks_in);
    let mut moved_before = false;
    let before = preemptions();
    ready();
    let mut now = counter.ticks();
    let until = lasting.map(|ticks| now.saturating_add(ticks));
    while let Some(request) = next(&mut sequence, &hands, until.is_some_and(|until| now >= until)) {
        let moves = request.call.moves();
        if let (Some((pause, ticks)), true, true) = (&pause, moves, moved_before) {
            match pause.by {
                PauseBy::Spin => spin(counter, now.saturating_add(*ticks)),
                PauseBy::Sleep => std::thread::sleep(pause.length),
            }
        }
        // Going back to the begin is no request: the pause stays between the transfers on both sides of it.
        moved_before = moves || (moved_before && request.call == Call::Rewind);
        let Timed { begin, end, result } = hands.perform(&request, counter);
        now = end;
        if let Some(stat) = hands.stat.take() {
            out.stats.push((out.records.len(), stat));
        }
        out.grew |= out.records.len() == out.records.capacity();
        let failed = result.err();
        let result = result.unwrap_or_else(|e| -i64::from(e.raw_os_error()));
        out.records.push(Record { request, begin, end, result });
        out.failed = failed;
        if failed.is_some() || stage.stop.load(Ordering::Relaxed) != 0 {
            break;
        }
    }
    out.preemptions = preemptions().zip(before).map(|(after, before)| after.saturating_sub(before));
    out
}

/// How often this thread has lost its processor to another.
fn preemptions() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// The next request; none where the time is over and no file is open.
#[inline(always)]
fn next(sequence: &mut dyn Iterator<Item = Request>, hands: &Hands<'_>, is_over: bool) -> Option<Request> {
    if is_over && hands.open.is_none() { None } else { sequence.next() }
}

#[inline(always)]
fn spin(counter: &Counter, until: u64) {
    while counter.ticks() < until {
        std::hint::spin_loop();
    }
}

/// Room for so many records, every page of it in memory.
fn touched(count: usize) -> Vec<Record> {
    let request = Request { call: Call::Close, file: 1, bytes: 1, offset: 1 };
    // Not all zero: zeros are pages that are not there yet.
    let mut room = vec![Record { request, begin: 1, end: 1, result: 1 }; count.max(1)];
    room.clear();
    room
}

/// What a thread works with.
struct Hands<'a> {
    paths: &'a [CString],
    open: Option<OwnedFd>,
    buffer: Vec<u8>,
    stat: Option<Stat>,
}

/// What a call returned, and the readings right before and right after it: what is prepared for it is no part of it.
struct Timed {
    begin: u64,
    end: u64,
    result: Result<i64, Errno>,
}

#[inline(always)]
fn timed<T>(counter: &Counter, call: impl FnOnce() -> Result<T, Errno>, number: impl FnOnce(T) -> i64) -> Timed {
    let begin = counter.ticks();
    let result = call();
    let end = counter.ticks();
    Timed { begin, end, result: result.map(number) }
}

impl Hands<'_> {
    #[inline(always)]
    fn perform(&mut self, request: &Request, counter: &Counter) -> Timed {
        const MODE: Mode = Mode::from_bits_retain(0o644);
        let count = |n: usize| n as i64;
        let Some(path) = self.paths.get(request.file as usize) else {
            return timed(counter, || Err(Errno::NOENT), count);
        };
        let path = path.as_c_str();
        match request.call {
            Call::Open(how) => {
                let open = &mut self.open;
                return timed(
                    counter,
                    || rustix::fs::openat(CWD, path, how.flags(), MODE),
                    |fd| {
                        let number = fd.as_raw_fd();
                        *open = Some(fd);
                        number.into()
                    },
                );
            }
            Call::Close => {
                let open = self.open.take();
                return timed(
                    counter,
                    || {
                        drop(open);
                        Ok(())
                    },
                    |()| 0,
                );
            }
            Call::Stat => {
                let filled = &mut self.stat;
                return timed(
                    counter,
                    || rustix::fs::statat(CWD, path, AtFlags::empty()),
                    |stat| {
                        *filled = Some(stat);
                        0
                    },
                );
            }
            Call::Unlink => return timed(counter, || rustix::fs::unlinkat(CWD, path, AtFlags::empty()), |()| 0),
            Call::Rewind | Call::Sync | Call::Read | Call::ReadAt | Call::Write | Call::WriteAt => {}
        }
        let Some(fd) = self.open.as_ref() else {
            return timed(counter, || Err(Errno::BADF), count);
        };
        let bytes = (request.bytes as usize).min(self.buffer.len());
        let buffer = &mut self.buffer[..bytes];
        match request.call {
            Call::Rewind => timed(counter, || rustix::fs::seek(fd, SeekFrom::Start(0)), |at| at as i64),
            Call::Read => timed(counter, || rustix::io::read(fd, buffer), count),
            Call::ReadAt => timed(counter, || rustix::io::pread(fd, buffer, request.offset), count),
            Call::Write => timed(counter, || rustix::io::write(fd, buffer), count),
            Call::WriteAt => timed(counter, || rustix::io::pwrite(fd, buffer, request.offset), count),
            // All but `Sync` have been made above.
            Call::Sync | Call::Open(_) | Call::Close | Call::Stat | Call::Unlink => {
                timed(counter, || rustix::fs::fsync(fd), |()| 0)
            }
        }
    }
}
