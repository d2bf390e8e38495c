//! The one module with `unsafe` code: raw system calls, memory that the kernel must not overrun, waiting.
//!
//! A test process may do to itself whatever a system call does, so the functions here are safe to call only in the
//! sense that a test is: what a wrong address does is the test's own affair.
#![allow(unsafe_code)]

use std::arch::asm;

/// Issues a system call by number; the kernel's own result, an error number negated.
pub fn syscall(number: u32, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the registers are those of the x86-64 system call interface; memory is declared clobbered by default.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") u64::from(number) as i64 => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// A call of the C library's numbering (`libc::SYS_…`), missing arguments 0: the "other means" of the checks.
pub fn sys(number: libc::c_long, args: &[u64]) -> i64 {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    syscall(number as u32, six)
}

/// Like [`sys`], for a call that cannot fail here.
pub fn must(number: libc::c_long, args: &[u64]) -> i64 {
    let result = sys(number, args);
    assert!(
        !(-4095..0).contains(&result),
        "system call {number}: {}",
        std::io::Error::from_raw_os_error(-result as i32)
    );
    result
}

/// Issues `number`, which must be a `vfork`; the child ends at once with this status, before the parent goes on.
pub fn vfork_exit(number: u32, status: i32) -> i64 {
    let result: i64;
    // SAFETY: parent and child share the stack, which nothing in the block touches; the child never leaves the block.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov edi, {status:e}",
            "mov eax, 231",
            "syscall",
            "2:",
            status = in(reg) status,
            inlateout("rax") u64::from(number) as i64 => result,
            out("rcx") _,
            out("r11") _,
            out("rdi") _,
        );
    }
    result
}

/// A new process by `fork`, which runs `child` and ends with the status that it returns (101 if it panics).
pub fn fork(child: impl FnOnce() -> i32) -> i32 {
    let pid = must(libc::SYS_fork, &[]);
    if pid == 0 {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        exit(caught.unwrap_or(101));
    }
    pid as i32
}

/// Ends the process at once.
pub fn exit(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

/// The wait status of a child.
pub fn wait(pid: i32) -> i32 {
    let mut status = 0i32;
    let at = &raw mut status as u64;
    must(libc::SYS_wait4, &[pid as u64, at, 0x4000_0000, 0]);
    status
}

/// Memory that ends where a page begins that cannot be touched: a call that reads or writes more fails with `EFAULT`.
/// It lives until the process ends.
#[derive(Debug, Clone, Copy)]
pub struct Guarded {
    address: u64,
    length: usize,
}

impl Guarded {
    /// A copy of these bytes.
    pub fn new(bytes: &[u8]) -> Guarded {
        let room = bytes.len().next_multiple_of(4096).max(4096);
        let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let start = must(libc::SYS_mmap, &[0, room as u64 + 4096, prot, flags, u64::MAX, 0]) as u64;
        must(libc::SYS_mprotect, &[start + room as u64, 4096, 0]);
        let address = start + (room - bytes.len()) as u64;
        poke(address, bytes);
        Guarded { address, length: bytes.len() }
    }

    /// Where it is.
    pub fn address(self) -> u64 {
        self.address
    }

    /// Its length.
    pub fn len(self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    pub fn is_empty(self) -> bool {
        self.length == 0
    }

    /// What it holds now.
    pub fn bytes(self) -> Vec<u8> {
        peek(self.address, self.length)
    }
}

/// Bytes of the process's own memory.
pub fn peek(address: u64, length: usize) -> Vec<u8> {
    let mut out = vec![0; length];
    for (i, byte) in out.iter_mut().enumerate() {
        // SAFETY: the caller names memory of this process.
        *byte = unsafe { ((address + i as u64) as *const u8).read_volatile() };
    }
    out
}

/// Writes bytes to the process's own memory.
pub fn poke(address: u64, bytes: &[u8]) {
    for (i, byte) in bytes.iter().enumerate() {
        // SAFETY: the caller names memory of this process.
        unsafe { ((address + i as u64) as *mut u8).write_volatile(*byte) };
    }
}
