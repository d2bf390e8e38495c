//! When to look for stores to shared mappings of files: before calls that show or change what stores change, and before
//! mappings end.
//!
//! Goals: a store stands before the first call that could see it, and a call's own writes are not taken for stores.
//! Non-goals: what is looked at (`mapped`). Where threads store while a call is on its way to the same page, which came
//! first is not known.

use std::ops::Range;

use reprise_calls::{ArgKind, Call, Effect, IoctlEffect, ioctl_effect};
use reprise_trace::Loss;

use super::{Entered, Tracer};
use crate::arguments::{Inputs, failed};
use crate::mapped::{self, Look, Mapped, Watched, Writers};
use crate::memory::Memory;
use crate::procfs;
use crate::requests::Asked;
use crate::spool::UNREADABLE_PAGES;
use crate::sys::{self, FileId, HERE};
use crate::world::open_quietly;

const ALL: Range<u64> = 0..u64::MAX;

/// What a call does to the content of files.
enum Touched {
    Nothing,
    /// A part of the file behind a descriptor.
    Part(u64, Range<u64>),
    /// All of the files behind these descriptors.
    Whole([Option<u64>; 2]),
    /// Files that only their names tell, or all there are.
    Anything,
}

/// The part of its file that a read or write is about. `before`: the call has not moved the offset yet.
fn part(tid: i32, call: &Call, args: &[u64; 6], length: u64, before: bool) -> Range<u64> {
    let info = procfs::fd_info(tid, args[0] as u32 as u64);
    let appends =
        info.as_ref().is_some_and(|info| info.flags & libc::O_APPEND as u64 != 0) && call.effect == Effect::Write;
    let at = match call.offset_arg().map(|i| args[i]) {
        _ if appends => None,
        Some(u64::MAX) | None => {
            info.map(|info| if before { info.position } else { info.position.saturating_sub(length) })
        }
        given => given,
    };
    match at {
        Some(at) => at..at.saturating_add(length),
        // It ends where the file ends, or nobody knows.
        None if before => ALL,
        None => file(tid, args[0]).map_or(ALL, |(_, size)| size.saturating_sub(length)..size),
    }
}

/// The regular file behind a descriptor, and its size.
fn file(tid: i32, fd: u64) -> Option<(FileId, u64)> {
    let fd = u32::try_from(fd as i32).ok()?;
    let path = std::ffi::CString::new(format!("/proc/{tid}/fd/{fd}")).ok()?;
    let stat = sys::stat_at(HERE, &path, 0).ok().filter(sys::Stat::is_file)?;
    Some((stat.id, stat.size))
}

/// Whether opening a file can make it empty; where the flags of `openat2` stand is not looked at.
fn may_truncate(call: &Call, args: &[u64; 6]) -> bool {
    call.effective_open_flags(args, &[]) & libc::O_TRUNC as u64 != 0 || call.name == "openat2"
}

fn touched(tid: i32, call: &Call, args: &[u64; 6], length: u64, before: bool) -> Touched {
    use Effect::*;
    match call.effect {
        Read | Write => Touched::Part(args[0], part(tid, call, args, length, before)),
        Copy | Splice => {
            let mut files = call.args.iter().zip(args).filter(|(arg, _)| matches!(arg.kind, ArgKind::Fd(_)));
            Touched::Whole([files.next().map(|(_, fd)| *fd), files.next().map(|(_, fd)| *fd)])
        }
        Truncate | Allocate | Sync if matches!(call.args[0].kind, ArgKind::Fd(_)) => {
            Touched::Whole([Some(args[0]), None])
        }
        Map if args[3] & libc::MAP_ANONYMOUS as u64 == 0 => Touched::Whole([Some(args[4]), None]),
        DeviceControl => match ioctl_effect(args[1]) {
            IoctlEffect::Clone | IoctlEffect::CloneRange => Touched::Anything,
            IoctlEffect::Allocate(_) => Touched::Whole([Some(args[0]), None]),
            _ => Touched::Nothing,
        },
        Open if may_truncate(call, args) => Touched::Anything,
        Truncate | SyncAll => Touched::Anything,
        _ => Touched::Nothing,
    }
}

