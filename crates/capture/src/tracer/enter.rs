//! A call arrives, waits for its turn, is read and let into the kernel.

use reprise_calls::{Admission, ArgKind, Call, Effect, Object, by_number};

use super::{Arrived, Entered, Phase, Tracer, step};
use crate::error::CaptureError;
use crate::filter;
use crate::memory::Memory;
use crate::sys::{self, CallInfo, FileId, HERE, Stat};
use crate::{arguments, effects, movers};

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
            _ => u32::try_from(number).ok().and_then(by_number),
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
        let (mut objects, mut plain) = ([None; 2], true);
        // Alone, there is nobody to be ordered with.
        if self.threads.len() > 1 {
            (objects, plain) = objects_of(tid, call, &args);
        }
        let admission = admission(call, &args, plain);
        let free = admission == Admission::Free;
        let arrived = Arrived { call, args, objects, free };
        if self.gate.arrive(tid, admission) {
            return self.enter(tid, arrived);
        }
        if let Some(tracee) = self.threads.get_mut(&tid) {
            tracee.phase = Phase::Held(arrived);
        }
        Ok(())
    }

    /// Lets in those whose turn has come.
    pub(super) fn admit_waiting(&mut self) -> Result<(), CaptureError> {
        for _ in 0..self.gate.expire() {
            self.log.note("overlap: a call blocked for long, others were let pass: order by completion");
        }
        while let Some(tid) = self.gate.next() {
            let Some(tracee) = self.threads.get_mut(&tid) else {
                self.gate.leave(tid);
                continue;
            };
            match std::mem::replace(&mut tracee.phase, Phase::Running) {
                Phase::Held(arrived) => self.enter(tid, arrived)?,
                other => {
                    tracee.phase = other;
                    self.gate.leave(tid);
                }
            }
        }
        Ok(())
    }

    /// Reads what the call is given and lets it into the kernel.
    fn enter(&mut self, tid: i32, arrived: Arrived) -> Result<(), CaptureError> {
        let Arrived { call, args, objects, mut free } = arrived;
        if call.effect == Effect::Exit {
            let now = self.log.now();
            if let Some(tracee) = self.threads.get_mut(&tid) {
                tracee.exit = Some((now, args));
                tracee.phase = Phase::Running;
            }
            return step("resume", tid, sys::resume(tid, 0));
        }
        let log = &mut self.log;
        let inputs = arguments::inputs(Memory { tid }, call, &args, log);
        let before = effects::before(&mut self.world, tid, call, &args, &inputs, log);
        let source = movers::before(tid, call, &args, &inputs.input);
        // Opening a FIFO waits for the other end.
        if call.effect == Effect::Open && before.kind == libc::S_IFIFO && !free {
            free = true;
            self.gate.leave(tid);
        }
        if call.name == "clone" && args[0] & libc::CLONE_UNTRACED as u64 != 0 {
            // Without its tracer the child could issue no call at all: the filter outlives the flag.
            let flags = args[0] & !(libc::CLONE_UNTRACED as u64);
            step("change the flags of", tid, sys::set_first_argument(tid, flags))?;
            self.log.note("CLONE_UNTRACED was taken off a clone");
        }
        let begin_ns = self.log.now();
        if let Some(tracee) = self.threads.get_mut(&tid) {
            tracee.interrupted = None;
            tracee.phase =
                Phase::Inside(Box::new(Entered { call, args, objects, free, begin_ns, inputs, before, source }));
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

/// What the first two descriptors name, and whether both are regular files or directories.
fn objects_of(tid: i32, call: &Call, args: &[u64; 6]) -> ([Option<FileId>; 2], bool) {
    let (mut objects, mut plain) = ([None; 2], true);
    let fds =
        call.args.iter().zip(args).filter(|(a, _)| matches!(a.kind, ArgKind::Fd(_))).map(|(_, value)| *value as i32);
    for (object, fd) in objects.iter_mut().zip(fds) {
        if let Some(stat) = descriptor(tid, fd) {
            *object = Some(stat.id);
            plain &= stat.is_file() || stat.is_dir();
        }
    }
    (objects, plain)
}

fn descriptor(tid: i32, fd: i32) -> Option<Stat> {
    if fd < 0 {
        return None;
    }
    let path = std::ffi::CString::new(format!("/proc/{tid}/fd/{fd}")).ok()?;
    sys::stat_at(HERE, &path, 0).ok()
}

/// How a call is let in: as its row says, but what may wait for another thread is free, and what copies state
/// (a table of descriptors, when a process is made) must see it still.
fn admission(call: &Call, args: &[u64; 6], plain: bool) -> Admission {
    match call.effect {
        Effect::Spawn => Admission::Exclusive,
        Effect::MakeObject(Object::Socket) if call.name != "socket" => Admission::Free,
        Effect::Control if matches!(args[1] as i32, libc::F_SETLKW | libc::F_OFD_SETLKW) => Admission::Free,
        Effect::Read | Effect::Write | Effect::Copy | Effect::Splice | Effect::DeviceControl if !plain => {
            Admission::Free
        }
        _ => call.admission(),
    }
}
