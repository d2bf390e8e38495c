//! Requests that come to what no call of the same name comes to, and numbers that end with their ring.

use std::os::unix::process::CommandExt;
use std::sync::Mutex;

use libc::*;
use reprise_testkit::raw::{self, Guarded};

use super::ring::{ASYNC, CLOSE, FIXED_FILE, FSYNC, LINK, OPENAT, READ, READV, Request, Ring, SPLICE, WRITE, WRITEV};
use super::{BLOCK, block, open, open_with, submit_iocbs, write_at};

const FALLOCATE: u8 = 17;
const RENAMEAT: u8 = 35;
const UNLINKAT: u8 = 36;
const MKDIRAT: u8 = 37;
const SYMLINKAT: u8 = 38;
const LINKAT: u8 = 39;
const FSETXATTR: u8 = 41;
const SETXATTR: u8 = 42;
const FTRUNCATE: u8 = 55;
/// The working directory, as the length of a request has it.
const HERE: u32 = AT_FDCWD as u32;

/// A link that breaks: none of what follows is performed. Then a number that no request can close: a ring's own.
pub fn cancelled() {
    let ring = Ring::new(64);
    let text = |text: &str| Guarded::new(format!("{text}\0").as_bytes()).address();
    let (file, given) = (open("file"), Guarded::new(&block(1)).address());
    ["stays", "old"].map(open).iter().for_each(|fd| _ = raw::must(SYS_close, &[*fd]));
    write_at(file, b"as it was", 0);
    let fd = file as u32;
    let on_file = Request { fd, ..Request::default() };
    let on_name = |opcode: u8, name: &str| Request { opcode, fd: HERE, address: text(name), ..Request::default() };
    // Before Linux 6.9 there is no such request, and all of its link are refused for it.
    let shortened = Request { opcode: FTRUNCATE, ..on_file };
    let shortens = ring.perform(&[Request { fd: 999, ..shortened }], false) == [-EBADF];
    let mut all = vec![
        Request { opcode: READ, fd: 999, address: given, length: 8, ..Request::default() },
        Request { opcode: WRITE, address: given, length: 4096, ..on_file },
        Request { how: (O_CREAT | O_RDWR) as u32, length: 0o600, ..on_name(OPENAT, "made") },
        Request { how: (O_TRUNC | O_RDWR) as u32, ..on_name(OPENAT, "file") },
        on_name(UNLINKAT, "stays"),
        Request { offset: text("new"), length: HERE, ..on_name(RENAMEAT, "old") },
        Request { length: 0o700, ..on_name(MKDIRAT, "directory") },
        Request { offset: text("symlink"), ..on_name(SYMLINKAT, "old") },
        Request { offset: text("link"), length: HERE, ..on_name(LINKAT, "old") },
        Request { opcode: FALLOCATE, address: 1 << 16, ..on_file },
        Request { opcode: FSETXATTR, address: text("user.a"), offset: given, length: 8, ..on_file },
        Request { opcode: SETXATTR, address: text("user.b"), offset: given, length: 8, third: text("old"), ..on_file },
        Request { opcode: CLOSE, ..on_file },
        Request { opcode: FSYNC, ..on_file },
    ];
    all.extend(shortens.then_some(shortened));
    all.iter_mut().for_each(|request| request.flags |= LINK);
    let results = ring.perform(&all, false);
    assert_eq!((results[0], results[1..].iter().all(|result| *result == -ECANCELED)), (-EBADF, true), "{results:?}");
    write_at(file, b"and is", 3);
    let other = raw::must(SYS_dup, &[ring.fd]);
    let closed = Request { opcode: CLOSE, fd: other as u32, ..Request::default() };
    let of_table = Request { flags: FIXED_FILE, fd: 0, ..closed };
    ring.register(&[file as i32]);
    assert_eq!(ring.perform(&[closed, of_table], false), [-EBADF, -EBADF]);
    let write =
        Request { opcode: WRITE, flags: FIXED_FILE, address: given, length: 10, offset: 100, ..Request::default() };
    assert_eq!(ring.perform(&[write], false), [10]);
    [other as u64, file].iter().for_each(|fd| _ = raw::must(SYS_close, &[*fd]));
}

