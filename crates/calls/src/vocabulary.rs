//! The closed vocabularies that rows are made of.

use crate::command::{IoctlEffect, ioctl_effect};
use crate::flags::{CommandSet, FlagSet};

/// How a call touches a resource (ROOT, section 3: the basis of stage, sequential and name ordering).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Begins a life of the resource.
    Create,
    /// Needs the resource alive.
    Use,
    /// Ends its life.
    Destroy,
}

/// Whether the last component of a path is followed when it is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// Always followed.
    Always,
    /// Never: the call acts on the name itself.
    Never,
    /// Followed unless this bit is set in that argument (`AT_SYMLINK_NOFOLLOW`).
    Unless {
        /// Index of the flags argument.
        arg: u8,
        /// The bit.
        bit: u64,
    },
    /// Followed only if this bit is set in that argument (`AT_SYMLINK_FOLLOW`).
    If {
        /// Index of the flags argument.
        arg: u8,
        /// The bit.
        bit: u64,
    },
    /// As `open` does it: not with `O_NOFOLLOW`, nor with `O_CREAT|O_EXCL`. The flags are those of [`Call::open_flags`].
    AsOpen,
}

/// Structures passed by pointer, with their size in the x86-64 ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Struct {
    /// `struct stat`, 144 bytes.
    Stat,
    /// `struct statx`, 256 bytes.
    Statx,
    /// `struct statfs`, 120 bytes.
    Statfs,
    /// `loff_t`, 8 bytes, may be a null pointer.
    OffsetCell,
    /// Two descriptors, 8 bytes.
    FdPair,
    /// Two `struct timespec`, 32 bytes, may be null.
    Timespecs,
    /// Two `struct timeval`, 32 bytes, may be null.
    Timevals,
    /// `struct utimbuf`, 16 bytes, may be null.
    Utimbuf,
    /// A structure whose size stands in that argument (`open_how`).
    Sized(u8),
    /// `struct clone_args`, whose size stands in that argument. Filled is what its `pidfd` points to, as [`Struct::ChildHandle`].
    CloneArgs(u8),
    /// The descriptor of the child, 4 bytes, if the call is asked for one (`CLONE_PIDFD`).
    ChildHandle,
    /// An `int`, 4 bytes, may be null (wait status).
    Int,
    /// An array of 32-bit words, their number stands in that argument (`setgroups`).
    Words(u8),
    /// What the command of `fcntl` or `ioctl` says, see [`crate::fcntl_arg`] and [`crate::ioctl_arg`].
    ByCommand,
    /// `struct msghdr`. It holds pointers: what is kept of it are its [`Envelope`]s.
    Message,
    /// An array of `struct mmsghdr`; their number stands in that argument. Kept as [`Struct::Message`] is.
    Messages(u8),
}

/// What is kept of a message: its length, and the descriptors that go with it (`SCM_RIGHTS`).
///
/// Encoded as 32-bit words: length in bytes, number of descriptors, the descriptors. Of several messages one follows the
/// other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Envelope {
    /// Length of the message in bytes, as far as it was moved.
    pub length: u32,
    /// Descriptors, by their numbers in the table of the process that makes the call.
    pub descriptors: Vec<u32>,
}

impl Envelope {
    /// Appends the encoded form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let words = [self.length, self.descriptors.len() as u32].into_iter().chain(self.descriptors.iter().copied());
        words.for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    /// All that stand in encoded bytes; one that is cut off is left out.
    pub fn decode(bytes: &[u8]) -> Vec<Envelope> {
        let mut words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        let mut out = Vec::new();
        while let (Some(length), Some(count)) = (words.next(), words.next()) {
            let descriptors: Vec<u32> = words.by_ref().take(count as usize).collect();
            if descriptors.len() < count as usize {
                break;
            }
            out.push(Envelope { length, descriptors });
        }
        out
    }
}

