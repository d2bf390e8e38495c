//! Memory of the engine: the plan's sections, scratch memory, mappings of the traced programs, the page shared with the
//! parent process.
//!
//! Goals: every address handed to the kernel lies in memory owned here. Non-goals: which addresses a call gets.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;

/// Page size of x86-64.
pub(super) const PAGE: usize = 4096;
/// Longest transfer of one call in Linux.
pub(super) const LONGEST: usize = 0x7fff_f000;

fn map(address: usize, length: usize, protection: i32, flags: i32, fd: i32, offset: u64) -> io::Result<usize> {
    // SAFETY: without MAP_FIXED the kernel takes unused addresses; with it `Region` passes only its own.
    let at = unsafe { libc::mmap(address as *mut _, length, protection, flags, fd, offset as libc::off_t) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at as usize) }
}

/// A section of the plan, mapped read-only.
#[derive(Debug)]
pub(crate) struct Section {
    address: usize,
    length: usize,
}

impl Section {
    /// Maps `length` bytes of the file from `offset`, a multiple of the page size, on.
    pub(crate) fn map(file: &File, offset: u64, length: u64) -> io::Result<Section> {
        let length = usize::try_from(length).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        if length == 0 {
            return Ok(Section { address: PAGE, length: 0 });
        }
        let address = map(0, length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), offset)?;
        Ok(Section { address, length })
    }

    /// Its whole 64-bit words.
    pub(crate) fn words(&self) -> &[u64] {
        // SAFETY: the mapping begins at a page, lives as long as `self` and is never written.
        unsafe { std::slice::from_raw_parts(self.address as *const u64, self.length / 8) }
    }
}

impl Deref for Section {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: as in `words`. A plan file that is cut off by others while it is replayed raises SIGBUS.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.length) }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        unmap(self.address, self.length);
    }
}

fn unmap(address: usize, length: usize) {
    if length > 0 {
        // SAFETY: only called by owners of the whole range.
        unsafe { libc::munmap(address as *mut _, length) };
    }
}

/// Memory of one thread that calls fill; grows as needed, page-aligned.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    address: usize,
    length: usize,
}

impl Scratch {
    /// Makes room for `bytes`; what was in it may be lost. False if there is no memory.
    pub(super) fn reserve(&mut self, bytes: usize) -> bool {
        if bytes <= self.length {
            return true;
        }
        let wanted = bytes.max(1 << 18).next_multiple_of(1 << 18);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let Ok(address) = map(0, wanted, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) else {
            return false;
        };
        *self = Scratch { address, length: wanted };
        true
    }

    /// Gives memory back that a large transfer has used.
    pub(super) fn trim(&mut self) {
        if self.length > 1 << 20 {
            *self = Scratch::default();
        }
    }

    /// Bytes there are.
    pub(super) fn capacity(&self) -> usize {
        self.length
    }

    /// Address of a place in it.
    pub(super) fn address(&self, at: usize) -> u64 {
        (self.address + at) as u64
    }

    /// What is in it; a range outside is empty.
    pub(super) fn bytes(&self, at: usize, length: usize) -> &[u8] {
        self.all().get(at..at.saturating_add(length)).unwrap_or_default()
    }

    fn all(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: anonymous memory of this length, owned by `self`; the kernel writes only during calls of this thread,
        // which borrow nothing of it.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.length) }
    }

    /// To be filled; a range outside is empty.
    pub(super) fn bytes_mut(&mut self, at: usize, length: usize) -> &mut [u8] {
        if self.length == 0 {
            return &mut [];
        }
        // SAFETY: as in `all`, borrowed mutably.
        let all = unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.length) };
        all.get_mut(at..at.saturating_add(length)).unwrap_or_default()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        unmap(self.address, self.length);
    }
}

