//! The commands of one chunk, one after the other.
//!
//! Programs repeat themselves: a transfer often differs from the one before it by its place and its instants alone. Such a one
//! takes 16 bytes instead of 64, and up to 64 where more is different; a read whose content is not compared 8, if little time has passed: a
//! plan of reads is read from its device up to eight times as fast.
//!
//! Goals: whoever reads a chunk from its begin finds what was added; a reader survives any words. Non-goals: reading from the
//! middle of a chunk.
//!
//! Words of such a transfer: distance of the action to that of the transfer before (16 bits), [`parts`] (8), flags of the timing (8),
//! predelay (32); distance of the instant of issue (32), offset in the file (32); then what [`parts`] say. The word of a brief one:
//! distance of the action (8 bits), of the instant of issue (16), flags of the timing (8), predelay (12), offset in units of its length (20).

use super::transfer::{TRANSFER, Transfer};
use super::{Command, Expect, PAGE_BYTES, Wait};
use crate::timing::Timing;

/// Flag in a head's fourth byte, beside [`TRANSFER`].
const LIKE: u8 = 0x40;

/// Flag beside [`LIKE`]: there is this word only.
const BRIEF: u8 = 0x20;
/// Bits of a brief one's predelay, and of its offset.
const PREDELAY_BITS: u32 = 12;
const PLACE_BITS: u32 = 20;

/// What follows the two words, in this order; processor time is told by the timing, and comes last.
mod parts {
    /// The offset in the file, all of it.
    pub const OFFSET: u8 = 1;
    /// Slot and length, 32 bits each; as many bytes were transferred.
    pub const PLACE: u8 = 2;
    /// Where its content or its hash is; of content that is compared its digest as well.
    pub const CONTENT: u8 = 4;
    /// Where in its page the program's memory began.
    pub const WITHIN: u8 = 8;
    pub const ALL: u8 = OFFSET | PLACE | CONTENT | WITHIN;
}

/// Adds commands to a chunk.
#[derive(Debug, Default)]
pub struct CommandWriter {
    words: Vec<u64>,
    last: Option<Transfer>,
}

impl CommandWriter {
    /// Adds a command.
    pub fn add(&mut self, command: &Command) {
        let Some(transfer) = Transfer::of(command) else {
            command.encode(&mut self.words);
            return;
        };
        let like = match &self.last {
            Some(last) if command.waits.is_empty() => match Brief::of(&transfer, last) {
                Some(Brief(word)) => {
                    self.words.push(word);
                    Some(())
                }
                None => encode_like(&transfer, last, &mut self.words),
            },
            _ => None,
        };
        if like.is_none() {
            transfer.encode(&command.waits, &mut self.words);
        }
        self.last = Some(transfer);
    }

    /// The chunk so far.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Begins another chunk in the same memory.
    pub fn clear(&mut self) {
        self.words.clear();
        self.last = None;
    }
}

/// The word of a brief one.
#[derive(Debug, Clone, Copy)]
struct Brief(u64);

impl Brief {
    /// Flags of every brief one.
    const FLAGS: u8 = TRANSFER | LIKE | BRIEF;
    const PREDELAY: u32 = 32;
    const PLACE: u32 = Brief::PREDELAY + PREDELAY_BITS;

    /// Of a read that only its place, little time and a few actions tell from the transfer before.
    fn of(transfer: &Transfer, last: &Transfer) -> Option<Brief> {
        let unit = u64::from(transfer.length.max(1));
        let origin = u8::try_from(transfer.origin.checked_sub(last.origin)?).ok()?;
        let at = u16::try_from(transfer.timing.at_ns.checked_sub(last.timing.at_ns)?).ok()?;
        let (predelay, place) = (transfer.timing.predelay_ns, transfer.offset / unit);
        let fits = predelay >> PREDELAY_BITS == 0 && place >> PLACE_BITS == 0 && transfer.offset.is_multiple_of(unit);
        let as_before = Transfer { origin: last.origin, offset: last.offset, timing: last.timing, ..*transfer };
        let is_plain = transfer.timing.cpu_ns.is_none() && content(transfer).is_none();
        if !fits || !is_plain || as_before != *last {
            return None;
        }
        let flags = transfer.timing.encode_rest(&mut Vec::new()) | Brief::FLAGS;
        let low = u64::from(origin) | u64::from(at) << 8 | u64::from(flags) << 24;
        Some(Brief(low | predelay << Brief::PREDELAY | place << Brief::PLACE))
    }

