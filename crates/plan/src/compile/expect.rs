//! What is judged, by the row's check.

use std::borrow::Cow;

use reprise_calls::attributes::{Attributes, NOBODY_KNOWN};
use reprise_calls::{Check, Effect};
use reprise_model::Nature;
use reprise_trace::payload::{Side, split};

use super::arguments::memory;
use super::{CompileError, Compiler, Lowering, passed_on};
use crate::command::{Expect, Listing, Tolerance, Way, entry_hash, within_page};

impl Compiler {
    /// What an issued call is judged by.
    pub(super) fn expectation(&mut self, l: &Lowering<'_>) -> Result<Expect, CompileError> {
        if l.action.result < 0 {
            return Ok(if l.call.check == Check::Nothing { Expect::Nothing } else { Expect::Outcome });
        }
        let output = split(l.call, Side::Output, &l.action.output);
        let structure = output.iter().flatten().next().copied();
        Ok(match l.call.check {
            Check::Nothing => Expect::Nothing,
            Check::Outcome => Expect::Outcome,
            Check::Value => Expect::Value,
            Check::Content => self.returned(l)?,
            Check::Metadata => match structure {
                Some(bytes) => {
                    let mut bytes = self.without_unmet_links(bytes);
                    if l.found.foreign_users {
                        // What they are outside of that user namespace, or of that mount, is not known.
                        let unknown = Some(NOBODY_KNOWN);
                        let owners = Attributes { owner: unknown, group: unknown, ..Attributes::default() };
                        owners.write(bytes.to_mut());
                    }
                    Expect::Metadata(self.store.bytes(&bytes)?, bytes.len() as u64)
                }
                None => Expect::Outcome,
            },
            Check::Listing => self.listing(l)?,
            Check::Names => match (l.action.result, self.store.blobs.content(&l.action.data)?) {
                (1.., Some(names)) if !names.is_empty() => {
                    let length = names.len().min(l.action.result as usize);
                    Expect::Names(self.store.bytes(&names[..length])?, length as u64)
                }
                _ => Expect::Outcome,
            },
        })
    }

    /// Attributes with the link count that a replay can have: names that were never met do not exist there.
    fn without_unmet_links<'a>(&self, structure: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(Attributes { device: Some(device), inode: Some(inode), links: Some(links), .. }) =
            Attributes::decode(structure)
        else {
            return structure.into();
        };
        let unmet = self.world.unmet_links((device, inode));
        if unmet == 0 {
            return structure.into();
        }
        let mut out = structure.to_vec();
        Attributes { links: Some(links.saturating_sub(unmet)), ..Attributes::default() }.write(&mut out);
        out.into()
    }

    fn returned(&mut self, l: &Lowering<'_>) -> Result<Expect, CompileError> {
        let length = l.action.result as u64;
        let kept = l.action.data.len() as u64 * reprise_trace::CHUNK_BYTES as u64;
        if l.action.truncated_bytes > 0 || length == 0 || kept < length || l.found.reads_lost {
            return Ok(Expect::Value);
        }
        let address = memory(l).filter(|_| passed_on::keeps_place(length));
        let Some(at) = self.store.content(&l.action.data, address.map_or(0, within_page))? else {
            return Ok(Expect::Value);
        };
        if let (Some(address), [blob]) = (address, &l.action.data[..]) {
            self.passed_on.read(l.action.thread, address, length, *blob, at);
        }
        Ok(Expect::Content(at, length))
    }

    /// [`Command::digest`](crate::command::Command::digest) of what is expected, where there is room for it.
    pub(super) fn digest(&mut self, l: &Lowering<'_>, expect: Expect) -> Result<u64, CompileError> {
        match (expect, &l.action.data[..]) {
            (Expect::Content(_, length), [blob]) if Way::of(l.call.number).is_some() => {
                self.store.digest(*blob, length)
            }
            _ => Ok(0),
        }
    }

    fn listing(&mut self, l: &Lowering<'_>) -> Result<Expect, CompileError> {
        let Some(reprise_model::Listing { number, begins, as_opened, names }) = &l.found.listing else {
            return Ok(Expect::Outcome);
        };
        let sum = names.iter().flatten().fold(0u128, |sum, name| sum.wrapping_add(entry_hash(name)));
        let listing = Listing {
            begins: if *begins { 1 + u64::from(*as_opened) } else { 0 },
            ends: names.is_some().into(),
            entries: names.as_ref().map_or(0, |n| n.len() as u64),
            sum_low: sum as u64,
            sum_high: (sum >> 64) as u64,
        };
        Ok(Expect::Listing(*number, self.store.bytes(&listing.to_bytes())?))
    }

    /// What differs whatever a replay does.
    pub(super) fn tolerance(&self, l: &Lowering<'_>) -> Tolerance {
        const SEEK_DATA: u64 = 3;
        match l.found.nature {
            Nature::Pseudo => return Tolerance::Pseudo,
            Nature::Device => return Tolerance::Machine,
            Nature::RandomDevice => return Tolerance::Random,
            Nature::Ordinary | Nature::SafeDevice | Nature::Stream => {}
        }
        match l.call.effect {
            _ if l.action.is_amid() => Tolerance::Amid,
            Effect::Seek if l.action.args[2] >= SEEK_DATA => Tolerance::Machine,
            Effect::Read | Effect::MappedRead | Effect::Copy | Effect::Splice if l.found.mapped_file => {
                Tolerance::Mapping
            }
            _ => Tolerance::None,
        }
    }
}
