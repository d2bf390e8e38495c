//! A ring of io_uring, by raw system calls.

use libc::*;
use reprise_testkit::raw;

pub const READ: u8 = 22;
pub const WRITE: u8 = 23;
pub const FSYNC: u8 = 3;
pub const OPENAT: u8 = 18;
pub const CLOSE: u8 = 19;
pub const READV: u8 = 1;
pub const WRITEV: u8 = 2;
pub const PROVIDE_BUFFERS: u8 = 31;
pub const MESSAGE: u8 = 40;
pub const SPLICE: u8 = 30;
pub const PIPE: u8 = 62;

pub const FIXED_FILE: u8 = 1;
pub const DRAIN: u8 = 2;
pub const LINK: u8 = 4;
pub const ASYNC: u8 = 16;
pub const BUFFER_SELECT: u8 = 32;

const REGISTER_FILES: u64 = 2;
const GET_EVENTS: u64 = 1;

/// `struct io_uring_sqe`, as far as it is used here.
#[derive(Clone, Copy, Default)]
pub struct Request {
    pub opcode: u8,
    pub flags: u8,
    pub fd: u32,
    pub offset: u64,
    pub address: u64,
    pub length: u32,
    pub how: u32,
    pub slot: u32,
    pub group: u16,
    pub rights: u16,
    pub priority: u16,
    pub third: u64,
}

impl Request {
    fn bytes(&self, mark: u64) -> Vec<u8> {
        let words = [
            u64::from(self.opcode)
                | u64::from(self.flags) << 8
                | u64::from(self.priority) << 16
                | u64::from(self.fd) << 32,
            self.offset,
            self.address,
            u64::from(self.length) | u64::from(self.how) << 32,
            mark,
            u64::from(self.group) | u64::from(self.rights) << 16 | u64::from(self.slot) << 32,
            self.third,
            0,
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

pub struct Ring {
    pub fd: u64,
    params: Vec<u8>,
    memory: u64,
    requests: u64,
}

impl Ring {
    /// A ring for so many requests.
    pub fn new(entries: u64) -> Ring {
        Ring::set_up(entries, 0)
    }

    /// The same, with flags of `io_uring_setup`.
    pub fn set_up(entries: u64, flags: u32) -> Ring {
        let mut asked = [0; 120];
        asked[8..12].copy_from_slice(&flags.to_le_bytes());
        let params = raw::Guarded::new(&asked);
        let fd = raw::must(SYS_io_uring_setup, &[entries, params.address()]) as u64;
        let map = |place: u64, length: u64| {
            let (prot, kind) = ((PROT_READ | PROT_WRITE) as u64, (MAP_SHARED | MAP_POPULATE) as u64);
            raw::must(SYS_mmap, &[0, length, prot, kind, fd, place]) as u64
        };
        let (memory, requests) = (map(0, 1 << 16), map(0x1000_0000, 64 * entries));
        Ring { fd, params: params.bytes(), memory, requests }
    }

    fn offset(&self, at: usize) -> u64 {
        u32::from_le_bytes(self.params[at..at + 4].try_into().expect("four bytes")).into()
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = raw::peek(self.memory + self.offset(at), 4);
        u32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }

    fn set(&self, at: usize, index: u32, value: u32) {
        raw::poke(self.memory + self.offset(at) + 4 * u64::from(index), &value.to_le_bytes());
    }

    /// Submits all and waits for all; results in the order of the requests. `apart` waits by a call of its own.
    pub fn perform(&self, all: &[Request], apart: bool) -> Vec<i32> {
        if apart {
            self.submit(all);
            self.results(all.len())
        } else {
            self.write(all);
            self.enter(all.len(), all.len());
            self.results_there(all.len())
        }
    }

    /// Submits all, and waits for none.
    pub fn submit(&self, all: &[Request]) {
        self.write(all);
        self.enter(all.len(), 0);
    }

    /// Waits for the results of so many requests.
    pub fn results(&self, count: usize) -> Vec<i32> {
        self.enter(0, count);
        self.results_there(count)
    }

    /// Waits until so many are complete, also those that find no room among the completions; results in the order of completion.
    pub fn completions(&self, count: usize) -> Vec<i32> {
        let mut results = Vec::new();
        while results.len() < count {
            self.enter(0, 1);
            self.each_completion(|_, result| results.push(result));
        }
        results
    }

    fn write(&self, all: &[Request]) {
        let (mask, tail) = (self.offset(0) as u32 - 1, self.word(44));
        for (i, request) in (0..).zip(all) {
            let place = tail.wrapping_add(i) & mask;
            raw::poke(self.requests + 64 * u64::from(place), &request.bytes(i.into()));
            self.set(64, place, place);
        }
        self.set(44, 0, tail.wrapping_add(all.len() as u32));
    }

    fn enter(&self, submit: usize, wait: usize) {
        let flags = if wait > 0 { GET_EVENTS } else { 0 };
        raw::must(SYS_io_uring_enter, &[self.fd, submit as u64, wait as u64, flags, 0, 8]);
    }

    fn results_there(&self, count: usize) -> Vec<i32> {
        let mut results = vec![0; count];
        self.each_completion(|mark, result| {
            if let Some(place) = results.get_mut(mark as usize) {
                *place = result;
            }
        });
        results
    }

    /// Takes those that are there: marks and results.
    fn each_completion(&self, mut take: impl FnMut(u32, i32)) {
        let mask = self.offset(4) as u32 - 1;
        while self.word(80) != self.word(84) {
            let head = self.word(80);
            let completion = raw::peek(self.memory + self.offset(100) + 16 * u64::from(head & mask), 16);
            let half = |at: usize| u32::from_le_bytes(completion[at..at + 4].try_into().expect("four bytes"));
            take(half(0), half(8) as i32);
            self.set(80, 0, head.wrapping_add(1));
        }
    }

    /// Gives the ring a table of descriptors; -1 leaves a place free.
    pub fn register(&self, files: &[i32]) {
        let list: Vec<u8> = files.iter().flat_map(|fd| fd.to_le_bytes()).collect();
        let list = raw::Guarded::new(&list);
        raw::must(SYS_io_uring_register, &[self.fd, REGISTER_FILES, list.address(), files.len() as u64]);
    }
}
