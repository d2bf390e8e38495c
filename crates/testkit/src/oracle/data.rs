//! Moving content.

use libc::*;

use super::Case;
use super::context::Context;
use super::fixture::{self, FILE_BYTES, pattern};
use super::value::{self, *};
use crate::raw::{self, Guarded};

pub(super) const CASES: &[(&str, Case)] = &[
    ("read", read),
    ("write", write),
    ("pread64", pread64),
    ("pwrite64", pwrite64),
    ("readv", readv),
    ("writev", writev),
    ("preadv", preadv),
    ("pwritev", pwritev),
    ("preadv2", preadv2),
    ("pwritev2", pwritev2),
    ("sendfile", sendfile),
    ("copy_file_range", copy_file_range),
    ("splice", splice),
    ("tee", tee),
    ("vmsplice", vmsplice),
    ("lseek", lseek),
    ("truncate", truncate),
    ("ftruncate", ftruncate),
    ("fallocate", fallocate),
];

const LENGTHS: [usize; 3] = [10, 0, 90];

fn parts() -> Value {
    gather(&[b"first", b"", b" and second"])
}

/// `file` with `first and second` at this place.
fn written(at: usize) -> Vec<u8> {
    let mut whole = pattern(FILE_BYTES.max(at));
    let end = whole.len().min(at + 16);
    whole.splice(at..end, *b"first and second");
    whole
}

fn read(c: &Context) {
    let fd = fixture::open("file", O_RDONLY);
    let call = |n: usize| c.call(&[("fd", value::fd(fd)), ("buf", room(n))]);
    let done = call(300);
    assert_eq!(done.ok(), 300);
    assert_eq!(done.content("buf"), pattern(FILE_BYTES)[..300]);
    c.fd_at(fd, 300);
    let done = call(20_000);
    assert_eq!(done.ok(), 9700);
    assert_eq!(done.content("buf"), pattern(FILE_BYTES)[300..]);
    assert_eq!(call(1).ok(), 0);
    let closed = fixture::open("file", O_WRONLY);
    c.call(&[("fd", value::fd(closed)), ("buf", room(1))]).fails(EBADF);
}

fn write(c: &Context) {
    let fd = fixture::open("file", O_WRONLY);
    raw::must(SYS_lseek, &[fd as u64, 9_995, 0]);
    let done = c.call(&[("fd", value::fd(fd)), ("buf", data(b"first and second"))]);
    assert_eq!(done.ok(), 16);
    c.fd_at(fd, 10_011);
    c.has_content("file", &written(9_995));
    let closed = fixture::open("file", O_RDONLY);
    c.call(&[("fd", value::fd(closed)), ("buf", data(b"x"))]).fails(EBADF);
}

fn pread64(c: &Context) {
    let fd = fixture::open("file", O_RDONLY);
    let call = |n: usize, at: i64| c.call(&[("fd", value::fd(fd)), ("buf", room(n)), ("offset", offset(at))]);
    let done = call(64, 5000);
    assert_eq!(done.ok(), 64);
    assert_eq!(done.content("buf"), pattern(FILE_BYTES)[5000..5064]);
    c.fd_at(fd, 0);
    assert_eq!(call(64, 9_990).ok(), 10);
    call(64, -1).fails(EINVAL);
}

fn pwrite64(c: &Context) {
    let fd = fixture::open("file", O_WRONLY);
    let done = c.call(&[("fd", value::fd(fd)), ("buf", data(b"first and second")), ("offset", offset(777))]);
    assert_eq!(done.ok(), 16);
    c.fd_at(fd, 0);
    c.has_content("file", &written(777));
}

fn readv(c: &Context) {
    let fd = fixture::open("file", O_RDONLY);
    let done = c.call(&[("fd", value::fd(fd)), ("iov", scatter(&LENGTHS))]);
    assert_eq!(done.ok(), 100);
    assert_eq!(done.content("iov"), pattern(100));
    c.fd_at(fd, 100);
}

