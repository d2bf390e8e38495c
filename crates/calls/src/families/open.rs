//! Opening and making files.

use super::row;
use crate::ArgKind::*;
use crate::Struct::*;
use crate::{Access::*, Call, Effect, FlagSet, Follow, Object, Replay};

/// The rows.
pub const CALLS: &[Call] = &[
    row!(open 2 (path: Path(Follow::AsOpen), flags: Flags(FlagSet::Open), mode: Mode) Fd Effect::Open, Replay::Issue, Outcome, "opens, creates or truncates a file"),
    row!(openat 257 (dirfd: Dirfd, path: Path(Follow::AsOpen), flags: Flags(FlagSet::Open), mode: Mode) Fd Effect::Open, Replay::Issue, Outcome, "opens a file relative to a directory"),
    row!(openat2 437 (dirfd: Dirfd, path: Path(Follow::AsOpen), how: In(Sized(3)), size: Length) Fd Effect::Open, Replay::Issue, Outcome, "opens a file with restrictions on resolution"),
    row!(creat 85 (path: Path(Follow::AsOpen), mode: Mode) Fd Effect::Open, Replay::Issue, Outcome, "creates or truncates a file for writing"),
    row!(memfd_create 319 (name: Text, flags: Number) Fd Effect::MakeObject(Object::Memory), Replay::Issue, Outcome, "makes a file in memory"),
    row!(memfd_secret 447 (flags: Number) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Outcome, "makes a secret memory area"),
    row!(open_by_handle_at 304 (mount: Fd(Use), handle: Address, flags: Flags(FlagSet::Open)) Fd Effect::MakeObject(Object::Handle), Replay::Unsupported("file handles name a file outside of any directory"), Nothing, "opens a file by its handle"),
    row!(name_to_handle_at 303 (dirfd: Dirfd, path: Path(Follow::If { arg: 4, bit: 0x400 }), handle: Address, mount_id: Address, flags: Flags(FlagSet::At)) Zero Effect::TestAccess, Replay::Skip("file handles differ between file systems"), Nothing, "asks for a file's handle"),
];
