//! The engine's raw system calls: the traced ones, and the few it needs for itself.
//!
//! Goals: results exactly as the kernel returns them (an error is a negative number), only the calling thread affected
//! (glibc's wrappers would change the users of all threads), nothing allocated. Non-goals: policy; what may be passed is
//! decided in `arguments`, and a [`Checked`] set of arguments proves that it was.
#![allow(unsafe_code)]

pub(super) mod message;
mod process;

use std::ffi::CStr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use reprise_calls::makes_nameless;
use reprise_plan::InitialLock;

use super::arguments::Checked;
use super::memory::Scratch;
pub(super) use process::{
    barrier_in_all_threads, interrupt, leave_processor, processor, processor_ns, register_barriers, stay_on_processor,
    usable_processors,
};
pub(crate) use process::{
    catch_signals, exact_sleeps, kill, least_call_ns, nanoseconds, readable, sleep_until, ticks, ticks_after_loads,
    worker_limits, worker_signals,
};

/// Issues a call without glibc's wrapper, which costs as much as reading the clock.
///
/// # Safety
/// The arguments must be what the call expects: pointers valid for what the kernel reads and writes through them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn raw(number: i64, a: [u64; 6]) -> i64 {
    let result;
    // SAFETY: passed on to the caller. The kernel changes no registers but these (arch/x86/entry/entry_64.S).
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn raw(number: i64, a: [u64; 6]) -> i64 {
    // SAFETY: passed on to the caller; errno is this thread's own.
    unsafe {
        let result = libc::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
        if result == -1 { -i64::from(*libc::__errno_location()) } else { result }
    }
}

/// Has the processor fetch what is `ahead` words after the begin of these, if it is among them, while other things are done.
#[inline(always)]
pub(super) fn fetch_ahead(words: &[u64], ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(word) = words.get(ahead) {
        // SAFETY: a hint about memory that is borrowed.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(word).cast())
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (words, ahead);
}

fn fd(number: i32) -> u64 {
    i64::from(number) as u64
}

/// Issues a traced call.
#[inline(always)]
pub(super) fn call(number: u32, args: &Checked) -> i64 {
    // SAFETY: `Checked` is made by `arguments` alone, which lets pointers through only into the plan's sections, into
    // this thread's scratch memory with room for what the call fills, or to address 0 or 1, where nothing is mapped.
    unsafe { raw(i64::from(number), args.words()) }
}

macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident $number:ident ($($arg:ident: $type:ty => $pass:expr),*);)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name($($arg: $type),*) -> i64 {
            let mut args = [0u64; 6];
            for (slot, value) in args.iter_mut().zip([$($pass),*]) {
                *slot = value;
            }
            // SAFETY: plain numbers; nothing in this process is read or written through them.
            unsafe { raw(libc::$number, args) }
        }
    )*};
}

plain! {
    /// `close`.
    close SYS_close(number: i32 => fd(number));
    /// `close_range`, of all from `first` to `last`.
    close_range SYS_close_range(first: u32 => first.into(), last: u32 => last.into());
    /// `fcntl` with a command whose argument is a number.
    fcntl_number SYS_fcntl(number: i32 => fd(number), command: i32 => command as u64, value: u64 => value);
    /// `flock`.
    flock SYS_flock(number: i32 => fd(number), operation: i32 => operation as u64);
    /// `dup3`.
    dup3 SYS_dup3(from: i32 => fd(from), to: i32 => fd(to), flags: u64 => flags);
    /// `lseek` from the begin.
    seek SYS_lseek(number: i32 => fd(number), offset: u64 => offset);
    /// `lseek` from where it is.
    seek_by SYS_lseek(number: i32 => fd(number), distance: u64 => distance, whence: i32 => whence as u64);
    /// `unshare`.
    unshare SYS_unshare(flags: i32 => flags as u64);
    /// `umask`.
    umask SYS_umask(mask: u32 => mask.into());
    /// `setresuid` of this thread.
    set_users SYS_setresuid(real: u32 => real.into(), effective: u32 => effective.into(), saved: u32 => saved.into());
    /// `setresgid` of this thread.
    set_groups SYS_setresgid(real: u32 => real.into(), effective: u32 => effective.into(), saved: u32 => saved.into());
    /// `setfsuid` of this thread.
    set_file_user SYS_setfsuid(user: u32 => user.into());
    /// `setfsgid` of this thread.
    set_file_group SYS_setfsgid(group: u32 => group.into());
    /// `pidfd_open`.
    open_handle SYS_pidfd_open(thread: u32 => thread.into(), flags: u32 => flags.into());
    /// `pidfd_getfd`.
    get_descriptor SYS_pidfd_getfd(handle: i32 => fd(handle), number: i32 => fd(number));
    /// `syncfs`.
    sync_file_system SYS_syncfs(number: i32 => fd(number));
    /// `eventfd2`, close-on-exec.
    event SYS_eventfd2(count: u32 => count.into(), flags: i32 => flags as u64);
    /// `epoll_create1`.
    epoll SYS_epoll_create1(flags: i32 => flags as u64);
    /// `socket`.
    socket SYS_socket(domain: i32 => domain as u64, kind: i32 => kind as u64, protocol: i32 => protocol as u64);
    /// `gettid`.
    thread_id SYS_gettid();
    /// `fadvise64`.
    advise SYS_fadvise64(number: i32 => fd(number), from: u64 => from, length: u64 => length, advice: i32 => advice as u64);
    /// `sync_file_range`.
    sync_range SYS_sync_file_range(number: i32 => fd(number), from: u64 => from, length: u64 => length, how: u32 => how.into());
}

