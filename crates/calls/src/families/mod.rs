//! The rows, one file per family.

mod async_io;
mod data;
mod descriptors;
mod mapping;
mod metadata;
mod names;
mod open;
mod process;
mod sockets;
mod sync;
mod watch;
mod xattr;

use crate::{Arg, ArgKind, Call};

/// All families, in the order of `docs/CALLS.md`.
pub const FAMILIES: [(&str, &[Call]); 12] = [
    ("Opening", open::CALLS),
    ("Descriptors", descriptors::CALLS),
    ("Data", data::CALLS),
    ("Durability and advice", sync::CALLS),
    ("Names", names::CALLS),
    ("Metadata", metadata::CALLS),
    ("Extended attributes", xattr::CALLS),
    ("Mappings", mapping::CALLS),
    ("Processes", process::CALLS),
    ("Sockets", sockets::CALLS),
    ("Events and mounts", watch::CALLS),
    ("Asynchronous I/O", async_io::CALLS),
];

const fn arg(name: &'static str, kind: ArgKind) -> Arg {
    Arg { name, kind }
}

/// Writes a row: `row!(name number (arg: Kind, …) Returns Effect Replay Check "doc")`.
macro_rules! row {
    ($name:ident $number:literal ($($arg:ident: $kind:expr),*) $returns:ident $effect:expr, $replay:expr, $check:ident, $doc:literal) => {
        crate::Call {
            name: stringify!($name),
            number: $number,
            args: &[$(super::arg(stringify!($arg), $kind)),*],
            returns: crate::Returns::$returns,
            effect: $effect,
            replay: $replay,
            check: crate::Check::$check,
            doc: $doc,
        }
    };
}
use row;
