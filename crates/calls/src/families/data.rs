//! Moving content.

use super::row;
use crate::ArgKind::*;
use crate::Struct::*;
use crate::{Access::*, Call, CommandSet, Effect, FlagSet, Follow, Replay};

/// The rows.
pub const CALLS: &[Call] = &[
    row!(read 0 (fd: Fd(Use), buf: OutData(2), count: Length) Count Effect::Read, Replay::Issue, Content, "reads at the offset"),
    row!(write 1 (fd: Fd(Use), buf: InData(2), count: Length) Count Effect::Write, Replay::Issue, Value, "writes at the offset"),
    row!(pread64 17 (fd: Fd(Use), buf: OutData(2), count: Length, offset: Offset) Count Effect::Read, Replay::Issue, Content, "reads at a position"),
    row!(pwrite64 18 (fd: Fd(Use), buf: InData(2), count: Length, offset: Offset) Count Effect::Write, Replay::Issue, Value, "writes at a position"),
    row!(readv 19 (fd: Fd(Use), iov: OutVector(2), iovcnt: Length) Count Effect::Read, Replay::Issue, Content, "reads into several buffers"),
    row!(writev 20 (fd: Fd(Use), iov: InVector(2), iovcnt: Length) Count Effect::Write, Replay::Issue, Value, "writes from several buffers"),
    row!(preadv 295 (fd: Fd(Use), iov: OutVector(2), iovcnt: Length, offset: Offset, offset_high: Number) Count Effect::Read, Replay::Issue, Content, "reads into several buffers at a position"),
    row!(pwritev 296 (fd: Fd(Use), iov: InVector(2), iovcnt: Length, offset: Offset, offset_high: Number) Count Effect::Write, Replay::Issue, Value, "writes from several buffers at a position"),
    row!(preadv2 327 (fd: Fd(Use), iov: OutVector(2), iovcnt: Length, offset: Offset, offset_high: Number, flags: Flags(FlagSet::ReadWrite)) Count Effect::Read, Replay::Issue, Content, "preadv with flags; position -1 is the offset"),
    row!(pwritev2 328 (fd: Fd(Use), iov: InVector(2), iovcnt: Length, offset: Offset, offset_high: Number, flags: Flags(FlagSet::ReadWrite)) Count Effect::Write, Replay::Issue, Value, "pwritev with flags; position -1 is the offset"),
    row!(sendfile 40 (out_fd: Fd(Use), in_fd: Fd(Use), offset: InOut(OffsetCell), count: Length) Count Effect::Copy, Replay::Issue, Value, "moves content between descriptors in the kernel"),
    row!(copy_file_range 326 (in_fd: Fd(Use), in_offset: InOut(OffsetCell), out_fd: Fd(Use), out_offset: InOut(OffsetCell), count: Length, flags: Number) Count Effect::Copy, Replay::Issue, Value, "copies a range between files"),
    row!(splice 275 (in_fd: Fd(Use), in_offset: InOut(OffsetCell), out_fd: Fd(Use), out_offset: InOut(OffsetCell), count: Length, flags: Flags(FlagSet::Splice)) Count Effect::Splice, Replay::Issue, Value, "moves content to or from a pipe"),
    row!(tee 276 (in_fd: Fd(Use), out_fd: Fd(Use), count: Length, flags: Flags(FlagSet::Splice)) Count Effect::Message, Replay::Simulate, Nothing, "duplicates pipe content"),
    row!(vmsplice 278 (fd: Fd(Use), iov: Address, count: Length, flags: Flags(FlagSet::Splice)) Count Effect::Message, Replay::Simulate, Nothing, "maps memory into a pipe"),
    row!(lseek 8 (fd: Fd(Use), offset: Offset, whence: Command(CommandSet::Whence)) Offset Effect::Seek, Replay::Issue, Value, "moves the offset, finds data and holes"),
    row!(truncate 76 (path: Path(Follow::Always), length: Offset) Zero Effect::Truncate, Replay::Issue, Outcome, "sets a file's size by name"),
    row!(ftruncate 77 (fd: Fd(Use), length: Offset) Zero Effect::Truncate, Replay::Issue, Outcome, "sets a file's size"),
    row!(fallocate 285 (fd: Fd(Use), mode: Flags(FlagSet::Allocate), offset: Offset, length: Offset) Zero Effect::Allocate, Replay::Issue, Outcome, "allocates, zeroes, punches, collapses or inserts a range"),
];
