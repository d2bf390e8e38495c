//! What is mounted: in a mount namespace of its own, so that nothing outside is changed; swapping; quotas.

use std::fs;

use libc::*;

use super::Case;
use super::context::Context;
use super::fixture::{self, c_string, identity};
use super::value::{self, *};
use crate::raw;

pub(super) const CASES: &[(&str, Case)] = &[
    ("mount", mount),
    ("umount2", umount2),
    ("pivot_root", pivot_root),
    ("fsopen", fsopen),
    ("fsconfig", fsconfig),
    ("fsmount", fsmount),
    ("fspick", fspick),
    ("open_tree", open_tree),
    ("open_tree_attr", open_tree_attr),
    ("mount_setattr", mount_setattr),
    ("move_mount", move_mount),
    ("swapon", swapon),
    ("swapoff", swapoff),
    ("quotactl", quotactl),
    ("quotactl_fd", quotactl_fd),
];

/// A mount namespace of this process alone.
fn private_mounts(c: &Context) {
    if raw::sys(SYS_unshare, &[CLONE_NEWNS as u64]) != 0 {
        c.skip("mount namespaces are not permitted");
    }
    // The working directory stays on the old mount, which is now a copy.
    let bits = MS_REC | MS_PRIVATE;
    raw::must(SYS_mount, &[0, c_string("/"), 0, bits, 0]);
}

fn mount_memory(on: &str) {
    let kind = c_string("tmpfs");
    raw::must(SYS_mount, &[kind, c_string(on), kind, 0, 0]);
}

/// The line of `/proc/self/mountinfo` for what is mounted here.
fn mounted(on: &str) -> Option<String> {
    let here = fs::canonicalize(on).expect(on);
    let text = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let is = |line: &&str| line.split(' ').nth(4) == here.to_str();
    text.lines().rfind(is).map(str::to_owned)
}

fn mount(c: &Context) {
    private_mounts(c);
    let call = |target: &str, kind: &str, bits: u64, options: &str| {
        c.call(&[
            ("source", text("the source")),
            ("target", path(target)),
            ("fstype", text(kind)),
            ("flags", num(bits)),
            ("data", memory(&[options.as_bytes(), &[0]].concat())),
        ])
    };
    call("empty", "tmpfs", MS_NOSUID | MS_NODEV, "size=64k").ok();
    c.check(|| {
        let line = mounted("empty").expect("a mount");
        assert!(line.contains(" rw,nosuid,nodev,"), "{line}");
        assert!(line.contains(" tmpfs the\\040source "), "{line}");
        assert!(line.contains("size=64k"), "{line}");
    });
    call("empty", "no such", 0, "").fails(ENODEV);
    call("missing", "tmpfs", 0, "").fails(ENOENT);
}

fn umount2(c: &Context) {
    private_mounts(c);
    mount_memory("empty");
    let call = |bits: u64| c.call(&[("target", path("empty")), ("flags", num(bits))]);
    let busy = fixture::open("empty", O_DIRECTORY);
    call(0).fails(EBUSY);
    assert!(busy >= 0);
    call(MNT_DETACH as u64).ok();
    c.check(|| assert_eq!(mounted("empty"), None));
    call(0).fails(EINVAL);
}

fn pivot_root(c: &Context) {
    private_mounts(c);
    mount_memory("empty");
    fs::create_dir("empty/old").expect("old");
    fs::write("empty/here", "new root").expect("here");
    let ids = || (identity("/."), identity("empty/."));
    // A replay mounts nothing: what is recorded must not look at the mount.
    let (was, new) = if c.checks() { ids() } else { Default::default() };
    let call = |new: &str, old: &str| c.call(&[("new_root", path(new)), ("put_old", path(old))]);
    // In a file system in memory the root cannot be exchanged.
    call("empty", "empty/old").ok_or_skip(&[EINVAL]);
    c.check(|| {
        assert_eq!(identity("/."), new);
        assert_eq!(identity("/old/."), was);
        assert_eq!(fs::read("/here").expect("here"), b"new root");
    });
    call("/missing", "/old").fails(ENOENT);
}

fn fsopen(c: &Context) {
    c.needs_root();
    const CLOEXEC: u64 = 1;
    let call = |kind: &str| c.call(&[("fstype", text(kind)), ("flags", num(CLOEXEC))]);
    let fd = call("tmpfs").ok_or_skip(&[EPERM]);
    c.fd_named(fd, "anon_inode:[fscontext]");
    c.fd_has(fd, O_CLOEXEC, O_CLOEXEC);
    call("no such").fails(ENODEV);
}

