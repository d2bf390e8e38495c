//! Attributes of files and file systems: reading and testing them, changing permission bits and times.

use std::fs;
use std::os::unix::fs::MetadataExt;

use libc::*;

use super::Case;
use super::context::{Context, Done};
use super::fixture;
use super::value::{self, *};
use crate::raw;

pub(super) const CASES: &[(&str, Case)] = &[
    ("stat", stat),
    ("lstat", lstat),
    ("fstat", fstat),
    ("newfstatat", newfstatat),
    ("statx", statx),
    ("access", access),
    ("faccessat", faccessat),
    ("faccessat2", faccessat2),
    ("chmod", chmod),
    ("fchmod", fchmod),
    ("fchmodat", fchmodat),
    ("fchmodat2", fchmodat2),
    ("utime", utime),
    ("utimes", utimes),
    ("futimesat", futimesat),
    ("utimensat", utimensat),
    ("umask", umask),
    ("statfs", statfs),
    ("fstatfs", fstatfs),
    ("file_getattr", file_getattr),
    ("file_setattr", file_setattr),
];

/// `struct stat`: st_dev, st_ino, st_nlink, st_mode (u32), st_uid, st_gid, pad, st_rdev, st_size, st_blksize, …
fn is_stat_of(c: &Context, done: &Done, name: &str) {
    done.ok();
    c.check(|| {
        let of = fs::symlink_metadata(name).expect(name);
        let found = [
            done.number("statbuf", 0, 8),
            done.number("statbuf", 8, 8),
            done.number("statbuf", 16, 8),
            done.number("statbuf", 24, 4),
            done.number("statbuf", 28, 4),
            done.number("statbuf", 32, 4),
            done.number("statbuf", 40, 8),
            done.number("statbuf", 48, 8),
            done.number("statbuf", 64, 8),
            done.number("statbuf", 88, 8),
            done.number("statbuf", 96, 8),
        ];
        let expected = [
            of.dev(),
            of.ino(),
            of.nlink(),
            of.mode().into(),
            of.uid().into(),
            of.gid().into(),
            of.rdev(),
            of.size(),
            of.blocks(),
            of.mtime() as u64,
            of.mtime_nsec() as u64,
        ];
        assert_eq!(found, expected, "{name}");
    });
}

fn stat(c: &Context) {
    let call = |name: &str| c.call(&[("path", path(name)), ("statbuf", output(144))]);
    is_stat_of(c, &call("link"), "file");
    is_stat_of(c, &call("dir"), "dir");
    call("missing").fails(ENOENT);
}

fn lstat(c: &Context) {
    let call = |name: &str| c.call(&[("path", path(name)), ("statbuf", output(144))]);
    is_stat_of(c, &call("link"), "link");
    is_stat_of(c, &call("file"), "file");
}

fn fstat(c: &Context) {
    let fd = fixture::open("sparse", O_RDONLY);
    let call = |fd: i64| c.call(&[("fd", value::fd(fd)), ("statbuf", output(144))]);
    is_stat_of(c, &call(fd), "sparse");
    call(9999).fails(EBADF);
}

fn newfstatat(c: &Context) {
    let dir = fixture::open("dir", O_PATH);
    let call = |name: &str, bits: i32| {
        c.call(&[("dirfd", at_dir(dir)), ("path", path(name)), ("statbuf", output(144)), ("flags", flags(bits.into()))])
    };
    is_stat_of(c, &call("inside", 0), "dir/inside");
    is_stat_of(c, &call("../link", 0), "file");
    is_stat_of(c, &call("../link", AT_SYMLINK_NOFOLLOW), "link");
    is_stat_of(c, &call("", AT_EMPTY_PATH), "dir");
}

