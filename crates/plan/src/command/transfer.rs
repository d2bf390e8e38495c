//! Reads and writes of one buffer that succeeded: the bulk of most traces, in 64 bytes each.
//!
//! Goals: the engine issues them as they stand in the stream, without a [`Command`]; both forms say the same. Non-goals:
//! vectors, failed calls, descriptors that the program never opened: those are commands like others.
//!
//! Where one is like the one before it, it takes less (`stream`). Words: head, origin, result and place in the page (32 bits each), slot and length (32 bits each), offset in the file, offset of the content in the plan, where content
//! is compared its [`super::digest`], issue, predelay; a word of processor time if the head says so; then waits up to the length in the head.

use super::{Arg, Command, Expect, Op, PAGE_BYTES, StandIn, Tolerance, Wait};
use crate::timing::Timing;

/// Flag in a head's fourth byte, beside those of [`Timing::encode`]: a transfer.
pub(super) const TRANSFER: u8 = 0x80;
/// Words before the timing.
const FIXED: usize = 6;
/// A length in the head that is greater stands nowhere; such a command is encoded whole.
const MOST_WORDS: usize = 0xffff;

/// Which call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `read`.
    Read,
    /// `write`.
    Write,
    /// `pread64`.
    ReadAt,
    /// `pwrite64`.
    WriteAt,
}

impl Way {
    pub(crate) fn of(number: u32) -> Option<Way> {
        Some(match number {
            0 => Way::Read,
            1 => Way::Write,
            17 => Way::ReadAt,
            18 => Way::WriteAt,
            _ => return None,
        })
    }

    /// x86-64 number of the call.
    pub const fn number(self) -> u32 {
        match self {
            Way::Read => 0,
            Way::Write => 1,
            Way::ReadAt => 17,
            Way::WriteAt => 18,
        }
    }

    /// Whether the offset is an argument.
    pub const fn is_at(self) -> bool {
        matches!(self, Way::ReadAt | Way::WriteAt)
    }

    /// Whether content is read.
    pub const fn reads(self) -> bool {
        matches!(self, Way::Read | Way::ReadAt)
    }
}

/// What is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Judged {
    Nothing = 0,
    Outcome,
    Value,
    Content,
    Digest,
}

/// A read or write of one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The action: `actions.seq` of the trace.
    pub origin: u64,
    /// Which call.
    pub way: Way,
    /// Bytes that were transferred in the trace.
    pub result: u64,
    /// Slot of the descriptor.
    pub slot: u32,
    /// Bytes that were asked for.
    pub length: u32,
    /// Offset in the file, where it is an argument.
    pub offset: u64,
    /// What is judged.
    pub expect: Expect,
    /// [`Command::digest`]; 0 where no content is judged.
    pub digest: u64,
    /// Of a write: offset of its content in `buffers`.
    pub content: u64,
    /// Where in its page the program's memory began ([`Command::within`]).
    pub within: u16,
    /// What differs unavoidably.
    pub tolerance: Tolerance,
    /// When it was issued in the trace.
    pub timing: Timing,
}

impl Transfer {
    /// A command in this form, if it has it.
    pub fn of(command: &Command) -> Option<Transfer> {
        let way = Way::of(command.number)?;
        let result = u32::try_from(command.result).ok()?.into();
        let plain = command.op == Op::Issue
            && command.stand_in == StandIn::Null
            && command.produces == [u32::MAX; 2]
            && command.list.is_empty()
            && command.waits.len() + FIXED + 4 < MOST_WORDS;
        let (slot, memory, asked, offset) = match (way.is_at(), command.args.as_slice()) {
            (false, [Arg::Fd(slot), memory, Arg::Value(asked)]) => (*slot, *memory, *asked, 0),
            (true, [Arg::Fd(slot), memory, Arg::Value(asked), Arg::Value(offset)]) => (*slot, *memory, *asked, *offset),
            _ => return None,
        };
        let length = u32::try_from(asked).ok()?;
        let content = match (way.reads(), memory) {
            (true, Arg::Out(room)) if room == asked => 0,
            (false, Arg::Content(at, bytes)) if bytes == asked => at,
            _ => return None,
        };
        let expectable = match command.expect {
            Expect::Nothing | Expect::Outcome | Expect::Value => true,
            Expect::Content(_, bytes) | Expect::Digest(_, bytes) => way.reads() && bytes == result,
            Expect::Metadata(..) | Expect::Listing(..) | Expect::Names(..) | Expect::Flock(_) => false,
        };
        let Command { origin, expect, tolerance, timing, within, .. } = *command;
        let digest = if matches!(expect, Expect::Content(..)) { command.digest } else { 0 };
        (plain && expectable).then_some(Transfer {
            origin,
            way,
            result,
            slot,
            length,
            offset,
            expect,
            digest,
            content,
            within,
            tolerance,
            timing,
        })
    }

    /// The command of which this is a form, without waits; all that `command` holds is replaced.
    pub fn expand(&self, command: &mut Command) {
        let length = u64::from(self.length);
        command.origin = self.origin;
        command.number = self.way.number();
        command.op = Op::Issue;
        command.stand_in = StandIn::Null;
        command.tolerance = self.tolerance;
        command.result = self.result as i64;
        command.produces = [u32::MAX; 2];
        command.args.clear();
        let memory = if self.way.reads() { Arg::Out(length) } else { Arg::Content(self.content, length) };
        command.args.extend([Arg::Fd(self.slot), memory, Arg::Value(length)]);
        command.args.extend(self.way.is_at().then_some(Arg::Value(self.offset)));
        command.within = self.within;
        command.expect = self.expect;
        command.digest = self.digest;
        command.list.clear();
        command.waits.clear();
        command.timing = self.timing;
    }

