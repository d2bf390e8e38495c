//! What an asynchronous request asks for, as the call that it stands for.
//!
//! Goals: both interfaces, one result; pure functions of the bytes that a program wrote. Non-goals: where these bytes are,
//! when the request is complete.

use reprise_calls::closing::RING_NUMBERS;
use reprise_calls::moving::{End, ends};
use reprise_calls::{Call, Effect, by_name};
use reprise_trace::payload::append;

use crate::arguments::{self, Inputs};
use crate::log::Log;
use crate::memory::Memory;

/// How what the call points at is found, where it is not as in the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// As in the call.
    AsCalled,
    /// The vector of the call is one buffer, whose address and length stand in the place of the vector's.
    OneBuffer(u64),
    /// Positions of a `splice` are numbers, not pointers.
    Positions([Option<u64>; 2]),
}

/// A request as a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The call.
    pub call: &'static Call,
    /// Its arguments.
    pub args: [u64; 6],
    /// Where they lead.
    pub shape: Shape,
}

impl Asked {
    /// A call of the table with these arguments.
    pub fn call(name: &str, args: &[u64]) -> Option<Asked> {
        let mut six = [0; 6];
        six[..args.len()].copy_from_slice(args);
        Some(Asked { call: by_name(name)?, args: six, shape: Shape::AsCalled })
    }

    /// A read or write of one buffer; a position of -1 is the descriptor's own.
    pub fn buffer(writes: bool, fd: u64, (address, length): (u64, u64), position: u64, flags: u64) -> Option<Asked> {
        let one = [fd, address, length, position];
        match (writes, position, flags) {
            (false, u64::MAX, 0) => Asked::call("read", &one[..3]),
            (true, u64::MAX, 0) => Asked::call("write", &one[..3]),
            (false, _, 0) => Asked::call("pread64", &one),
            (true, _, 0) => Asked::call("pwrite64", &one),
            _ => {
                let name = if writes { "pwritev2" } else { "preadv2" };
                let asked = Asked::call(name, &[fd, address, 1, position, 0, flags])?;
                Some(Asked { shape: Shape::OneBuffer(length), ..asked })
            }
        }
    }

    /// As [`Asked::buffer`], of several.
    pub fn vector(writes: bool, fd: u64, (address, count): (u64, u64), position: u64, flags: u64) -> Option<Asked> {
        let several = [fd, address, count, position, 0, flags];
        match (writes, position, flags) {
            (false, u64::MAX, 0) => Asked::call("readv", &several[..3]),
            (true, u64::MAX, 0) => Asked::call("writev", &several[..3]),
            (false, _, 0) => Asked::call("preadv", &several[..5]),
            (true, _, 0) => Asked::call("pwritev", &several[..5]),
            (false, ..) => Asked::call("preadv2", &several),
            (true, ..) => Asked::call("pwritev2", &several),
        }
    }

    /// Whether it names its buffers by a vector in the program's memory.
    pub fn is_vector(&self) -> bool {
        use reprise_calls::ArgKind::{InVector, OutVector};
        let names = self.call.position(|kind| matches!(kind, InVector(_) | OutVector(_)));
        self.shape == Shape::AsCalled && names.is_some()
    }

    /// A transfer by a vector becomes one of this buffer.
    pub fn becomes_one_buffer(&mut self, address: u64, length: u64) {
        let [fd, _, _, position, _, flags] = self.args;
        let position = if self.call.offset_arg().is_some() { position } else { u64::MAX };
        let flags = if matches!(self.call.name, "preadv2" | "pwritev2") { flags } else { 0 };
        let one = Asked::buffer(self.writes(), fd, (address, length), position, flags);
        one.into_iter().for_each(|one| *self = one);
    }

    /// What the `input` column tells of it that does not stand in the program's memory as the call has it.
    pub fn shape_input(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.shape {
            Shape::AsCalled => {}
            Shape::OneBuffer(length) => append(&mut out, Some(&length.to_le_bytes())),
            Shape::Positions(positions) => positions
                .into_iter()
                .for_each(|at| append(&mut out, at.map(u64::to_le_bytes).as_ref().map(|bytes| &bytes[..]))),
        }
        out
    }

    /// Whether it moves content inside the kernel from, or to, what is in a ring's table.
    pub fn moves_by_table(&self) -> bool {
        let is_in_table = |end: End| self.args[end.fd] as u32 >= RING_NUMBERS;
        ends(self.call).is_some_and(|ends| is_in_table(ends.source) || is_in_table(ends.target))
    }

    /// Whether it is given content.
    pub fn writes(&self) -> bool {
        use reprise_calls::ArgKind::{InData, InVector};
        self.call.position(|kind| matches!(kind, InData(_) | InVector(_))).is_some()
    }

    /// The descriptor whose position it moves.
    pub fn moves(&self) -> Option<u32> {
        let transfers = matches!(self.call.effect, Effect::Read | Effect::Write);
        let own = self.call.offset_arg().is_none_or(|i| self.args[i] == u64::MAX);
        (transfers && own).then_some(self.args[0] as u32)
    }

    /// Reads what it is given.
    pub fn inputs(&self, memory: Memory, log: &mut Log) -> Inputs {
        match self.shape {
            Shape::AsCalled => arguments::inputs(memory, self.call, &self.args, log),
            Shape::OneBuffer(length) => {
                let buffers = [(self.args[1], length)].into();
                let mut out = Inputs { buffers, input: self.shape_input(), ..Inputs::default() };
                if self.writes() {
                    self.read_again(&mut out, memory, log);
                }
                out
            }
            Shape::Positions(_) => Inputs { input: self.shape_input(), ..Inputs::default() },
        }
    }

    /// Takes the content given as it is now.
    pub fn read_again(&self, inputs: &mut Inputs, memory: Memory, log: &mut Log) {
        (inputs.data, inputs.kept) =
            arguments::content(memory, &inputs.buffers, u64::MAX, arguments::keep(self.call), log);
    }
}