fn pair(number: i64, before: [u64; 3], flags: Option<i32>) -> Result<[i32; 2], i64> {
    let mut fds = [-1i32; 2];
    let place = fds.as_mut_ptr() as u64;
    let args = match flags {
        Some(flags) => [place, flags as u64, 0, 0, 0, 0],
        None => [before[0], before[1], before[2], place, 0, 0],
    };
    // SAFETY: `fds` has room for the two descriptors and outlives the call.
    let result = unsafe { raw(number, args) };
    if result < 0 { Err(result) } else { Ok(fds) }
}

/// `pipe2`.
pub(super) fn pipe(flags: i32) -> Result<[i32; 2], i64> {
    pair(libc::SYS_pipe2, [0; 3], Some(flags))
}

/// `socketpair` of sockets that keep messages apart.
pub(crate) fn message_pair() -> Result<[i32; 2], i64> {
    let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u64;
    pair(libc::SYS_socketpair, [libc::AF_UNIX as u64, kind, 0], None)
}

/// `pidfd_getfd` from another thread of this process, which has a table of its own.
pub(super) fn take_descriptor(thread: u32, number: i32) -> i64 {
    let handle = open_handle(thread, libc::PIDFD_THREAD);
    match i32::try_from(handle) {
        Ok(handle) if handle >= 0 => {
            let result = get_descriptor(handle, number);
            close(handle);
            result
        }
        _ => handle,
    }
}

/// `socketpair` of stream sockets.
pub(super) fn socket_pair() -> Result<[i32; 2], i64> {
    let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as u64;
    pair(libc::SYS_socketpair, [libc::AF_UNIX as u64, kind, 0], None)
}

/// `setgroups` of this thread.
pub(super) fn set_further_groups(groups: &[u32]) -> i64 {
    // SAFETY: the kernel only reads the slice, within its length.
    unsafe { raw(libc::SYS_setgroups, [groups.len() as u64, groups.as_ptr() as u64, 0, 0, 0, 0]) }
}

/// `getgroups` gives as many as fit, for comparison.
pub(super) fn users_and_groups() -> ([u32; 3], [u32; 3]) {
    let (mut u, mut g) = ([0u32; 3], [0u32; 3]);
    let place = |w: &mut [u32; 3]| w.each_mut().map(|p| std::ptr::from_mut(p) as u64);
    let (pu, pg) = (place(&mut u), place(&mut g));
    // SAFETY: three places for 32-bit words each, which outlive the calls.
    unsafe {
        raw(libc::SYS_getresuid, [pu[0], pu[1], pu[2], 0, 0, 0]);
        raw(libc::SYS_getresgid, [pg[0], pg[1], pg[2], 0, 0, 0]);
    }
    (u, g)
}

fn by_path(number: i64, before: Option<u64>, path: &CStr, flags: u64) -> i64 {
    let path = path.as_ptr() as u64;
    let args = match before {
        Some(dir) => [dir, path, flags, 0, 0, 0],
        None => [path, flags, 0, 0, 0, 0],
    };
    // SAFETY: a C string that outlives the call; the rest are numbers.
    unsafe { raw(number, args) }
}

/// `openat` from the working directory, without a mode: it must not create. What was made without a name is no directory.
pub(super) fn open(path: &CStr, flags: u64) -> i64 {
    let creates = (libc::O_CREAT | if makes_nameless(flags) { libc::O_TMPFILE } else { 0 }) as u64;
    by_path(libc::SYS_openat, Some(fd(libc::AT_FDCWD)), path, flags & !creates)
}

