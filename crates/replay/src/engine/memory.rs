//! Memory of the engine: the plan's sections, scratch memory, mappings of the traced programs, the page shared with the
//! parent process.
//!
//! Goals: every address handed to the kernel lies in memory owned here. Non-goals: which addresses a call gets.
#![allow(unsafe_code)]

mod copy;
mod region;
mod window;

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;

pub(super) use copy::end_copy;
pub(super) use region::Region;
pub(super) use window::{Window, replace_missing_page};

/// Page size of x86-64.
pub(super) const PAGE: usize = 4096;
/// Direct I/O moves multiples of this, to and from such places.
pub(super) const DIRECT_BYTES: usize = 512;
/// Scratch memory beyond this, as few programs have in a single buffer, is neither kept nor in memory beforehand.
const LARGE: usize = 16 << 20;
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

    /// Reads a part ahead, and nothing around it: where a device reads megabytes ahead, a page would bring them along.
    pub(super) fn read_ahead(&self, offset: usize, length: usize) {
        let begin = offset / PAGE * PAGE;
        if offset.checked_add(length).is_none_or(|end| end > self.length) || length == 0 {
            return;
        }
        // SAFETY: within the mapping that `self` owns; both are advice.
        unsafe {
            let at = (self.address + begin) as *mut libc::c_void;
            libc::madvise(at, offset + length - begin, libc::MADV_RANDOM);
            libc::madvise(at, offset + length - begin, libc::MADV_WILLNEED);
        }
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

/// A part of a section; nothing if it lies outside.
pub(super) fn part(section: &[u8], offset: u64, length: u64) -> Option<&[u8]> {
    let end = offset.checked_add(length).filter(|end| *end <= section.len() as u64)?;
    Some(&section[offset as usize..end as usize])
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
    /// So many bytes from its begin are in memory.
    present: usize,
    /// How often it was made anew, whatever its address.
    generation: u64,
    holds: Held,
}

/// Content of the plan that scratch memory is known to hold: what a read has just returned, and the thread may write on.
#[derive(Debug, Default, Clone, Copy)]
struct Held {
    /// In the plan's contents.
    offset: u64,
    length: u64,
    /// In scratch memory.
    at: usize,
}

impl Scratch {
    /// Makes room for `bytes`; what was in it may be lost. False if there is no memory.
    #[inline]
    pub(super) fn reserve(&mut self, bytes: usize) -> bool {
        bytes <= self.length || self.grow(bytes)
    }

    #[cold]
    fn grow(&mut self, bytes: usize) -> bool {
        let wanted = bytes.max(1 << 18).next_multiple_of(1 << 18);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let Ok(address) = map(0, wanted, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) else {
            return false;
        };
        *self = Scratch { address, length: wanted, generation: self.generation + 1, ..Scratch::default() };
        true
    }

    /// Has its first `bytes` in memory: whoever fills them meets no page fault, as a program does that has used its memory before.
    #[inline]
    pub(super) fn populate(&mut self, bytes: usize) {
        if bytes > self.present && self.present < LARGE {
            self.bring(bytes);
        }
    }

    #[cold]
    fn bring(&mut self, bytes: usize) {
        let bytes = bytes.next_multiple_of(PAGE).min(LARGE).min(self.length);
        // SAFETY: within memory that `self` owns; its content stays. Linux before 5.14 refuses: pages come when they are touched.
        unsafe { libc::madvise(self.address as *mut _, bytes, libc::MADV_POPULATE_WRITE) };
        self.present = bytes;
    }

    /// Gives memory back that a large transfer, of so many bytes, has used.
    pub(super) fn trim(&mut self, used: usize) {
        if used > LARGE && self.length > LARGE + PAGE {
            *self = Scratch { generation: self.generation, ..Scratch::default() };
        }
    }

    /// Bytes there are.
    pub(super) fn capacity(&self) -> usize {
        self.length
    }

    /// Told apart from what it was before it was made anew.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Address of a place in it, for whoever fills it.
    pub(super) fn address(&mut self, at: usize) -> u64 {
        self.holds = Held::default();
        (self.address + at) as u64
    }

    /// Says that it holds, from `at` on, so much of the plan's contents, until it is filled anew.
    #[inline]
    pub(super) fn hold(&mut self, at: usize, offset: u64, length: u64) {
        self.holds = Held { offset, length, at };
    }

    /// Where it holds this part of the plan's contents.
    #[inline]
    pub(super) fn held(&self, offset: u64, length: u64) -> Option<usize> {
        let Held { offset: from, length: all, at } = self.holds;
        let begin = offset.checked_sub(from)?;
        (length > 0 && begin.checked_add(length)? <= all).then(|| at + begin as usize)
    }

    /// What is in it; a range outside is empty.
    pub(super) fn bytes(&self, at: usize, length: usize) -> &[u8] {
        self.all().get(at..at.saturating_add(length)).unwrap_or_default()
    }

    /// So many words from a place on that is a multiple of their size.
    pub(super) fn words(&self, at: usize, count: usize) -> Option<&[u64]> {
        let bytes = self.all().get(at..)?.get(..count.checked_mul(8)?)?;
        // SAFETY: any bytes make words, within the same borrow; alignment is looked at.
        let (before, words, after) = unsafe { bytes.align_to::<u64>() };
        (before.is_empty() && after.is_empty()).then_some(words)
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
        self.holds = Held::default();
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
