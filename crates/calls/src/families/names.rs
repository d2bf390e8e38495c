//! Names: making, moving, removing, listing; working and root directory.

use super::row;
use crate::ArgKind::*;
use crate::{Access::*, Call, Effect, FlagSet, Follow, Replay};

/// The rows.
pub const CALLS: &[Call] = &[
    row!(rename 82 (old: Path(Follow::Never), new: Path(Follow::Never)) Zero Effect::Rename, Replay::Issue, Outcome, "changes a name"),
    row!(renameat 264 (olddirfd: Dirfd, old: Path(Follow::Never), newdirfd: Dirfd, new: Path(Follow::Never)) Zero Effect::Rename, Replay::Issue, Outcome, "changes a name relative to directories"),
    row!(renameat2 316 (olddirfd: Dirfd, old: Path(Follow::Never), newdirfd: Dirfd, new: Path(Follow::Never), flags: Flags(FlagSet::Rename)) Zero Effect::Rename, Replay::Issue, Outcome, "changes or exchanges names"),
    row!(link 86 (old: Path(Follow::Never), new: Path(Follow::Never)) Zero Effect::Link, Replay::Issue, Outcome, "makes a further name"),
    row!(linkat 265 (olddirfd: Dirfd, old: Path(Follow::If { arg: 4, bit: 0x400 }), newdirfd: Dirfd, new: Path(Follow::Never), flags: Flags(FlagSet::At)) Zero Effect::Link, Replay::Issue, Outcome, "makes a further name relative to directories"),
    row!(symlink 88 (target: Text, path: Path(Follow::Never)) Zero Effect::MakeSymlink, Replay::Issue, Outcome, "makes a symbolic link"),
    row!(symlinkat 266 (target: Text, dirfd: Dirfd, path: Path(Follow::Never)) Zero Effect::MakeSymlink, Replay::Issue, Outcome, "makes a symbolic link relative to a directory"),
    row!(unlink 87 (path: Path(Follow::Never)) Zero Effect::Remove, Replay::Issue, Outcome, "removes a name"),
    row!(unlinkat 263 (dirfd: Dirfd, path: Path(Follow::Never), flags: Flags(FlagSet::Unlink)) Zero Effect::Remove, Replay::Issue, Outcome, "removes a name relative to a directory"),
    row!(rmdir 84 (path: Path(Follow::Never)) Zero Effect::Remove, Replay::Issue, Outcome, "removes an empty directory"),
    row!(mkdir 83 (path: Path(Follow::Never), mode: Mode) Zero Effect::MakeDirectory, Replay::Issue, Outcome, "makes a directory"),
    row!(mkdirat 258 (dirfd: Dirfd, path: Path(Follow::Never), mode: Mode) Zero Effect::MakeDirectory, Replay::Issue, Outcome, "makes a directory relative to a directory"),
    row!(mknod 133 (path: Path(Follow::Never), mode: Mode, dev: Device) Zero Effect::MakeNode, Replay::Issue, Outcome, "makes a file, FIFO, socket or device node"),
    row!(mknodat 259 (dirfd: Dirfd, path: Path(Follow::Never), mode: Mode, dev: Device) Zero Effect::MakeNode, Replay::Issue, Outcome, "makes a node relative to a directory"),
    row!(readlink 89 (path: Path(Follow::Never), buf: OutData(2), size: Length) Count Effect::ReadLink, Replay::Issue, Content, "reads a link's text"),
    row!(readlinkat 267 (dirfd: Dirfd, path: Path(Follow::Never), buf: OutData(3), size: Length) Count Effect::ReadLink, Replay::Issue, Content, "reads a link's text relative to a directory"),
    row!(getdents 78 (fd: Fd(Use), buf: OutData(2), size: Length) Count Effect::List, Replay::Issue, Listing, "lists a directory, in the old layout"),
    row!(getdents64 217 (fd: Fd(Use), buf: OutData(2), size: Length) Count Effect::List, Replay::Issue, Listing, "lists a directory"),
    row!(chdir 80 (path: Path(Follow::Always)) Zero Effect::ChangeDirectory, Replay::Issue, Outcome, "changes the working directory"),
    row!(fchdir 81 (fd: Fd(Use)) Zero Effect::ChangeDirectory, Replay::Issue, Outcome, "changes the working directory to an open one"),
    row!(chroot 161 (path: Path(Follow::Always)) Zero Effect::ChangeRoot, Replay::Issue, Outcome, "changes the root directory"),
    row!(getcwd 79 (buf: OutData(1), size: Length) Count Effect::GetDirectory, Replay::Issue, Content, "asks for the working directory"),
];