impl Struct {
    /// Size in bytes where it is fixed.
    pub const fn size(self) -> Option<usize> {
        match self {
            Struct::Stat => Some(144),
            Struct::Statx => Some(256),
            Struct::Statfs => Some(120),
            Struct::OffsetCell | Struct::FdPair => Some(8),
            Struct::Timespecs | Struct::Timevals => Some(32),
            Struct::Utimbuf => Some(16),
            Struct::Int | Struct::ChildHandle => Some(4),
            Struct::Sized(_)
            | Struct::CloneArgs(_)
            | Struct::Words(_)
            | Struct::ByCommand
            | Struct::Message
            | Struct::Messages(_) => None,
        }
    }
}

/// What an argument is, and so how it is read, stored, translated and printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgKind {
    /// A descriptor number.
    Fd(Access),
    /// The directory that the next path is relative to (`AT_FDCWD`: the working directory).
    Dirfd,
    /// A path, NUL-terminated.
    Path(Follow),
    /// A string that is no path to resolve (a link's text, an attribute's name), NUL-terminated.
    Text,
    /// A null-terminated array of strings.
    Strings,
    /// A buffer the call reads from; its length in bytes stands in that argument.
    InData(u8),
    /// A buffer the call fills; its capacity in bytes stands in that argument, what was filled is the result.
    OutData(u8),
    /// An array of `iovec` the call reads from; their number stands in that argument.
    InVector(u8),
    /// An array of `iovec` the call fills.
    OutVector(u8),
    /// A structure read by the call.
    In(Struct),
    /// A structure filled by the call when it succeeds.
    Out(Struct),
    /// A structure read and filled.
    InOut(Struct),
    /// A set of flags.
    Flags(FlagSet),
    /// One of a set of commands.
    Command(CommandSet),
    /// Permission bits, printed in octal.
    Mode,
    /// A position in a file, in bytes, signed.
    Offset,
    /// A number of bytes.
    Length,
    /// A signed number.
    Integer,
    /// An unsigned number, printed in hexadecimal.
    Number,
    /// A device number.
    Device,
    /// A user or group.
    Owner,
    /// An address in the traced program's memory that is not read: recorded as a number.
    Address,
    /// The environment of a program to run: its address, recorded as a number. Whom the process runs as afterwards is kept with
    /// the call ([`crate::Credentials`]).
    Environment,
    /// How many asynchronous requests to submit; which they were is kept with the call: their numbers, 64 bits each.
    Submits,
    /// How many completions of asynchronous requests to fetch; those of which requests were there is kept likewise.
    Reaps,
}

/// One argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arg {
    /// Its name in the man page.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgKind,
}

/// What a successful result means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// 0.
    Zero,
    /// A new descriptor.
    Fd,
    /// A number of bytes moved.
    Count,
    /// A position in a file.
    Offset,
    /// An address.
    Address,
    /// A process or thread.
    Process,
    /// Another value with a meaning of its own (an old umask, a number of events).
    Value,
    /// The call does not return.
    Never,
}

/// Descriptors without a name in any directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// `pipe`: two descriptors.
    Pipe,
    /// `socket`, `accept`: a socket.
    Socket,
    /// `socketpair`: two sockets.
    SocketPair,
    /// `memfd_create`, `memfd_secret`: a file in memory.
    Memory,
    /// `epoll_create`.
    Epoll,
    /// `inotify_init`, `fanotify_init`.
    Watch,
    /// `eventfd`, `timerfd_create`, `signalfd`, `userfaultfd`, `pidfd_open`: counters and handles.
    Handle,
    /// `io_uring_setup`.
    Ring,
}

/// Commands of `bpf` that open something (`enum bpf_cmd`, include/uapi/linux/bpf.h): `MAP_CREATE`, `PROG_LOAD`, `OBJ_GET`, `PROG_GET_FD_BY_ID`,
/// `MAP_GET_FD_BY_ID`, `RAW_TRACEPOINT_OPEN`, `BTF_LOAD`, `BTF_GET_FD_BY_ID`, `LINK_CREATE`, `LINK_GET_FD_BY_ID`, `ENABLE_STATS`, `ITER_CREATE`,
/// `TOKEN_CREATE`.
const BPF_OPENS: [u64; 13] = [0, 5, 7, 13, 14, 17, 18, 19, 28, 30, 32, 33, 36];