/// Whether a call shows what a file holds, or sees to it that it lasts.
fn shows(call: &Call) -> bool {
    matches!(call.effect, Effect::Read | Effect::Splice | Effect::Sync)
}

/// How much a call reads or writes at most.
fn length(inputs: &Inputs) -> u64 {
    inputs.buffers.iter().fold(0, |sum, (_, length)| sum.saturating_add(*length))
}

/// What a call does to mapped memory: the addresses that it writes back, takes away or closes to stores, and which pages
/// there to look at. At the end of a mapping these are all, since some may have been evicted.
fn memory_touched(call: &Call, args: &[u64; 6]) -> Option<(Range<u64>, Look)> {
    const GOING: [i32; 4] = [libc::MADV_DONTNEED, libc::MADV_REMOVE, libc::MADV_COLD, libc::MADV_PAGEOUT];
    let at = mapped::pages(args[0], args[1]);
    match call.effect {
        Effect::MapSync => Some((at, Look::Present)),
        Effect::Unmap | Effect::Remap => Some((at, Look::All)),
        Effect::MapAdvise if call.name == "mprotect" && !permits(args[2]) => Some((at, Look::All)),
        Effect::MapAdvise if call.name == "madvise" && GOING.contains(&(args[2] as i32)) => Some((at, Look::All)),
        Effect::Exit | Effect::Execute => Some((ALL, Look::Present)),
        _ => None,
    }
}

/// The addresses that a call maps, or moves, something else to.
fn replaced(call: &Call, args: &[u64; 6]) -> Option<Range<u64>> {
    match call.effect {
        Effect::Map if args[3] & libc::MAP_FIXED as u64 != 0 => Some(mapped::pages(args[0], args[1])),
        Effect::Remap if args[3] & libc::MREMAP_FIXED as u64 != 0 => Some(mapped::pages(args[4], args[2])),
        _ => None,
    }
}

fn permits(prot: u64) -> bool {
    prot & libc::PROT_WRITE as u64 != 0
}

