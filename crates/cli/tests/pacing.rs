//! Paces and times of real programs.

mod means;

use std::fs;
use std::path::Path;

use means::{mkdir, run};
use reprise_testkit::scratch::Scratch;
use serde_json::Value;

const SLEEPS: &str = "echo a > f; sleep 0.3; echo b >> f";
const SLEPT_NS: u64 = 300_000_000;

fn record(dir: &Path, flags: &[&str]) {
    let mut args = vec!["record", "-q", "-o", "t.reprise"];
    args.extend(flags);
    args.extend(["--", "sh", "-c", SLEEPS]);
    run(dir, &args).ends(0);
}

fn replay(dir: &Path, what: &str, pace: &str, more: &[&str]) -> Value {
    let target = mkdir(dir, &format!("{what}-{}", pace.replace(':', "-")));
    let mut args = vec!["replay", what, "--target", &target, "--pace", pace, "--json"];
    args.extend(more);
    let said = run(dir, &args);
    said.ends(0);
    said.json()
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path} in {value:#}"))
}

fn sum(value: &Value, list: &str, field: &str) -> u64 {
    value[list].as_array().unwrap().iter().map(|row| number(row, field)).sum()
}

#[test]
fn a_sleep_is_replayed_at_its_pace() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, &[]);
    let natural = replay(dir, "t.reprise", "natural", &[]);
    assert!(number(&natural, "/replay_ns") >= SLEPT_NS, "{natural:#}");
    assert!(number(&natural, "/times/issue_error/count") > 0);
    // The shell waits for the process that sleeps: think time follows the dependency.
    assert!(natural["times"]["waits"].as_array().unwrap().iter().any(|w| w["rule"] == "process"), "{natural:#}");
    assert!(number(&replay(dir, "t.reprise", "x2", &[]), "/replay_ns") >= 2 * SLEPT_NS);
    assert!(number(&replay(dir, "t.reprise", "timestamp", &[]), "/replay_ns") >= SLEPT_NS);
    let fast = replay(dir, "t.reprise", "afap", &[]);
    assert_eq!((number(&fast, "/times/total/pacing_ns"), &fast["times"]["issue_error"]), (0, &Value::Null));
    run(dir, &["compile", "-q", "t.reprise", "-o", "t.plan"]).ends(0);
    let planned = replay(dir, "t.plan", "natural", &[]);
    assert!(number(&planned, "/replay_ns") >= SLEPT_NS);
    assert_eq!(planned["times"]["original_elapsed_ns"], Value::Null);
    let wrong = run(dir, &["replay", "t.reprise", "--target", ".", "--pace", "fast"]);
    assert!(wrong.ends(2).err.contains("choose afap"), "{wrong:#?}");
}

#[test]
fn processor_time_tells_computing_from_sleeping() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, &["--cpu"]);
    let rows = run(dir, &["cat", "--json", "t.reprise"]);
    rows.ends(0);
    let mut ends = std::collections::HashMap::new();
    let (mut known, mut slept) = (0, false);
    for line in rows.out.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let begin = number(&row, "/begin_ns");
        let end = begin + number(&row, "/duration_ns");
        let before: Option<u64> = ends.insert(number(&row, "/thread"), end);
        let (Some(before), Some(cpu)) = (before, row["cpu_ns"].as_u64()) else { continue };
        known += 1;
        let gap = begin.saturating_sub(before);
        slept |= gap >= SLEPT_NS && cpu < SLEPT_NS;
    }
    if known == 0 {
        return reprise_testkit::skip("processor_time_tells_computing_from_sleeping", "no /proc/PID/schedstat here");
    }
    assert!(slept, "{known} actions, none after a sleep: {}", rows.out);
    let cpu = replay(dir, "t.reprise", "cpu", &[]);
    assert!(number(&cpu, "/times/total/pacing_ns") > 0);
}

#[test]
fn what_a_replay_took_is_told() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, &[]);
    let said = replay(dir, "t.reprise", "natural", &["-o", "r.reprise"]);
    // It slept for its pace at least once, and whatever it did took time and memory.
    let [user, system, slept, resident] = ["user_ns", "system_ns", "voluntary_switches", "resident_bytes"]
        .map(|of| number(&said, &format!("/engine/{of}")));
    // The kernel splits what is shorter than a tick by halves: all or nothing.
    assert!(user + system > 0 && slept > 0 && (1..1 << 30).contains(&resident), "{:#}", said["engine"]);
    let manifest = fs::read_to_string(dir.join("r.reprise/manifest.json")).unwrap();
    let facts: Value = serde_json::from_str(&manifest).unwrap();
    for (fact, of) in [("engine_system_ns", "system_ns"), ("voluntary_switches", "voluntary_switches")] {
        assert_eq!(facts["facts"][fact], Value::from(said["engine"][of].to_string()), "{fact}");
    }
    let text = run(dir, &["replay", "-q", "t.reprise", "--target", &mkdir(dir, "told")]);
    assert!(text.out.contains("processor time:"), "{text:#?}");
}

#[test]
fn times_add_up_and_can_be_had_later() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, &[]);
    let said = replay(dir, "t.reprise", "natural", &["-o", "r.reprise"]);
    let times = &said["times"];
    let parts = ["in_calls_ns", "waiting_ns", "pacing_ns", "engine_ns"];
    for thread in times["threads"].as_array().unwrap() {
        let parts: u64 = parts.iter().map(|part| number(thread, &format!("/{part}"))).sum();
        assert_eq!(number(thread, "/wall_ns"), parts);
    }
    let in_calls = number(times, "/total/in_calls_ns");
    assert_eq!(in_calls, sum(times, "categories", "/replay_ns"));
    assert_eq!(in_calls, sum(times, "calls", "/replay/total_ns"));
    assert_eq!(sum(times, "calls", "/original/total_ns"), sum(times, "categories", "/original_ns"));
    assert_eq!(number(times, "/elapsed_ns"), number(&said, "/replay_ns"));

    let later = run(dir, &["stat", "--json", "--replay-of", "t.reprise", "r.reprise"]);
    later.ends(0);
    assert_eq!(later.json(), *times, "the result's trace tells something else than the replay did");
    let text = run(dir, &["stat", "--replay-of", "t.reprise", "r.reprise"]);
    text.ends(0);
    for word in ["elapsed", "in flight", "issue error", "waited for", "by kind of work", "T1"] {
        assert!(text.out.contains(word), "no {word}: {text:#?}");
    }
    run(dir, &["stat", "--replay-of", "r.reprise", "t.reprise"]).fails(2, &["not a replay's trace"]);
    run(dir, &["stat", "--replay-of", "r.reprise", "r.reprise"]).fails(2, &["give the trace that was replayed"]);
    assert!(fs::read_to_string(dir.join("r.reprise/manifest.json")).unwrap().contains("\"pace\": \"natural\""));
}