    pub(super) fn encode(&self, waits: &[Wait], stream: &mut Vec<u64>) {
        let start = stream.len();
        let (judged, at) = match self.expect {
            Expect::Nothing => (Judged::Nothing, self.content),
            Expect::Outcome => (Judged::Outcome, self.content),
            Expect::Content(at, _) => (Judged::Content, at),
            Expect::Digest(at, _) => (Judged::Digest, at),
            _ => (Judged::Value, self.content),
        };
        let place = u64::from(self.slot) | u64::from(self.length) << 32;
        let result = self.result | u64::from(self.within) << 32;
        stream.extend([0, self.origin, result, place, self.offset, at]);
        stream.extend((judged == Judged::Content).then_some(self.digest));
        let timing = self.timing.encode(stream);
        stream.extend(waits.iter().map(|wait| wait.to_word()));
        let head = [Op::Issue as u8, judged as u8, self.tolerance as u8, timing | TRANSFER];
        let length = (stream.len() - start) as u64;
        stream[start] = u64::from(u32::from_le_bytes(head)) | u64::from(self.way.number()) << 32 | length << 48;
    }

    /// The transfer at the begin of `words`, of which `head` is the first, its waits ([`Wait::from_word`]) and its length in
    /// words; `None` if it is malformed.
    #[inline]
    pub(super) fn decode(words: &[u64], head: u64) -> Option<(Transfer, &[u64], usize)> {
        let bytes = (head as u32).to_le_bytes();
        let all = words.get(..(head >> 48) as usize)?;
        let (fixed, rest) = all.split_first_chunk::<FIXED>()?;
        let mut rest = rest.iter();
        let digest = if bytes[1] == Judged::Content as u8 { *rest.next()? } else { 0 };
        let timing = Timing::decode(bytes[3] & !TRANSFER, &mut rest)?;
        let way = Way::of((head >> 32) as u32 & 0xffff)?;
        let [_, origin, came, place, offset, at] = *fixed;
        let (result, within) = (came & 0xffff_ffff, came >> 32);
        let expect = match bytes[1] {
            0 => Expect::Nothing,
            1 => Expect::Outcome,
            2 => Expect::Value,
            3 if way.reads() => Expect::Content(at, result),
            4 if way.reads() => Expect::Digest(at, result),
            _ => return None,
        };
        let is_sound = bytes[0] == Op::Issue as u8 && within < PAGE_BYTES;
        let transfer = Transfer {
            origin,
            way,
            result,
            slot: place as u32,
            length: (place >> 32) as u32,
            offset,
            expect,
            digest,
            content: if way.reads() { 0 } else { at },
            within: within as u16,
            tolerance: Tolerance::from_word(bytes[2])?,
            timing,
        };
        is_sound.then_some((transfer, rest.as_slice(), all.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CommandReader, CommandWriter};

    fn read(words: &[u64]) -> Option<(Command, usize)> {
        let mut command = Command::default();
        let used = CommandReader::default().command(words, &mut command)?;
        Some((command, used))
    }

    fn commands() -> Vec<Command> {
        let waits = vec![Wait { thread: 3, count: 77, rule: crate::Rule::Single }];
        let timing = Timing { at_ns: 5, predelay_ns: 6, cpu_ns: Some(7), cached: Some(false) };
        let base = Command { op: Op::Issue, origin: 9, result: 100, ..Command::default() };
        let of = |number, args: &[Arg], expect| Command { number, args: args.to_vec(), expect, ..base.clone() };
        let (fd, asked) = (Arg::Fd(4), Arg::Value(128));
        let read = of(17, &[fd, Arg::Out(128), asked, Arg::Value(4096)], Expect::Content(640, 100));
        vec![
            Command { waits: waits.clone(), timing, digest: u64::MAX >> 1, ..read.clone() },
            Command { tolerance: Tolerance::Random, within: 4095, ..read },
            of(0, &[fd, Arg::Out(128), asked], Expect::Digest(64, 100)),
            of(0, &[fd, Arg::Out(128), asked], Expect::Nothing),
            of(1, &[fd, Arg::Content(64, 128), asked], Expect::Value),
            Command { waits, ..of(18, &[fd, Arg::Content(64, 128), asked, Arg::Value(1)], Expect::Outcome) },
        ]
    }

    #[test]
    fn both_forms_say_the_same() {
        for command in commands() {
            let mut writer = CommandWriter::default();
            writer.add(&command);
            let mut words = writer.words().to_vec();
            let length = words.len();
            let more = usize::from(command.timing.cpu_ns.is_some())
                + usize::from(matches!(command.expect, Expect::Content(..)));
            assert_eq!(length, 8 + command.waits.len() + more);
            words.extend([1, 2, 3]);
            assert_eq!(read(&words), Some((command, length)));
            // Nothing that is cut off is taken for a whole.
            (0..length).for_each(|cut| assert_eq!(read(&words[..cut]), None));
        }
    }

    #[test]
    fn what_is_not_plain_stays_a_command() {
        let command = commands().swap_remove(2);
        let others = [
            Command { result: -5, ..command.clone() },
            Command { number: 19, ..command.clone() },
            Command { list: vec![1], within: 16, ..command.clone() },
            Command { args: vec![Arg::Value(u64::MAX), Arg::Out(128), Arg::Value(128)], ..command.clone() },
            Command { expect: Expect::Content(64, 99), ..command },
        ];
        for command in others {
            assert_eq!(Transfer::of(&command), None, "{command:?}");
            let mut writer = CommandWriter::default();
            writer.add(&command);
            assert_eq!(read(writer.words()).map(|(found, _)| found), Some(command));
        }
    }
}
