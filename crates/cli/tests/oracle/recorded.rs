//! The same cases recorded and replayed: the trace holds what the case says it did, and the replay leaves the same tree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use reprise_calls::{ArgKind, Call, Envelope, Replay, Returns, Struct, by_name};
use reprise_testkit::oracle::report::{self, Issued};
use reprise_testkit::program::{self, field, json, told};
use reprise_testkit::tree;
use reprise_trace::payload::{Side, split, vector_lengths};
use reprise_trace::{Action, BlobReader, TraceReader};

use crate::cases::{End, Place, end};

/// `include/uapi/linux/sched.h`.
const CLONE_PIDFD: u64 = 0x1000;

/// Names that a replay makes otherwise on purpose: the row, the name, the reason.
const DELIBERATE: &[(&str, &str, &str)] = &[
    ("mknod", "null", "a replay makes no device nodes: others could open them later"),
    ("mknodat", "dir/block", "a replay makes no device nodes: others could open them later"),
];

/// Records a case, compares the trace with what the case says, replays it and compares the trees: with a snapshot of
/// the tree before the start, and without one, when only what the program meets is there. So each row is recorded by both
/// backends: with the snapshot by ptrace, else by the one that `record` takes (unless `REPRISE_BACKEND` names one).
/// `base` is where the case runs, `target` where the replay does.
pub fn check(name: &str, base: Option<&Path>, target: Option<&Path>) -> End {
    match check_with(name, base, target, true) {
        End::Right => check_with(name, base, target, false),
        other => other,
    }
}

fn check_with(name: &str, base: Option<&Path>, target: Option<&Path>, snapshot: bool) -> End {
    let place = Place::below(base);
    let reprise = match program::reprise() {
        Ok(path) => path,
        Err(why) => return End::Skip(why),
    };
    let trace = place.beside("trace.reprise");
    let case = place.command(["quiet", name]);
    let backend = if snapshot { program::exact_backend() } else { program::backend() };
    let mut record = Command::new(&reprise);
    record.arg("record").args(backend).arg("-o").arg(&trace);
    if snapshot {
        record.arg("--tree").arg(place.dir());
    }
    record.arg("--").arg(case.get_program()).args(case.get_args());
    record.current_dir(place.dir());
    let before = (!snapshot).then(|| tree::walk(&place.dir()));
    let recorded = program::run(&mut record);
    match end(&record, &recorded) {
        End::Right => {}
        other => return other,
    }
    let mut wrong = compare_trace(&trace, &report::parse(&recorded.stdout));
    wrong.extend(replay(&reprise, name, &place, &trace, target, before));
    if wrong.is_empty() {
        return End::Right;
    }
    wrong.push(told(&record, &recorded));
    if std::env::var_os("REPRISE_KEEP").is_some() {
        wrong.push(format!("kept: {}", place.keep().display()));
    }
    End::Wrong(wrong.join("\n"))
}

type Tree = BTreeMap<PathBuf, tree::Node>;

fn replay(
    reprise: &Path,
    name: &str,
    place: &Place,
    trace: &Path,
    target: Option<&Path>,
    before: Option<Tree>,
) -> Vec<String> {
    let scratch = target.map(reprise_testkit::scratch::Scratch::below);
    let target = scratch.as_ref().map_or_else(|| place.beside("target"), |s| s.path().join("t"));
    std::fs::create_dir(&target).expect("a directory");
    let mut replay = Command::new(reprise);
    replay.arg("replay").arg(trace).arg("--target").arg(&target).arg("--json");
    let replayed = program::run(&mut replay);
    let mut wrong = Vec::new();
    let diverged = json(&replayed.stdout).map(|d| field(&d, "diverged").cloned());
    if replayed.status.code() != Some(0) {
        wrong.push(format!("replay: {}", told(&replay, &replayed)));
    }
    match diverged {
        Ok(Some(n)) if n.as_u64() == Some(0) => {}
        other => wrong.push(format!("replay: diverged is {other:?}")),
    }
    // What is left out on purpose leaves a different tree.
    let row = by_name(name).expect("a row");
    if !matches!(row.replay, Replay::Skip(_) | Replay::Unsupported(_)) {
        let dir = place.dir();
        let copy = target.join(dir.strip_prefix("/").expect("an absolute path"));
        let (mut expected, found) = (tree::walk(&dir), tree::walk(&copy));
        if let Some(before) = before {
            // What the program did not meet need not be there.
            expected.retain(|name, node| found.contains_key(name) || before.get(name) != Some(node));
            for (name, node) in &mut expected {
                forgive_unread(node, found.get(name));
            }
        }
        let differences = tree::differences(&expected, &found);
        let meant = |d: &str| {
            let mut named = DELIBERATE.iter().filter(|(row, _, _)| *row == name);
            named.any(|(_, node, _)| d.starts_with(&format!("{node}: ")))
        };
        let differences = differences.into_iter().filter(|d| !meant(d));
        wrong.extend(differences.map(|d| format!("tree: {d}")));
    }
    wrong
}

