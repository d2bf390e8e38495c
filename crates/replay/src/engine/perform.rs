//! What each kind of command does.

use reprise_calls::{Call, Effect};
use reprise_plan::command::{Arg, Command, Op};

use super::arguments::{Prepared, Range, prepare};
use super::failure::Stop;
use super::judge::{judge, without_memory};
use super::thread::{Done, Worker};
use super::{Compared, issue};
use crate::executor::Executor;
use crate::log::{Code, Difference, Handling};

impl Worker {
    /// Performs one command.
    pub(super) fn perform(&mut self, command: &Command) -> Result<Done, Stop> {
        if self.depends_on_owners(command) {
            self.engine.note("an error of permission is taken from the trace: this user cannot set owners");
            return Ok(Done::not_issued(Handling::Simulated, command, Difference::NONE));
        }
        match command.op {
            Op::Issue => self.issue(command),
            Op::IssueFd => self.issue_fd(command),
            Op::Through if command.produces[0] != u32::MAX => self.issue_fd(command),
            Op::Through => self.issue(command),
            Op::IssuePair => self.issue_pair(command),
            Op::Simulate => self.simulate(command),
            Op::Skip => Ok(Done::not_issued(Handling::Skipped, command, Difference::NONE)),
            Op::Unsupported => Ok(Done::not_issued(Handling::Unsupported, command, Difference::NONE)),
            Op::Close => self.close(command),
            Op::CloseMany => self.close_many(command),
            Op::MarkMany => self.mark_many(command),
            Op::DuplicateTo => self.duplicate_to(command),
            Op::Spawn => self.spawn(command),
            Op::Execute => self.execute(command),
            Op::Exit => self.exit(command),
            Op::Map => self.map(command),
            Op::OnMapping => self.on_mapping(command),
            Op::ReadAway => self.read_away(command),
            Op::WriteFrom => self.write_from(command),
            Op::Lock => self.wait_for_lock(command),
            Op::List => self.list(command),
            Op::ChangeIdentity => self.change_identity(command),
            Op::Pass => self.pass(command),
            Op::Receive => self.receive(command),
            Op::Take => self.take(command),
            Op::SyncTarget => {
                let result = issue::sync_file_system(self.engine.reserved.root);
                self.judged(command, result, Range::default())
            }
        }
    }

    /// Whether the call was refused for want of permission and this user cannot give the files their owners: it might
    /// succeed here, and change what the program could not.
    fn depends_on_owners(&self, command: &Command) -> bool {
        !self.engine.settings.identities && Self::is_for_want_of_permission(command.result)
    }

    /// Whether a result says that permission was refused.
    #[inline]
    pub(super) fn is_for_want_of_permission(result: i64) -> bool {
        const EPERM: i64 = -(libc::EPERM as i64);
        const EACCES: i64 = -(libc::EACCES as i64);
        matches!(result, EPERM | EACCES)
    }