/// Tables of rings end with these, and not with the numbers of others: by `close_range`, and as another program is run.
pub fn numbers() {
    let (first, second) = (Ring::new(8), Ring::new(8));
    first.register(&[open("first") as i32]);
    second.register(&[open("second") as i32]);
    raw::must(SYS_close_range, &[first.fd, first.fd, 0]);
    let next = open("next");
    assert_eq!(next, first.fd);
    write_at(next, b"has the number of a ring", 0);
    raw::must(SYS_close, &[next]);
    raw::must(SYS_close_range, &[second.fd + 10, u32::MAX.into(), 0]);
    let given = Guarded::new(b"second");
    let write = Request { opcode: WRITE, flags: FIXED_FILE, address: given.address(), length: 6, ..Request::default() };
    assert_eq!(second.perform(&[write], false), [6]);
    let this = std::env::current_exe().expect("a path");
    panic!("{}", std::process::Command::new(this).arg("next").exec());
}

/// The program that is run next: what it opens has the numbers that rings had.
pub fn next() {
    let fds = ["a", "b", "c", "d", "e", "f", "g", "h"].map(open);
    for fd in fds {
        write_at(fd, b"of the next program", 0);
        raw::must(SYS_close, &[fd]);
    }
    fds.iter().for_each(|fd| assert_eq!(raw::sys(SYS_close, &[*fd]), -i64::from(EBADF)));
}

/// A directory cannot be read, but for nothing.
pub fn directory() {
    let ring = Ring::new(8);
    let fd = open_with(".", O_DIRECTORY | O_RDONLY) as u32;
    let room = Guarded::new(&[0; 8]).address();
    let read = Request { opcode: READ, fd, address: room, ..Request::default() };
    assert_eq!(ring.perform(&[read, Request { length: 8, ..read }], false), [0, -EISDIR]);
    raw::must(SYS_close, &[fd.into()]);
}

/// Memory that direct I/O refuses for where it begins; the file tells whether it does here.
pub fn direct() {
    let ring = Ring::new(64);
    let fd = open_with("file", O_RDWR | O_CREAT | O_DIRECT);
    let memory = Guarded::new(&[block(1), block(2)].concat());
    assert_eq!(memory.address() % BLOCK, 0);
    let transfer = |opcode: u8, begin: u64, at: u64| Request {
        opcode,
        fd: fd as u32,
        address: memory.address() + begin,
        length: BLOCK as u32,
        offset: at * BLOCK,
        ..Request::default()
    };
    let vector = |begin: u64| {
        let words = [memory.address() + begin, BLOCK];
        Guarded::new(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()).address()
    };
    let several =
        |opcode: u8, begin: u64, at: u64| Request { address: vector(begin), length: 1, ..transfer(opcode, 0, at) };
    let mut results = Vec::new();
    for begin in [0, 1, 8, 0x450] {
        let all =
            [transfer(WRITE, begin, 1), several(WRITEV, begin, 2), transfer(READ, begin, 0), several(READV, begin, 0)];
        for request in all {
            results.extend(ring.perform(&[request], false).into_iter().map(i64::from));
        }
        const PWRITE: u64 = 1;
        let words = [0, 0, PWRITE | fd << 32, memory.address() + begin, BLOCK, 3 * BLOCK, 0, 0];
        results.push(submit_iocbs(&[words])[0]);
    }
    let told = results.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
    write_at(open("results"), told.as_bytes(), 0);
    raw::must(SYS_close, &[fd]);
}

