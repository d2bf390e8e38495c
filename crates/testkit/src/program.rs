//! Running the built programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The built `reprise`: what `REPRISE_BIN` names, else that of the same build as the test, else
/// `target/release/reprise` of the workspace. The error says where it was looked for.
pub fn reprise() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("REPRISE_BIN") {
        let path = PathBuf::from(named);
        return match path.exists() {
            true => Ok(path),
            false => Err(format!("REPRISE_BIN names {}, which is missing", path.display())),
        };
    }
    let release = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/reprise"));
    let places: Vec<PathBuf> = sibling("reprise").into_iter().chain([release]).collect();
    let found = places.iter().find(|p| p.exists()).cloned();
    found.ok_or_else(|| format!("no built reprise: {places:?} (cargo build --release)"))
}

/// What a test puts behind `record`: the backend that `REPRISE_BACKEND` names, or nothing.
pub fn backend() -> Vec<String> {
    let named = std::env::var("REPRISE_BACKEND").ok().filter(|name| !name.is_empty());
    named.map_or(Vec::new(), |name| vec!["--backend".into(), name])
}

/// The same for a test that wants to know for certain in which order overlapping calls of several threads took place:
/// unless another is named, the backend that sees them one after the other.
pub fn exact_backend() -> Vec<String> {
    let named = backend();
    if named.is_empty() { ["--backend", "ptrace"].map(str::to_owned).to_vec() } else { named }
}

/// A program of the same build as the running test, which lies one directory above the test.
pub fn sibling(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let mut dir = test.parent()?;
    if dir.ends_with("deps") || dir.ends_with("examples") {
        dir = dir.parent()?;
    }
    Some(dir.join(name))
}

/// Builds a program of `tests/programs` into a directory; a warning fails the test.
#[track_caller]
pub fn built(name: &str, dir: &Path) -> PathBuf {
    const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/programs");
    let binary = dir.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&binary);
    succeed(compiler.arg(Path::new(SOURCES).join(name).with_extension("c")));
    binary
}

/// A command that must succeed; otherwise the test fails with all that it said.
pub fn succeed(command: &mut Command) -> Output {
    let output = run(command);
    assert!(output.status.success(), "{}", told(command, &output));
    output
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Whether a command, of which nothing is heard, ends in time and with exit status 0; it is killed when it does not.
pub fn ends_well(command: &mut Command, limit: Duration) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if begin.elapsed() < limit => std::thread::sleep(Duration::from_millis(1)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// The command, its exit status and all that it said.
pub fn told(command: &Command, output: &Output) -> String {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let (out, err) = (said(&output.stdout), said(&output.stderr));
    format!("{command:?}\n{}\n--- stdout\n{out}\n--- stderr\n{err}\n---", output.status)
}

/// The JSON document that a command printed; the last line that is one, if it printed other lines too.
pub fn json(output: &[u8]) -> Result<serde_json::Value, String> {
    if let Ok(value) = serde_json::from_slice(output) {
        return Ok(value);
    }
    let text = String::from_utf8_lossy(output);
    let lines = text.lines().rev().filter(|l| l.starts_with('{'));
    let mut documents = lines.filter_map(|l| serde_json::from_str(l).ok());
    documents.next().ok_or_else(|| format!("no JSON in {text:?}"))
}

/// The value of a field, wherever in the document it is first found.
pub fn field<'a>(document: &'a serde_json::Value, name: &str) -> Option<&'a serde_json::Value> {
    match document {
        serde_json::Value::Object(map) => map.get(name).or_else(|| map.values().find_map(|v| field(v, name))),
        serde_json::Value::Array(list) => list.iter().find_map(|v| field(v, name)),
        _ => None,
    }
}
