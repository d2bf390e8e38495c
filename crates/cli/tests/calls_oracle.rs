//! The oracle of the table of calls: one test for each row that runs it for real (`oracle::FAMILY::CALL`), one that
//! sees whether it follows symbolic links as it says (in the same test), and one that records and replays it
//! (`recorded::FAMILY::CALL`). The cases are in `reprise_testkit::oracle`.

#[path = "oracle/cases.rs"]
mod cases;
#[path = "oracle/recorded.rs"]
mod recording;

use std::collections::BTreeSet;
use std::time::Duration;

use cases::{End, Place, end};
use reprise_calls::{Follow, all, by_name};
use reprise_testkit::oracle::{self as table, NOT_RUN, follow};
use reprise_testkit::program;
use reprise_testkit::scratch::{Kind, LoopFs, is_root};
use reprise_testkit::{again, skip};

/// Ends a test as the case ended.
fn finish(test: &str, end: End) {
    match end {
        End::Right => println!("PASS {test}"),
        End::Skip(why) => skip(test, &why),
        End::Wrong(how) => panic!("{test}: {how}"),
    }
}

/// Runs a row, and where it has paths sees which links it follows.
fn run(name: &str) -> End {
    let row = by_name(name).expect("a row");
    let manners: &[&str] = match follow::has_paths(row) {
        true => &["check", "follow"],
        false => &["check"],
    };
    for manner in manners {
        let place = Place::below(None);
        let mut command = place.command([*manner, name]);
        let output = program::run(&mut command);
        match end(&command, &output) {
            End::Right => {}
            other => return other,
        }
    }
    End::Right
}

macro_rules! rows {
    ($($family:ident: $($name:ident)*;)*) => {
        mod oracle {
            $(mod $family {
                $(#[test]
                fn $name() {
                    let name = stringify!($name);
                    crate::finish(&format!("oracle::{name}"), crate::run(name));
                })*
            })*
        }
        mod recorded {
            $(mod $family {
                $(#[test]
                fn $name() {
                    let name = stringify!($name);
                    crate::finish(&format!("recorded::{name}"), crate::recording::check(name, None, None));
                })*
            })*
        }
        const TESTED: &[&str] = &[$($(stringify!($name)),*),*];
    };
}

rows! {
    open: open openat openat2 creat memfd_create memfd_secret open_by_handle_at name_to_handle_at;
    descriptors: close close_range dup dup2 dup3 fcntl ioctl flock pipe pipe2;
    data: read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 sendfile copy_file_range splice tee vmsplice lseek truncate ftruncate fallocate;
    sync: fsync fdatasync sync syncfs sync_file_range fadvise64 readahead;
    names: rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat rmdir mkdir mkdirat mknod mknodat readlink readlinkat getdents getdents64 chdir fchdir chroot getcwd;
    metadata: stat lstat fstat newfstatat statx access faccessat faccessat2 chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes futimesat utimensat umask statfs fstatfs file_getattr file_setattr;
    xattr: setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr setxattrat getxattrat listxattrat removexattrat;
    mapping: mmap munmap mremap mprotect madvise msync mlock munlock mincore remap_file_pages;
    process: clone clone3 fork vfork execve execveat exit exit_group wait4 waitid unshare setns setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset ptrace seccomp;
    sockets: socket socketpair accept accept4 bind connect listen shutdown sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg setsockopt getsockopt getsockname getpeername;
    watch: epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 poll ppoll select pselect6 inotify_init inotify_init1 inotify_add_watch inotify_rm_watch fanotify_init fanotify_mark eventfd eventfd2 signalfd signalfd4 timerfd_create pidfd_open pidfd_getfd userfaultfd perf_event_open landlock_create_ruleset mq_open bpf mount umount2 pivot_root fsopen fsconfig fsmount fspick open_tree open_tree_attr mount_setattr move_mount swapon swapoff quotactl quotactl_fd;
    async_io: io_setup io_destroy io_submit io_getevents io_pgetevents io_cancel io_uring_setup io_uring_enter io_uring_register;
}

#[test]
fn every_row_has_a_case_and_a_test() {
    let rows: BTreeSet<&str> = all().map(|c| c.name).collect();
    let without: BTreeSet<&str> = NOT_RUN.iter().map(|(name, _)| *name).collect();
    let cases: BTreeSet<&str> = table::cases().map(|(name, _)| name).collect();
    let tested: BTreeSet<&str> = TESTED.iter().copied().collect();
    assert_eq!(cases.len(), table::cases().count(), "a case twice");
    assert_eq!(tested.len(), TESTED.len(), "a test twice");
    assert_eq!(cases, tested);
    assert_eq!(&rows - &without, tested, "rows that are not run stand in NOT_RUN");
    assert!(without.iter().all(|name| rows.contains(name)), "{without:?}");
}

/// Exchanged neighbours that no effect can tell apart: the row, the first of them, why.
const ALIKE: &[(&str, usize, &str)] = &[("quotactl", 2, NO_QUOTAS), ("quotactl_fd", 2, NO_QUOTAS)];
const NO_QUOTAS: &str = "without a file system that has quotas neither id nor addr is looked at";