/// Without a snapshot, content that was never read is zeros in the replay.
fn forgive_unread(expected: &mut tree::Node, found: Option<&tree::Node>) {
    let Some(found) = found.filter(|f| f.size == expected.size && f.kind == "file") else {
        return;
    };
    for (e, f) in expected.content.iter_mut().zip(&found.content) {
        if *f == 0 {
            *e = 0;
        }
    }
}

fn compare_trace(trace: &Path, said: &[Issued]) -> Vec<String> {
    let reader = match TraceReader::open(trace) {
        Ok(reader) => reader,
        Err(e) => return vec![format!("trace: {e}")],
    };
    let mut blobs = reader.blobs();
    let mut actions: Vec<Option<Action>> = match reader.actions().map(|a| a.map(Some)).collect() {
        Ok(actions) => actions,
        Err(e) => return vec![format!("trace: {e}")],
    };
    let mut wrong = Vec::new();
    if said.is_empty() {
        wrong.push("the case printed no call".to_owned());
    }
    for issued in said {
        let row = by_name(&issued.call).expect("a row");
        let count = row.args.len();
        let is = |a: &Option<Action>| {
            a.as_ref().is_some_and(|a| a.call == issued.call && a.args[..count] == issued.args[..count])
        };
        // The C library may have made the same call; then the result tells.
        let same = |a: &Option<Action>| is(a) && a.as_ref().map(|a| a.result) == issued.result.or(Some(0));
        let at = actions.iter().position(same);
        let at = at.or_else(|| actions.iter().position(is));
        match at.and_then(|at| actions[at].take()) {
            Some(action) => {
                let found = compare_action(row, issued, &action, &mut blobs);
                let line = |d| format!("trace: {} {:x?}: {d}", issued.call, issued.args);
                wrong.extend(found.into_iter().map(line));
            }
            None => wrong.push(format!("trace: no action {} {:x?}", issued.call, issued.args)),
        }
    }
    wrong
}

