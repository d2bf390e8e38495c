//! A call arrives, waits for its turn, is read and let into the kernel.

use reprise_calls::{Admission, ArgKind, Call, Effect, Object, by_number};

use super::{Arrived, Entered, Exiting, Phase, Tracer, step};
use crate::error::CaptureError;
use crate::filter;
use crate::gate::{Numbers, Ticket};
use crate::memory::Memory;
use crate::procfs;
use crate::sys::{self, CallInfo, FileId, HERE, Stat};
use crate::{arguments, effects, locking, movers, served};

impl Tracer<'_> {
    /// A thread is stopped by the filter.
    pub(super) fn arrived(&mut self, tid: i32) -> Result<(), CaptureError> {
        let info = match sys::call_info(tid) {
            Ok(info) => info,
            Err(e) => return step("ask for the call of", tid, Err(e)),
        };
        let CallInfo::Entry { number, args, mark } = info else {
            return step("resume", tid, sys::resume(tid, 0));
        };
        if !self.before_program(tid, number)? {
            return step("resume", tid, sys::resume(tid, 0));
        }
        if number as u32 == filter::NO_CALL {
            self.log.note(filter::NOT_MADE);
            return step("resume", tid, sys::resume(tid, 0));
        }
        let call = match mark {
            filter::NARROW => {
                self.unsupported("32-bit call (not recorded)".to_owned());
                None
            }
            filter::SECCOMP_BY_PRCTL => {
                self.say("the program filters its own calls (prctl): calls that its filter refuses may be missing from the trace");
                None
            }
            _ if number == u64::from(filter::RESTART) => return self.resumed(tid),
            _ => u32::try_from(number).ok().and_then(by_number).filter(|call| !call.is_pseudo()),
        };
        let Some(call) = call else {
            if mark == filter::CALL {
                self.unsupported(format!("unknown call {number}"));
            }
            return step("resume", tid, sys::resume(tid, 0));
        };
        match call.name {
            "seccomp" => self.say("the program filters its own calls (seccomp): calls that its filter refuses may be missing from the trace"),
            "ptrace" => self.say("the program traces others (ptrace): the kernel refuses that for threads that are recorded"),
            _ => {}
        }
        // Registers beyond the arguments hold leftovers.
        let mut used = [0; 6];
        let count = call.args.len().min(6);
        used[..count].copy_from_slice(&args[..count]);
        self.arrive(tid, call, used)
    }

    /// A note in the ledger and, the first time, a word to the user.
    fn say(&mut self, text: &str) {
        if !self.log.ledger().notes.contains_key(text) {
            (self.warn)(text);
        }
        self.log.note(text);
    }

    fn arrive(&mut self, tid: i32, call: &'static Call, args: [u64; 6]) -> Result<(), CaptureError> {
        let arrived = self.asks_for(tid, call, args);
        if self.gate.arrive(tid, arrived.ticket, procfs::doing) {
            return self.enter(tid, arrived);
        }
        self.hold(tid, arrived);
        Ok(())
    }

    fn asks_for(&self, tid: i32, call: &'static Call, args: [u64; 6]) -> Arrived {
        // Alone, there is nobody to be ordered with.
        let together = self.threads.len() > 1;
        let (objects, plain) = if together { objects_of(tid, call, &args) } else { ([None; 2], Plain::All) };
        let process = self.threads.get(&tid).filter(|_| together).map(|t| t.pid);
        let ticket = ticket(call, &args, plain, process);
        Arrived { call, args, objects, ticket, endings: self.gate.endings() }
    }

    fn hold(&mut self, tid: i32, arrived: Arrived) {
        if let Some(tracee) = self.threads.get_mut(&tid) {
            tracee.phase = Phase::Held(arrived);
        }
    }

    /// Lets in those whose turn has come.
    pub(super) fn admit_waiting(&mut self) -> Result<(), CaptureError> {
        for _ in 0..self.gate.expire(procfs::doing) {
            self.log.note("overlap: a call blocked for long, others were let pass: order by completion");
        }
        while let Some(tid) = self.gate.next(procfs::doing) {
            let Some(tracee) = self.threads.get_mut(&tid) else {
                self.gate.leave(tid);
                continue;
            };
            match std::mem::replace(&mut tracee.phase, Phase::Running) {
                Phase::Held(arrived) => self.enter_late(tid, arrived)?,
                other => {
                    tracee.phase = other;
                    self.gate.leave(tid);
                }
            }
        }
        Ok(())
    }

    /// Lets a call in that had to wait. Meanwhile its descriptors may have come to name something else.
    fn enter_late(&mut self, tid: i32, mut arrived: Arrived) -> Result<(), CaptureError> {
        if arrived.endings != self.gate.endings() {
            let before = arrived.ticket;
            arrived = self.asks_for(tid, arrived.call, arrived.args);
            if arrived.ticket != before && !self.gate.exchange(tid, arrived.ticket, procfs::doing) {
                self.hold(tid, arrived);
                return Ok(());
            }
        }
        self.enter(tid, arrived)
    }

    /// Reads what the call is given and lets it into the kernel.
    fn enter(&mut self, tid: i32, arrived: Arrived) -> Result<(), CaptureError> {
        let Arrived { call, args, objects, ticket, .. } = arrived;
        let mut free = ticket.admission == Admission::Free || ticket.yields;
        self.before_call(tid, call, &args);
        if call.effect == Effect::Exit {
            self.look_before(tid, call, &args, &arguments::Inputs::default());
            let begin_ns = self.log.now();
            if let Some(tracee) = self.threads.get_mut(&tid) {
                tracee.exit = Some(Exiting { begin_ns, cpu_ns: tracee.cpu.used(), args });
                tracee.phase = Phase::Running;
            }
            return step("resume", tid, sys::resume(tid, 0));
        }
        served::note(call.name, &args);
        let inputs = arguments::inputs(Memory::Live(tid), call, &args, &mut self.log);
        self.look_before(tid, call, &args, &inputs);
        let log = &mut self.log;
        let before = effects::before(&mut self.world, tid, call, &args, &inputs, log);
        let source = movers::before(tid, call, &args, &inputs.input);
        if call.effect == Effect::Open && before.waits_for_the_other_end() {
            free = true;
            self.gate.yields(tid);
        }
        if call.name == "clone" && args[0] & libc::CLONE_UNTRACED as u64 != 0 {
            // Without its tracer the child could issue no call at all: the filter outlives the flag.
            let flags = args[0] & !(libc::CLONE_UNTRACED as u64);
            step("change the flags of", tid, sys::set_first_argument(tid, flags))?;
            self.log.note("CLONE_UNTRACED was taken off a clone");
        }
        if let Some(tracee) = self.threads.get_mut(&tid) {
            tracee.interrupted = None;
            let cpu_ns = tracee.cpu.used();
            let begin_ns = self.log.now();
            let submission = self.submitting(tid, call, &args, begin_ns);
            let entered = Entered { call, args, objects, free, begin_ns, cpu_ns, inputs, before, source, submission };
            if let Some(tracee) = self.threads.get_mut(&tid) {
                tracee.phase = Phase::Inside(Box::new(entered));
            }
        }
        step("resume", tid, sys::resume_to_exit(tid))
    }

    /// `restart_syscall`: the kernel goes on with the call that a signal interrupted.
    fn resumed(&mut self, tid: i32) -> Result<(), CaptureError> {
        if let Some(tracee) = self.threads.get_mut(&tid)
            && let Some(entered) = tracee.interrupted.take()
        {
            tracee.phase = Phase::Inside(entered);
            return step("resume", tid, sys::resume_to_exit(tid));
        }
        step("resume", tid, sys::resume(tid, 0))
    }
}

