//! What a call means for the knowledge of the world: before it enters the kernel, and after it succeeded.

use reprise_calls::brought::{Brought, brings};
use reprise_calls::mounts::{Mounting, mounting};
use reprise_calls::{Call, Effect, Follow, IoctlEffect, Object, ioctl_effect};
use reprise_trace::payload::{Side, split};

use crate::arguments::Inputs;
use crate::log::Log;
use crate::memory::Memory;
use crate::sys;
use crate::world::{CameTo, Last, Start, World};

/// What is remembered of the names of a call until it is over.
#[derive(Debug, Default)]
pub struct Before {
    /// The last components of its paths, for calls that change names.
    lasts: Vec<Option<Last>>,
    /// Flags of an open.
    flags: u64,
    /// Type of what the first path names (`S_IFMT` bits, 0 if unknown).
    pub kind: u32,
    /// Where the file system comes to that it brings.
    brings: Option<CameTo>,
}

impl Before {
    /// Whether an open waits until somebody has the other end of a FIFO: who opens both ends, or a mere place, does not, nor who does
    /// not want to.
    pub fn waits_for_the_other_end(&self) -> bool {
        const NEVER: u64 = (libc::O_NONBLOCK | libc::O_PATH) as u64;
        let both = self.flags & libc::O_ACCMODE as u64 == libc::O_RDWR as u64;
        self.kind == libc::S_IFIFO && self.flags & NEVER == 0 && !both
    }
}

/// Before the call: everything it may meet is met.
pub fn before(world: &mut World, tid: i32, call: &Call, args: &[u64; 6], inputs: &Inputs, log: &mut Log) -> Before {
    let mut out = Before::default();
    let parts = split(call, Side::Input, &inputs.input);
    let how = parts.iter().flatten().next().copied().unwrap_or(&[]);
    if call.effect == Effect::Open {
        out.flags = call.effective_open_flags(args, how);
    }
    let exact = matches!(call.effect, Effect::Rename | Effect::MakeDirectory | Effect::Link | Effect::Remove);
    let texts = [&inputs.path, &inputs.path2];
    for (arg, text) in call.paths().zip(texts) {
        let Some(text) = text else { continue };
        let start = match arg.dirfd.map(|i| args[i] as i32) {
            Some(fd @ 0..) => Start::Fd(fd as u32),
            _ => Start::Here,
        };
        let follow = follows(arg.follow, args, out.flags);
        let walked = world.walk(tid, start, text, follow, exact, log);
        if out.lasts.is_empty() {
            out.kind = walked.kind;
        }
        // A handle kept for no use would keep a file system busy.
        out.lasts.push(walked.last.filter(|_| exact));
    }
    if brings(call, args) {
        let path = || inputs.path.as_ref().map(|path| path.to_vec()).unwrap_or_default();
        let named = Brought::named(call, || parts);
        out.brings = Some(named.map_or(CameTo::Descriptor, |brought| CameTo::Path(path(), brought)));
    }
    match call.effect {
        Effect::Remove if removes_directory(call, args) => {
            list_last(world, tid, out.lasts.first(), log);
        }
        Effect::Rename => list_last(world, tid, out.lasts.get(1), log),
        Effect::List => {
            if let Ok(fd) = u32::try_from(args[0] as i32) {
                world.list_fd(tid, fd, log);
            }
        }
        Effect::Map if world.wants_mapping(args[3]) => {
            if let Ok(fd) = u32::try_from(args[4] as i32) {
                world.range(tid, fd, args[5], args[1], "mapped", log);
            }
        }
        Effect::DeviceControl => clone_source(world, tid, args, parts[2], log),
        Effect::Mount => {
            if let (Mounting::Bind { .. } | Mounting::Move, Some(source)) = (mounting(call, args), parts[0]) {
                world.walk(tid, Start::Here, source, true, false, log);
            }
            // A handle held here would keep a file system busy.
            world.forget_places();
        }
        Effect::Message if matches!(call.name, "bind" | "connect") => {
            socket_name(world, tid, call, args, log);
        }
        _ => {}
    }
    out
}

fn follows(follow: Follow, args: &[u64; 6], open_flags: u64) -> bool {
    let set = |arg: u8, bit| args[usize::from(arg)] & bit != 0;
    const EXCLUSIVE: u64 = (libc::O_CREAT | libc::O_EXCL) as u64;
    match follow {
        Follow::Always => true,
        Follow::Never => false,
        Follow::Unless { arg, bit } => !set(arg, bit),
        Follow::If { arg, bit } => set(arg, bit),
        Follow::AsOpen => open_flags & libc::O_NOFOLLOW as u64 == 0 && open_flags & EXCLUSIVE != EXCLUSIVE,
    }
}