    fn is_one(self) -> bool {
        self.flags() & Brief::FLAGS == Brief::FLAGS
    }

    fn flags(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// Distance of its action.
    fn origin(self) -> u64 {
        self.0 & 0xff
    }

    /// Distance of its instant of issue.
    fn at_ns(self) -> u64 {
        self.0 >> 8 & 0xffff
    }

    /// Its offset in the file, in units of its length.
    fn place(self) -> u64 {
        self.0 >> Brief::PLACE
    }

    /// `None` if it is malformed.
    #[inline]
    fn timing(self, at_ns: u64) -> Option<Timing> {
        let predelay_ns = self.0 >> Brief::PREDELAY & ((1 << PREDELAY_BITS) - 1);
        Timing::decode_rest(at_ns, predelay_ns, self.flags() & !Brief::FLAGS, &mut [].iter())
    }
}

/// Appends what differs from the transfer before; `None`, and nothing, if that is too much.
fn encode_like(transfer: &Transfer, last: &Transfer, words: &mut Vec<u64>) -> Option<()> {
    let origin = u16::try_from(transfer.origin.checked_sub(last.origin)?).ok()?;
    let at = u32::try_from(transfer.timing.at_ns.checked_sub(last.timing.at_ns)?).ok()?;
    let predelay = u32::try_from(transfer.timing.predelay_ns).ok()?;
    let same_place = (transfer.slot, transfer.length, transfer.result) == (last.slot, last.length, last.result);
    let is_like = transfer.way == last.way
        && transfer.tolerance == last.tolerance
        && std::mem::discriminant(&transfer.expect) == std::mem::discriminant(&last.expect)
        && (same_place || transfer.result == u64::from(transfer.length));
    if !is_like {
        return None;
    }
    let mut parts = 0;
    let offset = u32::try_from(transfer.offset).ok();
    let head = words.len();
    words.extend([0, u64::from(at) | u64::from(offset.unwrap_or(0)) << 32]);
    if offset.is_none() {
        parts |= parts::OFFSET;
        words.push(transfer.offset);
    }
    if !same_place {
        parts |= parts::PLACE;
        words.push(u64::from(transfer.slot) | u64::from(transfer.length) << 32);
    }
    if let Some(content) = content(transfer) {
        parts |= parts::CONTENT;
        words.push(content);
        words.extend(matches!(transfer.expect, Expect::Content(..)).then_some(transfer.digest));
    }
    if transfer.within != last.within {
        parts |= parts::WITHIN;
        words.push(transfer.within.into());
    }
    let flags = transfer.timing.encode_rest(words) | TRANSFER | LIKE;
    words[head] = u64::from(origin) | u64::from(parts) << 16 | u64::from(flags) << 24 | u64::from(predelay) << 32;
    Some(())
}

/// Where the content of a write, or what is expected of a read, is; `None` where there is no such place.
fn content(transfer: &Transfer) -> Option<u64> {
    match transfer.expect {
        Expect::Content(at, _) | Expect::Digest(at, _) => Some(at),
        _ => (!transfer.way.reads()).then_some(transfer.content),
    }
}

/// Reads the commands of a chunk from its begin; a new one for each chunk.
#[derive(Debug, Default)]
pub struct CommandReader {
    last: Option<Transfer>,
}

impl CommandReader {
    /// The transfer at the begin of `words`, its waits ([`Wait::from_word`]) and its length in words: `None` if no transfer
    /// stands there, `Some(None)` if it is malformed.
    #[inline]
    pub fn transfer<'w>(&mut self, words: &'w [u64]) -> Option<Option<(&Transfer, &'w [u64], usize)>> {
        let head = *words.first()?;
        let flags = (head >> 24) as u8;
        match (flags & TRANSFER != 0, flags & LIKE != 0) {
            (false, _) => None,
            (true, true) if Brief(head).is_one() => Some(self.brief(words, head)),
            (true, true) => Some(self.like(words, head)),
            (true, false) => Some(self.whole(words, head)),
        }
    }