/// Which of a call's descriptors name regular files or directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plain {
    All,
    Some,
    None,
    /// One names nothing: the call will fail, and wait for nobody.
    Absent,
}

/// What the first two descriptors name.
fn objects_of(tid: i32, call: &Call, args: &[u64; 6]) -> ([Option<FileId>; 2], Plain) {
    let (mut objects, mut plain, mut others, mut absent) = ([None; 2], 0, 0, false);
    for (object, fd) in objects.iter_mut().zip(descriptors(call, args)) {
        if let Some(stat) = descriptor(tid, fd as i32) {
            *object = Some(stat.id);
            let is_plain = stat.is_file() || stat.is_dir();
            plain += usize::from(is_plain);
            others += usize::from(!is_plain);
        } else {
            absent = true;
        }
    }
    let plain = match (plain, others) {
        _ if absent => Plain::Absent,
        (_, 0) => Plain::All,
        (0, _) => Plain::None,
        _ => Plain::Some,
    };
    (objects, plain)
}

fn descriptors(call: &Call, args: &[u64; 6]) -> impl Iterator<Item = u64> {
    call.args.iter().zip(args).filter(|(a, _)| matches!(a.kind, ArgKind::Fd(_))).map(|(_, value)| *value)
}

fn descriptor(tid: i32, fd: i32) -> Option<Stat> {
    if fd < 0 {
        return None;
    }
    let path = std::ffi::CString::new(format!("/proc/{tid}/fd/{fd}")).ok()?;
    sys::stat_at(HERE, &path, 0).ok()
}

