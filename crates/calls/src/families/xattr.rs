//! Extended attributes.

use super::row;
use crate::ArgKind::*;
use crate::{Access::*, Call, Effect, FlagSet, Follow, Replay};

/// The rows.
pub const CALLS: &[Call] = &[
    row!(setxattr 188 (path: Path(Follow::Always), name: Text, value: InData(3), size: Length, flags: Flags(FlagSet::Xattr)) Zero Effect::SetXattr, Replay::Issue, Outcome, "sets an attribute by name"),
    row!(lsetxattr 189 (path: Path(Follow::Never), name: Text, value: InData(3), size: Length, flags: Flags(FlagSet::Xattr)) Zero Effect::SetXattr, Replay::Issue, Outcome, "sets an attribute of the name itself"),
    row!(fsetxattr 190 (fd: Fd(Use), name: Text, value: InData(3), size: Length, flags: Flags(FlagSet::Xattr)) Zero Effect::SetXattr, Replay::Issue, Outcome, "sets an attribute of an open file"),
    row!(getxattr 191 (path: Path(Follow::Always), name: Text, value: OutData(3), size: Length) Count Effect::GetXattr, Replay::Issue, Content, "reads an attribute by name"),
    row!(lgetxattr 192 (path: Path(Follow::Never), name: Text, value: OutData(3), size: Length) Count Effect::GetXattr, Replay::Issue, Content, "reads an attribute of the name itself"),
    row!(fgetxattr 193 (fd: Fd(Use), name: Text, value: OutData(3), size: Length) Count Effect::GetXattr, Replay::Issue, Content, "reads an attribute of an open file"),
    row!(listxattr 194 (path: Path(Follow::Always), list: OutData(2), size: Length) Count Effect::ListXattr, Replay::Issue, Names, "lists attributes by name"),
    row!(llistxattr 195 (path: Path(Follow::Never), list: OutData(2), size: Length) Count Effect::ListXattr, Replay::Issue, Names, "lists attributes of the name itself"),
    row!(flistxattr 196 (fd: Fd(Use), list: OutData(2), size: Length) Count Effect::ListXattr, Replay::Issue, Names, "lists attributes of an open file"),
    row!(removexattr 197 (path: Path(Follow::Always), name: Text) Zero Effect::RemoveXattr, Replay::Issue, Outcome, "removes an attribute by name"),
    row!(lremovexattr 198 (path: Path(Follow::Never), name: Text) Zero Effect::RemoveXattr, Replay::Issue, Outcome, "removes an attribute of the name itself"),
    row!(fremovexattr 199 (fd: Fd(Use), name: Text) Zero Effect::RemoveXattr, Replay::Issue, Outcome, "removes an attribute of an open file"),
    row!(setxattrat 463 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 2, bit: 0x100 }), at_flags: Flags(FlagSet::At), name: Text, args: Address, size: Length) Zero Effect::SetXattr, Replay::Unsupported("the value lies behind a second pointer"), Nothing, "sets an attribute relative to a directory"),
    row!(getxattrat 464 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 2, bit: 0x100 }), at_flags: Flags(FlagSet::At), name: Text, args: Address, size: Length) Count Effect::GetXattr, Replay::Unsupported("the value lies behind a second pointer"), Nothing, "reads an attribute relative to a directory"),
    row!(listxattrat 465 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 2, bit: 0x100 }), at_flags: Flags(FlagSet::At), list: OutData(4), size: Length) Count Effect::ListXattr, Replay::Issue, Names, "lists attributes relative to a directory"),
    row!(removexattrat 466 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 2, bit: 0x100 }), at_flags: Flags(FlagSet::At), name: Text) Zero Effect::RemoveXattr, Replay::Issue, Outcome, "removes an attribute relative to a directory"),
];
