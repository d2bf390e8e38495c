//! What every operation needs: random numbers, names, and descriptors that threads share.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use reprise_testkit::raw;

use crate::rng::Rng;

/// What the command line says.
#[derive(Debug, Clone)]
pub struct Options {
    pub seed: u64,
    pub dir: PathBuf,
    pub threads: u64,
    pub processes: u64,
    pub ops: u64,
    pub portable: bool,
    pub user: bool,
    /// Threads wait for each other, at locks and pipes.
    pub waits: bool,
    /// Descriptors that an `execve` left open.
    pub inherited: Vec<i64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: 1,
            dir: PathBuf::new(),
            threads: 3,
            processes: 2,
            ops: 60,
            portable: false,
            user: false,
            waits: true,
            inherited: Vec::new(),
        }
    }
}

/// Descriptors by which the threads of a process disturb each other.
static DESCRIPTORS: [AtomicI64; 10] = [const { AtomicI64::new(-1) }; 10];
/// What half of the threads take around some of their operations.
static SYNCHRONISED: Mutex<()> = Mutex::new(());

/// `AT_FDCWD`.
pub const HERE: u64 = -100i64 as u64;
/// Names of which directories are made.
const DIRECTORIES: [&[u8]; 4] = [b"d", b"e", b"g", b"d"];
/// Names of anything.
const NAMES: [&[u8]; 9] = [b"a", b"b", b"c", b"d", b"e", b"g", b"l", b"m", b"\xff\x01\n "];

/// The same descriptor under a number that no operation picks.
fn out_of_reach(fd: i64) -> i64 {
    let moved = raw::sys(libc::SYS_fcntl, &[fd as u64, libc::F_DUPFD as u64, 100]);
    raw::sys(libc::SYS_close, &[fd as u64]);
    moved
}

/// A thread's means.
pub struct Context {
    pub rng: Rng,
    pub options: Options,
    /// Room for whatever is read or written.
    pub room: Vec<u8>,
    /// Whether it takes turns with others at times; never after a fork in the midst of them.
    pub synchronised: bool,
    /// A descriptor of its own, for waiting: nobody else locks by it for longer than one operation.
    lock: i64,
    /// Both ends of a pipe by which threads hand over to each other.
    baton: [i64; 2],
}

impl Context {
    pub fn new(options: &Options, salt: u64) -> Context {
        let rng = Rng::new(options.seed, salt);
        let room = (0..256 << 10).map(|i: u32| (i.wrapping_mul(31) >> 3) as u8 ^ salt as u8).collect();
        Context { rng, options: options.clone(), room, synchronised: salt.is_multiple_of(2), lock: -1, baton: [-1; 2] }
    }

    /// Opens what a thread waits at, under numbers that no operation picks.
    pub fn prepare_to_wait(&mut self) {
        let mut path = self.options.dir.join("lock").as_os_str().as_bytes().to_vec();
        path.push(0);
        let flags = (libc::O_RDWR | libc::O_CREAT) as u64;
        let fd = raw::sys(libc::SYS_openat, &[HERE, path.as_ptr() as u64, flags, 0o666]);
        self.lock = out_of_reach(fd);
    }

    /// Gives the thread the pipe of its process.
    pub fn share_baton(&mut self, baton: [i64; 2]) {
        self.baton = baton;
    }

    /// A pipe for [`Context::share_baton`].
    pub fn baton() -> [i64; 2] {
        let mut ends = [-1i32; 2];
        raw::sys(libc::SYS_pipe2, &[&raw mut ends as u64, 0]);
        ends.map(|fd| out_of_reach(fd.into()))
    }

    /// Hands over to some thread, and waits for some: nobody waits for long, since everybody gives before it takes.
    pub fn hand_over(&mut self) {
        let ([from, to], room) = (self.baton, self.at());
        if raw::sys(libc::SYS_write, &[to as u64, room, 1]) == 1 {
            raw::sys(libc::SYS_read, &[from as u64, room, 1]);
        }
    }

    /// An operation while nobody else has the lock; a call waits for it.
    pub fn locked(&mut self, operation: fn(&mut Context)) -> i64 {
        let taken = raw::sys(libc::SYS_flock, &[self.lock as u64, libc::LOCK_EX as u64]);
        // The operation must not wait for anybody who waits for the lock.
        let synchronised = std::mem::replace(&mut self.synchronised, false);
        operation(self);
        self.synchronised = synchronised;
        raw::sys(libc::SYS_flock, &[self.lock as u64, libc::LOCK_UN as u64]);
        taken
    }

