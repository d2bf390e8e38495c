//! Files reached through what the kernel shows of a process: `/dev/stdin`, `/proc/self/fd/N`, `/proc/PID/fd/N`, `/proc/self/cwd`, links
//! to these, and the same from a descriptor of a directory of `/proc`.
//!
//! Goals: they are the files that they are, in what stood before and in what a replay leaves. Non-goals: files without a name.

mod means;

use std::path::Path;
use std::process::Command;

use means::{in_kernel, mkdir, run};
use reprise_testkit::program::{reprise, succeed};
use reprise_testkit::scratch::{Scratch, is_root};
use reprise_testkit::{skip, tree};

/// In an empty directory below the one with `old1` … `old9`.
const SCRIPT: &str = r#"
cat /dev/stdin < ../old1 > read1
cat /dev/fd/3 3< ../old2 > read2
ln -s /proc/self/fd/3 link; cat link 3< ../old3 > read3
ln -s /dev/fd every; exec 4>> ../old4; echo more > every/4
exec 5>> ../old5; (exec 5>&-; echo more >> /proc/$$/fd/5; chmod 640 /proc/$$/fd/5)
echo other > /proc/self/cwd/../old6
sh -c 'echo said > /dev/stderr; echo told > /dev/stdout' 2> ../old7 > ../old8
exec 6< ..; echo new > /dev/fd/6/new; chmod 600 /dev/fd/6/old9; ls -l /dev/fd/6/ > /dev/null
exec 3< ../old3; readlink /dev/fd/3 every/3 link > texts; stat /dev/fd/3 every/3 link > /dev/null
"#;

/// The same: paths that begin in a directory of `/proc`, and those through directories of threads.
const FROM_DIRECTORIES: &str = r#"
import ctypes, mmap, os, threading
libc = ctypes.CDLL(None, use_errno=True)
def put(text, path, d=None, flags=os.O_APPEND):
    fd = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600, dir_fd=d)
    os.write(fd, text)
    os.close(fd)

old = [os.open(f"../old{n}", os.O_RDWR) if n else None for n in range(10)]
here = os.open("..", os.O_RDONLY)
all, own = os.open("/proc", os.O_PATH), os.open("/proc/self/", os.O_PATH)
fds = os.open("/proc/self/fd", os.O_RDONLY)
put(b"by the directory of descriptors", f"{old[1]}", fds)
put(b"new", f"{here}/new1", fds)
os.mkdir(f"{here}/made", 0o750, dir_fd=fds)
os.chmod(f"{old[2]}", 0o640, dir_fd=fds)
os.link(f"{old[2]}", "linked", src_dir_fd=fds, follow_symlinks=True)
put(b"by a copy", f"{old[3]}", os.dup(fds))
os.symlink("somewhere", f"{here}/text", dir_fd=fds)
assert os.readlink(f"{here}/text", dir_fd=fds) == "somewhere"
os.rename(f"{here}/text", "self/cwd/moved", src_dir_fd=fds, dst_dir_fd=all)
os.chmod(f"self/fd/{old[4]}", 0o604, dir_fd=all)

put(b"by the process", "cwd/new2", own)
put(b"by the thread", f"thread-self/fd/{old[4]}", all)
again = os.open("fd", os.O_PATH | os.O_DIRECTORY, dir_fd=own)
put(b"further", f"{old[5]}", again)
put(b"all", f"self/cwd/../new3", all)
back = os.open("../fd/./../..", os.O_PATH, dir_fd=fds)
put(b"and back", f"{os.getpid()}//cwd/new4", back)

if os.fork() == 0:
    # Of the parent's: not its own, which is another file.
    os.dup2(old[7], old[6])
    put(b"of the parent", f"{old[6]}", fds)
    os._exit(0)
os.wait()

os.chdir("/proc/self/fd")
put(b"from there", f"{old[7]}")
os.unlink(f"{here}/old8")
os.chdir("..")
put(b"above", f"fd/{here}/new5")
os.fchdir(fds)
put(b"once more", f"{here}/in/new6")
os.chdir(f"{here}/in")

