//! Reads by requests of what was stored to a mapping of the file before, and is overwritten by another store afterwards.

use libc::*;
use reprise_testkit::raw::{self, Guarded};

use super::ring::{ASYNC, FIXED_FILE, FSYNC, LINK, READ, READV, Request, Ring, SPLICE};
use super::{BLOCK, open, submit_iocbs, transfer, write_at};

const PAGES: u64 = 4;
const LENGTH: u64 = PAGES * BLOCK;

/// A file that is mapped, and what is read from it.
struct Mapped {
    ring: Ring,
    file: u64,
    copy: u64,
    memory: u64,
    room: Guarded,
    stores: u64,
}

impl Mapped {
    fn new() -> Mapped {
        let (file, copy) = (open("file"), open("copy"));
        raw::must(SYS_ftruncate, &[file, LENGTH - 100]);
        let (prot, shared) = ((PROT_READ | PROT_WRITE) as u64, MAP_SHARED as u64);
        let memory = raw::must(SYS_mmap, &[0, LENGTH, prot, shared, file, 0]) as u64;
        let ring = Ring::new(8);
        ring.register(&[file as i32]);
        Mapped { ring, file, copy, memory, room: Guarded::new(&[0; LENGTH as usize]), stores: 0 }
    }

    /// Stores what was never stored there before.
    fn store(&mut self) {
        self.stores += 1;
        (0..PAGES).for_each(|page| raw::poke(self.memory + page * BLOCK + 7, &[self.stores as u8; 300]));
    }

    fn is_shown(&self, at: u64) -> bool {
        let shown = &self.room.bytes()[at as usize + 7..][..300];
        shown.iter().all(|byte| *byte == self.stores as u8)
    }

    /// Stores, and has the whole file read.
    fn shows(&mut self, read: impl FnOnce(&Mapped) -> Vec<i64>) {
        self.store();
        assert_eq!(read(self), [LENGTH as i64 - 100]);
        assert!((0..PAGES).all(|page| self.is_shown(page * BLOCK)));
        write_at(self.copy, &self.room.bytes(), self.stores * LENGTH);
    }

    fn by_ring(&mut self, request: Request) {
        let room = self.room.address();
        let whole = Request { fd: self.file as u32, address: room, length: LENGTH as u32, ..request };
        self.shows(|mapped| mapped.ring.perform(&[whole], false).into_iter().map(i64::from).collect());
    }

    /// The program stores while the request waits for the one before it.
    fn while_it_waits(&mut self) {
        let ends = Guarded::new(&[0; 8]);
        raw::must(SYS_pipe2, &[ends.address(), 0]);
        let end = |at: usize| u32::from_le_bytes(ends.bytes()[at..at + 4].try_into().expect("four bytes"));
        let byte = Guarded::new(b"x");
        let first =
            Request { opcode: READ, flags: LINK, fd: end(0), address: byte.address(), length: 1, ..Request::default() };
        self.ring.submit(&[first, transfer(READ, self.file, self.room.address(), BLOCK)]);
        self.store();
        raw::must(SYS_write, &[end(4).into(), byte.address(), 1]);
        assert_eq!(self.ring.results(2), [1, BLOCK as i32]);
        assert!(self.is_shown(BLOCK));
        write_at(self.copy, &self.room.bytes(), self.stores * LENGTH);
        [end(0), end(4)].iter().for_each(|fd| _ = raw::must(SYS_close, &[(*fd).into()]));
    }

    /// Into a pipe, and from there into a file.
    fn spliced(&mut self) {
        const OWN_POSITION: u64 = u64::MAX;
        let ends = Guarded::new(&[0; 8]);
        raw::must(SYS_pipe2, &[ends.address(), 0]);
        let end = |at: usize| u32::from_le_bytes(ends.bytes()[at..at + 4].try_into().expect("four bytes"));
        self.store();
        let splice = Request { opcode: SPLICE, length: BLOCK as u32, ..Request::default() };
        let out = Request { fd: end(4), slot: self.file as u32, offset: OWN_POSITION, address: BLOCK, ..splice };
        assert_eq!(self.ring.perform(&[out], false), [BLOCK as i32]);
        let place = self.stores * LENGTH;
        let back = Request { fd: self.copy as u32, slot: end(0), offset: place, address: OWN_POSITION, ..splice };
        assert_eq!(self.ring.perform(&[back], false), [BLOCK as i32]);
        [end(0), end(4)].iter().for_each(|fd| _ = raw::must(SYS_close, &[(*fd).into()]));
    }
}

/// A page that was stored to is mapped no more when a request of Linux AIO writes to it, and the rest of its file still is.
pub fn written() {
    const PWRITE: u64 = 1;
    const LAST: u64 = LENGTH - BLOCK;
    let mut mapped = Mapped::new();
    mapped.store();
    raw::must(SYS_fsync, &[mapped.file]);
    assert_eq!(raw::must(SYS_mremap, &[mapped.memory, LENGTH, LAST, 0]) as u64, mapped.memory);
    let given = Guarded::new(&[b'w'; BLOCK as usize]);
    assert_eq!(submit_iocbs(&[[0, 0, PWRITE | mapped.file << 32, given.address(), BLOCK, LAST, 0, 0]]), [BLOCK as i64]);
}

pub fn stored() {
    const PREAD: u64 = 0;
    let mut mapped = Mapped::new();
    let read = Request { opcode: READ, ..Request::default() };
    mapped.by_ring(read);
    mapped.by_ring(Request { flags: ASYNC, ..read });
    mapped.by_ring(Request { offset: u64::MAX, ..read });
    mapped.store();
    assert_eq!(
        mapped.ring.perform(&[Request { opcode: FSYNC, fd: mapped.file as u32, ..Request::default() }], false),
        [0]
    );
    mapped.shows(|mapped| {
        let fixed = Request { flags: FIXED_FILE, fd: 0, address: mapped.room.address(), length: LENGTH as u32, ..read };
        mapped.ring.perform(&[fixed], true).into_iter().map(i64::from).collect()
    });
    mapped.shows(|mapped| {
        let words = [mapped.room.address(), 5000, mapped.room.address() + 5000, LENGTH - 5000];
        let vector = Guarded::new(&words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect::<Vec<u8>>());
        let fd = mapped.file as u32;
        let request = Request { opcode: READV, fd, address: vector.address(), length: 2, ..Request::default() };
        mapped.ring.perform(&[request], false).into_iter().map(i64::from).collect()
    });
    mapped.shows(|mapped| {
        let asked = [0, 0, PREAD | mapped.file << 32, mapped.room.address(), LENGTH, 0, 0, 0];
        submit_iocbs(&[asked])
    });
    mapped.while_it_waits();
    mapped.spliced();
    mapped.store();
}
