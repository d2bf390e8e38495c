//! The validation protocol as a command: what runs, in which order, what is said of instruments whose error is known, and that
//! nothing is left behind.

mod means;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use means::{mkdir, reprise, run};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::skip;
use serde_json::{Value, json};

const SMALL: &[&str] = &["validate", "--dir", "d", "--runs", "3", "--requests", "60", "--file-size", "1M", "--quiet"];

fn validate(dir: &Path, more: &[&str]) -> Value {
    mkdir(dir, "d");
    let said = run(dir, &[SMALL, &["--no-store", "--json"], more].concat());
    let value = said.ends(0).json();
    assert_eq!(fs::read_dir(dir.join("d")).unwrap().count(), 0, "something was left behind");
    value
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().unwrap_or_else(|| panic!("no {name} in {value:#}"))
}

#[test]
fn each_block_has_a_run_of_each_in_a_random_order() {
    let s = Scratch::new();
    let more = ["--workload", "random-read,sequential-write", "--level", "1,2,3", "--order", "root,temporal"];
    let found = validate(s.path(), &more);
    assert_eq!(found["is_complete"], true);
    let settings = list(&found, "runs");
    assert_eq!(settings.len(), 6);
    let mut orders = Vec::new();
    for setting in settings {
        let runs = setting[1].as_array().unwrap();
        assert_eq!(runs.len(), 9);
        for (block, of_block) in runs.chunks(3).enumerate() {
            let sources: Vec<String> = of_block.iter().map(|run| run["source"].to_string()).collect();
            let mut sorted = sources.clone();
            sorted.sort();
            sorted.dedup();
            assert_eq!(sorted.len(), 3, "{sources:?}");
            assert!(of_block.iter().all(|run| run["block"] == block), "{of_block:?}");
            orders.push(sources);
        }
    }
    orders.sort();
    orders.dedup();
    assert!(orders.len() > 2, "the order is always the same: {orders:?}");
    // Mean and median of each setting and instrument; over three levels there is a trend to be tested.
    assert_eq!(list(&found, "findings").len(), 6 * 2 * 2);
    assert_eq!(list(&found, "linearity").len(), 2 * 2 * 2);
    for line in list(&found, "linearity") {
        assert!(line["bias"]["p"].is_number() && line["levels"].as_array().unwrap().len() == 3, "{line:#}");
    }
    for finding in list(&found, "findings") {
        assert!(finding["uncertainty"]["u_c"].as_f64().unwrap() > 0.0, "{finding:#}");
        assert_eq!(finding["reordering"]["count"], finding["reference_reordering"]["count"]);
        let one = &finding["setting"]["level"] == 1;
        assert!(!one || finding["reordering"]["reordered"] == 0, "one thread has one order: {finding:#}");
    }
}

/// An instrument that says the same whatever it replays: 60 requests of 123,456 ns.
#[test]
fn the_error_of_a_known_instrument_is_found() {
    let s = Scratch::new();
    let liar = "for i in $(seq 60); do echo \"0,pread64,${i}000000,$((i * 1000000 + 123456))\"; done > {log}";
    let more = ["--workload", "random-read", "--level", "1", "--no-replay", "--instrument", liar, "--log", "csv"];
    let found = validate(s.path(), &more);
    for finding in list(&found, "findings") {
        assert_eq!(finding["instrument"], "for");
        let number = |path: &str| finding.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}"));
        let reference = number("/uncertainty/reference");
        assert!((number("/uncertainty/mean") - 123_456.0).abs() < 1e-6);
        assert!((number("/bias/bias") - (123_456.0 - reference)).abs() < 1e-6);
        assert_eq!(finding["precision"]["ratio"], Value::Null, "no F-test of a variance of 0");
        assert_eq!(number("/precision/measured/sd"), 0.0);
        assert_eq!(finding["unlike_trace"], 0);
        // All of it is bias: the root of its mean square, by each block's own reference.
        let which = if finding["statistic"] == "mean" { "mean_ns" } else { "median_ns" };
        let runs = found["runs"][0][1].as_array().unwrap();
        let references: Vec<f64> =
            runs.iter().filter(|run| run["source"] == "reference").map(|run| run[which][0].as_f64().unwrap()).collect();
        let square = references.iter().map(|r| ((123_456.0 - r) / r).powi(2)).sum::<f64>() / 3.0;
        let budget = list(&finding["uncertainty"], "budget");
        let bias = budget.iter().find(|part| part["component"] == "bias").unwrap()["u"].as_f64().unwrap();
        assert!((bias / square.sqrt() - 1.0).abs() < 1e-9, "{bias} {square}");
        assert_eq!(finding["distances"]["in_flight"]["kolmogorov_smirnov"], 0.0);
    }
}

