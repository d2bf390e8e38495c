//! Calls that a replay makes instead of others that do the same: it has no `/proc`, which leads from names of descriptors to files without
//! names, and past the directories above a file, and a descriptor of its own may stand in for the program's.
//!
//! Non-goals: where a call that failed would be refused for another reason, or not at all, it is taken from the trace.

use reprise_calls::{ArgKind, Effect, FlagSet};
use reprise_model::{ByDescriptor, Resource, Touch};
use reprise_trace::payload::{Side, split};

use super::{CompileError, Compiler, Lowering};
use crate::command::{Arg, Command, Op};

const TRUNCATE: u32 = 76;
const FTRUNCATE: u32 = 77;
const CHMOD: u32 = 90;
const CHOWN: u32 = 92;
/// Calls about extended attributes: by name, and the same by descriptor.
const ATTRIBUTES: [(u32, u32); 4] = [(188, 190), (191, 193), (194, 196), (197, 199)];
/// Calls that make files: by a path, and the same with the directory where it begins before it (`open`, `mkdir`, `mknod`).
const BEGINNING_ELSEWHERE: [(u32, u32); 3] = [(2, 257), (83, 258), (133, 259)];
const UTIME: u32 = 132;
const UTIMES: u32 = 235;
const FUTIMESAT: u32 = 261;
const FCHOWNAT: u32 = 260;
const UTIMENSAT: u32 = 280;
const FCHMODAT2: u32 = 452;
const EMPTY_PATH: u64 = 0x1000;

impl Compiler {
    /// A path that named a descriptor of a nameless file: the descriptor itself is given, with an empty path or without one.
    pub(super) fn by_descriptor(
        &mut self,
        l: &Lowering<'_>,
        named: Option<ByDescriptor>,
    ) -> Result<Command, CompileError> {
        const SYMLINK_FOLLOW: u64 = 0x400;
        let slot = named.and_then(|named| Some((named, self.slots.get(named.binding)?)));
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

    /// Whether a call that went through a part of a process is one of somebody who might not get to the file by its path, and did nothing
    /// that would be the superuser's if he did it.
    pub(super) fn may_be_refused_on_the_way(&self, l: &Lowering<'_>) -> bool {
        l.found.through_process && l.action.result >= 0 && !self.world.is_superuser_for_files(l.action.thread)
    }

    /// Such a call: from the descriptor on, where it may begin there, or on the file that this has open; else by the path.
    pub(super) fn by_way_of(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        let named = l.found.by_way_of.as_ref().filter(|(named, _)| self.slots.get(named.binding).is_some());
        match named {
            Some((named, left)) if left.is_empty() && does_by_descriptor(l, *named) => {
                return self.by_descriptor(l, Some(*named));
            }
            // Whether a file may be used is asked of its path as well.
            _ if l.call.effect == Effect::TestAccess && named.is_none_or(|(_, left)| left.is_empty()) => {
                return self.simulate(l);
            }
            _ => {}
        }
        let mut command = self.as_it_is(l)?;
        if !matches!(command.op, Op::Issue | Op::IssueFd) {
            return Ok(command);
        }
        let begins = named.filter(|(_, left)| goes_straight_on(l, left));
        let is_begun = match begins.and_then(|(named, left)| Some((self.slots.get(named.binding)?, left))) {
            Some((slot, left)) => self.begin_at(l, &mut command, slot, left)?,
            None => false,
        };
        let is_led_elsewhere = !is_begun || l.found.paths[1].is_some();
        if is_led_elsewhere && !makes_file(l) {
            command.op = Op::Through;
        }
        Ok(command)
    }

    /// The first path of a call begins at the descriptor in a slot: whether there is such a call.
    fn begin_at(
        &mut self,
        l: &Lowering<'_>,
        command: &mut Command,
        slot: u32,
        path: &[u8],
    ) -> Result<bool, CompileError> {
        let from = l.call.paths().next().and_then(|path| path.dirfd);
        let other = BEGINNING_ELSEWHERE.iter().find(|(by_path, _)| *by_path == l.call.number);
        let dirfd = match (from, other) {
            (Some(dirfd), _) => dirfd,
            (None, Some((_, number))) => {
                command.number = *number;
                command.args.insert(0, Arg::Fd(slot));
                0
            }
            (None, None) => return Ok(false),
        };
        command.args[dirfd] = Arg::Fd(slot);
        command.args[dirfd + 1] = Arg::Bytes(self.store.bytes(path)?, path.len() as u64);
        Ok(true)
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

/// Whether there is a call that does the same by a descriptor.
fn does_by_descriptor(l: &Lowering<'_>, named: ByDescriptor) -> bool {
    let has_flags = l.call.paths().next().is_some_and(|p| p.dirfd.is_some()) && l.call.flags_arg(FlagSet::At).is_some();
    match l.call.effect {
        Effect::ChangeMode => true,
        Effect::ChangeOwner => has_flags || l.call.number == CHOWN,
        Effect::ChangeTimes => has_flags || [UTIME, UTIMES, FUTIMESAT].contains(&l.call.number),
        Effect::Truncate => named.is_writable(),
        Effect::GetMetadata | Effect::TestAccess => has_flags,
        Effect::GetXattr | Effect::ListXattr | Effect::SetXattr | Effect::RemoveXattr => {
            !named.is_place() && ATTRIBUTES.iter().any(|(by_name, _)| *by_name == l.call.number)
        }
        _ => false,
    }
}

/// Whether a path that is left from a descriptor leads in a replay where it led the program: through no mount, and no link out of there.
fn goes_straight_on(l: &Lowering<'_>, left: &[u8]) -> bool {
    let path = l.found.paths[0].as_deref().and_then(|path| path.strip_suffix(left));
    !left.is_empty() && path.is_some_and(|above| above.ends_with(b"/"))
}

/// Whether the call made a file, which belongs to who makes it.
fn makes_file(l: &Lowering<'_>) -> bool {
    l.found.touches.iter().any(|touch| matches!(touch, (Resource::File(_), Touch::Create)))
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
