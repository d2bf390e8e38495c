//! Events, handles and mounts.

use super::row;
use crate::ArgKind::*;
use crate::Struct::Sized;
use crate::{Access::*, Call, Effect, Follow, Object, Replay};

/// The rows.
pub const CALLS: &[Call] = &[
    row!(epoll_create 213 (size: Integer) Fd Effect::MakeObject(Object::Epoll), Replay::Simulate, Outcome, "makes an event set"),
    row!(epoll_create1 291 (flags: Number) Fd Effect::MakeObject(Object::Epoll), Replay::Simulate, Outcome, "makes an event set"),
    row!(epoll_ctl 233 (epfd: Fd(Use), op: Integer, fd: Fd(Use), event: Address) Zero Effect::Watch, Replay::Simulate, Nothing, "asks for events"),
    row!(epoll_wait 232 (epfd: Fd(Use), events: Address, max: Integer, timeout: Integer) Value Effect::Poll, Replay::Simulate, Nothing, "waits for events"),
    row!(epoll_pwait 281 (epfd: Fd(Use), events: Address, max: Integer, timeout: Integer, sigmask: Address, sigsetsize: Length) Value Effect::Poll, Replay::Simulate, Nothing, "waits for events"),
    row!(epoll_pwait2 441 (epfd: Fd(Use), events: Address, max: Integer, timeout: Address, sigmask: Address, sigsetsize: Length) Value Effect::Poll, Replay::Simulate, Nothing, "waits for events"),
    row!(poll 7 (fds: Address, count: Length, timeout: Integer) Value Effect::Poll, Replay::Simulate, Nothing, "waits for events"),
    row!(ppoll 271 (fds: Address, count: Length, timeout: Address, sigmask: Address, sigsetsize: Length) Value Effect::Poll, Replay::Simulate, Nothing, "waits for events"),
    row!(select 23 (count: Integer, readfds: Address, writefds: Address, exceptfds: Address, timeout: Address) Value Effect::Poll, Replay::Simulate, Nothing, "waits for events"),
    row!(pselect6 270 (count: Integer, readfds: Address, writefds: Address, exceptfds: Address, timeout: Address, sigmask: Address) Value Effect::Poll, Replay::Simulate, Nothing, "waits for events"),
    row!(inotify_init 253 () Fd Effect::MakeObject(Object::Watch), Replay::Simulate, Outcome, "makes a watch queue"),
    row!(inotify_init1 294 (flags: Number) Fd Effect::MakeObject(Object::Watch), Replay::Simulate, Outcome, "makes a watch queue"),
    row!(inotify_add_watch 254 (fd: Fd(Use), path: Path(Follow::Unless { arg: 2, bit: 0x200_0000 }), mask: Number) Value Effect::Watch, Replay::Simulate, Nothing, "watches a name"),
    row!(inotify_rm_watch 255 (fd: Fd(Use), wd: Integer) Zero Effect::Watch, Replay::Simulate, Nothing, "ends a watch"),
    row!(fanotify_init 300 (flags: Number, event_flags: Number) Fd Effect::MakeObject(Object::Watch), Replay::Simulate, Outcome, "makes a watch queue for file systems"),
    row!(fanotify_mark 301 (fd: Fd(Use), flags: Number, mask: Number, dirfd: Dirfd, path: Path(Follow::Unless { arg: 1, bit: 0x4 })) Zero Effect::Watch, Replay::Simulate, Nothing, "watches a mount or file system"),
    row!(eventfd 284 (count: Number) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Outcome, "makes a counter"),
    row!(eventfd2 290 (count: Number, flags: Number) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Outcome, "makes a counter"),
    row!(signalfd 282 (fd: Integer, mask: Address, size: Length) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Outcome, "makes a queue of signals"),
    row!(signalfd4 289 (fd: Integer, mask: Address, size: Length, flags: Number) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Outcome, "makes a queue of signals"),
    row!(timerfd_create 283 (clock: Integer, flags: Number) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Outcome, "makes a timer"),
    row!(pidfd_open 434 (pid: Integer, flags: Number) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Outcome, "makes a handle of a process"),
    row!(pidfd_getfd 438 (pidfd: Fd(Use), targetfd: Integer, flags: Number) Fd Effect::Take, Replay::Engine, Outcome, "takes a descriptor of another process"),
    row!(userfaultfd 323 (flags: Number) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Outcome, "makes a queue of page faults"),
    row!(perf_event_open 298 (attr: Address, pid: Integer, cpu: Integer, group: Integer, flags: Number) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Outcome, "makes a performance counter"),
    row!(landlock_create_ruleset 444 (attr: Address, size: Length, flags: Number) Value Effect::MakeObject(Object::Handle), Replay::Simulate, Outcome, "makes a set of restrictions"),
    row!(mq_open 240 (name: Text, flags: Number, mode: Number, attr: Address) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Outcome, "opens a message queue"),
    row!(bpf 321 (command: Integer, attr: Address, size: Length) Value Effect::MakeObject(Object::Handle), Replay::Simulate, Outcome, "makes maps and programs of the kernel's virtual machine"),
    row!(mount 165 (source: Text, target: Path(Follow::Always), fstype: Text, flags: Number, data: Address) Zero Effect::Mount, Replay::Skip("a replay mounts nothing"), Nothing, "mounts a file system"),
    row!(umount2 166 (target: Path(Follow::Unless { arg: 1, bit: 0x8 }), flags: Number) Zero Effect::Mount, Replay::Skip("a replay mounts nothing"), Nothing, "unmounts a file system"),
    row!(pivot_root 155 (new_root: Path(Follow::Always), put_old: Path(Follow::Always)) Zero Effect::Mount, Replay::Skip("a replay mounts nothing"), Nothing, "exchanges the root mount"),
    row!(fsopen 430 (fstype: Text, flags: Number) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Nothing, "begins to configure a file system"),
    row!(fsconfig 431 (fd: Fd(Use), command: Number, key: Text, value: Address, aux: Integer) Zero Effect::Mount, Replay::Skip("a replay mounts nothing"), Nothing, "configures a file system"),
    row!(fsmount 432 (fd: Fd(Use), flags: Number, attr: Number) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Nothing, "makes a mount of a configured file system"),
    row!(fspick 433 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 2, bit: 0x2 }), flags: Number) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Nothing, "begins to configure a mounted file system anew"),
    row!(open_tree 428 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 2, bit: 0x100 }), flags: Number) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Nothing, "takes hold of a mount"),
    row!(open_tree_attr 467 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 2, bit: 0x100 }), flags: Number, attr: In(Sized(4)), size: Length) Fd Effect::MakeObject(Object::Handle), Replay::Simulate, Nothing, "takes hold of a mount, with other attributes"),
    row!(mount_setattr 442 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 2, bit: 0x100 }), flags: Number, attr: In(Sized(4)), size: Length) Zero Effect::Mount, Replay::Skip("a replay mounts nothing"), Nothing, "changes attributes of a mount"),
    row!(move_mount 429 (from_dirfd: Dirfd, from_path: Path(Follow::If { arg: 4, bit: 0x1 }), to_dirfd: Dirfd, to_path: Path(Follow::If { arg: 4, bit: 0x10 }), flags: Number) Zero Effect::Mount, Replay::Skip("a replay mounts nothing"), Nothing, "moves a mount"),
    row!(swapon 167 (path: Path(Follow::Always), flags: Number) Zero Effect::Mount, Replay::Skip("a replay does not swap"), Nothing, "swaps on a file"),
    row!(swapoff 168 (path: Path(Follow::Always)) Zero Effect::Mount, Replay::Skip("a replay does not swap"), Nothing, "stops swapping on a file"),
    row!(quotactl 179 (command: Number, special: Text, id: Owner, addr: Address) Zero Effect::Mount, Replay::Skip("quotas are the target's own"), Nothing, "manages quotas"),
    row!(quotactl_fd 443 (fd: Fd(Use), command: Number, id: Owner, addr: Address) Zero Effect::Mount, Replay::Skip("quotas are the target's own"), Nothing, "manages quotas of the file system that a file is on"),
];
