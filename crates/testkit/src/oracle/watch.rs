//! Events and handles.

use libc::*;

use super::Case;
use super::context::{Context, Done, number};
use super::fixture::{self, fd_info};
use super::value::{self, *};
use crate::raw::{self, Guarded};

pub(super) const CASES: &[(&str, Case)] = &[
    ("epoll_create", epoll_create),
    ("epoll_create1", epoll_create1),
    ("epoll_ctl", epoll_ctl),
    ("epoll_wait", epoll_wait),
    ("epoll_pwait", epoll_pwait),
    ("epoll_pwait2", epoll_pwait2),
    ("poll", poll),
    ("ppoll", ppoll),
    ("select", select),
    ("pselect6", pselect6),
    ("inotify_init", inotify_init),
    ("inotify_init1", inotify_init1),
    ("inotify_add_watch", inotify_add_watch),
    ("inotify_rm_watch", inotify_rm_watch),
    ("fanotify_init", fanotify_init),
    ("fanotify_mark", fanotify_mark),
    ("eventfd", eventfd),
    ("eventfd2", eventfd2),
    ("signalfd", signalfd),
    ("signalfd4", signalfd4),
    ("timerfd_create", timerfd_create),
    ("pidfd_open", pidfd_open),
    ("pidfd_getfd", pidfd_getfd),
    ("userfaultfd", userfaultfd),
    ("perf_event_open", perf_event_open),
    ("landlock_create_ruleset", landlock_create_ruleset),
    ("mq_open", mq_open),
    ("bpf", bpf),
];

fn epoll_create(c: &Context) {
    let fd = c.call(&[("size", int(5))]).ok();
    c.fd_named(fd, "anon_inode:[eventpoll]");
    c.call(&[("size", int(0))]).fails(EINVAL);
}

fn epoll_create1(c: &Context) {
    let fd = c.call(&[("flags", num(EPOLL_CLOEXEC as u64))]).ok();
    c.fd_named(fd, "anon_inode:[eventpoll]");
    c.fd_has(fd, O_CLOEXEC, O_CLOEXEC);
    c.call(&[("flags", num(1))]).fails(EINVAL);
}

/// A counter that can be read.
fn ready() -> i64 {
    raw::must(SYS_eventfd2, &[1, 0])
}

/// `struct epoll_event`, packed: events (u32), data (u64).
fn event(bits: i32, data: u64) -> Vec<u8> {
    [words(&[bits as u32]), longs(&[data])].concat()
}

/// An event set with two ready counters, both marked 77.
fn ready_set() -> i64 {
    let set = raw::must(SYS_epoll_create1, &[0]);
    let event = Guarded::new(&event(EPOLLIN, 77));
    for counter in [ready(), ready()] {
        let args = [set as u64, EPOLL_CTL_ADD as u64, counter as u64, event.address()];
        raw::must(SYS_epoll_ctl, &args);
    }
    set
}

fn epoll_ctl(c: &Context) {
    let (set, counter) = (raw::must(SYS_epoll_create1, &[0]), ready());
    let call = |op: i32, bits: i32| {
        c.call(&[
            ("epfd", value::fd(set)),
            ("op", int(op.into())),
            ("fd", value::fd(counter)),
            ("event", memory(&event(bits, 77))),
        ])
    };
    call(EPOLL_CTL_ADD, EPOLLIN).ok();
    c.check(|| {
        let words: Vec<_> = fd_info(set, "tfd").split_whitespace().map(str::to_owned).collect();
        assert_eq!(words[0], counter.to_string(), "{words:?}");
        assert_eq!(words[4], "4d", "{words:?}");
    });
    call(EPOLL_CTL_ADD, EPOLLIN).fails(EEXIST);
    call(EPOLL_CTL_DEL, 0).ok();
}

fn one_event(done: &Done) {
    assert_eq!(done.ok(), 1);
    assert_eq!(done.bytes("events")[..12], event(EPOLLIN, 77));
}

fn epoll_wait(c: &Context) {
    let set = ready_set();
    one_event(&c.call(&[
        ("epfd", value::fd(set)),
        ("events", memory(&[0; 24])),
        ("max", int(1)),
        ("timeout", int(1000)),
    ]));
}

fn epoll_pwait(c: &Context) {
    let set = ready_set();
    let call = |size: u64| {
        c.call(&[
            ("epfd", value::fd(set)),
            ("events", memory(&[0; 24])),
            ("max", int(1)),
            ("timeout", int(1000)),
            ("sigmask", memory(&longs(&[0]))),
            ("sigsetsize", length(size)),
        ])
    };
    one_event(&call(8));
    call(4).fails(EINVAL);
}

