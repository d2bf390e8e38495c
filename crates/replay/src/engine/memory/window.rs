//! A file as far as it went when it was mapped, to be touched.
//!
//! A file that became shorter since raises SIGBUS: the handler puts a page of zeros in the place, and counts.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{PAGE, map, unmap};

/// Pages that were found missing, of all threads.
static MISSING: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Address and end of the window that it has chosen, as long as that lives.
    static TOUCHED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// A mapping of a regular file, read-only and shared.
#[derive(Debug)]
pub(in crate::engine) struct Window {
    address: usize,
    length: usize,
    size: u64,
}

impl Window {
    /// Of the file under a descriptor; `None` if it is not regular, is read directly, or cannot be mapped.
    pub(in crate::engine) fn of(number: i32) -> Option<Window> {
        // SAFETY: plain data that the kernel fills within its size.
        let (about, flags) = unsafe {
            let mut about: libc::stat = std::mem::zeroed();
            let known = libc::fstat(number, &raw mut about) == 0;
            let flags = libc::fcntl(number, libc::F_GETFL);
            (known.then_some(about)?, flags)
        };
        let is_cached = flags >= 0 && flags & libc::O_DIRECT == 0 && flags & libc::O_PATH == 0;
        let size = u64::try_from(about.st_size).ok()?;
        if about.st_mode & libc::S_IFMT != libc::S_IFREG || !is_cached {
            return None;
        }
        if size == 0 {
            return Some(Window { address: PAGE, length: 0, size });
        }
        let length = usize::try_from(size).ok()?.checked_next_multiple_of(PAGE)?;
        let address = map(0, length, libc::PROT_READ, libc::MAP_SHARED, number, 0).ok()?;
        Some(Window { address, length, size })
    }

    /// Bytes that the file had.
    pub(in crate::engine) fn size(&self) -> u64 {
        self.size
    }

    /// From now on the calling thread touches this one, and no other.
    pub(in crate::engine) fn choose(&self) {
        TOUCHED.set((self.address, self.address + self.length));
    }

    /// Of the one that the calling thread has chosen: loads a byte of each page of ranges within [`Window::size`], all of one length;
    /// false if a page is no longer there, or a range lies outside.
    #[inline]
    pub(in crate::engine) fn touch(&self, offsets: &[u64], length: u64) -> bool {
        let Some(furthest) = self.size.checked_sub(length) else { return false };
        if length == 0 {
            return true;
        }
        let before = MISSING.load(Ordering::Relaxed);
        for &offset in offsets {
            if offset > furthest {
                return false;
            }
            let mut at = self.address + offset as usize;
            let last = at + (length as usize - 1);
            while at <= last {
                // SAFETY: within the mapping, which lives as long as `self`; a page beyond the file's end is replaced by
                // `replace_missing_page`.
                unsafe { std::ptr::read_volatile(at as *const u8) };
                at = (at & !(PAGE - 1)) + PAGE;
            }
        }
        MISSING.load(Ordering::Relaxed) == before
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if TOUCHED.get().0 == self.address {
            TOUCHED.set((0, 0));
        }
        unmap(self.address, self.length);
    }
}

/// Puts a page of zeros where the calling thread has touched one that is not there; false if it was elsewhere.
///
/// Only calls the kernel and touches atomics: it runs in a handler of SIGBUS and SIGSEGV.
pub(in crate::engine) fn replace_missing_page(address: usize) -> bool {
    let (begin, end) = TOUCHED.get();
    if !(begin..end).contains(&address) {
        return false;
    }
    MISSING.fetch_add(1, Ordering::Relaxed);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    map(address & !(PAGE - 1), PAGE, libc::PROT_READ, flags, -1, 0).is_ok()
}
