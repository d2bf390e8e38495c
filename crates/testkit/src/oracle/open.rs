//! Opening and making files.

use libc::*;

use super::Case;
use super::context::Context;
use super::fixture::{self, FILE_BYTES};
use super::value::{self, *};
use crate::raw;

pub(super) const CASES: &[(&str, Case)] = &[
    ("open", open),
    ("openat", openat),
    ("openat2", openat2),
    ("creat", creat),
    ("memfd_create", memfd_create),
    ("memfd_secret", memfd_secret),
    ("open_by_handle_at", open_by_handle_at),
    ("name_to_handle_at", name_to_handle_at),
];

fn open(c: &Context) {
    let open = |name: &str, bits: i32, bits_mode: u32| {
        c.call(&[("path", path(name)), ("flags", flags(bits.into())), ("mode", mode(bits_mode))])
    };
    let made = open("new", O_RDWR | O_CREAT, 0o666).ok();
    c.fd_is(made, "new", 0);
    c.fd_has(made, O_RDWR, O_ACCMODE | O_APPEND);
    c.has_mode("new", S_IFREG | 0o644);
    let append = open("file", O_WRONLY | O_APPEND | O_CLOEXEC, 0).ok();
    c.fd_has(append, O_WRONLY | O_APPEND | O_CLOEXEC, O_ACCMODE | O_APPEND | O_CLOEXEC);
    c.has_size("file", FILE_BYTES as u64);
    let cut = open("link", O_WRONLY | O_TRUNC, 0).ok();
    c.fd_is(cut, "file", 0);
    c.has_size("file", 0);
    open("new", O_CREAT | O_EXCL, 0).fails(EEXIST);
    open("link", O_NOFOLLOW, 0).fails(ELOOP);
    open("missing", O_RDONLY, 0).fails(ENOENT);
    let nameless = open("dir", O_TMPFILE | O_RDWR, 0o600);
    if nameless.errno() != EOPNOTSUPP {
        let fd = nameless.ok();
        c.check(|| assert!(fixture::fd_path(fd).contains("/dir/#"), "{}", fixture::fd_path(fd)));
    }
}

fn openat(c: &Context) {
    let dir = fixture::open("dir", O_DIRECTORY);
    let open = |at: i64, name: &str, bits: i32, bits_mode: u32| {
        c.call(&[("dirfd", at_dir(at)), ("path", path(name)), ("flags", flags(bits.into())), ("mode", mode(bits_mode))])
    };
    let made = open(dir, "made", O_RDWR | O_CREAT | O_SYNC, 0o6751).ok();
    c.fd_is(made, "dir/made", 0);
    c.fd_has(made, O_RDWR | O_SYNC, O_ACCMODE | O_SYNC);
    c.has_mode("dir/made", S_IFREG | 0o6751 & !0o022);
    let up = open(dir, "../file", O_RDONLY, 0).ok();
    c.fd_is(up, "file", 0);
    let here = open(AT_FDCWD.into(), "dir", O_PATH, 0).ok();
    c.fd_is(here, "dir", 0);
    c.fd_has(here, O_PATH, O_PATH);
    open(dir, "file", O_RDONLY, 0).fails(ENOENT);
    open(up, "x", O_RDONLY, 0).fails(ENOTDIR);
}

fn openat2(c: &Context) {
    let dir = fixture::open("dir", O_DIRECTORY);
    let open = |name: &str, bits: i32, bits_mode: u64, resolve: u64| {
        c.call(&[
            ("dirfd", at_dir(dir)),
            ("path", path(name)),
            ("how", input(&longs(&[bits as u64, bits_mode, resolve]))),
        ])
    };
    const BENEATH: u64 = 8;
    let made = open("made", O_WRONLY | O_CREAT, 0o640, BENEATH).ok();
    c.fd_is(made, "dir/made", 0);
    c.fd_has(made, O_WRONLY, O_ACCMODE);
    c.has_mode("dir/made", S_IFREG | 0o640);
    open("../file", O_RDONLY, 0, BENEATH).fails(EXDEV);
    let up = open("../file", O_RDONLY, 0, 0).ok();
    c.fd_is(up, "file", 0);
}