/// The oracle can fail: with two neighbouring arguments of a row exchanged, its case must notice.
#[test]
fn a_wrong_order_of_arguments_is_noticed() {
    if !is_root() {
        return skip("a_wrong_order_of_arguments_is_noticed", "only root has users and groups to exchange");
    }
    let mut unnoticed = Vec::new();
    for row in all().filter(|row| !NOT_RUN.iter().any(|(name, _)| *name == row.name)) {
        for at in 0..row.args.len().saturating_sub(1) {
            let alike = ALIKE.iter().any(|(name, n, _)| (*name, *n) == (row.name, at));
            // `io_uring_enter` looks at its last two only if it has to wait, which is a race with the request.
            let unnoticed_once = || {
                let place = Place::below(None);
                let mut command = place.command(["exchanged", row.name, &at.to_string()]);
                program::ends_well(&mut command, Duration::from_secs(2))
            };
            if (0..again::ATTEMPTS).all(|_| unnoticed_once()) != alike {
                let [one, two] = [at, at + 1].map(|i| row.args[i].name);
                unnoticed.push(format!("{} {at} ({one}, {two}), alike {alike}", row.name));
            }
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}

/// From the manual: in which argument which bit decides whether a final link is followed. Whether the kernel agrees is
/// seen by the tests of the rows; that no row keeps silent about its bit is seen here.
#[test]
fn rows_name_the_bits_that_links_depend_on() {
    const NOFOLLOW: u64 = 0x100;
    let unless = |arg, bit| Follow::Unless { arg, bit };
    let only_if = |arg, bit| Follow::If { arg, bit };
    let manual = [
        ("newfstatat", 0, unless(3, NOFOLLOW)),
        ("statx", 0, unless(2, NOFOLLOW)),
        ("faccessat2", 0, unless(3, NOFOLLOW)),
        ("fchmodat2", 0, unless(3, NOFOLLOW)),
        ("fchownat", 0, unless(4, NOFOLLOW)),
        ("utimensat", 0, unless(3, NOFOLLOW)),
        ("execveat", 0, unless(4, NOFOLLOW)),
        ("fspick", 0, unless(2, 0x2)), // FSPICK_SYMLINK_NOFOLLOW
        ("open_tree", 0, unless(2, NOFOLLOW)),
        ("open_tree_attr", 0, unless(2, NOFOLLOW)),
        ("mount_setattr", 0, unless(2, NOFOLLOW)),
        ("file_getattr", 0, unless(4, NOFOLLOW)),
        ("file_setattr", 0, unless(4, NOFOLLOW)),
        ("setxattrat", 0, unless(2, NOFOLLOW)),
        ("getxattrat", 0, unless(2, NOFOLLOW)),
        ("listxattrat", 0, unless(2, NOFOLLOW)),
        ("removexattrat", 0, unless(2, NOFOLLOW)),
        ("inotify_add_watch", 0, unless(2, 0x0200_0000)), // IN_DONT_FOLLOW
        ("fanotify_mark", 0, unless(1, 0x4)),             // FAN_MARK_DONT_FOLLOW
        ("umount2", 0, unless(1, 0x8)),                   // UMOUNT_NOFOLLOW
        ("linkat", 0, only_if(4, 0x400)),                 // AT_SYMLINK_FOLLOW
        ("name_to_handle_at", 0, only_if(4, 0x400)),
        ("move_mount", 0, only_if(4, 0x1)),  // MOVE_MOUNT_F_SYMLINKS
        ("move_mount", 1, only_if(4, 0x10)), // MOVE_MOUNT_T_SYMLINKS
    ];
    for (name, which, follow) in manual {
        let row = by_name(name).expect(name);
        let path = row.paths().nth(which).expect(name);
        assert_eq!(path.follow, follow, "{name}");
    }
    let listed = |row: &reprise_calls::Call| manual.iter().any(|m| m.0 == row.name);
    for row in all().filter(|row| !listed(row)) {
        for path in row.paths() {
            let plain = !matches!(path.follow, Follow::Unless { .. } | Follow::If { .. });
            assert!(plain, "{} {path:?} is not in this list", row.name);
        }
    }
}

/// Rows whose effect depends on the file system, where blocks can be shared, ranges collapsed, and links have
/// attributes of their own.
const OF_FILE_SYSTEMS: [&str; 9] =
    ["ioctl", "fallocate", "copy_file_range", "lseek", "renameat2", "openat", "lsetxattr", "statfs", "getdents64"];

fn on(kind: Kind) {
    let test = format!("rows_on_{kind}");
    let fs = match LoopFs::new(kind, kind.least_bytes()) {
        Ok(fs) => fs,
        Err(why) => return skip(&test, &why),
    };
    for name in OF_FILE_SYSTEMS {
        let place = Place::below(Some(&fs.path()));
        let mut command = place.command(["check", name]);
        let output = program::run(&mut command);
        let ended = end(&command, &output);
        drop(place);
        match ended {
            End::Right => println!("PASS {name} on {kind}"),
            End::Skip(why) => println!("{name} on {kind}: {why}"),
            End::Wrong(how) => panic!("{name} on {kind}: {how}"),
        }
        match recording::check(name, Some(&fs.path()), Some(&fs.path())) {
            End::Right => println!("PASS {name} on {kind}, recorded and replayed"),
            End::Skip(why) => println!("{name} on {kind}, recorded: {why}"),
            End::Wrong(how) => panic!("{name} on {kind}, recorded and replayed: {how}"),
        }
    }
}

#[test]
fn rows_on_ext4() {
    on(Kind::Ext4);
}

#[test]
fn rows_on_xfs() {
    on(Kind::Xfs);
}

#[test]
fn rows_on_btrfs() {
    on(Kind::Btrfs);
}