/// What a call does to the state that the model follows. One per row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Opens (and may create or truncate) a file by name.
    Open,
    /// Makes a nameless object and its descriptors.
    MakeObject(Object),
    /// Ends a descriptor.
    Close,
    /// Ends, or marks close-on-exec, a range of descriptors.
    CloseRange,
    /// A new number for an open file description, chosen by the kernel.
    Duplicate,
    /// A new number for an open file description, chosen by the caller.
    DuplicateTo,
    /// A number for an open file description of another process (`pidfd_getfd`).
    Take,
    /// `fcntl`: depends on its command.
    Control,
    /// `ioctl`: depends on its request.
    DeviceControl,
    /// Reads content at the argument's offset, or else at the description's.
    Read,
    /// Writes content at the argument's offset, or else at the description's.
    Write,
    /// Moves the description's offset.
    Seek,
    /// Sets a file's size.
    Truncate,
    /// Allocates, zeroes, collapses or punches a range.
    Allocate,
    /// Moves content between two descriptors in the kernel.
    Copy,
    /// Moves content between a pipe and another descriptor.
    Splice,
    /// Advice about a range of a file: no effect on its state.
    Advise,
    /// Makes a file durable.
    Sync,
    /// Makes a file system, or all, durable.
    SyncAll,
    /// Maps memory.
    Map,
    /// Unmaps memory.
    Unmap,
    /// Moves or resizes a mapping.
    Remap,
    /// Changes or advises on mapped memory.
    MapAdvise,
    /// Writes a mapping back.
    MapSync,
    /// Loads content from a mapping of a file: no call, but what loads of the program amount to.
    MappedRead,
    /// Stores content to a mapping of a file, likewise.
    MappedWrite,
    /// Reads attributes.
    GetMetadata,
    /// Asks whether an access is permitted.
    TestAccess,
    /// Reads a link's text.
    ReadLink,
    /// Reads one extended attribute.
    GetXattr,
    /// Lists the extended attributes' names.
    ListXattr,
    /// Reads facts about the file system.
    StatFs,
    /// Changes permission bits.
    ChangeMode,
    /// Changes owner or group.
    ChangeOwner,
    /// Changes access and modification times.
    ChangeTimes,
    /// Sets an extended attribute.
    SetXattr,
    /// Removes an extended attribute.
    RemoveXattr,
    /// Makes a directory.
    MakeDirectory,
    /// Makes a file, FIFO, socket or device node.
    MakeNode,
    /// Makes a symbolic link.
    MakeSymlink,
    /// Makes a further name.
    Link,
    /// Removes a name, of a file or of an empty directory.
    Remove,
    /// Changes a name.
    Rename,
    /// Lists a directory.
    List,
    /// Changes the working directory.
    ChangeDirectory,
    /// Changes the root directory.
    ChangeRoot,
    /// Asks for the working directory.
    GetDirectory,
    /// Changes the file mode creation mask.
    ChangeMask,
    /// Takes or releases a lock on a whole file.
    Lock,
    /// Names, connects or configures a socket, or moves messages.
    Message,
    /// Waits for events.
    Poll,
    /// Asks for events.
    Watch,
    /// Starts a thread or process.
    Spawn,
    /// Starts another program in the process.
    Execute,
    /// Ends a thread or process.
    Exit,
    /// Waits for a process.
    Wait,
    /// Changes user, groups or capabilities.
    ChangeIdentity,
    /// Changes what is mounted, or the namespaces.
    Mount,
    /// Submits or reaps asynchronous I/O.
    Asynchronous,
}

