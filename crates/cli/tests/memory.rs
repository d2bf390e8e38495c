//! Memory of a replay's reads and writes begins where in its page the program's did; what the kernel is given is looked at by
//! `strace`.

mod means;

use std::process::Command;

use means::{has, mkdir, record};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::{program, skip};

/// Writes and reads of many lengths, from and into many places of a page; says what it does.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    const long lengths[] = {1, 100, 4096, 20000, 65536, 200000, 1 << 20}, places[] = {0, 8, 16, 63, 2048, 4088};
    char *memory = mmap(0, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = open("file", O_RDWR | O_CREAT, 0600), n = 0;
    for (int l = 0; l < 7; l++)
        for (int p = 0; p < 6; p++) {
            char *at = memory + places[p];
            n++;
            for (long i = 0; i < lengths[l]; i++) at[i] = (char)(i * 31 + i / 256 * n + n);
            if (pwrite(fd, at, lengths[l], 0) != lengths[l] || pread(fd, at, lengths[l], 0) != lengths[l]) return 1;
            printf("pwrite64 %ld %ld\npread64 %ld %ld\n", places[p], lengths[l], places[p], lengths[l]);
        }
    return 0;
}
"#;

#[test]
fn memory_begins_where_in_its_page_the_programs_did() {
    let name = "memory_begins_where_in_its_page_the_programs_did";
    let s = Scratch::new();
    if !has("strace") || !has("cc") {
        return skip(name, "no strace, or no C compiler");
    }
    std::fs::write(s.path().join("p.c"), SOURCE).unwrap();
    let cc = Command::new("cc").args(["-O1", "-o", "p", "p.c"]).current_dir(s.path()).status().unwrap();
    assert!(cc.success());
    record(s.path(), "a.reprise", "./p > said");
    mkdir(s.path(), "t");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "calls", "-e", "trace=pread64,pwrite64", "-e", "raw=pread64,pwrite64"]);
    strace.arg(program::reprise().unwrap()).args(["replay", "a.reprise", "--target", "t"]).current_dir(s.path());
    let output = program::run(&mut strace);
    if !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("ptrace") {
        return skip(name, "strace may not trace here");
    }
    assert!(output.status.success(), "{}", program::told(&strace, &output));
    let said = std::fs::read_to_string(s.path().join("said")).unwrap();
    let wanted: Vec<&str> = said.lines().collect();
    let calls = std::fs::read_to_string(s.path().join("calls")).unwrap();
    // Of other calls of these kinds (the log's) the descriptor's file is another; the program's come in its order.
    let found: Vec<String> = calls.lines().filter_map(call).collect();
    let mut rest = found.iter();
    let missing = wanted.iter().find(|line| !rest.any(|call| call == *line));
    assert_eq!(missing, None, "of {} calls wanted, {} made: {found:?}", wanted.len(), found.len());
}

/// `123 pread64(0x3, 0x7f0123456010, 0x64, 0) = 0x64` as `pread64 16 100`.
fn call(line: &str) -> Option<String> {
    let (_, call) = line.split_once(char::is_whitespace)?;
    let (name, arguments) = call.trim().split_once('(')?;
    let mut words = arguments.split(", ").skip(1).map(|word| word.trim_start_matches("0x"));
    let mut number = || u64::from_str_radix(words.next()?, 16).ok();
    let (address, length) = (number()?, number()?);
    Some(format!("{name} {} {length}", address % 4096))
}
