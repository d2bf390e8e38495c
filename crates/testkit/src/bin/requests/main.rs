//! Makes asynchronous requests in the working directory, for tests of their recording:
//!
//!     requests aio      hundreds of writes in flight, reaped in parts, read back; a sync
//!     requests uring    the same on a ring; requests that drain; one that fails
//!     requests chain    linked requests: open into the ring's table, write, read and write again, sync, close
//!     requests table    registered files, whose own descriptors are closed
//!     requests edges    what calls do not have: requests refused, a vector whose memory is used again, a buffer that is chosen,
//!                       a file sent to another ring, a ring that ends before its requests
//!     requests cancelled, numbers, directory, direct, checks, closed, rights, ended, left, deserted, burst, reused
//!                       see `rules`
//!     requests changed, replaced, nowhere      see `tables`
//!     requests stored   reads of what was stored to a mapping of the file before
//!     requests written  a write to a page that was stored to, and is mapped no more
//!     requests pipe     a pipe that the ring makes, written to by a call, spliced into a file by a request (Linux 6.16)
//!
//! What it reads goes on to another file, so that a wrong content is seen there.

mod ring;
mod rules;
mod stored;
mod tables;

use libc::*;
use reprise_testkit::raw::{self, Guarded};
use ring::{
    ASYNC, BUFFER_SELECT, CLOSE, DRAIN, FIXED_FILE, FSYNC, LINK, MESSAGE, OPENAT, PIPE, PROVIDE_BUFFERS, READ, READV,
    Request, Ring, SPLICE, WRITE, WRITEV,
};

const BLOCK: u64 = 4096;
const REQUESTS: u64 = 300;

fn open(name: &str) -> u64 {
    open_with(name, O_RDWR | O_CREAT)
}

fn open_with(name: &str, how: i32) -> u64 {
    let name = Guarded::new(format!("{name}\0").as_bytes());
    raw::must(SYS_openat, &[AT_FDCWD as u64, name.address(), how as u64, 0o600]) as u64
}

fn write_at(fd: u64, bytes: &[u8], at: u64) {
    let content = Guarded::new(bytes);
    raw::must(SYS_pwrite64, &[fd, content.address(), bytes.len() as u64, at]);
}

/// A block that tells its number.
fn block(number: u64) -> Vec<u8> {
    (0..BLOCK).map(|i| ((number * 131 + i * 7) % 251) as u8).collect()
}

/// Buffers of requests: the blocks to write, and room for what is read.
fn buffers() -> (Guarded, Guarded) {
    let all: Vec<u8> = (0..REQUESTS).flat_map(block).collect();
    (Guarded::new(&all), Guarded::new(&vec![0; all.len()]))
}

fn aio() {
    const PREAD: u64 = 0;
    const PWRITE: u64 = 1;
    const SYNC: u64 = 3;
    let cell = Guarded::new(&[0; 8]);
    raw::must(SYS_io_setup, &[REQUESTS + 8, cell.address()]);
    let queue = u64::from_le_bytes(cell.bytes().try_into().expect("eight bytes"));
    let (file, copy) = (open("file"), open("copy"));
    let (given, room) = buffers();
    let iocb = |opcode: u64, fd: u64, buffer: u64, length: u64, at: u64| {
        let words = [at, 0, opcode | fd << 32, buffer, length, at, 0, 0];
        words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect::<Vec<u8>>()
    };
    let perform = |iocbs: &[Vec<u8>]| {
        let structures = Guarded::new(&iocbs.concat());
        let list: Vec<u8> =
            (0..iocbs.len() as u64).flat_map(|i| (structures.address() + 64 * i).to_le_bytes()).collect();
        let list = Guarded::new(&list);
        raw::must(SYS_io_submit, &[queue, iocbs.len() as u64, list.address()]);
        let events = Guarded::new(&vec![0; 32 * iocbs.len()]);
        let mut left = iocbs.len() as u64;
        while left > 0 {
            // Some now, all that remain next.
            let most = if left > 10 { left / 2 } else { left };
            left -= raw::must(SYS_io_getevents, &[queue, 1, most, events.address(), 0]) as u64;
        }
    };
    let place = |i: u64| (i * 7 % REQUESTS) * BLOCK;
    let all = |opcode: u64, buffer: u64, first: u64| -> Vec<Vec<u8>> {
        let places = (first..first + REQUESTS).map(place);
        places.map(|at| iocb(opcode, file, buffer + at, BLOCK, at)).collect()
    };
    perform(&all(PWRITE, given.address(), 0));
    perform(&[iocb(SYNC, file, 0, 0, 0)]);
    perform(&all(PREAD, room.address(), 1));
    write_at(copy, &room.bytes(), 0);
    raw::must(SYS_io_destroy, &[queue]);
}

