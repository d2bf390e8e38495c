//! When a call took effect, and what its result tells of what it found: the cause goes before what it causes.
//!
//! What gives (the end of a descriptor, bytes into a pipe, a lock that is released) has taken effect at the latest when
//! somebody else sees it, and cannot have before it began: it stands at its begin. What takes stands at its end. So a
//! cause stands before its effect whatever the clocks of their returns say.

use reprise_calls::{ArgKind, Call, Effect, FlagSet, Returns};
use reprise_initial::{Seat, World};

use super::decode::Pending;
use super::facts;
use super::window::Condition;
use crate::arguments::failed;
use crate::spool::record::Object;

const EBADF: i64 = -(libc::EBADF as i64);
const ENOENT: i64 = -(libc::ENOENT as i64);
const EEXIST: i64 = -(libc::EEXIST as i64);

/// When it took effect, as far as it tells itself.
pub fn takes_effect_ns(pending: &Pending) -> u64 {
    let (action, call) = (&pending.action, pending.call);
    let gives = match call.effect {
        Effect::Close | Effect::CloseRange => true,
        Effect::Lock => action.args[1] & libc::LOCK_UN as u64 != 0,
        Effect::Write | Effect::Copy => !failed(action.result) && !is_plain(pending, action.args[0]),
        Effect::Splice => !failed(action.result) && !is_plain(pending, action.args[2]),
        Effect::Message => !failed(action.result) && sends(call),
        _ => false,
    };
    if gives { action.begin_ns } else { action.end_ns() }
}

fn sends(call: &Call) -> bool {
    matches!(call.name, "sendto" | "sendmsg" | "sendmmsg" | "connect" | "shutdown")
}

/// Whether a descriptor names a file that keeps what is written.
fn is_plain(pending: &Pending, fd: u64) -> bool {
    pending.object(fd).is_none_or(|o| !matches!(o.mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFSOCK | 0))
}

/// What a call found and left.
pub fn conditions(world: &mut World, seat: Seat, pending: &mut Pending) -> Vec<Condition> {
    let mut out = Vec::new();
    descriptors(seat, pending, &mut out);
    offsets(pending, &mut out);
    sizes(pending, &mut out);
    names(world, seat, pending, &mut out);
    out
}

/// Kinds of things, mixed into their numbers.
#[derive(Debug, Clone, Copy)]
enum Thing {
    Descriptor = 1,
    Name = 2,
    Offset = 3,
    Size = 4,
}

