//! Makes asynchronous requests in the working directory, for tests of their recording:
//!
//!     requests aio      hundreds of writes in flight, reaped in parts, read back; a sync
//!     requests uring    the same on a ring; requests that drain; one that fails
//!     requests chain    linked requests: open into the ring's table, write, read and write again, sync, close
//!     requests table    registered files, whose own descriptors are closed
//!
//! What it reads goes on to another file, so that a wrong content is seen there.

mod ring;

use libc::*;
use reprise_testkit::raw::{self, Guarded};
use ring::{CLOSE, DRAIN, FIXED_FILE, FSYNC, LINK, OPENAT, READ, Request, Ring, WRITE};

const BLOCK: u64 = 4096;
const REQUESTS: u64 = 300;

fn open(name: &str) -> u64 {
    let name = Guarded::new(format!("{name}\0").as_bytes());
    raw::must(SYS_openat, &[AT_FDCWD as u64, name.address(), (O_RDWR | O_CREAT) as u64, 0o600]) as u64
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
        let path =
            Request { opcode: OPENAT, flags: LINK, fd: AT_FDCWD as u32, address: name.address(), ..Request::default() };
        let opened = Request { length: 0o600, how: (O_RDWR | O_CREAT) as u32, slot: 1 + round, ..path };
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
            opened,
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

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("aio") => aio(),
        Some("uring") => uring(),
        Some("chain") => chain(),
        Some("table") => table(),
        other => panic!("requests aio|uring|chain|table, not {other:?}"),
    }
}