#[test]
fn fio_is_an_instrument() {
    let s = Scratch::new();
    if !Command::new("fio").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return skip("fio_is_an_instrument", "fio is not installed");
    }
    let fio = "fio --name=r --ioengine=psync --invalidate=0 --thread --numjobs={threads} --read_iolog={iolog} --write_lat_log={log} --per_job_logs=1";
    let more = ["--workload", "random-read,sequential-write", "--level", "1,2", "--instrument", fio];
    let found = validate(s.path(), &more);
    let of_fio: Vec<&Value> = list(&found, "findings").iter().filter(|f| f["instrument"] == "fio").collect();
    assert_eq!(of_fio.len(), 8);
    for finding in of_fio {
        assert!(finding["uncertainty"]["mean"].as_f64().unwrap() > 0.0, "{finding:#}");
        // Its instants are whole milliseconds, and these calls take microseconds: it tells no order, and no rate.
        let distances = &finding["distances"];
        assert!(distances["response_ns"]["kolmogorov_smirnov"].is_number(), "{finding:#}");
        for unknown in [&distances["between_issues_ns"], &distances["in_flight"], &distances["issued_by_slice"]] {
            assert!(unknown.is_null() && finding["rate_ratio"].is_null() && finding["reordering"].is_null());
        }
    }
}

/// A recorder that stops the program at each call: both the program and the recorder see longer calls than without.
#[test]
fn recorders_are_instruments() {
    let s = Scratch::new();
    let more = ["--workload", "random-read", "--level", "2", "--no-replay", "--capture", "ptrace"];
    let found = validate(s.path(), &more);
    let names: Vec<&str> = list(&found, "findings").iter().map(|f| f["instrument"].as_str().unwrap()).collect();
    assert_eq!(names, ["record ptrace", "record ptrace", "program under ptrace", "program under ptrace"]);
    for finding in list(&found, "findings") {
        // The bias is the correction to be taken away.
        assert!(finding["bias"]["bias"].as_f64().unwrap() > 0.0, "{finding:#}");
    }
    // Of the file server the program's threads read and write other things, too: their own state, and the trace.
    let more = ["--workload", "fileserver", "--rounds", "4", "--no-replay", "--capture", "ptrace"];
    let beside = Scratch::new();
    let found = validate(beside.path(), &more);
    let runs = list(&found, "runs")[0][1].as_array().unwrap();
    assert!(runs.iter().all(|run| run["count"] == runs[0]["count"] && run["is_as_traced"] == true), "{runs:#?}");
    for finding in list(&found, "findings") {
        let (bias, correction) = (&finding["bias"]["bias"], &finding["correction"]["add_ns"]);
        match finding["instrument"] == "record ptrace" {
            true => assert_eq!(correction.as_f64().unwrap(), -bias.as_f64().unwrap()),
            false => assert!(finding["correction"].is_null(), "{finding:#}"),
        }
    }
    let unknown = run(s.path(), &[SMALL, &["--capture", "strace", "--no-store"]].concat());
    assert!(unknown.ends(2).err.contains("ptrace or ebpf"), "{unknown:?}");
}

#[test]
fn what_was_found_is_kept_for_this_machine() {
    let s = Scratch::new();
    mkdir(s.path(), "d");
    let state = s.path().join("state");
    let known = || -> Value {
        let text = fs::read_to_string(state.join("reprise/validation.json")).unwrap();
        let machines: Value = serde_json::from_str(&text).unwrap();
        machines["machines"].as_object().unwrap().values().next().unwrap().clone()
    };
    // The second follows what the first knew of the same.
    for (level, count, before) in [("1", 1, 0), ("1,2", 2, 1)] {
        let mut command = reprise(s.path(), &[SMALL, &["--workload", "random-read", "--level", level]].concat());
        let output = command.env("XDG_STATE_HOME", &state).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("U (k=2)") && said.contains("validation.json") && !said.contains('±'), "{said}");
        assert_eq!(known().as_array().unwrap().len(), count);
        let first = |known: &&Value| known["level"] == 1;
        let known = known();
        let history = known.as_array().unwrap().iter().find(first).unwrap()["history"].clone();
        assert_eq!(history.as_array().unwrap().len(), before);
    }
}

