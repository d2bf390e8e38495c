//! An action as a command: which way it is performed.

use reprise_calls::closing::closes;
use reprise_calls::moving::{End, Ends, ends};
use reprise_calls::sharing::{Parts, SHARE_DESCRIPTORS, SHARE_DIRECTORIES};
use reprise_calls::{
    ArgKind, Effect, FlagSet, Identity, IoctlEffect, Object, Replay, forbids_writing, ioctl_effect, ioctl_gives,
};
use reprise_model::{Binding, MappingId, Nature, SocketFile};
use reprise_trace::payload::{Side, split};

use super::arguments::{ASYNC, MOST_FAILED, memory};
use super::{CompileError, Compiler, Lowering, stand_in};
use crate::command::{Arg, Command, Expect, Op, Tolerance, within_page};

const SEEK_DATA: u64 = 3;
const ENOENT: i64 = -2;
const EINTR: i64 = -4;
const EIO: i64 = -5;
const ENXIO: i64 = -6;
const EAGAIN: i64 = -11;
const ENOMEM: i64 = -12;
const EFAULT: i64 = -14;
const EBUSY: i64 = -16;
const EXDEV: i64 = -18;
const ENODEV: i64 = -19;
const EISDIR: i64 = -21;
const EINVAL: i64 = -22;
const ENFILE: i64 = -23;
const EMFILE: i64 = -24;
const ENOTTY: i64 = -25;
const ETXTBSY: i64 = -26;
const EFBIG: i64 = -27;
const ENOSPC: i64 = -28;
const EROFS: i64 = -30;
const ENOSYS: i64 = -38;
const EOPNOTSUPP: i64 = -95;
const EDQUOT: i64 = -122;
/// Of an asynchronous request: it was withdrawn before it began.
const ECANCELED: i64 = -125;

/// Errors that say something of the machine it was recorded on (its mounts, memory, free space, running programs), which
/// the target does not have: the outcome is kept by not issuing the call.
const OF_THE_MACHINE: [i64; 18] = [
    EINTR, EIO, ENXIO, ENOMEM, EFAULT, EBUSY, EXDEV, ENODEV, ENFILE, EMFILE, ENOTTY, ETXTBSY, EFBIG, ENOSPC, EROFS,
    ENOSYS, EDQUOT, ECANCELED,
];

/// Whether a request that is not known may have changed an ordinary file.
fn may_change_file(l: &Lowering<'_>) -> bool {
    let on_file = l.found.nature == Nature::Ordinary && l.found.arguments[0].is_some();
    on_file && l.action.result >= 0 && ioctl_gives(l.action.args[1])
}

/// Whether a request sets attributes that forbid later calls.
fn gives_what_forbids(l: &Lowering<'_>) -> bool {
    split(l.call, Side::Input, &l.action.input)[2].is_none_or(forbids_writing)
}

impl Compiler {
    pub(super) fn lower(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        match l.call.replay {
            Replay::Skip(_) => Ok(l.bare(Op::Skip)),
            Replay::Unsupported(_) if l.found.made.is_empty() => Ok(l.bare(Op::Unsupported)),
            Replay::Unsupported(_) => self.simulate(l),
            Replay::Simulate if makes_place(l) => self.open_place(l),
            Replay::Simulate if !l.found.passed.is_empty() => Ok(self.pass(l)),
            Replay::Simulate if !l.found.received.is_empty() => Ok(self.receive(l)),
            Replay::Simulate => match &l.found.binds {
                Some(file) => self.socket_file(l, file),
                None => self.simulate(l),
            },
            Replay::Issue | Replay::Engine if l.found.stores_by_memory => Ok(l.bare(Op::Unsupported)),
            Replay::Issue | Replay::Engine => self.perform(l),
        }
    }

