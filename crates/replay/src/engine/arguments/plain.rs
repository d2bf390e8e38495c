//! Arguments of plain commands ([`Plain`]): what each call takes is looked up once, and nothing is laid out in memory.
//!
//! Goals: the same arguments as [`super::prepare`] gives, which does the rest too. Non-goals: errors; what is not as it should be is
//! left to that as well.

use reprise_calls::{ArgKind, Call, Effect, Replay, Returns, Struct};
use reprise_plan::command::{Arg, Op, Plain};

use super::super::{Sections, Slots};
use super::layout::Layout;
use super::{Checked, descriptor, pointer, text};

/// What an argument has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Number,
    Descriptor,
    Text,
    /// Memory of so many bytes that the call reads.
    Structure(u64),
    /// Memory whose content the replay does not give.
    Address,
}

impl Shape {
    fn of(kind: ArgKind) -> Option<Shape> {
        Some(match kind {
            ArgKind::Fd(_) | ArgKind::Dirfd => Shape::Descriptor,
            ArgKind::Path(_) | ArgKind::Text => Shape::Text,
            ArgKind::Address | ArgKind::Environment => Shape::Address,
            // How long these are other arguments say.
            ArgKind::In(Struct::Sized(_) | Struct::CloneArgs(_) | Struct::Words(_) | Struct::ByCommand) => return None,
            ArgKind::In(structure) => Shape::Structure(structure.size()? as u64),
            ArgKind::Flags(_)
            | ArgKind::Command(_)
            | ArgKind::Mode
            | ArgKind::Offset
            | ArgKind::Length
            | ArgKind::Integer
            | ArgKind::Number
            | ArgKind::Device
            | ArgKind::Owner
            | ArgKind::Submits
            | ArgKind::Reaps => Shape::Number,
            ArgKind::Strings
            | ArgKind::InData(_)
            | ArgKind::OutData(_)
            | ArgKind::InVector(_)
            | ArgKind::OutVector(_)
            | ArgKind::Out(_)
            | ArgKind::InOut(_) => return None,
        })
    }
}

/// What a call takes.
#[derive(Debug, Clone, Copy)]
struct Row {
    shapes: [Shape; 6],
    count: usize,
    makes_descriptor: bool,
}

impl Row {
    /// `None` if its commands are not performed as they stand: what `guard` looks at, and what fills memory.
    fn of(call: &Call) -> Option<Row> {
        let is_guarded = matches!(call.effect, Effect::Control | Effect::DeviceControl | Effect::Lock);
        if is_guarded || call.replay != Replay::Issue || call.is_pseudo() {
            return None;
        }
        let mut shapes = [Shape::Number; 6];
        for (shape, arg) in shapes.iter_mut().zip(call.args) {
            *shape = Shape::of(arg.kind)?;
        }
        Some(Row { shapes, count: call.args.len(), makes_descriptor: call.returns == Returns::Fd })
    }
}

/// What calls take, by their numbers.
#[derive(Debug)]
pub(in crate::engine) struct Rows(Vec<Option<Row>>);

impl Rows {
    pub(in crate::engine) fn new() -> Rows {
        Rows((0..512).map(|number| reprise_calls::by_number(number).and_then(Row::of)).collect())
    }

