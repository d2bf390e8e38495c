//! Reads through an io_uring of a thread's own.
//!
//! Goals: many reads for one entry into the kernel; memory that the kernel fills is this thread's scratch memory, borrowed
//! until the last of them is completed. Non-goals: which reads may go together (`batch`), what they came to.
#![allow(unsafe_code)]

use std::io;

use io_uring::{IoUring, opcode, squeue, types};

use super::memory::Scratch;

/// So many go together at most.
pub(super) const DEPTH: usize = 128;
/// After so long without a read the kernel's thread falls asleep.
const POLL_MS: u32 = 2;
/// So much scratch memory is known to the kernel beforehand, at most: it need not look for the pages of each read.
const PINNED_BYTES: usize = 512 << 10;
/// Offset of a read that goes on where the last one ended.
const CURRENT: u64 = u64::MAX;

/// One read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    pub fd: i32,
    /// Bytes asked for.
    pub length: u32,
    /// Offset in the file, if it is given.
    pub offset: Option<u64>,
    /// Where it goes in scratch memory.
    pub at: usize,
}

/// Memory that the kernel reads into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pinned {
    Not,
    /// The beginning of scratch memory of this generation.
    Bytes(u64, usize),
    /// The kernel refuses; an ordinary user may pin only so much.
    Never,
}

/// A ring.
pub(super) struct Ring {
    ring: IoUring,
    pinned: Pinned,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Ring {
    /// A ring for the calling thread alone; completions are dealt with when it asks for them (Linux 6.1), else at once. `polled`:
    /// a thread of the kernel performs what stands in the ring.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn new(polled: bool) -> io::Result<Ring> {
        let entries = DEPTH as u32;
        if polled {
            // Reads can be completed an instant before the kernel's thread gives their places in the queue back.
            return Ok(Ring {
                ring: IoUring::builder().setup_sqpoll(POLL_MS).build(2 * entries)?,
                pinned: Pinned::Not,
            });
        }
        let lean = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
        let ring = lean.or_else(|_| IoUring::new(entries))?;
        Ok(Ring { ring, pinned: Pinned::Not })
    }

    /// Has the beginning of scratch memory pinned, and says how much that is.
    fn pin(&mut self, scratch: &mut Scratch) -> usize {
        let wanted = Pinned::Bytes(scratch.generation(), scratch.capacity().min(PINNED_BYTES));
        if self.pinned != wanted && self.pinned != Pinned::Never {
            self.pin_anew(scratch, wanted);
        }
        match self.pinned {
            Pinned::Bytes(_, bytes) => bytes,
            Pinned::Not | Pinned::Never => 0,
        }
    }

    #[cold]
    fn pin_anew(&mut self, scratch: &mut Scratch, wanted: Pinned) {
        let Pinned::Bytes(_, bytes) = wanted else { return };
        let submitter = self.ring.submitter();
        if matches!(self.pinned, Pinned::Bytes(..)) && submitter.unregister_buffers().is_err() {
            self.pinned = Pinned::Never;
            return;
        }
        let memory = libc::iovec { iov_base: scratch.address(0) as *mut _, iov_len: bytes };
        // SAFETY: memory that `scratch` owns; the kernel keeps the pages until they are given back, or the ring ends. Memory that takes
        // the place of it has another generation.
        let done = unsafe { submitter.register_buffers(&[memory]) };
        self.pinned = done.map_or(Pinned::Never, |()| wanted);
    }

    /// Performs all of these, at most [`DEPTH`]; `results` are as the calls would return them. `linked`: each begins when the one
    /// before it is completed, and after one that came short the rest is cancelled.
    ///
    /// # Errors
    /// When the ring does not work; reads may be on their way then, and scratch memory is not to be used again.
    pub(super) fn read(
        &mut self,
        reads: &[Read],
        linked: bool,
        scratch: &mut Scratch,
        results: &mut Vec<i64>,
    ) -> io::Result<()> {
        results.clear();
        results.resize(reads.len(), -i64::from(libc::ECANCELED));
        let pinned = self.pin(scratch);
        let mut queue = self.ring.submission();
        for (number, read) in reads.iter().enumerate() {
            let room = scratch.bytes_mut(read.at, read.length as usize);
            if room.len() != read.length as usize {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let (fd, offset) = (types::Fd(read.fd), read.offset.unwrap_or(CURRENT));
            let entry = match read.at + room.len() <= pinned {
                true => opcode::ReadFixed::new(fd, room.as_mut_ptr(), read.length, 0).offset(offset).build(),
                false => opcode::Read::new(fd, room.as_mut_ptr(), read.length).offset(offset).build(),
            };
            let entry = entry.user_data(number as u64);
            let is_last = number + 1 == reads.len();
            let entry = if linked && !is_last { entry.flags(squeue::Flags::IO_LINK) } else { entry };
            // SAFETY: scratch memory stays borrowed until all are completed, or the caller is told not to use it again.
            unsafe { queue.push(&entry) }.map_err(|_| io::ErrorKind::QuotaExceeded)?;
        }
        drop(queue);
        let mut left = reads.len();
        while left > 0 {
            match self.ring.submit_and_wait(left) {
                Ok(_) => {}
                Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {}
                Err(e) => return Err(e),
            }
            for completion in self.ring.completion() {
                if let Some(result) = results.get_mut(completion.user_data() as usize) {
                    *result = completion.result().into();
                }
                left -= 1;
            }
        }
        Ok(())
    }
}
