//! Mappings of traced programs. Rules as in the parent module; nothing here refers to an address of theirs.

use std::io;

use super::copy::copy;
use super::{PAGE, Scratch, map, unmap};

/// A mapping of a traced program. Its memory is only touched by copies that may fail, and its addresses stay its own until it
/// is dropped: a part that the program unmaps becomes inaccessible, so that nothing else can come to lie there.
#[derive(Debug)]
pub(in crate::engine) struct Region {
    address: usize,
    length: usize,
}

/// Protection without execution; what may be executed may be read.
fn protection(wanted: u64) -> i32 {
    let wanted = wanted as i32;
    let readable = if wanted & libc::PROT_EXEC != 0 { libc::PROT_READ } else { 0 };
    wanted & (libc::PROT_READ | libc::PROT_WRITE) | readable
}

/// Flags that say what a mapping is, not where.
fn kind(wanted: u64, fd: i32) -> i32 {
    let kept = libc::MAP_TYPE | libc::MAP_NORESERVE | libc::MAP_POPULATE | libc::MAP_NONBLOCK | libc::MAP_SYNC;
    let anonymous = if fd < 0 { libc::MAP_ANONYMOUS } else { 0 };
    let kind = wanted as i32 & (kept | anonymous);
    // Populating private memory would use up what the machine has; that of a file only fills its cache.
    if kind & libc::MAP_TYPE == libc::MAP_PRIVATE { kind & !libc::MAP_POPULATE } else { kind }
}

fn number(e: &io::Error) -> i64 {
    -i64::from(e.raw_os_error().unwrap_or(libc::EIO))
}

impl Region {
    /// A new mapping where the kernel likes; the error as a negative number.
    pub(in crate::engine) fn new(length: u64, prot: u64, flags: u64, fd: i32, offset: u64) -> Result<Region, i64> {
        let Ok(length) = usize::try_from(length) else {
            return Err(-i64::from(libc::ENOMEM));
        };
        let address = map(0, length, protection(prot), kind(flags, fd), fd, offset).map_err(|e| number(&e))?;
        Ok(Region { address, length: length.next_multiple_of(PAGE) })
    }

    /// Whether whole pages from `delta` on, `length` bytes rounded up, lie within.
    fn place(&self, delta: u64, length: u64) -> Option<(usize, usize)> {
        let delta = usize::try_from(delta).ok()?;
        let length = usize::try_from(length).ok()?.checked_next_multiple_of(PAGE)?;
        let end = delta.checked_add(length)?;
        (end <= self.length).then_some((self.address + delta, length))
    }

    /// Maps something else over a part. `None`: the part lies outside.
    pub(in crate::engine) fn replace(
        &self,
        delta: u64,
        length: u64,
        prot: u64,
        flags: u64,
        fd: i32,
        offset: u64,
    ) -> Option<i64> {
        let (address, length) = self.place(delta, length)?;
        let flags = kind(flags, fd) | libc::MAP_FIXED;
        if length == 0 || !address.is_multiple_of(PAGE) {
            return Some(-i64::from(libc::EINVAL));
        }
        Some(map(address, length, protection(prot), flags, fd, offset).map_or_else(|e| number(&e), |at| at as i64))
    }

    /// Makes a part inaccessible, as `munmap` would. `None`: the part lies outside.
    pub(in crate::engine) fn release(&self, delta: u64, length: u64) -> Option<i64> {
        let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
        self.replace(delta, length, 0, anonymous, -1, 0).map(|result| result.min(0))
    }

    /// Whether a range is all of it.
    pub(in crate::engine) fn is_whole(&self, delta: u64, length: u64) -> bool {
        delta == 0 && self.place(0, length) == Some((self.address, self.length))
    }

    /// Issues `mprotect`, `madvise`, `msync`, `mlock` or `munlock` on a part. `None`: outside, or another call.
    pub(in crate::engine) fn advise(&self, call: u32, delta: u64, length: u64, third: u64) -> Option<i64> {
        let (address, _) = self.place(delta, length)?;
        let third = match i64::from(call) {
            libc::SYS_mprotect => protection(third) as u64,
            libc::SYS_madvise | libc::SYS_msync => third,
            libc::SYS_mlock | libc::SYS_munlock => 0,
            _ => return None,
        };
        // SAFETY: the range lies in this mapping, to whose memory nothing in this process refers.
        let result = unsafe { libc::syscall(i64::from(call), address, length, third) };
        Some(if result < 0 { number(&io::Error::last_os_error()) } else { result })
    }

