//! Hostile behaviour inside the confinement, on the real kernel, as root and as an ordinary user.
//!
//! `unsafe` only for raw calls a hostile replay would make, which the crate itself offers no wrapper for.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use reprise_replay::confine::{self, ConfineError, Confinement, Options};
use reprise_replay::sys;

mod scratch;
use scratch::{Scratch, is_root};

const NOBODY: u32 = 65534;

/// Findings of a child: what went otherwise than it should.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn check(&mut self, good: bool, what: &str) {
        if !good {
            self.0.push(what.to_owned());
        }
    }

    fn fails<T>(&mut self, outcome: io::Result<T>, errno: &[i32], what: &str) {
        match outcome {
            Ok(_) => self.0.push(format!("{what}: succeeded")),
            Err(e) if errno.contains(&e.raw_os_error().unwrap_or(0)) => {}
            Err(e) => self.0.push(format!("{what}: {e}")),
        }
    }
}

/// Who the child is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum User {
    Caller,
    Ordinary,
}

/// Both, as far as possible here; the reason for those left out is told.
fn users() -> Vec<User> {
    let mut users = vec![User::Caller];
    if is_root() {
        users.push(User::Ordinary)
    } else {
        eprintln!("SKIP: the part as root needs root")
    }
    users.retain(|user| match run(*user, |faults| faults.check(confine::probe().is_ok(), "no namespaces")).as_str() {
        "" => true,
        why => {
            eprintln!("SKIP: {user:?} cannot be confined here: {why}");
            false
        }
    });
    users
}

/// Runs `body` in a forked child as `user`; its findings. A child that dies is a finding.
fn run(user: User, body: impl FnOnce(&mut Faults)) -> String {
    let (mut reader, writer) = io::pipe().unwrap();
    let Some(child) = sys::fork().unwrap() else {
        let _ = confine::close_descriptors_except(&[writer.as_raw_fd()]);
        let mut faults = Faults::default();
        if user == User::Ordinary {
            // SAFETY: plain numbers.
            let done = unsafe {
                libc::setgroups(0, std::ptr::null()) == 0
                    && libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
                    && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0
                    // As after exec: otherwise /proc/self belongs to root.
                    && libc::prctl(libc::PR_SET_DUMPABLE, 1) == 0
            };
            faults.check(done, "cannot become an ordinary user");
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&mut faults)));
        faults.check(outcome.is_ok(), "panicked");
        let _ = (&writer).write_all(faults.0.join("\n").as_bytes());
        sys::exit(0)
    };
    drop(writer);
    let mut findings = String::new();
    reader.read_to_string(&mut findings).unwrap();
    let status = sys::wait(child).unwrap();
    if status != 0 {
        findings.push_str(&format!("ended with status {status:#x}"));
    }
    findings
}

fn enter(target: &Path, faults: &mut Faults) -> Option<Confinement> {
    confine::enter(target, Options::default(), &[b"/in", b"/missing"])
        .map_err(|e| faults.check(false, &e.to_string()))
        .ok()
}