fn fsconfig(c: &Context) {
    const SET_STRING: u64 = 1;
    let fd = raw::sys(SYS_fsopen, &[c_string("tmpfs"), 0]);
    if fd < 0 {
        c.skip("file systems cannot be configured");
    }
    let call = |key: &str| {
        let value = memory(b"64k\0");
        let (command, key, aux) = (num(SET_STRING), text(key), int(0));
        c.call(&[("fd", value::fd(fd)), ("command", command), ("key", key), ("value", value), ("aux", aux)])
    };
    call("size").ok();
    call("no such").fails(EINVAL);
}

/// A configured file system in memory.
fn configured(c: &Context) -> i64 {
    let fd = raw::sys(SYS_fsopen, &[c_string("tmpfs"), 0]);
    if fd < 0 {
        c.skip("file systems cannot be configured");
    }
    const CREATE: u64 = 6;
    raw::must(SYS_fsconfig, &[fd as u64, CREATE, 0, 0, 0]);
    fd
}

fn fsmount(c: &Context) {
    private_mounts(c);
    let context = configured(c);
    const CLOEXEC: u64 = 1;
    const NODEV: u64 = 4;
    let fd = c.call(&[("fd", value::fd(context)), ("flags", num(CLOEXEC)), ("attr", num(NODEV))]).ok();
    c.fd_has(fd, O_CLOEXEC, O_CLOEXEC);
    c.check(|| {
        const EMPTY_FROM: u64 = 4;
        let here = AT_FDCWD as u64;
        let args = [fd as u64, c_string(""), here, c_string("empty"), EMPTY_FROM];
        raw::must(SYS_move_mount, &args);
        let line = mounted("empty").expect("a mount");
        assert!(line.contains(" rw,nodev,"), "{line}");
    });
}

fn fspick(c: &Context) {
    private_mounts(c);
    const CLOEXEC: u64 = 1;
    const NO_FOLLOW: u64 = 2;
    mount_memory("empty");
    fs::create_dir("way").expect("way");
    std::os::unix::fs::symlink("../empty", "way/to").expect("to");
    let dir = fixture::open("way", O_PATH);
    let call = |name: &str, bits: u64| c.call(&[("dirfd", at_dir(dir)), ("path", path(name)), ("flags", num(bits))]);
    let fd = call("to", CLOEXEC).ok();
    c.fd_named(fd, "anon_inode:[fscontext]");
    c.fd_has(fd, O_CLOEXEC, O_CLOEXEC);
    // The link itself is the root of no mount.
    call("to", NO_FOLLOW).fails(EINVAL);
    call("missing", 0).fails(ENOENT);
}

/// `struct mount_attr` (`include/uapi/linux/mount.h`) that sets one attribute.
fn one_attribute(bit: u64) -> Vec<u8> {
    let mut attr = vec![0; 32];
    attr[..8].copy_from_slice(&bit.to_le_bytes());
    attr
}

const NO_DEVICES: u64 = 4;

fn open_tree_attr(c: &Context) {
    private_mounts(c);
    const CLONE: u64 = 1;
    let dir = fixture::open("dir", O_PATH);
    let call = |name: &str, bits: u64| {
        let attr = input(&one_attribute(NO_DEVICES));
        c.call(&[("dirfd", at_dir(dir)), ("path", path(name)), ("flags", num(bits)), ("attr", attr)])
    };
    let copy = call(".", CLONE | O_CLOEXEC as u64).ok_or_skip(&[ENOSYS]);
    c.fd_has(copy, O_CLOEXEC, O_CLOEXEC);
    c.check(|| {
        assert_ne!(fixture::fd_info(copy, "mnt_id"), fixture::fd_info(dir, "mnt_id"));
        assert_eq!(fixture::fd_info(copy, "ino"), identity("dir").1.to_string());
        const EMPTY_FROM: u64 = 4;
        let args = [copy as u64, c_string(""), AT_FDCWD as u64, c_string("empty"), EMPTY_FROM];
        raw::must(SYS_move_mount, &args);
        assert!(mounted("empty").expect("a mount").contains("nodev"));
    });
    call("missing", CLONE).fails(ENOENT);
}

fn mount_setattr(c: &Context) {
    private_mounts(c);
    mount_memory("empty");
    let dir = fixture::open(".", O_PATH);
    let call = |name: &str| {
        let attr = input(&one_attribute(NO_DEVICES));
        c.call(&[("dirfd", at_dir(dir)), ("path", path(name)), ("flags", num(0)), ("attr", attr)])
    };
    call("empty").ok_or_skip(&[ENOSYS]);
    c.check(|| assert!(mounted("empty").expect("a mount").contains("nodev")));
    call("missing").fails(ENOENT);
}

