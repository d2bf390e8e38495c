//! What an action touches, and how: the facts that ordering rules are applied to.
//!
//! Goals: say the finest truth (which bytes, which attribute, which life of a name), so that every rule can be applied
//! without knowing calls. Non-goals: which touches wait for which (that is the plan's).

use crate::descriptors::Generation;
use crate::mapping::MappingId;
use crate::node::NodeId;

/// Number of a directory entry: a name in a directory, whether a file stands under it or not.
pub type EntryId = u32;
/// Number of an open file description; never reused.
pub type DescriptionId = u32;
/// Number of a stream of bytes from writers to readers: a pipe, or one direction of a socket; never reused.
pub type StreamId = u32;

/// Something that outlives one action. Names are reused; these numbers are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// A file of any type, from its making to the removal of its last name.
    File(NodeId),
    /// The bytes of a file.
    Content(NodeId),
    /// The size of a file.
    Size(NodeId),
    /// Mode, owner, times, link count and extended attributes of a file.
    Attributes(NodeId),
    /// The locks on a file, of all kinds.
    Locks(NodeId),
    /// A name in a directory.
    Entry(EntryId),
    /// All absent names that were forgotten by a certain time, see `absent`.
    Forgotten(u32),
    /// The set of names in a directory.
    Names(NodeId),
    /// One life of a descriptor number in one table.
    Descriptor(Generation),
    /// Whether a descriptor is closed when its process runs another program.
    CloseOnExec(Generation),
    /// The offset of an open file description.
    Offset(DescriptionId),
    /// The flags of an open file description that can be changed (`O_APPEND`, `O_DIRECT`, …): whatever reads and writes by it
    /// goes by them.
    Flags(DescriptionId),
    /// Bytes on their way from writers to readers.
    Stream(StreamId),
    /// A request of asynchronous I/O, from its submission until its completion was fetched.
    Request(u64),
    /// A mapping of a file, which threads of a process share.
    Mapping(MappingId),
    /// The set of numbers that are open in a descriptor table that threads share.
    Table(u32),
    /// A working directory, root and umask that threads share.
    Directories(u32),
    /// A process, from its start to the moment it can be waited for.
    Process(u32),
}

/// How it is touched. The ordering rules say which touches wait for which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Touch {
    /// Needs the present state; two looks do not disturb each other.
    Look,
    /// Changes the state, or replaces what was there.
    Change,
    /// Changes one thing among others: two of them do not disturb each other, but a look sees both (a name in a directory,
    /// a size that only grows).
    Add,
    /// Begins its life.
    Create,
    /// Ends its life.
    Destroy,
    /// Needs these bytes ([`Resource::Content`]): from, to (exclusive; `u64::MAX` is the end, wherever that is).
    Read(u64, u64),
    /// Changes these bytes ([`Resource::Content`]): from, to (exclusive).
    Write(u64, u64),
    /// Needs all earlier changes to be complete; later ones wait for it (`fsync`).
    Flush,
    /// Puts so many bytes into a [`Resource::Stream`].
    Send(u64),
    /// Takes so many bytes from a [`Resource::Stream`]; `u64::MAX`: all that was sent.
    Receive(u64),
}