/// A past in which calls took a nanosecond: what was measured now does not go with it, and of the rest nothing is said.
#[test]
fn what_does_not_go_with_the_validations_before_is_told() {
    let s = Scratch::new();
    mkdir(s.path(), "d");
    let (state, place) = (s.path().join("state"), s.path().join("state/reprise/validation.json"));
    let validated = |more: &[&str]| {
        let base = ["validate", "--dir", "d", "--runs", "3", "--file-size", "1M", "-q", "--json", "-w", "random-read"];
        let output = reprise(s.path(), &[&base, more].concat()).env("XDG_STATE_HOME", &state).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert!(list(&validated(&["--level", "1,2", "--requests", "60"]), "drifts").is_empty());
    let mut kept: Value = serde_json::from_slice(&fs::read(&place).unwrap()).unwrap();
    for known in kept["machines"].as_object_mut().unwrap().values_mut().flat_map(|all| all.as_array_mut().unwrap()) {
        let past = |i: u32| json!({"when_ns": i, "reference_ns": 1.0 + f64::from(i) * 0.01, "u_c": 0.1, "bias": null});
        known["reference_ns"] = json!(1.0);
        known["history"] = (0..6).map(past).collect();
    }
    fs::write(&place, kept.to_string()).unwrap();
    // Another experiment has no past.
    assert!(list(&validated(&["--level", "1", "--requests", "70"]), "drifts").is_empty());
    let found = validated(&["--level", "1", "--requests", "60"]);
    let drifts = list(&found, "drifts");
    assert_eq!((drifts.len(), &drifts[0]["charted"], &drifts[0]["before"]), (1, &json!("reference"), &json!(7)));
    assert!(drifts[0]["of"].as_str().unwrap().contains("level 1"), "{drifts:#?}");
}

#[test]
fn an_interruption_ends_it_in_order() {
    let s = Scratch::new();
    mkdir(s.path(), "d");
    let more = ["--no-store", "--json", "--runs", "2000", "--level", "1", "--workload", "random-read"];
    let mut command =
        reprise(s.path(), &[&SMALL[..3], &["--requests", "60", "--file-size", "1M", "-q"], &more].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    // Until the first runs were made.
    while fs::read_dir(s.path().join("d")).unwrap().count() == 0 && begin.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(7));
    assert_eq!(fs::read_dir(s.path().join("d")).unwrap().count(), 0);
}

/// Runs of a validation that fails late are told and kept, and it still fails.
#[test]
fn what_was_found_before_a_failure_is_told() {
    let s = Scratch::new();
    mkdir(s.path(), "d");
    let runs = s.path().join("runs");
    let failing = format!(
        "echo x >> {0}; if [ $(wc -l < {0}) -gt 4 ]; then echo too much >&2; exit 3; fi; \
         for i in $(seq 60); do echo \"0,pread64,${{i}}000000,$((i * 1000000 + 777))\"; done > {{log}}",
        runs.display()
    );
    let more = ["--workload", "random-read", "--level", "1,2", "--no-replay", "--instrument", &failing, "--log", "csv"];
    let state = s.path().join("state");
    let mut command = reprise(s.path(), &[SMALL, &more, &["--json", "-o", "found.json"]].concat());
    let output = command.env("XDG_STATE_HOME", &state).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), err.contains("too much")), (Some(8), true), "{err}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["is_complete"], list(&found, "findings").len()), (&Value::Bool(false), 2), "{found:#}");
    let of_level = |setting: &Value| setting[1].as_array().unwrap().len();
    assert!(list(&found, "runs").iter().map(of_level).sum::<usize>() >= 8);
    // Its requests are those of one thread, whatever the level.
    let finding = &list(&found, "findings")[0];
    assert_eq!(finding["unlike_trace"], if finding["setting"]["level"] == 1 { 0 } else { 3 }, "{finding:#}");
    assert_eq!(serde_json::from_slice::<Value>(&fs::read(s.path().join("found.json")).unwrap()).unwrap(), found);
    assert!(state.join("reprise/validation.json").exists());
}

