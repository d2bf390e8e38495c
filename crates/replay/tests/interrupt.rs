//! A signal of the terminal: the replay ends in order, and keeps what it did. Alone in its process.

use std::time::{Duration, Instant};

use reprise_plan::command::Arg;
use reprise_replay::run::{End, Options, Phase, Progress, catch_signals, replay};

mod scratch;
mod script;
use scratch::Scratch;
use script::{Script, issue, options};

#[test]
fn a_signal_ends_the_replay_in_order() {
    let scratch = Scratch::new("interrupt");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    for _ in 0..2_000_000 {
        s.add(t, issue("umask", &[Arg::Value(0o022)], 0o022));
    }
    let plan = s.finish();
    let options = Options { interrupt: Some(catch_signals()), ..options() };
    let own = std::process::id().to_string();
    let mut sent = None;
    let mut progress = |p: Progress| {
        if p.phase == Phase::Replaying && p.done > 0 && sent.is_none() {
            sent = Some(Instant::now());
            assert!(std::process::Command::new("kill").args(["-INT", &own]).status().unwrap().success());
        }
    };
    let result = replay(&plan, &scratch.dir("target"), &options, &mut progress).unwrap();
    assert!(sent.unwrap().elapsed() < Duration::from_secs(5));
    assert!(matches!(result.end, End::Interrupted), "{:?}", result.end);
    assert!(result.counts.actions > 0 && result.counts.actions < 2_000_000, "{:?}", result.counts);
    assert_eq!(result.counts.diverged, 0);
}