fn writev(c: &Context) {
    let fd = fixture::open("file", O_WRONLY);
    assert_eq!(c.call(&[("fd", value::fd(fd)), ("iov", parts())]).ok(), 16);
    c.fd_at(fd, 16);
    c.has_content("file", &written(0));
}

fn preadv(c: &Context) {
    let fd = fixture::open("file", O_RDONLY);
    let done =
        c.call(&[("fd", value::fd(fd)), ("iov", scatter(&LENGTHS)), ("offset", offset(4000)), ("offset_high", num(0))]);
    assert_eq!(done.ok(), 100);
    assert_eq!(done.content("iov"), pattern(FILE_BYTES)[4000..4100]);
    c.fd_at(fd, 0);
}

fn pwritev(c: &Context) {
    let fd = fixture::open("file", O_WRONLY);
    let done = c.call(&[("fd", value::fd(fd)), ("iov", parts()), ("offset", offset(4000)), ("offset_high", num(0))]);
    assert_eq!(done.ok(), 16);
    c.fd_at(fd, 0);
    c.has_content("file", &written(4000));
}

fn preadv2(c: &Context) {
    let fd = fixture::open("file", O_RDONLY);
    let call = |at: i64, bits: i64| {
        c.call(&[
            ("fd", value::fd(fd)),
            ("iov", scatter(&LENGTHS)),
            ("offset", offset(at)),
            ("offset_high", num(0)),
            ("flags", flags(bits)),
        ])
    };
    const HIGH_PRIORITY: i64 = 1;
    let done = call(4000, HIGH_PRIORITY);
    assert_eq!(done.ok(), 100);
    assert_eq!(done.content("iov"), pattern(FILE_BYTES)[4000..4100]);
    c.fd_at(fd, 0);
    let done = call(-1, 0);
    assert_eq!(done.ok(), 100);
    assert_eq!(done.content("iov"), pattern(100));
    c.fd_at(fd, 100);
    call(0, 1 << 30).fails(EOPNOTSUPP);
}

fn pwritev2(c: &Context) {
    let fd = fixture::open("file", O_WRONLY);
    let call = |at: i64, bits: i64| {
        c.call(&[
            ("fd", value::fd(fd)),
            ("iov", parts()),
            ("offset", offset(at)),
            ("offset_high", num(0)),
            ("flags", flags(bits)),
        ])
    };
    const SYNC: i64 = 4;
    const APPEND: i64 = 16;
    assert_eq!(call(4000, SYNC).ok(), 16);
    c.has_content("file", &written(4000));
    c.fd_at(fd, 0);
    assert_eq!(call(-1, 0).ok(), 16);
    c.fd_at(fd, 16);
    assert_eq!(call(5, APPEND).ok(), 16);
    c.has_size("file", FILE_BYTES as u64 + 16);
    call(0, 1 << 30).fails(EOPNOTSUPP);
}

fn sendfile(c: &Context) {
    let from = fixture::open("file", O_RDONLY);
    let to = fixture::open("new", O_RDWR | O_CREAT);
    let call = |at: Value, n: u64| {
        c.call(&[("out_fd", value::fd(to)), ("in_fd", value::fd(from)), ("offset", at), ("count", length(n))])
    };
    let done = call(inout(&longs(&[9_000])), 5_000);
    assert_eq!(done.ok(), 1000);
    assert_eq!(done.number("offset", 0, 8), 10_000);
    c.fd_at(from, 0);
    c.fd_at(to, 1000);
    c.has_content("new", &pattern(FILE_BYTES)[9_000..]);
    assert_eq!(call(null(Is::InOut), 10).ok(), 10);
    c.fd_at(from, 10);
    c.has_content("new", &[&pattern(FILE_BYTES)[9_000..], &pattern(10)].concat());
}