#[test]
fn where_nothing_can_be_kept_is_said_before_the_first_run() {
    let s = Scratch::new();
    mkdir(s.path(), "d");
    let mark = format!("echo x > {}; exit 3", s.path().join("ran").display());
    let more = ["--workload", "random-read", "--level", "1", "--no-replay", "--instrument", &mark];
    let said = run(s.path(), &[SMALL, &more, &["--no-store", "-o", "absent/found.json"]].concat());
    assert!(said.ends(8).err.contains("absent/found.json") && !s.path().join("ran").exists(), "{said:?}");
    // A state directory that is a file; and a store that is damaged, which is set aside.
    let state = s.path().join("state");
    fs::write(&state, "").unwrap();
    let with_state = |more: &[&str]| reprise(s.path(), &[SMALL, more].concat()).env("XDG_STATE_HOME", &state).output();
    let output = with_state(&more).unwrap();
    assert_eq!((output.status.code(), s.path().join("ran").exists()), (Some(8), false));
    fs::remove_file(&state).unwrap();
    fs::create_dir_all(state.join("reprise")).unwrap();
    fs::write(state.join("reprise/validation.json"), "{").unwrap();
    let output = with_state(&["--workload", "random-read", "--level", "1"]).unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && err.contains("validation.json.unreadable"), "{err}");
    assert_eq!(fs::read(state.join("reprise/validation.json.unreadable")).unwrap(), b"{");
}

/// Places with spaces and quotes are one word for the shell; what it started ends with it.
#[test]
fn an_instrument_has_its_places_and_ends_with_all_it_started() {
    let s = Scratch::new();
    for dir in ["d d", "it's"] {
        mkdir(s.path(), dir);
    }
    let csv =
        "test -d {dir} && test -d {trace} && for i in $(seq 60); do echo \"0,pread64,${i}0000,${i}0999\"; done > {log}";
    let base =
        ["validate", "--dir", "d d", "--scratch", "it's", "--runs", "3", "--requests", "60", "--file-size", "1M"];
    let more = ["-q", "--no-store", "--workload", "random-read", "--level", "1", "--no-replay", "--log", "csv"];
    run(s.path(), &[&base[..], &more, &["--instrument", csv]].concat()).ends(0);

    let number = s.path().join("pid");
    let sleeps = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", number.display());
    let mut child = reprise(s.path(), &[&base[..], &more, &["--instrument", &sleeps]].concat()).spawn().unwrap();
    let begin = Instant::now();
    while !number.exists() && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = fs::read_to_string(&number).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let status = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(status.is_empty() || status.contains(") Z "), "{status}");
}

/// Pieces of a validation: what is finished is kept, taken as it is, and told with the rest.
#[test]
fn a_series_goes_on_where_it_was_stopped() {
    let s = Scratch::new();
    mkdir(s.path(), "d");
    let piece = |more: &[&str], code: i32| {
        let series = ["--workload", "random-read", "--level", "1,2,3", "--series", "kept", "--no-store", "--json"];
        let said = run(s.path(), &[SMALL, &series, more].concat());
        said.ends(code);
        said
    };
    // No scenario is known to end in a millisecond; of the first nothing is known yet.
    let first = piece(&["--for", "1ms"], 7).json();
    assert_eq!((list(&first, "runs").len(), &first["is_complete"]), (1, &Value::Bool(false)), "{first:#}");
    assert!(piece(&["--for", "1ms"], 7).err.contains("goes on"));
    assert_eq!(fs::read_dir(s.path().join("kept")).unwrap().count(), 1);
    let all = piece(&[], 0).json();
    assert_eq!((list(&all, "runs").len(), &all["is_complete"]), (3, &Value::Bool(true)));
    let again = piece(&[], 0).json();
    assert_eq!((&again["runs"], &again["findings"]), (&all["runs"], &all["findings"]));
    assert!(list(&all, "runs").contains(&list(&first, "runs")[0]), "what was kept was measured again");
    // Levels are in order whichever came first, and make one line.
    let levels: Vec<&Value> = list(&again, "runs").iter().map(|of| &of[0]["level"]).collect();
    assert_eq!(levels, [1, 2, 3]);
    assert!(again["linearity"][0]["bias"]["p"].is_number());
    let other = piece(&["--order", "temporal"], 2);
    assert!(other.err.contains("temporal afap sync") && other.err.contains("--series"), "{other:?}");
}

