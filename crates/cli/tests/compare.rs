//! Results beside each other, and what a replay says of the trust in its response times.

mod means;

use std::path::Path;
use std::process::Output;

use means::{mkdir, reprise, run};
use reprise_testkit::scratch::Scratch;
use serde_json::Value;

const MICRO: [&str; 9] =
    ["workload", "micro", "random-read", "--dir", "files", "--file-size", "1M", "--requests", "80"];

/// Reference traces with a pause between requests, so that elapsed times are known to differ.
fn references(dir: &Path, name: &str, pause: &str, count: usize) -> String {
    run(dir, &[&MICRO[..], &["--prepare"]].concat()).ends(0);
    let one = |n: usize| {
        let out = format!("{name}{n}.reprise");
        run(dir, &[&MICRO[..], &["--pause", pause, "-o", &out]].concat()).ends(0);
        out
    };
    format!("{name}={}", (0..count).map(one).collect::<Vec<_>>().join(","))
}

#[test]
fn real_differences_are_told_and_others_are_not() {
    let s = Scratch::new();
    let (fast, slow) = (references(s.path(), "fast", "100us", 5), references(s.path(), "slow", "2ms", 5));
    let said = run(s.path(), &["compare", "--json", &fast, &slow]);
    let found = said.ends(1).json();
    assert_eq!(found["groups"], serde_json::json!(["fast", "slow"]));
    let elapsed = &found["quantities"][0];
    assert_eq!((&elapsed["quantity"], &elapsed["differences"][0]["verdict"]), (&"elapsed".into(), &"greater".into()));
    // Eighty requests, 79 pauses: at least 2 ms and 0.1 ms each.
    let mean = |group: usize| elapsed["summaries"][group]["mean"].as_f64().unwrap();
    assert!(mean(0) >= 79.0 * 100e3 * 0.99 && mean(1) >= 79.0 * 2e6 * 0.99, "{elapsed:#}");
    let text = run(s.path(), &["compare", &fast, &slow]).ends(1).out.clone();
    assert!(text.contains("slow takes longer") && !text.contains('±'), "{text}");
    assert!(text.contains("is of another trace"), "{text}");
}

#[test]
fn one_result_each_tells_nothing() {
    let s = Scratch::new();
    let (a, b) = (references(s.path(), "a", "0us", 1), references(s.path(), "b", "3ms", 1));
    let said = run(s.path(), &["compare", &a, &b]);
    assert!(said.ends(0).out.contains("No difference can be told"), "{said:?}");
    assert_eq!(run(s.path(), &["compare", &a]).code, Some(2));
    assert_eq!(run(s.path(), &["compare", &a, "absent.reprise"]).code, Some(3));
}

#[test]
fn a_result_is_no_replication_of_itself() {
    let s = Scratch::new();
    let (a, b) = (references(s.path(), "a", "0us", 2), references(s.path(), "b", "1ms", 2));
    let refused = |groups: [&str; 2], word: &str| {
        let said = run(s.path(), &[&["compare"][..], &groups].concat());
        assert!(said.ends(2).err.contains(word), "{said:?}");
    };
    refused(["a=a0.reprise,a0.reprise,a0.reprise", &b], "there twice");
    refused([&a, "b=b0.reprise,a1.reprise"], "there twice");
    refused(["x=a0.reprise,a1.reprise", "x=b0.reprise,b1.reprise"], "called 'x'");
    // A copy is the same result, too.
    assert!(
        std::process::Command::new("cp")
            .args(["-r", "a0.reprise", "c.reprise"])
            .current_dir(s.path())
            .status()
            .unwrap()
            .success()
    );
    refused(["a=a0.reprise,c.reprise", &b], "the same result");
    // Every quantity has a row for the pair, whatever can be said of it; a call with hardly any time is named, and no more.
    let found = run(s.path(), &["compare", "--json", &a, &b]).out;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let left_out = found["left_out"].as_array().unwrap().len();
    let text = run(s.path(), &["compare", &a, &b]).out;
    let rows = text.lines().filter(|line| line.contains("a, b")).count();
    assert_eq!(rows + left_out, 4, "elapsed, openat, pread64, close: {text}");
    assert_eq!(text.contains("less than 1 %"), left_out > 0, "{text}");
    assert!(text.contains(&format!("for all {} of calls", rows - 1)), "{text}");
}

