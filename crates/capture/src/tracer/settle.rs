//! Calls that wait for others (a read of a pipe, a lock) may be reported before the call that woke them. Their rows
//! wait until that one is written.
//!
//! Goals: cause before effect wherever both name the same object. Non-goals: certainty where a cause blocks half-way
//! (a long write to a pipe that is being read): such calls overlap truly.

use std::time::Duration;

use reprise_calls::locking::Wish;
use reprise_calls::{Effect, Object, Returns};

use super::{Entered, Phase, Tracer};
use crate::arguments::failed;
use crate::error::CaptureError;
use crate::locking;
use crate::procfs;
use crate::sys;

/// A cause that can run may still have to wait for a processor where many want one; one that blocks is not waited for.
const PATIENCE: Duration = Duration::from_millis(50);

impl Tracer<'_> {
    /// Threads in the kernel that may have caused the result of a call that could wait.
    pub(super) fn causes(&mut self, tid: i32, entered: &Entered, result: i64) -> Vec<i32> {
        let locks = locking::is_about(entered.call, &entered.args);
        // A lock that is refused is refused because of somebody.
        let refused = locks && is_in_the_way(tid, entered, result);
        // It has woken nobody, and who waits for it may have been in its way.
        if refused {
            self.await_no_more(tid);
        }
        if !(entered.free || locks) || (failed(result) && !refused) || self.threads.len() < 2 {
            return Vec::new();
        }
        let ours = entered.objects;
        let woken = ours[0].is_some() && may_be_woken(entered);
        // A new descriptor may take the number of one that is just being closed.
        let numbered = entered.call.returns == Returns::Fd;
        if !woken && !numbered {
            return Vec::new();
        }
        // Who waits for a lock gives none away that another has without waiting: that one may have woken it, by taking less than it had.
        let at_once = locks && !refused && !locking::waits(entered.call, &entered.args);
        let meets = |e: &Entered| e.objects.iter().flatten().any(|o| ours.contains(&Some(*o)));
        let related = |other: &i32| match self.threads.get(other).map(|t| &t.phase) {
            Some(Phase::Inside(e)) => {
                // The ends of a connection are two objects: any call that sends may be the cause.
                let shared = meets(e) || (receives(entered) && sends(e));
                let closes = matches!(e.call.effect, Effect::Close | Effect::CloseRange);
                let gives = !(at_once && locking::waits(e.call, &e.args));
                ((woken && shared && gives) || (numbered && closes)) && procfs::is_moving(*other)
            }
            // It has waited, and has the lock.
            Some(Phase::Settling(r)) => refused && locking::waits(r.entered.call, &r.entered.args) && meets(&r.entered),
            _ => false,
        };
        // An exit closes what nobody names: the end of a pipe, the last descriptor of a lock.
        let exits = |other: &i32| woken && result == 0 && procfs::is_exiting(*other);
        let others = self.threads.keys().copied().filter(|t| *t != tid);
        others.filter(|t| related(t) || exits(t)).collect()
    }

    /// Nobody waits for the call of this thread any more.
    pub(super) fn await_no_more(&mut self, tid: i32) {
        if self.settling == 0 {
            return;
        }
        for tracee in self.threads.values_mut() {
            if let Phase::Settling(r) = &mut tracee.phase {
                r.causes.retain(|cause| *cause != tid);
            }
        }
    }

    /// Writes those whose causes are written by now, or not to be waited for any more, and then those that they caused.
    pub(super) fn settle(&mut self) -> Result<(), CaptureError> {
        while let Some(tid) = self.settled() {
            let Some(tracee) = self.threads.get_mut(&tid) else {
                return Ok(());
            };
            if let Phase::Settling(r) = std::mem::replace(&mut tracee.phase, Phase::Running) {
                self.settling -= 1;
                self.finish(tid, r.entered, r.result, r.end_ns)?;
            }
        }
        Ok(())
    }

    /// Of those that can be written the one that was over first.
    fn settled(&self) -> Option<i32> {
        let waiting = self.threads.iter().filter_map(|(tid, tracee)| match &tracee.phase {
            Phase::Settling(r) => Some((*tid, r)),
            _ => None,
        });
        let ready =
            waiting.filter(|(_, r)| r.since.elapsed() >= PATIENCE || !r.causes.iter().any(|t| self.is_pending(*t)));
        ready.min_by_key(|(_, r)| r.end_ns).map(|(tid, _)| tid)
    }

    /// Whether the call of a thread may still come to be written. No two wait for each other: who waits does so for calls that were under
    /// way when its own was over, or, if it was refused, for such as waited already; and for who was refused nobody waits.
    fn is_pending(&self, tid: i32) -> bool {
        let inside = |phase: &Phase| match phase {
            Phase::Inside(_) => procfs::is_moving(tid),
            Phase::Settling(_) => true,
            Phase::Running | Phase::Held(_) => false,
        };
        self.threads.get(&tid).is_some_and(|t| inside(&t.phase) || procfs::is_exiting(tid))
    }
}

/// Whether a call about a lock found that of somebody else, be it refused or told so.
fn is_in_the_way(tid: i32, entered: &Entered, result: i64) -> bool {
    let (call, args) = (entered.call, &entered.args);
    let found = || {
        let mut lock = [0; 2];
        let read = sys::read_memory(tid, args[2], &mut lock).is_ok_and(|read| read == lock.len());
        read && Wish::of(&lock).is_some_and(|wish| wish != Wish::Free)
    };
    locking::is_refused(result) || (!failed(result) && locking::asks(call, args) && found())
}

/// Whether a call waits for what others do. A lock that is released waits for nobody, but wakes.
fn may_be_woken(entered: &Entered) -> bool {
    match entered.call.effect {
        Effect::Lock | Effect::Control => !locking::releases(entered.call, &entered.args, &entered.inputs.input),
        Effect::Read | Effect::Splice | Effect::Copy => true,
        _ => receives(entered),
    }
}

/// Whether the call takes from a socket what another call put there.
fn receives(entered: &Entered) -> bool {
    match entered.call.effect {
        Effect::Read | Effect::Splice | Effect::Copy => entered.free,
        Effect::MakeObject(Object::Socket) => entered.call.name.starts_with("accept"),
        Effect::Message => matches!(entered.call.name, "recvfrom" | "recvmsg" | "recvmmsg"),
        _ => false,
    }
}

/// Whether the call puts something into a socket, or ends what it sends.
fn sends(entered: &Entered) -> bool {
    match entered.call.effect {
        Effect::Write | Effect::Splice | Effect::Copy => entered.free,
        Effect::Close | Effect::CloseRange => true,
        Effect::Message => {
            matches!(entered.call.name, "sendto" | "sendmsg" | "sendmmsg" | "connect" | "shutdown")
        }
        _ => false,
    }
}