/// A target with everything a trace could have planted, owned by `user`.
fn hostile_target(scratch: &Scratch, user: User) -> PathBuf {
    let dir = scratch.dir(&format!("{user:?}"));
    fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(dir.join("inside"), "inside").unwrap();
    symlink("/etc/passwd", dir.join("absolute")).unwrap();
    symlink("../../../../../etc/passwd", dir.join("up")).unwrap();
    symlink("/proc/self/root/etc/passwd", dir.join("magic")).unwrap();
    fs::create_dir_all(dir.join("proc")).unwrap();
    fs::create_dir_all(dir.join("x")).unwrap();
    fs::create_dir_all(dir.join("dev")).unwrap();
    for device in ["null", "zero", "full", "random", "urandom"] {
        fs::write(dir.join("dev").join(device), "").unwrap();
    }
    fs::write(dir.join("program"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(dir.join("program"), PermissionsExt::from_mode(0o755)).unwrap();
    if is_root() {
        let disk = CString::new(dir.join("disk").to_str().unwrap()).unwrap();
        // SAFETY: a C string. 1:5 is /dev/zero: harmless should the test fail.
        assert_eq!(unsafe { libc::mknod(disk.as_ptr(), libc::S_IFCHR | 0o666, libc::makedev(1, 5)) }, 0);
    }
    if user == User::Ordinary {
        for entry in ["", "inside", "x", "dev", "dev/null", "dev/zero", "program", "proc"] {
            chown(dir.join(entry), Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    dir
}

fn errno(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[test]
fn no_way_out() {
    let scratch = Scratch::new("no-way-out");
    let secret = scratch.path().join("secret");
    fs::write(&secret, "precious").unwrap();
    fs::set_permissions(&secret, PermissionsExt::from_mode(0o666)).unwrap();
    let outer = std::process::id() as i32;
    let abstract_name = format!("reprise-confine-{outer}");
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&abstract_name);
    let address = address.unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    for user in users() {
        let dir = hostile_target(&scratch, user);
        let findings = run(user, |faults| {
            let privileged = is_root();
            let Some(report) = enter(&dir, faults) else {
                return;
            };
            faults.check(report.mount_namespace && report.user_namespace != privileged, "namespaces as expected");
            faults.check(report.process_namespace && report.network_namespace, "own processes and network");
            faults.check(report.to_string().starts_with("confined to"), "a report in words");
            faults.check(std::env::current_dir().is_ok_and(|d| d == Path::new("/")), "the working directory is /");
            let gone = &[libc::ENOENT, libc::ENOTDIR];
            for path in ["/../../etc/passwd", "/absolute", "/up", "/magic", "../../etc/passwd", "/etc/passwd"] {
                faults.fails(fs::read(path), gone, path);
            }
            faults.fails(fs::hard_link(&secret, "/link"), gone, "hard link to the outside");
            faults.fails(fs::rename("/inside", secret.parent().unwrap().join("moved")), gone, "rename to the outside");
            faults.check(fs::read_dir("/proc").is_ok_and(|d| d.count() == 0), "/proc shows nothing");
            if Path::new("/disk").exists() {
                faults.fails(fs::File::open("/disk"), &[libc::EACCES], "planted device");
            }
            faults.check(report.devices.len() == 5, "five devices");
            faults.check(fs::write("/dev/null", "gone").is_ok(), "/dev/null takes anything");
            faults.fails(fs::write("/dev/full", "x"), &[libc::ENOSPC, libc::EACCES], "/dev/full is full");
            for device in ["/dev/zero", "/dev/random", "/dev/urandom"] {
                let got = fs::File::open(device).and_then(|mut f| f.read_exact(&mut [0; 8]));
                faults.check(got.is_ok(), device);
            }
            let mode = PermissionsExt::from_mode(0o600);
            faults.fails(
                fs::set_permissions("/dev/null", mode),
                &[libc::EROFS, libc::EPERM],
                "mode of the host's null",
            );
            raw_attempts(faults, outer, privileged);
            let connected = std::os::unix::net::UnixStream::connect_addr(&address);
            faults.fails(connected, &[libc::ECONNREFUSED, libc::EPERM], "abstract socket of the host");
            faults.fails(std::process::Command::new("/program").status(), gone, "interpreter of the host");
            match privileged {
                true => {
                    faults.check(std::os::unix::fs::chroot("/x").is_ok(), "chroot by root, as recorded");
                    for _ in 0..20 {
                        let _ = std::env::set_current_dir("..");
                    }
                    let _ = std::os::unix::fs::chroot(".");
                    faults
                        .check(fs::read("/inside").is_ok_and(|t| t == b"inside"), "chroot and .. lead to our own root");
                    faults.fails(fs::read("/etc/passwd"), gone, "chroot escape");
                }
                false => faults.fails(std::os::unix::fs::chroot("/x"), &[libc::EPERM], "chroot by a user"),
            }
        });
        assert_eq!(findings, "", "as {user:?}");
        assert_eq!(fs::read(&secret).unwrap(), b"precious");
    }
}

/// Calls that need privileges a replay must not have. Without seccomp: the other layers must suffice.
fn raw_attempts(faults: &mut Faults, outer: i32, privileged: bool) {
    let denied = &[libc::EPERM, libc::EACCES];
    let (root, none, proc) = (c"/x".as_ptr(), c"none".as_ptr(), c"proc".as_ptr());
    // SAFETY: C strings and null pointers where the kernel allows them.
    unsafe {
        let null: *const libc::c_char = std::ptr::null();
        faults.fails(errno(libc::mount(none, root, proc, 0, null.cast()).into()), denied, "mount /proc");
        faults.fails(
            errno(libc::mount(root, c"/dev".as_ptr(), null, libc::MS_BIND, null.cast()).into()),
            denied,
            "bind mount",
        );
        faults.fails(errno(libc::umount2(c"/dev/null".as_ptr(), libc::MNT_DETACH).into()), denied, "uncover a device");
        let device = libc::mknod(c"/x/sda".as_ptr(), libc::S_IFBLK | 0o600, libc::makedev(8, 0));
        faults.fails(errno(device.into()), denied, "make a device");
        let no_process = &[libc::ESRCH, libc::EPERM];
        faults.fails(errno(libc::kill(outer, 0).into()), no_process, "signal the outside");
        faults.fails(errno(libc::ptrace(libc::PTRACE_ATTACH, outer, 0, 0)), no_process, "ptrace the outside");
        let mut handle = [8u32, 1, 2, 0, 0, 0]; // 8 bytes, FILEID_INO32_GEN, inode 2: the root of an ext file system
        let here = libc::open(c"/".as_ptr(), libc::O_RDONLY);
        let opened = libc::syscall(libc::SYS_open_by_handle_at, here, handle.as_mut_ptr(), libc::O_RDONLY);
        faults.fails(errno(opened), &[libc::EPERM, libc::ESTALE], "open by handle");
        libc::close(here);
        let owned = libc::chown(c"/inside".as_ptr(), 4711, 4711);
        faults.check((owned == 0) == privileged, "change of owner exactly as the recorded privileges allow");
        faults.fails(errno(libc::sethostname(c"x".as_ptr(), 1).into()), denied, "host name");
    }
}

#[test]
fn links_in_the_place_of_devices_are_not_followed() {
    let scratch = Scratch::new("device-links");
    for user in users() {
        let dir = scratch.dir(&format!("{user:?}"));
        fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
        symlink("/dev", dir.join("dev")).unwrap();
        let findings = run(user, |faults| {
            let report = enter(&dir, faults);
            faults.check(report.is_some_and(|r| r.devices.is_empty()), "a link to /dev is not followed");
        });
        assert_eq!(findings, "", "as {user:?}");
        fs::remove_file(dir.join("dev")).unwrap();
        fs::create_dir(dir.join("dev")).unwrap();
        symlink("/dev/null", dir.join("dev/null")).unwrap();
        fs::write(dir.join("dev/zero"), "content of the trace").unwrap();
        let findings = run(user, |faults| {
            let report = enter(&dir, faults);
            faults.check(report.is_some_and(|r| r.devices.is_empty()), "only placeholders are covered");
            faults.check(fs::read("/dev/zero").is_ok_and(|t| t.len() == 20), "content stays");
        });
        assert_eq!(findings, "", "as {user:?}");
    }
}

/// What the tests need to go on: reading, writing, memory, threads' waiting.
const SOME_CALLS: [u32; 14] = [0, 1, 3, 5, 8, 9, 10, 12, 17, 24, 35, 230, 257, 332];

#[test]
fn only_listed_calls_remain() {
    let scratch = Scratch::new("calls");
    for user in users() {
        let dir = hostile_target(&scratch, user);
        let findings = run(user, |faults| {
            let Some(mut report) = enter(&dir, faults) else {
                return;
            };
            // A thread may use unlisted calls while it starts: restrict when it has.
            let (meet, gone) = (std::sync::Barrier::new(2), std::sync::atomic::AtomicI64::new(0));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    meet.wait();
                    meet.wait();
                    // SAFETY: no arguments.
                    gone.store(unsafe { libc::syscall(libc::SYS_getppid) }, std::sync::atomic::Ordering::SeqCst);
                });
                meet.wait();
                faults.check(report.restrict_calls(&SOME_CALLS).is_ok() && report.seccomp, "restrict");
                meet.wait();
            });
            faults.check(gone.into_inner() == -1, "threads started before are limited");
            faults.check(fs::read("/inside").is_ok(), "listed calls work");
            let denied = &[libc::EPERM];
            faults.fails(fs::create_dir("/new"), denied, "mkdir");
            // SAFETY: C strings, null-terminated arrays, plain numbers.
            unsafe {
                let program = [c"/program".as_ptr(), std::ptr::null()];
                let ran = libc::execve(program[0], program.as_ptr(), program[1..].as_ptr());
                faults.fails(errno(ran.into()), denied, "execve");
                faults.fails(errno(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0).into()), denied, "socket");
                faults.fails(errno(libc::unshare(libc::CLONE_NEWUSER).into()), denied, "a new user namespace");
                faults.fails(errno(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0)), denied, "ptrace");
            }
        });
        assert_eq!(findings, "", "as {user:?}");
    }
    let killed = run(User::Caller, |faults| {
        faults.check(confine::restrict_calls(&SOME_CALLS).is_ok(), "restrict without confinement");
        // SAFETY: no arguments; getpid of the x32 ABI.
        unsafe { libc::syscall(0x4000_0000 + 39) };
    });
    assert!(killed.starts_with("ended with status") && killed.contains("1f"), "not killed by SIGSYS: {killed}");
    assert!(matches!(confine::restrict_calls(&[0x4000_0001]), Err(ConfineError::InvalidCall(_))));
    let many: Vec<u32> = (0..3000).collect();
    assert!(matches!(confine::restrict_calls(&many), Err(ConfineError::TooManyCalls(_))));
}

