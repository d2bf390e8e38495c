//! A worker that hangs is noticed and ended. Alone in its process: it looks for the worker among its children.

use std::time::Duration;

use reprise_plan::Timing;
use reprise_plan::command::{Arg, Command};
use reprise_replay::run::{End, Options, ReplayError, replay};

mod scratch;
mod script;
use scratch::Scratch;
use script::{Script, issue, options};

/// Processes below one.
fn below(process: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let children: Vec<String> = children.flat_map(|c| c.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    let found = children.into_iter().filter(|child| !child.trim().is_empty());
    found.flat_map(|child| [vec![child.clone()], below(&child)].concat()).collect()
}

#[test]
fn a_worker_that_hangs_is_ended_and_its_place_is_told() {
    let scratch = Scratch::new("vigil");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    let timing = Timing { at_ns: 0, predelay_ns: 3_600_000_000_000, cpu_ns: None, cached: None };
    s.add(t, Command { timing, ..issue("umask", &[Arg::Value(0o022)], 0o022) });
    s.exit(t);
    let plan = s.finish();
    let patience = Duration::from_millis(100);
    let options = Options { patience, pace: "natural".parse().unwrap(), ..options() };
    // Stopped, as a defect of engine or machine would have it: it paces its thread, and ticks, otherwise.
    let mut reports = 0;
    let result = replay(&plan, &scratch.dir("target"), &options, &mut |_| {
        reports += 1;
        if reports == 5 {
            let worker = below("self").pop().expect("a worker");
            assert!(std::process::Command::new("kill").args(["-STOP", &worker]).status().unwrap().success());
        }
    });
    let end = result.unwrap().end;
    let End::Failed(ReplayError::Silent { seconds, places }) = &end else { panic!("{end:?}") };
    assert!(*seconds >= 10 && places.contains("thread "), "{seconds} {places}");
}
