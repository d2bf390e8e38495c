//! Arguments of an issued call, by their kind.

use reprise_calls::moving::ends;
use reprise_calls::{ArgKind, Effect, FcntlArg, FlagSet, Struct, fcntl_arg, ioctl_arg};
use reprise_model::Nature;
use reprise_trace::Name;
use reprise_trace::payload::{Side, split};

use super::{CompileError, Compiler, Lowering};
use crate::command::{Arg, NOWHERE, within_page};

const AT_FDCWD: i32 = -100;
/// Stands for a pointer that was no address of readable memory: the kernel answers EFAULT again.
const BAD_POINTER: u64 = 1;
/// As much as one call moves (`MAX_RW_COUNT`).
const MOST: u64 = 0x7fff_f000;
/// A failed call gets no more content than this made for it: what it was given is nobody's, and may be as long as numbers go.
pub(super) const MOST_FAILED: u64 = 1 << 20;
/// `O_ASYNC`: nobody is signalled in a replay.
pub(super) const ASYNC: u64 = 0o20000;

impl Compiler {
    /// The arguments of the call as it was made, for issuing it again.
    pub(super) fn arguments<'a>(&mut self, l: &Lowering<'a>) -> Result<Vec<Arg>, CompileError> {
        let input = split(l.call, Side::Input, &l.action.input);
        let path = |number: usize, traced: Option<&'a Name>| l.found.paths[number].as_deref().or(traced.map(|p| &**p));
        let mut paths = [path(0, l.action.path.as_ref()), path(1, l.action.path2.as_ref())].into_iter();
        let mut out = std::mem::take(&mut self.spare);
        out.clear();
        for (i, arg) in l.call.args.iter().enumerate() {
            let value = l.action.args[i];
            let pointer = |given: Option<Arg>| match given {
                Some(arg) => arg,
                None if value == 0 => Arg::Value(0),
                None => Arg::Value(BAD_POINTER),
            };
            out.push(match arg.kind {
                ArgKind::Fd(_) => self.descriptor(l, i),
                ArgKind::Dirfd if value as i32 == AT_FDCWD => Arg::Value(value),
                ArgKind::Dirfd => self.descriptor(l, i),
                ArgKind::Path(_) => match paths.next().flatten() {
                    Some(path) if value != 0 => Arg::Bytes(self.store.bytes(path)?, path.len() as u64),
                    _ => pointer(None),
                },
                ArgKind::Text => match input[i] {
                    Some(text) => Arg::Bytes(self.store.bytes(text)?, text.len() as u64),
                    None => pointer(None),
                },
                ArgKind::Strings => Arg::Value(0),
                ArgKind::InData(length) => {
                    let length = l.action.args[usize::from(length)].min(MOST).min(done(l));
                    pointer(if value == 0 { None } else { self.content(l, length)? })
                }
                ArgKind::OutData(length) if value != 0 => {
                    Arg::Out(l.action.args[usize::from(length)].min(MOST).min(done(l)))
                }
                ArgKind::OutData(_) => Arg::Value(0),
                ArgKind::InVector(_) | ArgKind::OutVector(_) => match input[i] {
                    None => pointer(None),
                    Some(lengths) => {
                        let lengths = cut(lengths, done(l));
                        let at = self.store.lengths(&lengths)?;
                        match arg.kind {
                            ArgKind::InVector(_) => Arg::ContentVector(at, self.gathered(l, &lengths)?),
                            _ => Arg::OutVector(at),
                        }
                    }
                },
                ArgKind::In(Struct::ByCommand)
                | ArgKind::Out(Struct::ByCommand)
                | ArgKind::InOut(Struct::ByCommand) => self.command_argument(l, i, input[i])?,
                ArgKind::In(_) => match input[i] {
                    Some(how) if l.call.name == "openat2" => {
                        let how = anyhow(how, l.found.paths[0].is_some());
                        Arg::Bytes(self.store.bytes(&how)?, how.len() as u64)
                    }
                    Some(bytes) => Arg::Bytes(self.store.bytes(bytes)?, bytes.len() as u64),
                    None => pointer(None),
                },
                ArgKind::Out(kind) if value != 0 => Arg::Out(kind.size().unwrap_or(4096) as u64),
                ArgKind::Out(_) => Arg::Value(0),
                ArgKind::InOut(_) => match input[i] {
                    Some(bytes) => Arg::InOut(self.store.bytes(bytes)?, bytes.len() as u64),
                    None => pointer(None),
                },
                ArgKind::Address | ArgKind::Environment => Arg::Value(0),
                // Asked for as it was done.
                ArgKind::Length if counts(l, i) => Arg::Value(value.min(done(l))),
                ArgKind::Flags(FlagSet::Open) => Arg::Value(value & !ASYNC),
                ArgKind::Flags(_)
                | ArgKind::Command(_)
                | ArgKind::Mode
                | ArgKind::Offset
                | ArgKind::Length
                | ArgKind::Integer
                | ArgKind::Submits
                | ArgKind::Reaps
                | ArgKind::Number
                | ArgKind::Device
                | ArgKind::Owner => Arg::Value(value),
            });
        }
        Ok(out)
    }

    /// A descriptor argument: its slot, or a number that is surely not open.
    pub(super) fn descriptor(&self, l: &Lowering<'_>, index: usize) -> Arg {
        let slot = l.found.arguments[index].and_then(|binding| self.slots.get(binding));
        slot.map_or(Arg::Value(u64::MAX), Arg::Fd)
    }

    /// Where the content of a vector's elements lies.
    fn gathered(&mut self, l: &Lowering<'_>, lengths: &[u8]) -> Result<u64, CompileError> {
        let lengths = reprise_trace::payload::vector_lengths(lengths);
        let total = lengths.iter().fold(0, |all: u64, one| all.saturating_add(*one));
        Ok(match self.content(l, total.min(MOST))? {
            Some(Arg::Content(at, _)) => at,
            _ => NOWHERE,
        })
    }

    /// The content a call reads: from the trace, else made content of the same length; for one that failed zeros, and none of very much.
    pub(super) fn content(&mut self, l: &Lowering<'_>, length: u64) -> Result<Option<Arg>, CompileError> {
        let kept = l.action.data.len() as u64 * reprise_trace::CHUNK_BYTES as u64;
        let whole = l.action.truncated_bytes == 0 && (kept >= length || length == 0);
        if let (true, Some(address), [blob]) = (whole, memory(l), &l.action.data[..])
            && let Some(part) = self.passed_on.part(l.action.thread, address, length)
        {
            self.store.place_within(*blob, &part)?;
        }
        let within = memory(l).map_or(0, within_page);
        let at = if whole { self.store.content(&l.action.data, within)? } else { None };
        let at = match at {
            Some(at) => at,
            None if l.action.result < 0 && length > MOST_FAILED => return Ok(None),
            None if l.action.result < 0 => self.store.zeros(length)?,
            None => self.store.missing(length)?,
        };
        Ok(Some(Arg::Content(at, length)))
    }

    fn command_argument(&mut self, l: &Lowering<'_>, index: usize, bytes: Option<&[u8]>) -> Result<Arg, CompileError> {
        let command = l.action.args[index - 1];
        let kind = if l.call.name == "fcntl" { fcntl_arg(command) } else { ioctl_arg(command) };
        Ok(match (kind, bytes) {
            (FcntlArg::Value, _) => Arg::Value(l.action.args[index]),
            (FcntlArg::Out(size), _) => Arg::Out(size as u64),
            (FcntlArg::In(_) | FcntlArg::InOut(_), Some(bytes)) => {
                Arg::InOut(self.store.bytes(bytes)?, bytes.len() as u64)
            }
            (FcntlArg::In(_) | FcntlArg::InOut(_), None) => Arg::Value(BAD_POINTER),
        })
    }
}

