//! What calls tell of the directory in which processes work: who began there, and who moved it.
//!
//! A call that waits (for a directory, for the disk) has found its way before; another thread may have gone elsewhere by the time
//! it returns. Non-goals: `chroot`.

use reprise_calls::Effect;
use reprise_initial::Seat;

use super::super::decode::Pending;
use super::super::told::Told;
use super::{Thing, thing};
use crate::arguments::failed;

pub(super) fn told(seat: Seat, pending: &Pending, told: &mut Told) {
    let place = thing(Thing::Place, seat.places().into(), 0);
    let moves = pending.call.effect == Effect::ChangeDirectory && !failed(pending.action.result);
    told.moves = moves.then_some(place);
    told.begins_at = begins_there(pending).then_some(place);
}

/// Whether a path of a call begins in the working directory.
fn begins_there(pending: &Pending) -> bool {
    let action = &pending.action;
    pending.call.paths().zip([&action.path, &action.path2]).any(|(argument, path)| {
        let dirfd = argument.dirfd.map_or(libc::AT_FDCWD, |i| action.args[i] as i32);
        let is_relative = path.as_ref().is_some_and(|path| !path.0.is_empty() && !path.0.starts_with(b"/"));
        dirfd == libc::AT_FDCWD && is_relative
    })
}