/// `chdir`.
pub(super) fn change_directory(path: &CStr) -> i64 {
    by_path(libc::SYS_chdir, None, path, 0)
}

/// `unlink`.
pub(super) fn unlink(path: &CStr) -> i64 {
    by_path(libc::SYS_unlink, None, path, 0)
}

/// `chroot`.
pub(super) fn change_root(path: &CStr) -> i64 {
    by_path(libc::SYS_chroot, None, path, 0)
}

/// A read or write whose arguments are ready: between the instant that it is due and the call nothing is left to do.
pub(super) struct Ready<'a> {
    call: i64,
    args: [u64; 6],
    memory: std::marker::PhantomData<&'a mut [u8]>,
}

impl<'a> Ready<'a> {
    /// `read`, or `pread64` at `offset`.
    #[inline(always)]
    pub(super) fn read(number: i32, into: &'a mut [u8], offset: Option<u64>) -> Ready<'a> {
        let call = if offset.is_some() { libc::SYS_pread64 } else { libc::SYS_read };
        Ready::of(call, [fd(number), into.as_mut_ptr() as u64, into.len() as u64, offset.unwrap_or(0), 0, 0])
    }

    /// `write`, or `pwrite64` at `offset`.
    #[inline(always)]
    pub(super) fn write(number: i32, bytes: &'a [u8], offset: Option<u64>) -> Ready<'a> {
        let call = if offset.is_some() { libc::SYS_pwrite64 } else { libc::SYS_write };
        Ready::of(call, [fd(number), bytes.as_ptr() as u64, bytes.len() as u64, offset.unwrap_or(0), 0, 0])
    }

    #[inline(always)]
    fn of(call: i64, args: [u64; 6]) -> Ready<'a> {
        Ready { call, args, memory: std::marker::PhantomData }
    }

    /// Issues it.
    #[inline(always)]
    pub(super) fn go(self) -> i64 {
        // SAFETY: made from a slice that is borrowed until now, and the kernel reads or writes within its length.
        unsafe { raw(self.call, self.args) }
    }
}

/// `write`, or `pwrite64` at `offset`.
pub(super) fn write(number: i32, bytes: &[u8], offset: Option<u64>) -> i64 {
    Ready::write(number, bytes, offset).go()
}

/// `read`, or `pread64` at `offset`.
pub(super) fn read(number: i32, into: &mut [u8], offset: Option<u64>) -> i64 {
    Ready::read(number, into, offset).go()
}

/// Reads at an offset what is in memory: fewer bytes, or an error, where something is not.
pub(super) fn read_cached(number: i32, into: &mut [u8], offset: u64) -> i64 {
    let vector = [into.as_mut_ptr() as u64, into.len() as u64];
    let args = [fd(number), vector.as_ptr() as u64, 1, offset, 0, libc::RWF_NOWAIT as u64];
    // SAFETY: one piece of memory, borrowed for the call; both outlive it.
    unsafe { raw(libc::SYS_preadv2, args) }
}

/// Drops clean pages of a range from the page cache.
pub(super) fn forget(number: i32, from: u64, length: u64) {
    advise(number, from, length, libc::POSIX_FADV_DONTNEED);
}

/// Takes a lock if it can be had at once.
pub(super) fn lock(number: i32, lock: &InitialLock) -> i64 {
    let (exclusive, shared) = match lock.kind {
        3 => (libc::LOCK_EX, libc::LOCK_SH),
        _ => (libc::F_WRLCK, libc::F_RDLCK),
    };
    let kind = if lock.exclusive { exclusive } else { shared };
    if lock.kind == 3 {
        return flock(number, kind | libc::LOCK_NB);
    }
    let range = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: lock.start as i64,
        l_len: lock.length as i64,
        l_pid: 0,
    };
    let command = if lock.kind == 2 { libc::F_OFD_SETLK } else { libc::F_SETLK };
    // SAFETY: the kernel reads the structure, which lives as long as the call.
    unsafe { raw(libc::SYS_fcntl, [fd(number), command as u64, &raw const range as u64, 0, 0, 0]) }
}

/// A further descriptor of the same open file, which ends as another program is run or does not.
pub(super) fn duplicate(number: i32, close_on_exec: bool) -> i64 {
    let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    fcntl_number(number, command, 0)
}

/// From now on reads of this descriptor go through the page cache (no `O_DIRECT`); false if they did before.
pub(super) fn read_through_cache(number: i32) -> bool {
    let flags = fcntl_number(number, libc::F_GETFL, 0);
    let direct = libc::O_DIRECT as u64;
    flags >= 0 && flags as u64 & direct != 0 && fcntl_number(number, libc::F_SETFL, flags as u64 & !direct) == 0
}

