//! Paces: lower bounds that hold on any machine, however busy.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use reprise_plan::Timing;
use reprise_plan::command::{Arg, Command, Op};
use reprise_replay::log::{Handling, Record};
use reprise_replay::run::{End, Options, Pace, ReplayResult, replay};

mod scratch;
mod script;
use scratch::Scratch;
use script::{Script, issue, op, options, run};

const MS: u64 = 1_000_000;
/// The clocks of bounds and of measuring are two.
const SLACK_NS: u64 = 5_000;

fn paced(pace: &str) -> Options {
    Options { pace: pace.parse::<Pace>().unwrap(), ..options() }
}

fn look(timing: Timing) -> Command {
    Command { timing, ..issue("umask", &[Arg::Value(0o022)], 0o022) }
}

fn think(predelay_ns: u64) -> Timing {
    Timing { at_ns: 0, predelay_ns, cpu_ns: None, cached: None }
}

fn records(result: &ReplayResult) -> HashMap<u64, Record> {
    assert!(matches!(result.end, End::Complete), "{:?}", result.end);
    result.log.merged().map(|r| r.unwrap()).map(|r| (r.origin, r)).collect()
}

/// Thread 0: four looks 3 ms apart; thread 1: one look 5 ms after thread 0's second.
fn chain(scratch: &Scratch) -> reprise_plan::Plan {
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let (a, b) = (s.thread(p, false), s.thread(p, false));
    for _ in 0..4 {
        s.add(a, look(think(3 * MS)));
    }
    s.add_after(b, &[(a, 2)], look(think(5 * MS)));
    s.exit(a);
    s.exit(b);
    s.finish()
}

#[test]
fn think_time_follows_the_last_dependency() {
    let scratch = Scratch::new("pacing-natural");
    let plan = chain(&scratch);
    let mut blocked = 0;
    for (pace, factor) in [("natural", 1.0), ("x2", 2.0), ("x0.5", 0.5), ("cpu", 1.0)] {
        let result = run(&plan, &scratch.dir("target"), &paced(pace)).unwrap();
        assert_eq!(result.pace.to_string(), pace);
        let records = records(&result);
        let least = |ms: u64| (ms as f64 * MS as f64 * factor) as u64 - SLACK_NS;
        for i in 1..4 {
            assert!(records[&i].begin_ns >= records[&(i - 1)].end_ns + least(3), "{pace} {records:?}");
        }
        let (other, awaited) = (&records[&4], &records[&1]);
        assert!(other.begin_ns >= awaited.end_ns + least(5), "{pace} {records:?}");
        blocked += u32::from(other.blocked.is_some());
        assert!(records.values().all(|r| r.pacing.is_some_and(|p| p.error_ns >= -(SLACK_NS as i64))), "{records:?}");
        assert!(result.elapsed_ns >= least(9), "{pace} {}", result.elapsed_ns);
    }
    // A machine that is busy may let the other thread begin so late that nothing is left to wait for.
    assert!(blocked > 0, "it was never blocked for what it depends on");
}

#[test]
fn as_fast_as_possible_waits_for_no_pace() {
    let scratch = Scratch::new("pacing-afap");
    let plan = chain(&scratch);
    let result = run(&plan, &scratch.dir("target"), &options()).unwrap();
    assert!(records(&result).values().all(|r| r.pacing.is_none()));
    let times = reprise_replay::times::times(&result, None).unwrap();
    assert_eq!((times.total.pacing_ns, times.issue_error, times.original_elapsed_ns), (0, None, None));
}

#[test]
fn time_stamps_are_not_overtaken() {
    let scratch = Scratch::new("pacing-timestamp");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let (a, b) = (s.thread(p, false), s.thread(p, false));
    for (thread, at) in [(a, 2), (b, 7), (a, 12), (b, 9)] {
        s.add(thread, look(Timing { at_ns: at * MS, ..Timing::default() }));
    }
    s.exit(a);
    s.exit(b);
    let plan = s.finish();
    for (pace, factor) in [("timestamp", 1.0), ("timestamp:x3", 3.0)] {
        let result = run(&plan, &scratch.dir("target"), &paced(pace)).unwrap();
        let records = records(&result);
        for (i, at) in [2u64, 7, 12, 9].into_iter().enumerate() {
            // The log's clock begins before the threads do.
            let least = (at as f64 * MS as f64 * factor) as u64 - SLACK_NS;
            assert!(records[&(i as u64)].begin_ns >= least, "{pace} {records:?}");
        }
    }
}