    /// Copies content to a place in it, as stores would; where nothing can be stored the error is a negative number, and
    /// bytes before it are counted. `None`: the place lies outside.
    pub(in crate::engine) fn store(&self, delta: u64, content: &[u8]) -> Option<i64> {
        let at = self.exactly(delta, content.len() as u64)?;
        // SAFETY: `at` lies in this mapping, to whose memory nothing in this process refers.
        Some(unsafe { copy(at, content.as_ptr() as usize, content.len()) })
    }

    /// Copies from a place in it to the begin of the scratch memory, as loads would; results as of [`Region::store`].
    pub(in crate::engine) fn load(&self, delta: u64, length: u64, scratch: &mut Scratch) -> Option<i64> {
        let at = self.exactly(delta, length)?;
        let length = length as usize;
        if !scratch.reserve(length) {
            return Some(-i64::from(libc::ENOMEM));
        }
        // SAFETY: the scratch memory has this length and is lent for the copy; `at` lies in this mapping.
        Some(unsafe { copy(scratch.address(0) as usize, at, length) })
    }

    /// The address of bytes that lie within.
    fn exactly(&self, delta: u64, length: u64) -> Option<usize> {
        let delta = usize::try_from(delta).ok()?;
        let end = delta.checked_add(usize::try_from(length).ok()?)?;
        (end <= self.length).then_some(self.address + delta)
    }

    /// `mincore` of a part; what it answers is thrown away.
    pub(in crate::engine) fn residency(&self, delta: u64, length: u64, scratch: &mut Scratch) -> Option<i64> {
        let (address, rounded) = self.place(delta, length)?;
        if !scratch.reserve(rounded / PAGE) {
            return Some(-i64::from(libc::ENOMEM));
        }
        // SAFETY: the scratch memory has a byte for every page.
        let result = unsafe { libc::syscall(libc::SYS_mincore, address, length, scratch.address(0)) };
        Some(if result < 0 { number(&io::Error::last_os_error()) } else { result })
    }

    /// `mremap` of a part that stays where it is: what is there lies elsewhere, too. Of a length of 0, or where it grows, it is a second
    /// mapping of the same pages of the file. `None`: the part lies outside.
    pub(in crate::engine) fn once_more(&self, delta: u64, length: u64, new_length: u64) -> Option<Result<Region, i64>> {
        // One page of it at least: what lies behind it is somebody else's.
        self.place(delta, length.max(1))?;
        let (address, length) = self.place(delta, length)?;
        let new_length = usize::try_from(new_length).ok().and_then(|length| length.checked_next_multiple_of(PAGE));
        let Some(new_length) = new_length else { return Some(Err(-i64::from(libc::ENOMEM))) };
        let (length, keeps) = if length == new_length { (length, libc::MREMAP_DONTUNMAP) } else { (0, 0) };
        // SAFETY: a part of a mapping that nothing in this process refers to; what is new lies where nothing was.
        let at = unsafe { libc::mremap(address as *mut _, length, new_length, libc::MREMAP_MAYMOVE | keeps) };
        if at == libc::MAP_FAILED {
            return Some(Err(number(&io::Error::last_os_error())));
        }
        Some(Ok(Region { address: at as usize, length: new_length }))
    }

    /// Opens a part to loads, or to loads and stores. `None`: the part lies outside, or the file does not permit it.
    pub(in crate::engine) fn open(&self, delta: u64, length: u64, stores: bool) -> Option<()> {
        let at = self.exactly(delta, length)?;
        let begin = at / PAGE * PAGE;
        let wanted = if stores { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: the pages lie in this mapping, to whose memory nothing in this process refers.
        let result = unsafe { libc::mprotect(begin as *mut _, at + length as usize - begin, wanted) };
        (result == 0).then_some(())
    }

    /// `mremap` of all of it to another length, to wherever the kernel likes if it may move.
    pub(in crate::engine) fn resize(&mut self, length: u64) -> i64 {
        let Ok(length) = usize::try_from(length) else {
            return -i64::from(libc::ENOMEM);
        };
        if length == 0 {
            return -i64::from(libc::EINVAL);
        }
        // SAFETY: the whole of a mapping that nothing in this process refers to.
        let at = unsafe { libc::mremap(self.address as *mut _, self.length, length, libc::MREMAP_MAYMOVE) };
        if at == libc::MAP_FAILED {
            return number(&io::Error::last_os_error());
        }
        *self = {
            let moved = Region { address: at as usize, length: length.next_multiple_of(PAGE) };
            std::mem::forget(std::mem::replace(self, Region { address: 0, length: 0 }));
            moved
        };
        at as i64
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        unmap(self.address, self.length);
    }
}