fn epoll_pwait2(c: &Context) {
    let set = ready_set();
    let call = |size: u64| {
        c.call(&[
            ("epfd", value::fd(set)),
            ("events", memory(&[0; 24])),
            ("max", int(1)),
            ("timeout", memory(&longs(&[1, 0]))),
            ("sigmask", memory(&longs(&[0]))),
            ("sigsetsize", length(size)),
        ])
    };
    one_event(&call(8));
    call(4).fails(EINVAL);
}

/// `struct pollfd`: fd, events (u16), what happened (u16).
fn poll_one(fd: i64) -> Vec<u8> {
    words(&[fd as u32, POLLIN as u32])
}

fn poll(c: &Context) {
    let fd = ready();
    let done = c.call(&[("fds", memory(&poll_one(fd))), ("count", length(1)), ("timeout", int(1000))]);
    assert_eq!(done.ok(), 1);
    assert_eq!(done.number("fds", 6, 2), POLLIN as u64);
}

fn ppoll(c: &Context) {
    let fd = ready();
    let call = |size: u64| {
        c.call(&[
            ("fds", memory(&poll_one(fd))),
            ("count", length(1)),
            ("timeout", memory(&longs(&[1, 0]))),
            ("sigmask", memory(&longs(&[0]))),
            ("sigsetsize", length(size)),
        ])
    };
    let done = call(8);
    assert_eq!(done.ok(), 1);
    assert_eq!(done.number("fds", 6, 2), POLLIN as u64);
    call(4).fails(EINVAL);
}

/// The ends of a pipe with something in it: the first can be read only, the second written only.
fn full_pipe() -> (i64, i64) {
    let pair = Guarded::new(&[0; 8]);
    raw::must(SYS_pipe2, &[pair.address(), 0]);
    let [read, write] = [0, 4].map(|at| number(&pair.bytes(), at, 4) as i64);
    raw::must(SYS_write, &[write as u64, Guarded::new(b"x").address(), 1]);
    (read, write)
}

