//! Threads come and go.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use reprise_plan::ThreadPlan;
use reprise_plan::command::{Command, StandIn};

use super::failure::{Failure, Stop, error_name};
use super::thread::{Done, Worker};
use super::{Engine, issue, lock};
use crate::log::{Difference, Handling};

/// Replay threads call the kernel and little else.
const STACK_BYTES: usize = 256 << 10;

/// What a new thread does before its commands.
pub(super) type Beginning = Box<dyn FnOnce(&mut Worker) -> Result<(), Stop> + Send>;

/// Starts the replay thread `thread` from the calling thread, whose tables and users it inherits, and waits until
/// `beginning` is done there.
pub(super) fn start(engine: &'static Engine, thread: u32, beginning: Beginning) -> Result<(), Stop> {
    let counter = engine.counters.get(thread).ok_or(Stop::Damaged("it starts a thread that does not exist"))?;
    if counter.started.swap(1, Ordering::SeqCst) != 0 {
        return Err(Stop::Damaged("it starts a thread that was started before"));
    }
    engine.counters.live.fetch_add(1, Ordering::SeqCst);
    if let Some(turns) = &engine.turns {
        turns.begin(thread);
    }
    let body = move || {
        counter.tid.store(issue::thread_id() as u32, Ordering::SeqCst);
        let processor = engine.processors.get(thread as usize % engine.processors.len().max(1));
        if processor.is_some_and(|number| !issue::stay_on_processor(*number)) {
            engine.note("a thread could not be kept on one processor");
        }
        let mut stays = false;
        if let Some(mut worker) = Worker::new(engine, thread) {
            stays = super::start::holds_locks(engine, worker.process);
            let begun = beginning(&mut worker);
            counter.ready.store(1, Ordering::SeqCst);
            issue::futex_wake(&counter.ready);
            match begun {
                Ok(()) => stays &= !worker.run(),
                Err(stop) => worker.report(stop),
            }
        }
        if let Some(turns) = &engine.turns {
            turns.end(engine, thread);
        }
        counter.tid.store(0, Ordering::SeqCst);
        engine.counters.live.fetch_sub(1, Ordering::SeqCst);
        issue::futex_wake(&engine.counters.live);
        if stays {
            stay();
        }
    };
    // Detached: the count of living threads is what is waited for.
    if let Err(error) = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(body) {
        let alive = engine.counters.live.fetch_sub(1, Ordering::SeqCst) - 1;
        let number = error.raw_os_error().unwrap_or(libc::EAGAIN);
        return Err(Failure::Threads { alive, error: error_name(-i64::from(number)) }.into());
    }
    if engine.counters.await_nonzero(&counter.ready) { Ok(()) } else { Err(Stop::Told) }
}

/// Keeps what the calling thread has until the process ends, with the replay.
fn stay() -> ! {
    loop {
        std::thread::park();
    }
}

/// Threads that perform asynchronous requests, by the thread that starts them: before which of its commands, and which.
#[derive(Debug, Default)]
pub(super) struct Lanes(HashMap<u32, Vec<(u64, u32)>>);

impl Lanes {
    pub(super) fn of(threads: &[ThreadPlan]) -> Lanes {
        let mut lanes: HashMap<u32, Vec<(u64, u32)>> = HashMap::new();
        for (number, thread) in (0..).zip(threads) {
            if let Some(lane) = thread.lane {
                lanes.entry(lane.of).or_default().push((lane.after, number));
            }
        }
        lanes.values_mut().for_each(|of_one| of_one.sort_unstable());
        Lanes(lanes)
    }

    /// Those that a thread starts, in the order of their beginnings.
    pub(super) fn of_thread(&self, thread: u32) -> &[(u64, u32)] {
        self.0.get(&thread).map_or(&[], Vec::as_slice)
    }
}

impl Worker {
    /// Starts those of the `lanes` that are left which begin before the command with this number, and takes them off. They share
    /// all with this thread, as the kernel performs a request with what its submitter has.
    #[inline]
    pub(super) fn start_lanes(&self, lanes: &mut &[(u64, u32)], count: u64) -> Result<(), Stop> {
        while let Some((&(after, lane), rest)) = lanes.split_first() {
            if after >= count {
                break;
            }
            *lanes = rest;
            start(self.engine, lane, Box::new(|_| Ok(())))?;
        }
        Ok(())
    }

    pub(super) fn spawn(&mut self, command: &Command) -> Result<Done, Stop> {
        let [thread, shares] = command.produces;
        if thread != u32::MAX && command.result >= 0 {
            let plan = self.engine.threads.get(thread as usize);
            let plan = plan
                .filter(|t| t.spawned && t.lane.is_none())
                .ok_or(Stop::Damaged("it starts a thread that starts with the replay, or does not exist"))?;
            let (descriptors, directories) = (shares & 1 != 0, shares & 2 != 0);
            if descriptors && plan.process != self.process {
                lock(&self.engine.joined).extend([plan.process, self.process]);
            }
            if plan.process != self.process {
                self.inherit_mappings(plan.process);
            }
            start(self.engine, thread, Box::new(move |_| unshare(descriptors, directories)))?;
            // Handles of the child: it does not inherit them.
            for slot in &command.list {
                self.stand_in(StandIn::Event, [*slot, u32::MAX])?;
            }
        }
        Ok(Done { result: command.result, ..Done::not_issued(Handling::Issued, command, Difference::NONE) })
    }

    pub(super) fn execute(&mut self, command: &Command) -> Result<Done, Stop> {
        self.unmap_all();
        self.leave_shared_table()?;
        self.close_all(&command.list)?;
        if command.args.is_empty() {
            let done = Done::not_issued(Handling::Issued, command, Difference::NONE);
            return Ok(Done { result: command.result, ..done });
        }
        self.change_identity(command)
    }

    pub(super) fn exit(&mut self, command: &Command) -> Result<Done, Stop> {
        let ends = if command.produces[0] == u32::MAX { 0 } else { command.produces[0] };
        if ends & 2 != 0 {
            self.unmap_all();
        }
        if ends & 1 != 0 {
            self.leave_shared_table()?;
            // All but the engine's own. They would end with the thread, but others must not see it ended before.
            let last = u32::try_from(self.engine.reserved.first - 1).unwrap_or(0);
            issue::close_range(0, last);
        }
        let done = Done::not_issued(Handling::Issued, command, Difference::NONE);
        Ok(Done { last: true, ..done })
    }
}

impl Worker {
    /// A process that ends or runs another program does not end the descriptors of one it shares its table with.
    pub(super) fn leave_shared_table(&self) -> Result<(), Stop> {
        if lock(&self.engine.joined).contains(&self.process) {
            unshare(false, true)?;
        }
        Ok(())
    }
}

/// Gives the calling thread tables of its own: copies of what it shared until now.
pub(super) fn unshare(descriptors: bool, directories: bool) -> Result<(), Stop> {
    let flag = |shared: bool, flag| if shared { 0 } else { flag };
    let flags = flag(descriptors, libc::CLONE_FILES) | flag(directories, libc::CLONE_FS);
    let result = if flags == 0 { 0 } else { issue::unshare(flags) };
    match result {
        0.. => Ok(()),
        _ => Err(Failure::system("give a process tables of its own", result).into()),
    }
}