    /// The row of the command's call.
    pub(super) fn call(command: &Command) -> Result<&'static Call, Stop> {
        reprise_calls::by_number(command.number).ok_or(Stop::Damaged("there is no call of this number"))
    }

    /// Prepares the arguments; `None` if a replay does not issue such a call.
    pub(super) fn prepared(&mut self, command: &Command) -> Result<Option<Prepared>, Stop> {
        let call = Self::call(command)?;
        prepare(&self.engine.sections, &self.engine.slots, &mut self.scratch, command, call)
    }

    /// A command that a replay does not issue.
    pub(super) fn refused(command: &Command) -> Done {
        Done::not_issued(Handling::Skipped, command, Difference::left_out(Code::Refused))
    }

    /// Whether a read is left out; its offset moves as it would.
    fn is_left_out(&self, command: &Command) -> Result<bool, Stop> {
        if self.engine.settings.executor != Executor::SkipReads || command.result < 0 {
            return Ok(false);
        }
        let call = Self::call(command)?;
        if call.effect != Effect::Read {
            return Ok(false);
        }
        let given = call.offset_arg().and_then(|i| command.args.get(i));
        if given.is_some_and(|offset| *offset != Arg::Value(u64::MAX)) {
            return Ok(true);
        }
        // Where there is no offset something is taken away (a pipe): that is done.
        Ok(issue::seek_by(self.descriptor(command, 0)?, command.result as u64, libc::SEEK_CUR) >= 0)
    }

    fn issue(&mut self, command: &Command) -> Result<Done, Stop> {
        if self.is_left_out(command)? {
            return Ok(Done::not_issued(Handling::Skipped, command, Difference::NONE));
        }
        let Some(prepared) = self.prepared(command)? else {
            return Ok(Self::refused(command));
        };
        let result = self.insist(command, &prepared);
        let filled = self.filled(command, &prepared, result);
        self.judged(command, result, filled)
    }

    /// Issues a call, again where the replay's circumstances refuse it: it asks for that, or who issues it may not pass the directories
    /// above the file, which the program did not pass ([`Op::Through`]).
    fn insist(&mut self, command: &Command, prepared: &Prepared) -> i64 {
        let result = again(command, || self.call_kernel(command.number, &prepared.checked));
        let is_refused = result == -i64::from(libc::EACCES) && command.op == Op::Through;
        if !is_refused || !self.engine.settings.identities {
            return result;
        }
        let user = issue::set_file_user(0);
        let result = self.call_kernel(command.number, &prepared.checked);
        issue::set_file_user(user as u32);
        result
    }

    /// What the call has filled of the memory it was given.
    fn filled(&self, command: &Command, prepared: &Prepared, result: i64) -> Range {
        use reprise_calls::{ArgKind, Returns};
        let Some(range) = prepared.filled.filter(|_| result >= 0) else {
            return Range::default();
        };
        let counted = Self::call(command).is_ok_and(|call| {
            let data = |k| matches!(k, ArgKind::OutData(_) | ArgKind::OutVector(_));
            call.returns == Returns::Count && call.position(data).is_some()
        });
        match counted {
            true => Range { length: range.length.min(result as usize), ..range },
            false => range,
        }
    }

    /// Compares and wraps up.
    pub(super) fn judged(&mut self, command: &Command, result: i64, filled: Range) -> Result<Done, Stop> {
        let difference = self.compare(command, result, filled)?;
        Ok(Done { handling: Handling::Issued, result, difference, filled, last: false })
    }

    fn compare(&self, command: &Command, result: i64, filled: Range) -> Result<Difference, Stop> {
        let expect = match self.engine.settings.verify.of(command.origin) {
            Compared::Nothing => return Ok(Difference::NONE),
            Compared::Result => without_memory(command.expect),
            Compared::All => command.expect,
        };
        let memory = self.scratch.bytes(filled.at, filled.length);
        judge(&self.engine.sections, self.engine.circumstances, command, expect, result, memory)
    }

    /// As [`Worker::judged`], for a call whose success gives a number of this replay's own (a descriptor, an address):
    /// the log holds the traced one.
    pub(super) fn judged_number(&mut self, command: &Command, result: i64) -> Result<Done, Stop> {
        let both = result >= 0 && command.result >= 0;
        let result = if both { command.result } else { result };
        self.judged(command, result, Range::default())
    }

    fn issue_fd(&mut self, command: &Command) -> Result<Done, Stop> {
        let Some(prepared) = self.prepared(command)? else {
            return Ok(Self::refused(command));
        };
        if !Self::makes_descriptor(command)? {
            return Err(Stop::Damaged("its call makes no descriptor"));
        }
        let result = self.insist(command, &prepared);
        self.keep(command.produces[0], result)?;
        if let (true, Ok(number @ 0..)) = (self.engine.settings.no_access_times, i32::try_from(result)) {
            self.keep_access_times(number);
        }
        self.judged_number(command, result)
    }

    /// From now on reads of this descriptor change no access time.
    fn keep_access_times(&self, number: i32) {
        let flags = issue::fcntl_number(number, libc::F_GETFL, 0);
        let wanted = flags as u64 | libc::O_NOATIME as u64;
        let is_place = flags >= 0 && flags as u64 & libc::O_PATH as u64 != 0;
        if flags >= 0 && !is_place && issue::fcntl_number(number, libc::F_SETFL, wanted) < 0 {
            self.engine.note("access times change with reads: only the owner of a file may ask for less");
        }
    }

    fn makes_descriptor(command: &Command) -> Result<bool, Stop> {
        use reprise_calls::{Effect, Returns};
        let call = Self::call(command)?;
        let duplicates = match command.args.get(1) {
            Some(reprise_plan::command::Arg::Value(v)) => matches!(v & 0xffff_ffff, 0 | 1030),
            _ => false,
        };
        Ok(call.returns == Returns::Fd || call.effect == Effect::Control && duplicates)
    }

    fn issue_pair(&mut self, command: &Command) -> Result<Done, Stop> {
        use reprise_calls::{ArgKind, Struct};
        let pair = |k| k == ArgKind::Out(Struct::FdPair);
        if Self::call(command)?.position(pair) != Some(0) {
            return Err(Stop::Damaged("its call makes no pair of descriptors"));
        }
        let Some(prepared) = self.prepared(command)? else {
            return Ok(Self::refused(command));
        };
        let result = self.call_kernel(command.number, &prepared.checked);
        let range = prepared.filled.unwrap_or_default();
        let bytes = self.scratch.bytes(range.at, range.length);
        let number = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(-1, i32::from_le_bytes);
        let both = if result == 0 { [number(0), number(4)] } else { [-1, -1] };
        for (slot, fd) in command.produces.into_iter().zip(both) {
            self.keep(slot, if result == 0 { i64::from(fd) } else { result })?;
        }
        self.judged_number(command, result)
    }
}

/// Makes a call again as long as it asks for that: where a name is moved meanwhile, anywhere in the system, the kernel does not know whether
/// `..` led out of where a path has to stay (`RESOLVE_BENEATH`, `RESOLVE_IN_ROOT`). What the program was told so is not issued.
fn again(command: &Command, mut call: impl FnMut() -> i64) -> i64 {
    const MOST: u32 = 10_000;
    let asks = |result: i64| result == -i64::from(libc::EAGAIN) && i64::from(command.number) == libc::SYS_openat2;
    let mut result = call();
    for _ in 0..MOST {
        if !asks(result) {
            break;
        }
        result = call();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a call that is refused so many times with an error, and how often it was made.
    fn made(name: &str, error: i32, refused: u32) -> (i64, u32) {
        let command = Command { number: reprise_calls::by_name(name).unwrap().number, ..Command::default() };
        let mut count = 0;
        let result = again(&command, || {
            count += 1;
            if count <= refused { -i64::from(error) } else { 3 }
        });
        (result, count)
    }

    #[test]
    fn an_open_that_asks_to_be_made_again_is_made_again() {
        assert_eq!(made("openat2", libc::EAGAIN, 0), (3, 1));
        assert_eq!(made("openat2", libc::EAGAIN, 5), (3, 6));
        assert_eq!(made("openat2", libc::EXDEV, 5), (-i64::from(libc::EXDEV), 1));
        assert_eq!(made("openat", libc::EAGAIN, 5), (-i64::from(libc::EAGAIN), 1));
        let (result, count) = made("openat2", libc::EAGAIN, u32::MAX);
        assert!(result == -i64::from(libc::EAGAIN) && count < 1 << 20, "{count}");
    }
}