impl Tracer<'_> {
    /// Something of the tracer, with what it takes to write rows of stores.
    fn with_stores(&mut self, tid: i32, act: impl FnOnce(&mut Mapped, i32, &Writers<'_>, &mut crate::log::Log)) {
        let Some((process, thread)) = self.threads.get(&tid).map(|t| (t.pid, t.thread)) else { return };
        let threads = &self.threads;
        let first = |pid: i32| threads.get(&pid).map(|t| t.thread);
        let writers = Writers { acting: (process, thread), first: &first };
        act(&mut self.mapped, process, &writers, &mut self.log);
    }

    /// Before a call enters the kernel.
    pub(super) fn look_before(&mut self, tid: i32, call: &'static Call, args: &[u64; 6], inputs: &Inputs) {
        if !self.stores {
            return self.count_unseen(call, args);
        }
        if !self.mapped.is_idle() {
            let touched = touched(tid, call, args, length(inputs), true);
            self.with_stores(tid, |mapped, process, writers, log| {
                look(mapped, tid, &touched, writers, log);
                let replaced = replaced(call, args).map(|at| (at, Look::All));
                // Addresses within a page are refused.
                let whole = |at: &Range<u64>| at.start.is_multiple_of(mapped::PAGE);
                for (at, how) in memory_touched(call, args).into_iter().chain(replaced).filter(|(at, _)| whole(at)) {
                    mapped.look(process, at, how, writers, log);
                }
            });
        }
        match call.effect {
            Effect::Map => self.prepare_mapping(tid, args),
            Effect::MapAdvise if call.name == "mprotect" && permits(args[2]) => {
                self.with_stores(tid, |mapped, process, _, _| {
                    mapped.permit(tid, process, mapped::pages(args[0], args[1]));
                });
            }
            _ => {}
        }
    }

    /// Before a request is submitted: what it shows of files was stored until then. Which file is registered with a ring is not
    /// known here.
    pub(super) fn look_before_request(&mut self, tid: i32, asked: &Asked, inputs: &Inputs, is_registered: bool) {
        if !self.stores || self.mapped.is_idle() {
            return;
        }
        let touched = match is_registered {
            true if shows(asked.call) => Touched::Anything,
            true => Touched::Nothing,
            false => touched(tid, asked.call, &asked.args, length(inputs), true),
        };
        self.with_stores(tid, |mapped, _, writers, log| look(mapped, tid, &touched, writers, log));
    }

    /// A request is complete that waited for others: what it has shown may have been stored meanwhile.
    pub(super) fn look_after_request(&mut self, tid: i32, asked: &Asked, result: i64) {
        if failed(result) || !self.stores || self.mapped.is_idle() || !shows(asked.call) {
            return;
        }
        let touched = touched(tid, asked.call, &asked.args, result as u64, false);
        self.with_stores(tid, |mapped, _, writers, log| look(mapped, tid, &touched, writers, log));
    }

    /// Nobody looks: what may be stored from now on is lost.
    fn count_unseen(&mut self, call: &Call, args: &[u64; 6]) {
        let shared = args[3] & libc::MAP_SHARED as u64 != 0 && args[3] & libc::MAP_ANONYMOUS as u64 == 0;
        if call.effect == Effect::Map && shared && permits(args[2]) {
            let cause = "writes through a shared mapping of a file, which were not looked for";
            self.log.loss(Loss::Dropped, cause, args[1]);
        }
    }

    /// A file is about to be mapped: what is in it is learnt before it can be written.
    fn prepare_mapping(&mut self, tid: i32, args: &[u64; 6]) {
        const READ_WRITE: u64 = libc::O_RDWR as u64;
        let (flags, fd) = (args[3], args[4]);
        if flags & libc::MAP_SHARED as u64 == 0 || flags & libc::MAP_ANONYMOUS as u64 != 0 {
            return;
        }
        let writable = procfs::fd_info(tid, fd).is_some_and(|info| info.flags & libc::O_ACCMODE as u64 == READ_WRITE);
        let Some((id, _)) = file(tid, fd).filter(|_| writable) else { return };
        let path = format!("/proc/{tid}/fd/{}", fd as i32);
        if self.world.is_synthetic(&path) {
            return;
        }
        let at = mapped::pages(args[5], args[1]);
        if self.world.is_secret(&path) {
            return self.log.loss(Loss::Dropped, UNREADABLE_PAGES, args[1]);
        }
        match open_quietly(&path) {
            Ok(file) => self.mapped.prepare(tid, Watched { id, file }, &at, permits(args[2])),
            Err(e) => {
                let cause = format!("writes through a shared mapping of a file that cannot be looked at: {}", e.kind());
                self.log.loss(Loss::Dropped, cause, args[1]);
            }
        }
    }

    /// After a call, before its row is written.
    pub(super) fn look_after(&mut self, tid: i32, entered: &Entered, result: i64) {
        if !self.stores {
            return;
        }
        let Entered { call, args, .. } = entered;
        self.look_at_what_was_read(tid, entered, result);
        self.with_stores(tid, |mapped, process, writers, log| {
            moved(mapped, (tid, process), call, args, result);
            if call.effect == Effect::Execute && !failed(result) {
                mapped.ended(process, true, writers, log);
            }
            if !failed(result) && !mapped.is_idle() {
                changed(mapped, tid, call, args, result);
            }
        });
    }

    /// A read is over: what it saw of pages that others went on storing to stands before it.
    fn look_at_what_was_read(&mut self, tid: i32, entered: &Entered, result: i64) {
        const MOST: i64 = 1 << 20;
        let Entered { call, args, inputs, .. } = entered;
        if call.effect != Effect::Read || !(1..=MOST).contains(&result) || self.mapped.is_idle() {
            return;
        }
        let Some((id, _)) = file(tid, args[0]).filter(|(id, _)| self.mapped.watches(*id)) else { return };
        let mut bytes = vec![0; result as usize];
        let done = Memory::Live(tid).gather(&inputs.buffers, &mut bytes);
        let at = part(tid, call, args, result as u64, false).start;
        self.with_stores(tid, |mapped, _, writers, log| mapped.shown(id, (at, &bytes[..done]), writers, log));
    }

    /// A process's memory is gone; if it was killed nobody looked just before.
    pub(super) fn memory_ended(&mut self, tid: i32) {
        let seen = self.threads.get(&tid).is_some_and(|t| t.exit.is_some());
        self.with_stores(tid, |mapped, process, writers, log| mapped.ended(process, seen, writers, log));
    }
}

