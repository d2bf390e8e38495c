//! Descriptors that change tables: sent in messages, or taken out of another process.

use super::{CompileError, Compiler, Lowering};
use crate::command::{Arg, Command, Expect, Op, RECEIVED_MARKED, RECEIVED_STAYS};

impl Compiler {
    /// A message with descriptors is sent.
    pub(super) fn pass(&mut self, l: &Lowering<'_>) -> Command {
        let pairs = l.found.passed.iter().filter_map(|p| Some([self.slots.get(p.binding)?, p.letter]));
        Command { list: pairs.flatten().collect(), ..l.bare(Op::Pass) }
    }

    /// A message with descriptors is received.
    pub(super) fn receive(&mut self, l: &Lowering<'_>) -> Command {
        const NONE: u32 = u32::MAX;
        let mut list = Vec::with_capacity(2 * l.found.received.len());
        for received in &l.found.received {
            let slot = received.binding.map_or(NONE, |binding| self.slots.make(l.action.thread, binding));
            list.extend([slot, received.letter.unwrap_or(NONE)]);
        }
        let stays = if l.found.received.iter().any(|r| r.stays) { RECEIVED_STAYS } else { 0 };
        let marked = if l.found.received.iter().any(|r| r.close_on_exec) { RECEIVED_MARKED } else { 0 };
        Command { args: vec![Arg::Value(stays | marked)], list, ..l.bare(Op::Receive) }
    }

    /// A descriptor is taken out of another process.
    pub(super) fn take(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        let slot = l.found.taken.and_then(|taken| self.slots.get(taken.binding));
        let (Some(taken), Some(slot)) = (l.found.taken, slot) else { return self.simulate(l) };
        let args = vec![Arg::Value(taken.thread.into()), Arg::Fd(slot)];
        let mut command = Command { args, expect: Expect::Outcome, ..l.bare(Op::Take) };
        self.produce(l, &mut command);
        Ok(command)
    }
}