task = f"/proc/self/task/{threading.get_native_id()}"
put(b"1", f"{task}/cwd/thread1")
put(b"2", f"/proc/{os.getpid()}/task/{os.getpid()}/fd/{here}/thread2")
put(b"3", "/proc/self/task/../cwd/thread3")
put(b"4", "/proc/thread-self/cwd/thread4")
put(b"5", f"{threading.get_native_id()}/cwd/thread5", os.open("/proc/self/task", os.O_RDONLY))
def elsewhere():
    CLONE_FS = 0x200
    assert libc.unshare(CLONE_FS) == 0
    os.chdir("..")
    put(b"6", f"/proc/self/task/{threading.get_native_id()}/cwd/thread6")
    put(b"7", f"/proc/thread-self/cwd/thread7")
    put(b"8", f"/proc/self/cwd/thread8")
thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()

fd = os.open("../mapped", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 4096)
memory = mmap.mmap(fd, 4096)
place = [line.split()[0] for line in open("/proc/self/maps") if line.endswith("/w/mapped\n")][0]
try:
    put(b"through a mapping", "/proc/self/map_files/" + "-".join(f"{int(end, 16):x}" for end in place.split("-")), flags=0)
except PermissionError:
    pass

FSOPEN, FSCONFIG, FSMOUNT, CREATE = 430, 431, 432, 6
context = libc.syscall(FSOPEN, b"proc", 0)
if context >= 0 and libc.syscall(FSCONFIG, context, CREATE, None, None, 0) == 0:
    private = libc.syscall(FSMOUNT, context, 0, 0)
    put(b"by a private one", f"self/fd/{old[9]}", private)
    inner = os.open("thread-self/fd", os.O_PATH, dir_fd=private)
    put(b"further in", f"{here}/new7", inner)
"#;

