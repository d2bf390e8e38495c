//! Memory that this process shares with programs in the kernel.
//!
//! Goals: numbers that both sides change are atomic; whole areas go to files without a copy. Non-goals: knowing what
//! stands there.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// A mapped map.
pub struct Shared {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: what is shared is reached through atomics and copies only.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps so many bytes of a map.
    pub fn map(map: RawFd, bytes: usize) -> io::Result<Shared> {
        let bytes = bytes.next_multiple_of(4096);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, nothing else is touched.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, map, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Shared { base, bytes })
    }

    /// How many bytes are shared, in whole pages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "outside of the shared memory");
        // SAFETY: checked to be within the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// A 64-bit number; its offset is a multiple of 8.
    pub fn long(&self, offset: usize) -> &AtomicU64 {
        assert_eq!(offset % 8, 0);
        // SAFETY: within the mapping, aligned, and changed by atomic instructions or by one writer.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }

    /// A 32-bit number; its offset is a multiple of 4.
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        assert_eq!(offset % 4, 0);
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    /// A 16-bit number; its offset is a multiple of 2.
    pub fn short(&self, offset: usize) -> &AtomicU16 {
        assert_eq!(offset % 2, 0);
        // SAFETY: as above.
        unsafe { AtomicU16::from_ptr(self.at(offset, 2).cast()) }
    }

    /// Copies a part out; what the kernel changes meanwhile is old or new.
    pub fn copy(&self, offset: usize, into: &mut [u8]) {
        // SAFETY: within the mapping; the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.at(offset, into.len()), into.as_mut_ptr(), into.len()) }
    }

    /// A part that the programs in the kernel have handed over, and do not get back while the slice is there.
    pub fn still(&self, offset: usize, bytes: usize) -> &[u8] {
        // SAFETY: within the mapping. The programs write to no segment between its notice and its return, which the sink sends
        // after it has looked at it; numbers that both sides change are not reached through this.
        unsafe { std::slice::from_raw_parts(self.at(offset, bytes), bytes) }
    }

    /// Writes a part to a file.
    pub fn write_to(&self, file: &File, position: u64, offset: usize, bytes: usize) -> io::Result<()> {
        let mut done = 0;
        while done < bytes {
            let from = self.at(offset + done, bytes - done).cast_const().cast();
            let at = (position + done as u64) as i64;
            // SAFETY: within the mapping, which outlives the call.
            match super::check(unsafe { libc::pwrite(file.as_raw_fd(), from, bytes - done, at) } as i64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n as usize,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and unmapped once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
