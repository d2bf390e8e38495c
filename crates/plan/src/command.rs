//! One compiled action, and its encoding as 64-bit words.
//!
//! Goals: everything the engine needs to issue and judge one action without knowing rules, paths or the trace.
//! Goals of the encoding (`encoding`, `transfer`, `stream`): a reader survives any words. [`CommandReader`] checks every length and
//! tag; offsets into the plan's bytes and buffers are checked by the engine, at use.

mod encoding;
mod plain;
mod stream;
mod transfer;

use crate::order::Rule;
use crate::timing::Timing;
pub use plain::Plain;
pub use stream::{CommandReader, CommandWriter};
pub use transfer::{Transfer, Way};

/// How the engine performs a command. Closed: the engine matches exhaustively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Issue the call and judge it.
    Issue = 0,
    /// Issue; on success the result is a descriptor kept in `produces[0]`.
    IssueFd,
    /// Issue; on success two descriptors stand in the structure of the first argument, kept in `produces`.
    IssuePair,
    /// Issue nothing; the traced result holds. Descriptors in `produces` become stand-ins of kind `stand_in`.
    Simulate,
    /// Issue nothing; counted as skipped.
    Skip,
    /// Issue nothing; counted as unsupported.
    Unsupported,
    /// `close`: argument 0. The slot's life in this descriptor table ends.
    Close,
    /// End every slot in `list` in this descriptor table (`close_range`, close-on-exec). No call to judge.
    CloseMany,
    /// `dup2`/`dup3`: argument 0 is the source; `list` is empty, or holds the slot that is open under the new number
    /// and is replaced. The new descriptor is kept in `produces[0]`. Argument 2 may carry flags.
    DuplicateTo,
    /// Start the replay thread `produces[0]`; bit 0 of `produces[1]`: it shares descriptors, bit 1: it shares
    /// directories with this thread. Slots in `list` are then filled with stand-ins (handles of the child).
    Spawn,
    /// The program is replaced: end the slots in `list` (close-on-exec), forget mappings in `unmap`. Never run anything.
    /// Where the thread runs as others from then on, arguments 0 to 5 are as those of a [`Op::ChangeIdentity`] of groups.
    Execute,
    /// The thread ends; bit 0 of `produces[0]`: it was the last that used its descriptor table, which ends with it, bit 1: the last of
    /// its process, whose mappings end.
    Exit,
    /// `mmap` of a file: the mapping is kept in mapping slot `produces[0]` (`u32::MAX`: a part of the mapping that
    /// argument 0 points into). PROT_EXEC is left out.
    Map,
    /// `munmap`, `mremap`, `mprotect`, `madvise`, `msync`, `mlock` … on `Arg::Mapped` addresses, and loads and stores there
    /// (`mmap_pread`, `mmap_pwrite`): issue and judge. A `mremap` that leaves the old range where it is keeps the new one in mapping
    /// slot `produces[0]`.
    OnMapping,
    /// A read at the offset of argument 0 (or at argument 3 if it is not `u64::MAX`) of `result` bytes, thrown away:
    /// what a `sendfile` or `splice` into something simulated does to its source.
    ReadAway,
    /// A write of the content in argument 1 to argument 0 (at argument 3 if it is not `u64::MAX`): what a `sendfile`
    /// or `splice` from something simulated does to its destination.
    WriteFrom,
    /// A call that waits for a lock: tried without waiting, again until a time limit; then diverged.
    Lock,
    /// Lists a directory: judged by the sum of its entries when the traced listing came to its end.
    List,
    /// `sync`: only the target's file system is synced.
    SyncTarget,
    /// The thread's users and groups change. Arguments 0 to 2: real, effective and file-system user afterwards. Call 119
    /// (`setresgid`): arguments 3 to 5 are the same of the groups; call 116 (`setgroups`): argument 3 is the list, 32
    /// bits each.
    ChangeIdentity,
    /// A message that carries descriptors was sent: each is kept for whoever receives it. `list` holds pairs: a slot, and
    /// the number on the way.
    Pass,
    /// Such a message was received. `list` holds pairs: the slot to fill (`u32::MAX`: let it go), and the number on the way
    /// (`u32::MAX`: nobody sent it, a stand-in takes its place). Argument 0 is a sum: [`RECEIVED_STAYS`], [`RECEIVED_MARKED`].
    Receive,
    /// `pidfd_getfd`: the descriptor of argument 1 in the table of the thread in argument 0 gets a number in this thread's
    /// table too, kept in `produces[0]`.
    Take,
    /// `close_range` with `CLOSE_RANGE_CLOEXEC`: sets that of every slot in `list`, in this descriptor table. Arguments as of
    /// [`Op::CloseMany`].
    MarkMany,
    /// As [`Op::IssueFd`] if `produces[0]` is a slot, else as [`Op::Issue`], of a path that led through a part of a process
    /// (`/proc/self/fd/N`), past the directories above: where one of these refuses whoever issues it, it is issued by the superuser.
    Through,
}