/// What the replay does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// Issues it, with descriptors, addresses and buffers translated.
    Issue,
    /// The engine does it in its own way: threads and processes come and go, programs are never run.
    Engine,
    /// Takes the result from the trace; descriptors that the call makes exist as stand-ins.
    Simulate,
    /// Leaves it out, and counts it, for this reason.
    Skip(&'static str),
    /// Cannot replay it yet: counted, for this reason.
    Unsupported(&'static str),
}

/// What is compared between trace and replay, beside success or the same error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Nothing: the call is not issued, or its result is the machine's own.
    Nothing,
    /// Success, or the same error.
    Outcome,
    /// The same result.
    Value,
    /// The same result and the same bytes returned.
    Content,
    /// The attributes that a replay can reproduce: type, permission bits, owner, size, links, device number.
    Metadata,
    /// The names and types of a directory's entries, in any order and any partition over calls.
    Listing,
    /// The set of names of extended attributes, in any order.
    Names,
}

/// How the recorder lets calls of different threads overlap so that the order of their effects is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Changes state that other calls can see: runs alone.
    Exclusive,
    /// Only looks at state: runs beside other calls that look.
    Shared,
    /// May block, or has no effect that another call can see: runs at any time, ordered by its completion.
    Free,
}

/// Numbers from here on are ours: what a program does to storage without a system call.
pub const PSEUDO: u32 = 0xf000;

/// One system call, or a pseudo-call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Name, as in the man pages.
    pub name: &'static str,
    /// Number in the x86-64 ABI; of a pseudo-call [`PSEUDO`] or more.
    pub number: u32,
    /// Arguments, in order.
    pub args: &'static [Arg],
    /// What success returns.
    pub returns: Returns,
    /// What it does.
    pub effect: Effect,
    /// How it replays.
    pub replay: Replay,
    /// What is compared.
    pub check: Check,
    /// One line for a reader.
    pub doc: &'static str,
}

impl Call {
    /// Whether no system call does it: no kernel has its number.
    pub const fn is_pseudo(&self) -> bool {
        self.number >= PSEUDO
    }

    /// Index of the first argument that satisfies `wanted`.
    pub fn position(&self, wanted: impl Fn(ArgKind) -> bool) -> Option<usize> {
        self.args.iter().position(|a| wanted(a.kind))
    }

