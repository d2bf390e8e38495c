//! What threads share, and which calls end it: flags of clone(2) and unshare(2) (`include/uapi/linux/sched.h`).
//!
//! Goals: one place that knows what these flags mean for descriptors, directories and users. Non-goals: namespaces, which no replay enters.

use crate::vocabulary::{Call, Effect};

/// `CLONE_FS`: working directory, root and mask for new files are shared.
pub const SHARE_DIRECTORIES: u64 = 0x200;
/// `CLONE_FILES`: the table of descriptors is shared.
pub const SHARE_DESCRIPTORS: u64 = 0x400;
/// Threads as the C library makes them, as far as descriptors and directories are concerned.
pub const SHARE_BOTH: u64 = SHARE_DIRECTORIES | SHARE_DESCRIPTORS;
/// `CLONE_PIDFD`: the maker gets a descriptor of the child.
pub const HANDLE: u64 = 0x1000;
/// `CLONE_THREAD`: a thread of the maker's process.
pub const SAME_PROCESS: u64 = 0x1_0000;
/// `CLONE_NEWUSER`: users and groups are those of a namespace of its own.
pub const NEW_USERS: u64 = 0x1000_0000;

/// `CLONE_NEWNS`: mounts are those of a namespace of its own.
pub const NEW_MOUNTS: u64 = 0x2_0000;
/// `CLOSE_RANGE_UNSHARE`.
const CLOSE_UNSHARED: u64 = 2;

/// Parts of a thread that it may have in common with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// Its table of descriptors.
    pub descriptors: bool,
    /// Working directory, root and mask for new files.
    pub directories: bool,
}

/// What a thread made with these flags shares with its maker.
pub const fn shared(clone_flags: u64) -> Parts {
    Parts { descriptors: clone_flags & SHARE_DESCRIPTORS != 0, directories: clone_flags & SHARE_DIRECTORIES != 0 }
}

/// What a thread has for itself once this call of it has succeeded.
pub fn unshared(call: &Call, args: &[u64; 6]) -> Parts {
    let flags = args[0];
    match call.effect {
        Effect::CloseRange => Parts { descriptors: args[2] & CLOSE_UNSHARED != 0, directories: false },
        // `begin_new_exec` in fs/exec.c.
        Effect::Execute => Parts { descriptors: true, directories: false },
        // Mounts and users of its own bring directories of its own: `ksys_unshare` in kernel/fork.c.
        Effect::Mount if call.name == "unshare" => Parts {
            descriptors: flags & SHARE_DESCRIPTORS != 0,
            directories: flags & (SHARE_DIRECTORIES | NEW_MOUNTS | NEW_USERS) != 0,
        },
        _ => Parts::default(),
    }
}

/// Whether a thread has mounts of its own once this call of it has succeeded.
pub fn copies_mounts(call: &Call, args: &[u64; 6]) -> bool {
    call.name == "unshare" && args[0] & NEW_MOUNTS != 0
}

/// Whether a thread has other users once this call of it has succeeded. `setns` may leave it to the descriptor what it is about.
pub fn enters_users(call: &Call, args: &[u64; 6]) -> bool {
    match call.name {
        "unshare" => args[0] & NEW_USERS != 0,
        "setns" => args[1] & NEW_USERS != 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::by_name;

    const BOTH: Parts = Parts { descriptors: true, directories: true };
    const TABLE: Parts = Parts { descriptors: true, directories: false };
    const PLACES: Parts = Parts { descriptors: false, directories: true };

    fn ends(name: &str, args: [u64; 3]) -> Parts {
        unshared(by_name(name).expect("a row"), &[args[0], args[1], args[2], 0, 0, 0])
    }

    #[test]
    fn what_each_call_ends() {
        for (flags, parts) in [
            (0x400, TABLE),
            (0x200, PLACES),
            (0x600, BOTH),
            (NEW_MOUNTS, PLACES),
            (NEW_USERS, PLACES),
            (NEW_USERS | 0x400, BOTH),
            // CLONE_NEWNET.
            (0x4000_0000, Parts::default()),
        ] {
            assert_eq!(ends("unshare", [flags, 0, 0]), parts, "{flags:#x}");
        }
        assert_eq!(ends("close_range", [3, 9, 2]), TABLE);
        assert_eq!(ends("close_range", [3, 9, 4]), Parts::default());
        assert_eq!(ends("execve", [0; 3]), TABLE);
        assert_eq!(ends("setns", [NEW_USERS, NEW_USERS, 0]), Parts::default());
        assert_eq!(shared(0x10600), BOTH);
    }
}