fn creat(c: &Context) {
    let fd = c.call(&[("path", path("file")), ("mode", mode(0o600))]).ok();
    c.fd_is(fd, "file", 0);
    c.fd_has(fd, O_WRONLY, O_ACCMODE);
    c.has_content("file", b"");
    c.has_mode("file", S_IFREG | 0o644);
    let fd = c.call(&[("path", path("new")), ("mode", mode(0o767))]).ok();
    c.fd_is(fd, "new", 0);
    c.has_mode("new", S_IFREG | 0o745);
}

fn memfd_create(c: &Context) {
    let call = |name: &str, bits: u32| c.call(&[("name", text(name)), ("flags", num(bits.into()))]);
    let fd = call("an oracle", MFD_CLOEXEC | MFD_ALLOW_SEALING).ok();
    c.fd_named(fd, "/memfd:an oracle");
    c.fd_has(fd, O_CLOEXEC | O_RDWR, O_CLOEXEC | O_ACCMODE);
    raw::must(SYS_ftruncate, &[fd as u64, 100]);
    c.check(|| {
        let file = std::fs::metadata(format!("/proc/self/fd/{fd}")).expect("the file");
        assert_eq!(file.len(), 100);
    });
    call("x", 1 << 30).fails(EINVAL);
}

fn memfd_secret(c: &Context) {
    let fd = c.call(&[("flags", num(O_CLOEXEC as u64))]).ok_or_skip(&[ENOSYS, EPERM]);
    c.fd_named(fd, "/secretmem");
    c.fd_has(fd, O_CLOEXEC, O_CLOEXEC);
}

/// A `struct file_handle` with room for 128 bytes.
fn handle() -> Vec<u8> {
    let mut handle = words(&[128, 0]);
    handle.resize(8 + 128, 0);
    handle
}

fn open_by_handle_at(c: &Context) {
    c.needs_root();
    let handle = raw::Guarded::new(&handle());
    let mount = raw::Guarded::new(&[0; 4]);
    let name = fixture::c_string("file");
    let args = [AT_FDCWD as u64, name, handle.address(), mount.address(), 0];
    if raw::sys(SYS_name_to_handle_at, &args) < 0 {
        c.skip("the file system has no file handles");
    }
    let dir = fixture::open("dir", O_DIRECTORY);
    let fd = c
        .call(&[("mount", value::fd(dir)), ("handle", memory(&handle.bytes())), ("flags", flags(O_RDWR.into()))])
        .ok_or_skip(&[EPERM, EOPNOTSUPP]);
    c.fd_is(fd, "file", 0);
    c.fd_has(fd, O_RDWR, O_ACCMODE);
}

fn name_to_handle_at(c: &Context) {
    let dir = fixture::open("dir", O_DIRECTORY);
    let done = c.call(&[
        ("dirfd", at_dir(dir)),
        ("path", path("inside")),
        ("handle", memory(&handle())),
        ("mount_id", memory(&[0; 4])),
        ("flags", flags(0)),
    ]);
    done.ok_or_skip(&[EOPNOTSUPP]);
    c.check(|| {
        assert!((4..128).contains(&done.number("handle", 0, 4)), "length of the handle");
        let mount = done.number("mount_id", 0, 4).to_string();
        assert_eq!(fixture::fd_info(dir, "mnt_id"), mount);
        if crate::scratch::is_root() {
            let handle = raw::Guarded::new(&done.bytes("handle"));
            let args = [dir as u64, handle.address(), O_RDONLY as u64];
            let fd = raw::sys(SYS_open_by_handle_at, &args);
            assert!(fd == -i64::from(EPERM) || fd >= 0, "{fd}");
            if fd >= 0 {
                c.fd_is(fd, "dir/inside", 0);
            }
        }
    });
}
