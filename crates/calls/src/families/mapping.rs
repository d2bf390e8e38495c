//! Memory mappings, and what is read and written through them without a call.

use super::row;
use crate::ArgKind::*;
use crate::{Access::*, Call, CommandSet, Effect, FlagSet, Replay};

/// The rows.
pub const CALLS: &[Call] = &[
    row!(mmap 9 (addr: Address, length: Length, prot: Flags(FlagSet::Protection), flags: Flags(FlagSet::Map), fd: Fd(Use), offset: Offset) Address Effect::Map, Replay::Engine, Outcome, "maps a file (anonymous mappings are only recorded)"),
    row!(munmap 11 (addr: Address, length: Length) Zero Effect::Unmap, Replay::Engine, Outcome, "unmaps memory"),
    row!(mremap 25 (addr: Address, old_length: Length, new_length: Length, flags: Flags(FlagSet::Remap), new_addr: Address) Address Effect::Remap, Replay::Engine, Outcome, "moves or resizes a mapping"),
    row!(mprotect 10 (addr: Address, length: Length, prot: Flags(FlagSet::Protection)) Zero Effect::MapAdvise, Replay::Engine, Outcome, "changes a mapping's protection"),
    row!(madvise 28 (addr: Address, length: Length, advice: Command(CommandSet::Madvise)) Zero Effect::MapAdvise, Replay::Engine, Outcome, "advises on mapped memory"),
    row!(msync 26 (addr: Address, length: Length, flags: Flags(FlagSet::MapSync)) Zero Effect::MapSync, Replay::Engine, Outcome, "writes a mapping back"),
    row!(mlock 149 (addr: Address, length: Length) Zero Effect::MapAdvise, Replay::Engine, Outcome, "keeps mapped memory resident"),
    row!(munlock 150 (addr: Address, length: Length) Zero Effect::MapAdvise, Replay::Engine, Outcome, "lets mapped memory go"),
    row!(mincore 27 (addr: Address, length: Length, vec: Address) Zero Effect::MapAdvise, Replay::Engine, Outcome, "asks which pages are resident"),
    row!(remap_file_pages 216 (addr: Address, size: Length, prot: Number, pgoff: Number, flags: Number) Zero Effect::MapAdvise, Replay::Unsupported("obsolete"), Nothing, "rearranges a mapping"),
    row!(mmap_pread 61440 (addr: Address, data: OutData(2), length: Length, offset: Offset) Count Effect::MappedRead, Replay::Engine, Content, "reads through a mapping of a file, at a position in it"),
    row!(mmap_pwrite 61441 (addr: Address, data: InData(2), length: Length, offset: Offset) Count Effect::MappedWrite, Replay::Engine, Value, "writes through a shared mapping of a file, at a position in it"),
];