    fn perform(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        use Effect::*;
        match l.call.effect {
            // What ends and moves descriptors is done for real even where their I/O is not.
            Close => self.close(l),
            CloseRange => self.close_many(l),
            Duplicate | Control if l.found.made.is_empty() && OF_THE_MACHINE.contains(&l.action.result) => {
                self.simulate(l)
            }
            // A number beyond what the program may have, if another may.
            Control if l.action.result == EINVAL && duplicates(l) && l.action.args[2] as i32 >= 0 => self.simulate(l),
            Duplicate => self.issue_descriptor(l),
            DuplicateTo => self.duplicate_to(l),
            Take => self.take(l),
            Spawn => Ok(self.spawn(l)),
            Execute => Ok(self.execute(l)),
            Exit => {
                let ends = u32::from(l.found.last_of_table) | u32::from(l.found.last_of_process) << 1;
                Ok(Command { produces: [ends, u32::MAX], ..l.bare(Op::Exit) })
            }
            Wait => self.simulate(l),
            Mount => self.unshare(l),
            Control if duplicates(l) => self.issue_descriptor(l),
            Copy | Splice if l.action.result >= 0 => self.copy(l),
            ChangeMode | ChangeOwner if l.found.streams[0].is_some() && l.found.paths[0].is_some() => self.by_name(l),
            Read if !l.found.received.is_empty() => Ok(self.receive(l)),
            _ if self.is_simulated(l) => self.simulate(l),
            _ if l.call.is_about_working_directory(&l.action.args, l.action.result) => self.by_here(l),
            _ if l.found.by_descriptor.is_some() => self.by_descriptor(l, l.found.by_descriptor),
            _ if self.may_be_refused_on_the_way(l) => self.by_way_of(l),
            _ => self.as_it_is(l),
        }
    }

    /// A call on files, done as the program did it.
    pub(super) fn as_it_is(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        use Effect::*;
        match l.call.effect {
            Open => self.issue_descriptor(l),
            Link => self.link(l),
            MakeObject(Object::Pipe) => {
                let mut command = self.issue(l, Op::IssuePair)?;
                self.produce(l, &mut command);
                Ok(command)
            }
            MakeObject(_) => self.issue_descriptor(l),
            Control => self.control(l),
            DeviceControl => self.device_control(l),
            // Its descriptor was closed meanwhile.
            Advise | Sync | Lock if l.action.result >= 0 && l.found.arguments[0].is_none() => self.simulate(l),
            Lock => {
                const NONBLOCKING: u64 = 4;
                self.issue(l, if l.action.args[1] & NONBLOCKING == 0 { Op::Lock } else { Op::Issue })
            }
            SyncAll if l.call.name == "sync" => Ok(l.bare(Op::SyncTarget)),
            Seek if l.action.args[2] >= SEEK_DATA && l.action.result >= 0 => {
                // Where data begins is the file system's own; what follows depends on the position.
                let mut command = self.issue(l, Op::Issue)?;
                command.args[1] = Arg::Value(l.action.result as u64);
                command.args[2] = Arg::Value(0);
                Ok(command)
            }
            Map => self.map(l),
            Unmap | Remap | MapAdvise | MapSync => self.on_mapping(l),
            MappedRead | MappedWrite => self.through_mapping(l),
            List => self.issue(l, Op::List),
            ChangeIdentity => self.change_identity(l),
            MakeNode => self.make_node(l),
            Read | Write | Seek | Truncate | Allocate | Copy | Splice | Advise | Sync | SyncAll | GetMetadata
            | TestAccess | ReadLink | GetXattr | ListXattr | StatFs | ChangeMode | ChangeOwner | ChangeTimes
            | SetXattr | RemoveXattr | MakeDirectory | MakeSymlink | Remove | Rename | ChangeDirectory | ChangeRoot
            | GetDirectory | ChangeMask | Message | Poll | Watch | Asynchronous => self.issue(l, Op::Issue),
            // Done in ways of their own, see `perform`.
            Close | CloseRange | Duplicate | DuplicateTo | Take | Spawn | Execute | Exit | Wait | Mount => {
                self.simulate(l)
            }
        }
    }