    /// Prepares a command's arguments; `None` if it is to be performed as all others.
    #[inline]
    pub(in crate::engine) fn prepare(&self, sections: &Sections, slots: &Slots, plain: &Plain<'_>) -> Option<Checked> {
        let row = self.0.get(plain.number as usize)?.as_ref()?;
        let is_its = match plain.op {
            Op::Issue => true,
            Op::IssueFd => row.makes_descriptor,
            Op::Close => i64::from(plain.number) == libc::SYS_close,
            _ => false,
        };
        if !is_its || plain.arity() != row.count {
            return None;
        }
        let mut words = [0u64; 6];
        let mut args = plain.args();
        for (word, shape) in words.iter_mut().zip(row.shapes).take(row.count) {
            // One that cannot be decoded ends them early.
            *word = match (shape, args.next()?) {
                (Shape::Number, Arg::Value(number)) => number,
                (Shape::Descriptor, value) => descriptor(slots, value).ok()?,
                (Shape::Text, value) => text(sections, value).ok()?,
                (Shape::Structure(_) | Shape::Address, Arg::Value(address)) => pointer(address),
                (Shape::Structure(need), Arg::Bytes(offset, length)) if length >= need => {
                    Layout::slice(&sections.bytes, offset, length).ok()?.as_ptr() as u64
                }
                _ => return None,
            };
        }
        Some(Checked { words })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use reprise_plan::command::{Arg, Command, CommandWriter, Expect, Op, Plain};

    use super::super::super::memory::{Scratch, Section};
    use super::super::super::{Sections, Slots};
    use super::super::prepare;
    use super::{Row, Rows, Shape};

    const TEXT: &[u8] = b"some/path\0";

    fn row(name: &str) -> Option<Row> {
        Row::of(reprise_calls::by_name(name).unwrap())
    }

    /// A text, then what structures are taken from.
    fn sections() -> Sections {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(TEXT).unwrap();
        file.write_all(&[7; 4096 - TEXT.len()]).unwrap();
        let map = || Section::map(&file, 0, 4096).unwrap();
        Sections { commands: map(), bytes: map(), buffers: map() }
    }

    /// Arguments that a call may have, the `variant`-th.
    fn argument(shape: Shape, variant: usize) -> Arg {
        let text = Arg::Bytes(0, TEXT.len() as u64 - 1);
        let choices = match shape {
            Shape::Number => [Arg::Value(0), Arg::Value(u64::MAX), Arg::Fd(1), Arg::Out(8)],
            Shape::Descriptor => [Arg::Fd(1), Arg::Fd(2), Arg::Value(-100i64 as u64), Arg::Value(7)],
            Shape::Text => [text, Arg::Value(0), Arg::Value(0x1000), Arg::Bytes(0, 4)],
            Shape::Structure(need) => {
                [Arg::Bytes(64, need), Arg::Value(0), Arg::Bytes(64, need.saturating_sub(1)), Arg::Bytes(4090, need)]
            }
            Shape::Address => [Arg::Value(0), Arg::Value(1 << 40), Arg::Fd(1), text],
        };
        choices[variant % choices.len()]
    }

    #[test]
    fn arguments_are_those_that_all_commands_get() {
        let (sections, slots, rows, mut scratch) = (sections(), Slots::new(3), Rows::new(), Scratch::default());
        slots.set(1, 5).unwrap();
        let (mut equal, mut left) = (0, 0);
        for call in reprise_calls::all().filter(|call| !call.is_pseudo()) {
            let Some(row) = Row::of(call) else { continue };
            for variants in 0..4usize.pow(row.count as u32) {
                let args = (0..row.count).map(|i| argument(row.shapes[i], variants / 4usize.pow(i as u32)));
                let op = if call.name == "close" { Op::Close } else { Op::Issue };
                let args = args.collect();
                let command = Command { op, number: call.number, args, expect: Expect::Outcome, ..Command::default() };
                let mut writer = CommandWriter::default();
                writer.add(&command);
                let Some(found) = Plain::read(writer.words()).and_then(|p| rows.prepare(&sections, &slots, &p)) else {
                    left += 1;
                    continue;
                };
                let wanted = prepare(&sections, &slots, &mut scratch, &command, call).unwrap().unwrap();
                assert_eq!(found.words, wanted.checked.words, "{} {command:?}", call.name);
                equal += 1;
            }
        }
        assert!(equal > 1000 && left > 1000, "{equal} equal, {left} left to others");
    }

    #[test]
    fn an_argument_that_cannot_be_decoded_is_not_left_out() {
        let (sections, slots, rows) = (sections(), Slots::new(3), Rows::new());
        let number = reprise_calls::by_name("fsync").unwrap().number;
        let command = Command { op: Op::Issue, number, args: vec![Arg::Fd(1)], ..Command::default() };
        let mut writer = CommandWriter::default();
        writer.add(&command);
        let mut words = writer.words().to_vec();
        let prepared = |words: &[u64]| Plain::read(words).and_then(|plain| rows.prepare(&sections, &slots, &plain));
        assert!(prepared(&words).is_some());
        let slot = words.iter_mut().rfind(|word| **word == 1).unwrap();
        *slot = 1 << 32;
        assert!(prepared(&words).is_none());
    }

    #[test]
    fn calls_that_need_more_than_words_are_not_plain() {
        let others =
            ["read", "write", "pwritev", "fstat", "fcntl", "ioctl", "flock", "mmap", "unshare", "execve", "statx"];
        for name in others {
            assert!(row(name).is_none(), "{name}");
        }
    }

    #[test]
    fn shapes_are_those_of_the_table() {
        let openat = row("openat").unwrap();
        assert!(openat.makes_descriptor);
        assert_eq!(openat.shapes[..4], [Shape::Descriptor, Shape::Text, Shape::Number, Shape::Number]);
        let utimensat = row("utimensat").unwrap();
        assert_eq!(
            (utimensat.shapes[2], utimensat.count, utimensat.makes_descriptor),
            (Shape::Structure(32), 4, false)
        );
        assert_eq!(row("fsync").unwrap().shapes[0], Shape::Descriptor);
    }
}
