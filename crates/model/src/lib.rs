//! The state that calls act on, followed through a trace: names, files, descriptors, processes, mappings.
//!
//! Goals: say which resources each action touches and how (ROOT, section 3), what the initial tree must have been, and
//! what the final tree should be. Paths are resolved as the kernel does it, over directory entries: an entry is the
//! resource that ROOT calls a path, so renaming a directory touches one entry and still orders everything below it.
//! Non-goals: clocks, real I/O, ordering rules.

mod absent;
mod amount;
mod beginning;
mod content;
mod descriptors;
mod follow;
mod initial;
mod interpretation;
mod kin;
mod lead;
mod listing;
mod mapping;
mod names;
mod node;
mod observed;
mod places;
mod processes;
mod reclaim;
mod resolve;
mod slab;
mod state;
mod step;
mod streams;
mod touch;
mod wording;
mod world;

pub use amount::{asked_bytes, moved_bytes};
pub use beginning::{InitialDescriptor, InitialMapping};
pub use content::{Piece, Source};
pub use descriptors::{Binding, Description, Generation, StreamKind};
pub use interpretation::{
    ByDescriptor, Interpretation, Listing, MappedRange, NewDescriptor, Passed, Received, SocketFile, Taken,
};
pub use kin::Kin;
pub use listing::entry_names;
pub use mapping::MappingId;
pub use node::{Attributes, FileKind, Nature, NodeId};
pub use state::{PresentDescriptor, PresentFile, PresentMapping, PresentName, PresentThread};
pub use streams::{Letter, Links};
pub use touch::{Resource, StreamId, Touch};
pub use world::{TreeName, World};