/// Whether a call removes a directory, and nothing else.
pub(crate) fn removes_directory(call: &Call, args: &[u64; 6]) -> bool {
    match call.name {
        "rmdir" => true,
        "unlinkat" => args[2] & libc::AT_REMOVEDIR as u64 != 0,
        _ => false,
    }
}

fn list_last(world: &mut World, tid: i32, last: Option<&Option<Last>>, log: &mut Log) {
    if let Some(Some(last)) = last
        && let Some(stat) = &last.stat
    {
        world.list_at(tid, last.parent(), last.name(), stat, log);
    }
}

/// The source of `FICLONE` and `FICLONERANGE`: its content becomes that of another file.
fn clone_source(world: &mut World, tid: i32, args: &[u64; 6], range: Option<&[u8]>, log: &mut Log) {
    let word = |i: usize| -> Option<u64> {
        let bytes = range?.get(8 * i..8 * i + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let source = match ioctl_effect(args[1]) {
        IoctlEffect::Clone => Some((args[2], 0, u64::MAX)),
        IoctlEffect::CloneRange => match (word(0), word(1), word(2)) {
            // A length of 0 means up to the end.
            (Some(fd), Some(offset), Some(0)) => Some((fd, offset, u64::MAX)),
            (Some(fd), Some(offset), Some(length)) => Some((fd, offset, length)),
            _ => None,
        },
        _ => None,
    };
    let source = source.and_then(|(fd, o, l)| Some((u32::try_from(fd as i32).ok()?, o, l)));
    if let Some((fd, offset, length)) = source {
        world.range(tid, fd, offset, length, "cloned", log);
    }
}

/// The name of a UNIX socket: `bind` makes it, `connect` looks it up.
fn socket_name(world: &mut World, tid: i32, call: &Call, args: &[u64; 6], log: &mut Log) {
    let length = (args[2] as usize).min(reprise_calls::SOCKET_ADDRESS_BYTES);
    let Some(address) = Memory::Live(tid).exact(args[1], length) else {
        return;
    };
    let Some(path) = reprise_calls::socket_path(&address) else {
        return;
    };
    let follow = call.name == "connect";
    world.walk(tid, Start::Here, path, follow, false, log);
}

/// After a success: what the program made, and what can no longer be relied on.
pub fn after(world: &mut World, tid: i32, call: &Call, result: i64, before: &Before, log: &mut Log) {
    let first = before.lasts.first().and_then(Option::as_ref);
    if let Some(to) = &before.brings {
        world.brought(tid, to, result, log);
    }
    match call.effect {
        Effect::Open => world.opened(tid, result as u32, before.flags, log),
        Effect::MakeObject(Object::Memory) => world.made(tid, result as u32),
        _ if call.name == "memfd_secret" => world.made(tid, result as u32),
        Effect::MakeDirectory => {
            let made = first.map(|l| sys::stat_at(l.parent(), l.name(), libc::AT_SYMLINK_NOFOLLOW));
            if let Some(Ok(stat)) = made {
                world.mark_fresh(stat.id);
            }
            world.forget_paths();
        }
        Effect::MakeSymlink => world.forget_paths(),
        Effect::Link if first.and_then(|l| l.stat).is_some_and(|s| s.is_link()) => {
            world.forget_paths();
        }
        Effect::Rename => {
            let plain = |l: &Option<Last>| l.as_ref().is_some_and(|l| l.stat.is_none_or(|s| s.is_file()));
            if !before.lasts.iter().all(plain) {
                world.forget_paths();
            }
        }
        Effect::ChangeDirectory => world.forget_places(),
        Effect::ChangeRoot | Effect::Mount => {
            world.forget_paths();
            world.forget_places();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_opens_a_fifo_waits_unless_it_has_both_ends_or_does_not_want_to() {
        let waits =
            |flags: i32, kind| Before { flags: flags as u64, kind, ..Before::default() }.waits_for_the_other_end();
        for flags in [libc::O_RDONLY, libc::O_WRONLY, libc::O_WRONLY | libc::O_CREAT] {
            assert!(waits(flags, libc::S_IFIFO), "{flags:o}");
            assert!(!waits(flags | libc::O_NONBLOCK, libc::S_IFIFO), "{flags:o}");
            assert!(!waits(flags | libc::O_PATH, libc::S_IFIFO), "{flags:o}");
            assert!(!waits(flags, libc::S_IFREG), "{flags:o}");
        }
        assert!(!waits(libc::O_RDWR, libc::S_IFIFO));
    }
}