fn with_state(dir: &Path, args: &[&str]) -> Output {
    reprise(dir, args).env("XDG_STATE_HOME", dir.join("state")).output().unwrap()
}

#[test]
fn a_replay_says_how_far_its_times_can_be_trusted() {
    let s = Scratch::new();
    let dir = s.path();
    // So many reads that their mean stays the same within a factor of 4, however busy the machine is.
    let micro = ["workload", "micro", "random-read", "--requests", "20000", "--file-size", "1M", "--dir", "files"];
    mkdir(dir, "files");
    run(dir, &[&micro[..], &["--prepare"]].concat()).ends(0);
    run(dir, &[&micro[..], &["-o", "t0.reprise"]].concat()).ends(0);
    mkdir(dir, "d");
    let target = mkdir(dir, "target");
    let replay = ["replay", "t0.reprise", "--target", &target, "--fill", "random", "--warm"];
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let before = text(&with_state(dir, &replay));
    assert!(before.contains("not known here") && before.contains("reprise validate"), "{before}");
    let validate =
        ["validate", "--dir", "d", "--quick", "--workload", "random-read", "--requests", "20000", "--file-size", "1M"];
    assert!(with_state(dir, &validate).status.success());
    let after = text(&with_state(dir, &replay));
    assert!(after.contains("pread64: mean") && after.contains("u_c") && after.contains("random-read"), "{after}");
    let document: Value =
        serde_json::from_slice(&with_state(dir, &[&replay[..], &["--json"]].concat()).stdout).unwrap();
    let calls = document["uncertainty"].as_array().unwrap();
    let pread = calls.iter().find(|call| call["call"] == "pread64").unwrap();
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{pread:#}"));
    // Validations go without the list of permitted calls, this replay does not.
    let validated = number(&pread["validated"]["u_c"]) * number(&pread["mean_ns"]);
    let expected = validated.hypot(number(&document["engine"]["list_ns"]));
    assert!((number(&pread["u_c_ns"]) / expected - 1.0).abs() < 1e-9);
    assert!(calls.iter().any(|call| call["call"] == "openat" && call["validated"].is_null()), "{calls:#?}");
    assert!(after.lines().any(|line| line.contains("openat: mean") && line.contains("not known here")), "{after}");
    assert!(after.contains("3 runs") && after.contains("degrees of freedom, 20"), "{after}");
    // Nothing is known of it where the caches are empty.
    let cold = text(&with_state(dir, &["replay", "t0.reprise", "--target", &target, "--fill", "random", "--cold"]));
    assert!(cold.contains("pread64: mean") && cold.contains("u_c not known: validated with other caches"), "{cold}");
    // So do several at once, each for itself, and a comparison.
    let both = with_state(
        dir,
        &[
            "replay",
            "t0.reprise",
            "t0.reprise",
            "--side-by-side",
            "--target",
            &mkdir(dir, "two"),
            "--fill",
            "random",
            "--warm",
            "-o",
            "both",
        ],
    );
    assert_eq!(text(&both).matches("pread64: mean").count(), 2, "{both:?}");
    let compared = with_state(dir, &["compare", "--json", "a=both/1.reprise", "b=both/2.reprise"]);
    let compared: Value = serde_json::from_slice(&compared.stdout).unwrap();
    // Of what was validated the most like: with two at once on a busy machine another than of one alone.
    let store = std::fs::read_to_string(dir.join("state/reprise/validation.json")).unwrap();
    let store: Value = serde_json::from_str(&store).unwrap();
    let of_machines = store["machines"].as_object().unwrap().values();
    let known = of_machines.flat_map(|known| known.as_array().unwrap());
    let validated: Vec<&Value> = known.filter(|known| known["call"] == "pread64").collect();
    for quantity in compared["quantities"].as_array().unwrap() {
        let call = &quantity["quantity"]["mean_response"];
        for u_c in quantity["u_c"].as_array().unwrap() {
            assert_eq!(!u_c.is_null(), call == "pread64", "{quantity:#}");
            assert!(u_c.is_null() || validated.iter().any(|known| known["u_c"] == *u_c), "{quantity:#}");
        }
    }
    // Another way to replay was not validated.
    let other = text(&with_state(dir, &[&replay[..], &["--order", "temporal"]].concat()));
    assert!(other.contains("not known here"), "{other}");
}