    /// Whether the result is taken from the trace.
    fn is_simulated(&self, l: &Lowering<'_>) -> bool {
        use Effect::*;
        let effect = l.call.effect;
        let lock = effect == Lock || effect == Control;
        let machine = OF_THE_MACHINE.contains(&l.action.result)
            || l.action.result == EOPNOTSUPP
            || (l.action.result == EAGAIN && !lock);
        let on_stream = l.found.streams.iter().any(Option::is_some);
        let lists_position = effect == Seek && l.found.on_directory && (l.action.args[1], l.action.args[2]) != (0, 0);
        // Without privileges, a file is linked by its descriptor only with the very credentials that it was opened with.
        // The kernel compares not what they say but which they are.
        const EMPTY_PATH: u64 = 0x1000;
        let by_descriptor = l.call.name == "linkat" && l.action.args[4] & EMPTY_PATH != 0;
        let by_credentials = by_descriptor && l.action.result == ENOENT && !self.world.is_superuser(l.action.thread);
        // The same of a nameless file that was named by its descriptor's name, where the program was refused for another reason.
        let by_its_name = effect == Link && l.found.by_descriptor.is_some() && l.action.result < 0;
        let by_credentials = by_credentials || by_its_name && !self.world.is_superuser(l.action.thread);
        // A descriptor's name leads to the file whoever may pass the directories above it.
        let through_descriptor = l.found.through_process;
        let refused_through_descriptor = l.action.result < 0 && through_descriptor;
        // How far a listing has come is the file system's own, and may be too far for a read to get as far as its error. A request
        // for no bytes is content before it gets there, a call is not.
        let reads_directory =
            effect == Read && l.found.on_directory && matches!(l.action.result, EINVAL | EISDIR | 0..);
        // Direct I/O refuses memory for where it begins, which of a vector's pieces is not in a trace; and no memory is made of very much.
        let by_vector = l.call.position(|kind| matches!(kind, ArgKind::InVector(_) | ArgKind::OutVector(_))).is_some();
        let asked = l.call.position(|kind| kind == ArgKind::Length).map_or(0, |i| l.action.args[i]);
        let is_long = effect == Write && asked > MOST_FAILED;
        let refused_memory = (by_vector || is_long) && l.found.is_direct && l.action.result == EINVAL;
        // What a file system does not know (FUSE: renaming only if nothing is replaced) the target may know.
        const NOREPLACE: u64 = 1;
        let is_unknown_there = l.call.name == "renameat2" && l.action.args[4] == NOREPLACE && l.action.result == EINVAL;
        machine
            || is_unknown_there
            || reads_directory
            || refused_memory
            || by_credentials
            || refused_through_descriptor
            || on_stream
            || lists_position
            // Of whom the files would be there is not known here.
            || effect == ChangeOwner && l.found.foreign_users
            || match l.found.nature {
                Nature::Pseudo => true,
                Nature::Device => matches!(effect, Open | GetMetadata | TestAccess | GetXattr | ListXattr | StatFs),
                Nature::Stream => effect == Open && l.found.made.first().is_none_or(|made| made.stream.is_some()),
                // The replay's devices are its own: their attributes stay as they are.
                Nature::SafeDevice => {
                    matches!(effect, ChangeMode | ChangeOwner | ChangeTimes | SetXattr | RemoveXattr)
                }
                Nature::Ordinary | Nature::RandomDevice => false,
            }
    }

    pub(super) fn issue(&mut self, l: &Lowering<'_>, op: Op) -> Result<Command, CompileError> {
        let args = self.arguments(l)?;
        let expect = self.expectation(l)?;
        let digest = self.digest(l, expect)?;
        let within = memory(l).map_or(0, within_page);
        Ok(Command { args, within, expect, digest, tolerance: self.tolerance(l), ..l.bare(op) })
    }

    /// Gives slots to the descriptors that the action made.
    pub(super) fn produce(&mut self, l: &Lowering<'_>, command: &mut Command) {
        for (slot, made) in command.produces.iter_mut().zip(&l.found.made) {
            *slot = self.slots.make(l.action.thread, made.binding);
        }
        if let Some(kind) = l.found.made.first().and_then(|m| m.stream) {
            command.stand_in = stand_in(kind);
        }
    }

    fn issue_descriptor(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        let mut command = self.issue(l, if l.found.made.is_empty() { Op::Issue } else { Op::IssueFd })?;
        command.expect = Expect::Outcome;
        self.produce(l, &mut command);
        Ok(command)
    }

    pub(super) fn simulate(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        let mut command = Command { tolerance: self.tolerance(l), ..l.bare(Op::Simulate) };
        self.produce(l, &mut command);
        Ok(command)
    }

    /// What stands for a mount, or a place in one (`open_tree`, `fsmount`): the file's place.
    fn open_place(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        const OPENAT: u32 = 257;
        const HERE: i64 = -100;
        const PATH: u64 = 0o10000000;
        // Links have been followed as far as they are.
        const NOFOLLOW: u64 = 0o400000;
        let path = l.found.paths[0].clone().unwrap_or_default();
        let path = Arg::Bytes(self.store.bytes(&path)?, path.len() as u64);
        let args = vec![Arg::Value(HERE as u64), path, Arg::Value(PATH | NOFOLLOW), Arg::Value(0)];
        let mut command = Command { number: OPENAT, args, expect: Expect::Outcome, ..l.bare(Op::IssueFd) };
        self.produce(l, &mut command);
        Ok(command)
    }

