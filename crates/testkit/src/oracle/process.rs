//! Threads and processes.

use std::fs;

use libc::*;

use super::Case;
use super::context::Context;
use super::fixture::{self, c_string, status, status_of};
use super::report::{self, Issued};
use super::value::{self, *};
use crate::raw::{self, Guarded};

pub(super) const CASES: &[(&str, Case)] = &[
    ("clone", clone),
    ("clone3", clone3),
    ("fork", fork),
    ("vfork", vfork),
    ("execve", execve),
    ("execveat", execveat),
    ("exit", exit),
    ("exit_group", exit_group),
    ("wait4", wait4),
    ("waitid", waitid),
    ("unshare", unshare),
    ("setns", setns),
    ("ptrace", ptrace),
    ("seccomp", seccomp),
];

/// The wait status of a process that ended with this exit status.
fn exited(status: i32) -> i32 {
    status << 8
}

/// In the child: leaves a trace in the directory, and ends.
fn be_child(name: &str, status: i32) -> ! {
    fs::write(name, b"child").expect("a file");
    raw::exit(status)
}

/// In the parent: the child was ours, and did what it should.
fn was_child(c: &Context, pid: i64, name: &str, status: i32) {
    assert_eq!(raw::wait(pid as i32), exited(status));
    c.has_content(name, b"child");
}

fn clone(c: &Context) {
    let parent = std::process::id();
    // Where the parent is told the child's number, or its descriptor.
    for (name, bit) in [("new", CLONE_PARENT_SETTID), ("newer", CLONE_PIDFD)] {
        let cell = Guarded::new(&[0; 4]);
        let done = c.call(&[
            ("flags", flags((bit | CLONE_CHILD_SETTID | SIGCHLD).into())),
            ("stack", address(0)),
            ("parent_tid", header(&[0; 4])),
            ("child_tid", address(cell.address())),
            ("tls", address(0)),
        ]);
        let pid = done.ok();
        if pid == 0 {
            let me = raw::sys(SYS_getpid, &[]);
            let told = super::context::number(&cell.bytes(), 0, 4) as i64;
            let parent_is = raw::sys(SYS_getppid, &[]) == i64::from(parent);
            be_child(name, if told == me && parent_is { 7 } else { 8 });
        }
        let told = done.number("parent_tid", 0, 4) as i64;
        match bit {
            CLONE_PIDFD => c.check(|| assert_eq!(fixture::fd_info(told, "Pid"), pid.to_string())),
            _ => assert_eq!(told, pid),
        }
        was_child(c, pid, name, 7);
    }
}

/// `struct clone_args`: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, …
fn clone3(c: &Context) {
    let cell = Guarded::new(&[0; 4]);
    let args = longs(&[CLONE_PIDFD as u64, cell.address(), 0, 0, SIGCHLD as u64, 0, 0, 0, 0, 0, 0]);
    let pid = c.call(&[("args", inout(&args))]).ok();
    if pid == 0 {
        be_child("new", 9);
    }
    let pidfd = super::context::number(&cell.bytes(), 0, 4) as i64;
    c.check(|| assert_eq!(fixture::fd_info(pidfd, "Pid"), pid.to_string()));
    was_child(c, pid, "new", 9);
    c.call(&[("args", inout(&[0; 8]))]).fails(EINVAL);
}

fn fork(c: &Context) {
    let pid = c.call(&[]).ok();
    if pid == 0 {
        be_child("new", 7);
    }
    c.check(|| assert_eq!(status_of(&pid.to_string(), "PPid"), std::process::id().to_string()));
    was_child(c, pid, "new", 7);
}

fn vfork(c: &Context) {
    // Not by way of `call`: the child must not return from a function.
    let pid = raw::vfork_exit(c.row().number, 9);
    assert!(pid > 0, "{pid}");
    if !c.checks() {
        let mut issued = Issued::before(c.row(), &[0; 6], &Default::default());
        issued.result = Some(pid);
        report::print(&issued);
    }
    assert_eq!(raw::wait(pid as i32), exited(9));
}

/// Address of an environment with `ADD=2`.
fn environment() -> u64 {
    Guarded::new(&longs(&[c_string("ADD=2"), c_string("PATH=/bin:/usr/bin"), 0])).address()
}

fn execve(c: &Context) {
    let call = |name: &str| {
        c.call(&[("path", path(name)), ("argv", strings(&["prog", "40"])), ("envp", address(environment()))])
    };
    call("missing").fails(ENOENT);
    call("file").fails(EACCES);
    let child = raw::fork(|| {
        call("prog").ok();
        1
    });
    // The script adds its argument and its environment.
    assert_eq!(raw::wait(child), exited(42));
}

fn execveat(c: &Context) {
    let dir = fixture::open("dir", O_PATH);
    let call = |name: &str, bits: i32| {
        c.call(&[
            ("dirfd", at_dir(dir)),
            ("path", path(name)),
            ("argv", strings(&["prog", "40"])),
            ("envp", address(environment())),
            ("flags", flags(bits.into())),
        ])
    };
    call("missing", 0).fails(ENOENT);
    call("../link", AT_SYMLINK_NOFOLLOW).fails(ELOOP);
    let child = raw::fork(|| {
        call("../prog", AT_SYMLINK_NOFOLLOW).ok();
        1
    });
    assert_eq!(raw::wait(child), exited(42));
}

/// In a process of its own: the call ends it with this status.
fn ends_process(c: &Context) {
    let child = raw::fork(|| {
        c.call(&[("status", int(5))]);
        1
    });
    assert_eq!(raw::wait(child), exited(5));
}

