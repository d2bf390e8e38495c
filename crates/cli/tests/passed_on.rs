//! Programs that write what they have just read: its content is in the plan once, and what they changed before is written as they
//! changed it. Programs that are given open files by the kernel.

mod means;

use std::process::Command;

use means::{has, mkdir, record, run};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::{skip, tree};

/// Passes on parts of what it reads; the memory of each third one is changed before.
const SOURCE: &str = r#"
#include <fcntl.h>
#include <unistd.h>
static char memory[20000];
int main(void) {
    int from = open("from", O_RDONLY), to = open("to", O_WRONLY | O_CREAT, 0600);
    for (int n = 0;; n++) {
        long came = read(from, memory, 10240);
        if (came <= 0) return came < 0;
        if (n % 3 == 1) memory[600] ^= 1;
        if (write(to, memory + 512, came - 512) != came - 512) return 1;
    }
}
"#;

#[test]
fn content_that_is_passed_on_is_in_the_plan_once() {
    let s = Scratch::new();
    if !has("cc") {
        return skip("content_that_is_passed_on_is_in_the_plan_once", "no C compiler");
    }
    std::fs::write(s.path().join("p.c"), SOURCE).unwrap();
    let cc = Command::new("cc").args(["-O1", "-o", "p", "p.c"]).current_dir(s.path()).status().unwrap();
    assert!(cc.success());
    // Nothing in it twice.
    let content: Vec<u8> = (0..3_000_000u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    mkdir(s.path(), "w");
    std::fs::write(s.path().join("w/from"), &content).unwrap();
    record(s.path(), "a.reprise", "cd w && ../p");
    run(s.path(), &["compile", "a.reprise", "-o", "a.plan"]).ends(0);
    mkdir(s.path(), "t");
    run(s.path(), &["replay", "a.reprise", "--target", "t"]).ends(0);
    let (program, replay) =
        (s.path().join("w"), s.path().join("t").join(s.path().strip_prefix("/").unwrap()).join("w"));
    assert_eq!(std::fs::read(program.join("to")).unwrap(), std::fs::read(replay.join("to")).unwrap());
    assert_eq!(tree::walk(&program).len(), tree::walk(&replay).len());
    // What was read and what a third of the writes wrote, each in three pages of its own (it lies as the program's memory lay). The rest
    // (commands, names, what the shell read) depends on the machine, but is less than half of what the other writes would take.
    let pieces = content.len().div_ceil(10240) as u64;
    let (wanted, twice) = (pieces * 4 / 3 * 3 * 4096, pieces * 2 * 3 * 4096);
    let bytes = std::fs::metadata(s.path().join("a.plan")).unwrap().len();
    assert!(bytes < (wanted + twice) / 2, "{bytes} bytes, of which {wanted} are content");
}

/// Watches a directory; each event brings a descriptor of the file.
const WATCHES: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
fd = libc.fanotify_init(0, 0)
CLOSE_WRITE, EVENT_ON_CHILD = 0x8, 0x08000000
if fd < 0 or libc.fanotify_mark(fd, 1, ctypes.c_uint64(CLOSE_WRITE | EVENT_ON_CHILD), -100, b"w"):
    sys.exit(7)
for name in ("w/a", "w/b"):
    open(name, "w").close()
    came = struct.unpack_from("i", os.read(fd, 24), 16)[0]
    os.fstat(came)
    os.close(came)
os.rename("w/a", "w/c")
"#;

#[test]
fn descriptors_that_come_with_events_are_not_missed() {
    let s = Scratch::new();
    let name = "descriptors_that_come_with_events_are_not_missed";
    std::fs::write(s.path().join("p.py"), WATCHES).unwrap();
    mkdir(s.path(), "w");
    let done = Command::new("python3").arg("p.py").current_dir(s.path()).status();
    match done.ok().and_then(|status| status.code()) {
        Some(0) => {}
        Some(7) => return skip(name, "fanotify is not permitted"),
        _ => return skip(name, "no python3"),
    }
    std::fs::remove_dir_all(s.path().join("w")).unwrap();
    mkdir(s.path(), "w");
    record(s.path(), "a.reprise", "python3 p.py");
    mkdir(s.path(), "t");
    run(s.path(), &["replay", "a.reprise", "--target", "t"]).ends(0);
    let replay = s.path().join("t").join(s.path().strip_prefix("/").unwrap()).join("w");
    assert!(replay.join("b").exists() && replay.join("c").exists() && !replay.join("a").exists());
}
