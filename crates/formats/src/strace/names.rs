//! Names of calls: those of the table, of other architectures, and those that do not matter to storage.

use std::collections::HashMap;
use std::sync::LazyLock;

use reprise_calls::Call;

/// Where the row's arguments stand in the text, if not in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// In the same place.
    Same,
    /// For each argument of the row its place in the text; −1 where it is not printed.
    Moved(&'static [i8]),
    /// By name: `flags=…`.
    Named,
    /// `_llseek`: the result stands in the third argument.
    LongSeek,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy)]
pub enum Known {
    /// A row of the table.
    Row(&'static Call, Layout),
    /// A call that touches nothing that is replayed.
    Unrelated,
}

const PREADV2: Layout = Layout::Moved(&[0, 1, 2, 3, -1, 4]);
const WITHOUT_SECOND: Layout = Layout::Moved(&[0, 2]);

/// Names of other ABIs and older versions, the row's name, and where its arguments stand.
#[rustfmt::skip]
const ALIASES: &[(&str, &str, Layout)] = &[
    ("_llseek", "lseek", Layout::LongSeek), ("llseek", "lseek", Layout::LongSeek),
    ("mmap2", "mmap", Layout::Same), ("old_mmap", "mmap", Layout::Same),
    ("stat64", "stat", Layout::Same), ("lstat64", "lstat", Layout::Same), ("fstat64", "fstat", Layout::Same),
    ("oldstat", "stat", Layout::Same), ("oldlstat", "lstat", Layout::Same), ("oldfstat", "fstat", Layout::Same),
    ("fstatat64", "newfstatat", Layout::Same), ("fstatat", "newfstatat", Layout::Same),
    ("fcntl64", "fcntl", Layout::Same), ("sendfile64", "sendfile", Layout::Same),
    ("truncate64", "truncate", Layout::Same), ("ftruncate64", "ftruncate", Layout::Same),
    ("statfs64", "statfs", WITHOUT_SECOND), ("fstatfs64", "fstatfs", WITHOUT_SECOND),
    ("pread", "pread64", Layout::Same), ("pwrite", "pwrite64", Layout::Same),
    ("preadv2", "preadv2", PREADV2), ("pwritev2", "pwritev2", PREADV2),
    ("umount", "umount2", Layout::Moved(&[0, -1])), ("oldumount", "umount2", Layout::Moved(&[0, -1])),
    ("waitpid", "wait4", Layout::Moved(&[0, 1, 2, -1])), ("_exit", "exit", Layout::Same),
    ("fadvise64_64", "fadvise64", Layout::Same), ("sync_file_range2", "sync_file_range", Layout::Moved(&[0, 2, 3, 1])),
    ("arm_sync_file_range", "sync_file_range", Layout::Moved(&[0, 2, 3, 1])),
    ("utimensat_time64", "utimensat", Layout::Same), ("_newselect", "select", Layout::Same),
    ("pselect6_time64", "pselect6", Layout::Same), ("ppoll_time64", "ppoll", Layout::Same),
    ("recvmmsg_time64", "recvmmsg", Layout::Same), ("send", "sendto", Layout::Moved(&[0, 1, 2, 3, -1, -1])),
    ("recv", "recvfrom", Layout::Moved(&[0, 1, 2, 3, -1, -1])), ("io_pgetevents_time64", "io_pgetevents", Layout::Same),
    ("chown32", "chown", Layout::Same), ("lchown32", "lchown", Layout::Same), ("fchown32", "fchown", Layout::Same),
    ("setuid32", "setuid", Layout::Same), ("setgid32", "setgid", Layout::Same), ("setreuid32", "setreuid", Layout::Same),
    ("setregid32", "setregid", Layout::Same), ("setresuid32", "setresuid", Layout::Same),
    ("setresgid32", "setresgid", Layout::Same), ("setfsuid32", "setfsuid", Layout::Same),
    ("setfsgid32", "setfsgid", Layout::Same), ("setgroups32", "setgroups", Layout::Same),
    ("clone", "clone", Layout::Named), ("__clone2", "clone", Layout::Named),
];

/// Calls of other ABIs that touch nothing that is replayed.
const UNRELATED: &[&str] = &[
    "restart_syscall",
    "getuid32",
    "getgid32",
    "geteuid32",
    "getegid32",
    "getgroups32",
    "getresuid32",
    "getresgid32",
    "clock_gettime64",
    "clock_settime64",
    "clock_getres_time64",
    "clock_nanosleep_time64",
    "futex_time64",
    "timer_gettime64",
    "timer_settime64",
    "timerfd_gettime64",
    "timerfd_settime64",
    "rt_sigtimedwait_time64",
    "sched_rr_get_interval_time64",
    "semtimedop_time64",
    "mq_timedsend_time64",
    "mq_timedreceive_time64",
    "ugetrlimit",
    "old_getrlimit",
    "set_thread_area",
    "get_thread_area",
    "sigreturn",
    "sigaction",
    "sigprocmask",
    "sigpending",
    "sigsuspend",
    "signal",
    "sgetmask",
    "ssetmask",
    "ipc",
    "time",
    "stime",
    "nice",
    "olduname",
    "oldolduname",
    "waitid64",
    "mlockall",
    "munlockall",
    "mlock2",
    "socketcall",
    "vm86",
    "vm86old",
    "modify_ldt",
    "cacheflush",
    "gettid",
    "arch_prctl",
    "set_tid_address",
    "rseq",
    "membarrier",
    "getrandom",
    "getcpu",
    "prctl",
    "prlimit64",
    "setrlimit",
];

static KNOWN: LazyLock<HashMap<&'static [u8], Known>> = LazyLock::new(|| {
    let unrelated = reprise_calls::UNRELATED.iter().map(|(_, name)| *name).chain(UNRELATED.iter().copied());
    let mut out: HashMap<_, _> = unrelated.map(|name| (name.as_bytes(), Known::Unrelated)).collect();
    out.extend(reprise_calls::all().map(|call| (call.name.as_bytes(), Known::Row(call, Layout::Same))));
    let aliases = ALIASES
        .iter()
        .filter_map(|(alias, row, layout)| Some((alias.as_bytes(), Known::Row(reprise_calls::by_name(row)?, *layout))));
    out.extend(aliases);
    out
});

/// What a name stands for; `None` if it is no call that is known here.
pub fn known(name: &[u8]) -> Option<Known> {
    KNOWN.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alias_leads_to_a_row() {
        for (alias, row, _) in ALIASES {
            assert!(matches!(known(alias.as_bytes()), Some(Known::Row(call, _)) if call.name == *row), "{alias}");
        }
        assert!(matches!(known(b"brk"), Some(Known::Unrelated)));
        assert!(known(b"strlen").is_none());
    }
}
