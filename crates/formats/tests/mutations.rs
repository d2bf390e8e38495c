//! Logs changed at random: nothing panics, and every line is accounted for.

mod means;

use proptest::prelude::*;

const LOG: &str = "\
100   1700000000.000001 execve(\"/bin/sh\", [\"sh\", \"-c\"...], 0x7ffd /* 3 vars */) = 0 <0.000100>
100   1700000000.000002 openat(AT_FDCWD</w>, \"f\", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3</w/f> <0.000011>
100   1700000000.000003 writev(3</w/f>, [{iov_base=\"ab\", iov_len=2}, {iov_base=\"c\"..., iov_len=9}], 2) = 11
100   1700000000.000004 fstat(3, {st_dev=makedev(0x8, 0x1), st_ino=7, st_mode=S_IFREG|0644, st_nlink=1, st_size=11, ...}) = 0
100   1700000000.000005 getdents64(4, [{d_ino=7, d_off=1, d_reclen=24, d_type=DT_REG, d_name=\"f\"}], 32768) = 24
100   1700000000.000006 clone(child_stack=NULL, flags=CLONE_VM|SIGCHLD <unfinished ...>
101   1700000000.000007 rename(\"/w/f\", \"/w/g/../h\" <unfinished ...>
100   1700000000.000008 <... clone resumed>, child_tidptr=0x7f) = 101
101   1700000000.000009 <... rename resumed>) = -1 ENOTDIR (Not a directory) <0.000005>
101   1700000000.000010 symlink(\"h\", \"/w/h\") = 0
101   1700000000.000010 stat(\"/w/h/h\", {st_mode=S_IFDIR|0755, st_size=1, ...}) = 0
101   1700000000.000011 fcntl(3, F_SETLKW, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=0}) = ? ERESTARTSYS (x)
101   1700000000.000012 --- SIGCHLD {si_signo=SIGCHLD, si_pid=101} ---
101   1700000000.000013 +++ exited with 0 +++
write(1, \"hello\\n\", 6hello
)                 = 6
100   1700000000.000014 statx(AT_FDCWD, \"/w\", AT_STATX_SYNC_AS_STAT, STATX_ALL, {stx_mask=STATX_ALL, stx_mode=S_IFDIR|0755, stx_atime={tv_sec=-5, tv_nsec=99999999999}}) = 0
100   1700000000.000015 pread64(3, \"\\177ELF\"..., 4096, 18446744073709551615) = 4096
100   1700000000.000016 mmap(NULL, 18446744073709551615, PROT_READ, MAP_SHARED, 3, 0) = 0x7f0000
100   1700000000.000017 exit_group(0) = ?
";

#[derive(Debug, Clone)]
enum Change {
    Byte(usize, u8),
    Delete(usize, usize),
    Copy(usize, usize, usize),
    SwapLines(usize, usize),
    Cut(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let n = LOG.len();
    prop_oneof![
        (0..n, any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (0..n, prop::sample::select(b"\"(){}[]<>,\\\n= 0-".to_vec())).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (0..n, 1..80usize).prop_map(|(at, length)| Change::Delete(at, length)),
        (0..n, 0..n, 1..200usize).prop_map(|(from, to, length)| Change::Copy(from, to, length)),
        (0..20usize, 0..20usize).prop_map(|(a, b)| Change::SwapLines(a, b)),
        (0..n).prop_map(Change::Cut),
    ]
}

fn apply(mut text: Vec<u8>, change: &Change) -> Vec<u8> {
    let n = text.len();
    match *change {
        _ if n == 0 => {}
        Change::Byte(at, byte) => text[at % n] = byte,
        Change::Delete(at, length) => drop(text.drain(at % n..(at % n + length).min(n))),
        Change::Copy(from, to, length) => {
            let piece = text[from % n..(from % n + length).min(n)].to_vec();
            text.splice(to % n..to % n, piece);
        }
        Change::SwapLines(a, b) => {
            let mut lines: Vec<Vec<u8>> = text.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            let count = lines.len();
            lines.swap(a % count, b % count);
            return lines.concat();
        }
        Change::Cut(at) => text.truncate(at % n),
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_line_is_accounted_for(changes in prop::collection::vec(change(), 1..12)) {
        let text = changes.iter().fold(LOG.as_bytes().to_vec(), apply);
        // The account is checked by the import itself; a log that is changed beyond recognition may be refused.
        if let Ok(imported) = means::import(&text) {
            let lines = text.split_inclusive(|b| *b == b'\n').count() as u64;
            prop_assert_eq!(imported.report.account.lines, lines);
            prop_assert_eq!(imported.actions().len() as u64, imported.report.actions);
        }
    }
}

#[test]
fn the_log_itself_is_understood() {
    let imported = means::import(LOG).unwrap();
    assert_eq!(imported.report.account.counted(), 0, "{:?}", imported.report.account);
}