/// Submits structures of Linux AIO to a queue of their own; the results in the order of completion.
fn submit_iocbs(iocbs: &[[u64; 8]]) -> Vec<i64> {
    let bytes = |words: &[u64]| Guarded::new(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
    let cell = Guarded::new(&[0; 8]);
    raw::must(SYS_io_setup, &[8, cell.address()]);
    let queue = u64::from_le_bytes(cell.bytes().try_into().expect("eight bytes"));
    let structures = bytes(&iocbs.concat());
    let list: Vec<u64> = (0..iocbs.len() as u64).map(|i| structures.address() + 64 * i).collect();
    let count = iocbs.len() as u64;
    assert_eq!(raw::must(SYS_io_submit, &[queue, count, bytes(&list).address()]), count as i64);
    let events = Guarded::new(&vec![0; 32 * iocbs.len()]);
    assert_eq!(raw::must(SYS_io_getevents, &[queue, count, count, events.address(), 0]), count as i64);
    raw::must(SYS_io_destroy, &[queue]);
    let result = |event: &[u8]| i64::from_le_bytes(event[16..24].try_into().expect("eight bytes"));
    events.bytes().chunks_exact(32).map(result).collect()
}

fn transfer(opcode: u8, fd: u64, buffer: u64, at: u64) -> Request {
    Request { opcode, fd: fd as u32, offset: at, address: buffer + at, length: BLOCK as u32, ..Request::default() }
}

fn uring() {
    let ring = Ring::new(512);
    let (file, copy) = (open("file"), open("copy"));
    let (given, room) = buffers();
    let place = |i: u64| (i * 7 % REQUESTS) * BLOCK;
    let all = |opcode: u8, buffer: u64, first: u64| -> Vec<Request> {
        (first..first + REQUESTS).map(|i| transfer(opcode, file, buffer, place(i))).collect()
    };
    ring.perform(&all(WRITE, given.address(), 0), true);
    ring.perform(&all(READ, room.address(), 1), false);
    write_at(copy, &room.bytes(), 0);
    // A write, a sync after it, a write of the same place after the sync, a read after all.
    let mut other = transfer(WRITE, file, given.address(), 0);
    other.address = given.address() + 5 * BLOCK;
    let sync = Request { opcode: FSYNC, flags: DRAIN, fd: file as u32, ..Request::default() };
    let mut last = transfer(READ, file, room.address(), 0);
    last.flags = DRAIN;
    ring.perform(&[transfer(WRITE, file, given.address(), 0), sync, other, last], false);
    write_at(copy, &room.bytes(), 0);
    let missing = Request { opcode: READ, fd: 999, address: room.address(), length: 1, ..Request::default() };
    assert_eq!(ring.perform(&[missing], false), [-EBADF]);
}

fn chain() {
    let ring = Ring::new(64);
    ring.register(&[-1; 8]);
    let (given, room) = buffers();
    for round in 0..6u32 {
        let name = Guarded::new(format!("made{round}\0").as_bytes());
        let on_slot = |opcode: u8, buffer: u64, at: u64| {
            let flags = LINK | FIXED_FILE;
            Request {
                opcode,
                flags,
                fd: round,
                offset: at,
                address: buffer,
                length: BLOCK as u32,
                ..Request::default()
            }
        };
        let own = given.address() + u64::from(round) * BLOCK;
        let requests = [
            open_into(&name, round, LINK),
            on_slot(WRITE, own, 0),
            on_slot(READ, room.address(), 0),
            // What was just read.
            on_slot(WRITE, room.address(), BLOCK),
            Request { opcode: FSYNC, flags: LINK | FIXED_FILE, fd: round, ..Request::default() },
            Request { opcode: CLOSE, slot: 1 + round, ..Request::default() },
        ];
        let results = ring.perform(&requests, round % 2 == 0);
        assert_eq!(results, [0, BLOCK as i32, BLOCK as i32, BLOCK as i32, 0, 0], "round {round}");
    }
    // A link that breaks: what follows is cancelled.
    let nothing =
        Request { opcode: READ, flags: LINK, fd: 999, length: 1, address: room.address(), ..Request::default() };
    assert_eq!(
        ring.perform(&[nothing, Request { opcode: FSYNC, fd: 999, ..Request::default() }], false)[1],
        -ECANCELED
    );
}

fn table() {
    let ring = Ring::new(64);
    let files = ["one", "two"].map(open);
    ring.register(&files.map(|fd| fd as i32));
    files.iter().for_each(|fd| _ = raw::must(SYS_close, &[*fd]));
    // The numbers are given to others.
    let others = ["three", "four"].map(open);
    let (given, room) = buffers();
    let fixed = |opcode: u8, slot: u32, buffer: u64| {
        let flags = FIXED_FILE;
        Request { opcode, flags, fd: slot, address: buffer, length: BLOCK as u32, ..Request::default() }
    };
    ring.perform(&[fixed(WRITE, 0, given.address()), fixed(WRITE, 1, given.address() + BLOCK)], false);
    ring.perform(&[fixed(READ, 0, room.address()), fixed(READ, 1, room.address() + BLOCK)], true);
    let seen = room.bytes();
    write_at(others[0], &seen[..BLOCK as usize], 100);
    write_at(others[1], &seen[BLOCK as usize..2 * BLOCK as usize], 200);
}

/// Opens a file into a place of the ring's table.
fn open_into(name: &Guarded, place: u32, flags: u8) -> Request {
    let (fd, how) = (AT_FDCWD as u32, (O_RDWR | O_CREAT) as u32);
    Request {
        opcode: OPENAT,
        flags,
        fd,
        address: name.address(),
        length: 0o600,
        how,
        slot: place + 1,
        ..Request::default()
    }
}

/// What waits for others is about the table as they left it.
fn drained(ring: &Ring, given: u64) {
    let name = Guarded::new(b"drained\0");
    let write =
        Request { opcode: WRITE, flags: FIXED_FILE | DRAIN, fd: 2, address: given, length: 4096, ..Request::default() };
    let close = Request { opcode: CLOSE, flags: DRAIN, slot: 3, ..Request::default() };
    assert_eq!(ring.perform(&[open_into(&name, 2, 0), write, close], true), [0, 4096, 0]);
}

fn refused(ring: &Ring, room: u64) {
    let close = |slot: u32| Request { opcode: CLOSE, slot, ..Request::default() };
    assert_eq!(ring.perform(&[close(900)], false), [-EINVAL], "no such place");
    assert_eq!(ring.perform(&[close(5)], false), [-EBADF], "nothing is there");
    let itself = Request { opcode: CLOSE, fd: ring.fd as u32, ..Request::default() };
    assert_eq!(ring.perform(&[itself], false), [-EBADF], "the ring itself");
    let name = Guarded::new(b"nowhere\0");
    let nowhere = Request { how: O_RDONLY as u32, ..open_into(&name, 900, 0) };
    raw::must(SYS_close, &[open("nowhere")]);
    assert_eq!(ring.perform(&[nowhere], false), [-EINVAL], "a place that is not there");
    let file = open("file") as u32;
    let read = Request { opcode: READ, fd: file, address: room, length: 8, ..Request::default() };
    assert_eq!(ring.perform(&[Request { priority: u16::MAX, ..read }], false), [-EINVAL], "no such priority");
    let chosen = Request { flags: BUFFER_SELECT, address: 0, group: 3, ..read };
    assert_eq!(ring.perform(&[chosen], false), [-ENOBUFS], "no buffer");
    raw::must(SYS_close, &[file.into()]);
}

/// A vector that is gone before its request is complete; and one of which a buffer is chosen that is smaller.
fn vectors(ring: &Ring, given: u64, room: u64) {
    let (file, copy) = (open("file"), open("copy"));
    let vector = |parts: &[(u64, u64)]| {
        let words = parts.iter().flat_map(|(at, length)| [*at, *length]);
        Guarded::new(&words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
    };
    let parts = vector(&[(given, 1000), (given + 2000, 3000)]);
    let request = |opcode: u8, flags: u8, vector: &Guarded, length: u32| Request {
        opcode,
        flags,
        fd: file as u32,
        address: vector.address(),
        length,
        ..Request::default()
    };
    ring.submit(&[request(WRITEV, ASYNC, &parts, 2)]);
    raw::poke(parts.address(), &[0x55; 32]);
    assert_eq!(ring.results(1), [4000]);
    let halves = vector(&[(room, 100), (room + 4096, 3000)]);
    ring.submit(&[request(READV, ASYNC, &halves, 2)]);
    raw::poke(halves.address(), &[0x55; 32]);
    assert_eq!(ring.results(1), [3100]);
    let provide =
        Request { opcode: PROVIDE_BUFFERS, fd: 1, address: room + 8192, length: 512, group: 3, ..Request::default() };
    assert_eq!(ring.perform(&[provide], false), [0]);
    let wide = vector(&[(0, 4096)]);
    let read = Request { group: 3, ..request(READV, BUFFER_SELECT, &wide, 1) };
    assert_eq!(ring.perform(&[read], false), [512]);
    write_at(copy, &raw::peek(room, 8192 + 512), 0);
    [file, copy].iter().for_each(|fd| _ = raw::must(SYS_close, &[*fd]));
}

/// A file is opened into one ring's table and sent into that of another.
fn sent(ring: &Ring, given: u64) {
    const SENDS_FILE: u64 = 1;
    let other = Ring::new(8);
    other.register(&[-1; 8]);
    let name = Guarded::new(b"sent\0");
    let send = Request {
        opcode: MESSAGE,
        flags: LINK,
        fd: other.fd as u32,
        // What its completion on the other ring is marked with.
        offset: 99,
        address: SENDS_FILE,
        slot: 1 + 6,
        third: 1,
        ..Request::default()
    };
    let close = Request { opcode: CLOSE, slot: 1 + 1, ..Request::default() };
    assert_eq!(ring.perform(&[open_into(&name, 1, LINK), send, close], false), [0; 3]);
    other.results(1);
    let write = Request { opcode: WRITE, flags: FIXED_FILE, fd: 6, address: given, length: 4096, ..Request::default() };
    assert_eq!(other.perform(&[write], false), [4096]);
    raw::must(SYS_close, &[other.fd]);
}

/// A ring ends while a request of it waits, and another one gets its number.
fn left_behind(room: u64) {
    let ring = Ring::new(8);
    let ends = Guarded::new(&[0; 8]);
    raw::must(SYS_pipe2, &[ends.address(), 0]);
    let reads = u32::from_le_bytes(ends.bytes()[..4].try_into().expect("four bytes"));
    ring.submit(&[Request { opcode: READ, fd: reads, address: room, length: 8, ..Request::default() }]);
    raw::must(SYS_close, &[ring.fd]);
    let next = Ring::new(8);
    assert_eq!(next.fd, ring.fd);
    let file = open("behind");
    let write = Request { opcode: WRITE, fd: file as u32, address: room, length: 100, ..Request::default() };
    assert_eq!(next.perform(&[write], false), [100]);
    raw::must(SYS_close, &[next.fd]);
}

fn edges() {
    let ring = Ring::new(64);
    ring.register(&[-1; 8]);
    let (given, room) = buffers();
    drained(&ring, given.address());
    vectors(&ring, given.address(), room.address());
    refused(&ring, room.address());
    sent(&ring, given.address() + BLOCK);
    left_behind(room.address());
}

fn pipe() {
    const OWN_POSITION: u64 = u64::MAX;
    let ring = Ring::new(8);
    let ends = Guarded::new(&[0; 8]);
    let made = ring.perform(&[Request { opcode: PIPE, address: ends.address(), ..Request::default() }], false);
    if made == [-EINVAL] {
        return;
    }
    assert_eq!(made, [0]);
    let words = ends.bytes();
    let end = |at: usize| u32::from_le_bytes(words[at..at + 4].try_into().expect("four bytes"));
    let text = Guarded::new(b"through a pipe");
    assert_eq!(raw::must(SYS_write, &[end(4).into(), text.address(), 14]), 14);
    let file = open("piped");
    let splice = Request {
        opcode: SPLICE,
        fd: file as u32,
        offset: 100,
        address: OWN_POSITION,
        length: 14,
        slot: end(0),
        ..Request::default()
    };
    assert_eq!(ring.perform(&[splice], false), [14]);
    [end(0).into(), end(4).into(), file].iter().for_each(|fd| _ = raw::must(SYS_close, &[*fd]));
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("aio") => aio(),
        Some("uring") => uring(),
        Some("chain") => chain(),
        Some("table") => table(),
        Some("edges") => edges(),
        Some("pipe") => pipe(),
        Some("cancelled") => rules::cancelled(),
        Some("numbers") => rules::numbers(),
        Some("next") => rules::next(),
        Some("directory") => rules::directory(),
        Some("direct") => rules::direct(),
        Some("checks") => rules::checks(),
        Some("closed") => rules::closed(),
        Some("rights") => rules::rights(),
        Some("ended") => rules::ended(),
        Some("left") => rules::left(),
        Some("deserted") => rules::deserted(),
        Some("burst") => rules::burst(),
        Some("reused") => rules::reused(),
        Some("stored") => stored::stored(),
        Some("written") => stored::written(),
        Some("changed") => tables::changed(),
        Some("replaced") => tables::replaced(),
        Some("nowhere") => tables::nowhere(),
        other => panic!("requests WHAT, not {other:?}"),
    }
}
