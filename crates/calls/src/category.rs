//! What kind of work a call is, for accounts of time.

use crate::{Call, Effect};

/// Kinds of work that times are added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Content is read.
    Read,
    /// Content is written, copied or allocated.
    Write,
    /// Something is made durable.
    Sync,
    /// Names and attributes are looked at or changed.
    Metadata,
    /// Descriptors begin and end.
    OpenClose,
    /// Memory is mapped or unmapped.
    Memory,
    /// Threads and processes begin, end, wait for each other, or change who they are.
    Process,
    /// All else: sockets, events, control of descriptors.
    Other,
}

impl Category {
    /// All, in the order of reports.
    pub const ALL: [Category; 8] = [
        Category::Read,
        Category::Write,
        Category::Sync,
        Category::Metadata,
        Category::OpenClose,
        Category::Memory,
        Category::Process,
        Category::Other,
    ];

    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            Category::Read => "read",
            Category::Write => "write",
            Category::Sync => "sync",
            Category::Metadata => "metadata",
            Category::OpenClose => "open/close",
            Category::Memory => "memory",
            Category::Process => "process",
            Category::Other => "other",
        }
    }
}

impl Call {
    /// The kind of work it is (derived from the effect).
    pub const fn category(&self) -> Category {
        use Effect::*;
        match self.effect {
            Read | MappedRead => Category::Read,
            MappedWrite | Write | Truncate | Allocate | Copy | Splice => Category::Write,
            Sync | SyncAll => Category::Sync,
            GetMetadata | TestAccess | ReadLink | GetXattr | ListXattr | StatFs | ChangeMode | ChangeOwner
            | ChangeTimes | SetXattr | RemoveXattr | MakeDirectory | MakeNode | MakeSymlink | Link | Remove
            | Rename | List | ChangeDirectory | ChangeRoot | GetDirectory | ChangeMask => Category::Metadata,
            Open | MakeObject(_) | Close | CloseRange | Duplicate | DuplicateTo | Take => Category::OpenClose,
            Map | Unmap | Remap | MapAdvise | MapSync => Category::Memory,
            Spawn | Execute | Exit | Wait | ChangeIdentity => Category::Process,
            Control | DeviceControl | Seek | Advise | Lock | Message | Poll | Watch | Mount | Asynchronous => {
                Category::Other
            }
        }
    }
}