/// Address of the memory whose content the call reads or fills.
pub(super) fn memory(l: &Lowering<'_>) -> Option<u64> {
    let index = l.call.position(|kind| matches!(kind, ArgKind::InData(_) | ArgKind::OutData(_)))?;
    Some(l.action.args[index])
}

/// As many bytes as a call may be asked for where its end was the machine's doing: what a write wrote, and what came of a device
/// that always has more (a signal ended it, and a replay has none) or of a file that had more (the program's memory ended, what it
/// copied to could not be made longer, or more was being written at that moment).
fn done(l: &Lowering<'_>) -> u64 {
    // At the end of what stood there it found nothing, where a replay would find the rest.
    if l.call.effect == Effect::Read && l.action.is_amid() && l.action.result >= 0 {
        return l.action.result as u64;
    }
    let ends = match l.call.effect {
        Effect::Write | Effect::MappedWrite => true,
        Effect::Read | Effect::Copy | Effect::Splice => {
            l.found.came_short || matches!(l.found.nature, Nature::SafeDevice | Nature::RandomDevice)
        }
        _ => false,
    };
    if ends && l.action.result > 0 { l.action.result as u64 } else { u64::MAX }
}

/// What `openat2` is given (`struct open_how`), without the rules for the way to a file that do not hold in a replay: where the path is
/// another none does (`RESOLVE_BENEATH` …), and on no path is known what the kernel has of it in memory (`RESOLVE_CACHED`).
fn anyhow(how: &[u8], is_another_path: bool) -> Vec<u8> {
    const CACHED: u64 = 0x20;
    let mut how = how.to_vec();
    if let Some(rules) = how.get_mut(16..).and_then(|rest| rest.first_chunk_mut::<8>()) {
        let kept = if is_another_path { 0 } else { u64::from_le_bytes(*rules) & !CACHED };
        *rules = kept.to_le_bytes();
    }
    how
}

/// Whether the argument, a length, is that in bytes of what the call reads, fills or moves.
fn counts(l: &Lowering<'_>, index: usize) -> bool {
    let length = index as u8;
    let fills = l.call.position(|k| k == ArgKind::InData(length) || k == ArgKind::OutData(length)).is_some();
    fills || ends(l.call).is_some()
}

/// Lengths of a vector's elements, cut to so many bytes in all.
fn cut(lengths: &[u8], most: u64) -> Vec<u8> {
    let mut rest = most;
    let mut out = Vec::with_capacity(lengths.len());
    for length in reprise_trace::payload::vector_lengths(lengths) {
        let length = length.min(rest);
        rest -= length;
        out.extend_from_slice(&length.to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::anyhow;

    #[test]
    fn what_is_in_memory_is_no_rule_for_a_replay() {
        const CACHED_BENEATH: u64 = 0x28;
        let how = [2u64, 0, CACHED_BENEATH].map(u64::to_le_bytes).concat();
        let rules = |how: Vec<u8>| how[16..].to_vec();
        assert_eq!(rules(anyhow(&how, false)), 8u64.to_le_bytes());
        assert_eq!(rules(anyhow(&how, true)), [0; 8]);
        assert_eq!(anyhow(&how, false)[..16], how[..16]);
        assert_eq!(anyhow(&how[..20], false), how[..20], "not a whole structure");
    }
}