fn statx(c: &Context) {
    let dir = fixture::open("dir", O_PATH);
    let call = |name: &str, bits: i32| {
        c.call(&[
            ("dirfd", at_dir(dir)),
            ("path", path(name)),
            ("flags", flags(bits.into())),
            ("mask", num(STATX_BASIC_STATS.into())),
            ("statxbuf", output(256)),
        ])
    };
    // stx_mask, stx_blksize, stx_attributes, stx_nlink, stx_uid, stx_gid, stx_mode (u16), stx_ino (32), stx_size (40).
    let is = |done: Done, name: &str| {
        done.ok();
        let mask = done.number("statxbuf", 0, 4);
        assert_eq!(mask & u64::from(STATX_BASIC_STATS), u64::from(STATX_BASIC_STATS));
        c.check(|| {
            let of = fs::symlink_metadata(name).expect(name);
            let number = |at, n| done.number("statxbuf", at, n);
            let found = [number(16, 4), number(28, 2), number(32, 8), number(40, 8)];
            assert_eq!(found, [of.nlink(), of.mode().into(), of.ino(), of.size()]);
            assert_eq!(number(112, 8), of.mtime() as u64);
        });
    };
    is(call("inside", 0), "dir/inside");
    is(call("../link", 0), "file");
    is(call("../link", AT_SYMLINK_NOFOLLOW), "link");
    is(call("", AT_EMPTY_PATH), "dir");
    call("missing", 0).fails(ENOENT);
}

/// Exit status of the program as an ordinary user, who may not write what is root's.
fn as_nobody(c: &Context, test: impl FnOnce()) {
    let child = raw::fork(|| {
        if crate::scratch::is_root() {
            raw::must(SYS_setresgid, &[65_534, 65_534, 65_534]);
            raw::must(SYS_setresuid, &[65_534, 65_534, 65_534]);
        }
        test();
        0
    });
    assert_eq!(raw::wait(child), 0, "{}: as another user", c.row().name);
}

/// `secret` may be read, not written, nor run, by anybody; the directory is open to all.
fn make_secret() {
    fs::write("secret", "x").expect("secret");
    for (name, bits) in [(".", 0o755), ("secret", 0o444)] {
        raw::must(SYS_chmod, &[fixture::c_string(name), bits]);
    }
    std::os::unix::fs::symlink("secret", "to-secret").expect("a link");
}

fn access(c: &Context) {
    make_secret();
    let call = |name: &str, bits: i32| c.call(&[("path", path(name)), ("mode", flags(bits.into()))]);
    call("file", R_OK).ok();
    call("prog", X_OK).ok();
    call("missing", F_OK).fails(ENOENT);
    call("secret", X_OK).fails(EACCES);
    as_nobody(c, || {
        call("to-secret", R_OK).ok();
        call("to-secret", W_OK).fails(EACCES);
    });
}

fn faccessat(c: &Context) {
    make_secret();
    let dir = fixture::open("dir", O_PATH);
    let call =
        |name: &str, bits: i32| c.call(&[("dirfd", at_dir(dir)), ("path", path(name)), ("mode", flags(bits.into()))]);
    call("inside", R_OK | W_OK).ok();
    call("secret", F_OK).fails(ENOENT);
    as_nobody(c, || {
        call("../to-secret", R_OK).ok();
        call("../to-secret", W_OK).fails(EACCES);
    });
}

fn faccessat2(c: &Context) {
    make_secret();
    let dir = fixture::open("dir", O_PATH);
    let call = |name: &str, bits: i32, at: i32| {
        c.call(&[
            ("dirfd", at_dir(dir)),
            ("path", path(name)),
            ("mode", flags(bits.into())),
            ("flags", flags(at.into())),
        ])
    };
    call("inside", R_OK | W_OK, AT_EACCESS).ok();
    call("../dangling", F_OK, AT_SYMLINK_NOFOLLOW).ok();
    call("../dangling", F_OK, 0).fails(ENOENT);
    call("", F_OK, AT_EMPTY_PATH).ok();
    as_nobody(c, || {
        call("../to-secret", R_OK, 0).ok();
        call("../to-secret", W_OK, 0).fails(EACCES);
    });
}

fn chmod(c: &Context) {
    let call = |name: &str, bits: u32| c.call(&[("path", path(name)), ("mode", mode(bits))]);
    call("link", 0o4711).ok();
    c.has_mode("file", S_IFREG | 0o4711);
    call("dir", 0o1777).ok();
    c.has_mode("dir", S_IFDIR | 0o1777);
    call("missing", 0).fails(ENOENT);
}

