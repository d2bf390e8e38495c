//! Where calls begin: in the working directory, and at numbers of open files; and who makes others begin elsewhere.
//!
//! A call that waits (for a directory, for the disk) has found its way, and has its files in hand, since it began; another
//! thread may have gone elsewhere, or closed their numbers, by the time it returns. Non-goals: `chroot`; pipes, sockets and
//! locks, where a call waits for others.

use reprise_calls::Effect;
use reprise_initial::Seat;

use super::super::decode::Pending;
use super::super::told::Told;
use super::{Teller, Thing, files, is_plain, thing};
use crate::arguments::failed;

impl Teller {
    pub(super) fn places(&self, seat: Seat, pending: &Pending, told: &mut Told) {
        let action = &pending.action;
        let place = || thing(Thing::Place, seat.places().into(), 0);
        told.moves = match pending.call.effect {
            _ if failed(action.result) => None,
            Effect::ChangeDirectory => Some(place()),
            Effect::Close => Some(self.number(seat, action.args[0])),
            Effect::DuplicateTo => Some(self.number(seat, action.args[1])),
            _ => None,
        };
        told.turns = told.moves.is_some() && pending.call.effect == Effect::ChangeDirectory;
        let directories = directories(pending).map(|fd| match fd {
            libc::AT_FDCWD => place(),
            fd => self.number(seat, fd as u64),
        });
        let held = files(pending).map(|fd| u64::from(fd as u32));
        let held = held.filter(|fd| holds_files(pending.call.effect) && is_plain(pending, *fd));
        let files = held.map(|fd| self.number(seat, fd));
        let here = pending.call.is_about_working_directory(&action.args, action.result).then(place);
        directories.chain(here).chain(files).zip(&mut told.begins_at).for_each(|(thing, at)| *at = Some(thing));
    }
}

/// At which directories the paths of a call begin.
pub(super) fn directories(pending: &Pending) -> impl Iterator<Item = i32> {
    let action = &pending.action;
    let paths = pending.call.paths().zip([&action.path, &action.path2]);
    let relative = paths.filter(|(_, path)| path.as_ref().is_some_and(|p| !p.0.is_empty() && !p.0.starts_with(b"/")));
    relative.map(|(argument, _)| argument.dirfd.map_or(libc::AT_FDCWD, |i| action.args[i] as i32))
}

/// Whether a call has the files that it was given in hand as long as it lasts.
fn holds_files(effect: Effect) -> bool {
    use Effect::*;
    matches!(
        effect,
        Read | Write
            | Truncate
            | Allocate
            | Copy
            | Sync
            | SyncAll
            | GetMetadata
            | GetXattr
            | ListXattr
            | StatFs
            | ChangeMode
            | ChangeOwner
            | ChangeTimes
            | SetXattr
            | RemoveXattr
            | List
    )
}
