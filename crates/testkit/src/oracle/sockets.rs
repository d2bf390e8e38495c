//! Sockets, of the UNIX family: their messages are read back by the calls for files.

use std::os::unix::fs::FileTypeExt;

use libc::*;

use super::Case;
use super::context::{Context, number};
use super::value::{self, *};
use crate::raw::{self, Guarded};

pub(super) const CASES: &[(&str, Case)] = &[
    ("socket", socket),
    ("socketpair", socketpair),
    ("accept", accept),
    ("accept4", accept4),
    ("bind", bind),
    ("connect", connect),
    ("listen", listen),
    ("shutdown", shutdown),
    ("sendto", sendto),
    ("recvfrom", recvfrom),
    ("sendmsg", sendmsg),
    ("recvmsg", recvmsg),
    ("sendmmsg", sendmmsg),
    ("recvmmsg", recvmmsg),
    ("setsockopt", setsockopt),
    ("getsockopt", getsockopt),
    ("getsockname", getsockname),
    ("getpeername", getpeername),
];

const UNIX: u64 = AF_UNIX as u64;
const STREAM: u64 = SOCK_STREAM as u64;

/// `struct sockaddr_un`.
fn unix_address(name: &str) -> Vec<u8> {
    [&(AF_UNIX as u16).to_le_bytes()[..], name.as_bytes(), &[0]].concat()
}

fn new_socket() -> i64 {
    raw::must(SYS_socket, &[UNIX, STREAM | SOCK_NONBLOCK as u64, 0])
}

fn pair() -> (i64, i64) {
    let cell = Guarded::new(&[0; 8]);
    let kind = (SOCK_DGRAM | SOCK_NONBLOCK) as u64;
    raw::must(SYS_socketpair, &[UNIX, kind, 0, cell.address()]);
    let bytes = cell.bytes();
    (number(&bytes, 0, 4) as i64, number(&bytes, 4, 4) as i64)
}

fn bound(name: &str) -> i64 {
    let fd = new_socket();
    let at = Guarded::new(&unix_address(name));
    raw::must(SYS_bind, &[fd as u64, at.address(), at.len() as u64]);
    fd
}

fn listening(name: &str) -> i64 {
    let fd = bound(name);
    raw::must(SYS_listen, &[fd as u64, 5]);
    fd
}

fn connected(name: &str) -> i64 {
    let fd = new_socket();
    let at = Guarded::new(&unix_address(name));
    raw::must(SYS_connect, &[fd as u64, at.address(), at.len() as u64]);
    fd
}

fn put(fd: i64, content: &[u8]) {
    let memory = Guarded::new(content);
    raw::must(SYS_write, &[fd as u64, memory.address(), content.len() as u64]);
}

fn take(fd: i64) -> Vec<u8> {
    let memory = Guarded::new(&[0; 100]);
    let n = raw::must(SYS_read, &[fd as u64, memory.address(), 100]);
    memory.bytes()[..n as usize].to_vec()
}

fn socket(c: &Context) {
    let call = |domain: i32, kind: i32| {
        c.call(&[("domain", int(domain.into())), ("kind", num(kind as u64)), ("protocol", int(0))])
    };
    let fd = call(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC).ok();
    c.fd_named(fd, "socket:[");
    c.fd_has(fd, O_CLOEXEC, O_CLOEXEC);
    call(9999, SOCK_STREAM).fails(EAFNOSUPPORT);
}

fn socketpair(c: &Context) {
    let done = c.call(&[
        ("domain", int(AF_UNIX.into())),
        ("kind", num(SOCK_DGRAM as u64)),
        ("protocol", int(0)),
        ("fds", output(8)),
    ]);
    done.ok();
    let [a, b] = [0, 4].map(|at| done.number("fds", at, 4) as i64);
    c.fd_named(a, "socket:[");
    if c.checks() {
        put(a, b"across");
        assert_eq!(take(b), b"across");
    }
}

fn accept(c: &Context) {
    let listener = listening("sock");
    let client = connected("sock");
    let fd = c
        .call(&[("fd", value::fd(listener)), ("addr", memory(&[CANARY; 110])), ("addrlen", memory(&words(&[110])))])
        .ok();
    c.fd_named(fd, "socket:[");
    c.check(|| {
        put(client, b"hello");
        assert_eq!(take(fd), b"hello");
    });
}