fn fchmod(c: &Context) {
    let fd = fixture::open("file", O_RDONLY);
    let call = |fd: i64, bits: u32| c.call(&[("fd", value::fd(fd)), ("mode", mode(bits))]);
    call(fd, 0o2751).ok();
    c.has_mode("file", S_IFREG | 0o2751);
    call(9999, 0).fails(EBADF);
}

fn fchmodat(c: &Context) {
    let dir = fixture::open("dir", O_PATH);
    let call = |name: &str, bits: u32| c.call(&[("dirfd", at_dir(dir)), ("path", path(name)), ("mode", mode(bits))]);
    call("inside", 0o600).ok();
    c.has_mode("dir/inside", S_IFREG | 0o600);
    call("../link", 0o604).ok();
    c.has_mode("file", S_IFREG | 0o604);
}

fn fchmodat2(c: &Context) {
    let dir = fixture::open("dir", O_PATH);
    let call = |name: &str, bits: u32, at: i32| {
        c.call(&[("dirfd", at_dir(dir)), ("path", path(name)), ("mode", mode(bits)), ("flags", flags(at.into()))])
    };
    call("inside", 0o600, AT_SYMLINK_NOFOLLOW).ok();
    c.has_mode("dir/inside", S_IFREG | 0o600);
    call("../link", 0o604, 0).ok();
    c.has_mode("file", S_IFREG | 0o604);
    call("", 0o711, AT_EMPTY_PATH).ok();
    c.has_mode("dir", S_IFDIR | 0o711);
    call("inside", 0, 1 << 20).fails(EINVAL);
}

/// Seconds and nanoseconds of access and modification.
fn has_times(c: &Context, name: &str, times: [i64; 4]) {
    c.check(|| {
        let of = fs::symlink_metadata(name).expect(name);
        let found = [of.atime(), of.atime_nsec(), of.mtime(), of.mtime_nsec()];
        assert_eq!(found, times, "{name}");
    });
}

fn utime(c: &Context) {
    let call = |name: &str, times: Value| c.call(&[("path", path(name)), ("times", times)]);
    call("link", input(&longs(&[1_000, 2_000]))).ok();
    has_times(c, "file", [1_000, 0, 2_000, 0]);
    call("file", null(Is::In)).ok();
    c.check(|| assert!(fs::metadata("file").expect("file").mtime() > 1_500_000_000));
}

fn utimes(c: &Context) {
    let call = |name: &str, times: Value| c.call(&[("path", path(name)), ("times", times)]);
    call("link", input(&longs(&[1_000, 7, 2_000, 8]))).ok();
    has_times(c, "file", [1_000, 7_000, 2_000, 8_000]);
    call("file", input(&longs(&[1, 2_000_000, 1, 0]))).fails(EINVAL);
    call("file", null(Is::In)).ok();
}

fn futimesat(c: &Context) {
    let dir = fixture::open("dir", O_PATH);
    let times = input(&longs(&[1_000, 7, 2_000, 8]));
    let done = c.call(&[("dirfd", at_dir(dir)), ("path", path("inside")), ("times", times)]);
    done.ok();
    has_times(c, "dir/inside", [1_000, 7_000, 2_000, 8_000]);
}

fn utimensat(c: &Context) {
    let dir = fixture::open("dir", O_DIRECTORY);
    let call = |name: Value, times: [u64; 4], bits: i32| {
        c.call(&[
            ("dirfd", at_dir(dir)),
            ("path", name),
            ("times", input(&longs(&times))),
            ("flags", flags(bits.into())),
        ])
    };
    call(path("inside"), [1_000, 77, 2_000, 88], 0).ok();
    has_times(c, "dir/inside", [1_000, 77, 2_000, 88]);
    call(path("../link"), [3_000, 0, 4_000, 0], AT_SYMLINK_NOFOLLOW).ok();
    c.check(|| assert_eq!(fs::symlink_metadata("link").expect("link").mtime(), 4_000));
    call(path("../link"), [5_000, 1, 6_000, 2], 0).ok();
    has_times(c, "file", [5_000, 1, 6_000, 2]);
    // UTIME_OMIT leaves a time as it is.
    call(path("../file"), [0, UTIME_OMIT as u64, 7_000, 3], 0).ok();
    has_times(c, "file", [5_000, 1, 7_000, 3]);
    // Without a path: the descriptor itself.
    call(null(Is::Path), [8_000, 4, 9_000, 5], 0).ok();
    has_times(c, "dir", [8_000, 4, 9_000, 5]);
}