    fn close(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        let is_open = l.found.arguments[0].is_some();
        let stays = is_open && !closes(l.action.result, l.action.request.is_some());
        // By a call the error would be another: the number is not open, or it is closed.
        if stays || l.action.result == ECANCELED { self.simulate(l) } else { self.issue(l, Op::Close) }
    }

    fn close_many(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        if l.action.result < 0 {
            return self.simulate(l);
        }
        const CLONE_FILES: u64 = 0x400;
        let unshare = l.found.left.descriptors.then_some(Arg::Value(CLONE_FILES));
        let args = unshare.into_iter().collect();
        let (op, list) = match l.found.marked.is_empty() {
            true => (Op::CloseMany, self.ended(l)),
            false => (Op::MarkMany, self.slots_of(&l.found.marked)),
        };
        Ok(Command { args, list, ..l.bare(op) })
    }

    fn ended(&self, l: &Lowering<'_>) -> Vec<u32> {
        self.slots_of(&l.found.ended)
    }

    fn slots_of(&self, bindings: &[Binding]) -> Vec<u32> {
        bindings.iter().filter_map(|binding| self.slots.get(*binding)).collect()
    }

    fn duplicate_to(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        if l.found.made.is_empty() {
            // It failed, or source and target are the same number: nothing moves.
            return self.simulate(l);
        }
        let mut command = Command { args: self.arguments(l)?, expect: Expect::Outcome, ..l.bare(Op::DuplicateTo) };
        command.list = l.found.replaced.and_then(|binding| self.slots.get(binding)).into_iter().collect();
        self.produce(l, &mut command);
        Ok(command)
    }

    fn spawn(&mut self, l: &Lowering<'_>) -> Command {
        let Some(child) = l.found.spawned else { return l.bare(Op::Simulate) };
        let Parts { descriptors, directories } = self.world.shares(child);
        let shares = u32::from(descriptors) | u32::from(directories) << 1;
        let list = l.found.made.iter().map(|made| self.slots.make(l.action.thread, made.binding)).collect();
        Command { produces: [child, shares], list, ..l.bare(Op::Spawn) }
    }

    fn execute(&self, l: &Lowering<'_>) -> Command {
        if l.action.result < 0 {
            return l.bare(Op::Simulate);
        }
        let (args, expect) = match l.found.identity {
            Some((users, groups)) => ([ids(users), ids(groups)].concat(), Expect::Outcome),
            None => (Vec::new(), Expect::Nothing),
        };
        Command { list: self.ended(l), args, expect, ..l.bare(Op::Execute) }
    }

    /// Users and groups are given as they are afterwards; a change that failed changes nothing.
    fn change_identity(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        const SETRESUID: u32 = 117;
        const SETRESGID: u32 = 119;
        const SETGROUPS: u32 = 116;
        let Some((users, groups)) = l.found.identity else { return self.simulate(l) };
        let mut args = ids(users).to_vec();
        let number = match l.call.name {
            "setgroups" => {
                let list = split(l.call, Side::Input, &l.action.input)[1].unwrap_or_default();
                args.push(Arg::Bytes(self.store.bytes(list)?, list.len() as u64));
                SETGROUPS
            }
            "setgid" | "setregid" | "setresgid" | "setfsgid" => {
                args.extend(ids(groups));
                SETRESGID
            }
            _ => SETRESUID,
        };
        Ok(Command { number, args, expect: Expect::Outcome, ..l.bare(Op::ChangeIdentity) })
    }

    /// Of `unshare` what concerns descriptors and directories is done; namespaces are not entered. Where nobody shared
    /// them (any more), nothing is: in the replay a thread that has ended may still be there.
    fn unshare(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        let bit = |left: bool, bit: u64| if left { bit } else { 0 };
        let flags = bit(l.found.left.descriptors, SHARE_DESCRIPTORS) | bit(l.found.left.directories, SHARE_DIRECTORIES);
        if l.call.name != "unshare" || l.action.result < 0 || flags == 0 {
            return Ok(l.bare(Op::Skip));
        }
        Ok(Command { args: vec![Arg::Value(flags)], expect: Expect::Outcome, ..l.bare(Op::Issue) })
    }

