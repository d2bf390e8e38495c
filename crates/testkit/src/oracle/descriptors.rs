//! Descriptors: closing, duplicating, controlling, locking.

use libc::*;

use super::Case;
use super::context::{Context, Done, descriptors};
use super::fixture::{self, fd_info};
use super::value::{self, *};
use crate::raw::{self, Guarded};

pub(super) const CASES: &[(&str, Case)] = &[
    ("close", close),
    ("close_range", close_range),
    ("dup", dup),
    ("dup2", dup2),
    ("dup3", dup3),
    ("fcntl", fcntl),
    ("flock", flock),
    ("pipe", pipe),
    ("pipe2", pipe2),
];

fn close(c: &Context) {
    let fd = fixture::open("file", O_RDONLY);
    let other = fixture::open("other", O_RDONLY);
    c.call(&[("fd", end_fd(fd))]).ok();
    c.check(|| {
        assert!(!descriptors().contains(&fd));
        assert!(descriptors().contains(&other));
    });
    c.call(&[("fd", end_fd(fd))]).fails(EBADF);
}

fn close_range(c: &Context) {
    let fd = fixture::open("file", O_RDONLY) as u64;
    for number in 100..104 {
        raw::must(SYS_dup3, &[fd, number, 0]);
    }
    let call = |first: i64, last: i64, bits: u32| {
        c.call(&[("first", int(first)), ("last", int(last)), ("flags", flags(bits.into()))])
    };
    call(100, 101, 0).ok();
    c.check(|| {
        let left: Vec<_> = descriptors().range(100..110).copied().collect();
        assert_eq!(left, [102, 103]);
    });
    call(103, 110, CLOSE_RANGE_CLOEXEC).ok();
    c.fd_has(102, 0, O_CLOEXEC);
    c.fd_has(103, O_CLOEXEC, O_CLOEXEC);
    call(3, 2, 0).fails(EINVAL);
}

/// Both descriptors are of one open file description.
fn same_description(c: &Context, one: i64, two: i64) {
    raw::must(SYS_lseek, &[one as u64, 1234, 0]);
    c.fd_is(two, "file", 1234);
}

fn dup(c: &Context) {
    let fd = fixture::open("file", O_RDONLY | O_CLOEXEC);
    let new = c.call(&[("fd", value::fd(fd))]).ok();
    same_description(c, fd, new);
    c.fd_has(new, 0, O_CLOEXEC);
    c.call(&[("fd", value::fd(9999))]).fails(EBADF);
}

fn dup2(c: &Context) {
    let fd = fixture::open("file", O_RDONLY);
    let call = |from: i64, to: i64| c.call(&[("fd", value::fd(from)), ("newfd", new_fd(to))]);
    assert_eq!(call(fd, 50).ok(), 50);
    same_description(c, fd, 50);
    let other = fixture::open("other", O_RDONLY);
    assert_eq!(call(fd, other).ok(), other);
    same_description(c, fd, other);
    assert_eq!(call(fd, fd).ok(), fd);
    call(9999, 51).fails(EBADF);
}

fn dup3(c: &Context) {
    let fd = fixture::open("file", O_RDONLY);
    let call = |from: i64, to: i64, bits: i32| {
        c.call(&[("fd", value::fd(from)), ("newfd", new_fd(to)), ("flags", flags(bits.into()))])
    };
    assert_eq!(call(fd, 50, O_CLOEXEC).ok(), 50);
    same_description(c, fd, 50);
    c.fd_has(50, O_CLOEXEC, O_CLOEXEC);
    c.fd_has(fd, 0, O_CLOEXEC);
    call(fd, fd, 0).fails(EINVAL);
}

fn control(c: &Context, fd: i64, op: i32, arg: Value) -> Done {
    c.call(&[("fd", value::fd(fd)), ("command", command(op.into())), ("arg", arg)])
}

/// A `struct flock`.
fn lock_range(kind: i32, start: u64, length: u64) -> Vec<u8> {
    let head = words(&[kind as u32, 0]);
    [head, longs(&[start, length]), words(&[0, 0])].concat()
}