#[test]
fn privileges_are_reduced() {
    if !is_root() {
        eprintln!("SKIP: needs root");
        return;
    }
    let scratch = Scratch::new("privileges");
    let dir = hostile_target(&scratch, User::Caller);
    let findings = run(User::Caller, |faults| {
        let before = sys::capabilities().unwrap_or(0);
        let Some(report) = enter(&dir, faults) else {
            return;
        };
        let after = sys::capabilities().unwrap_or(u64::MAX);
        faults.check(after == before & confine::KEPT && after == report.capabilities, "exactly the kept ones");
        faults.check(after & (1 << 21 | 1 << 2 | 1 << 27) == 0, "no SYS_ADMIN, DAC_READ_SEARCH, MKNOD");
        // SAFETY: plain numbers.
        let (nnp, admin) =
            unsafe { (libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), libc::prctl(libc::PR_CAPBSET_READ, 21)) };
        faults.check(nnp == 1 && admin == 0, "for good");
    });
    assert_eq!(findings, "");
}

#[test]
fn mistakes_are_told() {
    let scratch = Scratch::new("mistakes");
    for user in users() {
        let missing = scratch.path().join("missing");
        let findings = run(user, |faults| {
            let outcome = confine::enter(&missing, Options::default(), &[]);
            faults.check(matches!(outcome, Err(ConfineError::Target { .. })), "missing target");
        });
        assert_eq!(findings, "", "as {user:?}");
        let findings = run(user, |faults| {
            let leak = fs::File::open("/");
            let outcome = confine::enter(Path::new("/tmp"), Options::default(), &[]);
            faults.check(matches!(outcome, Err(ConfineError::OpenDirectory { .. })), "an open directory is refused");
            drop(leak);
        });
        assert_eq!(findings, "", "as {user:?}");
    }
}

