//! What the model found out about one action, for the plan.

use crate::descriptors::{Binding, StreamKind};
use crate::mapping::MappingId;
use crate::node::Nature;
use crate::processes::Identity;
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
    /// The names since its begin, if it ends with this call.
    pub names: Option<Vec<Vec<u8>>>,
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

/// The findings.
#[derive(Debug, Clone, Default)]
pub struct Interpretation {
    /// Resources touched, in the order met; a resource may stand here twice.
    pub touches: Vec<(Resource, Touch)>,
    /// For each argument that is a descriptor (`Fd`, `Dirfd`): its binding, if it was open.
    pub arguments: [Option<Binding>; 6],
    /// For each argument that is a descriptor: whether its I/O is taken from the trace.
    pub streams: [Option<StreamKind>; 6],
    /// For each path: the ordinary path of what `/proc/self/fd/N` in it named.
    pub paths: [Option<Vec<u8>>; 2],
    /// The descriptor of a nameless file that a path named so.
    pub by_descriptor: Option<Binding>,
    /// Descriptors made.
    pub made: Vec<NewDescriptor>,
    /// The descriptor that `dup2` replaced.
    pub replaced: Option<Binding>,
    /// Descriptors ended as a side effect (`close_range`, close-on-exec).
    pub ended: Vec<Binding>,
    /// Bindings that ended for good and were never shared: what stood for them may be reused by this thread.
    pub released: Vec<Binding>,
    /// Descriptor numbers whose life ended: no later action touches them.
    pub dead: Vec<Resource>,
    /// What kind of file the paths or descriptors name: the least ordinary one.
    pub nature: Nature,
    /// The file may have changed through a shared mapping.
    pub mapped_file: bool,
    /// A descriptor argument is an open directory.
    pub on_directory: bool,
    /// Thread that the action started.
    pub spawned: Option<u32>,
    /// An exit that ended its process.
    pub last_of_process: bool,
    /// Users and groups of the thread after a change.
    pub identity: Option<(Identity, Identity)>,
    /// The mapping made by `mmap`.
    pub mapping: Option<MappingId>,
    /// The range of an existing mapping that the action works on.
    pub range: Option<MappedRange>,
    /// For a call that lists a directory.
    pub listing: Option<Listing>,
    /// The call ends a socket's name: a socket file stands there now.
    pub binds: Option<Vec<u8>>,
    /// The action does not fit what the model knows; what it assumed instead.
    pub surprise: Option<&'static str>,
}

impl Interpretation {
    pub(crate) fn look(&mut self, resource: Resource) {
        self.touches.push((resource, Touch::Look));
    }

    pub(crate) fn change(&mut self, resource: Resource) {
        self.touches.push((resource, Touch::Change));
    }

    pub(crate) fn add(&mut self, resource: Resource) {
        self.touches.push((resource, Touch::Add));
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
