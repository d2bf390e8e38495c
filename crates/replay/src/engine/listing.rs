//! Directory listings: file systems deliver the same names in any order and any partition over calls, so what is
//! compared is the sum over a whole listing.

use reprise_calls::brought::is_stand_in;
use reprise_plan::command::{Command, Expect, Listing, Tolerance, entry_hash};

use super::failure::{Failure, Stop};
use super::thread::{Done, Worker};
use super::{Verify, issue, lock};
use crate::log::{Class, Code, Difference};

/// What was listed since the directory was opened or rewound.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    entries: u64,
    hash: u128,
}

impl Sum {
    /// Adds the entries of `struct linux_dirent64` (`wide`) or `struct linux_dirent`.
    fn add(&mut self, mut bytes: &[u8], wide: bool) {
        let names_at = if wide { 19 } else { 18 };
        while let Some(length) = bytes.get(16..18) {
            let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
            let Some((entry, rest)) = bytes.split_at_checked(length).filter(|_| length > names_at) else {
                return;
            };
            bytes = rest;
            let name = entry[names_at..].split(|b| *b == 0).next().unwrap_or_default();
            if name != b"." && name != b".." && !is_stand_in(name) {
                self.entries += 1;
                self.hash = self.hash.wrapping_add(entry_hash(name));
            }
        }
    }
}

impl Worker {
    pub(super) fn list(&mut self, command: &Command) -> Result<Done, Stop> {
        let wide = match i64::from(command.number) {
            libc::SYS_getdents64 => true,
            libc::SYS_getdents => false,
            _ => return Err(Stop::Damaged("its call lists no directory")),
        };
        let from = self.descriptor(command, 0)?;
        let Some(prepared) = self.prepared(command)? else {
            return Ok(Self::refused(command));
        };
        let expected = self.expected(command)?;
        // Btrfs lists what there was at the opening or the last rewinding; others, what there is. At a listing's begin
        // the position is the begin already.
        if expected.is_some_and(|(_, wanted)| wanted.begins == 1) {
            issue::rewind(from);
        }
        let result = self.call_kernel(command.number, &prepared.checked);
        let mut done = self.judged(command, result, Default::default())?;
        let (Some((number, wanted)), true) = (expected, result >= 0) else {
            return Ok(done);
        };
        let known = if wanted.begins != 0 { None } else { lock(&self.engine.listings).remove(&number) };
        let mut sum = known.unwrap_or_default();
        let filled = prepared.filled.unwrap_or_default();
        let returned = self.scratch.bytes(filled.at, filled.length.min(result as usize));
        sum.add(returned, wide);
        self.listed.extend_from_slice(returned);
        if wanted.ends != 1 {
            lock(&self.engine.listings).insert(number, sum);
            return Ok(done);
        }
        if result > 0 {
            self.drain(command.number, from, wide, &mut sum)?;
        }
        done.result = command.result;
        let same =
            sum.entries == wanted.entries && sum.hash == u128::from(wanted.sum_low) | u128::from(wanted.sum_high) << 64;
        if !same && self.engine.settings.verify != Verify::Off {
            done.difference = Difference::new(Code::Listing, sum.entries, wanted.entries);
            if command.tolerance != Tolerance::None {
                done.difference.class = Class::Unavoidable;
                done.difference.tolerance = command.tolerance as u8;
            }
        }
        Ok(done)
    }

    /// The number of the listing, and what it should amount to.
    fn expected(&self, command: &Command) -> Result<Option<(u64, Listing)>, Stop> {
        let Expect::Listing(number, offset) = command.expect else {
            return Ok(None);
        };
        let at = offset as usize;
        let words = self.engine.sections.bytes.get(at..at.saturating_add(Listing::BYTES as usize));
        let words = words.and_then(|w| <&[u8; 40]>::try_from(w).ok());
        let words = words.ok_or(Stop::Damaged("what is expected lies outside its section"))?;
        Ok(Some((number, Listing::from_bytes(words))))
    }

    /// The trace's listing came to its end here; this one must too.
    fn drain(&mut self, call: u32, from: i32, wide: bool, sum: &mut Sum) -> Result<(), Stop> {
        if !self.scratch.reserve(32 << 10) {
            return Err(Failure::system("get memory to list", -i64::from(libc::ENOMEM)).into());
        }
        loop {
            let result = issue::list(call, from, &mut self.scratch);
            if result <= 0 {
                return Ok(());
            }
            if self.engine.counters.stopping() {
                return Err(Stop::Told);
            }
            let returned = self.scratch.bytes(0, result as usize);
            sum.add(returned, wide);
            self.listed.extend_from_slice(returned);
        }
    }
}
