//! What comes with a file system that a program mounts: `filesystems(5)`, `mount(2)`, `fsmount(2)`.
//!
//! Goals: for each such call what a replay, which mounts nothing, has in its place; told alike to whoever infers the tree of the
//! beginning and to whoever follows paths in it. Non-goals: devices and options.

use crate::mounts::{Mounting, mounting};
use crate::vocabulary::Call;

/// What a file system holds when it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brought {
    /// The kernel's state: no program put it there.
    State,
    /// The same, as `/proc` has it.
    Processes,
    /// Nothing.
    Nothing,
    /// Files, perhaps.
    Files,
}

/// Types of file systems that do not hold files of somebody's, with what they hold.
const TYPES: [(&[u8], Brought); 28] = [
    (b"autofs", Brought::State),
    (b"binder", Brought::State),
    (b"binfmt_misc", Brought::State),
    (b"bpf", Brought::State),
    (b"cgroup", Brought::State),
    (b"cgroup2", Brought::State),
    (b"configfs", Brought::State),
    (b"cpuset", Brought::State),
    (b"debugfs", Brought::State),
    (b"devpts", Brought::State),
    (b"devtmpfs", Brought::State),
    (b"efivarfs", Brought::State),
    (b"functionfs", Brought::State),
    (b"fusectl", Brought::State),
    (b"hugetlbfs", Brought::State),
    (b"mqueue", Brought::State),
    (b"nfsd", Brought::State),
    (b"nsfs", Brought::State),
    (b"proc", Brought::Processes),
    (b"pstore", Brought::State),
    (b"resctrl", Brought::State),
    (b"rpc_pipefs", Brought::State),
    (b"securityfs", Brought::State),
    (b"selinuxfs", Brought::State),
    (b"smackfs", Brought::State),
    (b"sysfs", Brought::State),
    (b"tmpfs", Brought::Nothing),
    (b"tracefs", Brought::State),
];

/// `TMPFS_MAGIC` of `linux/magic.h`.
pub const TMPFS: u64 = 0x0102_1994;

impl Brought {
    /// By a file system of this type.
    pub fn by_type(name: &[u8]) -> Brought {
        TYPES.iter().find(|(known, _)| *known == name).map_or(Brought::Files, |(_, brought)| *brought)
    }

    /// By a file system of the type that a call names (`mount`, `fsopen`), given the texts that it was given, by argument; by one that
    /// is not told as by one that shows the kernel's state.
    pub fn named<'a>(call: &Call, texts: impl FnOnce() -> [Option<&'a [u8]>; 6]) -> Option<Brought> {
        let at = match call.name {
            "mount" => 2,
            "fsopen" => 0,
            _ => return None,
        };
        Some(texts()[at].map_or(Brought::State, Brought::by_type))
    }

    /// Whether something stands in its place.
    pub fn stands_in(self) -> bool {
        matches!(self, Brought::Nothing | Brought::Files)
    }
}

/// Whether a call brings a file system, if it succeeds.
pub fn brings(call: &Call, args: &[u64; 6]) -> bool {
    call.name == "fsmount" || mounting(call, args) == Mounting::New
}

const STAND_IN: &[u8] = b".reprise-mounted-";

/// The name in the root directory of what stands for the file system that a trace's so many-th such call brought.
pub fn stand_in(number: u32) -> Vec<u8> {
    [STAND_IN, number.to_string().as_bytes()].concat()
}

/// Whether this is the name of what stands for a file system: a directory that lists it shows no more of the program's own than
/// one that does not.
pub fn is_stand_in(name: &[u8]) -> bool {
    name.starts_with(STAND_IN)
}

/// The name in a part of a trace of what stood for a file system that a call brought that is not in that part.
pub fn of_before(name: &[u8]) -> Vec<u8> {
    [name, b"-before"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::by_name;

    #[test]
    fn types_are_in_order_and_known() {
        assert!(TYPES.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!((Brought::by_type(b"proc"), Brought::by_type(b"sysfs")), (Brought::Processes, Brought::State));
        assert_eq!(Brought::by_type(b"tmpfs"), Brought::Nothing);
        assert_eq!((Brought::by_type(b"ext4"), Brought::by_type(b"")), (Brought::Files, Brought::Files));
        assert!(Brought::Files.stands_in() && Brought::Nothing.stands_in());
        assert!(!Brought::State.stands_in() && !Brought::Processes.stands_in());
    }

    #[test]
    fn which_type_a_call_names() {
        let texts = [Some(b"tmpfs".as_slice()), None, Some(b"ext4".as_slice()), None, None, None];
        let named = |name, texts: [Option<&'static [u8]>; 6]| Brought::named(by_name(name).unwrap(), || texts);
        assert_eq!(named("mount", texts), Some(Brought::Files));
        assert_eq!(named("fsopen", texts), Some(Brought::Nothing));
        assert_eq!((named("fsopen", [None; 6]), named("fsmount", texts)), (Some(Brought::State), None));
    }

    #[test]
    fn which_calls_bring_one() {
        let of = |name, flags| brings(by_name(name).unwrap(), &[0, 0, 0, flags, 0, 0]);
        assert!(of("mount", 0) && of("mount", 0xc0ed_0001) && of("fsmount", 0));
        assert!(!of("mount", 0x1000) && !of("mount", 0x20) && !of("move_mount", 0) && !of("open_tree", 1));
    }

    #[test]
    fn what_stands_for_one_is_known_by_its_name() {
        assert_eq!(stand_in(12), b".reprise-mounted-12");
        assert!(is_stand_in(&stand_in(1)) && is_stand_in(&of_before(&stand_in(1))) && !is_stand_in(b"mounted-1"));
    }
}
