//! Durability and advice.

use super::row;
use crate::ArgKind::*;
use crate::{Access::*, Call, CommandSet, Effect, FlagSet, Replay};

/// The rows.
pub const CALLS: &[Call] = &[
    row!(fsync 74 (fd: Fd(Use)) Zero Effect::Sync, Replay::Issue, Outcome, "makes a file durable"),
    row!(fdatasync 75 (fd: Fd(Use)) Zero Effect::Sync, Replay::Issue, Outcome, "makes a file's content durable"),
    row!(sync 162 () Zero Effect::SyncAll, Replay::Engine, Outcome, "makes all durable (the replay syncs its target only)"),
    row!(syncfs 306 (fd: Fd(Use)) Zero Effect::SyncAll, Replay::Issue, Outcome, "makes a file system durable"),
    row!(sync_file_range 277 (fd: Fd(Use), offset: Offset, length: Offset, flags: Flags(FlagSet::SyncRange)) Zero Effect::Sync, Replay::Issue, Outcome, "starts or awaits write-back of a range"),
    row!(fadvise64 221 (fd: Fd(Use), offset: Offset, length: Offset, advice: Command(CommandSet::Fadvise)) Zero Effect::Advise, Replay::Issue, Outcome, "announces a pattern of access"),
    row!(readahead 187 (fd: Fd(Use), offset: Offset, count: Length) Zero Effect::Advise, Replay::Issue, Outcome, "reads into the page cache"),
];