    /// The command at the begin of `words`, into one whose memory is used again, and its length in words. `None` if it is
    /// malformed; its content is of no use then.
    pub fn command(&mut self, words: &[u64], into: &mut Command) -> Option<usize> {
        match self.transfer(words) {
            None => into.decode_from(words),
            Some(found) => {
                let (transfer, waits, used) = found?;
                transfer.expand(into);
                into.waits.extend(waits.iter().map(|word| Wait::from_word(*word)));
                Some(used)
            }
        }
    }

    #[inline]
    fn whole<'w>(&mut self, words: &'w [u64], head: u64) -> Option<(&Transfer, &'w [u64], usize)> {
        let (transfer, waits, used) = Transfer::decode(words, head)?;
        Some((self.last.insert(transfer), waits, used))
    }

    /// Hands out origin and offset of each transfer at the begin of `words` that only its place and its instants tell from the one that
    /// was read last, until one is not taken: how many were, each of which is a word.
    #[inline]
    pub fn alike(&mut self, words: &[u64], mut take: impl FnMut(u64, u64) -> bool) -> usize {
        let (Some(last), Some(first)) = (self.last_of_brief(), words.first().map(|head| Brief(*head))) else {
            return 0;
        };
        let (unit, mut timing, mut taken) = (u64::from(last.length.max(1)), last.timing, 0);
        if !first.is_one() || first.timing(0).is_none() {
            return 0;
        }
        for brief in words.iter().map(|head| Brief(*head)) {
            let (origin, offset) = (last.origin.wrapping_add(brief.origin()), brief.place() * unit);
            if brief.flags() != first.flags() || !take(origin, offset) {
                break;
            }
            (last.origin, last.offset) = (origin, offset);
            timing.at_ns = timing.at_ns.wrapping_add(brief.at_ns());
            taken += 1;
        }
        if let Some(head) = words[..taken].last() {
            last.timing = Brief(*head).timing(timing.at_ns).unwrap_or(timing);
        }
        taken
    }

    /// The one before, where a brief one may follow it.
    fn last_of_brief(&mut self) -> Option<&mut Transfer> {
        self.last.as_mut().filter(|last| content(last).is_none())
    }

    #[inline]
    fn brief<'w>(&mut self, words: &'w [u64], head: u64) -> Option<(&Transfer, &'w [u64], usize)> {
        let (last, brief) = (self.last_of_brief()?, Brief(head));
        last.timing = brief.timing(last.timing.at_ns.wrapping_add(brief.at_ns()))?;
        last.origin = last.origin.wrapping_add(brief.origin());
        last.offset = brief.place() * u64::from(last.length.max(1));
        Some((last, &words[..0], 1))
    }

    #[inline]
    fn like<'w>(&mut self, words: &'w [u64], head: u64) -> Option<(&Transfer, &'w [u64], usize)> {
        let last = self.last.as_mut()?;
        let (&[_, second], rest) = words.split_first_chunk::<2>()?;
        let mut rest = rest.iter();
        let parts = (head >> 16) as u8;
        if parts & !parts::ALL != 0 {
            return None;
        }
        last.origin = last.origin.wrapping_add(head & 0xffff);
        last.offset = if parts & parts::OFFSET != 0 { *rest.next()? } else { second >> 32 };
        if parts & parts::PLACE != 0 {
            let place = *rest.next()?;
            (last.slot, last.length, last.result) = (place as u32, (place >> 32) as u32, place >> 32);
        }
        let at = if parts & parts::CONTENT != 0 { Some(*rest.next()?) } else { None };
        last.expect = match last.expect {
            Expect::Content(..) => {
                let at = at?;
                last.digest = *rest.next()?;
                Expect::Content(at, last.result)
            }
            Expect::Digest(..) => Expect::Digest(at?, last.result),
            other => {
                last.content = if last.way.reads() { 0 } else { at? };
                other
            }
        };
        if parts & parts::WITHIN != 0 {
            last.within = u16::try_from(*rest.next()?).ok().filter(|within| u64::from(*within) < PAGE_BYTES)?;
        }
        let at_ns = last.timing.at_ns.wrapping_add(second & 0xffff_ffff);
        let flags = (head >> 24) as u8 & !(TRANSFER | LIKE);
        last.timing = Timing::decode_rest(at_ns, head >> 32, flags, &mut rest)?;
        let used = words.len() - rest.len();
        Some((last, &[], used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Arg, Op, Tolerance};

    /// Numbers that depend on a seed (splitmix64).
    struct Rng(u64);

    impl Rng {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        }

        fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
            values[(self.next() % values.len() as u64) as usize]
        }
    }

    /// A command that follows one: mostly a transfer, mostly like it.
    fn following(before: &Command, rng: &mut Rng) -> Command {
        let way = if rng.next().is_multiple_of(4) { rng.one_of(&[0, 1, 17, 18, 3]) } else { before.number };
        let (reads, at) = (matches!(way, 0 | 17), matches!(way, 17 | 18));
        let asked = rng.one_of(&[512, 512, 512, 1024, 7, u32::MAX.into()]);
        let result = if rng.next().is_multiple_of(5) { rng.one_of(&[0, 3, 511]) } else { asked as i64 };
        let place = rng.next() % 1000;
        let memory = if reads { Arg::Out(asked) } else { Arg::Content(place * 64, asked) };
        let mut args = vec![Arg::Fd(rng.one_of(&[4, 4, 4, 5])), memory, Arg::Value(asked)];
        args.extend(
            at.then(|| {
                Arg::Value(rng.one_of(&[0, 4096, 512 << 19, 512 << 20, u64::from(u32::MAX), 1 << 32, u64::MAX]))
            }),
        );
        let contents =
            [Expect::Value, Expect::Content(place * 64, result as u64), Expect::Digest(place * 8, result as u64)];
        let expect = if reads { rng.one_of(&contents) } else { Expect::Value };
        let digest = if matches!(expect, Expect::Content(..)) && way != 3 { rng.next() } else { 0 };
        let timing = Timing {
            at_ns: before.timing.at_ns.saturating_add_signed(rng.one_of(&[
                0,
                1,
                900,
                65_535,
                65_536,
                1 << 31,
                1 << 32,
                -1,
            ])),
            predelay_ns: rng.one_of(&[0, 30, 4095, 4096, u64::from(u32::MAX), 1 << 32]),
            cpu_ns: rng.one_of(&[None, None, Some(5), Some(u64::MAX)]),
            cached: rng.one_of(&[None, Some(true), Some(false)]),
        };
        let waits =
            vec![Wait { thread: 1, count: 7, rule: crate::Rule::Single }; usize::from(rng.next().is_multiple_of(9))];
        let origin = before.origin + rng.one_of(&[1, 1, 1, 2, 255, 256, 65_535, 65_536]);
        let within = if rng.next().is_multiple_of(6) { rng.one_of(&[0, 16, 4095]) } else { before.within };
        let tolerance = rng.one_of(&[Tolerance::None, Tolerance::None, Tolerance::Random]);
        Command {
            op: Op::Issue,
            origin,
            number: way,
            result,
            args,
            within,
            expect,
            digest,
            tolerance,
            timing,
            waits,
            ..Command::default()
        }
    }

    /// All commands of a chunk, until one is malformed; whether none was.
    fn read(mut words: &[u64]) -> (Vec<Command>, bool) {
        let (mut reader, mut out) = (CommandReader::default(), Vec::new());
        while !words.is_empty() {
            let mut command = Command::default();
            let Some(used) = reader.command(words, &mut command) else { return (out, false) };
            words = &words[used..];
            out.push(command);
        }
        (out, true)
    }

    #[test]
    fn what_is_added_is_read() {
        let mut rng = Rng(1);
        let mut writer = CommandWriter::default();
        for _ in 0..300 {
            writer.clear();
            let mut commands = vec![Command { number: 17, ..Command::default() }];
            for _ in 0..20 {
                commands.push(following(&commands[commands.len() - 1], &mut rng));
            }
            let ends: Vec<usize> = commands
                .iter()
                .map(|command| {
                    writer.add(command);
                    writer.words().len()
                })
                .collect();
            assert_eq!(read(writer.words()), (commands.clone(), true));
            // What is cut off is never taken for a whole command.
            for cut in 0..writer.words().len() {
                let (found, is_whole) = read(&writer.words()[..cut]);
                assert_eq!(found, commands[..ends.iter().filter(|end| **end <= cut).count()]);
                assert_eq!(is_whole, cut == 0 || ends.contains(&cut));
            }
        }
    }

    #[test]
    fn a_run_says_what_one_after_the_other_says() {
        let mut rng = Rng(3);
        let mut runs = 0;
        for _ in 0..600 {
            let mut writer = CommandWriter::default();
            let mut command = Command { number: 17, ..Command::default() };
            for _ in 0..30 {
                command = following(&command, &mut rng);
                writer.add(&command);
                for step in 1..rng.next() % 9 {
                    command.origin += rng.one_of(&[1, 2, 255, 256]);
                    command.timing.at_ns = command.timing.at_ns.saturating_add(step * 100);
                    command.timing.predelay_ns = step;
                    if let Some(Arg::Value(offset)) = command.args.get_mut(3) {
                        *offset = step * u64::from(u16::MAX);
                    }
                    writer.add(&command);
                }
            }
            let whole = read(writer.words()).0;
            let (mut reader, mut found, mut words) = (CommandReader::default(), Vec::new(), writer.words());
            while !words.is_empty() {
                let mut most = rng.next() % 6;
                let mut run = Vec::new();
                let used = reader.alike(words, |origin, offset| {
                    let is_taken = most > 0;
                    most = most.saturating_sub(1);
                    run.extend(is_taken.then_some((origin, offset)));
                    is_taken
                });
                assert_eq!(used, run.len());
                words = &words[used..];
                runs += usize::from(used > 1);
                found.extend(run);
                let mut command = Command::default();
                let Some(used) = reader.command(words, &mut command).filter(|_| !words.is_empty()) else { break };
                // All that is said of it, the run before it notwithstanding.
                assert_eq!(command, whole[found.len()]);
                let offset = Transfer::of(&command).map_or(0, |transfer| transfer.offset);
                found.push((command.origin, offset));
                words = &words[used..];
            }
            let places = whole.iter().map(|c| (c.origin, Transfer::of(c).map_or(0, |transfer| transfer.offset)));
            assert_eq!(found, places.collect::<Vec<_>>());
        }
        assert!(runs > 100, "only {runs} runs");
    }

    #[test]
    fn one_like_the_one_before_takes_a_word() {
        let mut writer = CommandWriter::default();
        for i in 0..10 {
            let args = vec![Arg::Fd(4), Arg::Out(1024), Arg::Value(1024), Arg::Value(i * 1024)];
            let timing = Timing { at_ns: i * 500, predelay_ns: 20, cpu_ns: None, cached: None };
            let (origin, expect) = (2 * i, Expect::Value);
            let (op, number, result) = (Op::Issue, 17, 1024);
            writer.add(&Command { op, origin, number, result, args, expect, timing, ..Command::default() });
            assert_eq!(writer.words().len(), 8 + i as usize);
        }
        // The first of a chunk has nothing before it.
        assert_eq!(read(&writer.words()[8..]), (vec![], false));
    }

    #[test]
    fn any_words_are_survived() {
        let mut rng = Rng(2);
        let mut writer = CommandWriter::default();
        let mut command = Command { number: 17, ..Command::default() };
        for _ in 0..40 {
            command = following(&command, &mut rng);
            writer.add(&command);
        }
        for _ in 0..20_000 {
            let mut words = writer.words().to_vec();
            for _ in 0..3 {
                let at = (rng.next() % words.len() as u64) as usize;
                let (flipped, other) = (words[at] ^ 1 << (rng.next() % 64), rng.next());
                words[at] = rng.one_of(&[flipped, other, 0, u64::MAX]);
            }
            read(&words);
        }
    }
}