/// Ends the thread that calls it, and not the others; the last one's end is the process's.
fn exit(c: &Context) {
    let row = c.row();
    let quiet = !c.checks();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        send.send(raw::sys(SYS_gettid, &[])).expect("somebody waits");
        let mut args = [0; 6];
        args[0] = 6;
        if quiet {
            report::print(&Issued::before(row, &args, &Default::default()));
        }
        raw::syscall(row.number, args);
        raw::exit(9);
    });
    let thread = receive.recv().expect("the thread's number");
    let task = format!("/proc/self/task/{thread}");
    let waited = (0..5_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        fs::metadata(&task).is_err()
    });
    assert!(waited, "the thread is still there");
    if c.checks() {
        ends_process(c);
    }
}

fn exit_group(c: &Context) {
    ends_process(c);
}

fn wait4(c: &Context) {
    let child = raw::fork(|| 5);
    let call = |pid: i64, bits: i32| {
        c.call(&[
            ("pid", int(pid)),
            ("status", output(4)),
            ("options", num(bits as u64)),
            ("rusage", memory(&[CANARY; 144])),
        ])
    };
    let done = call(child.into(), 0);
    assert_eq!(done.ok(), i64::from(child));
    assert_eq!(done.number("status", 0, 4), 5 << 8);
    let usage = done.bytes("rusage");
    assert!(usage[136..] != [CANARY; 8], "usage has 144 bytes");
    call(-1, WNOHANG).fails(ECHILD);
    call(-1, 1 << 20).fails(EINVAL);
}

fn waitid(c: &Context) {
    let child = raw::fork(|| 5);
    let call = |pid: i64, bits: i32| {
        c.call(&[
            ("which", int(P_PID.into())),
            ("pid", int(pid)),
            ("info", memory(&[CANARY; 128])),
            ("options", num(bits as u64)),
            ("rusage", address(0)),
        ])
    };
    // si_code at 8, si_pid at 16, si_status at 24.
    let left = call(child.into(), WEXITED | WNOWAIT);
    left.ok();
    assert_eq!(left.number("info", 16, 4), child as u64);
    let done = call(child.into(), WEXITED);
    done.ok();
    assert_eq!(done.number("info", 8, 4), CLD_EXITED as u64);
    assert_eq!(done.number("info", 24, 4), 5);
    call(child.into(), WEXITED).fails(ECHILD);
}

fn namespace(name: &str) -> String {
    let link = fs::read_link(format!("/proc/self/ns/{name}")).expect("a namespace");
    link.to_string_lossy().into_owned()
}

fn unshare(c: &Context) {
    let call = |bits: i32| c.call(&[("flags", flags(bits.into()))]);
    call(CLONE_FILES | CLONE_FS).ok();
    call(1 << 1).fails(EINVAL);
    c.check(|| {
        let was = namespace("uts");
        let done = call(CLONE_NEWUTS);
        if done.errno() != EPERM {
            done.ok();
            assert_ne!(namespace("uts"), was);
        }
    });
}

fn setns(c: &Context) {
    let fd = fixture::open("/proc/self/ns/uts", O_RDONLY);
    let call = |kind: i32| c.call(&[("fd", value::fd(fd)), ("nstype", num(kind as u64))]);
    c.check(|| {
        let was = namespace("uts");
        if raw::sys(SYS_unshare, &[CLONE_NEWUTS as u64]) == 0 {
            assert_ne!(namespace("uts"), was);
            call(CLONE_NEWUTS).ok();
            assert_eq!(namespace("uts"), was);
        }
    });
    call(CLONE_NEWUTS).ok_or_skip(&[EPERM]);
    call(CLONE_NEWNET).fails(EINVAL);
}

fn ptrace(c: &Context) {
    const TRACE_ME: i64 = 0;
    let child = raw::fork(|| {
        let done = c.call(&[("request", int(TRACE_ME)), ("pid", int(0)), ("addr", address(0)), ("data", address(0))]);
        // Whoever records it traces it already.
        if c.checks() {
            done.ok();
            assert_eq!(status("TracerPid"), raw::sys(SYS_getppid, &[]).to_string());
        }
        3
    });
    assert_eq!(raw::wait(child), exited(3));
    c.check(|| peeks(c));
}

/// Reads the memory of a stopped child, which has the same at the same place.
fn peeks(c: &Context) {
    const PEEK_DATA: i64 = 2;
    const CONTINUE: i64 = 7;
    let known = Guarded::new(b"eight...");
    let child = raw::fork(|| {
        raw::must(SYS_ptrace, &[0, 0, 0, 0]);
        let me = raw::sys(SYS_getpid, &[]) as u64;
        raw::must(SYS_kill, &[me, SIGSTOP as u64]);
        4
    });
    assert_eq!(raw::wait(child), SIGSTOP << 8 | 0x7f);
    let call = |request: i64, addr: u64, data: Value| {
        c.call(&[("request", int(request)), ("pid", int(child.into())), ("addr", address(addr)), ("data", data)])
    };
    let done = call(PEEK_DATA, known.address(), memory(&[CANARY; 8]));
    let alive = call(CONTINUE, 0, address(0));
    if alive.errno() != 0 {
        raw::sys(SYS_kill, &[child as u64, SIGKILL as u64]);
    }
    let status = raw::wait(child);
    done.ok();
    assert_eq!(done.bytes("data"), b"eight...");
    alive.ok();
    assert_eq!(status, exited(4));
}

fn seccomp(c: &Context) {
    const GET_ACTION_AVAIL: i64 = 2;
    const ALLOW: u32 = 0x7fff_0000;
    let call = |action: u32| {
        c.call(&[("operation", int(GET_ACTION_AVAIL)), ("flags", num(0)), ("args", memory(&words(&[action])))])
    };
    assert_eq!(call(ALLOW).ok_or_skip(&[ENOSYS]), 0);
    call(0x1234_0000).fails(EOPNOTSUPP);
}