#[test]
fn computing_alone_is_thinking_where_it_is_known() {
    let scratch = Scratch::new("pacing-cpu");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    let hour = 3_600_000 * MS;
    s.add(t, look(Timing { at_ns: hour, predelay_ns: hour, cpu_ns: Some(2 * MS), cached: None }));
    s.add(t, look(Timing { at_ns: hour, predelay_ns: 2 * MS, cpu_ns: Some(hour), cached: None }));
    s.exit(t);
    let plan = s.finish();
    let result = run(&plan, &scratch.dir("target"), &paced("cpu:x2")).unwrap();
    let records = records(&result);
    assert!(records[&1].begin_ns >= records[&0].end_ns + 4 * MS - SLACK_NS, "{records:?}");
    assert!(result.elapsed_ns < hour);
}

#[test]
fn what_is_not_issued_is_paced_too() {
    let scratch = Scratch::new("pacing-simulated");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    s.add(t, look(think(0)));
    s.add(t, Command { timing: think(4 * MS), ..op("poll", Op::Simulate, &[], 1, [u32::MAX; 2]) });
    s.add(t, look(think(0)));
    s.exit(t);
    let plan = s.finish();
    let result = run(&plan, &scratch.dir("target"), &paced("natural")).unwrap();
    let records = records(&result);
    assert_eq!(records[&1].handling, Handling::Simulated);
    assert!(records[&2].begin_ns >= records[&0].end_ns + 4 * MS - SLACK_NS, "{records:?}");
}

#[test]
fn a_long_wait_is_neither_stuck_nor_deaf() {
    let scratch = Scratch::new("pacing-long");
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let (a, b) = (s.thread(p, false), s.thread(p, false));
    s.add(a, look(think(400 * MS)));
    s.add_after(b, &[(a, 1)], look(think(0)));
    s.exit(a);
    s.exit(b);
    let plan = s.finish();
    let impatient = Options { patience: Duration::from_millis(100), ..paced("natural") };
    records(&run(&plan, &scratch.dir("target"), &impatient).unwrap());

    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let (a, b) = (s.thread(p, false), s.thread(p, false));
    s.add(a, look(think(u64::MAX)));
    s.add_after(b, &[(a, 1)], look(think(u64::MAX)));
    s.exit(a);
    s.exit(b);
    let plan = s.finish();
    for pace in ["natural", "x1000000"] {
        let asked: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        let endless = Options { interrupt: Some(asked), ..paced(pace) };
        // The second report comes when the worker has been running for a while.
        let mut reports = 0;
        let result = replay(&plan, &scratch.dir("target"), &endless, &mut |_| {
            reports += 1;
            asked.store(u32::from(reports > 3), Ordering::SeqCst);
        });
        assert!(matches!(result.unwrap().end, End::Interrupted));
    }
}

/// Which processors the threads of the processes below one may use, as the kernel tells it.
fn allowed_below(process: &str) -> Vec<String> {
    let mut found = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().for_each(|child| found.extend(allowed_below(child)));
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let allowed = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        found.extend(allowed.map(|text| text.trim().to_owned()));
    }
    found
}

#[test]
fn threads_stay_on_processors_if_asked() {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    if processors < 2 {
        println!("skipped: there is one processor only");
        return;
    }
    for pin in [true, false] {
        let scratch = Scratch::new("pacing-pin");
        let mut s = Script::new(scratch.path());
        let p = s.process(vec![]);
        let (a, b) = (s.thread(p, false), s.thread(p, false));
        for t in [a, b] {
            s.add(t, look(think(300 * MS)));
            s.exit(t);
        }
        let plan = s.finish();
        let seen = std::thread::spawn(|| {
            let mut alone = std::collections::BTreeSet::new();
            for _ in 0..50 {
                alone.extend(allowed_below("self").into_iter().filter(|list| list.parse::<u32>().is_ok()));
                std::thread::sleep(Duration::from_millis(5));
            }
            alone
        });
        let result = run(&plan, &scratch.dir("target"), &Options { pin, ..paced("natural") }).unwrap();
        assert!(matches!(result.end, End::Complete), "{:?}", result.end);
        let alone = seen.join().unwrap();
        assert!(if pin { alone.len() >= 2 } else { alone.is_empty() }, "{pin}: {alone:?} {:?}", result.notes);
    }
}