impl Op {
    fn from_word(word: u8) -> Option<Op> {
        use Op::*;
        const ALL: [Op; 25] = [
            Issue,
            IssueFd,
            IssuePair,
            Simulate,
            Skip,
            Unsupported,
            Close,
            CloseMany,
            DuplicateTo,
            Spawn,
            Execute,
            Exit,
            Map,
            OnMapping,
            ReadAway,
            WriteFrom,
            Lock,
            List,
            SyncTarget,
            ChangeIdentity,
            Pass,
            Receive,
            Take,
            MarkMany,
            Through,
        ];
        ALL.get(usize::from(word)).copied()
    }
}

/// Of [`Op::Receive`]: all of it is kept on for who receives it next (`MSG_PEEK`).
pub const RECEIVED_STAYS: u64 = 1;
/// Of [`Op::Receive`]: programs that are run later have it no more (`MSG_CMSG_CLOEXEC`).
pub const RECEIVED_MARKED: u64 = 2;

/// A stand-in for a descriptor whose I/O is not replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum StandIn {
    /// A descriptor of `/dev/null`: terminals, devices, what is unknown.
    Null = 0,
    /// One end of a pipe (a second stand-in of the same command is its other end).
    Pipe,
    /// A UNIX-domain socket.
    Socket,
    /// An `eventfd`: counters, timers, rings, handles, and watch queues, of which a user may have few (`fs.inotify.max_user_instances`,
    /// `fs.fanotify.max_user_groups`).
    Event,
    /// An `epoll` set.
    Epoll,
}

impl StandIn {
    fn from_word(word: u8) -> Option<StandIn> {
        use StandIn::*;
        [Null, Pipe, Socket, Event, Epoll].get(usize::from(word)).copied()
    }
}

/// An argument as the engine materializes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arg {
    /// The number itself.
    Value(u64),
    /// The real descriptor in a slot.
    Fd(u32),
    /// Address of bytes in the plan's `bytes` (strings are NUL-terminated there): offset and length.
    Bytes(u64, u64),
    /// Address of content in the plan's `buffers`: offset and length.
    Content(u64, u64),
    /// Address of scratch memory of at least this many bytes, that the call fills.
    Out(u64),
    /// Address of scratch memory that begins as a copy of the plan's `bytes` at this offset, of this length.
    InOut(u64, u64),
    /// Address of an array of `iovec` over content: offset in `bytes` of the lengths (count u64, then that many u64),
    /// and offset of the content in `buffers` ([`NOWHERE`]: none, the pieces lie where no memory is).
    ContentVector(u64, u64),
    /// Address of an array of `iovec` over scratch memory: offset in `bytes` of the lengths as above.
    OutVector(u64),
    /// An address inside a mapping: mapping slot and distance from its begin in bytes.
    Mapped(u32, u64),
}

/// Stands for the offset of content that nobody needs: the call failed before it read any.
pub const NOWHERE: u64 = u64::MAX;

/// What is judged beside success or the same error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing at all.
    Nothing,
    /// Success, or the same error.
    Outcome,
    /// The same result.
    Value,
    /// The same result, and filled scratch memory equal to the plan's `buffers`: offset, length.
    Content(u64, u64),
    /// The same result, and filled memory whose BLAKE3, per piece of 1 MiB, is at this offset of `bytes`: offset, length of the hashed content.
    Digest(u64, u64),
    /// `struct stat` (length 144) or `statx` (256) at this offset of `bytes`.
    Metadata(u64, u64),
    /// Listing number (one for each open file description), and offset in `bytes` of [`Listing`] words.
    Listing(u64, u64),
    /// A set of NUL-terminated names in any order: offset and length in `bytes`.
    Names(u64, u64),
    /// A `struct flock` found by F_GETLK (32 bytes at this offset of `bytes`): all but the holder.
    Flock(u64),
}

/// Why a difference of this command cannot be avoided by any replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Tolerance {
    /// It can be avoided.
    None = 0,
    /// The file lives on a pseudo file system (`/proc`, `/sys` …).
    Pseudo,
    /// The bytes are random by nature.
    Random,
    /// The value is the machine's or the file system's own (free space, process numbers).
    Machine,
    /// The file was filled through a shared mapping, whose writes are not in the trace.
    Mapping,
    /// The content was not recorded.
    Unrecorded,
    /// It saw another call half done.
    Amid,
}

impl Tolerance {
    fn from_word(word: u8) -> Option<Tolerance> {
        use Tolerance::*;
        [None, Pseudo, Random, Machine, Mapping, Unrecorded, Amid].get(usize::from(word)).copied()
    }

    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Tolerance::None => "",
            Tolerance::Pseudo => "pseudo file system",
            Tolerance::Random => "random source",
            Tolerance::Machine => "machine's own value",
            Tolerance::Mapping => "written through a mapping",
            Tolerance::Unrecorded => "content not recorded",
            Tolerance::Amid => "saw another call half done",
        }
    }
}

