//! `ioctl`: what its argument is depends on the request.

use libc::*;

use super::Case;
use super::context::{Context, Done};
use super::fixture::{self, FILE_BYTES};
use super::value::{self, *};
use crate::raw;

pub(super) const CASES: &[(&str, Case)] = &[("ioctl", ioctl)];

/// Requests by their numbers in `linux/fs.h` and `asm-generic/ioctls.h`.
const FICLONE: i64 = 0x4004_9409;
const FICLONERANGE: i64 = 0x4020_940d;
const FIOCLEX: i64 = 0x5451;
const FIONCLEX: i64 = 0x5450;
const FIGETBSZ: i64 = 2;
const FIEMAP: i64 = 0xc020_660b;
const GETFLAGS: i64 = 0x8008_6601;
const SETFLAGS: i64 = 0x4008_6602;
const FSGETXATTR: i64 = 0x801c_581f;

fn ioctl(c: &Context) {
    let call = |fd: i64, request: i64, arg: Value| -> Done {
        c.call(&[("fd", value::fd(fd)), ("request", command(request)), ("arg", arg)])
    };
    let file = fixture::open("file", O_RDWR);
    raw::must(SYS_lseek, &[file as u64, 1000, 0]);
    let left = call(file, FIONREAD as i64, inout(&[CANARY; 4]));
    left.ok();
    assert_eq!(left.number("arg", 0, 4), FILE_BYTES as u64 - 1000);
    call(file, FIOCLEX, inout_word(0)).ok();
    c.fd_has(file, O_CLOEXEC, O_CLOEXEC);
    call(file, FIONCLEX, inout_word(0)).ok();
    c.fd_has(file, 0, O_CLOEXEC);
    let block = call(file, FIGETBSZ, inout(&[CANARY; 4]));
    block.ok();
    assert!(block.number("arg", 0, 4).is_power_of_two());
    let got = call(file, GETFLAGS, inout(&[CANARY; 4]));
    if got.errno() == 0 {
        const NODUMP: u64 = 0x40;
        let bits = got.number("arg", 0, 4);
        let set = call(file, SETFLAGS, inout(&words(&[(bits | NODUMP) as u32])));
        set.ok();
        let again = call(file, GETFLAGS, inout(&[CANARY; 4]));
        again.ok();
        assert_eq!(again.number("arg", 0, 4), bits | NODUMP);
    }
    let got = call(file, FSGETXATTR, inout(&[CANARY; 28]));
    if got.errno() == 0 {
        assert_ne!(got.bytes("arg")[27], CANARY, "fsxattr has 28 bytes");
    }
    let ask = [longs(&[0, u64::MAX]), words(&[1, 0, 0, 0])].concat();
    let map = call(file, FIEMAP, inout(&ask));
    if map.errno() == 0 {
        assert!(map.number("arg", 20, 4) >= 1, "mapped extents");
    }
    clones(c, &call, file);
    terminal(c, &call);
    call(file, TIOCGWINSZ as i64, inout(&[0; 8])).fails(ENOTTY);
}

/// Where the file system shares blocks.
fn clones(c: &Context, call: &dyn Fn(i64, i64, Value) -> Done, file: i64) {
    let copy = fixture::open("copy", O_RDWR | O_CREAT);
    let whole = call(copy, FICLONE, inout_word(file as u64));
    if whole.errno() != 0 {
        assert!([EOPNOTSUPP, EINVAL, ENOTTY].contains(&whole.errno()), "{}", whole.errno());
        return;
    }
    c.has_content("copy", &fixture::pattern(FILE_BYTES));
    let part = fixture::open("part", O_RDWR | O_CREAT);
    let range = longs(&[file as u64, 4096, 4096, 8192]);
    call(part, FICLONERANGE, inout(&range)).ok();
    let mut expected = vec![0; 8192];
    expected.extend_from_slice(&fixture::pattern(FILE_BYTES)[4096..8192]);
    c.has_content("part", &expected);
}

/// A terminal's structures; nothing to record of a file system.
fn terminal(c: &Context, call: &dyn Fn(i64, i64, Value) -> Done) {
    if !c.checks() {
        return;
    }
    let args = [AT_FDCWD as u64, fixture::c_string("/dev/ptmx"), (O_RDWR | O_NOCTTY) as u64];
    let fd = raw::sys(SYS_openat, &args);
    if fd < 0 {
        return;
    }
    let got = call(fd, TCGETS as i64, inout(&[CANARY; 36]));
    got.ok();
    assert_ne!(got.bytes("arg")[35], CANARY, "the kernel's termios has 36 bytes");
    call(fd, TCSETS as i64, inout(&got.bytes("arg"))).ok();
    let got = call(fd, TIOCGWINSZ as i64, inout(&[CANARY; 8]));
    got.ok();
    assert_eq!(got.bytes("arg"), [0; 8]);
    call(fd, FIONBIO as i64, inout(&words(&[1]))).ok();
    c.fd_has(fd, O_NONBLOCK, O_NONBLOCK);
}