    /// A call with its arguments; its result.
    pub fn call(&mut self, number: libc::c_long, args: &[u64]) -> i64 {
        let guard = (self.synchronised && self.rng.chance(50)).then(|| SYNCHRONISED.lock());
        let result = raw::sys(number, args);
        drop(guard);
        result
    }

    /// Address of the room.
    pub fn at(&mut self) -> u64 {
        self.room.as_mut_ptr() as u64
    }

    /// A descriptor of whoever opened it; at times of nobody.
    pub fn fd(&mut self) -> u64 {
        let at = self.rng.below(DESCRIPTORS.len() as u64) as usize;
        DESCRIPTORS[at].load(Ordering::Relaxed) as u64
    }

    /// Takes a descriptor out of use.
    pub fn take(&mut self) -> u64 {
        let at = self.rng.below(DESCRIPTORS.len() as u64) as usize;
        match self.rng.chance(90) {
            true => DESCRIPTORS[at].swap(-1, Ordering::Relaxed) as u64,
            false => DESCRIPTORS[at].load(Ordering::Relaxed) as u64,
        }
    }

    /// Shares a new descriptor; one that had its place is closed.
    pub fn keep(&mut self, fd: i64) {
        if fd < 3 {
            return;
        }
        let at = self.rng.below(DESCRIPTORS.len() as u64) as usize;
        let old = DESCRIPTORS[at].swap(fd, Ordering::Relaxed);
        if old >= 3 {
            self.call(libc::SYS_close, &[old as u64]);
        }
    }

    /// All shared descriptors.
    pub fn shared(&self) -> Vec<i64> {
        DESCRIPTORS.iter().map(|d| d.load(Ordering::Relaxed)).filter(|d| *d >= 3).collect()
    }

    /// One of the few names.
    pub fn name(&mut self) -> Vec<u8> {
        match self.rng.below(120) {
            0 => vec![b'n'; 255],
            1 => vec![b'n'; 256],
            _ => self.rng.pick(&NAMES).to_vec(),
        }
    }

    /// A path, with a zero byte at its end.
    pub fn path(&mut self) -> Vec<u8> {
        let mut path = Vec::new();
        if self.rng.chance(20) {
            path.extend_from_slice(self.options.dir.as_os_str().as_bytes());
            path.push(b'/');
        }
        for _ in 0..self.rng.pick(&[0, 0, 0, 0, 1, 1, 1, 2]) {
            path.extend_from_slice(match self.rng.chance(85) {
                true => self.rng.pick(&DIRECTORIES),
                false => self.rng.pick(&NAMES),
            });
            path.extend_from_slice(match self.rng.below(30) {
                0 => b"/./",
                1 => b"//",
                2 | 3 => b"/../",
                _ => b"/",
            });
        }
        path.extend(match self.rng.below(60) {
            0 => b".".to_vec(),
            _ => self.name(),
        });
        if self.rng.chance(4) {
            path.push(b'/');
        }
        match self.rng.below(300) {
            0 => path.clear(),
            1 => path.splice(0..0, b"./".repeat(2100)).for_each(drop),
            2 | 3 => {
                let fd = self.fd() as i64;
                path = self.name_of(fd).into_bytes();
            }
            _ => {}
        }
        path.push(0);
        path
    }

    /// The name of a descriptor. `/proc/self` is the process's first thread: from others, once they have tables of their
    /// own, no replay can reach what only that one has open.
    pub fn name_of(&self, fd: i64) -> String {
        let first = raw::sys(libc::SYS_gettid, &[]) == raw::sys(libc::SYS_getpid, &[]);
        format!("/proc/{}/fd/{fd}", if first { "self" } else { "thread-self" })
    }

    /// What a path is relative to.
    pub fn base(&mut self) -> u64 {
        if self.rng.chance(60) { HERE } else { self.fd() }
    }

    /// Permission bits, often generous.
    pub fn mode(&mut self) -> u64 {
        self.rng.pick(&[0o644, 0o755, 0o600, 0o777, 0o700, 0o666, 0o2775, 0o4755, 0o1777, 0, 0o555, 0o6711])
    }

    /// A position in a file.
    pub fn offset(&mut self) -> u64 {
        self.rng.pick(&[0, 0, 1, 100, 511, 4096, 4097, 8192, 20_000, 65_536, 70_000])
    }

    /// A number of bytes.
    pub fn length(&mut self) -> u64 {
        self.rng.pick(&[0, 1, 7, 100, 512, 4096, 5000, 9999, 16_384, 66_000])
    }
}
