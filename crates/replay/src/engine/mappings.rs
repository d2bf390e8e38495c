//! Mappings of traced programs: made, changed and ended, never touched.

use std::sync::{PoisonError, RwLock};

use reprise_plan::command::{Arg, Command};

use super::failure::Stop;
use super::lock;
use super::memory::Region;
use super::thread::{Done, Worker};
use crate::log::{Code, Difference, Handling};

/// A mapping slot that is filled.
#[derive(Debug)]
pub(super) struct Held {
    region: Region,
    process: u32,
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
            Ok(region) => {
                let held = Held { region, process: self.process };
                let old = place.write().unwrap_or_else(PoisonError::into_inner).replace(held);
                drop(old);
                lock(&self.engine.mapped).entry(self.process).or_default().push(slot);
                0
            }
            Err(error) => error,
        };
        self.judged_number(command, result)
    }

    pub(super) fn on_mapping(&mut self, command: &Command) -> Result<Done, Stop> {
        let Some(Arg::Mapped(slot, delta)) = command.args.first().copied() else {
            return Err(Stop::Damaged("it names no mapping"));
        };
        let place = self.mapping(slot)?;
        let length = value(command, 1)?;
        let result = match i64::from(command.number) {
            libc::SYS_munmap => {
                let mut held = place.write().unwrap_or_else(PoisonError::into_inner);
                match held.as_ref() {
                    Some(h) if h.region.is_whole(delta, length) => {
                        *held = None;
                        Some(0)
                    }
                    Some(h) => h.region.release(delta, length),
                    None => None,
                }
            }
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

    /// Ends all mappings that this process has made.
    pub(super) fn unmap_all(&self) {
        let slots = lock(&self.engine.mapped).remove(&self.process).unwrap_or_default();
        for slot in slots {
            let Ok(place) = self.mapping(slot) else {
                continue;
            };
            let mut held = place.write().unwrap_or_else(PoisonError::into_inner);
            // The slot may have been filled again by another process.
            if held.as_ref().is_some_and(|h| h.process == self.process) {
                *held = None;
            }
        }
    }
}