/// By somebody who may not pass the directory above the files that are open.
const PAST_DIRECTORIES: &str = r#"
mkdir -m 700 private; mkdir -m 777 private/open
for n in 1 2 3 4 5 6; do echo "stood $n" > private/f$n; chmod 666 private/f$n; done
chown 65534:65534 private/f4 private/f5 private/f6; echo inner > private/open/inner; chmod 777 .
as() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
as cat /dev/stdin < private/f1
as stat -L -c %s /dev/stdin < private/f1
as sh -c 'cat /proc/self/fd/5; [ -r /dev/fd/5 ] && echo readable > said' 5< private/f1
as sh -c 'echo more >> /dev/stdout' >> private/f2
as sh -c 'echo other > /dev/fd/5' 5< private/f3
as sh -c 'chmod 640 /dev/fd/5; touch -d @1000000 /dev/fd/5; chgrp 65534 /proc/self/fd/5' 5< private/f4
as truncate -s 3 /dev/stdin < private/f5
as truncate -s 4 /dev/stdin <> private/f6
as sh -c 'cat /dev/fd/6/inner; echo new > /dev/fd/6/new; mkdir /dev/fd/6/made; mv /dev/fd/6/inner /dev/fd/6/moved; ls -l /dev/fd/6/' 6< private/open
cat private/f? private/open/*ed private/open/new; stat private/f? private/open/*
"#;

/// Below a root that has no `/proc`, then a directory of that name, then the kernel's.
const BELOW_ANOTHER_ROOT: &str = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS, ALL_PRIVATE = 0x20000, 0x44000
has_mounts = libc.unshare(NEW_MOUNTS) == 0 and libc.mount(None, b"/", None, ALL_PRIVATE, None) == 0
os.mkdir("root")
def made(*where):
    fd = os.open(*where)
    os.write(fd, b"as it was")
    return fd, f"/proc/self/fd/{fd}"
nameless, by_nameless = made("root", os.O_TMPFILE | os.O_RDWR, 0o644)
named, by_named = made("root/named", os.O_RDWR | os.O_CREAT, 0o644)
os.chroot("root")
os.chdir("/")
HERE, FOLLOW = -100, 0x400
def link(name):
    return libc.linkat(HERE, by_nameless.encode(), HERE, name, FOLLOW)
assert link(b"/linked") == -1
os.mkdir("/proc"); os.mkdir("/proc/self"); os.mkdir("/proc/self/fd")
own = os.open(by_named, os.O_RDWR | os.O_CREAT, 0o600)
os.write(own, b"of its own")
assert link(b"/linked") == -1
if has_mounts and libc.mount(b"proc", b"/proc", b"proc", 0, None) == 0:
    os.truncate(by_named, 5)
    assert link(b"/then") == 0
    assert libc.umount2(b"/proc", 0) == 0

FSOPEN, FSCONFIG, FSMOUNT, MOVE_MOUNT, CREATE, BY_DESCRIPTOR = 430, 431, 432, 429, 6, 4
context = libc.syscall(FSOPEN, b"proc", 0) if has_mounts else -1
if context >= 0 and libc.syscall(FSCONFIG, context, CREATE, None, None, 0) == 0:
    mounted = libc.syscall(FSMOUNT, context, 0, 0)
    if libc.syscall(MOVE_MOUNT, mounted, b"", HERE, b"/proc", BY_DESCRIPTOR) == 0:
        os.truncate(by_named, 3)
        assert link(b"/at-last") == 0
"#;

fn prepared(place: &Path) {
    std::fs::create_dir_all(place.join("w/in")).unwrap();
    for number in 1..10 {
        std::fs::write(place.join(format!("w/old{number}")), format!("stood {number}\n")).unwrap();
    }
}

/// What the directory `w` holds after the program, and after a replay of the trace `a.reprise`.
fn compared(place: &Path) {
    mkdir(place, "target");
    run(place, &["replay", "a.reprise", "--target", "target"]).ends(0);
    let there = place.join("target").join(place.strip_prefix("/").unwrap());
    let differences = tree::differences(&tree::walk(&place.join("w")), &tree::walk(&there.join("w")));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn recorded(backend: &str, program: &[&str]) {
    let s = Scratch::new();
    prepared(s.path());
    let mut command = Command::new(reprise().unwrap());
    command.args(["record", "--quiet", "--backend", backend, "--tree", "..", "-o", "../../a.reprise", "--"]);
    succeed(command.args(program).current_dir(s.path().join("w/in")));
    compared(s.path());
}

#[test]
fn recorded_in_the_kernel() {
    if in_kernel("recorded_in_the_kernel", Scratch::new().path()) {
        recorded("ebpf", &["sh", "-c", SCRIPT]);
    }
}

#[test]
fn recorded_by_ptrace() {
    recorded("ptrace", &["sh", "-c", SCRIPT]);
}

fn past_directories(test: &str, backend: &str) {
    let is_there = Command::new("setpriv").arg("--version").output().is_ok();
    match is_root() && is_there {
        true => recorded(backend, &["sh", "-c", PAST_DIRECTORIES]),
        false => skip(test, "to run as somebody else takes root and setpriv(1)"),
    }
}

#[test]
fn past_directories_recorded_in_the_kernel() {
    const TEST: &str = "past_directories_recorded_in_the_kernel";
    if in_kernel(TEST, Scratch::new().path()) {
        past_directories(TEST, "ebpf");
    }
}

#[test]
fn past_directories_recorded_by_ptrace() {
    past_directories("past_directories_recorded_by_ptrace", "ptrace");
}

const PYTHON: &str = "/usr/bin/python3";

fn from_directories(test: &str, backend: &str) {
    match Path::new(PYTHON).exists() {
        true => recorded(backend, &[PYTHON, "-S", "-E", "-B", "-c", FROM_DIRECTORIES]),
        false => skip(test, "no /usr/bin/python3"),
    }
}

#[test]
fn from_directories_recorded_in_the_kernel() {
    const TEST: &str = "from_directories_recorded_in_the_kernel";
    if in_kernel(TEST, Scratch::new().path()) {
        from_directories(TEST, "ebpf");
    }
}

#[test]
fn from_directories_recorded_by_ptrace() {
    from_directories("from_directories_recorded_by_ptrace", "ptrace");
}

fn below_another_root(test: &str, backend: &str) {
    match is_root() && Path::new(PYTHON).exists() {
        true => recorded(backend, &[PYTHON, "-S", "-E", "-B", "-c", BELOW_ANOTHER_ROOT]),
        false => skip(test, "to take another root takes root and /usr/bin/python3"),
    }
}

#[test]
fn below_another_root_recorded_in_the_kernel() {
    const TEST: &str = "below_another_root_recorded_in_the_kernel";
    if in_kernel(TEST, Scratch::new().path()) {
        below_another_root(TEST, "ebpf");
    }
}

#[test]
fn below_another_root_recorded_by_ptrace() {
    below_another_root("below_another_root_recorded_by_ptrace", "ptrace");
}

/// A directory that is met once more below the root of a process that is not recorded keeps what is in it.
#[test]
fn a_directory_below_the_root_of_another_process() {
    let s = Scratch::new();
    if !in_kernel("a_directory_below_the_root_of_another_process", s.path()) {
        return;
    }
    prepared(s.path());
    let (place, of) = (s.path().join("w"), std::process::id());
    let script = format!(
        "stat {0}; stat -L /proc/{of}/root{0}; cat {0}/old1; echo more >> {0}/old2; ls {0}/in",
        place.display()
    );
    let mut command = Command::new(reprise().unwrap());
    command.args(["record", "--quiet", "--backend", "ebpf", "-o", "a.reprise", "--", "sh", "-c", &script]);
    succeed(command.current_dir(s.path()));
    mkdir(s.path(), "target");
    run(s.path(), &["replay", "a.reprise", "--target", "target"]).ends(0);
    let there = s.path().join("target").join(place.strip_prefix("/").unwrap());
    assert_eq!(std::fs::read(there.join("old1")).unwrap(), b"stood 1\n");
    assert_eq!(std::fs::read(there.join("old2")).unwrap(), b"stood 2\nmore\n");
}

/// Nothing but the call itself tells what it stored, and no replay has such a memory.
const MEMORY: &str = r#"
import mmap, os
fd = os.open("mapped", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 4096)
memory = mmap.mmap(fd, 4096)
place = [line.split()[0] for line in open("/proc/self/maps") if line.endswith("/in/mapped\n")][0]
memory_of_itself = os.open("/proc/self/mem", os.O_RDWR)
os.pwrite(memory_of_itself, b"stored", int(place.split("-")[0], 16) + 5)
"#;

#[test]
fn stores_through_the_memory_of_a_process_are_counted() {
    const TEST: &str = "stores_through_the_memory_of_a_process_are_counted";
    let s = Scratch::new();
    if !Path::new(PYTHON).exists() {
        return skip(TEST, "no /usr/bin/python3");
    }
    prepared(s.path());
    let record = |backend: &str| {
        let mut command = Command::new(reprise().unwrap());
        let trace = format!("../../{backend}.reprise");
        command.args(["record", "--quiet", "--backend", backend, "-o", &trace, "--"]);
        command.args([PYTHON, "-S", "-E", "-B", "-c", MEMORY]);
        succeed(command.current_dir(s.path().join("w/in")));
        std::fs::remove_file(s.path().join("w/in/mapped")).unwrap();
        mkdir(s.path(), &format!("target-{backend}"));
        let trace = format!("{backend}.reprise");
        let said = run(s.path(), &["replay", &trace, "--target", &format!("target-{backend}")]);
        said.ends(0).out.clone()
    };
    // Who looks at pages sees what was stored.
    let said = record("ptrace");
    assert!(said.contains("unsupported 0"), "{said}");
    if in_kernel(TEST, s.path()) {
        let said = record("ebpf");
        assert!(said.contains("unsupported 1"), "{said}");
    }
}