fn look(mapped: &mut Mapped, tid: i32, touched: &Touched, writers: &Writers<'_>, log: &mut crate::log::Log) {
    match touched {
        Touched::Nothing => {}
        Touched::Part(fd, part) => {
            if let Some((id, _)) = file(tid, *fd).filter(|(id, _)| mapped.watches(*id)) {
                mapped.look_everywhere(Some(id), part, writers, log);
            }
        }
        Touched::Whole(fds) => {
            for (id, _) in fds.iter().flatten().filter_map(|fd| file(tid, *fd)) {
                if mapped.watches(id) {
                    mapped.look_everywhere(Some(id), &ALL, writers, log);
                }
            }
        }
        Touched::Anything => mapped.look_everywhere(None, &ALL, writers, log),
    }
}

/// A call has been successful that may have changed the content of files.
fn changed(mapped: &mut Mapped, tid: i32, call: &Call, args: &[u64; 6], result: i64) {
    use Effect::*;
    let mut written = |fd: u64, part: &Range<u64>| {
        if let Some((id, _)) = file(tid, fd) {
            mapped.written(id, part);
        }
    };
    match call.effect {
        Write if result > 0 => written(args[0], &part(tid, call, args, result as u64, false)),
        Allocate => written(args[0], &ALL),
        Copy if call.name == "sendfile" => written(args[0], &ALL),
        Copy | Splice => written(args[2], &ALL),
        DeviceControl => match ioctl_effect(args[1]) {
            IoctlEffect::Clone | IoctlEffect::CloneRange | IoctlEffect::Allocate(_) => written(args[0], &ALL),
            _ => {}
        },
        Truncate if matches!(call.args[0].kind, ArgKind::Fd(_)) => {
            mapped.resized(file(tid, args[0]).map(|(id, _)| id));
        }
        Truncate => mapped.resized(None),
        Open if may_truncate(call, args) => mapped.resized(None),
        _ => {}
    }
}

/// What a call on mappings has done.
fn moved(mapped: &mut Mapped, (tid, process): (i32, i32), call: &Call, args: &[u64; 6], result: i64) {
    let at = mapped::pages(args[0], args[1]);
    match call.effect {
        Effect::Map if failed(result) => mapped.refused(tid),
        Effect::MapAdvise if call.name == "mprotect" && failed(result) => mapped.permitted(tid),
        _ if failed(result) => {}
        Effect::Map => {
            let at = mapped::pages(result as u64, args[1]);
            mapped.mapped(tid, process, at, args[5], permits(args[2]));
        }
        Effect::Unmap => mapped.change(process, |space| space.unmap(at)),
        Effect::Remap => {
            let to = mapped::pages(result as u64, args[2]);
            mapped.change(process, |space| space.remapped(at, to.clone(), args[3]));
            mapped.grown(process, to);
        }
        Effect::MapAdvise if call.name == "mprotect" => {
            mapped.change(process, |space| space.protect(at, permits(args[2])));
            mapped.permitted(tid);
        }
        Effect::MapAdvise if call.name == "madvise" && args[2] as i32 == libc::MADV_REMOVE => {
            mapped.forget(process, at);
        }
        _ => {}
    }
}