fn accept4(c: &Context) {
    let listener = listening("sock");
    let call = |bits: i32| {
        c.call(&[
            ("fd", value::fd(listener)),
            ("addr", memory(&[CANARY; 110])),
            ("addrlen", memory(&words(&[110]))),
            ("flags", num(bits as u64)),
        ])
    };
    call(0).fails(EAGAIN);
    let client = connected("sock");
    let done = call(SOCK_CLOEXEC);
    let fd = done.ok();
    c.fd_has(fd, O_CLOEXEC, O_CLOEXEC);
    assert_eq!(done.number("addr", 0, 2), UNIX);
    assert_eq!(done.bytes("addrlen"), words(&[2]), "a client without a name");
    c.check(|| {
        put(client, b"hello");
        assert_eq!(take(fd), b"hello");
    });
    call(1).fails(EINVAL);
}

fn bind(c: &Context) {
    let fd = new_socket();
    let call = |name: &str| c.call(&[("fd", value::fd(fd)), ("addr", data(&unix_address(name)))]);
    call("sock").ok();
    c.check(|| assert!(std::fs::metadata("sock").expect("sock").file_type().is_socket()));
    call("sock2").fails(EINVAL);
}

fn connect(c: &Context) {
    let listener = listening("sock");
    let fd = new_socket();
    let call = |name: &str| c.call(&[("fd", value::fd(fd)), ("addr", data(&unix_address(name)))]);
    call("missing").fails(ENOENT);
    call("sock").ok();
    c.check(|| {
        let peer = raw::must(SYS_accept, &[listener as u64, 0, 0]);
        put(peer, b"hello");
        assert_eq!(take(fd), b"hello");
    });
}

fn listen(c: &Context) {
    let fd = bound("sock");
    c.call(&[("fd", value::fd(fd)), ("backlog", int(5))]).ok();
    c.check(|| {
        connected("sock");
    });
    c.call(&[("fd", value::fd(9999)), ("backlog", int(5))]).fails(EBADF);
}

fn shutdown(c: &Context) {
    let (a, b) = pair();
    put(b, b"x");
    let call = |how: i32| c.call(&[("fd", value::fd(a)), ("how", int(how.into()))]);
    call(SHUT_WR).ok();
    c.check(|| {
        let x = Guarded::new(b"x");
        let args = [a as u64, x.address(), 1, MSG_NOSIGNAL as u64, 0, 0];
        assert_eq!(raw::sys(SYS_sendto, &args), -i64::from(EPIPE));
    });
    call(99).fails(EINVAL);
}

/// A socket for single messages with this name.
fn named_receiver(name: &str) -> i64 {
    let kind = (SOCK_DGRAM | SOCK_NONBLOCK) as u64;
    let fd = raw::must(SYS_socket, &[UNIX, kind, 0]);
    let at = Guarded::new(&unix_address(name));
    raw::must(SYS_bind, &[fd as u64, at.address(), at.len() as u64]);
    fd
}

fn sendto(c: &Context) {
    let (from, to) = (named_receiver("from"), named_receiver("to"));
    let at = unix_address("to");
    let done = c.call(&[
        ("fd", value::fd(from)),
        ("buf", data(b"a message")),
        ("flags", num(MSG_NOSIGNAL as u64)),
        ("addr", memory(&at)),
        ("addrlen", length(at.len() as u64)),
    ]);
    assert_eq!(done.ok(), 9);
    c.check(|| assert_eq!(take(to), b"a message"));
}

fn recvfrom(c: &Context) {
    let (from, to) = (named_receiver("from"), named_receiver("to"));
    let (text, at) = (Guarded::new(b"a message"), Guarded::new(&unix_address("to")));
    let args = [from as u64, text.address(), 9, 0, at.address(), at.len() as u64];
    raw::must(SYS_sendto, &args);
    let done = c.call(&[
        ("fd", value::fd(to)),
        ("buf", room(50)),
        ("flags", num(MSG_PEEK as u64)),
        ("addr", memory(&[CANARY; 110])),
        ("addrlen", memory(&words(&[110]))),
    ]);
    assert_eq!(done.ok(), 9);
    assert_eq!(done.content("buf"), b"a message");
    let name = unix_address("from");
    assert_eq!(done.bytes("addrlen"), words(&[name.len() as u32]));
    assert!(done.bytes("addr").starts_with(&name));
    c.check(|| assert_eq!(take(to), b"a message"));
}

/// `struct msghdr` of these pieces: name, length of name, vector, number, control, its length, flags.
fn message(pieces: &[Guarded]) -> Vec<u8> {
    let vector: Vec<u64> = pieces.iter().flat_map(|p| [p.address(), p.len() as u64]).collect();
    let vector = Guarded::new(&longs(&vector)).address();
    longs(&[0, 0, vector, pieces.len() as u64, 0, 0, 0])
}

/// `struct mmsghdr`: a `msghdr`, its length (u32), padding.
fn messages(each: &[&[Guarded]]) -> Vec<u8> {
    each.iter().flat_map(|p| [message(p), vec![0; 8]].concat()).collect()
}