fn thing(kind: Thing, one: u64, other: u64) -> u64 {
    let mix = |n: u64| (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mix(mix(one.wrapping_add(kind as u64)).wrapping_add(other))
}

fn descriptors(seat: Seat, pending: &Pending, out: &mut Vec<Condition>) {
    let (call, action) = (pending.call, &pending.action);
    let number = |fd: u64| thing(Thing::Descriptor, seat.table().into(), fd & 0xffff_ffff);
    let ok = !failed(action.result);
    match call.effect {
        Effect::Close if ok => {
            out.push(Condition { thing: number(action.args[0]), found: Some(1), left: Some(0), lasts: false });
        }
        Effect::DuplicateTo if ok => {
            out.push(Condition { thing: number(action.args[1]), found: None, left: Some(1), lasts: false });
        }
        _ => {
            let used = call.args.iter().zip(action.args).filter(|(arg, _)| matches!(arg.kind, ArgKind::Fd(_)));
            let used = used.map(|(_, fd)| fd).filter(|fd| (*fd as i32) >= 0);
            for fd in used.take(if action.result == EBADF { 1 } else { 2 }) {
                let open = u64::from(action.result != EBADF);
                out.push(Condition { thing: number(fd), found: Some(open), left: None, lasts: false });
            }
        }
    }
    if ok && call.returns == Returns::Fd {
        out.push(Condition { thing: number(action.result as u64), found: Some(0), left: Some(1), lasts: false });
    }
}

/// Offsets that descriptions share.
fn offsets(pending: &Pending, out: &mut Vec<Condition>) {
    let (call, action) = (pending.call, &pending.action);
    let Ok(moved) = u64::try_from(action.result) else { return };
    let Some(object) = pending.object(action.args[0]).filter(|o| is_regular(o)) else { return };
    let after = u64::try_from(object.position).unwrap_or(0);
    let implicit = call.offset_arg().is_none_or(|i| action.args[i] == u64::MAX);
    let found = match call.effect {
        Effect::Read | Effect::Write if implicit && moved > 0 => {
            Some(after.saturating_sub(moved)).filter(|_| !appends(pending, object))
        }
        Effect::Seek => None,
        _ => return,
    };
    out.push(Condition { thing: thing(Thing::Offset, object.id, 0), found, left: Some(after), lasts: true });
}

/// Sizes of files, which calls set and others are told.
fn sizes(pending: &Pending, out: &mut Vec<Condition>) {
    let (call, action) = (pending.call, &pending.action);
    let Ok(moved) = u64::try_from(action.result) else { return };
    let size = |device, inode| thing(Thing::Size, device, inode);
    match call.effect {
        Effect::Open | Effect::Write | Effect::Truncate | Effect::Allocate | Effect::Copy | Effect::Splice => {
            for object in pending.objects.iter().filter(|o| is_regular(o)) {
                let after = u64::try_from(object.position).unwrap_or(0);
                let appended = call.effect == Effect::Write && appends(pending, object);
                let (found, left) = match appended {
                    true => (Some(after.saturating_sub(moved)), after),
                    false => (None, object.size),
                };
                let thing = size(object.device, object.inode);
                out.push(Condition { thing, found, left: Some(left), lasts: true });
            }
        }
        Effect::GetMetadata => {
            let stat = facts::stat(call, &action.output).filter(|s| s.mode & libc::S_IFMT == libc::S_IFREG);
            if let Some((Some((device, inode)), found @ Some(_))) = stat.map(|s| (s.identity, s.size)) {
                out.push(Condition { thing: size(device, inode), found, left: None, lasts: true });
            }
        }
        _ => {}
    }
}

fn is_regular(object: &Object) -> bool {
    object.mode & libc::S_IFMT == libc::S_IFREG
}

/// Whether a write went to the end of the file, and took the description's offset along.
fn appends(pending: &Pending, object: &Object) -> bool {
    object.flags & libc::O_APPEND as u32 != 0 && pending.call.offset_arg().is_none()
}

fn names(world: &mut World, seat: Seat, pending: &mut Pending, out: &mut Vec<Condition>) {
    let (call, result) = (pending.call, pending.action.result);
    if pending.action.path.is_none() {
        return;
    }
    let (first, second) = tells(call, &pending.action.args, &pending.action.input, result);
    if first.is_none() && second.is_none() {
        return;
    }
    let decoded = pending.decoded();
    for (number, told) in [(0, first), (1, second)] {
        if let Some((found, left)) = told
            && let Some((directory, name)) = world.entry(seat, call, &decoded, result, number)
        {
            let name = name
                .iter()
                .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
            out.push(Condition { thing: thing(Thing::Name, directory.into(), name), found, left, lasts: true });
        }
    }
    pending.put_back(decoded);
}

type Told = Option<(Option<u64>, Option<u64>)>;

/// What a result tells of the names of a call: whether they stood before, and stand now.
fn tells(call: &Call, args: &[u64; 6], input: &[u8], result: i64) -> (Told, Told) {
    const MAKES: u64 = libc::O_CREAT as u64;
    const EXCLUSIVE: u64 = (libc::O_CREAT | libc::O_EXCL) as u64;
    use Effect::*;
    let flags = match call.effect {
        Open => call.open_flags(args, input.get(4..).unwrap_or_default()),
        _ => 0,
    };
    let ok = !failed(result);
    match call.effect {
        Open if ok && flags & EXCLUSIVE == EXCLUSIVE => (Some((Some(0), Some(1))), None),
        Open if ok && flags & MAKES != 0 => (Some((None, Some(1))), None),
        Open if result == ENOENT && flags & MAKES != 0 => (None, None),
        MakeDirectory | MakeNode | MakeSymlink if ok => (Some((Some(0), Some(1))), None),
        MakeDirectory | MakeNode | MakeSymlink | Open if result == EEXIST => (Some((Some(1), None)), None),
        MakeDirectory | MakeNode | MakeSymlink => (None, None),
        Link if ok => (Some((Some(1), None)), Some((Some(0), Some(1)))),
        Link if result == EEXIST => (None, Some((Some(1), None))),
        Remove if ok => (Some((Some(1), Some(0))), None),
        Rename if ok && exchanges(call, args) => (Some((Some(1), None)), Some((Some(1), None))),
        Rename if ok => (Some((Some(1), Some(0))), Some((None, Some(1)))),
        Link | Rename => (None, None),
        _ if ok => (Some((Some(1), None)), None),
        _ if result == ENOENT => (Some((Some(0), None)), None),
        _ => (None, None),
    }
}

fn exchanges(call: &Call, args: &[u64; 6]) -> bool {
    call.flags_arg(FlagSet::Rename).is_some_and(|i| args[i] & u64::from(libc::RENAME_EXCHANGE) != 0)
}
