//! Compiling small programs, recording them with the example, reading the trace back.

#![allow(dead_code)] // each test file uses a part

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use reprise_trace::{Action, TraceReader};

/// The example that records.
pub fn recorder() -> PathBuf {
    let mut path = std::env::current_exe().expect("path of the test");
    path.pop();
    path.pop();
    let path = path.join("examples/record");
    assert!(path.exists(), "{path:?} is missing: `cargo build -p reprise-capture --examples` builds it");
    path
}

/// A scratch directory that an unprivileged user can enter.
pub fn scratch() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a scratch directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("chmod");
    dir
}

/// Compiles `tests/programs/NAME.c`; `None` (with a line) where there is no C compiler.
pub fn compile(name: &str, dir: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
    let program = dir.join(name);
    let cc = Command::new("cc").args(["-O1", "-w", "-pthread", "-o"]).arg(&program).arg(source).status();
    match cc {
        Err(_) => {
            println!("SKIP: no C compiler");
            None
        }
        Ok(status) => {
            assert!(status.success(), "{name}.c does not compile");
            Some(program)
        }
    }
}

/// Runs the recorder in a directory; the trace is `t` there.
pub fn command(dir: &Path, flags: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(recorder());
    command.args(flags).arg("t").args(program).current_dir(dir).stdin(Stdio::null());
    command
}

/// Records a program and gives the recorder's output and the trace.
pub fn record(dir: &Path, flags: &[&str], program: &[&str]) -> (Output, TraceReader) {
    let output = command(dir, flags, program).output().expect("the recorder runs");
    let reader = match TraceReader::open(&dir.join("t")) {
        Ok(reader) => reader,
        Err(e) => panic!("{e}\n{}", String::from_utf8_lossy(&output.stderr)),
    };
    reader.check_all().expect("an undamaged trace");
    (output, reader)
}

/// All actions, with the checks that hold for every trace.
pub fn actions(reader: &TraceReader) -> Vec<Action> {
    let actions: Vec<Action> = reader.actions().map(|a| a.expect("an action")).collect();
    let threads = reader.threads().expect("threads");
    for (i, action) in actions.iter().enumerate() {
        assert_eq!(action.seq, i as u64, "seq has a gap");
        assert!((action.thread as usize) < threads.len());
    }
    for thread in &threads {
        let own: Vec<&Action> = actions.iter().filter(|a| a.thread == thread.thread).collect();
        if let Some(seq) = thread.created_by {
            assert!(own.iter().all(|a| a.seq > seq), "a thread acts before it is made");
            assert_eq!(actions[seq as usize].result, i64::from(thread.tid));
        }
        if reader.manifest().complete {
            let last = own.last().expect("a thread without an end");
            assert!(last.call.starts_with("exit"), "thread {} ends with {}", thread.thread, last.call);
        }
        let exits = own.iter().filter(|a| a.call.starts_with("exit"));
        assert!(exits.count() <= 1, "a thread ends twice");
    }
    actions
}

/// The content that an action moved.
pub fn content(reader: &TraceReader, action: &Action) -> Vec<u8> {
    let found = reader.blobs().content(&action.data).expect("blobs");
    found.expect("content is kept")
}
