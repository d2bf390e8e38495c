//! Loads and stores as a program makes them, of memory that may not be there.
//!
//! Goals: what the replay touches takes the faults that the program took, so that whoever records a replay sees the same; an
//! address that cannot be accessed is an error and no signal. Non-goals: whose memory it is, and how long it stays.

/// What cannot be accessed.
const EFAULT: i64 = -(libc::EFAULT as i64);

/// Copies; gives how much, or an error as a negative number if nothing can be.
///
/// # Safety
/// Nothing in this process refers to what is copied to, and nothing changes what is copied from but those who may.
pub(super) unsafe fn copy(to: usize, from: usize, length: usize) -> i64 {
    // SAFETY: as the caller promises; where nothing can be accessed the copy ends early.
    let left = unsafe { machine::copy(to, from, length) };
    if length > 0 && left >= length { EFAULT } else { (length - left) as i64 }
}

pub(in crate::engine) use machine::end_copy;

#[cfg(target_arch = "x86_64")]
mod machine {
    use std::arch::global_asm;

    // One instruction copies, and its registers say how much is left wherever it is broken off.
    global_asm!(
        ".pushsection .text.reprise_copy, \"ax\", @progbits",
        ".globl reprise_copy, reprise_copy_moves, reprise_copy_over",
        ".hidden reprise_copy, reprise_copy_moves, reprise_copy_over",
        "reprise_copy:",
        "mov rcx, rdx",
        "reprise_copy_moves:",
        "rep movsb",
        "reprise_copy_over:",
        "mov rax, rcx",
        "ret",
        ".popsection",
    );

    unsafe extern "C" {
        fn reprise_copy(to: usize, from: usize, length: usize) -> usize;
        static reprise_copy_moves: u8;
        static reprise_copy_over: u8;
    }

    /// Copies until it cannot; gives how much is left.
    pub unsafe fn copy(to: usize, from: usize, length: usize) -> usize {
        // SAFETY: the callers of `super::copy` promise what it needs.
        unsafe { reprise_copy(to, from, length) }
    }

    /// Ends the copy that a signal broke off; false if it was none. `context` is the `ucontext_t` of the signal.
    ///
    /// Touches nothing else: it runs in a handler of SIGBUS and SIGSEGV.
    pub fn end_copy(context: *mut libc::c_void) -> bool {
        // SAFETY: the kernel passes such a context where SA_SIGINFO is asked for; of the two bytes only the addresses are used.
        unsafe {
            let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            let at = &mut registers[libc::REG_RIP as usize];
            let is_copy = *at == &raw const reprise_copy_moves as i64;
            if is_copy {
                *at = &raw const reprise_copy_over as i64;
            }
            is_copy
        }
    }
}

/// By the kernel, which gives an error itself.
#[cfg(not(target_arch = "x86_64"))]
mod machine {
    pub unsafe fn copy(to: usize, from: usize, length: usize) -> usize {
        let part = |at: usize| libc::iovec { iov_base: at as *mut _, iov_len: length };
        let (from, to) = (part(from), part(to));
        // SAFETY: as the callers of `super::copy` promise.
        let got = unsafe {
            let (process, from, to) = (libc::getpid() as usize, &raw const from, &raw const to);
            libc::syscall(libc::SYS_process_vm_writev, process, from, 1usize, to, 1usize, 0usize)
        };
        length - usize::try_from(got).unwrap_or(0)
    }

    pub fn end_copy(_: *mut libc::c_void) -> bool {
        false
    }
}