/// Sets of 64 descriptors: one to be read that is ready, one to be written that is.
fn sets(pipe: (i64, i64)) -> [(&'static str, Value); 4] {
    let set = |fd: i64| memory(&longs(&[1 << fd]));
    [("count", int(64)), ("readfds", set(pipe.0)), ("writefds", set(pipe.1)), ("exceptfds", set(pipe.0))]
}

fn selected(done: &Done, pipe: (i64, i64)) {
    assert_eq!(done.ok(), 2);
    assert_eq!(done.number("readfds", 0, 8), 1 << pipe.0);
    assert_eq!(done.number("writefds", 0, 8), 1 << pipe.1);
    assert_eq!(done.number("exceptfds", 0, 8), 0);
}

fn select(c: &Context) {
    let pipe = full_pipe();
    let mut given = sets(pipe).to_vec();
    given.push(("timeout", memory(&longs(&[1, 0]))));
    selected(&c.call(&given), pipe);
}

fn pselect6(c: &Context) {
    let pipe = full_pipe();
    let mask = Guarded::new(&longs(&[0]));
    let call = |size: u64| {
        let mut given = sets(pipe).to_vec();
        given.push(("timeout", memory(&longs(&[1, 0]))));
        given.push(("sigmask", memory(&longs(&[mask.address(), size]))));
        c.call(&given)
    };
    selected(&call(8), pipe);
    call(4).fails(EINVAL);
}

fn inotify_init(c: &Context) {
    let fd = c.call(&[]).ok();
    c.fd_named(fd, "anon_inode:inotify");
}

fn inotify_init1(c: &Context) {
    let fd = c.call(&[("flags", num((IN_NONBLOCK | IN_CLOEXEC) as u64))]).ok();
    c.fd_named(fd, "anon_inode:inotify");
    c.fd_has(fd, O_NONBLOCK | O_CLOEXEC, O_NONBLOCK | O_CLOEXEC);
}

fn inotify_add_watch(c: &Context) {
    let fd = raw::must(SYS_inotify_init1, &[IN_NONBLOCK as u64]);
    let call =
        |name: &str, mask: u32| c.call(&[("fd", value::fd(fd)), ("path", path(name)), ("mask", num(mask.into()))]);
    let watch = call("dir", IN_CREATE).ok();
    assert_eq!(watch, 1);
    c.check(|| {
        std::fs::write("dir/new", "").expect("new");
        let got = Guarded::new(&[0; 300]);
        raw::must(SYS_read, &[fd as u64, got.address(), 300]);
        let bytes = got.bytes();
        assert_eq!([0, 4].map(|at| number(&bytes, at, 4)), [1, IN_CREATE.into()]);
        assert!(bytes[16..].starts_with(b"new\0"));
    });
    call("missing", IN_CREATE).fails(ENOENT);
    call("file", IN_CREATE | IN_ONLYDIR).fails(ENOTDIR);
}

fn inotify_rm_watch(c: &Context) {
    let fd = raw::must(SYS_inotify_init1, &[IN_NONBLOCK as u64]);
    let name = fixture::c_string("dir");
    let watch = raw::must(SYS_inotify_add_watch, &[fd as u64, name, IN_CREATE.into()]);
    let call = || c.call(&[("fd", value::fd(fd)), ("wd", int(watch))]);
    call().ok();
    call().fails(EINVAL);
}

fn fanotify_init(c: &Context) {
    let call = |bits: u32, event: i32| c.call(&[("flags", num(bits.into())), ("event_flags", num(event as u64))]);
    let fd = call(FAN_CLOEXEC | FAN_CLASS_NOTIF, O_RDONLY).ok_or_skip(&[EPERM, ENOSYS]);
    c.fd_named(fd, "anon_inode:[fanotify]");
    c.check(|| assert!(fd_info(fd, "fanotify flags").starts_with("1 ")));
}

fn fanotify_mark(c: &Context) {
    let args = [(FAN_CLOEXEC | FAN_NONBLOCK) as u64, 0];
    let fd = raw::sys(SYS_fanotify_init, &args);
    if fd < 0 {
        c.skip("fanotify is not permitted");
    }
    let dir = fixture::open("dir", O_PATH);
    let call = |bits: u32, mask: u64, name: &str| {
        c.call(&[
            ("fd", value::fd(fd)),
            ("flags", num(bits.into())),
            ("mask", num(mask)),
            ("dirfd", at_dir(dir)),
            ("path", path(name)),
        ])
    };
    call(FAN_MARK_ADD, FAN_OPEN, "inside").ok();
    c.check(|| {
        fixture::open("dir/inside", O_RDONLY);
        let got = Guarded::new(&[0; 300]);
        raw::must(SYS_read, &[fd as u64, got.address(), 300]);
        // struct fanotify_event_metadata: mask at 8, descriptor at 16.
        assert_eq!(number(&got.bytes(), 8, 8), FAN_OPEN);
        c.fd_is(number(&got.bytes(), 16, 4) as i64, "dir/inside", 0);
    });
    call(FAN_MARK_ADD, FAN_OPEN, "missing").fails(ENOENT);
    call(FAN_MARK_ADD | FAN_MARK_ONLYDIR, FAN_OPEN, "inside").fails(ENOTDIR);
}

fn landlock_create_ruleset(c: &Context) {
    const READS_FILES: u64 = 1 << 2;
    let call = |size: u64, flags: u64| {
        c.call(&[("attr", memory(&longs(&[READS_FILES]))), ("size", length(size)), ("flags", num(flags))])
    };
    let fd = call(8, 0).ok_or_skip(&[ENOSYS, EOPNOTSUPP]);
    c.fd_named(fd, "anon_inode:[landlock-ruleset]");
    c.fd_has(fd, O_CLOEXEC, O_CLOEXEC);
    call(3, 0).fails(EINVAL);
}

fn mq_open(c: &Context) {
    let name = format!("reprise-{}", std::process::id());
    let bits = (O_RDWR | O_CREAT | O_EXCL) as u64;
    // `struct mq_attr`: flags, most messages, the largest; the rest is not read.
    let attributes = longs(&[0, 4, 64, 0, 0, 0, 0, 0]);
    let call = |name: &str| {
        c.call(&[("name", text(name)), ("flags", num(bits)), ("mode", num(0o600)), ("attr", memory(&attributes))])
    };
    let fd = call(&name).ok_or_skip(&[ENOSYS, EPERM]);
    c.fd_named(fd, &format!("/{name}"));
    c.fd_has(fd, O_RDWR | O_CLOEXEC, O_ACCMODE | O_CLOEXEC);
    call(&name).fails(EEXIST);
    raw::must(SYS_mq_unlink, &[fixture::c_string(&name)]);
}

fn eventfd(c: &Context) {
    let fd = c.call(&[("count", num(0x42))]).ok();
    c.check(|| assert_eq!(fd_info(fd, "eventfd-count"), "42"));
}

fn eventfd2(c: &Context) {
    let bits = (EFD_CLOEXEC | EFD_NONBLOCK) as u64;
    let fd = c.call(&[("count", num(0x42)), ("flags", num(bits))]).ok();
    c.check(|| assert_eq!(fd_info(fd, "eventfd-count"), "42"));
    c.fd_has(fd, O_CLOEXEC | O_NONBLOCK, O_CLOEXEC | O_NONBLOCK);
}

fn signalfd(c: &Context) {
    let call = |size: u64| c.call(&[("fd", int(-1)), ("mask", memory(&longs(&[1 << 9]))), ("size", length(size))]);
    let fd = call(8).ok();
    c.check(|| assert_eq!(fd_info(fd, "sigmask"), "0000000000000200"));
    call(4).fails(EINVAL);
}

fn signalfd4(c: &Context) {
    let call = |fd: i64| {
        c.call(&[
            ("fd", int(fd)),
            ("mask", memory(&longs(&[1 << 9]))),
            ("size", length(8)),
            ("flags", num(SFD_CLOEXEC as u64)),
        ])
    };
    let fd = call(-1).ok();
    c.check(|| assert_eq!(fd_info(fd, "sigmask"), "0000000000000200"));
    c.fd_has(fd, O_CLOEXEC, O_CLOEXEC);
    call(0).fails(EINVAL);
}

fn timerfd_create(c: &Context) {
    let call = |clock: i32, bits: i32| c.call(&[("clock", int(clock.into())), ("flags", num(bits as u64))]);
    let fd = call(CLOCK_MONOTONIC, TFD_CLOEXEC).ok();
    c.check(|| assert_eq!(fd_info(fd, "clockid"), CLOCK_MONOTONIC.to_string()));
    c.fd_has(fd, O_CLOEXEC, O_CLOEXEC);
    call(99, 0).fails(EINVAL);
}

fn pidfd_open(c: &Context) {
    let parent = raw::sys(SYS_getppid, &[]);
    let call = |pid: i64, bits: u64| c.call(&[("pid", int(pid)), ("flags", num(bits))]);
    let fd = call(parent, 0).ok();
    c.check(|| assert_eq!(fd_info(fd, "Pid"), parent.to_string()));
    call(parent, 1).fails(EINVAL);
    call(-1, 0).fails(EINVAL);
}

fn pidfd_getfd(c: &Context) {
    let me = raw::must(SYS_pidfd_open, &[std::process::id().into(), 0]);
    let file = fixture::open("file", O_RDONLY);
    let fd =
        c.call(&[("pidfd", value::fd(me)), ("targetfd", int(file)), ("flags", num(0))]).ok_or_skip(&[EPERM, ENOSYS]);
    raw::must(SYS_lseek, &[file as u64, 99, 0]);
    c.fd_is(fd, "file", 99);
}

fn userfaultfd(c: &Context) {
    const USER_MODE_ONLY: u64 = 1;
    let bits = O_CLOEXEC as u64 | USER_MODE_ONLY;
    let fd = c.call(&[("flags", num(bits))]).ok_or_skip(&[EPERM, ENOSYS]);
    c.fd_named(fd, "anon_inode:[userfaultfd]");
    c.fd_has(fd, O_CLOEXEC, O_CLOEXEC);
}

fn perf_event_open(c: &Context) {
    // struct perf_event_attr: type (software), size, config (page faults), …
    let mut attr = words(&[1, 64, 2, 0]);
    attr.resize(64, 0);
    const CLOEXEC: u64 = 8;
    let call = |pid: i64, group: i64| {
        c.call(&[
            ("attr", memory(&attr)),
            ("pid", int(pid)),
            ("cpu", int(-1)),
            ("group", int(group)),
            ("flags", num(CLOEXEC)),
        ])
    };
    let fd = call(0, -1).ok_or_skip(&[EPERM, EACCES, ENOSYS, EOPNOTSUPP]);
    c.fd_named(fd, "anon_inode:[perf_event]");
    c.fd_has(fd, O_CLOEXEC, O_CLOEXEC);
    call(i32::MAX.into(), -1).fails(ESRCH);
    call(0, 9999).fails(EBADF);
}

fn bpf(c: &Context) {
    const MAP_CREATE: i64 = 0;
    const ARRAY: u32 = 2;
    // Type, size of key, size of value, entries, flags.
    let attr = words(&[ARRAY, 4, 8, 3, 0]);
    let fd = c
        .call(&[("command", int(MAP_CREATE)), ("attr", memory(&attr)), ("size", length(attr.len() as u64))])
        .ok_or_skip(&[EPERM, ENOSYS]);
    c.fd_named(fd, "anon_inode:bpf-map");
    c.check(|| assert_eq!(fd_info(fd, "max_entries"), "3"));
}
