//! What the model found out about one action, for the plan.

use reprise_calls::Identity;
use reprise_calls::sharing::Parts;

use crate::descriptors::{Binding, StreamKind};
use crate::mapping::MappingId;
use crate::node::{Nature, NodeId};
use crate::streams::Letter;
use crate::touch::{Resource, Touch};

/// A descriptor that an action made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewDescriptor {
    /// Its binding.
    pub binding: Binding,
    /// Set if it stands for something whose I/O is taken from the trace.
    pub stream: Option<StreamKind>,
}

/// A call of a directory's listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Number of the listing: from the open, or a rewind, to its end.
    pub number: u64,
    /// It begins with this call.
    pub begins: bool,
    /// It shows what there was when the directory was opened or rewound, not what there is.
    pub as_opened: bool,
    /// The names since its begin, if it ends with this call.
    pub names: Option<Vec<Vec<u8>>>,
}

/// A descriptor that was sent in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Its number on the way.
    pub letter: Letter,
    /// The sender's binding.
    pub binding: Binding,
}

/// A descriptor that was received in a message, or was in it and got lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its number on the way; none if its sender is not known.
    pub letter: Option<Letter>,
    /// The receiver's binding; none if it got lost.
    pub binding: Option<Binding>,
    /// The receiver asked for one that the next program will not have (`MSG_CMSG_CLOEXEC`).
    pub close_on_exec: bool,
    /// It stays in the message too (`MSG_PEEK`).
    pub stays: bool,
}

/// A descriptor that was taken out of another process's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// A thread that has that table.
    pub thread: u32,
    /// The binding there.
    pub binding: Binding,
}

/// A descriptor that a path named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByDescriptor {
    /// Its binding.
    pub binding: Binding,
    /// Flags that it was opened with.
    pub flags: u64,
}

impl ByDescriptor {
    /// Whether it is no more than a place (`O_PATH`).
    pub const fn is_place(self) -> bool {
        const PATH: u64 = 0o10000000;
        self.flags & PATH != 0
    }

    /// Whether the file can be written by it.
    pub const fn is_writable(self) -> bool {
        const WAYS: u64 = 3;
        !self.is_place() && self.flags & WAYS != 0
    }
}

/// A range inside a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedRange {
    /// The mapping.
    pub mapping: MappingId,
    /// Distance from its begin, in bytes.
    pub delta: u64,
    /// Length in bytes.
    pub length: u64,
}

impl From<(MappingId, u64, u64)> for MappedRange {
    fn from((mapping, delta, length): (MappingId, u64, u64)) -> MappedRange {
        MappedRange { mapping, delta, length }
    }
}

/// The findings.
#[derive(Debug, Clone, Default)]
pub struct Interpretation {
    /// Resources touched, in the order met; a resource may stand here twice.
    pub touches: Vec<(Resource, Touch)>,
    /// For each argument that is a descriptor (`Fd`, `Dirfd`): its binding, if it was open.
    pub arguments: [Option<Binding>; 6],
    /// For each argument that is a descriptor: whether its I/O is taken from the trace.
    pub streams: [Option<StreamKind>; 6],
    /// For each path: the path of the same place in a replay, where it is another: it went through a part of a process
    /// (`/proc/self/fd/N`), or through what is mounted.
    pub paths: [Option<Vec<u8>>; 2],
    /// A path went through a part of a process.
    pub through_process: bool,
    /// The descriptor of a nameless file that a path named so.
    pub by_descriptor: Option<ByDescriptor>,
    /// The descriptor of the thread's own that the first path went through last, and the path that was left from there.
    pub by_way_of: Option<(ByDescriptor, Vec<u8>)>,
    /// It stores to a file that is mapped, through `/proc/PID/mem`, and nothing else in the trace tells it.
    pub stores_by_memory: bool,
    /// Descriptors made.
    pub made: Vec<NewDescriptor>,
    /// Descriptors sent.
    pub passed: Vec<Passed>,
    /// Descriptors received.
    pub received: Vec<Received>,
    /// The descriptor that `pidfd_getfd` took.
    pub taken: Option<Taken>,
    /// The descriptor that `dup2` replaced.
    pub replaced: Option<Binding>,
    /// Descriptors that the next program will not have: `close_range` marked them.
    pub marked: Vec<Binding>,
    /// Descriptors ended as a side effect (`close_range`, close-on-exec).
    pub ended: Vec<Binding>,
    /// Bindings that ended for good and were never shared: what stood for them may be reused by this thread.
    pub released: Vec<Binding>,
    /// What ended with this action: no later action touches it.
    pub dead: Vec<Resource>,
    /// The process whose thread ended with this action.
    pub ended_thread_of: Option<u32>,
    /// A process that has ended, and was waited for.
    pub joined: Option<u32>,
    /// What kind of file the paths or descriptors name: the least ordinary one.
    pub nature: Nature,
    /// The file may have changed through a shared mapping.
    pub mapped_file: bool,
    /// It read what a call wrote whose content the trace has not.
    pub reads_lost: bool,
    /// It read, or copied, less than it was asked for, though the file has more there.
    pub came_short: bool,
    /// It moved content out of a device that gives something else each time.
    pub from_random: bool,
    /// A descriptor argument is an open directory.
    pub on_directory: bool,
    /// A descriptor argument moves content past the page cache (`O_DIRECT`): the kernel may refuse memory for where it begins.
    pub is_direct: bool,
    /// Thread that the action started.
    pub spawned: Option<u32>,
    /// The thread left a table of descriptors, or directories, that others share with it: it has copies of its own now.
    pub left: Parts,
    /// An exit that ended the last user of a table of descriptors, and with it all of these.
    pub last_of_table: bool,
    /// An exit that ended the last thread of its process, and with it what that had mapped.
    pub last_of_process: bool,
    /// The thread is in a user namespace of its own, or the file is reached through a mount with users of its own: the users that the
    /// call names, and is told of, are others.
    pub foreign_users: bool,
    /// Users and groups of the thread after a change.
    pub identity: Option<(Identity, Identity)>,
    /// The mapping made by `mmap`.
    pub mapping: Option<MappingId>,
    /// The range of an existing mapping that the action works on.
    pub range: Option<MappedRange>,
    /// For a call that lists a directory.
    pub listing: Option<Listing>,
    /// The call ends a socket's name: a socket file stands there now.
    pub binds: Option<SocketFile>,
    /// The action does not fit what the model knows; what it assumed instead.
    pub surprise: Option<&'static str>,
}

