//! Mappings of files that were there at the beginning, and what calls do to mappings.
//!
//! Goals: the state when the trace begins, from a look before it and the calls since; rows of it. Non-goals: private mappings
//! of programs and libraries.

use std::rc::Rc;

use reprise_calls::{Call, Effect};
use reprise_trace::{Loss, Mapping, Name};

use super::decode::Pending;
use super::write::Writing;
use crate::arguments::failed;
use crate::mapped::space::{Piece, Shown, Space, pages};
use crate::spool::record::Object;
use crate::spool::{BeganMapping, BeganProcess, code};

/// A call on mappings, as it was made.
pub struct Called<'a> {
    pub call: &'a Call,
    pub args: &'a [u64; 6],
    pub result: i64,
    pub objects: &'a [Object],
}

impl<'a> Called<'a> {
    pub fn of(pending: &'a Pending) -> Called<'a> {
        let Pending { call, action, objects, .. } = pending;
        Called { call, args: &action.args, result: action.result, objects }
    }

    /// The regular file that it maps.
    pub fn file(&self) -> Option<&Object> {
        let maps = self.call.effect == Effect::Map && self.args[3] & libc::MAP_ANONYMOUS as u64 == 0;
        self.objects.first().filter(|object| maps && object.mode & libc::S_IFMT == libc::S_IFREG)
    }

    /// Whether it maps a file so that stores reach that.
    pub fn is_shared(&self) -> bool {
        let flags = self.args[3];
        flags & libc::MAP_SHARED as u64 != 0 && flags & libc::MAP_ANONYMOUS as u64 == 0
    }

    /// What it does to the mappings of its process; `file`: what it maps there, if that is followed.
    pub fn change<F: Shown>(&self, space: &mut Space<F>, file: Option<F>) {
        let (args, result) = (self.args, self.result);
        if failed(result) {
            return;
        }
        let at = pages(args[0], args[1]);
        match (self.call.effect, file) {
            (Effect::Map, Some(file)) => {
                let writable = args[2] & libc::PROT_WRITE as u64 != 0;
                space.map(Piece { at: pages(result as u64, args[1]), offset: args[5], file, writable });
            }
            (Effect::Map, None) => space.unmap(pages(result as u64, args[1])),
            (Effect::Unmap, _) => space.unmap(at),
            (Effect::Remap, _) => space.remapped(at, pages(result as u64, args[2]), args[3]),
            (Effect::MapAdvise, _) if self.call.name == "mprotect" => {
                space.protect(at, args[2] & libc::PROT_WRITE as u64 != 0);
            }
            _ => {}
        }
    }
}

impl Shown for Rc<BeganMapping> {
    type File = (u64, u64);

    fn file(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// What a process had mapped when it was looked at, changed by calls since.
#[derive(Debug, Clone, Default)]
pub struct Began(Space<Rc<BeganMapping>>);

impl Began {
    pub fn of(process: &BeganProcess) -> Began {
        let mut space = Space::default();
        for m in &process.mappings {
            let writable = m.protection & libc::PROT_WRITE as u32 != 0;
            space.map(Piece { at: m.begin..m.end, offset: m.offset, file: Rc::new(m.clone()), writable });
        }
        Began(space)
    }

    /// A call has changed something; `path` of the file that it maps.
    pub fn called(&mut self, called: &Called<'_>, path: &str) {
        let file = called.file().map(|object| {
            Rc::new(BeganMapping {
                protection: called.args[2] as u32,
                shared: called.is_shared(),
                device: object.device,
                inode: object.inode,
                path: path.to_owned(),
                ..BeganMapping::default()
            })
        });
        called.change(&mut self.0, file);
    }

    /// The mappings now.
    pub fn mappings(&self) -> Vec<BeganMapping> {
        const WRITE: u32 = libc::PROT_WRITE as u32;
        let now = self.0.pieces().map(|piece| BeganMapping {
            begin: piece.at.start,
            end: piece.at.end,
            offset: piece.offset,
            protection: piece.file.protection & !WRITE | if piece.writable { WRITE } else { 0 },
            ..BeganMapping::clone(&piece.file)
        });
        now.collect()
    }
}

impl Writing {
    /// Writes what a process had mapped of files, and follows it from now on.
    pub(super) fn mappings(&mut self, number: u32, process: &BeganProcess) {
        let code = code(&process.mappings);
        for m in process.mappings.iter().filter(|m| m.is_data(&code)) {
            let file = (m.device, m.inode);
            let stores = m.shared && m.protection & libc::PROT_WRITE as u32 != 0;
            if stores && !self.world.stores_are_told {
                let cause = "writes through a shared mapping of a file that was made before the recording";
                self.log.loss(Loss::Dropped, cause, m.end.saturating_sub(m.begin));
            }
            let writable = m.protection & libc::PROT_WRITE as u32 != 0;
            let piece = Piece { at: m.begin..m.end, offset: m.offset, file, writable };
            if m.shared {
                self.stores.began(process.pid, piece.clone());
            }
            self.loads.began(process.pid, Piece { writable: false, ..piece });
            self.log.mapping(Mapping {
                process: number,
                address: m.begin,
                length: m.end.saturating_sub(m.begin),
                protection: m.protection,
                flags: if m.shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE } as u32,
                offset: m.offset,
                device: m.device,
                inode: m.inode,
                path: self.present.hidden(file).unwrap_or_else(|| Name::from_text(&m.path)),
            });
        }
    }
}