/// The budget of a finding: what contributes to the uncertainty, and where it comes from; what a log does not tell is not known.
#[test]
fn every_origin_of_uncertainty_is_named() {
    let s = Scratch::new();
    let csv = "for i in $(seq 60); do echo \"0,pread64,${i}000000,$((i * 1000000 + 999))\"; done > {log}";
    let more = ["--workload", "random-read", "--level", "2", "--instrument", csv, "--log", "csv"];
    let found = validate(s.path(), &more);
    assert!(found["clock"]["read_ns"].as_f64().unwrap() > 0.0 && found["clock"]["step_ns"].as_f64().unwrap() > 0.0);
    for finding in list(&found, "findings").iter().filter(|f| f["statistic"] == "mean") {
        let u_c = finding["uncertainty"]["u_c"].as_f64().unwrap();
        let of =
            |origin: &str| list(finding, "influences").iter().find(|i| i["origin"] == origin).unwrap()["u"].clone();
        let known = ["clock", "recorder", "engine", "device"].map(|origin| of(origin).as_f64().unwrap());
        let unknown = ["scheduler", "cache_state"].map(|origin| of(origin).as_f64());
        let is_replay = finding["instrument"] == "root:file=range afap sync";
        assert!(unknown.iter().all(|u| u.is_some() == is_replay), "{finding:#}");
        let explained: f64 = known.iter().chain(unknown.iter().flatten()).map(|u| u * u).sum();
        let rest = of("rest").as_f64().unwrap();
        assert!((rest * rest - (u_c * u_c - explained).max(0.0)).abs() < 1e-9 * u_c * u_c, "{finding:#}");
    }
}

/// The reference has little memory; replays have the same, and with `--unmatched` also all of it.
#[test]
fn replays_run_in_the_memory_of_the_reference() {
    let s = Scratch::new();
    let dir = s.path();
    let limited = ["workload", "micro", "random-read", "--dir", "f", "--file-size", "1M", "--requests", "40"];
    run(dir, &[&limited[..], &["--prepare"]].concat()).ends(0);
    let said = run(dir, &[&limited[..], &["--memory", "64M", "--warm", "-o", "ref.reprise"]].concat());
    if said.code != Some(0) && said.err.contains("control group") {
        return skip("replays_run_in_the_memory_of_the_reference", &said.err);
    }
    said.ends(0);
    let manifest = fs::read_to_string(dir.join("ref.reprise/manifest.json")).unwrap();
    assert!(manifest.contains("\"memory_limit\": \"65536 kB\""), "{manifest}");
    let more = ["--workload", "random-read", "--level", "1", "--memory", "64M", "--unmatched"];
    let found = validate(dir, &more);
    let names: Vec<&str> = list(&found, "findings").iter().map(|f| f["instrument"].as_str().unwrap()).collect();
    assert_eq!(names[..2], ["root:file=range afap sync"; 2]);
    assert_eq!(names[2..], ["root:file=range afap sync all-memory"; 2]);
    assert!(list(&found, "findings").iter().all(|f| f["setting"]["memory_bytes"] == 64 << 20));
    let alone = run(dir, &[SMALL, &["--unmatched"]].concat());
    assert!(alone.ends(2).err.contains("--memory"), "{alone:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let s = Scratch::new();
    mkdir(s.path(), "d");
    let csv = |line: &'static str| {
        ["--workload", "random-read", "--no-replay", "--instrument", line, "--log", "csv", "--level", "1"]
    };
    let backwards = csv("echo 0,pread64,20,10 > {log}");
    let no_time = csv("echo 0,pread64,20,20 > {log}");
    let seconds = csv("echo 0,pread64,0,900000000000000 > {log}");
    let cases: [(&[&str], i32, &str); 10] = [
        (&["--workload", "fileserver", "--rounds", "0"], 2, "--rounds"),
        (&backwards, 2, "not before the begin"),
        (&no_time, 2, "no time at all"),
        (&seconds, 2, "the whole run took"),
        (&["--runs", "2"], 2, "--runs"),
        (&["--order", "sideways"], 2, "sideways"),
        (&["--pace", "fast"], 2, "choose afap"),
        (&["--workload", "random-read", "--level", "0"], 2, "threads"),
        (&["--workload", "random-read", "--no-replay", "--instrument", "exit 3", "--level", "1"], 8, "exit 3"),
        (
            &[
                "--workload",
                "random-read",
                "--no-replay",
                "--instrument",
                "echo x > {log}",
                "--log",
                "csv",
                "--level",
                "1",
            ],
            2,
            "--log",
        ),
    ];
    for (more, code, word) in cases {
        let said = run(
            s.path(),
            &[&SMALL[..3], &["--requests", "60", "--file-size", "1M", "-q", "--no-store"], more].concat(),
        );
        assert!(said.ends(code).err.contains(word), "{more:?} {said:?}");
    }
    assert_eq!(run(s.path(), &["validate", "--dir", "absent"]).code, Some(5));
}
