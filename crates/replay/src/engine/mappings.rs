//! Mappings of traced programs: made, changed and ended, and what was read and written through them. Their memory is
//! touched by the kernel only, on this process's behalf: where a file has become too short that is an error, no signal.

use std::sync::{PoisonError, RwLock};

use reprise_calls::Effect;
use reprise_plan::InitialMapping;
use reprise_plan::command::{Arg, Command};

use super::arguments::Range;
use super::failure::Stop;
use super::lock;
use super::memory::Region;
use super::thread::{Done, Worker};
use crate::log::{Code, Difference, Handling};

/// A mapping slot that is filled.
#[derive(Debug)]
pub(super) struct Held {
    region: Region,
    /// Whose it is. It ends with the last of them.
    processes: Vec<u32>,
}

impl Held {
    /// A process has it no more: true if nobody has.
    fn leave(&mut self, process: u32) -> bool {
        self.processes.retain(|holder| *holder != process);
        self.processes.is_empty()
    }

    /// Whether others have it too.
    fn is_others(&self, process: u32) -> bool {
        self.processes.iter().any(|holder| *holder != process)
    }
}

fn value(command: &Command, i: usize) -> Result<u64, Stop> {
    match command.args.get(i) {
        Some(Arg::Value(v)) => Ok(*v),
        None => Ok(0),
        Some(_) => Err(Stop::Damaged("an argument is not of the kind that its call takes")),
    }
}

fn outside(command: &Command) -> Done {
    Done::not_issued(Handling::Skipped, command, Difference::left_out(Code::MappingRange))
}

/// Loads or stores, once more with the pages opened if there was less than in the trace: forked processes have the mappings in common
/// here, and what one of them closes, or another opens, the others need not.
fn opening(traced: i64, open: impl Fn() -> Option<()>, mut act: impl FnMut() -> Option<i64>) -> Option<i64> {
    let result = act();
    let is_less = result.is_some_and(|result| result < traced);
    if is_less && open().is_some() { act() } else { result }
}

