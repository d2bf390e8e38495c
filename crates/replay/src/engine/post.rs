//! Descriptors that change tables: sent in messages, or taken.
//!
//! Goals: a descriptor is on its way as long as the trace says, whatever the sender closes meanwhile, and reaches whoever
//! receives it there. Non-goals: the messages themselves, which are not sent.
//!
//! A thread with a table of its own keeps what is on its way. Others talk to it one at a time, over a pair of sockets that
//! stands in every table.

use std::collections::HashMap;
use std::sync::OnceLock;

use reprise_plan::command::{Arg, Command, RECEIVED_MARKED, RECEIVED_STAYS};

use super::failure::{Failure, Stop};
use super::issue::{self, message};
use super::thread::{Done, Worker};
use super::{Engine, lock, spawn};
use crate::log::{Difference, Handling};

const NONE: u32 = u32::MAX;
const STACK_BYTES: usize = 64 << 10;

/// What is asked of the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Wish {
    Keep = 1,
    /// The keeper has it no more after that.
    Fetch,
    /// The keeper has it still.
    Copy,
}

/// Whether the keeper was started, and well.
pub(super) type Keeper = OnceLock<bool>;

impl Worker {
    /// A message with descriptors is sent.
    pub(super) fn pass(&mut self, command: &Command) -> Result<Done, Stop> {
        for pair in command.list.as_chunks::<2>().0 {
            let [slot, letter] = *pair;
            // One that could not be opened here cannot be passed either.
            let number = self.engine.slots.get(slot)?;
            if number >= 0 {
                self.ask(Wish::Keep, letter, Some(number), true)?;
            }
        }
        Ok(Done { result: command.result, ..Done::not_issued(Handling::Issued, command, Difference::NONE) })
    }

    /// A message with descriptors is received.
    pub(super) fn receive(&mut self, command: &Command) -> Result<Done, Stop> {
        let how = if let Some(Arg::Value(how)) = command.args.first() { *how } else { 0 };
        let wish = if how & RECEIVED_STAYS != 0 { Wish::Copy } else { Wish::Fetch };
        let is_marked = how & RECEIVED_MARKED != 0;
        for pair in command.list.as_chunks::<2>().0 {
            let [slot, letter] = *pair;
            if letter == NONE {
                self.stand_in(command.stand_in, [slot, NONE])?;
                continue;
            }
            let number = self.ask(wish, letter, None, is_marked)?;
            self.keep(slot, number.map_or(-1, i64::from))?;
        }
        Ok(Done { result: command.result, ..Done::not_issued(Handling::Issued, command, Difference::NONE) })
    }

    /// Asks the keeper. What it gives is marked for the next program, or not.
    fn ask(&self, wish: Wish, letter: u32, number: Option<i32>, is_marked: bool) -> Result<Option<i32>, Stop> {
        let engine = self.engine;
        let [here, _] = engine.reserved.post;
        let failed = |result: i64| match engine.counters.stopping() {
            true => Stop::Told,
            false => Failure::system("pass a descriptor on", result).into(),
        };
        let _turn = lock(&engine.post_turn);
        if !engine.keeper.get_or_init(|| start(engine)) {
            return Err(failed(-i64::from(libc::EAGAIN)));
        }
        let sent = message::send(here, [wish as u32, letter], number);
        match sent {
            // Closed here, where it was open in the trace: it cannot be passed.
            error if error == -i64::from(libc::EBADF) => return Ok(None),
            error @ ..0 => return Err(failed(error)),
            _ => {}
        }
        message::receive(here, is_marked).map(|(_, number)| number).map_err(failed)
    }

    /// `pidfd_getfd`.
    pub(super) fn take(&mut self, command: &Command) -> Result<Done, Stop> {
        let (Some(Arg::Value(thread)), number) = (command.args.first(), self.descriptor(command, 1)?) else {
            return Err(Stop::Damaged("an argument is not of the kind that its call takes"));
        };
        let owner = u32::try_from(*thread).ok().and_then(|thread| self.engine.counters.get(thread));
        let owner = owner.ok_or(Stop::Damaged("it takes a descriptor from a thread that does not exist"))?;
        let tid = owner.tid.load(std::sync::atomic::Ordering::SeqCst);
        let result = issue::take_descriptor(tid, number);
        if result == -i64::from(libc::EINVAL) {
            self.engine.note("a descriptor of another process could not be taken: that needs Linux 6.9");
        }
        self.keep(command.produces[0], result)?;
        self.judged_number(command, result)
    }
}

/// Starts the keeper. The thread that does shares its table with it for a moment.
fn start(engine: &'static Engine) -> bool {
    let body = move || {
        if spawn::unshare(false, false).is_ok() {
            issue::close_range(0, u32::try_from(engine.reserved.first - 1).unwrap_or(0));
            serve(engine.reserved.post[1]);
        }
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(body).is_ok()
}

/// The keeper's whole life; it ends with the process.
fn serve(socket: i32) {
    let mut kept: HashMap<u32, i32> = HashMap::new();
    loop {
        let ([wish, letter], given) = match message::receive(socket, true) {
            Ok(request) => request,
            Err(error) if error == -i64::from(libc::EINTR) => continue,
            Err(_) => return,
        };
        let answer = match wish {
            w if w == Wish::Keep as u32 => {
                if let Some(before) = given.and_then(|number| kept.insert(letter, number)) {
                    issue::close(before);
                }
                None
            }
            w if w == Wish::Copy as u32 => kept.get(&letter).copied(),
            _ => kept.remove(&letter),
        };
        message::send(socket, [wish, letter], answer);
        if let (true, Some(number)) = (wish == Wish::Fetch as u32, answer) {
            issue::close(number);
        }
    }
}