/// Starts to write out what follows a range of a file, and drops that range from the page cache, which was started the last time.
pub(super) fn write_out_and_forget(number: i32, from: u64, length: u64) {
    let start = libc::SYNC_FILE_RANGE_WRITE;
    let done = libc::SYNC_FILE_RANGE_WAIT_BEFORE | start | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // None of this is needed for what is written to be right: errors do not matter.
    sync_range(number, from + length, length, start);
    sync_range(number, from, length, done);
    forget(number, 0, from + length);
}

/// Whether the file system cannot try to read without waiting (`RWF_NOWAIT`): io_uring hands such reads to workers.
pub(super) fn cannot_try(number: i32) -> bool {
    read_cached(number, &mut [0], 0) == -i64::from(libc::EOPNOTSUPP)
}

/// `getdents64` or `getdents`, as `call` says, to the begin of the scratch memory.
pub(super) fn list(call: u32, number: i32, into: &mut Scratch) -> i64 {
    let call = if call == libc::SYS_getdents as u32 { libc::SYS_getdents } else { libc::SYS_getdents64 };
    let args = [fd(number), into.address(0), into.capacity().min(1 << 20) as u64, 0, 0, 0];
    // SAFETY: as in `read`.
    unsafe { raw(call, args) }
}

/// Puts an open directory to its begin.
pub(super) fn rewind(number: i32) -> i64 {
    // SAFETY: no pointers.
    unsafe { raw(libc::SYS_lseek, [fd(number), 0, libc::SEEK_SET as u64, 0, 0, 0]) }
}

/// `memfd_create`: an empty file in memory, which can be sealed or not.
pub(crate) fn memory_file(sealing: bool) -> std::io::Result<OwnedFd> {
    let name = c"reprise-null".as_ptr() as u64;
    let flags = (libc::MFD_CLOEXEC | if sealing { libc::MFD_ALLOW_SEALING } else { 0 }).into();
    // SAFETY: a static C string; a descriptor just returned has no other owner.
    unsafe {
        match raw(libc::SYS_memfd_create, [name, flags, 0, 0, 0, 0]) {
            number @ 0.. => Ok(OwnedFd::from_raw_fd(number as i32)),
            error => Err(std::io::Error::from_raw_os_error(-error as i32)),
        }
    }
}

/// `fstatfs`: type and mount flags (`ST_RDONLY` …).
pub(crate) fn file_system(number: i32) -> Option<(u64, u64)> {
    // SAFETY: plain data that the kernel fills within its size.
    unsafe {
        let mut about: libc::statfs64 = std::mem::zeroed();
        let result = raw(libc::SYS_fstatfs, [fd(number), &raw mut about as u64, 0, 0, 0, 0]);
        (result == 0).then_some((about.f_type as u64, about.f_flags as u64))
    }
}

/// How many names what is open here has: 0 of what was removed.
pub(super) fn links(number: i32) -> Option<u64> {
    // SAFETY: plain data that the kernel fills within its size.
    unsafe {
        let mut about: libc::stat64 = std::mem::zeroed();
        let result = raw(libc::SYS_fstat, [fd(number), &raw mut about as u64, 0, 0, 0, 0]);
        (result == 0).then_some(about.st_nlink)
    }
}

/// Address of the word a futex sleeps on: the low half, which changes with every step of the counter.
fn low_half(word: &AtomicU64) -> u64 {
    word.as_ptr() as u64 + if cfg!(target_endian = "little") { 0 } else { 4 }
}

/// Sleeps while the low half of `word` is that of `seen`, at most for `limit`; may return early.
pub(super) fn futex_wait(word: &AtomicU64, seen: u64, limit: Option<std::time::Duration>) {
    let limit = limit.map(|l| [l.as_secs(), u64::from(l.subsec_nanos())]);
    let time = limit.as_ref().map_or(0, |l| l.as_ptr() as u64);
    let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
    // SAFETY: a live word, and a `timespec` that outlives the call.
    unsafe { raw(libc::SYS_futex, [low_half(word), operation, seen & 0xffff_ffff, time, 0, 0]) };
}

/// Wakes all sleepers of a word.
pub(super) fn futex_wake(word: &AtomicU64) {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;
    // SAFETY: a live word; nothing is written.
    unsafe { raw(libc::SYS_futex, [low_half(word), operation, i32::MAX as u64, 0, 0, 0]) };
}