/// Errors that a call of the same name does not come to, since it looks at other things first.
pub fn checks() {
    const POLLED: u32 = 1;
    let (ring, file) = (Ring::new(8), open("file") as u32);
    let nothing = Request { fd: file, slot: 999, offset: u64::MAX, address: u64::MAX, ..Request::default() };
    assert_eq!(ring.perform(&[Request { opcode: SPLICE, ..nothing }], false), [-EBADF], "nothing from nowhere");
    let empty = Guarded::new(b"\0").address();
    let how = (O_CREAT | O_DIRECTORY) as u32;
    let made = Request { opcode: OPENAT, fd: HERE, address: empty, length: 0o600, how, ..Request::default() };
    assert_eq!(ring.perform(&[made], false), [-ENOENT], "a directory without a name");
    let none = Request { how: O_RDONLY as u32, length: 0, ..made };
    assert_eq!(ring.perform(&[none], false), [-ENOENT], "a file without a name");
    let polled = Ring::set_up(8, POLLED);
    polled.submit(&[Request { opcode: FSYNC, fd: file, ..Request::default() }]);
    assert_eq!(polled.results(1), [-EINVAL], "a sync whose completion is polled for");
    write_at(file.into(), b"goes on", 0);
}

/// Descriptors are closed while a request waits that names them, and some of their numbers are given to others.
pub fn closed() {
    let (ring, copy) = (Ring::new(8), open("copy"));
    for (text, offset) in [("", 0), ("through it", 0), ("", u64::MAX), ("and once more", u64::MAX)] {
        let (ends, room) = (Guarded::new(&[0; 8]), Guarded::new(&[0; 32]));
        raw::must(SYS_pipe2, &[ends.address(), 0]);
        let words = ends.bytes();
        let end = |at: usize| u32::from_le_bytes(words[at..at + 4].try_into().expect("four bytes"));
        let read = Request { opcode: READ, fd: end(0), offset, length: 32, ..Request::default() };
        ring.submit(&[Request { address: room.address(), ..read }]);
        raw::must(SYS_close, &[end(0).into()]);
        let is_reused = (offset == 0) == text.is_empty();
        let other = is_reused.then(|| open("other"));
        assert!(other.is_none_or(|other| other == u64::from(end(0))));
        let given = Guarded::new(text.as_bytes());
        raw::sys(SYS_write, &[end(4).into(), given.address(), text.len() as u64]);
        raw::must(SYS_close, &[end(4).into()]);
        assert_eq!(ring.results(1), [text.len() as i32]);
        write_at(copy, &room.bytes(), offset.min(100));
        if let Some(other) = other {
            write_at(other, text.as_bytes(), 0);
            raw::must(SYS_close, &[other]);
        }
    }
}

/// Requests that name rights which there are not.
pub fn rights() {
    let (ring, name) = (Ring::new(8), Guarded::new(b"made\0"));
    let how = (O_CREAT | O_RDWR) as u32;
    let made = Request { opcode: OPENAT, fd: HERE, address: name.address(), length: 0o600, how, ..Request::default() };
    assert_eq!(ring.perform(&[Request { rights: 77, ..made }], false), [-EINVAL]);
    let missing = Request { how: O_RDONLY as u32, ..made };
    assert_eq!(ring.perform(&[Request { rights: 77, ..missing }], false), [-EINVAL]);
    write_at(open("file"), b"goes on", 0);
}

/// The process ends while a request of it waits for a pipe.
pub fn ended() {
    let (ring, ends, room) = (Ring::new(8), Guarded::new(&[0; 8]), Guarded::new(&[0; 8]));
    raw::must(SYS_pipe2, &[ends.address(), 0]);
    let reads = u32::from_le_bytes(ends.bytes()[..4].try_into().expect("four bytes"));
    ring.submit(&[Request { opcode: READ, fd: reads, address: room.address(), length: 8, ..Request::default() }]);
    write_at(open("file"), b"the last", 0);
}

