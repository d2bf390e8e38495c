//! The house is as `docs/ARCHITECTURE.md` draws it: allowed edges between crates, size of files, place of `unsafe`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

type Edges = BTreeMap<String, BTreeSet<String>>;

fn documented() -> Edges {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let table = text.split("| crate | depends on |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|l| l.starts_with('|'));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let needs = cells[1].split(',').map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect();
        (cells[0].to_owned(), needs)
    })
    .collect()
}

fn actual() -> Edges {
    let short = |name: &str| {
        if name == "reprise" { "cli".to_owned() } else { name.replace("reprise-", "") }
    };
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| {
            let needs = package["dependencies"].as_array().unwrap().iter();
            let needs = needs.filter(|d| d["kind"].is_null()).map(|d| d["name"].as_str().unwrap());
            let needs = needs.filter(|n| n.starts_with("reprise")).map(short).collect();
            (short(package["name"].as_str().unwrap()), needs)
        })
        .collect()
}

#[test]
fn edges_between_crates_are_the_documented_ones() {
    let documented = documented();
    for (name, needs) in actual() {
        let allowed = documented.get(&name).unwrap_or_else(|| panic!("{name} is not in the table"));
        let extra: Vec<_> = needs.difference(allowed).collect();
        assert!(extra.is_empty(), "{name} depends on {extra:?}, which docs/ARCHITECTURE.md does not allow");
    }
}

fn sources(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap().flatten() {
        if entry.path().join("src").exists() {
            sources(&entry.path().join("src"), &mut out);
        }
    }
    out
}

#[test]
fn files_are_small() {
    for path in all_sources() {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 800, "{} has {lines} lines", path.display());
    }
}

#[test]
fn files_begin_by_saying_what_they_are() {
    for path in all_sources() {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!"), "{} has no head", path.display());
    }
}

#[test]
fn unsafe_lives_in_its_rooms() {
    const ROOMS: [&str; 7] = [
        "capture/src/sys",
        "replay/src/sys",
        "replay/src/engine/issue",
        "replay/src/engine/memory",
        "replay/src/engine/ring",
        "testkit/src",
        // Reads the time-stamp counter, and nothing else.
        "workload/src/clock",
    ];
    for path in all_sources() {
        let text = fs::read_to_string(&path).unwrap();
        let uses = text.lines().any(|l| {
            let code = l.trim_start();
            !code.starts_with("//") && (code.contains("unsafe {") || code.contains("unsafe fn"))
        });
        let allowed = ROOMS.iter().any(|room| path.to_string_lossy().contains(room));
        assert!(!uses || allowed, "{} is unsafe outside the rooms for it", path.display());
    }
}
