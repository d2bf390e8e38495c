//! Content that calls move inside the kernel, recorded there: what of it the trace has elsewhere does not count as lacking.

mod means;

use std::fs;
use std::path::Path;

use means::{in_kernel, mkdir, run};
use reprise_testkit::scratch::Scratch;
use serde_json::Value;

/// Records a script of Python in a directory of its own; what the ledger says was lost, and the bytes that actions say are lacking.
#[track_caller]
fn lacking(dir: &Path, more: &[&str], script: &str) -> (Value, u64) {
    let before = ["record", "-q", "--backend", "ebpf", "-o", "../t"];
    run(dir, &[&before, more, &["--", "python3", "-c", script]].concat()).ends(0);
    let info = run(dir, &["info", "--json", "../t"]).ends(0).json();
    let sum = "SELECT sum(truncated_bytes) AS lacking FROM actions WHERE call IN ('sendfile', 'copy_file_range')";
    let rows = run(dir, &["sql", "--json", "../t", sum]).ends(0).json();
    (info["ledger"]["losses"].clone(), rows["lacking"].as_u64().unwrap_or_else(|| panic!("{rows}")))
}

/// A file that the program wrote, and changes afterwards: what was moved from it is what was written.
#[test]
fn what_was_written_before_is_not_lacking() {
    const SCRIPT: &str = "import os\n\
        s = os.open('s', os.O_RDWR | os.O_CREAT); os.write(s, os.urandom(300000)); d = os.open('d', os.O_RDWR | os.O_CREAT)\n\
        os.copy_file_range(s, d, 200000, 0, 0); os.sendfile(d, s, 0, 100000); os.pwrite(s, b'x' * 300000, 0)\n";
    let s = Scratch::new();
    if !in_kernel("what_was_written_before_is_not_lacking", s.path()) {
        return;
    }
    let work = mkdir(s.path(), "work");
    assert_eq!(lacking(Path::new(&work), &[], SCRIPT), (serde_json::json!({}), 0));
}

/// A file that was there, and of which nobody saw more than a part: the rest went where it cannot be looked at.
#[test]
fn what_nobody_saw_is_lacking() {
    const SCRIPT: &str = "import os, socket\n\
        here, there = socket.socketpair()\n\
        old = os.open('old', os.O_RDWR); os.pread(old, 300, 0); os.sendfile(here.fileno(), old, 0, 1000)\n\
        os.pwrite(old, b'n' * 1000, 0)\n";
    let s = Scratch::new();
    if !in_kernel("what_nobody_saw_is_lacking", s.path()) {
        return;
    }
    let work = mkdir(s.path(), "work");
    fs::write(s.path().join("work/old"), vec![b'o'; 300_000]).unwrap();
    // The page cache is not read then.
    let (losses, lacks) = lacking(Path::new(&work), &["--mapped", "off"], SCRIPT);
    let counted = losses["truncated"].as_object().unwrap_or_else(|| panic!("{losses}"));
    let moved: Vec<&Value> = counted.iter().filter(|(why, _)| why.contains("moved inside")).map(|(_, n)| n).collect();
    assert_eq!((moved.len(), moved[0]["bytes"].as_u64(), lacks), (1, Some(700), 700), "{losses}");
}

/// A descriptor that came by a message is of a file that calls made, written to afterwards.
#[test]
fn what_comes_by_a_received_descriptor_is_not_lacking() {
    const SCRIPT: &str = "import array, os, socket\n\
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
        if os.fork() == 0:\n\
        \x20   s = os.open('s', os.O_RDWR | os.O_CREAT); os.write(s, b's' * 5000)\n\
        \x20   here.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [s]))]); os._exit(0)\n\
        os.wait()\n\
        got = array.array('i', there.recvmsg(10, 100)[1][0][2])[0]; d = os.open('d', os.O_RDWR | os.O_CREAT)\n\
        os.sendfile(d, got, 0, 5000); os.copy_file_range(got, d, 4000, 0); os.pwrite(got, b't' * 5000, 0)\n";
    let s = Scratch::new();
    let dir = s.path();
    if !in_kernel("what_comes_by_a_received_descriptor_is_not_lacking", dir) {
        return;
    }
    let work = mkdir(dir, "work");
    assert_eq!(lacking(Path::new(&work), &[], SCRIPT), (serde_json::json!({}), 0));
    run(dir, &["replay", "-q", "-t", &mkdir(dir, "target"), "t"]).ends(0);
    run(dir, &["verify", "--tree", "t", "target"]).ends(0);
}
