//! Asynchronous I/O.

use std::fs;

use libc::*;

use super::Case;
use super::context::{Context, number};
use super::fixture;
use super::value::{self, *};
use crate::raw::{self, Guarded};

pub(super) const CASES: &[(&str, Case)] = &[
    ("io_setup", io_setup),
    ("io_destroy", io_destroy),
    ("io_submit", io_submit),
    ("io_getevents", io_getevents),
    ("io_pgetevents", io_pgetevents),
    ("io_cancel", io_cancel),
    ("io_uring_setup", io_uring_setup),
    ("io_uring_enter", io_uring_enter),
    ("io_uring_register", io_uring_register),
];

/// A queue is a mapping of the process.
fn is_queue(context: u64) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    maps.lines().any(|l| l.starts_with(&format!("{context:08x}-")) && l.ends_with("/[aio] (deleted)"))
}

fn new_queue(c: &Context) -> u64 {
    let cell = Guarded::new(&[0; 8]);
    if raw::sys(SYS_io_setup, &[8, cell.address()]) != 0 {
        c.skip("no asynchronous I/O");
    }
    number(&cell.bytes(), 0, 8)
}

fn io_setup(c: &Context) {
    let call = |events: u64| c.call(&[("events", num(events)), ("context", memory(&[0; 8]))]);
    let done = call(8);
    done.ok_or_skip(&[ENOSYS, EAGAIN]);
    c.check(|| assert!(is_queue(done.number("context", 0, 8))));
    call(0).fails(EINVAL);
}

fn io_destroy(c: &Context) {
    let queue = new_queue(c);
    c.call(&[("context", address(queue))]).ok();
    c.check(|| assert!(!is_queue(queue)));
    c.call(&[("context", address(queue))]).fails(EINVAL);
}

/// `struct iocb`: data, key and flags, opcode (u16) with priority and descriptor, buffer, bytes, offset, …
fn write_request(fd: i64, buffer: Guarded, at: u64) -> Guarded {
    const PWRITE: u64 = 1;
    let op = PWRITE | (fd as u64) << 32;
    let (address, length) = (buffer.address(), buffer.len() as u64);
    Guarded::new(&longs(&[77, 0, op, address, length, at, 0, 0]))
}

fn submit(queue: u64, request: Guarded) {
    let list = Guarded::new(&longs(&[request.address()]));
    raw::must(SYS_io_submit, &[queue, 1, list.address()]);
}

fn reap(queue: u64) -> Vec<u8> {
    let events = Guarded::new(&[0; 32]);
    raw::must(SYS_io_getevents, &[queue, 1, 1, events.address(), 0]);
    events.bytes()
}

/// A queue with one write to `new`, at 3.
fn busy_queue(c: &Context) -> u64 {
    let queue = new_queue(c);
    let fd = fixture::open("new", O_RDWR | O_CREAT);
    submit(queue, write_request(fd, Guarded::new(b"asynchronous"), 3));
    queue
}

fn io_submit(c: &Context) {
    let queue = new_queue(c);
    let fd = fixture::open("new", O_RDWR | O_CREAT);
    let request = write_request(fd, Guarded::new(b"asynchronous"), 3);
    let call = |n: i64| {
        c.call(&[("context", address(queue)), ("count", int(n)), ("iocbs", memory(&longs(&[request.address()])))])
    };
    assert_eq!(call(1).ok(), 1);
    let event = reap(queue);
    assert_eq!([0, 16].map(|at| number(&event, at, 8)), [77, 12]);
    c.has_content("new", b"\0\0\0asynchronous");
    call(-1).fails(EINVAL);
}

/// `struct io_event`: data, request, result, second result.
fn is_event(events: &[u8]) {
    assert_eq!([0, 16].map(|at| number(events, at, 8)), [77, 12]);
}

fn io_getevents(c: &Context) {
    let queue = busy_queue(c);
    let done = c.call(&[
        ("context", address(queue)),
        ("min", int(1)),
        ("max", int(2)),
        ("events", memory(&[0; 64])),
        ("timeout", memory(&longs(&[5, 0]))),
    ]);
    assert_eq!(done.ok(), 1);
    is_event(&done.bytes("events"));
}

fn io_pgetevents(c: &Context) {
    let queue = busy_queue(c);
    let mask = Guarded::new(&longs(&[0]));
    let call = |size: u64| {
        c.call(&[
            ("context", address(queue)),
            ("min", int(1)),
            ("max", int(2)),
            ("events", memory(&[0; 64])),
            ("timeout", memory(&longs(&[5, 0]))),
            ("sigmask", memory(&longs(&[mask.address(), size]))),
        ])
    };
    let done = call(8);
    assert_eq!(done.ok(), 1);
    is_event(&done.bytes("events"));
    call(4).fails(EINVAL);
}

