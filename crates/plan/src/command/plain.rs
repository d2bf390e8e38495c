//! Commands that are issued as they stand in the stream: numbers, descriptors and bytes that are read are their arguments, and what
//! they return is all that is judged.
//!
//! Goals: the engine issues them without a [`Command`], which takes three times as long to read. Non-goals: a form of their own (they
//! are written as all others are); whether their arguments are what the call expects.

use super::encoding::Lengths;
use super::{Arg, Expect, Op, StandIn, Tolerance};
use crate::timing::Timing;

/// Words before those of the timing.
const FIXED: usize = 7;

/// A command that has no slots but one that it fills, and no memory that it fills.
#[derive(Debug, Clone, Copy)]
pub struct Plain<'w> {
    /// [`Op::Issue`], [`Op::IssueFd`] or [`Op::Close`].
    pub op: Op,
    /// Of the call.
    pub number: u32,
    /// [`super::Command::origin`].
    pub origin: u64,
    /// What it returned in the trace.
    pub result: i64,
    /// Slot that it fills.
    pub produces: u32,
    /// [`super::Command::timing`].
    pub timing: Timing,
    /// Words of [`super::Wait::from_word`].
    pub waits: &'w [u64],
    /// Words that it takes.
    pub used: usize,
    kinds: [u8; 8],
    args: &'w [u64],
}

impl<'w> Plain<'w> {
    /// The one at the begin of `words`; `None` if what stands there is not plain, or malformed (but for its arguments: [`Plain::args`]).
    #[inline]
    pub fn read(words: &'w [u64]) -> Option<Plain<'w>> {
        let (&[head, origin, result, kinds, _, _, produces], rest) = words.split_first_chunk::<FIXED>()?;
        let [op, stand_in, tolerance, timing] = (head as u32).to_le_bytes();
        Tolerance::from_word(tolerance)?;
        let op = [Op::Issue, Op::IssueFd, Op::Close].into_iter().find(|known| *known as u8 == op)?;
        let kinds = kinds.to_le_bytes();
        let argc = usize::from(kinds[7]);
        let expect = Expect::from_parts(kinds[6], 0, 0)?;
        let is_plain = stand_in == StandIn::Null as u8
            && argc <= 6
            && kinds[..6].iter().all(|kind| *kind <= Arg::BYTES)
            && matches!(expect, Expect::Nothing | Expect::Outcome | Expect::Value);
        let mut rest = rest.iter();
        // Flags of other forms it does not know.
        let timing = Timing::decode(timing, &mut rest)?;
        let taken = kinds[..6].iter().take(argc).map(|kind| 1 + usize::from(*kind == Arg::BYTES)).sum();
        let (args, rest) = rest.as_slice().split_at_checked(taken)?;
        let (lengths, rest) = rest.split_first()?;
        let Lengths { list, waits, .. } = Lengths::of(*lengths);
        let (waits, rest) = rest.split_at_checked(waits)?;
        let used = words.len() - rest.len();
        let number = (head >> 32) as u32 & 0xffff;
        let (result, produces) = (result as i64, produces as u32);
        (is_plain && list == 0 && (head >> 48) as usize == used).then_some(Plain {
            op,
            number,
            origin,
            result,
            produces,
            timing,
            waits,
            used,
            kinds,
            args,
        })
    }

    /// How many arguments it has: at most six.
    #[inline]
    pub fn arity(&self) -> usize {
        self.kinds[7].into()
    }

    /// Its arguments, up to one that is malformed: [`Arg::Value`], [`Arg::Fd`] and [`Arg::Bytes`].
    #[inline]
    pub fn args(&self) -> impl Iterator<Item = Arg> {
        let mut words = self.args.iter();
        self.kinds.into_iter().take(self.arity()).map_while(move |kind| Arg::decode(kind, &mut words))
    }
}

#[cfg(test)]
mod tests {
    use super::Plain;
    use crate::command::{Arg, Command, CommandReader, CommandWriter, Expect, Op, StandIn, Wait};
    use crate::timing::Timing;

    fn written(command: &Command) -> Vec<u64> {
        let mut writer = CommandWriter::default();
        writer.add(command);
        writer.words().to_vec()
    }

    fn commands() -> Vec<Command> {
        let waits = vec![Wait { thread: 3, count: 77, rule: crate::Rule::Single }; 2];
        let timing = Timing { at_ns: 5, predelay_ns: 6, cpu_ns: Some(7), cached: None };
        let base = Command { op: Op::Issue, origin: 9, expect: Expect::Outcome, ..Command::default() };
        let of = |number, args: &[Arg]| Command { number, args: args.to_vec(), ..base.clone() };
        vec![
            of(93, &[Arg::Fd(4), Arg::Value(1), Arg::Value(2)]),
            Command { waits, timing, ..of(280, &[Arg::Fd(1), Arg::Value(0), Arg::Bytes(64, 32), Arg::Value(0)]) },
            Command {
                op: Op::IssueFd,
                produces: [5, u32::MAX],
                result: 3,
                expect: Expect::Value,
                ..of(257, &[Arg::Value(u64::MAX), Arg::Bytes(8, 3), Arg::Value(66), Arg::Value(0o600)])
            },
            Command { op: Op::Close, expect: Expect::Nothing, result: -9, ..of(3, &[Arg::Fd(u32::MAX)]) },
            of(39, &[]),
        ]
    }

    #[test]
    fn it_says_what_the_command_says() {
        for command in commands() {
            let mut words = written(&command);
            let length = words.len();
            words.extend([7, 8]);
            let plain = Plain::read(&words).unwrap();
            let waits: Vec<_> = plain.waits.iter().map(|word| Wait::from_word(*word)).collect();
            let found = Command {
                op: plain.op,
                number: plain.number,
                origin: plain.origin,
                result: plain.result,
                expect: command.expect,
                produces: [plain.produces, u32::MAX],
                timing: plain.timing,
                args: plain.args().collect(),
                waits,
                ..Command::default()
            };
            assert_eq!((found, plain.used, plain.arity()), (command.clone(), length, command.args.len()));
            // Nothing that is cut off is taken for a whole.
            (0..length).for_each(|cut| assert!(Plain::read(&words[..cut]).is_none()));
        }
    }

    #[test]
    fn what_is_not_plain_is_left_to_others() {
        let command = commands().swap_remove(0);
        let out = vec![Arg::Fd(4), Arg::Out(8)];
        let others = [
            Command { op: Op::Simulate, ..command.clone() },
            Command { list: vec![1], ..command.clone() },
            Command { stand_in: StandIn::Pipe, ..command.clone() },
            Command { args: out, ..command.clone() },
            Command { expect: Expect::Metadata(0, 8), ..command.clone() },
            Command { number: 0, args: vec![Arg::Fd(4), Arg::Out(8), Arg::Value(8)], ..command },
        ];
        for command in others {
            let words = written(&command);
            assert!(Plain::read(&words).is_none(), "{command:?}");
            let mut found = Command::default();
            assert_eq!(CommandReader::default().command(&words, &mut found), Some(words.len()));
        }
    }
}
