//! Changes of a ring's table that do not come to what was asked for, or where the kernel chooses; and who names a ring.

use libc::*;
use reprise_testkit::raw::{self, Guarded};

use super::ring::{FIXED_FILE, LINK, OPENAT, Request, Ring, SPLICE, WRITE};
use super::{open, write_at};

const FILES_UPDATE: u8 = 20;
const REGISTER_UPDATE: u64 = 6;
const ANY_PLACE: u32 = u32::MAX;
const NO_FILE: i32 = 9999;
const OWN_POSITION: u64 = u64::MAX;

fn numbers(list: &[i32]) -> Guarded {
    Guarded::new(&list.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())
}

fn writes(ring: &Ring, place: u32, text: &str) -> i32 {
    let given = Guarded::new(text.as_bytes());
    let write = Request { opcode: WRITE, flags: FIXED_FILE, fd: place, address: given.address(), ..Request::default() };
    ring.perform(&[Request { length: text.len() as u32, ..write }], false)[0]
}

/// A change that fails at its second entry, by a call and by a request; and one that fails at its first.
fn midway() {
    for by_call in [true, false] {
        let ring = Ring::new(8);
        let own = |name: &str| open(&format!("{name}-{by_call}")) as i32;
        ring.register(&["a", "b", "c"].map(own));
        let change = |list: &[i32], first: u32| {
            let (list, count) = (numbers(list), list.len() as u32);
            if !by_call {
                let change = Request {
                    opcode: FILES_UPDATE,
                    offset: first.into(),
                    address: list.address(),
                    length: count,
                    ..Request::default()
                };
                return i64::from(ring.perform(&[change], false)[0]);
            }
            let update = [u64::from(first), list.address()].map(u64::to_le_bytes).concat();
            let update = Guarded::new(&update);
            raw::sys(SYS_io_uring_register, &[ring.fd, REGISTER_UPDATE, update.address(), count.into()])
        };
        assert_eq!(change(&[own("d"), NO_FILE, own("e")], 0), 1);
        let written = [(0, "at d"), (1, "nowhere"), (2, "at c")].map(|(place, text)| writes(&ring, place, text));
        assert_eq!(written, [4, -EBADF, 4]);
        assert_eq!(change(&[NO_FILE], 2), i64::from(-EBADF));
        assert_eq!(writes(&ring, 2, "nowhere"), -EBADF);
        raw::must(SYS_close, &[ring.fd]);
    }
}

/// The kernel chooses where descriptors go, and finds no place for a file that it has made.
fn places() {
    let ring = Ring::new(8);
    ring.register(&[open("held") as i32, -1, -1]);
    let list = numbers(&["one", "two"].map(|name| open(name) as i32));
    let change = Request {
        opcode: FILES_UPDATE,
        offset: ANY_PLACE.into(),
        address: list.address(),
        length: 2,
        ..Request::default()
    };
    // Before Linux 6.0 the kernel does not choose.
    let chosen = ring.perform(&[change], false) == [2];
    let open_at = |name: &str, slot: u32| {
        let name = Guarded::new(format!("{name}\0").as_bytes());
        let (fd, how) = (AT_FDCWD as u32, (O_RDWR | O_CREAT) as u32);
        let open =
            Request { opcode: OPENAT, fd, address: name.address(), length: 0o600, how, slot, ..Request::default() };
        ring.perform(&[open], false)[0]
    };
    if chosen {
        let words = list.bytes();
        let place = |at: usize| u32::from_le_bytes(words[at..at + 4].try_into().expect("four bytes"));
        assert_eq!([writes(&ring, place(0), "first"), writes(&ring, place(4), "second")], [5, 6]);
        assert_eq!(open_at("full", ANY_PLACE), -ENFILE);
    }
    assert_eq!(open_at("beyond", 8), -EINVAL);
    assert_eq!(writes(&ring, 0, "held"), 4);
}

/// A ring's first descriptor is closed; a copy names it.
fn copied() {
    let mut ring = Ring::new(8);
    ring.register(&[-1, open("copied") as i32]);
    let copy = raw::must(SYS_dup, &[ring.fd]) as u64;
    raw::must(SYS_close, &[ring.fd]);
    ring.fd = copy;
    assert_eq!(writes(&ring, 1, "by a copy"), 9);
}

/// A splice through a pipe, between files in a ring's table at places that are the numbers of others.
fn spliced() {
    let ring = Ring::new(8);
    let (from, to) = (open("from"), open("to"));
    let mut files = vec![-1; 64];
    (files[from as usize], files[to as usize]) = (to as i32, from as i32);
    ring.register(&files);
    write_at(from, b"in the one", 0);
    write_at(to, b"and in the other", 0);
    let ends = Guarded::new(&[0; 8]);
    raw::must(SYS_pipe2, &[ends.address(), 0]);
    let words = ends.bytes();
    let end = |at: usize| u32::from_le_bytes(words[at..at + 4].try_into().expect("four bytes"));
    const FROM_TABLE: u32 = 1 << 31;
    let (fill, drain) = (
        Request {
            fd: end(4),
            offset: OWN_POSITION,
            address: 0,
            slot: to as u32,
            how: FROM_TABLE,
            ..Request::default()
        },
        Request {
            fd: from as u32,
            offset: 50,
            address: OWN_POSITION,
            slot: end(0),
            flags: FIXED_FILE,
            ..Request::default()
        },
    );
    for request in [fill, drain] {
        assert_eq!(ring.perform(&[Request { opcode: SPLICE, length: 10, ..request }], false), [10]);
    }
}

/// A place is given to one of two files and to the other, and each time written to, by requests that are submitted together: linked, and
/// so that the kernel comes to one after the other.
pub fn replaced() {
    const ROUNDS: u64 = 40;
    const TEXT: u64 = 1000;
    let (ring, files) = (Ring::new(8), ["one", "other"].map(open));
    ring.register(&[-1; 4]);
    for round in 0..ROUNDS {
        let (file, flags) = (files[round as usize % 2], if round < ROUNDS / 2 { LINK } else { 0 });
        let (new, text) = (numbers(&[file as i32]), Guarded::new(&vec![b'a' + (round % 26) as u8; TEXT as usize]));
        let update =
            Request { opcode: FILES_UPDATE, flags, offset: 3, address: new.address(), length: 1, ..Request::default() };
        let write = Request {
            opcode: WRITE,
            flags: FIXED_FILE,
            fd: 3,
            offset: round * TEXT,
            address: text.address(),
            length: TEXT as u32,
            ..Request::default()
        };
        assert_eq!(ring.perform(&[update, write], false), [1, TEXT as i32]);
    }
}

pub fn changed() {
    midway();
    places();
    copied();
    spliced();
}

/// A submission to a queue that there is not.
pub fn nowhere() {
    let iocb = Guarded::new(&[0; 64]);
    let list = Guarded::new(&iocb.address().to_le_bytes());
    assert_eq!(raw::sys(SYS_io_submit, &[list.address(), 1, list.address()]), i64::from(-EINVAL));
}