#[test]
fn submounts_are_left_out_or_refused() {
    let scratch = Scratch::new("submounts");
    let dir = scratch.dir("t");
    fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    let sub = dir.join("sub");
    let mount =
        |args: &[&str]| std::process::Command::new(args[0]).args(&args[1..]).status().is_ok_and(|s| s.success());
    if !is_root() || !mount(&["mount", "-t", "tmpfs", "none", sub.to_str().unwrap()]) {
        eprintln!("SKIP: cannot mount here");
        return;
    }
    fs::write(sub.join("foreign"), "").unwrap();
    let findings = run(User::Caller, |faults| {
        enter(&dir, faults);
        faults.check(fs::read_dir("/sub").is_ok_and(|d| d.count() == 0), "the other file system is not there");
    });
    let refused = run(User::Ordinary, |faults| match confine::enter(&dir, Options::default(), &[]) {
        Err(e) => faults
            .check(matches!(e, ConfineError::Submounts { .. } | ConfineError::NotPermitted { .. }), &e.to_string()),
        Ok(_) => faults.check(fs::read_dir("/sub").is_ok_and(|d| d.count() == 0), "hidden"),
    });
    assert!(mount(&["umount", sub.to_str().unwrap()]));
    assert_eq!((findings.as_str(), refused.as_str()), ("", ""));
}