fn copy_file_range(c: &Context) {
    let from = fixture::open("file", O_RDONLY);
    let to = fixture::open("new", O_RDWR | O_CREAT);
    let call = |from_at: Value, to_at: Value, n: u64, bits: u64| {
        c.call(&[
            ("in_fd", value::fd(from)),
            ("in_offset", from_at),
            ("out_fd", value::fd(to)),
            ("out_offset", to_at),
            ("count", length(n)),
            ("flags", num(bits)),
        ])
    };
    let done = call(inout(&longs(&[9_000])), inout(&longs(&[5])), 5_000, 0);
    assert_eq!(done.ok(), 1000);
    assert_eq!(done.number("in_offset", 0, 8), 10_000);
    assert_eq!(done.number("out_offset", 0, 8), 1005);
    c.has_content("new", &[&[0; 5], &pattern(FILE_BYTES)[9_000..]].concat());
    c.fd_at(from, 0);
    assert_eq!(call(null(Is::InOut), null(Is::InOut), 7, 0).ok(), 7);
    c.fd_at(from, 7);
    c.fd_at(to, 7);
    call(null(Is::InOut), null(Is::InOut), 7, 1 << 30).fails(EINVAL);
}

/// A pipe with these bytes in it.
fn pipe_with(content: &[u8]) -> (i64, i64) {
    let pair = Guarded::new(&[0; 8]);
    raw::must(SYS_pipe2, &[pair.address(), O_NONBLOCK as u64]);
    let bytes = pair.bytes();
    let [read, write] = [0, 4].map(|i| super::context::number(&bytes, i, 4) as i64);
    if !content.is_empty() {
        put(write, content);
    }
    (read, write)
}

fn put(fd: i64, content: &[u8]) {
    let memory = Guarded::new(content);
    raw::must(SYS_write, &[fd as u64, memory.address(), content.len() as u64]);
}

fn take(fd: i64) -> Vec<u8> {
    let memory = Guarded::new(&[0; 20_000]);
    let n = raw::must(SYS_read, &[fd as u64, memory.address(), 20_000]);
    memory.bytes()[..n as usize].to_vec()
}

fn splice(c: &Context) {
    let from = fixture::open("file", O_RDONLY);
    let to = fixture::open("new", O_RDWR | O_CREAT);
    let (read, write) = pipe_with(b"");
    let call = |a: i64, a_at: Value, b: i64, b_at: Value, n: u64, bits: u32| {
        c.call(&[
            ("in_fd", value::fd(a)),
            ("in_offset", a_at),
            ("out_fd", value::fd(b)),
            ("out_offset", b_at),
            ("count", length(n)),
            ("flags", flags(bits.into())),
        ])
    };
    let none = || null(Is::InOut);
    let done = call(from, inout(&longs(&[100])), write, none(), 1000, 0);
    assert_eq!(done.ok(), 1000);
    assert_eq!(done.number("in_offset", 0, 8), 1100);
    let done = call(read, none(), to, inout(&longs(&[3])), 9_000, SPLICE_F_MOVE);
    assert_eq!(done.ok(), 1000);
    assert_eq!(done.number("out_offset", 0, 8), 1003);
    c.has_content("new", &[&[0; 3], &pattern(FILE_BYTES)[100..1100]].concat());
    call(read, none(), to, none(), 10, SPLICE_F_NONBLOCK).fails(EAGAIN);
}

fn tee(c: &Context) {
    let (read, _keep) = pipe_with(b"both get it");
    let (copy, into) = pipe_with(b"");
    let done = c.call(&[
        ("in_fd", value::fd(read)),
        ("out_fd", value::fd(into)),
        ("count", length(8)),
        ("flags", flags(SPLICE_F_NONBLOCK.into())),
    ]);
    assert_eq!(done.ok(), 8);
    assert_eq!(take(copy), b"both get");
    assert_eq!(take(read), b"both get it");
}

