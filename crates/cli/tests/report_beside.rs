//! `reprise report` of several replays: what is uncertain by how much is counted anew here, and a stored validation is used where
//! nothing was replicated.

mod means;

use std::fs;
use std::path::Path;

use means::{Said, mkdir, record, reprise, run};
use reprise_testkit::scratch::{Kind, LoopFs, Scratch};
use reprise_testkit::{program, skip};
use serde_json::{Value, json};

/// Student's quantile 0.975 for two degrees of freedom, from a printed table.
const T_2: f64 = 4.302_653;

/// A trace, and replays of it: at one pace three, at another one.
fn replays(dir: &Path) {
    record(dir, "t.reprise", "for i in 1 2 3 4 5 6; do echo $i > f$i; cat f$i > g$i; done; sync f1; rm f2; exit 0");
    for (name, pace) in [("a", "afap"), ("b", "afap"), ("c", "afap"), ("n", "natural")] {
        let target = mkdir(dir, name);
        let output = format!("{name}.reprise");
        run(dir, &["replay", "-q", "--pace", pace, "--target", &target, "-o", &output, "t.reprise"]).ends(0);
    }
}

/// A report's data and what is said at its top, with a directory for what is kept of validations.
fn reported(dir: &Path, traces: &[&str]) -> (Value, String) {
    let mut command = reprise(dir, &[&["report", "-o", "r.html", "t.reprise"], traces].concat());
    command.env("XDG_STATE_HOME", dir.join("state"));
    let said = Said::new(format!("{command:?}"), program::run(&mut command));
    said.ends(0);
    let html = fs::read_to_string(dir.join("r.html")).unwrap();
    let (_, rest) = html.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    (serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap(), said.out.clone())
}

fn near(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - expected).abs() <= 1e-4 * expected.abs(), "{found} is not {expected}");
}

fn elapsed(data: &Value, name: &str) -> f64 {
    let sides = data["sides"].as_array().unwrap();
    sides.iter().find(|side| side["name"] == name).unwrap()["elapsed_ns"].as_f64().unwrap()
}

#[test]
fn replications_say_what_is_uncertain() {
    let s = Scratch::new();
    let dir = s.path();
    replays(dir);
    // By their settings, and by the names that they are given.
    for (traces, names) in [
        (&["a.reprise", "n.reprise", "b.reprise", "c.reprise"][..], ["afap", "natural"]),
        (&["fast=a.reprise,b.reprise,c.reprise", "slow=n.reprise"], ["fast", "slow"]),
    ] {
        let (data, said) = reported(dir, traces);
        let beside = &data["beside"];
        let found: Vec<&str> =
            beside["groups"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
        assert!(found[0].contains(names[0]) && found[0].len() <= names[0].len(), "{found:?}");
        let row = &beside["rows"][0];
        assert_eq!(row["quantity"], "elapsed");
        let values = ["a", "b", "c"].map(|name| elapsed(&data, name));
        let mean = values.iter().sum::<f64>() / 3.0;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2.0;
        let [fast, slow] = [0, 1].map(|i| &row["estimates"][i]);
        near(&fast["mean"], mean);
        near(&fast["expanded"], T_2 * (variance / 3.0).sqrt());
        assert_eq!((fast["source"].as_str(), slow["source"].as_str()), (Some("replications"), Some("nothing")));
        assert!(slow["expanded"].is_null());
        assert!(said.contains("once: nothing says how much"), "{said}");
    }
}

#[test]
fn a_stored_validation_says_it_where_each_was_replayed_once() {
    let s = Scratch::new();
    let dir = s.path();
    replays(dir);
    let manifest: Value = serde_json::from_slice(&fs::read(dir.join("a.reprise/manifest.json")).unwrap()).unwrap();
    let text = |name: &str| manifest["facts"][name].as_str().unwrap().to_owned();
    // Rows are for the calls that took the most time: which those are, only the replays know.
    let (data, _) = reported(dir, &["a.reprise", "n.reprise"]);
    let call = data["beside"]["rows"][1]["quantity"]["mean_response"].as_str().unwrap().to_owned();
    let mean = |of: usize| data["beside"]["rows"][1]["estimates"][of]["mean"].as_f64().unwrap();
    let means = [mean(0), mean(1)];
    let known = |pace: &str, of: usize, u_c: f64| {
        json!({
            "instrument": format!("{} {pace} {}", text("order"), text("io")), "workload": "random-write", "level": 1,
            "pause_us": 0, "caches": "warm", "file_system": text("filesystem"), "call": &call, "device": "d",
            "program": "micro", "runs": 10, "reference_ns": means[of], "measured_ns": means[of], "u_c": u_c, "degrees": 9.0,
            "bias": 0.0, "when_ns": 0,
        })
    };
    let machine =
        format!("{} {}", manifest["host"]["name"].as_str().unwrap(), manifest["host"]["kernel"].as_str().unwrap());
    fs::create_dir_all(dir.join("state/reprise")).unwrap();
    for u_c in [1e-9, 100.0] {
        let kept = json!({"version": 2, "machines": {&machine: [known("afap", 0, u_c), known("natural", 1, u_c)]}});
        fs::write(dir.join("state/reprise/validation.json"), kept.to_string()).unwrap();
        let (data, _) = reported(dir, &["a.reprise", "n.reprise"]);
        let rows = data["beside"]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["quantity"]["mean_response"] == call.as_str()).unwrap();
        let means = [0, 1].map(|i| row["estimates"][i]["mean"].as_f64().unwrap());
        near(&row["estimates"][1]["expanded"], 2.0 * u_c * means[1]);
        assert_eq!(row["estimates"][0]["source"], "validation");
        let pair = &row["by_validation"][0];
        near(&pair["relative"], means[1] / means[0] - 1.0);
        assert_eq!(pair["is_real"], u_c < 1.0, "{pair}");
        // Of other calls, and of elapsed times, it says nothing.
        assert_eq!(rows[0]["estimates"][0]["source"], "nothing");
    }
    // A file that cannot be read is told, and the report is made.
    fs::write(dir.join("state/reprise/validation.json"), "{").unwrap();
    let (data, _) = reported(dir, &["a.reprise", "n.reprise"]);
    assert!(data["beside"]["rows"].as_array().unwrap().iter().all(|row| row["by_validation"] == json!([])));
}

/// The space in use on a file system of its own, before and after what a program leaves there.
#[test]
fn space_on_the_target_is_sampled() {
    const NAME: &str = "space_on_the_target_is_sampled";
    let s = Scratch::new();
    let dir = s.path();
    let alone = match LoopFs::new(Kind::Ext4, 64 << 20) {
        Ok(alone) => alone,
        Err(why) => return skip(NAME, &why),
    };
    record(dir, "t.reprise", "dd if=/dev/zero of=big bs=1M count=8 status=none; sync big");
    let target = mkdir(&alone.path(), "target");
    run(dir, &["replay", "-q", "--target", &target, "-o", "r.reprise", "t.reprise"]).ends(0);
    let (data, _) = reported(dir, &["r.reprise"]);
    let space = data["sides"][1]["space"].as_array().unwrap();
    let used: Vec<u64> = space.iter().map(|sample| sample["used_bytes"].as_u64().unwrap()).collect();
    assert!(used.len() >= 2, "{space:?}");
    let grown = used[used.len() - 1] - used[0];
    assert!((8 << 20..10 << 20).contains(&grown), "{grown} of {space:?}");
    assert!(data["sides"][0]["space"].as_array().unwrap().is_empty(), "the recording has no target");
}
