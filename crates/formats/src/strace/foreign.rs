//! What a file is that is not strace's.

use memchr::memmem::find;

/// Bytes looked at.
pub const SAMPLE: usize = 1 << 16;

/// What nothing looks like.
pub const EMPTY: &str = "an empty file";

/// Beginnings of other kinds of files.
const MAGIC: &[(&[u8], &str)] = &[
    (b"\x7fELF", "a program (ELF)"),
    (b"\x1f\x8b", "compressed by gzip; decompress it first"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; decompress it first"),
    (b"\xfd7zXZ", "compressed by xz; decompress it first"),
    (b"BZh", "compressed by bzip2; decompress it first"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"PERFILE2", "a recording of perf"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3", "an SQLite database"),
];

/// Words by which other tracers are known; enough of them must be there.
const TRACERS: &[(&str, &[&[u8]])] = &[
    (
        "ltrace: calls of libraries, not of the system",
        &[b"__libc_start_main(", b"+++ exited (status ", b"->malloc(", b"SYS_"],
    ),
    ("truss of FreeBSD", &[b" ERR#", b"(0x0)\n", b"(0x3)\n", b",O_RDONLY,0"]),
    ("truss of Solaris", &[b"Err#", b"\targc = ", b"_exit(", b"sysconfig(_CONFIG_"]),
    ("ktrace (kdump)", &[b" CALL  ", b" RET   ", b" NAMI  "]),
    ("dtrace or dtruss", &[b"dtrace: ", b"FUNCTION:NAME", b"SYSCALL(args)"]),
    ("perf trace", &[b" ms): ", b"openat(dfd: ", b"fd: "]),
    ("sysdig", &[b") > ", b") < ", b" fd=", b" res="]),
    ("Process Monitor", &[b"\"Process Name\"", b"\"Operation\""]),
    ("the output of valgrind", &[b"==\n", b"Memcheck", b"HEAP SUMMARY"]),
];

/// Words that only strace prints.
const OWN: [&[u8]; 7] = [
    b" ENOENT (No such file",
    b"<unfinished ...>",
    b" resumed>",
    b"+++ exited with ",
    b"--- SIG",
    b"AT_FDCWD",
    b"O_RDONLY|O_CLOEXEC",
];

/// What the beginning of a file looks like, if it is surely not strace's.
pub fn kind(sample: &[u8]) -> Option<&'static str> {
    if sample.is_empty() {
        return Some(EMPTY);
    }
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| sample.starts_with(magic)) {
        return Some(kind);
    }
    let strange = sample.iter().filter(|b| **b == 0).count();
    if strange > 8 && strange * 100 > sample.len() {
        return Some("binary data");
    }
    let own = OWN.iter().filter(|word| find(sample, word).is_some()).count();
    let marks = |words: &[&[u8]]| words.iter().filter(|word| find(sample, word).is_some()).count();
    let (name, found) = TRACERS.iter().map(|(name, words)| (*name, marks(words))).max_by_key(|(_, n)| *n)?;
    (found >= 2 && found > own).then_some(name)
}

/// What a file is in which no call was found.
pub fn without_calls(sample: &[u8], summary: bool) -> &'static str {
    if summary {
        return "strace's table of counts (-c), which holds no calls: trace without -c, or with -C";
    }
    let one = |word: &[u8]| find(sample, word).is_some();
    if one(b"__libc_start_main(") || one(b"+++ exited (status") {
        return "the output of ltrace: calls of libraries, not of the system";
    }
    if one(b"Err#") || one(b"ERR#") {
        return "the output of truss";
    }
    if sample.first() == Some(&b'{') {
        return "JSON";
    }
    "plain text: no line of it is a call as strace prints it"
}
