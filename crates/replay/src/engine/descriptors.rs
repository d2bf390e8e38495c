//! Descriptors: keeping, closing, duplicating, standing in.

use reprise_plan::command::{Arg, Command, StandIn};

use super::failure::{Failure, Stop};
use super::issue;
use super::thread::{Done, Worker};
use crate::log::{Difference, Handling};

/// No slot.
const NOWHERE: u32 = u32::MAX;

impl Worker {
    /// Keeps a new descriptor in a slot. Without a slot (the traced call failed) it is closed again; a failure empties
    /// the slot, so that its uses fail too.
    pub(super) fn keep(&self, slot: u32, result: i64) -> Result<(), Stop> {
        let number = i32::try_from(result).unwrap_or(-1).max(-1);
        if slot == NOWHERE {
            if number >= 0 {
                issue::close(number);
            }
            return Ok(());
        }
        self.engine.slots.set(slot, number)
    }

    /// The real number behind an argument.
    pub(super) fn descriptor(&self, command: &Command, i: usize) -> Result<i32, Stop> {
        match command.args.get(i) {
            Some(Arg::Fd(slot)) => self.engine.slots.get(*slot),
            Some(Arg::Value(v)) => Ok((*v as i32).min(-1)),
            _ => Err(Stop::Damaged("an argument is not of the kind that its call takes")),
        }
    }

    pub(super) fn close(&mut self, command: &Command) -> Result<Done, Stop> {
        let number = self.descriptor(command, 0)?;
        let result = self.timed(|| issue::close(number));
        self.judged(command, result, Default::default())
    }

    /// Closes a list; before that, with an argument (`CLOSE_RANGE_UNSHARE`), leaves the table to the others.
    pub(super) fn close_many(&mut self, command: &Command) -> Result<Done, Stop> {
        if !command.args.is_empty() {
            super::spawn::unshare(false, true)?;
        }
        self.close_all(&command.list)?;
        Ok(Done { result: command.result, ..Done::not_issued(Handling::Issued, command, Difference::NONE) })
    }

    /// Programs that are run from now on have these no more. Nothing is run: it is what `fcntl` tells that matters.
    pub(super) fn mark_many(&mut self, command: &Command) -> Result<Done, Stop> {
        if !command.args.is_empty() {
            super::spawn::unshare(false, true)?;
        }
        for slot in &command.list {
            issue::fcntl_number(self.engine.slots.get(*slot)?, libc::F_SETFD, libc::FD_CLOEXEC as u64);
        }
        Ok(Done { result: command.result, ..Done::not_issued(Handling::Issued, command, Difference::NONE) })
    }

    /// Ends the lives of these slots.
    pub(super) fn close_all(&self, slots: &[u32]) -> Result<(), Stop> {
        for slot in slots {
            issue::close(self.engine.slots.get(*slot)?);
        }
        Ok(())
    }

    pub(super) fn duplicate_to(&mut self, command: &Command) -> Result<Done, Stop> {
        let from = self.descriptor(command, 0)?;
        let close_on_exec = match command.args.get(2) {
            Some(Arg::Value(flags)) => flags & libc::O_CLOEXEC as u64,
            _ => 0,
        };
        let to = match command.list.first() {
            Some(slot) => self.engine.slots.get(*slot)?,
            None => -1,
        };
        let result = if to < 0 {
            issue::duplicate(from, close_on_exec != 0)
        } else if from == to && i64::from(command.number) == libc::SYS_dup2 {
            // Only asks whether the descriptor is open.
            let flags = issue::fcntl_number(from, libc::F_GETFD, 0);
            if flags < 0 { flags } else { i64::from(to) }
        } else {
            issue::dup3(from, to, close_on_exec)
        };
        // A failure leaves the descriptor that was to be replaced as it is.
        if result >= 0 || command.result >= 0 {
            self.keep(command.produces[0], result)?;
        }
        self.judged_number(command, result)
    }

    pub(super) fn simulate(&mut self, command: &Command) -> Result<Done, Stop> {
        if command.result >= 0 {
            self.stand_in(command.stand_in, command.produces)?;
        }
        Ok(Done::not_issued(Handling::Simulated, command, Difference::NONE))
    }

    /// Makes stand-ins for the slots that are given.
    pub(super) fn stand_in(&self, kind: StandIn, slots: [u32; 2]) -> Result<(), Stop> {
        if slots == [NOWHERE; 2] {
            return Ok(());
        }
        let failed = |result| Stop::from(Failure::system("make a stand-in for a descriptor", result));
        let two = |pair: Result<[i32; 2], i64>| -> Result<(), Stop> {
            let pair = pair.map_err(failed)?;
            slots.into_iter().zip(pair).try_for_each(|(slot, fd)| self.keep(slot, fd.into()))
        };
        let one = |make: &dyn Fn() -> i64| -> Result<(), Stop> {
            slots.into_iter().filter(|slot| *slot != NOWHERE).try_for_each(|slot| {
                let result = make();
                if result < 0 { Err(failed(result)) } else { self.keep(slot, result) }
            })
        };
        match kind {
            StandIn::Null => one(&|| issue::duplicate(self.engine.reserved.null, true)),
            StandIn::Pipe => two(issue::pipe(libc::O_CLOEXEC)),
            StandIn::Socket if slots[1] != NOWHERE => two(issue::socket_pair()),
            StandIn::Socket => one(&|| issue::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)),
            StandIn::Event => one(&|| issue::event(0, libc::EFD_CLOEXEC)),
            StandIn::Epoll => one(&|| issue::epoll(libc::EPOLL_CLOEXEC)),
        }
    }
}