fn io_cancel(c: &Context) {
    let queue = new_queue(c);
    // Polling a pipe that nobody writes to is the request that can be cancelled.
    let pair = Guarded::new(&[0; 8]);
    raw::must(SYS_pipe2, &[pair.address(), 0]);
    const POLL: u64 = 5;
    let op = POLL | number(&pair.bytes(), 0, 4) << 32;
    let request = Guarded::new(&longs(&[77, 0, op, POLLIN as u64, 0, 0, 0, 0]));
    submit(queue, request);
    let call = |of: u64| c.call(&[("context", address(queue)), ("iocb", address(of)), ("result", memory(&[0; 32]))]);
    // The cancelled request's completion comes through the queue.
    call(request.address()).fails(EINPROGRESS);
    assert_eq!(number(&reap(queue), 0, 8), 77);
    call(request.address()).fails(EINVAL);
}

/// A ring of 8 entries and its parameters.
fn new_ring(c: &Context) -> (i64, Vec<u8>) {
    let params = Guarded::new(&[0; 120]);
    let fd = raw::sys(SYS_io_uring_setup, &[8, params.address()]);
    if fd < 0 {
        c.skip("rings are not permitted");
    }
    (fd, params.bytes())
}

fn io_uring_setup(c: &Context) {
    let call = |n: u64| c.call(&[("entries", num(n)), ("params", memory(&[0; 120]))]);
    let done = call(5);
    let fd = done.ok_or_skip(&[EPERM, ENOSYS]);
    c.fd_named(fd, "anon_inode:[io_uring]");
    assert_eq!(done.number("params", 0, 4), 8, "entries, rounded up");
    assert_eq!(done.number("params", 4, 4), 16, "completions");
    call(0).fails(EINVAL);
}

fn map_ring(fd: i64, place: u64) -> u64 {
    let prot = (PROT_READ | PROT_WRITE) as u64;
    let kind = (MAP_SHARED | MAP_POPULATE) as u64;
    raw::must(SYS_mmap, &[0, 4096, prot, kind, fd as u64, place]) as u64
}

fn io_uring_enter(c: &Context) {
    let (fd, params) = new_ring(c);
    let word = |at: usize| number(&params, at, 4);
    // Rings of submissions and completions share a mapping; the requests have another.
    let (ring, requests) = (map_ring(fd, 0), map_ring(fd, 0x1000_0000));
    let file = fixture::open("new", O_RDWR | O_CREAT);
    let content = Guarded::new(b"by a ring");
    // struct io_uring_sqe: opcode WRITE, descriptor; offset; address; length; mark.
    const WRITE: u64 = 23;
    let request = longs(&[WRITE | (file as u64) << 32, 2, content.address(), 9, 77]);
    raw::poke(requests, &request);
    // Its place in the array, then the tail.
    raw::poke(ring + word(64), &words(&[0]));
    raw::poke(ring + word(44), &words(&[1]));
    const GET_EVENTS: u64 = 1;
    let call = |submit: u64, wait: u64, bits: u64, size: u64| {
        c.call(&[
            ("fd", value::fd(fd)),
            ("to_submit", num(submit)),
            ("min_complete", num(wait)),
            ("flags", num(bits)),
            ("arg", memory(&longs(&[0]))),
            ("size", length(size)),
        ])
    };
    assert_eq!(call(1, 0, 0, 8).ok(), 1);
    assert_eq!(call(0, 1, GET_EVENTS, 8).ok(), 0);
    let completion = raw::peek(ring + word(100), 16);
    assert_eq!(number(&completion, 0, 8), 77);
    assert_eq!(number(&completion, 8, 4), 9);
    c.has_content("new", b"\0\0by a ring");
    call(0, 0, 1 << 30, 8).fails(EINVAL);
    // One completion is there; for a second it would wait.
    call(0, 2, GET_EVENTS, 4).fails(EINVAL);
}

fn io_uring_register(c: &Context) {
    let (fd, _) = new_ring(c);
    let files = ["file", "other"].map(|n| fixture::open(n, O_RDONLY) as u32);
    const FILES: u64 = 2;
    let call = |op: u64, n: u64| {
        c.call(&[("fd", value::fd(fd)), ("opcode", num(op)), ("arg", memory(&words(&files))), ("count", num(n))])
    };
    call(FILES, 2).ok();
    c.check(|| assert_eq!(fixture::fd_info(fd, "UserFiles"), "2"));
    call(9999, 0).fails(EINVAL);
}