fn umask(c: &Context) {
    let call = |bits: u32| c.call(&[("mask", mode(bits))]).ok();
    assert_eq!(call(0o027), 0o022);
    c.check(|| assert_eq!(fixture::status("Umask"), "0027"));
    fs::create_dir("new").expect("new");
    c.has_mode("new", S_IFDIR | 0o750);
    assert_eq!(call(0o7777_0077), 0o027);
    assert_eq!(call(0), 0o077);
}

/// `struct statfs`: f_type, f_bsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree, f_fsid, f_namelen, f_frsize, …
fn is_statfs(c: &Context, done: &Done) {
    done.ok();
    let block = done.number("buf", 8, 8);
    assert!(block.is_power_of_two(), "block size {block}");
    assert!((200..=1024).contains(&done.number("buf", 64, 8)), "length of names");
    c.check(|| {
        let out = std::process::Command::new("stat").args(["-f", "-c", "%t %S %b %c", "."]).output();
        let Ok(out) = out else { return };
        let text = String::from_utf8_lossy(&out.stdout);
        let at = |i| done.number("buf", i, 8);
        let expected = format!("{:x} {} {} {}", at(0), at(72), at(16), at(40));
        assert_eq!(text.trim(), expected);
    });
}

fn statfs(c: &Context) {
    let call = |name: &str| c.call(&[("path", path(name)), ("buf", output(120))]);
    is_statfs(c, &call("link"));
    call("missing").fails(ENOENT);
}

fn fstatfs(c: &Context) {
    let fd = fixture::open("file", O_RDONLY);
    is_statfs(c, &c.call(&[("fd", value::fd(fd)), ("buf", output(120))]));
}

/// `struct file_attr` (`include/uapi/linux/fs.h`) with these flags.
fn file_attr(flags: u64) -> Vec<u8> {
    let mut attr = vec![0; 24];
    attr[..8].copy_from_slice(&flags.to_le_bytes());
    attr
}

/// `FS_XFLAG_NODUMP`.
const NO_DUMP: u64 = 0x80;
/// Kernels before 6.17, and file systems that have no such flags.
const WITHOUT_FLAGS: [i32; 3] = [ENOSYS, EOPNOTSUPP, ENOTTY];

fn flags_of(c: &Context, name: &str, attr: &[u8], bits: i64) -> Done {
    let dir = fixture::open("dir", O_PATH);
    let (attr, size) = (memory(attr), length(24));
    c.call(&[("dirfd", at_dir(dir)), ("path", path(name)), ("attr", attr), ("size", size), ("flags", flags(bits))])
}

/// Of a file that has the flag.
fn has_no_dump(name: &str) -> bool {
    let out = std::process::Command::new("lsattr").args(["-d", name]).output();
    out.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).split(' ').next().is_some_and(|flags| flags.contains('d')))
}

fn file_getattr(c: &Context) {
    let done = flags_of(c, "inside", &file_attr(u64::MAX), 0);
    done.ok_or_skip(&WITHOUT_FLAGS);
    c.check(|| assert_eq!(done.number("attr", 0, 8) & NO_DUMP != 0, has_no_dump("dir/inside")));
    flags_of(c, "missing", &file_attr(0), 0).fails(ENOENT);
}

fn file_setattr(c: &Context) {
    flags_of(c, "inside", &file_attr(NO_DUMP), 0).ok_or_skip(&WITHOUT_FLAGS);
    c.check(|| assert!(has_no_dump("dir/inside")));
    flags_of(c, "missing", &file_attr(0), 0).fails(ENOENT);
}