    fn control(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        match l.action.args[1] & 0xffff_ffff {
            // F_GETLK, F_OFD_GETLK: all but who holds it.
            5 | 36 => {
                let mut command = self.issue(l, Op::Issue)?;
                let found = split(l.call, Side::Output, &l.action.output)[2];
                if let (true, Some(found)) = (l.action.result >= 0, found.filter(|f| f.len() == 32)) {
                    command.expect = Expect::Flock(self.store.bytes(found)?);
                }
                Ok(command)
            }
            // F_GETFL. A replay takes no leases: who has one has `O_ASYNC` (`lease_setup`, fs/locks.c).
            3 if l.action.result >= 0 => {
                Ok(Command { result: l.action.result & !(ASYNC as i64), ..self.issue(l, Op::Issue)? })
            }
            7 | 38 => self.issue(l, Op::Lock),
            // Flags, locks, seals and hints of the file.
            1..=4 | 6 | 37 | 1033..=1038 => self.issue(l, Op::Issue),
            // Owners, signals, leases, pipe sizes: the machine's.
            _ => self.simulate(l),
        }
    }

    fn device_control(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        match ioctl_effect(l.action.args[1]) {
            IoctlEffect::Clone | IoctlEffect::CloneRange | IoctlEffect::Allocate(_) if l.action.result < 0 => {
                self.simulate(l)
            }
            IoctlEffect::Clone => {
                let mut command = self.issue(l, Op::Issue)?;
                command.args[2] = self.descriptor(l, 2);
                Ok(command)
            }
            IoctlEffect::CloneRange => {
                // The source's number stands inside the structure: the engine puts the real one there.
                let mut command = self.issue(l, Op::Issue)?;
                command.list = l.found.arguments[2].and_then(|binding| self.slots.get(binding)).into_iter().collect();
                Ok(command)
            }
            IoctlEffect::Inspect => {
                let mut command = self.issue(l, Op::Issue)?;
                command.tolerance = Tolerance::Machine;
                Ok(command)
            }
            // What one file system takes for a hint another refuses.
            IoctlEffect::SetHints if l.action.result >= 0 && !gives_what_forbids(l) => {
                let mut command = self.issue(l, Op::Issue)?;
                command.tolerance = Tolerance::Machine;
                Ok(command)
            }
            IoctlEffect::Allocate(_)
            | IoctlEffect::SetWaiting
            | IoctlEffect::SetCloseOnExec
            | IoctlEffect::ClearCloseOnExec => self.issue(l, Op::Issue),
            IoctlEffect::SetHints | IoctlEffect::Foreign if may_change_file(l) => Ok(l.bare(Op::Unsupported)),
            IoctlEffect::MakeHandle
            | IoctlEffect::Lend
            | IoctlEffect::LendConfigured
            | IoctlEffect::SetHints
            | IoctlEffect::Foreign => self.simulate(l),
        }
    }

    /// `sendfile`, `copy_file_range`, `splice`: between two files for real; where one side is not replayed, or
    /// gives something else each time, what it does to the other.
    fn copy(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        const OWN_OFFSET: u64 = u64::MAX;
        let Some(Ends { source, target }) = ends(l.call) else { return self.issue(l, Op::Issue) };
        let input = split(l.call, Side::Input, &l.action.input);
        let is_stream = |end: End| l.found.streams[end.fd].is_some();
        let gave_other = l.found.from_random && !l.action.data.is_empty();
        let moved = l.action.result.max(0) as u64;
        let (op, end, content) = match (is_stream(source) || gave_other, is_stream(target)) {
            (false, false) => return self.issue(l, Op::Issue),
            (true, true) => return self.simulate(l),
            (false, true) => (Op::ReadAway, source, Arg::Value(0)),
            (true, false) => (Op::WriteFrom, target, self.content(l, moved)?.unwrap_or(Arg::Value(0))),
        };
        if moved == 0 {
            return self.simulate(l);
        }
        let at = end.given(&input).unwrap_or(OWN_OFFSET);
        Ok(Command {
            args: vec![self.descriptor(l, end.fd), content, Arg::Value(moved), Arg::Value(at)],
            expect: Expect::Value,
            tolerance: self.tolerance(l),
            ..l.bare(op)
        })
    }

    fn map(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        let anonymous = l.found.arguments[4].is_none();
        if anonymous || (l.found.mapping.is_none() && l.found.range.is_none()) {
            return self.simulate(l);
        }
        let mut command = self.issue(l, Op::Map)?;
        command.args[0] = Arg::Value(0);
        command.expect = Expect::Outcome;
        if let Some(range) = l.found.range {
            command.args[0] = Arg::Mapped(range.mapping, range.delta);
        } else if let Some(mapping) = l.found.mapping {
            self.make_mapping(mapping, &mut command);
        }
        Ok(command)
    }

