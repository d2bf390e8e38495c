//! The independent oracle of the table of calls: for each row a case that issues the call as the row says, by number
//! and order of arguments, and looks at what it did by other means.
//!
//! A case runs in a process of its own (`oracle-case`), in a directory with the tree of [`fixture::make`]. It names its
//! arguments and their kinds from the manual; [`context::Context`] places them where the row says. So a wrong number,
//! order, kind, length argument or size of a structure makes the call fail or do something else. All memory ends at a
//! page that cannot be touched, so that the kernel may use no byte more than the row says, and structures that it fills
//! are watched for their last byte.

mod async_io;
pub mod context;
mod data;
mod descriptors;
pub mod fixture;
pub mod follow;
mod ioctl;
mod mapping;
mod metadata;
mod mounts;
mod mutation;
mod names;
mod open;
mod owners;
mod process;
pub mod report;
mod sockets;
mod sync;
pub mod value;
mod watch;
mod xattr;

use context::{Context, Manner};

/// A case of the oracle.
pub type Case = fn(&Context);

/// Rows that are not run, each with the reason.
pub const NOT_RUN: &[(&str, &str)] = &[
    ("mmap_pread", "no system call does it; crates/cli/tests/mapped.rs"),
    ("mmap_pwrite", "no system call does it; crates/cli/tests/mapped.rs"),
];

const FAMILIES: [&[(&str, Case)]; 15] = [
    open::CASES,
    descriptors::CASES,
    ioctl::CASES,
    data::CASES,
    sync::CASES,
    names::CASES,
    metadata::CASES,
    owners::CASES,
    xattr::CASES,
    mapping::CASES,
    process::CASES,
    sockets::CASES,
    watch::CASES,
    mounts::CASES,
    async_io::CASES,
];

/// All cases: the row's name and the case.
pub fn cases() -> impl Iterator<Item = (&'static str, Case)> {
    FAMILIES.iter().flat_map(|f| f.iter().copied())
}

/// Runs a case in this process; it panics if the row is wrong.
pub fn run(name: &str, manner: Manner) {
    let row = reprise_calls::by_name(name).unwrap_or_else(|| panic!("no row {name}"));
    let (_, case) = cases().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no case {name}"));
    crate::raw::must(libc::SYS_umask, &[0o022]);
    case(&Context::new(row, manner));
}

/// Runs a case with a row in which argument `at` and the next are exchanged: it must panic, or it would not notice.
pub fn run_exchanged(name: &str, at: usize) {
    let row = reprise_calls::by_name(name).unwrap_or_else(|| panic!("no row {name}"));
    let case = cases().find(|(n, _)| *n == name).expect("a case").1;
    crate::raw::must(libc::SYS_umask, &[0o022]);
    case(&Context::new(mutation::exchanged(row, at), Manner::Check));
}
