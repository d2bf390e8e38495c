//! Devices that a replay has, too: what they always have more of is asked for as far as it came.

mod means;

use std::path::Path;
use std::process::Command;

use means::{has, in_kernel, mkdir, record, run};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::{skip, tree};

/// Reads from a device until a signal has ended a read before its end, each in two ways; writes down what came.
const INTERRUPTED: &str = r#"
import os, signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
memory = bytearray(1 << 28)
came = []
for name in ("/dev/zero", "/dev/urandom"):
    fd = os.open(name, os.O_RDONLY)
    for read in (lambda: os.readv(fd, [memory]), lambda: os.readv(fd, [memoryview(memory)[:99999], memory])):
        for _ in range(200):
            came.append(read())
            if came[-1] < len(memory):
                break
signal.setitimer(signal.ITIMER_REAL, 0)
open("came", "w").write(" ".join(map(str, came)))
"#;

#[test]
fn a_read_that_a_signal_ended_is_replayed_as_far_as_it_came() {
    let s = Scratch::new();
    let name = "a_read_that_a_signal_ended_is_replayed_as_far_as_it_came";
    if !has("python3") {
        return skip(name, "no python3");
    }
    std::fs::write(s.path().join("p.py"), INTERRUPTED).unwrap();
    record(s.path(), "a.reprise", "python3 p.py");
    let came = std::fs::read_to_string(s.path().join("came")).unwrap();
    if !came.split(' ').any(|bytes| bytes.parse::<u64>().unwrap() < 1 << 28) {
        return skip(name, "no signal came in time");
    }
    mkdir(s.path(), "t");
    run(s.path(), &["replay", "a.reprise", "--target", "t"]).ends(0);
}

/// Content that a device, or what the kernel shows, gives to a file inside the kernel: straight, through a pipe, and read back.
const PASSED: &str = r#"
import os
random, zero = (os.open("/dev/" + name, os.O_RDONLY) for name in ("urandom", "zero"))
def made(name):
    return os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
def all(step, bytes):
    while bytes:
        bytes -= step(bytes)
sent = made("sent")
all(lambda n: os.sendfile(sent, random, None, n), 300000)
os.lseek(sent, 5000, os.SEEK_SET)
all(lambda n: os.sendfile(sent, zero, None, n), 9000)
all(lambda n: os.sendfile(sent, random, None, n), 100)
os.write(made("copy"), os.pread(sent, 10000, 4500))
shown = os.open("/proc/version", os.O_RDONLY)
told = made("told")
os.sendfile(told, shown, None, 9999)
os.write(made("retold"), os.pread(told, 9999, 0))
end, begin = os.pipe()
passed = made("passed")
for device in (random, zero, random):
    all(lambda n: os.splice(end, passed, n), os.splice(device, begin, 4096))
os.splice(random, begin, 4096)
os.write(passed, os.read(end, 4096))
"#;

/// Records it in a directory, `w`, where something is mounted if that is given; what it has left there is copied then.
fn passes(backend: &str, mount: Option<&str>) {
    let s = Scratch::new();
    let (work, copied) = (mkdir(s.path(), "w"), mkdir(s.path(), "copied"));
    std::fs::write(s.path().join("p.py"), PASSED).unwrap();
    let record = ["record", "-q", "--backend", backend, "-o", "../a.reprise", "--", "python3", "../p.py"];
    match mount {
        Some(mount) => {
            let words = format!(
                "{mount} && cd w && {} {} && cp -a . {copied}",
                env!("CARGO_BIN_EXE_reprise"),
                record.join(" ")
            );
            let made = Command::new("unshare").args(["-m", "sh", "-c", &words]).current_dir(s.path()).output().unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        None => _ = run(Path::new(&work), &record).ends(0),
    }
    mkdir(s.path(), "t");
    run(s.path(), &["replay", "a.reprise", "--target", "t"]).ends(0);
    let there = s.path().join("t").join(s.path().strip_prefix("/").unwrap()).join("w");
    let left = if mount.is_some() { copied } else { work };
    let differences = tree::differences(&tree::walk(Path::new(&left)), &tree::walk(&there));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let info = run(s.path(), &["info", "a.reprise"]);
    assert!(!info.ends(0).out.contains("could not be read"), "{info:#?}");
}

#[test]
fn what_a_device_gave_a_file_inside_the_kernel_is_kept() {
    let name = "what_a_device_gave_a_file_inside_the_kernel_is_kept";
    if !has("python3") {
        return skip(name, "no python3");
    }
    passes("ptrace", None);
    if in_kernel(name, Scratch::new().path()) {
        passes("ebpf", None);
    }
}

/// What is in a file of an overlay stands in the file below it.
#[test]
fn what_a_file_of_an_overlay_was_given_inside_the_kernel_is_kept() {
    const MOUNT: &str = "mkdir -p low up work && mount -t overlay -o lowerdir=low,upperdir=up,workdir=work none w";
    let (name, s) = ("what_a_file_of_an_overlay_was_given_inside_the_kernel_is_kept", Scratch::new());
    let words = format!("mkdir w && {MOUNT}");
    let mounts = Command::new("unshare").args(["-m", "sh", "-c", &words]).current_dir(s.path()).status();
    if !has("python3") || !mounts.is_ok_and(|status| status.success()) {
        return skip(name, "no python3, or no overlay can be mounted");
    }
    if in_kernel(name, s.path()) {
        passes("ebpf", Some(MOUNT));
    }
}