    fn make_mapping(&mut self, mapping: MappingId, command: &mut Command) {
        command.produces[0] = mapping;
        self.mappings = self.mappings.max(mapping + 1);
    }

    fn on_mapping(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        let Some(range) = l.found.range else {
            return self.simulate(l);
        };
        if l.action.result < 0 || l.call.name == "mincore" {
            return self.simulate(l);
        }
        let mut command = self.issue(l, Op::OnMapping)?;
        command.args[0] = Arg::Mapped(range.mapping, range.delta);
        command.args[1] = Arg::Value(range.length);
        if let Some(mapping) = l.found.mapping {
            self.make_mapping(mapping, &mut command);
        }
        Ok(command)
    }

    /// Loads and stores: without their mapping there is nothing to do them on.
    fn through_mapping(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        let Some(range) = l.found.range else { return Ok(l.bare(Op::Skip)) };
        let mut command = self.issue(l, Op::OnMapping)?;
        command.args[0] = Arg::Mapped(range.mapping, range.delta);
        Ok(command)
    }

    /// With a path, `AT_EMPTY_PATH` means nothing; but the kernel asks for a capability that the replay does without.
    fn link(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        const EMPTY_PATH: u64 = 0x1000;
        let mut command = self.issue(l, Op::Issue)?;
        let named = l.action.path.as_ref().is_some_and(|path| !path.to_vec().is_empty());
        if let (true, Some(flags)) = (named, l.call.flags_arg(FlagSet::At)) {
            command.args[flags] = Arg::Value(l.action.args[flags] & !EMPTY_PATH);
        }
        Ok(command)
    }

    /// Devices are not made: a file takes the name, so that later calls find one. A whiteout is no device.
    fn make_node(&mut self, l: &Lowering<'_>) -> Result<Command, CompileError> {
        const TYPE: u64 = 0o170000;
        const REGULAR: u64 = 0o100000;
        const CHARACTER: u64 = 0o020000;
        const BLOCK: u64 = 0o060000;
        let mode = if l.call.name == "mknod" { 1 } else { 2 };
        let (value, device) = (l.action.args[mode], l.action.args[mode + 1] & 0xffff_ffff);
        let is_device = matches!((value & TYPE, device), (CHARACTER, 1..) | (BLOCK, _));
        if is_device && l.action.result < 0 {
            // Who may not make a device may make the file.
            return self.simulate(l);
        }
        let mut command = self.issue(l, Op::Issue)?;
        if is_device {
            command.args[mode] = Arg::Value((value & !TYPE) | REGULAR);
            command.args[mode + 1] = Arg::Value(0);
            command.tolerance = Tolerance::Machine;
            *self.report.surprises.entry("a device node is made as a plain file").or_default() += 1;
        }
        Ok(command)
    }

    /// `bind` of a UNIX-domain socket: the socket file is made.
    fn socket_file(&mut self, l: &Lowering<'_>, file: &SocketFile) -> Result<Command, CompileError> {
        const MKNOD: u32 = 133;
        const SOCKET: u64 = 0o140000;
        let path = Arg::Bytes(self.store.bytes(&file.path)?, file.path.len() as u64);
        Ok(Command {
            number: MKNOD,
            args: vec![path, Arg::Value(SOCKET | u64::from(file.mode)), Arg::Value(0)],
            expect: Expect::Outcome,
            ..l.bare(Op::Issue)
        })
    }
}

/// Users or groups as the engine takes them on: real, effective, for files.
fn ids(of: Identity) -> [Arg; 3] {
    [of.real, of.effective, of.files].map(|id| Arg::Value(id.into()))
}

/// Whether the action made a descriptor that stands for a place which a replay has.
fn makes_place(l: &Lowering<'_>) -> bool {
    let is_handle = l.call.effect == Effect::MakeObject(Object::Handle);
    is_handle && l.found.made.first().is_some_and(|made| made.stream.is_none())
}

/// Whether an `fcntl` is `F_DUPFD` or `F_DUPFD_CLOEXEC`.
fn duplicates(l: &Lowering<'_>) -> bool {
    matches!(l.action.args[1] & 0xffff_ffff, 0 | 1030)
}
