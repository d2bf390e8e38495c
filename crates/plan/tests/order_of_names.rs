//! A plan orders what is done to a name, also where the compiler has forgotten the name or the threads meanwhile.
//!
//! The oracle knows nothing but paths as they stand in the trace: a look comes after the last change of its name, a change
//! after the last change and after all looks since.

use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::path::Path;

use reprise_plan::command::{Command, CommandReader, Op};
use reprise_plan::{Plan, compile};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::synthetic::{self, Mix};
use reprise_trace::{Action, TraceReader};

/// Of each thread, how many of its actions come before.
type Clock = Vec<u32>;

struct Ordered {
    /// By action: its thread, its number in it, and what comes before it.
    actions: Vec<(usize, u32, Clock)>,
}

fn commands(plan: &Plan) -> Vec<(usize, Command)> {
    let mut out = Vec::new();
    for (number, thread) in plan.contents.threads.iter().enumerate() {
        for chunk in &thread.chunks {
            let mut bytes = vec![0; chunk.words as usize * 8];
            let at = plan.contents.command_section.offset + chunk.first * 8;
            plan.file.read_exact_at(&mut bytes, at).expect("commands");
            let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
            let mut rest = &words[..];
            let mut reader = CommandReader::default();
            while !rest.is_empty() {
                let mut command = Command::default();
                let used = reader.command(rest, &mut command).expect("a command");
                rest = &rest[used..];
                out.push((number, command));
            }
        }
    }
    out.sort_by_key(|(_, command)| command.origin);
    out
}

impl Ordered {
    fn by(plan: &Plan) -> Ordered {
        let threads = plan.contents.threads.len();
        let mut now: Vec<Clock> = vec![vec![0; threads]; threads];
        let mut origins: Vec<Vec<usize>> = vec![Vec::new(); threads];
        let mut actions: Vec<(usize, u32, Clock)> = Vec::new();
        for (thread, command) in commands(plan) {
            for wait in &command.waits {
                let origin = origins[wait.thread as usize][wait.count as usize - 1];
                let (_, count, before) = &actions[origin];
                for (mine, theirs) in now[thread].iter_mut().zip(before) {
                    *mine = (*mine).max(*theirs);
                }
                let mine = &mut now[thread][wait.thread as usize];
                *mine = (*mine).max(*count);
            }
            origins[thread].push(actions.len());
            let count = origins[thread].len() as u32;
            actions.push((thread, count, now[thread].clone()));
            now[thread][thread] = count;
            if command.op == Op::Spawn {
                now[command.produces[0] as usize] = now[thread].clone();
            }
        }
        Ordered { actions }
    }

    fn is_before(&self, earlier: usize, later: usize) -> bool {
        let (thread, count, _) = &self.actions[earlier];
        self.actions[later].2[*thread] >= *count
    }
}

#[derive(Default)]
struct Name {
    changed: Option<usize>,
    looked: Vec<usize>,
}

/// The names that an action speaks of, and whether it changes them.
fn names(action: &Action) -> Vec<(&[u8], bool)> {
    const O_CREAT: u64 = 0o100;
    let changes = action.result >= 0
        && match &*action.call {
            "rename" | "unlink" => true,
            "openat" => action.args[2] & O_CREAT != 0,
            _ => false,
        };
    [&action.path, &action.path2].into_iter().flatten().map(|name| (&name[..], changes)).collect()
}

fn check(mix: Mix, actions: u64) {
    let scratch = Scratch::new();
    let (trace, plan) = (scratch.path().join("trace"), scratch.path().join("plan"));
    synthetic::write(&trace, mix, actions, 7).expect("a trace");
    let trace = TraceReader::open(&trace).expect("a trace");
    let report = compile(&trace, Path::new(&plan), Default::default(), &mut |_, _| ()).expect("a plan");
    assert!(report.surprises.is_empty(), "{:?}", report.surprises);
    let ordered = Ordered::by(&Plan::open(&plan).expect("a plan"));
    let mut state: HashMap<Vec<u8>, Name> = HashMap::new();
    for (number, action) in trace.actions().enumerate() {
        let action = action.expect("an action");
        for (path, changes) in names(&action) {
            let name = state.entry(path.to_vec()).or_default();
            let looked = if changes { &name.looked[..] } else { &[] };
            for &earlier in name.changed.iter().chain(looked) {
                let shown = String::from_utf8_lossy(path);
                assert!(ordered.is_before(earlier, number), "{}: {shown}: {earlier} before {number}", mix.name());
            }
            if changes {
                *name = Name { changed: Some(number), looked: Vec::new() };
            } else {
                name.looked.push(number);
            }
        }
    }
}

#[test]
fn names_that_were_forgotten_keep_their_order() {
    check(Mix::Mail, 300_000);
}

#[test]
fn looks_of_processes_that_have_ended_keep_their_order() {
    check(Mix::Processes, 30_000);
}