fn open_tree(c: &Context) {
    private_mounts(c);
    const CLONE: u64 = 1;
    let dir = fixture::open("dir", O_PATH);
    let call = |name: &str, bits: u64| c.call(&[("dirfd", at_dir(dir)), ("path", path(name)), ("flags", num(bits))]);
    let fd = call("../link", O_CLOEXEC as u64).ok();
    c.fd_is(fd, "file", 0);
    c.fd_has(fd, O_PATH | O_CLOEXEC, O_PATH | O_CLOEXEC);
    let fd = call("../link", AT_SYMLINK_NOFOLLOW as u64).ok();
    c.fd_is(fd, "link", 0);
    let copy = call(".", CLONE).ok();
    c.check(|| {
        assert_ne!(fixture::fd_info(copy, "mnt_id"), fixture::fd_info(dir, "mnt_id"));
        assert_eq!(fixture::fd_info(copy, "ino"), identity("dir").1.to_string());
    });
}

fn move_mount(c: &Context) {
    private_mounts(c);
    mount_memory("empty");
    fs::write("empty/here", "moved").expect("here");
    let (from, to) = (fixture::open(".", O_PATH), fixture::open("dir", O_PATH));
    fs::create_dir("dir/to").expect("to");
    let call = || {
        c.call(&[
            ("from_dirfd", at_dir(from)),
            ("from_path", path("empty")),
            ("to_dirfd", at_dir(to)),
            ("to_path", path("to")),
            ("flags", num(0)),
        ])
    };
    call().ok();
    c.check(|| {
        assert_eq!(mounted("empty"), None);
        assert!(mounted("dir/to").is_some());
        assert_eq!(fs::read("dir/to/here").expect("here"), b"moved");
    });
    call().fails(EINVAL);
}

/// A swap file of ten pages; its header is in the first.
fn swap_file(c: &Context) {
    c.needs_root();
    let mut header = vec![0; 40_960];
    // Version 1, last page 9, no bad pages; then an identity.
    header[1024..1036].copy_from_slice(&words(&[1, 9, 0]));
    header[4086..4096].copy_from_slice(b"SWAPSPACE2");
    fs::write("swap", header).expect("swap");
    raw::must(SYS_chmod, &[c_string("swap"), 0o600]);
    let fd = fixture::open("swap", O_RDONLY);
    raw::must(SYS_fsync, &[fd as u64]);
    raw::must(SYS_close, &[fd as u64]);
}

fn swaps_here() -> bool {
    let here = fs::canonicalize("swap").expect("swap");
    let text = fs::read_to_string("/proc/swaps").expect("swaps");
    text.lines().any(|l| l.split_whitespace().next() == here.to_str())
}

fn swapon(c: &Context) {
    swap_file(c);
    let call = |name: &str| c.call(&[("path", path(name)), ("flags", num(0))]);
    let done = call("swap");
    let seen = done.errno() == 0 && swaps_here();
    let off = raw::sys(SYS_swapoff, &[c_string("swap")]);
    done.ok_or_skip(&[EPERM, ENOSYS, EINVAL]);
    assert_eq!(off, 0);
    assert!(seen, "not in /proc/swaps");
    call("file").fails(EINVAL);
    call("missing").fails(ENOENT);
}

fn swapoff(c: &Context) {
    swap_file(c);
    // When only links are followed nobody would switch it off again.
    if !c.probes() && raw::sys(SYS_swapon, &[c_string("swap"), 0]) != 0 {
        c.skip("the file system cannot be swapped on");
    }
    let done = c.call(&[("path", path("swap"))]);
    let still = swaps_here();
    if done.errno() != 0 {
        raw::sys(SYS_swapoff, &[c_string("swap")]);
    }
    done.ok();
    assert!(!still, "still in /proc/swaps");
    c.call(&[("path", path("file"))]).fails(EINVAL);
}

fn quotactl(c: &Context) {
    let call = |op: u64, special: Value| {
        c.call(&[("command", num(op)), ("special", special), ("id", owner(0)), ("addr", address(0))])
    };
    const SYNC: u64 = 0x80_0001 << 8;
    const GET_FORMAT: u64 = 0x80_0004 << 8;
    // The file need not be a block device for "synchronize all".
    call(SYNC, null(Is::Text)).ok_or_skip(&[ENOSYS]);
    call(GET_FORMAT, text("missing")).fails(ENOENT);
    call(GET_FORMAT, text("file")).fails(ENOTBLK);
}

fn quotactl_fd(c: &Context) {
    const SYNC: u64 = 0x80_0001 << 8;
    const NO_SUCH: u64 = 0x80_00ff << 8;
    let file = fixture::open("file", O_RDONLY);
    let call = |fd: i64, op: u64| {
        c.call(&[("fd", value::fd(fd)), ("command", num(op)), ("id", owner(0)), ("addr", address(0))])
    };
    call(file, SYNC).ok_or_skip(&[ENOSYS, ENOTSUP]);
    call(file, NO_SUCH).fails(EINVAL);
}