fn compare_action(row: &Call, said: &Issued, action: &Action, blobs: &mut BlobReader) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut same = |what: &str, said: &dyn std::fmt::Debug, found: &dyn std::fmt::Debug| {
        let (said, found) = (format!("{said:?}"), format!("{found:?}"));
        if said != found {
            let [said, found] = [said, found].map(|t| t.chars().take(300).collect::<String>());
            wrong.push(format!("{what}: did {said}, recorded {found}"));
        }
    };
    if let Some(result) = said.result {
        same("result", &result, &action.result);
        let failed = (-4095..0).contains(&result);
        same("failure", &failed, &action.errno.is_some());
    }
    let paths: Vec<Vec<u8>> = [&action.path, &action.path2].into_iter().flatten().map(|n| n.to_vec()).collect();
    same("paths", &said.paths, &paths);
    let succeeded = said.result.is_some_and(|r| !(-4095..0).contains(&r));
    let inputs = split(row, Side::Input, &action.input);
    let outputs = split(row, Side::Output, &action.output);
    let mut data = None;
    for (i, arg) in row.args.iter().enumerate() {
        let what = format!("argument {}", arg.name);
        let before = said.before.get(&i).map(|p| p.concat());
        let after = said.after.get(&i).map(|p| p.concat());
        match arg.kind {
            ArgKind::Text => {
                let text = before.map(|mut t| {
                    t.pop();
                    t
                });
                same(&what, &text.as_deref(), &inputs[i]);
            }
            ArgKind::Strings => same(&what, &before.as_deref(), &inputs[i]),
            ArgKind::InVector(_) | ArgKind::OutVector(_) => {
                let pieces = said.before.get(&i);
                let said_lengths: Option<Vec<u64>> = pieces.map(|p| p.iter().map(|p| p.len() as u64).collect());
                let found: Option<Vec<u64>> = inputs[i].map(vector_lengths);
                same(&what, &said_lengths, &found);
            }
            // What is kept of messages is not what the header says: pointers.
            ArgKind::In(Struct::Message | Struct::Messages(_)) => {
                let envelopes = inputs[i].map_or(Vec::new(), Envelope::decode);
                let lengths: Vec<u32> = envelopes.iter().map(|e| e.length).collect();
                let count = said.before.get(&i).map_or(0, |p| p.concat().len() / 56);
                same(&what, &count.min(2), &lengths.len());
                same("length", &said.result.unwrap_or(0), &i64::from(if count == 1 { lengths[0] } else { 2 }));
            }
            ArgKind::In(_) => same(&what, &before.as_deref(), &inputs[i]),
            // What is filled stands elsewhere.
            ArgKind::InOut(Struct::CloneArgs(_)) => {
                same(&what, &before.as_deref(), &inputs[i]);
                same(&format!("{what}: bytes of a descriptor"), &succeeded.then_some(4), &outputs[i].map(<[u8]>::len));
            }
            ArgKind::Out(Struct::ChildHandle) if said.args[0] & CLONE_PIDFD == 0 => {
                same(&what, &None::<&[u8]>, &outputs[i])
            }
            ArgKind::InOut(_) => {
                let (reads, fills) = sides(row, &said.args);
                let given = before.filter(|_| reads);
                same(&what, &given.as_deref(), &inputs[i]);
                if succeeded {
                    let filled = after.clone().filter(|_| fills);
                    same(&format!("{what} after"), &filled.as_deref(), &outputs[i]);
                }
            }
            ArgKind::Out(Struct::Message | Struct::Messages(_)) => {}
            ArgKind::Out(_) if succeeded => same(&what, &after.as_deref(), &outputs[i]),
            _ => {}
        }
        match arg.kind {
            ArgKind::InData(_) | ArgKind::InVector(_) => {
                data = said.before.get(&i).map(|p| p.concat());
            }
            ArgKind::OutData(_) | ArgKind::OutVector(_) if succeeded => {
                data = after.map(|mut bytes| {
                    let moved = said.result.unwrap_or(0) as usize;
                    bytes.truncate(moved);
                    bytes
                });
            }
            _ => {}
        }
    }
    if let Some(data) = data {
        let moved = match row.returns {
            Returns::Count if succeeded => said.result.unwrap_or(0) as u64,
            _ if succeeded => data.len() as u64,
            _ => 0,
        };
        same("bytes moved", &moved, &action.data_bytes);
        same("truncated bytes", &0, &action.truncated_bytes);
        match blobs.content(&action.data) {
            Ok(Some(found)) => same("content", &data, &found),
            other => wrong.push(format!("content: {other:?}")),
        }
    }
    wrong
}

/// Whether the structure of a command is read, and whether it is filled: by the names of the manual.
fn sides(row: &Call, args: &[u64; 6]) -> (bool, bool) {
    if row.name != "fcntl" && row.name != "ioctl" {
        return (true, true);
    }
    // F_GETOWN_EX, F_GET_RW_HINT; FIONREAD, FIGETBSZ, FS_IOC_GETFLAGS, FS_IOC_FSGETXATTR, TCGETS, TIOCGWINSZ
    const FILLED: [u64; 8] = [16, 1035, 0x541b, 2, 0x8008_6601, 0x801c_581f, 0x5401, 0x5413];
    // F_GETLK, F_OFD_GETLK; FS_IOC_FIEMAP
    const BOTH: [u64; 3] = [5, 36, 0xc020_660b];
    match args[1] {
        n if FILLED.contains(&n) => (false, true),
        n if BOTH.contains(&n) => (true, true),
        _ => (true, false),
    }
}
