//! Descriptors: closing, duplicating, controlling.

use super::row;
use crate::ArgKind::*;
use crate::Struct::*;
use crate::{Access::*, Call, CommandSet, Effect, FlagSet, Object, Replay};

/// The rows.
pub const CALLS: &[Call] = &[
    row!(close 3 (fd: Fd(Destroy)) Zero Effect::Close, Replay::Issue, Outcome, "ends a descriptor"),
    row!(close_range 436 (first: Integer, last: Integer, flags: Flags(FlagSet::CloseRange)) Zero Effect::CloseRange, Replay::Engine, Outcome, "ends a range of descriptors"),
    row!(dup 32 (fd: Fd(Use)) Fd Effect::Duplicate, Replay::Issue, Outcome, "a second number for a descriptor"),
    row!(dup2 33 (fd: Fd(Use), newfd: Fd(Create)) Fd Effect::DuplicateTo, Replay::Engine, Outcome, "a second, chosen number for a descriptor"),
    row!(dup3 292 (fd: Fd(Use), newfd: Fd(Create), flags: Flags(FlagSet::Open)) Fd Effect::DuplicateTo, Replay::Engine, Outcome, "a second, chosen number with flags"),
    row!(fcntl 72 (fd: Fd(Use), command: Command(CommandSet::Fcntl), arg: InOut(ByCommand)) Value Effect::Control, Replay::Issue, Value, "duplicates, flags, record locks, leases, seals"),
    row!(ioctl 16 (fd: Fd(Use), request: Command(CommandSet::Ioctl), arg: InOut(ByCommand)) Value Effect::DeviceControl, Replay::Issue, Outcome, "clones ranges, inspects files, controls devices"),
    row!(flock 73 (fd: Fd(Use), operation: Flags(FlagSet::Lock)) Zero Effect::Lock, Replay::Issue, Outcome, "locks a whole file"),
    row!(pipe 22 (fds: Out(FdPair)) Zero Effect::MakeObject(Object::Pipe), Replay::Issue, Outcome, "makes a pipe"),
    row!(pipe2 293 (fds: Out(FdPair), flags: Flags(FlagSet::Open)) Zero Effect::MakeObject(Object::Pipe), Replay::Issue, Outcome, "makes a pipe with flags"),
];
