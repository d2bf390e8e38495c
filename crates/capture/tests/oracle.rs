//! An independent oracle: what `strace` says of a deterministic program.

mod common;

use std::process::Command;

use common::{actions, compile, record, scratch};

/// Calls and results per process in order of appearance: `(call, result or error)`.
fn by_strace(dir: &std::path::Path, program: &str) -> Option<Vec<Vec<(String, String)>>> {
    let run = Command::new("strace").args(["-f", "-X", "raw", "-o", "strace.txt", program]).current_dir(dir).status();
    if run.is_err() {
        println!("SKIP: no strace");
        return None;
    }
    let text = std::fs::read_to_string(dir.join("strace.txt")).expect("its output");
    let mut order: Vec<String> = Vec::new();
    let mut lists: Vec<Vec<(String, String)>> = Vec::new();
    for line in text.lines() {
        let (pid, rest) = line.split_once(' ').expect("a number first");
        let at = order.iter().position(|p| p == pid).unwrap_or_else(|| {
            order.push(pid.to_owned());
            lists.push(Vec::new());
            order.len() - 1
        });
        let rest = rest.trim_start();
        let (name, result) = if let Some(resumed) = rest.strip_prefix("<... ") {
            (resumed.split(' ').next(), rest.rsplit_once(" = "))
        } else {
            (rest.split('(').next(), rest.rsplit_once(" = "))
        };
        let (Some(name), Some((_, result))) = (name, result) else {
            continue;
        };
        let mut words = result.split_whitespace();
        let value = words.next().unwrap_or("");
        let shown = if value == "-1" { words.next().unwrap_or("") } else { value };
        lists[at].push((name.to_owned(), shown.to_owned()));
    }
    Some(lists)
}

#[test]
fn same_calls_same_results() {
    let dir = scratch();
    let Some(program) = compile("single", dir.path()) else {
        return;
    };
    let program = program.to_str().expect("utf-8").to_owned();
    let Some(theirs) = by_strace(dir.path(), &program) else {
        return;
    };
    let (output, reader) = record(dir.path(), &[], &[&program]);
    assert!(output.status.success());
    let actions = actions(&reader);
    let mut compared = 0;
    for (thread, theirs) in theirs.iter().enumerate() {
        let is_number = |call: &str| matches!(call, "mmap" | "clone" | "clone3" | "fork" | "vfork" | "wait4");
        let ours: Vec<(String, String)> = actions
            .iter()
            .filter(|a| a.thread as usize == thread && !a.call.starts_with("exit"))
            .map(|a| {
                let shown = a.errno.clone().unwrap_or_else(|| match &*a.call {
                    call if is_number(call) => "number".to_owned(),
                    _ => a.result.to_string(),
                });
                (a.call.to_string(), shown)
            })
            .collect();
        let known = |name: &str| reprise_calls::by_name(name).is_some() && !name.starts_with("exit");
        let theirs: Vec<(String, String)> = theirs
            .iter()
            .filter(|(name, _)| known(name))
            .map(|(name, shown)| {
                let number = is_number(name) && !shown.starts_with('E');
                let octal = (name == "umask").then(|| i64::from_str_radix(shown, 8).ok()).flatten();
                let shown = match octal {
                    Some(mask) => mask.to_string(),
                    None if number => "number".to_owned(),
                    None => shown.clone(),
                };
                (name.clone(), shown)
            })
            .collect();
        assert_eq!(ours, theirs, "thread {thread}");
        compared += ours.len();
    }
    assert!(compared > 60, "only {compared} calls");
}