fn sendmsg(c: &Context) {
    let (a, b) = pair();
    let pieces = [&b"two "[..], b"pieces"].map(Guarded::new);
    let done = c.call(&[("fd", value::fd(a)), ("msg", input(&message(&pieces))), ("flags", num(MSG_NOSIGNAL as u64))]);
    assert_eq!(done.ok(), 10);
    c.check(|| assert_eq!(take(b), b"two pieces"));
}

fn recvmsg(c: &Context) {
    let (a, b) = pair();
    put(a, b"two pieces");
    let pieces = [4, 20].map(|n| Guarded::new(&vec![0; n]));
    let done = c.call(&[("fd", value::fd(b)), ("msg", header(&message(&pieces))), ("flags", num(MSG_PEEK as u64))]);
    assert_eq!(done.ok(), 10);
    assert_eq!(pieces[0].bytes(), b"two ");
    assert_eq!(pieces[1].bytes()[..6], *b"pieces");
    c.check(|| assert_eq!(take(b), b"two pieces"));
}

fn sendmmsg(c: &Context) {
    let (a, b) = pair();
    let [one, two] = [&b"one"[..], b"second"].map(Guarded::new);
    // The third is not counted.
    let done = c.call(&[
        ("fd", value::fd(a)),
        ("msgs", input(&messages(&[&[one], &[two], &[one]]))),
        ("count", length(2)),
        ("flags", num(MSG_NOSIGNAL as u64)),
    ]);
    assert_eq!(done.ok(), 2, "messages, not bytes");
    assert_eq!([56, 120].map(|at| done.number("msgs", at, 4)), [3, 6]);
    c.check(|| {
        assert_eq!(take(b), b"one");
        assert_eq!(take(b), b"second");
    });
}

fn recvmmsg(c: &Context) {
    let (a, b) = pair();
    put(a, b"one");
    put(a, b"second");
    let [one, two] = [10, 10].map(|n| Guarded::new(&vec![0; n]));
    let call = |nanoseconds: u64| {
        c.call(&[
            ("fd", value::fd(b)),
            ("msgs", header(&messages(&[&[one], &[two]]))),
            ("count", length(2)),
            ("flags", num(MSG_DONTWAIT as u64)),
            ("timeout", memory(&longs(&[1, nanoseconds]))),
        ])
    };
    call(u64::MAX).fails(EINVAL);
    let done = call(0);
    assert_eq!(done.ok(), 2, "messages, not bytes");
    assert_eq!(two.bytes()[..6], *b"second");
    assert_eq!([56, 120].map(|at| done.number("msgs", at, 4)), [3, 6]);
}

fn setsockopt(c: &Context) {
    let fd = new_socket();
    let call = |name: i32| {
        c.call(&[
            ("fd", value::fd(fd)),
            ("level", int(SOL_SOCKET.into())),
            ("name", int(name.into())),
            ("value", memory(&words(&[1]))),
            ("len", length(4)),
        ])
    };
    call(SO_PASSCRED).ok();
    c.check(|| {
        let (value, size) = (Guarded::new(&[0; 4]), Guarded::new(&words(&[4])));
        let [level, name] = [SOL_SOCKET, SO_PASSCRED].map(|n| n as u64);
        let args = [fd as u64, level, name, value.address(), size.address()];
        raw::must(SYS_getsockopt, &args);
        assert_eq!(value.bytes(), words(&[1]));
    });
    call(9999).fails(ENOPROTOOPT);
}

fn getsockopt(c: &Context) {
    let (a, _) = pair();
    let done = c.call(&[
        ("fd", value::fd(a)),
        ("level", int(SOL_SOCKET.into())),
        ("name", int(SO_TYPE.into())),
        ("value", memory(&[CANARY; 4])),
        ("len", memory(&words(&[4]))),
    ]);
    done.ok();
    assert_eq!(done.bytes("value"), words(&[SOCK_DGRAM as u32]));
    assert_eq!(done.bytes("len"), words(&[4]));
}

fn named(c: &Context, fd: i64) {
    let done = c.call(&[("fd", value::fd(fd)), ("addr", memory(&[CANARY; 110])), ("addrlen", memory(&words(&[110])))]);
    done.ok();
    let expected = unix_address("sock");
    assert_eq!(done.number("addrlen", 0, 4), expected.len() as u64);
    assert_eq!(done.bytes("addr")[..expected.len()], expected);
}

fn getsockname(c: &Context) {
    named(c, bound("sock"));
}

fn getpeername(c: &Context) {
    listening("sock");
    named(c, connected("sock"));
}
