//! What the tests of the command share: running it, and recording small programs.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use reprise_testkit::{program, skip};

/// The built command, in a directory, with a small environment and no standard input.
pub fn reprise(dir: &Path, args: &[&str]) -> Command {
    let binary = program::reprise().unwrap_or_else(|e| panic!("{e}"));
    let mut command = Command::new(binary);
    let records = args.first() == Some(&"record") && !args.contains(&"--backend");
    let (verb, rest) = args.split_at(usize::from(records));
    command
        .args(verb)
        .args(records.then(program::backend).into_iter().flatten())
        .args(rest)
        .current_dir(dir)
        .stdin(Stdio::null())
        .env_remove("NO_COLOR");
    command
}

/// Whether this machine records in the kernel; else says why not.
pub fn in_kernel(name: &str, dir: &Path) -> bool {
    let trial = run(dir, &["record", "-q", "--backend", "ebpf", "-o", "trial.reprise", "--", "/bin/true"]);
    if trial.code != Some(0) {
        skip(name, &format!("no recording in the kernel: {}", trial.err.trim()));
    }
    trial.code == Some(0)
}

/// Whether the kernel is this version of Linux, or a later one.
pub fn is_since(version: (u32, u32)) -> bool {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a version");
    let mut numbers = kernel.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= version
}

/// Runs it; the outcome with all that was said.
pub fn run(dir: &Path, args: &[&str]) -> Said {
    let mut command = reprise(dir, args);
    let output = program::run(&mut command);
    Said::new(format!("{command:?}"), output)
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    pub command: String,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn new(command: String, output: Output) -> Said {
        use std::os::unix::process::ExitStatusExt;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (code, signal) = (output.status.code(), output.status.signal());
        Said { command, code, signal, out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// The exit code, and no trace of a crash.
    #[track_caller]
    pub fn ends(&self, code: i32) -> &Said {
        let all = format!("{}{}", self.out, self.err);
        assert!(!all.contains("panicked") && !all.contains("RUST_BACKTRACE"), "{self:#?}");
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// An error that has this exit code and these words.
    #[track_caller]
    pub fn fails(&self, code: i32, words: &[&str]) -> &Said {
        self.ends(code);
        assert!(self.err.lines().any(|l| l.starts_with("reprise: ")), "an error says who speaks: {self:#?}");
        for word in words {
            assert!(self.err.contains(word), "no `{word}` in {self:#?}");
        }
        self
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }
}

/// Records a shell script.
#[track_caller]
pub fn record(dir: &Path, trace: &str, script: &str) -> PathBuf {
    run(dir, &["record", "-q", "-o", trace, "--", "sh", "-c", script]).ends(0);
    dir.join(trace)
}

/// A copy of a directory.
#[track_caller]
pub fn copy(from: &Path, to: &Path) {
    program::succeed(Command::new("cp").arg("-a").arg(from).arg(to));
}

/// Makes a directory, and gives its name as text.
pub fn mkdir(dir: &Path, name: &str) -> String {
    let path = dir.join(name);
    std::fs::create_dir(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    path.to_str().expect("UTF-8").to_owned()
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a signal.
pub fn kill(pid: u32, signal: i32) {
    reprise_testkit::raw::sys(libc::SYS_kill, &[pid.into(), signal as u64]);
}

/// Whether a program can be run here.
pub fn has(name: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).stdout(Stdio::null()).status();
    found.is_ok_and(|s| s.success())
}