impl Worker {
    fn mapping(&self, slot: u32) -> Result<&'static RwLock<Option<Held>>, Stop> {
        let engine = self.engine;
        engine.mappings.get(slot as usize).ok_or(Stop::Damaged("there is no such mapping slot"))
    }

    pub(super) fn map(&mut self, command: &Command) -> Result<Done, Stop> {
        if i64::from(command.number) != libc::SYS_mmap {
            return Err(Stop::Damaged("its call maps nothing"));
        }
        let (length, prot, flags) = (value(command, 1)?, value(command, 2)?, value(command, 3)?);
        let (fd, offset) = (self.descriptor(command, 4)?, value(command, 5)?);
        let slot = command.produces[0];
        if slot == u32::MAX {
            if let Some(Arg::Mapped(slot, delta)) = command.args.first().copied() {
                let held = self.mapping(slot)?.write().unwrap_or_else(PoisonError::into_inner);
                let result = held.as_ref().and_then(|h| h.region.replace(delta, length, prot, flags, fd, offset));
                return match result {
                    Some(result) => self.judged_number(command, result),
                    None => Ok(outside(command)),
                };
            }
            // The traced call failed: this one should, too.
            let result = Region::new(length, prot, flags, fd, offset).map_or_else(|e| e, |_| 0);
            return self.judged_number(command, result);
        }
        let place = self.mapping(slot)?;
        let result = match Region::new(length, prot, flags, fd, offset) {
            Ok(region) => self.hold(slot, place, region),
            Err(error) => error,
        };
        self.judged_number(command, result)
    }

    /// This process has a mapping more.
    fn hold(&self, slot: u32, place: &RwLock<Option<Held>>, region: Region) -> i64 {
        let held = Held { region, processes: vec![self.process] };
        let old = place.write().unwrap_or_else(PoisonError::into_inner).replace(held);
        drop(old);
        lock(&self.engine.mapped).entry(self.process).or_default().push(slot);
        0
    }

    /// `mremap` that leaves the old range where it is.
    fn map_once_more(&self, command: &Command, slot: u32, delta: u64) -> Result<Option<i64>, Stop> {
        let made = {
            let old = self.mapping(slot)?.read().unwrap_or_else(PoisonError::into_inner);
            let (length, new_length) = (value(command, 1)?, value(command, 2)?);
            old.as_ref().and_then(|held| held.region.once_more(delta, length, new_length))
        };
        let slot = command.produces[0];
        let place = self.mapping(slot)?;
        Ok(made.map(|made| made.map_or_else(|error| error, |region| self.hold(slot, place, region))))
    }

    /// Maps a file that a process had mapped before the first action.
    pub(super) fn mapped_at_start(&self, process: u32, start: &InitialMapping, fd: i32) -> Result<i64, Stop> {
        let (prot, flags) = (start.protection.into(), start.flags.into());
        let region = match Region::new(start.length, prot, flags, fd, start.offset) {
            Ok(region) => region,
            Err(error) => return Ok(error),
        };
        let held = Held { region, processes: vec![process] };
        *self.mapping(start.slot)?.write().unwrap_or_else(PoisonError::into_inner) = Some(held);
        lock(&self.engine.mapped).entry(process).or_default().push(start.slot);
        Ok(0)
    }

    pub(super) fn on_mapping(&mut self, command: &Command) -> Result<Done, Stop> {
        let Some(Arg::Mapped(slot, delta)) = command.args.first().copied() else {
            return Err(Stop::Damaged("it names no mapping"));
        };
        let call = Self::call(command)?;
        if matches!(call.effect, Effect::MappedRead | Effect::MappedWrite) {
            return self.through_mapping(command, call.effect, slot, delta);
        }
        let place = self.mapping(slot)?;
        let length = value(command, 1)?;
        let result = match i64::from(command.number) {
            libc::SYS_munmap => {
                let mut held = place.write().unwrap_or_else(PoisonError::into_inner);
                match held.as_mut() {
                    Some(h) if h.region.is_whole(delta, length) => {
                        if h.leave(self.process) {
                            *held = None;
                        }
                        Some(0)
                    }
                    // Another process has it still.
                    Some(h) if h.is_others(self.process) => Some(0),
                    Some(h) => h.region.release(delta, length),
                    None => None,
                }
            }
            libc::SYS_mremap if command.produces[0] != u32::MAX => self.map_once_more(command, slot, delta)?,
            libc::SYS_mremap => {
                let mut held = place.write().unwrap_or_else(PoisonError::into_inner);
                match held.as_mut() {
                    Some(h) if h.region.is_whole(delta, length) => Some(h.region.resize(value(command, 2)?)),
                    _ => None,
                }
            }
            libc::SYS_mincore => {
                let held = place.read().unwrap_or_else(PoisonError::into_inner);
                held.as_ref().and_then(|h| h.region.residency(delta, length, &mut self.scratch))
            }
            call => {
                let third = value(command, 2)?;
                let held = place.read().unwrap_or_else(PoisonError::into_inner);
                held.as_ref().and_then(|h| h.region.advise(call as u32, delta, length, third))
            }
        };
        match result {
            Some(result) => self.judged_number(command, result),
            None => Ok(outside(command)),
        }
    }

    /// Loads and stores: `mmap_pread` and `mmap_pwrite`.
    fn through_mapping(&mut self, command: &Command, effect: Effect, slot: u32, delta: u64) -> Result<Done, Stop> {
        let place = self.mapping(slot)?;
        let held = place.read().unwrap_or_else(PoisonError::into_inner);
        let Some(region) = held.as_ref().map(|held| &held.region) else {
            return Ok(outside(command));
        };
        let mut filled = Range::default();
        let result = if effect == Effect::MappedRead {
            let length = value(command, 2)?;
            let open = || region.open(delta, length, false);
            let result = opening(command.result, open, || region.load(delta, length, &mut self.scratch));
            filled.length = result.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            result
        } else {
            let content = self.engine.sections.content(command.args.get(1))?;
            let open = || region.open(delta, content.len() as u64, true);
            opening(command.result, open, || region.store(delta, content))
        };
        drop(held);
        match result {
            Some(result) => self.judged(command, result, filled),
            None => Ok(outside(command)),
        }
    }

    /// A forked process has the mappings of this one. What it stores to private ones nobody sees.
    pub(super) fn inherit_mappings(&self, process: u32) {
        let mut mapped = lock(&self.engine.mapped);
        let mut inherited = Vec::new();
        for &slot in mapped.get(&self.process).into_iter().flatten() {
            let Ok(place) = self.mapping(slot) else { continue };
            let mut held = place.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(held) = held.as_mut().filter(|held| held.processes.contains(&self.process)) {
                held.processes.push(process);
                inherited.push(slot);
            }
        }
        mapped.entry(process).or_default().extend(inherited);
    }

    /// Ends all mappings that this process has.
    pub(super) fn unmap_all(&self) {
        let slots = lock(&self.engine.mapped).remove(&self.process).unwrap_or_default();
        for slot in slots {
            let Ok(place) = self.mapping(slot) else {
                continue;
            };
            let mut held = place.write().unwrap_or_else(PoisonError::into_inner);
            // The slot may have been filled again by another process.
            if held.as_mut().is_some_and(|h| h.processes.contains(&self.process) && h.leave(self.process)) {
                *held = None;
            }
        }
    }
}