    /// Indices of the path arguments, each with its directory argument (if any) and how it follows links.
    pub fn paths(&self) -> impl Iterator<Item = PathArg> + '_ {
        self.args.iter().enumerate().filter_map(|(i, a)| match a.kind {
            ArgKind::Path(follow) => {
                let dirfd = (i > 0 && matches!(self.args[i - 1].kind, ArgKind::Dirfd)).then(|| i - 1);
                Some(PathArg { path: i, dirfd, follow })
            }
            _ => None,
        })
    }

    /// Whether the result of a call that did not fail is the number of a descriptor that it opened; of some calls their
    /// command decides that.
    pub fn opens(&self, args: &[u64; 6]) -> bool {
        const DUPFD: u64 = 0;
        const DUPFD_CLOEXEC: u64 = 1030;
        match self.name {
            "bpf" => BPF_OPENS.contains(&(args[0] & 0xffff_ffff)),
            "fcntl" => matches!(args[1] & 0xffff_ffff, DUPFD | DUPFD_CLOEXEC),
            "ioctl" => ioctl_effect(args[1]) == IoctlEffect::MakeHandle,
            // Else it tells its version.
            "landlock_create_ruleset" => args[2] == 0,
            _ => self.returns == Returns::Fd,
        }
    }

    /// Whether a call is successful without a look at any file, whatever it names: `utimensat` of these times that leaves both of
    /// them (`do_utimensat` in `fs/utimes.c`).
    pub fn leaves_times(&self, times: &[u8]) -> bool {
        const OMIT: i64 = (1 << 30) - 2;
        let nanoseconds = |at: usize| times.get(at..at + 8).and_then(|b| b.try_into().ok()).map(i64::from_le_bytes);
        self.name == "utimensat" && nanoseconds(8) == Some(OMIT) && nanoseconds(24) == Some(OMIT)
    }

    /// The argument that holds the file position of a read or write, if the call has one.
    pub fn offset_arg(&self) -> Option<usize> {
        self.position(|k| matches!(k, ArgKind::Offset))
    }

    /// The argument that is a set of flags of this kind.
    pub fn flags_arg(&self, set: FlagSet) -> Option<usize> {
        self.position(|k| k == ArgKind::Flags(set))
    }

    /// Flags of an `open`-like call, from its argument, its `open_how` (the recorded input) or its meaning (`creat`).
    pub fn open_flags(&self, args: &[u64; 6], input: &[u8]) -> u64 {
        const CREAT: u64 = 0o100 | 0o1000 | 0o1; // O_CREAT|O_TRUNC|O_WRONLY
        match self.flags_arg(FlagSet::Open) {
            Some(i) => args[i] & 0xffff_ffff,
            None if self.name == "creat" => CREAT,
            None => input.get(..8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes),
        }
    }

    /// The same without those that have no effect: with `O_PATH` all others but three are ignored (`open(2)`).
    pub fn effective_open_flags(&self, args: &[u64; 6], input: &[u8]) -> u64 {
        const PATH: u64 = 0o10000000;
        const HEEDED: u64 = PATH | 0o2000000 | 0o200000 | 0o400000; // O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW
        let flags = self.open_flags(args, input);
        if flags & PATH == 0 { flags } else { flags & HEEDED }
    }

    /// Whether a path's beginning is its root, too, also for absolute paths and links (`RESOLVE_IN_ROOT` of openat2(2)); `input` as for
    /// [`Call::open_flags`].
    pub fn is_rooted(&self, input: &[u8]) -> bool {
        const IN_ROOT: u64 = 0x10;
        let resolve =
            input.get(16..24).and_then(|bytes| bytes.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word));
        self.name == "openat2" && resolve & IN_ROOT != 0
    }

    /// Whether the call is about the working directory, though it takes a descriptor and no path: of those about extended attributes
    /// some know `AT_FDCWD` since Linux 6.13 (`path_setxattrat`, `path_getxattrat` in fs/xattr.c). Where one does not, and for any other
    /// number below 0, it fails with `EBADF`.
    pub fn is_about_working_directory(&self, args: &[u64; 6], result: i64) -> bool {
        use Effect::{GetXattr, ListXattr, RemoveXattr, SetXattr};
        const HERE: i32 = -100;
        const EBADF: i64 = -9;
        let is_here = args[0] as i32 == HERE && matches!(self.args.first().map(|a| a.kind), Some(ArgKind::Fd(_)));
        is_here && matches!(self.effect, GetXattr | ListXattr | RemoveXattr | SetXattr) && result != EBADF
    }

    /// How the recorder admits it (derived from the effect).
    pub fn admission(&self) -> Admission {
        use Effect::*;
        match self.effect {
            Read if self.offset_arg().is_some() => Admission::Shared,
            GetMetadata | TestAccess | ReadLink | GetXattr | ListXattr | StatFs | GetDirectory => Admission::Shared,
            // These move an offset that another thread may share.
            Read | List => Admission::Exclusive,
            Open | Close | CloseRange | Duplicate | DuplicateTo | Take | Control | DeviceControl | Write | Seek
            | Truncate | Allocate | Copy | Splice | Map | Unmap | Remap | ChangeMode | ChangeOwner | ChangeTimes
            | SetXattr | RemoveXattr | MakeDirectory | MakeNode | MakeSymlink | Link | Remove | Rename
            | ChangeDirectory | ChangeRoot | ChangeMask | ChangeIdentity | MakeObject(_) | Mount => {
                Admission::Exclusive
            }
            Advise | Sync | SyncAll | MapAdvise | MapSync | Lock | Message | Poll | Watch | Spawn | Execute | Exit
            | Wait | Asynchronous => Admission::Free,
            // They do not ask the kernel.
            MappedRead | MappedWrite => Admission::Free,
        }
    }
}

/// A path argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathArg {
    /// Index of the path.
    pub path: usize,
    /// Index of the directory descriptor it is relative to, if the call has one.
    pub dirfd: Option<usize>,
    /// What happens to a final symbolic link.
    pub follow: Follow,
}
