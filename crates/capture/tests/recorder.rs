//! The recorder itself under stress: interrupted, killed, unprivileged.

mod common;

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{actions, command, scratch};
use reprise_trace::TraceReader;

fn kill(signal: &str, target: i64) {
    let status = Command::new("kill").args([signal, "--", &target.to_string()]).status();
    assert!(status.expect("kill").success());
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}: in vain");
        sleep(Duration::from_millis(20));
    }
}

fn start(dir: &std::path::Path, script: &str) -> Child {
    let mut command = command(dir, &[], &["sh", "-c", script]);
    // A group of its own, as a shell gives to each job.
    command.process_group(0).stderr(Stdio::null());
    let child = command.spawn().expect("the recorder starts");
    wait_for("the program starts", || dir.join("started").exists());
    child
}

#[test]
fn interrupt_from_the_terminal_is_the_programs_affair() {
    let dir = scratch();
    let mut child =
        start(dir.path(), "trap 'echo caught > caught; exit 5' INT; echo > started; while :; do sleep 0.05; done");
    kill("-INT", -i64::from(child.id()));
    assert_eq!(child.wait().expect("ends").code(), Some(5));
    let reader = TraceReader::open(&dir.path().join("t")).expect("a trace");
    assert!(reader.manifest().complete && dir.path().join("caught").exists());
    actions(&reader);
}

#[test]
fn interrupt_kills_a_program_that_does_not_care() {
    let dir = scratch();
    let mut child = start(dir.path(), "echo > started; sleep 60");
    kill("-INT", -i64::from(child.id()));
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    let reader = TraceReader::open(&dir.path().join("t")).expect("a trace");
    assert!(reader.manifest().complete);
    assert_eq!(reader.manifest().end.and_then(|e| e.signal), Some(2));
    actions(&reader);
}

#[test]
fn termination_is_forwarded() {
    let dir = scratch();
    let mut child = start(dir.path(), "trap 'exit 6' TERM; echo > started; while :; do sleep 0.05; done");
    kill("-TERM", child.id().into());
    assert_eq!(child.wait().expect("ends").code(), Some(6));
    assert!(TraceReader::open(&dir.path().join("t")).expect("a trace").manifest().complete);
}

#[test]
fn interrupt_ends_what_the_program_left_behind() {
    let dir = scratch();
    let mut child = start(dir.path(), "(trap '' INT; echo > started; exec sleep 60) & exit 4");
    sleep(Duration::from_millis(200));
    kill("-INT", child.id().into());
    assert_eq!(child.wait().expect("ends").code(), Some(4));
    let reader = TraceReader::open(&dir.path().join("t")).expect("a trace");
    assert!(reader.manifest().complete);
    actions(&reader);
}

#[test]
fn stop_and_continue() {
    let dir = scratch();
    let mut child = start(
        dir.path(),
        "echo > started; n=0; while [ $n -lt 30 ]; do n=$((n+1)); echo $n > count; sleep 0.01; done; exit 9",
    );
    for _ in 0..3 {
        kill("-TSTP", -i64::from(child.id()));
        sleep(Duration::from_millis(100));
        kill("-CONT", -i64::from(child.id()));
        sleep(Duration::from_millis(50));
    }
    assert_eq!(child.wait().expect("ends").code(), Some(9));
    actions(&TraceReader::open(&dir.path().join("t")).expect("a trace"));
}

#[test]
fn a_killed_recorder_leaves_a_readable_trace_and_nobody_behind() {
    let dir = scratch();
    let mut child = start(dir.path(), "echo $$ > started; while :; do echo x > f; sleep 0.02; done");
    let rows = || TraceReader::open(&dir.path().join("t")).map(|r| r.count::<reprise_trace::Action>()).unwrap_or(0);
    wait_for("a first flush", || rows() > 10);
    let pid = std::fs::read_to_string(dir.path().join("started")).expect("the number");
    kill("-KILL", child.id().into());
    child.wait().expect("ends");
    wait_for("the program is gone", || !std::path::Path::new(&format!("/proc/{}", pid.trim())).exists());
    let reader = TraceReader::open(&dir.path().join("t")).expect("a readable trace");
    assert!(!reader.manifest().complete);
    reader.check_all().expect("undamaged");
    assert!(actions(&reader).len() > 10);
}

#[test]
fn an_ordinary_user_can_record() {
    let dir = scratch();
    // The example may lie where that user cannot go.
    let recorder = dir.path().join("record");
    std::fs::copy(common::recorder(), &recorder).expect("copy");
    let mut command = Command::new(&recorder);
    command.args(["t", "sh", "-c", "id -u; echo x > own; cat own; cat /etc/shadow; exit 3"]);
    command.current_dir(dir.path());
    if Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout == b"0\n") {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().expect("runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(output.stdout.ends_with(b"x\n"));
    let reader = TraceReader::open(&dir.path().join("t")).expect("a trace");
    assert_eq!(reader.manifest().facts["no_new_privs"], "true");
    let actions = actions(&reader);
    assert!(actions.iter().any(|a| a.errno.as_deref() == Some("EACCES")));
    assert_eq!(reader.processes().expect("processes")[0].uids.len(), 4);
}
