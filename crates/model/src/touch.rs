//! What an action touches.

use crate::descriptors::Generation;
use crate::node::NodeId;

/// Number of a directory entry: a name in a directory, whether a file stands under it or not.
pub type EntryId = u32;

/// Something that outlives one action. Names are reused; these numbers are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// A file of any type: content and attributes.
    File(NodeId),
    /// A name in a directory.
    Entry(EntryId),
    /// The set of names in a directory.
    Names(NodeId),
    /// One life of a descriptor number in one table.
    Descriptor(Generation),
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
    /// Makes, changes or ends the state.
    Change,
    /// Changes one name among others: two of them do not disturb each other, but a look sees both ([`Resource::Names`]).
    Add,
}