/// A socket file that is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketFile {
    /// Where.
    pub path: Vec<u8>,
    /// With which permissions; of these a default access list leaves some.
    pub mode: u32,
}

impl Interpretation {
    /// Nothing found; memory is used again.
    pub(crate) fn clear(&mut self) {
        fn emptied<T>(mut list: Vec<T>) -> Vec<T> {
            list.clear();
            list
        }
        let Interpretation { touches, made, ended, released, dead, .. } = std::mem::take(self);
        let (touches, made, dead) = (emptied(touches), emptied(made), emptied(dead));
        let (ended, released) = (emptied(ended), emptied(released));
        *self = Interpretation { touches, made, ended, released, dead, ..Interpretation::default() };
    }

    pub(crate) fn look(&mut self, resource: Resource) {
        self.touches.push((resource, Touch::Look));
    }

    pub(crate) fn change(&mut self, resource: Resource) {
        self.touches.push((resource, Touch::Change));
    }

    pub(crate) fn add(&mut self, resource: Resource) {
        self.touches.push((resource, Touch::Add));
    }

    pub(crate) fn create(&mut self, resource: Resource) {
        self.touches.push((resource, Touch::Create));
    }

    pub(crate) fn destroy(&mut self, resource: Resource) {
        self.touches.push((resource, Touch::Destroy));
    }

    /// Why a call fails may lie in anything about its files.
    pub(crate) fn failed(&mut self) {
        for at in 0..self.touches.len() {
            if let Resource::File(node) = self.touches[at].0 {
                self.look(Resource::Size(node));
                self.look(Resource::Attributes(node));
            }
        }
    }

    /// Bytes of a file are needed.
    pub(crate) fn read(&mut self, node: NodeId, from: u64, length: u64) {
        self.touches.push((Resource::Content(node), Touch::Read(from, from.saturating_add(length))));
    }

    /// Bytes of a file are changed.
    pub(crate) fn write(&mut self, node: NodeId, from: u64, length: u64) {
        self.touches.push((Resource::Content(node), Touch::Write(from, from.saturating_add(length))));
    }

    /// Everything written to a file so far is to be complete.
    pub(crate) fn flush(&mut self, node: NodeId) {
        self.touches.push((Resource::Content(node), Touch::Flush));
        self.touches.push((Resource::Size(node), Touch::Flush));
    }

    pub(crate) fn meet(&mut self, nature: Nature) {
        fn rank(nature: Nature) -> u8 {
            match nature {
                Nature::Ordinary => 0,
                Nature::SafeDevice => 1,
                Nature::RandomDevice => 2,
                Nature::Stream => 3,
                Nature::Device => 4,
                Nature::Pseudo => 5,
            }
        }
        if rank(nature) > rank(self.nature) {
            self.nature = nature;
        }
    }
}
