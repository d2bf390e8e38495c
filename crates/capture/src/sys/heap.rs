//! What is kept of memory that was freed.
//!
//! Goals: making a trace takes the memory that it uses at a time, not the most of every kind that it ever used. Non-goals: an
//! allocator of our own.

/// Memory in pieces of some megabytes goes back to the kernel when it is freed. glibc would keep ever larger ones, for whoever asks
/// for as much again (mallopt(3), `M_MMAP_THRESHOLD`): of what a trace's parts are encoded in that is 20 to 40 MiB.
pub fn give_back_large_memory() {
    #[cfg(target_env = "gnu")]
    {
        /// Bytes from which on a piece is a mapping of its own.
        const LARGE: libc::c_int = 4 << 20;
        // SAFETY: it takes two numbers; where it refuses, memory is kept as it was.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}
