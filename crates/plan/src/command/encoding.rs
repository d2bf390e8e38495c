//! A command as 64-bit words, and back.
//!
//! Layout: `docs/FORMAT.md`, "Plan". Reads and writes of one buffer, the bulk of most traces, have shorter forms of their own
//! (`transfer`, `stream`).

use super::{Arg, Command, Expect, Op, PAGE_BYTES, StandIn, Tolerance, Wait};
use crate::timing::Timing;

/// Bits of the number of waits, and of that of further slots behind it; then the place in the page.
const COUNT_BITS: u32 = 26;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// What stands behind the arguments.
pub(super) struct Lengths {
    /// Further slots.
    pub list: usize,
    pub waits: usize,
    /// [`Command::within`].
    pub within: u16,
}

impl Lengths {
    #[inline]
    pub fn of(word: u64) -> Lengths {
        let (list, waits) = ((word >> COUNT_BITS & COUNT) as usize, (word & COUNT) as usize);
        Lengths { list, waits, within: (word >> (2 * COUNT_BITS)) as u16 }
    }
}

impl Arg {
    /// Kind of [`Arg::Bytes`]; those below it take one word.
    pub(super) const BYTES: u8 = 2;

    fn encode(self, words: &mut Vec<u64>) -> u8 {
        let (tag, first, second) = match self {
            Arg::Value(v) => (0, v, None),
            Arg::Fd(slot) => (1, slot.into(), None),
            Arg::Bytes(o, l) => (Self::BYTES, o, Some(l)),
            Arg::Content(o, l) => (3, o, Some(l)),
            Arg::Out(l) => (4, l, None),
            Arg::InOut(o, l) => (5, o, Some(l)),
            Arg::ContentVector(o, d) => (6, o, Some(d)),
            Arg::OutVector(o) => (7, o, None),
            Arg::Mapped(slot, delta) => (8, slot.into(), Some(delta)),
        };
        words.push(first);
        words.extend(second);
        tag
    }

    #[inline]
    pub(super) fn decode(tag: u8, words: &mut std::slice::Iter<'_, u64>) -> Option<Arg> {
        let mut next = || words.next().copied();
        let slot = |word: u64| u32::try_from(word).ok();
        Some(match tag {
            0 => Arg::Value(next()?),
            1 => Arg::Fd(slot(next()?)?),
            Self::BYTES => Arg::Bytes(next()?, next()?),
            3 => Arg::Content(next()?, next()?),
            4 => Arg::Out(next()?),
            5 => Arg::InOut(next()?, next()?),
            6 => Arg::ContentVector(next()?, next()?),
            7 => Arg::OutVector(next()?),
            8 => Arg::Mapped(slot(next()?)?, next()?),
            _ => return None,
        })
    }
}

impl Expect {
    fn parts(self) -> (u8, u64, u64) {
        match self {
            Expect::Nothing => (0, 0, 0),
            Expect::Outcome => (1, 0, 0),
            Expect::Value => (2, 0, 0),
            Expect::Content(a, b) => (3, a, b),
            Expect::Digest(a, b) => (4, a, b),
            Expect::Metadata(a, b) => (5, a, b),
            Expect::Listing(a, b) => (6, a, b),
            Expect::Names(a, b) => (7, a, b),
            Expect::Flock(a) => (8, a, 0),
        }
    }

    #[inline]
    pub(super) fn from_parts(tag: u8, a: u64, b: u64) -> Option<Expect> {
        Some(match tag {
            0 => Expect::Nothing,
            1 => Expect::Outcome,
            2 => Expect::Value,
            3 => Expect::Content(a, b),
            4 => Expect::Digest(a, b),
            5 => Expect::Metadata(a, b),
            6 => Expect::Listing(a, b),
            7 => Expect::Names(a, b),
            8 => Expect::Flock(a),
            _ => return None,
        })
    }
}

impl Command {
    /// Appends the command to a stream of words.
    pub(super) fn encode(&self, stream: &mut Vec<u64>) {
        let start = stream.len();
        let (expect, a, b) = self.expect.parts();
        stream.extend([0, self.origin, self.result as u64, 0, a, b]);
        stream.push(u64::from(self.produces[0]) | u64::from(self.produces[1]) << 32);
        let timing = self.timing.encode(stream);
        let mut tags = [0u8; 8];
        for (tag, arg) in tags.iter_mut().zip(&self.args) {
            *tag = arg.encode(stream);
        }
        tags[6] = expect;
        tags[7] = self.args.len() as u8;
        let place = u64::from(self.within) % PAGE_BYTES;
        stream.push(place << (2 * COUNT_BITS) | (self.list.len() as u64) << COUNT_BITS | self.waits.len() as u64);
        stream.extend(self.list.iter().map(|s| u64::from(*s)));
        stream.extend(self.waits.iter().map(|w| w.to_word()));
        stream[start + 3] = u64::from_le_bytes(tags);
        let head = [self.op as u8, self.stand_in as u8, self.tolerance as u8, timing];
        let length = (stream.len() - start) as u64;
        stream[start] = u64::from(u32::from_le_bytes(head)) | (u64::from(self.number) & 0xffff) << 32 | length << 48;
        // A command of 65,535 words or more names thousands of slots or threads; its length is then in the list word's stead.
        if length >= 0xffff {
            stream[start] |= 0xffff << 48;
        }
    }

    /// Decodes the command at the begin of `words`, which is no transfer, into one whose memory is used again; its length in words.
    /// `None` if it is malformed; its content is of no use then.
    pub(super) fn decode_from(&mut self, words: &[u64]) -> Option<usize> {
        let mut at = words.iter();
        let mut next = || at.next().copied();
        let (head, origin, result, tags) = (next()?, next()?, next()?, next()?);
        let (a, b, produces) = (next()?, next()?, next()?);
        let bytes = (head as u32).to_le_bytes();
        self.timing = Timing::decode(bytes[3], &mut at)?;
        let tags = tags.to_le_bytes();
        let argc = usize::from(tags[7]);
        if argc > 6 {
            return None;
        }
        self.args.clear();
        for tag in &tags[..argc] {
            self.args.push(Arg::decode(*tag, &mut at)?);
        }
        let Lengths { list: lists, waits, within } = Lengths::of(at.next().copied()?);
        let rest = at.as_slice();
        self.list.clear();
        for word in rest.get(..lists)? {
            self.list.push(u32::try_from(*word).ok()?);
        }
        self.waits.clear();
        let words_of_waits = rest[lists..].get(..waits)?;
        self.waits.extend(words_of_waits.iter().map(|w| Wait::from_word(*w)));
        let used = words.len() - rest.len() + lists + waits;
        self.origin = origin;
        self.number = (head >> 32) as u32 & 0xffff;
        self.op = Op::from_word(bytes[0])?;
        self.stand_in = StandIn::from_word(bytes[1])?;
        self.tolerance = Tolerance::from_word(bytes[2])?;
        self.result = result as i64;
        self.produces = [produces as u32, (produces >> 32) as u32];
        self.expect = Expect::from_parts(tags[6], a, b)?;
        self.digest = 0;
        self.within = within;
        let length = (head >> 48) as usize;
        (length == used || length == 0xffff).then_some(used)
    }
}
