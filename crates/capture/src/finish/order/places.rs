//! Where calls begin: in the working directory, and at numbers of open files; and who makes others begin elsewhere.
//!
//! A call that waits (for a directory, for the disk) has found its way, and has its files in hand, since it began; another
//! thread may have gone elsewhere, or closed their numbers, by the time it returns. Non-goals: `chroot`; pipes, sockets and
//! locks, where a call waits for others.

use reprise_calls::{ArgKind, Effect};
use reprise_initial::Seat;

use super::super::decode::Pending;
use super::super::told::Told;
use super::{Teller, Thing, is_plain, thing};
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
        let directories = directories(pending).map(|fd| match fd {
            libc::AT_FDCWD => place(),
            fd => self.number(seat, fd as u64),
        });
        let files = files(pending).map(|fd| self.number(seat, fd));
        directories.chain(files).zip(&mut told.begins_at).for_each(|(thing, at)| *at = Some(thing));
    }
}

/// At which directories the paths of a call begin.
pub(super) fn directories(pending: &Pending) -> impl Iterator<Item = i32> {
    let action = &pending.action;
    let paths = pending.call.paths().zip([&action.path, &action.path2]);
    let relative = paths.filter(|(_, path)| path.as_ref().is_some_and(|p| !p.0.is_empty() && !p.0.starts_with(b"/")));
    relative.map(|(argument, _)| argument.dirfd.map_or(libc::AT_FDCWD, |i| action.args[i] as i32))
}

/// Numbers of files that a call has in hand as long as it lasts.
fn files(pending: &Pending) -> impl Iterator<Item = u64> {
    use Effect::*;
    let holds = matches!(
        pending.call.effect,
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
    );
    let numbers =
        pending.call.args.iter().zip(pending.action.args).filter(|(arg, _)| matches!(arg.kind, ArgKind::Fd(_)));
    numbers.map(|(_, fd)| fd & 0xffff_ffff).filter(move |fd| holds && is_plain(pending, *fd))
}