fn fcntl(c: &Context) {
    let file = fixture::open("file", O_RDWR);
    let new = control(c, file, F_DUPFD, inout_word(60)).ok();
    assert_eq!(new, 60);
    same_description(c, file, new);
    let new = control(c, file, F_DUPFD_CLOEXEC, inout_word(60)).ok();
    assert_eq!(new, 61);
    c.fd_has(new, O_CLOEXEC, O_CLOEXEC);
    control(c, file, F_SETFD, inout_word(FD_CLOEXEC as u64)).ok();
    c.fd_has(file, O_CLOEXEC, O_CLOEXEC);
    assert_eq!(control(c, file, F_GETFD, inout_word(0)).ok(), i64::from(FD_CLOEXEC));
    control(c, file, F_SETFL, inout_word(O_APPEND as u64)).ok();
    c.fd_has(file, O_APPEND | O_RDWR, O_APPEND | O_ACCMODE);
    let got = control(c, file, F_GETFL, inout_word(0)).ok();
    assert_eq!(got as i32 & (O_APPEND | O_ACCMODE), O_APPEND | O_RDWR);
    locks(c, file);
    owners_and_hints(c, file);
    leases(c);
    let (read, write) = new_pipe();
    let size = control(c, write, F_SETPIPE_SZ, inout_word(1 << 17)).ok();
    assert_eq!(size, 1 << 17);
    assert_eq!(control(c, read, F_GETPIPE_SZ, inout_word(0)).ok(), size);
    let memory = raw::must(SYS_memfd_create, &[fixture::c_string("m"), MFD_ALLOW_SEALING.into()]);
    control(c, memory, F_ADD_SEALS, inout_word(F_SEAL_GROW as u64)).ok();
    assert_eq!(raw::sys(SYS_ftruncate, &[memory as u64, 9]), -i64::from(EPERM));
    assert_eq!(control(c, memory, F_GET_SEALS, inout_word(0)).ok(), i64::from(F_SEAL_GROW));
    control(c, file, 9999, inout_word(0)).fails(EINVAL);
}

fn locks(c: &Context, file: i64) {
    let listed = |range: &str, kind: &str| {
        c.check(|| {
            // Locks of this process on the file show on each of its descriptors.
            let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{file}")).expect("fdinfo");
            let found = text.lines().any(|l| l.contains(kind) && l.ends_with(range));
            assert!(found, "{kind} {range} is not in {text}");
        });
    };
    control(c, file, F_SETLK, inout(&lock_range(F_WRLCK, 100, 50))).ok();
    listed("100 149", "POSIX");
    control(c, file, F_SETLKW, inout(&lock_range(F_RDLCK, 1000, 10))).ok();
    listed("1000 1009", "READ");
    // Another open file description meets the lock.
    let other = fixture::open("file", O_RDWR);
    let met = control(c, other, F_OFD_GETLK, inout(&lock_range(F_WRLCK, 120, 5)));
    met.ok();
    assert_eq!(met.number("arg", 0, 2), F_WRLCK as u64);
    assert_eq!((met.number("arg", 8, 8), met.number("arg", 16, 8)), (100, 50));
    control(c, other, F_OFD_SETLK, inout(&lock_range(F_WRLCK, 120, 5))).fails(EAGAIN);
    control(c, other, F_OFD_SETLK, inout(&lock_range(F_WRLCK, 5000, 5))).ok();
    control(c, other, F_OFD_SETLKW, inout(&lock_range(F_RDLCK, 6000, 5))).ok();
    let met = control(c, file, F_GETLK, inout(&lock_range(F_RDLCK, 5000, 5)));
    met.ok();
    assert_eq!(met.number("arg", 0, 2), F_WRLCK as u64);
    control(c, file, F_SETLK, inout(&lock_range(F_UNLCK, 0, 0))).ok();
    let met = control(c, other, F_OFD_GETLK, inout(&lock_range(F_WRLCK, 100, 50)));
    met.ok();
    assert_eq!(met.number("arg", 0, 2), F_UNLCK as u64);
}