fn vmsplice(c: &Context) {
    let (read, write) = pipe_with(b"");
    let pieces = [&b"one "[..], b"two"].map(Guarded::new);
    let vector: Vec<u64> = pieces.iter().flat_map(|p| [p.address(), p.len() as u64]).collect();
    let done = c.call(&[
        ("fd", value::fd(write)),
        ("iov", memory(&longs(&vector))),
        ("count", length(2)),
        ("flags", flags(0)),
    ]);
    assert_eq!(done.ok(), 7);
    assert_eq!(take(read), b"one two");
}

fn lseek(c: &Context) {
    let fd = fixture::open("sparse", O_RDONLY);
    let call = |at: i64, whence: i32| {
        c.call(&[("fd", value::fd(fd)), ("offset", offset(at)), ("whence", command(whence.into()))])
    };
    for (at, whence, expected) in
        [(123, SEEK_SET, 123), (-3, SEEK_CUR, 120), (-6, SEEK_END, 65_530), (1 << 33, SEEK_SET, 1 << 33)]
    {
        assert_eq!(call(at, whence).ok(), expected);
        c.fd_at(fd, expected as u64);
    }
    let data = call(0, SEEK_DATA).ok();
    assert!(data == 32_768 || data == 0, "{data}");
    let hole = call(data, SEEK_HOLE).ok();
    assert!((36_864..=65_536).contains(&hole), "{hole}");
    call(-1, SEEK_SET).fails(EINVAL);
    call(0, 99).fails(EINVAL);
}

fn truncate(c: &Context) {
    let call = |name: &str, to: i64| c.call(&[("path", path(name)), ("length", offset(to))]);
    call("link", 100).ok();
    c.has_content("file", &pattern(100));
    call("file", 103).ok();
    c.has_content("file", &[&pattern(100)[..], &[0; 3]].concat());
    call("dir", 0).fails(EISDIR);
    call("file", -1).fails(EINVAL);
}

fn ftruncate(c: &Context) {
    let fd = fixture::open("file", O_RDWR);
    let call = |to: i64| c.call(&[("fd", value::fd(fd)), ("length", offset(to))]);
    call(100).ok();
    c.has_content("file", &pattern(100));
    call(1 << 33).ok();
    c.has_size("file", 1 << 33);
    call(103).ok();
    c.has_content("file", &[&pattern(100)[..], &[0; 3]].concat());
    c.fd_at(fd, 0);
}

fn fallocate(c: &Context) {
    let fd = fixture::open("file", O_RDWR);
    let call = |bits: i32, at: i64, n: i64| {
        c.call(&[("fd", value::fd(fd)), ("mode", flags(bits.into())), ("offset", offset(at)), ("length", offset(n))])
    };
    call(0, 9_000, 3_000).ok_or_skip(&[EOPNOTSUPP]);
    let mut whole = pattern(FILE_BYTES);
    whole.resize(12_000, 0);
    c.has_content("file", &whole);
    call(FALLOC_FL_KEEP_SIZE, 12_000, 100_000).ok();
    c.has_size("file", 12_000);
    let punched = call(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 50, 100);
    if punched.errno() != EOPNOTSUPP {
        punched.ok();
        whole[50..150].fill(0);
        c.has_content("file", &whole);
    }
    let zeroed = call(FALLOC_FL_ZERO_RANGE, 500, 10);
    if zeroed.errno() != EOPNOTSUPP {
        zeroed.ok();
        whole[500..510].fill(0);
        c.has_content("file", &whole);
    }
    let collapsed = call(FALLOC_FL_COLLAPSE_RANGE, 4096, 4096);
    if collapsed.errno() != EOPNOTSUPP {
        collapsed.ok();
        whole.drain(4096..8192);
        c.has_content("file", &whole);
        call(FALLOC_FL_INSERT_RANGE, 4096, 8192).ok();
        whole.splice(4096..4096, [0; 8192]);
        c.has_content("file", &whole);
    }
    call(0, 0, 0).fails(EINVAL);
}
