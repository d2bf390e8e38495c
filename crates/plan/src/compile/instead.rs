//! Calls that a replay makes instead of others that do the same: it has no `/proc`, which leads from names of descriptors to files without
//! names, and a descriptor of its own may stand in for the program's.
//!
//! Non-goals: where a call that failed would be refused for another reason, or not at all, it is taken from the trace.

use reprise_calls::{ArgKind, Effect, FlagSet};
use reprise_trace::payload::{Side, split};

use super::{CompileError, Compiler, Lowering};
use crate::command::{Arg, Command, Op};

const TRUNCATE: u32 = 76;
const FTRUNCATE: u32 = 77;
const CHMOD: u32 = 90;
const CHOWN: u32 = 92;
/// Calls about extended attributes: by name, and the same by descriptor.
const ATTRIBUTES: [(u32, u32); 4] = [(188, 190), (191, 193), (194, 196), (197, 199)];
const UTIME: u32 = 132;
const UTIMES: u32 = 235;
const FUTIMESAT: u32 = 261;
const FCHOWNAT: u32 = 260;
const UTIMENSAT: u32 = 280;
const FCHMODAT2: u32 = 452;
const EMPTY_PATH: u64 = 0x1000;

impl Compiler {
    /// A path that named a descriptor of a nameless file: the descriptor itself is given, with an empty path or without one.
    pub(super) fn by_descriptor(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        const SYMLINK_FOLLOW: u64 = 0x400;
        let slot = l.found.by_descriptor.and_then(|named| Some((named, self.slots.get(named.binding)?)));
        let Some((named, fd)) = slot.map(|(named, slot)| (named, Arg::Fd(slot))) else { return self.simulate(l) };
        let refused = l.action.result < 0;
        let empty = Arg::Bytes(self.store.bytes(b"")?, 0);
        let mut command = self.issue(l, Op::Issue)?;
        let numbered = |command: Command, number, args| Ok(Command { number, args, ..command });
        let attribute = ATTRIBUTES.iter().find(|(by_name, _)| *by_name == l.call.number);
        match (l.call.number, l.call.paths().next().and_then(|p| p.dirfd), l.call.flags_arg(FlagSet::At)) {
            _ if l.call.effect == Effect::ChangeMode => {
                let mode = l.call.position(|k| matches!(k, ArgKind::Mode)).map_or(0, |i| l.action.args[i]);
                numbered(command, FCHMODAT2, vec![fd, empty, Arg::Value(mode), Arg::Value(EMPTY_PATH)])
            }
            (CHOWN, ..) => {
                let [_, user, group, ..] = l.action.args.map(Arg::Value);
                numbered(command, FCHOWNAT, vec![fd, empty, user, group, Arg::Value(EMPTY_PATH)])
            }
            // Whether the user may write to the file is asked of a name, not of a descriptor.
            (TRUNCATE | UTIME | UTIMES | FUTIMESAT, ..) if refused => self.simulate(l),
            (UTIME | UTIMES | FUTIMESAT, ..) => {
                let times = match times(l) {
                    Some(times) => Arg::Bytes(self.store.bytes(&times)?, times.len() as u64),
                    None => Arg::Value(0),
                };
                numbered(command, UTIMENSAT, vec![fd, empty, times, Arg::Value(EMPTY_PATH)])
            }
            (TRUNCATE, ..) if named.is_writable() => {
                command.args[0] = fd;
                Ok(Command { number: FTRUNCATE, ..command })
            }
            (TRUNCATE, ..) => Ok(l.bare(Op::Unsupported)),
            (_, Some(dirfd), Some(flags)) => {
                command.args[dirfd] = fd;
                command.args[dirfd + 1] = empty;
                command.args[flags] = Arg::Value((l.action.args[flags] & !SYMLINK_FOLLOW) | EMPTY_PATH);
                Ok(command)
            }
            _ => match (attribute, l.call.effect) {
                (Some((_, number)), _) if !named.is_place() => {
                    command.args[0] = fd;
                    Ok(Command { number: *number, ..command })
                }
                (Some(_), Effect::SetXattr | Effect::RemoveXattr) if !refused => Ok(l.bare(Op::Unsupported)),
                _ => self.simulate(l),
            },
        }
    }

    /// Extended attributes of the working directory by `AT_FDCWD` in place of a descriptor: older kernels know them by a name alone.
    pub(super) fn by_here(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        let Some((number, _)) = ATTRIBUTES.iter().find(|(_, by_descriptor)| *by_descriptor == l.call.number) else {
            return self.simulate(l);
        };
        self.with_name(l, *number, l.found.paths[0].as_deref().unwrap_or(b"."))
    }

    /// `fchmod` and `fchown` of a file whose descriptor is a stand-in: the same by its name.
    pub(super) fn by_name(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        let number = match l.call.name {
            "fchmod" => CHMOD,
            "fchown" => CHOWN,
            _ => return self.simulate(l),
        };
        self.with_name(l, number, l.found.paths[0].as_deref().unwrap_or_default())
    }

    /// Another call with the same arguments but for the first, which is a name in place of a descriptor.
    fn with_name(&mut self, l: &Lowering<'_>, number: u32, name: &[u8]) -> Result<Command, CompileError> {
        let mut command = self.issue(l, Op::Issue)?;
        command.number = number;
        command.args[0] = Arg::Bytes(self.store.bytes(name)?, name.len() as u64);
        Ok(command)
    }
}

/// The times that an older call gives, as `utimensat` takes them; none where it gives the present.
fn times(l: &Lowering<'_>) -> Option<Vec<u8>> {
    let at = l.call.position(|k| matches!(k, ArgKind::In(_)))?;
    let given = split(l.call, Side::Input, &l.action.input)[at]?;
    let words = given.as_chunks::<8>().0.iter().map(|word| i64::from_le_bytes(*word));
    let words: Vec<i64> = match l.call.number {
        UTIME => words.flat_map(|seconds| [seconds, 0]).collect(),
        // Microseconds stand behind seconds.
        _ => words.enumerate().map(|(i, word)| if i % 2 == 1 { word.saturating_mul(1000) } else { word }).collect(),
    };
    (words.len() == 4).then(|| words.iter().flat_map(|word| word.to_le_bytes()).collect())
}
