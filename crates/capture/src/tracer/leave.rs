//! A call is over: what it returned is read, and its action written.

use std::time::Instant;

use reprise_calls::{ArgKind, Call, Effect};
use reprise_trace::payload::runs_as;
use reprise_trace::{Action, Loss};

use super::{Entered, Phase, Returned, Tracer, step};
use crate::arguments::{self, Outputs, UNREADABLE, failed};
use crate::error::CaptureError;
use crate::memory::Memory;
use crate::sys::{self, CallInfo};
use crate::{effects, filter, movers, own_users, procfs, served};

/// −ERESTARTSYS, −ERESTARTNOINTR, −ERESTARTNOHAND, −ERESTART_RESTARTBLOCK: never seen by a program.
const RESTARTS: [i64; 4] = [-512, -513, -514, -516];

/// Whoever answers for a call is asked in place of the tracer, and a call that is let go on asks no more.
const LISTENED: &str = "a filter by which others answer for calls (SECCOMP_FILTER_FLAG_NEW_LISTENER): ptrace does not see those of which they say that they go on";

impl Tracer<'_> {
    /// A thread is stopped after a call.
    pub(super) fn returned(&mut self, tid: i32) -> Result<(), CaptureError> {
        let end_ns = self.log.now();
        let info = match sys::call_info(tid) {
            Ok(info) => info,
            Err(e) => return step("ask for the result of", tid, Err(e)),
        };
        let CallInfo::Exit { result } = info else {
            return step("resume", tid, sys::resume(tid, 0));
        };
        let Some(tracee) = self.threads.get_mut(&tid) else {
            return step("resume", tid, sys::resume(tid, 0));
        };
        let entered = match std::mem::replace(&mut tracee.phase, Phase::Running) {
            Phase::Inside(entered) => entered,
            other => {
                tracee.phase = other;
                return step("resume", tid, sys::resume(tid, 0));
            }
        };
        if RESTARTS.contains(&result) {
            self.gate.leave(tid);
            self.log.note("a call was restarted, or ended, by a signal");
            if let Some(tracee) = self.threads.get_mut(&tid) {
                tracee.interrupted = Some(entered);
            }
            return step("resume", tid, sys::resume(tid, 0));
        }
        if self.launch_failed(tid, &entered, result)? {
            self.gate.leave(tid);
            return step("resume", tid, sys::resume(tid, 0));
        }
        let causes = self.causes(tid, &entered, result);
        if causes.is_empty() {
            return self.finish(tid, entered, result, end_ns);
        }
        if let Some(tracee) = self.threads.get_mut(&tid) {
            self.settling += 1;
            tracee.phase = Phase::Settling(Returned { entered, result, end_ns, causes, since: Instant::now() });
        }
        Ok(())
    }

    /// Writes the action of a call that is over, and lets its thread go on.
    pub(super) fn finish(
        &mut self,
        tid: i32,
        entered: Box<Entered>,
        result: i64,
        end_ns: u64,
    ) -> Result<(), CaptureError> {
        self.write(tid, *entered, result, end_ns);
        self.await_no_more(tid);
        self.gate.leave(tid);
        step("resume", tid, sys::resume(tid, 0))
    }

    /// Writes the action of a call; returns its number.
    pub(super) fn write(&mut self, tid: i32, entered: Entered, result: i64, end_ns: u64) -> u64 {
        self.look_after(tid, &entered, result);
        let Entered { call, args, begin_ns, cpu_ns, mut inputs, before, source, submission, .. } = entered;
        let about = self.after_call(tid, call, &args, &inputs.input, result, submission);
        // The program has served the faults by now that reading what it gave would have waited for.
        let gives = |kind| matches!(kind, ArgKind::InData(_) | ArgKind::InVector(_));
        let given = inputs.buffers.iter().fold(0u64, |sum, buffer| sum.saturating_add(buffer.1));
        if served::any() && !failed(result) && inputs.kept < given && call.position(gives).is_some() {
            (inputs.data, inputs.kept) =
                arguments::content(Memory::Live(tid), &inputs.buffers, u64::MAX, arguments::keep(call), &mut self.log);
        }
        let told = inputs.told();
        let log = &mut self.log;
        let mut out = arguments::outputs(Memory::Live(tid), call, &args, result, inputs, log);
        if !failed(result) {
            moved(tid, call, source, result, &mut out, log);
            effects::after(&mut self.world, tid, call, result, &before, log);
            if filter::is_answered_by_others(call, &args) {
                log.loss(Loss::Unsupported, LISTENED, 0);
            }
        }
        let tracee = self.threads.get_mut(&tid);
        let thread = tracee.map_or(0, |t| {
            t.cpu.leave();
            t.thread
        });
        if call.effect == Effect::Execute && !failed(result) {
            out.output = runs_as(procfs::status(tid).credentials().as_ref());
        }
        let lacks = out.lacks(UNREADABLE);
        let mut action = Action { thread, cpu_ns, ..told.action(call, args, (begin_ns, end_ns), result, out) };
        if let Some(about) = about {
            (action.input, action.output) = about;
        }
        own_users::count(call, &action, &mut self.log);
        self.log.action_lacking(&mut action, lacks)
    }
}

/// Content that a call moved inside the kernel.
pub(super) fn moved(
    tid: i32,
    call: &Call,
    source: Option<movers::Source>,
    result: i64,
    out: &mut Outputs,
    log: &mut crate::log::Log,
) {
    if matches!(call.effect, Effect::Copy | Effect::Splice) {
        out.moved = result as u64;
        if let Some(source) = source {
            let (data, kept) = movers::after(tid, source, out.moved, log);
            out.data = data;
            out.truncated = out.moved - kept;
        }
    }
}
