//! Several traces replayed at once, in one tree and side by side.

mod means;

use means::{has, mkdir, record, run};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::skip;

const SQL: &str =
    "sqlite3 $1.db 'create table t(a,b); insert into t values(1,zeroblob(90000)); delete from t; vacuum;'";

#[test]
fn two_databases_in_one_tree_and_side_by_side() {
    if !has("sqlite3") {
        return skip("overlay of sqlite", "there is no sqlite3");
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    for name in ["a", "b"] {
        record(dir, &format!("{name}.reprise"), &SQL.replace("$1", name));
    }
    let (one, two) = (mkdir(dir, "one"), mkdir(dir, "two"));
    for (target, out, more) in [(&one, "r1", None), (&two, "r2", Some("--side-by-side"))] {
        let mut words = vec!["replay", "a.reprise", "b.reprise", "--target", target, "-o", out, "-q", "--json"];
        words.extend(more);
        let said = run(dir, &words).ends(0).json();
        for replay in said["replays"].as_array().expect("two replays") {
            assert_eq!(replay["diverged"], 0, "{said:#}");
            assert_eq!(replay["actions"], replay["planned"], "{said:#}");
        }
        for (number, name) in [(1, "a"), (2, "b")] {
            let (trace, result) = (format!("{name}.reprise"), format!("{out}/{number}.reprise"));
            run(dir, &["verify", &trace, &result]).ends(0);
        }
    }
    let place = dir.strip_prefix("/").unwrap();
    for (name, number) in [("a.db", "1"), ("b.db", "2")] {
        let wanted = std::fs::read(dir.join(name)).unwrap();
        assert!(std::fs::read(dir.join("one").join(place).join(name)).unwrap() == wanted, "{name} in one tree");
        let own = dir.join("two").join(number);
        assert!(std::fs::read(own.join(place).join(name)).unwrap() == wanted, "{name} side by side");
        run(dir, &["verify", "--tree", &format!("{}.reprise", &name[..1]), own.to_str().unwrap()]).ends(0);
    }
    // Again: the trees are restored.
    run(dir, &["replay", "a.reprise", "b.reprise", "--target", &one, "-q"]).ends(0);
    run(dir, &["replay", "a.reprise", "b.reprise", "--target", &two, "--side-by-side", "-q"]).ends(0);
    run(dir, &["replay", "a.reprise", "--target", &one, "-q"]).fails(5, &["another trace"]);
}

#[test]
fn plans_are_overlaid_too() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    for name in ["a", "b"] {
        record(dir, &format!("{name}.reprise"), &format!("echo {name} > {name}; cat {name}"));
        let (trace, plan) = (format!("{name}.reprise"), format!("{name}.plan"));
        run(dir, &["compile", &trace, "-o", &plan, "-q"]).ends(0);
    }
    let target = mkdir(dir, "t");
    run(dir, &["replay", "a.plan", "b.plan", "--target", &target, "-q"]).ends(0);
    run(dir, &["replay", "a.plan", "b.plan", "--target", &target, "-o", "r", "-q"]).fails(2, &["plan alone"]);
}

#[test]
fn interference_is_seen_and_conflicts_are_refused() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    record(dir, "file.reprise", "echo text > x; cat x");
    std::fs::remove_file(dir.join("x")).unwrap();
    // Both make the same file: one of the two finds it.
    record(dir, "exclusive.reprise", "set -C; echo text > x");
    std::fs::remove_file(dir.join("x")).unwrap();
    let target = mkdir(dir, "t");
    let said = run(dir, &["replay", "exclusive.reprise", "exclusive.reprise", "--target", &target, "-q", "--json"]);
    let diverged: u64 =
        said.ends(1).json()["replays"].as_array().unwrap().iter().map(|r| r["diverged"].as_u64().unwrap()).sum();
    assert!(diverged > 0);

    std::fs::create_dir(dir.join("y")).unwrap();
    record(dir, "directory.reprise", "ls y");
    std::fs::remove_dir(dir.join("y")).unwrap();
    std::fs::write(dir.join("y"), "text").unwrap();
    record(dir, "other.reprise", "cat y");
    let both = mkdir(dir, "both");
    let words = ["replay", "directory.reprise", "other.reprise", "--target", &both, "-q"];
    run(dir, &words).fails(2, &["/y is a directory in trace 1 and a file in trace 2", "--side-by-side"]);
    assert!(std::fs::read_dir(&both).unwrap().next().is_none(), "nothing was built");
    run(dir, &[&words[..], &["--side-by-side"]].concat()).ends(0);
}
