//! Attributes of files and file systems.

use super::row;
use crate::ArgKind::*;
use crate::Struct::*;
use crate::{Access::*, Call, Effect, FlagSet, Follow, Replay};

/// The rows.
pub const CALLS: &[Call] = &[
    row!(stat 4 (path: Path(Follow::Always), statbuf: Out(Stat)) Zero Effect::GetMetadata, Replay::Issue, Metadata, "reads attributes by name"),
    row!(lstat 6 (path: Path(Follow::Never), statbuf: Out(Stat)) Zero Effect::GetMetadata, Replay::Issue, Metadata, "reads attributes of the name itself"),
    row!(fstat 5 (fd: Fd(Use), statbuf: Out(Stat)) Zero Effect::GetMetadata, Replay::Issue, Metadata, "reads attributes of an open file"),
    row!(newfstatat 262 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 3, bit: 0x100 }), statbuf: Out(Stat), flags: Flags(FlagSet::At)) Zero Effect::GetMetadata, Replay::Issue, Metadata, "reads attributes relative to a directory"),
    row!(statx 332 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 2, bit: 0x100 }), flags: Flags(FlagSet::At), mask: Number, statxbuf: Out(Statx)) Zero Effect::GetMetadata, Replay::Issue, Metadata, "reads chosen attributes"),
    row!(access 21 (path: Path(Follow::Always), mode: Flags(FlagSet::Access)) Zero Effect::TestAccess, Replay::Issue, Outcome, "asks whether an access is permitted"),
    row!(faccessat 269 (dirfd: Dirfd, path: Path(Follow::Always), mode: Flags(FlagSet::Access)) Zero Effect::TestAccess, Replay::Issue, Outcome, "asks relative to a directory"),
    row!(faccessat2 439 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 3, bit: 0x100 }), mode: Flags(FlagSet::Access), flags: Flags(FlagSet::At)) Zero Effect::TestAccess, Replay::Issue, Outcome, "asks relative to a directory with flags"),
    row!(chmod 90 (path: Path(Follow::Always), mode: Mode) Zero Effect::ChangeMode, Replay::Issue, Outcome, "changes permission bits by name"),
    row!(fchmod 91 (fd: Fd(Use), mode: Mode) Zero Effect::ChangeMode, Replay::Issue, Outcome, "changes permission bits of an open file"),
    row!(fchmodat 268 (dirfd: Dirfd, path: Path(Follow::Always), mode: Mode) Zero Effect::ChangeMode, Replay::Issue, Outcome, "changes permission bits relative to a directory"),
    row!(fchmodat2 452 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 3, bit: 0x100 }), mode: Mode, flags: Flags(FlagSet::At)) Zero Effect::ChangeMode, Replay::Issue, Outcome, "changes permission bits with flags"),
    row!(chown 92 (path: Path(Follow::Always), owner: Owner, group: Owner) Zero Effect::ChangeOwner, Replay::Issue, Outcome, "changes owner and group by name"),
    row!(lchown 94 (path: Path(Follow::Never), owner: Owner, group: Owner) Zero Effect::ChangeOwner, Replay::Issue, Outcome, "changes owner and group of the name itself"),
    row!(fchown 93 (fd: Fd(Use), owner: Owner, group: Owner) Zero Effect::ChangeOwner, Replay::Issue, Outcome, "changes owner and group of an open file"),
    row!(fchownat 260 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 4, bit: 0x100 }), owner: Owner, group: Owner, flags: Flags(FlagSet::At)) Zero Effect::ChangeOwner, Replay::Issue, Outcome, "changes owner and group relative to a directory"),
    row!(utime 132 (path: Path(Follow::Always), times: In(Utimbuf)) Zero Effect::ChangeTimes, Replay::Issue, Outcome, "sets times in seconds"),
    row!(utimes 235 (path: Path(Follow::Always), times: In(Timevals)) Zero Effect::ChangeTimes, Replay::Issue, Outcome, "sets times in microseconds"),
    row!(futimesat 261 (dirfd: Dirfd, path: Path(Follow::Always), times: In(Timevals)) Zero Effect::ChangeTimes, Replay::Issue, Outcome, "sets times relative to a directory"),
    row!(utimensat 280 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 3, bit: 0x100 }), times: In(Timespecs), flags: Flags(FlagSet::At)) Zero Effect::ChangeTimes, Replay::Issue, Outcome, "sets times in nanoseconds"),
    row!(umask 95 (mask: Mode) Value Effect::ChangeMask, Replay::Issue, Value, "sets the file mode creation mask"),
    row!(statfs 137 (path: Path(Follow::Always), buf: Out(Statfs)) Zero Effect::StatFs, Replay::Issue, Outcome, "reads facts about a file system by name"),
    row!(fstatfs 138 (fd: Fd(Use), buf: Out(Statfs)) Zero Effect::StatFs, Replay::Issue, Outcome, "reads facts about an open file's file system"),
    row!(file_getattr 468 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 4, bit: 0x100 }), attr: Address, size: Length, flags: Flags(FlagSet::At)) Zero Effect::TestAccess, Replay::Skip("flags of files are the file system's own"), Nothing, "reads flags of a file"),
    row!(file_setattr 469 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 4, bit: 0x100 }), attr: Address, size: Length, flags: Flags(FlagSet::At)) Zero Effect::TestAccess, Replay::Skip("flags of files are not set by a replay"), Nothing, "sets flags of a file"),
];