/// A mapping of a traced program. Its memory is never touched by this process, and its addresses stay its own until it
/// is dropped: a part that the program unmaps becomes inaccessible, so that nothing else can come to lie there.
#[derive(Debug)]
pub(super) struct Region {
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
    pub(super) fn new(length: u64, prot: u64, flags: u64, fd: i32, offset: u64) -> Result<Region, i64> {
        let Ok(length) = usize::try_from(length) else { return Err(-i64::from(libc::ENOMEM)) };
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
    pub(super) fn replace(&self, delta: u64, length: u64, prot: u64, flags: u64, fd: i32, offset: u64) -> Option<i64> {
        let (address, length) = self.place(delta, length)?;
        let flags = kind(flags, fd) | libc::MAP_FIXED;
        if length == 0 || !address.is_multiple_of(PAGE) {
            return Some(-i64::from(libc::EINVAL));
        }
        Some(map(address, length, protection(prot), flags, fd, offset).map_or_else(|e| number(&e), |at| at as i64))
    }

    /// Makes a part inaccessible, as `munmap` would. `None`: the part lies outside.
    pub(super) fn release(&self, delta: u64, length: u64) -> Option<i64> {
        let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
        self.replace(delta, length, 0, anonymous, -1, 0).map(|result| result.min(0))
    }

    /// Whether a range is all of it.
    pub(super) fn is_whole(&self, delta: u64, length: u64) -> bool {
        delta == 0 && self.place(0, length) == Some((self.address, self.length))
    }

    /// Issues `mprotect`, `madvise`, `msync`, `mlock` or `munlock` on a part. `None`: outside, or another call.
    pub(super) fn advise(&self, call: u32, delta: u64, length: u64, third: u64) -> Option<i64> {
        let (address, _) = self.place(delta, length)?;
        let third = match i64::from(call) {
            libc::SYS_mprotect => protection(third) as u64,
            libc::SYS_madvise | libc::SYS_msync => third,
            libc::SYS_mlock | libc::SYS_munlock => 0,
            _ => return None,
        };
        // SAFETY: the range lies in this mapping, whose memory is never touched by this process.
        let result = unsafe { libc::syscall(i64::from(call), address, length, third) };
        Some(if result < 0 { number(&io::Error::last_os_error()) } else { result })
    }

    /// `mincore` of a part; what it answers is thrown away.
    pub(super) fn residency(&self, delta: u64, length: u64, scratch: &mut Scratch) -> Option<i64> {
        let (address, rounded) = self.place(delta, length)?;
        if !scratch.reserve(rounded / PAGE) {
            return Some(-i64::from(libc::ENOMEM));
        }
        // SAFETY: the scratch memory has a byte for every page.
        let result = unsafe { libc::syscall(libc::SYS_mincore, address, length, scratch.address(0)) };
        Some(if result < 0 { number(&io::Error::last_os_error()) } else { result })
    }

    /// `mremap` of all of it to another length, to wherever the kernel likes if it may move.
    pub(super) fn resize(&mut self, length: u64) -> i64 {
        let Ok(length) = usize::try_from(length) else { return -i64::from(libc::ENOMEM) };
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

/// A value in a page that this process shares with those it forks.
#[derive(Debug)]
pub(crate) struct Shared<T: Sync + 'static> {
    value: &'static T,
}

impl<T: Sync + Default + 'static> Shared<T> {
    /// Puts the default in a fresh page.
    pub(crate) fn new() -> io::Result<Shared<T>> {
        const { assert!(size_of::<T>() <= PAGE && align_of::<T>() <= PAGE) };
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let address = map(0, PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)?;
        let place = address as *mut T;
        // SAFETY: a fresh page with room for `T`, aligned, and not unmapped before the owner is dropped.
        let value = unsafe {
            place.write(T::default());
            &*place
        };
        Ok(Shared { value })
    }
}

impl<T: Sync> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T: Sync> Drop for Shared<T> {
    fn drop(&mut self) {
        unmap(std::ptr::from_ref(self.value) as usize, PAGE);
    }
}
