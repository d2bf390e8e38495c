//! The table of calls: every fact about a system call that the rest of Reprise needs, declared once.
//!
//! Goals: one row per call, made of members of small closed vocabularies ([`ArgKind`], [`Effect`], [`Replay`],
//! [`Check`], [`Returns`]); the recorder's argument readers, the model, the replay, the checks and `docs/CALLS.md`
//! all derive from the row by exhaustive `match`. Non-goals: I/O, policy, any knowledge of other rooms.
//!
//! Sources: the man pages of section 2 and `arch/x86/entry/syscalls/syscall_64.tbl` of the Linux kernel.

pub mod acl;
mod address;
pub mod attributes;
pub mod brought;
mod category;
pub mod closing;
mod command;
pub mod credentials;
mod families;
mod flags;
mod index;
pub mod locking;
pub mod memory;
pub mod mounts;
pub mod moving;
mod process_path;
pub mod sharing;
mod unrelated;
mod vocabulary;

pub use address::{SOCKET_ADDRESS_BYTES, socket_path};
pub use category::Category;
pub use command::{
    FcntlArg, IoctlEffect, SpaceRange, fcntl_arg, forbids_writing, ioctl_arg, ioctl_effect, ioctl_gives,
};
pub use credentials::{Credentials, Identity};
pub use flags::{CommandSet, FlagSet, makes_nameless};
pub use index::{all, by_name, by_number, errno_name, errno_number, families};
pub use process_path::{
    Detour, LINKS_OF_DEV, Led, Part, ProcessPath, Shown, Whose, leads_to_process, led, process_path, taken_for_proc,
};
pub use unrelated::{UNRELATED, is_unrelated};
pub use vocabulary::*;