/// What a listing should amount to, at [`Expect::Listing`]: five words in `bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listing {
    /// Not 0 if this is the first call since the directory was opened or rewound: sums begin anew. 1 if it shows what there
    /// is now, 2 if it shows what there was then.
    pub begins: u64,
    /// 1 if the traced call returned 0, the end: the engine reads on to the end itself and compares the sums.
    pub ends: u64,
    /// Number of entries from the begin to this end.
    pub entries: u64,
    /// Sum of [`entry_hash`] over the names, low word.
    pub sum_low: u64,
    /// High word.
    pub sum_high: u64,
}

impl Listing {
    /// Size when encoded, in bytes.
    pub const BYTES: u64 = 40;

    /// Encodes.
    pub fn to_bytes(self) -> [u8; 40] {
        let mut out = [0; 40];
        for (i, word) in [self.begins, self.ends, self.entries, self.sum_low, self.sum_high].into_iter().enumerate() {
            out[i * 8..i * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Decodes.
    pub fn from_bytes(bytes: &[u8; 40]) -> Listing {
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[i * 8 + k]));
        Listing { begins: word(0), ends: word(1), entries: word(2), sum_low: word(3), sum_high: word(4) }
    }
}

/// Hash of a directory entry's name; listings are compared by wrapping sums of these, which do not depend on order.
pub fn entry_hash(name: &[u8]) -> u128 {
    let hash = blake3::hash(name);
    u128::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i]))
}

/// A dependency: the thread has completed its n-th action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait {
    /// The thread.
    pub thread: u32,
    /// How many of its actions must have been completed.
    pub count: u64,
    /// Why.
    pub rule: Rule,
}

impl Wait {
    /// Encodes: thread in the upper 22 bits, then 5 bits for the rule, then the count.
    pub fn to_word(self) -> u64 {
        (u64::from(self.thread) << 42) | (self.rule as u64) << 37 | (self.count & 0x1f_ffff_ffff)
    }

    /// Decodes; a rule that does not exist reads as [`Rule::Single`].
    pub fn from_word(word: u64) -> Wait {
        let rule = Rule::from_number((word >> 37) as u8 & 0x1f).unwrap_or(Rule::Single);
        Wait { thread: (word >> 42) as u32, count: word & 0x1f_ffff_ffff, rule }
    }
}

/// Bytes of a page, as far as processors care where in it memory begins.
pub const PAGE_BYTES: u64 = 4096;

/// Where in its page memory of the traced program began: copying takes longer, up to ten times, where it stands unluckily to the
/// page of the file. An address that no program has stands for one that is not known: the page's begin.
pub const fn within_page(address: u64) -> u16 {
    if address < PAGE_BYTES { 0 } else { (address % PAGE_BYTES) as u16 }
}

/// Tells contents apart in 63 bits (XXH3), so that what a read returned is known to be as traced without fetching what it was; never 0.
/// Where two differ that it takes for equal (one in 2^63), that is not noticed: contents are not compared against an adversary.
pub fn digest(content: &[u8]) -> u64 {
    (twox_hash::XxHash3_64::oneshot(content) >> 1).max(1)
}

/// One compiled action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The action: `actions.seq` of the trace.
    pub origin: u64,
    /// x86-64 number of the call (`reprise_calls::by_number`).
    pub number: u32,
    /// How it is performed.
    pub op: Op,
    /// Kind of the stand-ins that a simulated command makes.
    pub stand_in: StandIn,
    /// What differs unavoidably.
    pub tolerance: Tolerance,
    /// The traced result.
    pub result: i64,
    /// Slots that the command fills, `u32::MAX` for none (see [`Op`]).
    pub produces: [u32; 2],
    /// Arguments.
    pub args: Vec<Arg>,
    /// Where in its page the memory began that the call read or filled with content, in bytes ([`within_page`]).
    pub within: u16,
    /// What is judged.
    pub expect: Expect,
    /// [`digest`] of the content that a read of one buffer ([`Transfer`]) is expected to return; 0 where it is not known. Other forms have
    /// no room for it.
    pub digest: u64,
    /// Further slots (see [`Op`]).
    pub list: Vec<u32>,
    /// What must have been completed before.
    pub waits: Vec<Wait>,
    /// When it was issued in the trace.
    pub timing: Timing,
}

impl Default for Command {
    /// Does nothing, expects nothing.
    fn default() -> Self {
        Command {
            origin: 0,
            number: 0,
            op: Op::Skip,
            stand_in: StandIn::Null,
            tolerance: Tolerance::None,
            result: 0,
            produces: [u32::MAX; 2],
            args: Vec::new(),
            within: 0,
            expect: Expect::Nothing,
            digest: 0,
            list: Vec::new(),
            waits: Vec::new(),
            timing: Timing::default(),
        }
    }
}
