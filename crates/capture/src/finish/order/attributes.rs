//! What calls tell of the permissions of files, and of the mask that new ones are made with.

use reprise_calls::{ArgKind, Effect, acl};
use reprise_initial::{Seat, World};
use reprise_trace::payload::{Side, split};

use super::super::decode::Pending;
use super::super::facts;
use super::super::told::{Change, Condition, Found, Told};
use super::content::regular;
use super::{Teller, Thing, thing};
use crate::arguments::failed;
use crate::spool::record::Object;

/// Other bits of a mode the kernel takes away by itself.
const PERMISSIONS: u64 = 0o777;

impl Teller {
    pub(super) fn attributes(&mut self, world: &mut World, seat: Seat, pending: &Pending, out: &mut Told) {
        if failed(pending.action.result) {
            return;
        }
        let mask = thing(Thing::Mask, seat.places().into(), 0);
        match pending.call.effect {
            Effect::ChangeMask => {
                let (is, was) = (pending.action.args[0] & PERMISSIONS, pending.action.result as u64);
                out.all.push(Condition::new(mask, Found::Exactly(was), Change::To(is)));
            }
            // Another call may have changed the permissions before the open was over.
            _ => out.likely.extend(made_under(pending).map(|found| Condition::new(mask, found, Change::Nothing))),
        }
        let given = given(pending);
        self.has_modes |= given.is_some();
        if self.has_modes {
            self.modes(world, seat, pending, given, out);
        }
    }

    /// Permissions of files: those given, those seen at open files, and those told by `stat`.
    fn modes(&self, world: &mut World, seat: Seat, pending: &Pending, given: Option<Change>, out: &mut Told) {
        let change = given.unwrap_or(Change::Nothing);
        for object in regular(pending) {
            let is_made = made(pending).is_some_and(|made| made.fd == object.fd);
            let change = if is_made { Change::Unknown } else { change };
            let mode = thing(Thing::Mode, object.device, object.inode);
            let seen = u64::from(object.mode) & PERMISSIONS;
            out.all.push(Condition::new(mode, Found::Anything, change).then(seen));
        }
        if given.is_some()
            && pending.objects.is_empty()
            && let Some((device, inode)) = self.named(world, seat, pending)
        {
            out.all.push(Condition::new(thing(Thing::Mode, device, inode), Found::Anything, change));
        }
        let stat = facts::stat(pending.call, &pending.action.output);
        if let Some(stat) = stat.filter(|stat| stat.mode & libc::S_IFMT == libc::S_IFREG)
            && let Some((device, inode)) = stat.identity
        {
            let found = Found::Exactly(u64::from(stat.mode) & PERMISSIONS);
            // The number may be that of a file which stood there before.
            out.likely.push(Condition::new(thing(Thing::Mode, self.device(device), inode), found, Change::Nothing));
        }
    }
}

/// What a call makes of the permissions of a file; which ones come with an access list is not asked.
fn given(pending: &Pending) -> Option<Change> {
    match pending.call.effect {
        Effect::ChangeMode => {
            let wanted = pending.call.position(|kind| matches!(kind, ArgKind::Mode))?;
            Some(Change::To(pending.action.args[wanted] & PERMISSIONS))
        }
        Effect::SetXattr => {
            let named = pending.call.position(|kind| matches!(kind, ArgKind::Text))?;
            let name = split(pending.call, Side::Input, &pending.action.input)[named]?;
            (name == acl::ACCESS).then_some(Change::Unknown)
        }
        _ => None,
    }
}

/// The file that an open made.
fn made(pending: &Pending) -> Option<&Object> {
    let opened = pending.object(pending.action.result as u64).filter(|_| pending.call.effect == Effect::Open)?;
    (facts::object(opened).made == Some(true)).then_some(opened)
}

/// Under which masks an open can have made its file with the permissions that it has.
fn made_under(pending: &Pending) -> Option<Found> {
    let made = made(pending)?;
    let wanted = pending.call.position(|kind| matches!(kind, ArgKind::Mode))?;
    let (wanted, has) = (pending.action.args[wanted], u64::from(made.mode));
    let (wanted, has) = (wanted & PERMISSIONS, has & PERMISSIONS);
    (has & !wanted == 0).then_some(Found::Bits { of: wanted, are: wanted & !has })
}