fn owners_and_hints(c: &Context, file: i64) {
    let me = std::process::id();
    const SETOWN_EX: i32 = 15;
    const GETOWN_EX: i32 = 16;
    const BY_PROCESS: u32 = 1;
    control(c, file, SETOWN_EX, inout(&words(&[BY_PROCESS, me]))).ok();
    assert_eq!(control(c, file, F_GETOWN, inout_word(0)).ok(), i64::from(me));
    let got = control(c, file, GETOWN_EX, inout(&[0; 8]));
    got.ok();
    assert_eq!(got.bytes("arg"), words(&[BY_PROCESS, me]));
    const HINT_LONG: u64 = 4;
    const SET_RW_HINT: i32 = 1036;
    const GET_RW_HINT: i32 = 1035;
    control(c, file, SET_RW_HINT, inout(&longs(&[HINT_LONG]))).ok();
    let got = control(c, file, GET_RW_HINT, inout(&[0; 8]));
    got.ok();
    assert_eq!(got.bytes("arg"), longs(&[HINT_LONG]));
}

fn leases(c: &Context) {
    let lone = fixture::open("other", O_RDONLY);
    control(c, lone, F_SETLEASE, inout_word(F_RDLCK as u64)).ok();
    c.check(|| {
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{lone}")).expect("fdinfo");
        assert!(text.contains("LEASE"), "{text}");
    });
    assert_eq!(control(c, lone, F_GETLEASE, inout_word(0)).ok(), i64::from(F_RDLCK));
    control(c, lone, F_SETLEASE, inout_word(F_UNLCK as u64)).ok();
}

fn flock(c: &Context) {
    let fd = fixture::open("file", O_RDONLY);
    let other = fixture::open("file", O_RDONLY);
    let call = |fd: i64, op: i32| c.call(&[("fd", value::fd(fd)), ("operation", flags(op.into()))]);
    let try_other = |op: i32| raw::sys(SYS_flock, &[other as u64, (op | LOCK_NB) as u64]);
    call(fd, LOCK_EX).ok();
    assert_eq!(try_other(LOCK_SH), -i64::from(EWOULDBLOCK));
    c.check(|| assert!(fd_info(fd, "lock").contains("FLOCK"), "{}", fd_info(fd, "lock")));
    call(fd, LOCK_SH).ok();
    assert_eq!(try_other(LOCK_SH), 0);
    call(fd, LOCK_EX | LOCK_NB).fails(EWOULDBLOCK);
    call(fd, LOCK_UN).ok();
    assert_eq!(try_other(LOCK_EX), 0);
}

fn new_pipe() -> (i64, i64) {
    let pair = Guarded::new(&[0; 8]);
    raw::must(SYS_pipe2, &[pair.address(), 0]);
    let bytes = pair.bytes();
    let at = |i| super::context::number(&bytes, i, 4) as i64;
    (at(0), at(4))
}

/// What goes in at the second descriptor comes out at the first.
fn is_pipe(c: &Context, done: &Done) -> (i64, i64) {
    done.ok();
    let (read, write) = (done.number("fds", 0, 4), done.number("fds", 4, 4));
    c.fd_named(read as i64, "pipe:[");
    c.fd_has(read as i64, O_RDONLY, O_ACCMODE);
    c.fd_has(write as i64, O_WRONLY, O_ACCMODE);
    let (given, got) = (Guarded::new(b"through"), Guarded::new(&[0; 7]));
    raw::must(SYS_write, &[write, given.address(), 7]);
    raw::must(SYS_read, &[read, got.address(), 7]);
    assert_eq!(got.bytes(), b"through");
    (read as i64, write as i64)
}

fn pipe(c: &Context) {
    is_pipe(c, &c.call(&[("fds", output(8))]));
}

fn pipe2(c: &Context) {
    let call = |bits: i32| c.call(&[("fds", output(8)), ("flags", flags(bits.into()))]);
    let (read, write) = is_pipe(c, &call(O_CLOEXEC | O_NONBLOCK));
    c.fd_has(read, O_CLOEXEC | O_NONBLOCK, O_CLOEXEC | O_NONBLOCK);
    c.fd_has(write, O_CLOEXEC | O_NONBLOCK, O_CLOEXEC | O_NONBLOCK);
    call(O_CREAT).fails(EINVAL);
}
