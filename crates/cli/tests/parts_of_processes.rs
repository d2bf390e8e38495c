//! Files reached through what the kernel shows of a process: `/dev/stdin`, `/proc/self/fd/N`, `/proc/PID/fd/N`, `/proc/self/cwd`, and links
//! to these.
//!
//! Goals: they are the files that they are, in what stood before and in what a replay leaves. Non-goals: files without a name.

mod means;

use std::path::Path;
use std::process::Command;

use means::{in_kernel, mkdir, run};
use reprise_testkit::program::{reprise, succeed};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::tree;

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

fn recorded(backend: &str) {
    let s = Scratch::new();
    prepared(s.path());
    let mut command = Command::new(reprise().unwrap());
    command.args([
        "record",
        "--quiet",
        "--backend",
        backend,
        "--tree",
        "..",
        "-o",
        "../../a.reprise",
        "--",
        "sh",
        "-c",
        SCRIPT,
    ]);
    succeed(command.current_dir(s.path().join("w/in")));
    compared(s.path());
}

#[test]
fn recorded_in_the_kernel() {
    if in_kernel("recorded_in_the_kernel", Scratch::new().path()) {
        recorded("ebpf");
    }
}

#[test]
fn recorded_by_ptrace() {
    recorded("ptrace");
}