/// How a call is to be let in. `process` is given if there are other threads.
fn ticket(call: &Call, args: &[u64; 6], plain: Plain, process: Option<i32>) -> Ticket {
    let (admission, yields) = admission(call, args, plain);
    let mut ticket = Ticket { yields, ..Ticket::plain(admission) };
    let Some(process) = process else {
        return ticket;
    };
    let number = |fd: u64| Numbers { process, first: fd as u32, last: fd as u32 };
    if admission == Admission::Free {
        for (used, fd) in ticket.uses.iter_mut().zip(descriptors(call, args)) {
            *used = Some(number(fd)).filter(|_| fd as i32 >= 0);
        }
    }
    ticket.ends = match call.effect {
        Effect::Close => Some(number(args[0])),
        Effect::CloseRange => Some(Numbers { process, first: args[0] as u32, last: args[1] as u32 }),
        Effect::DuplicateTo => Some(number(args[1])),
        _ => None,
    };
    ticket
}

/// How a call is let in, and whether only until it sleeps: as its row says, but what may wait for another thread is free
/// where its result is all it is about, and what copies state (a table of descriptors, when a process is made) must see
/// it still.
fn admission(call: &Call, args: &[u64; 6], plain: Plain) -> (Admission, bool) {
    const EXCLUSIVE: (Admission, bool) = (Admission::Exclusive, false);
    const UNTIL_ASLEEP: (Admission, bool) = (Admission::Exclusive, true);
    const FREE: (Admission, bool) = (Admission::Free, false);
    match call.effect {
        // What it is told must be true when it is told: nobody may open such a number meanwhile.
        _ if plain == Plain::Absent && call.admission() == Admission::Free => (Admission::Shared, false),
        Effect::Spawn => EXCLUSIVE,
        Effect::MakeObject(Object::Socket) if call.name != "socket" => FREE,
        // Who gets a lock decides what all others get.
        _ if locking::waits(call, args) => UNTIL_ASLEEP,
        Effect::Lock => EXCLUSIVE,
        // The file on the other side changes, or an offset in it moves.
        Effect::Copy | Effect::Splice if plain == Plain::Some => UNTIL_ASLEEP,
        Effect::Read | Effect::Write | Effect::Copy | Effect::Splice | Effect::DeviceControl
            if matches!(plain, Plain::Some | Plain::None) =>
        {
            FREE
        }
        _ => (call.admission(), false),
    }
}