/// Threads submit writes past the cache, all with one mark, to a ring that has no room for so many completions, and end before most are
/// complete.
pub fn left() {
    const EACH: u64 = 100;
    const THREADS: u64 = 3;
    let (ring, fd) = (Mutex::new(Ring::new(8)), open_with("file", O_RDWR | O_CREAT | O_DIRECT) as u32);
    let all: Vec<u8> = (0..EACH * THREADS).flat_map(block).collect();
    let given = Guarded::new(&all).address();
    let submit = |number: u64| {
        let (length, at) = (BLOCK as u32, number * BLOCK);
        let write = Request { opcode: WRITE, fd, length, address: given + at, offset: at, ..Request::default() };
        ring.lock().expect("a ring").submit(&[write]);
    };
    let submit = &submit;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || (0..EACH).for_each(|i| submit(thread * EACH + i)));
        }
    });
    let results = ring.lock().expect("a ring").completions((EACH * THREADS) as usize);
    assert!(results.iter().all(|result| *result == BLOCK as i32), "{results:?}");
}

/// A process submits writes past the cache, and ends while they are under way: the kernel goes on with them.
pub fn deserted() {
    const COUNT: u64 = 64;
    let (ring, fd) = (Ring::new(COUNT), open_with("file", O_RDWR | O_CREAT | O_DIRECT) as u32);
    let all: Vec<u8> = (0..COUNT).flat_map(block).collect();
    let given = Guarded::new(&all).address();
    let write = |number: u64| {
        let at = number * BLOCK;
        Request { opcode: WRITE, fd, length: BLOCK as u32, address: given + at, offset: at, ..Request::default() }
    };
    ring.submit(&(0..COUNT).map(write).collect::<Vec<_>>());
    raw::must(SYS_exit_group, &[0]);
}

/// More at once than a recorder has room for: written by buffers and by vectors, and read by threads of the kernel.
pub fn burst() {
    const COUNT: u64 = 48;
    const EACH: u64 = 1 << 20;
    const PARTS: u64 = 8;
    let (ring, fd) = (Ring::new(COUNT), open("file") as u32);
    let all: Vec<u8> = (0..COUNT * EACH / 8).flat_map(|i| (i * 0x9e37_79b9).to_le_bytes()).collect();
    let (given, room) = (Guarded::new(&all), Guarded::new(&vec![0; all.len()]));
    let parts = (0..COUNT * PARTS).flat_map(|part| [given.address() + part * EACH / PARTS, EACH / PARTS]);
    let vectors = Guarded::new(&parts.flat_map(u64::to_le_bytes).collect::<Vec<u8>>());
    let at_once = |request: &dyn Fn(u64) -> Request| {
        let results = ring.perform(&(0..COUNT).map(request).collect::<Vec<_>>(), false);
        assert!(results.iter().all(|result| *result == EACH as i32), "{results:?}");
    };
    let of = |opcode: u8, address: u64, length: u64, offset: u64| Request {
        opcode,
        fd,
        length: length as u32,
        address,
        offset,
        ..Request::default()
    };
    at_once(&|i| of(WRITE, given.address() + i * EACH, EACH, i * EACH));
    at_once(&|i| of(WRITEV, vectors.address() + i * PARTS * 16, PARTS, (COUNT + i) * EACH));
    at_once(&|i| Request { flags: ASYNC, ..of(READ, room.address() + i * EACH, EACH, (COUNT + i) * EACH) });
    assert!(room.bytes() == all, "what was read is what was written");
}

/// A thread of the kernel's own looks up what a request names, whose number may be another file's by then.
pub fn reused() {
    let ring = Ring::new(8);
    for number in 0..20 {
        let (given, first) = (Guarded::new(&block(number)).address(), open(&format!("first{number}")));
        let (fd, length) = (first as u32, BLOCK as u32);
        ring.submit(&[Request { opcode: WRITE, flags: ASYNC, fd, address: given, length, ..Request::default() }]);
        raw::must(SYS_close, &[first]);
        let next = open(&format!("next{number}"));
        ring.results(1);
        raw::must(SYS_close, &[next]);
    }
}
