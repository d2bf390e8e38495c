//! The testkit itself. That the package has an integration test also makes cargo build its program `oracle-case`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use reprise_testkit::scratch::{Kind, LoopFs, Scratch};
use reprise_testkit::{skip, tree};

#[test]
fn file_systems_are_mounted_and_go_away() {
    let mut missing = Vec::new();
    for kind in Kind::ALL {
        let fs = match LoopFs::new(kind, kind.least_bytes()) {
            Ok(fs) => fs,
            Err(why) => {
                missing.push(format!("{kind}: {why}"));
                continue;
            }
        };
        let path = fs.path();
        fs::write(path.join("x"), "x").unwrap();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let line = format!(" {} {kind} ", path.display());
        assert!(mounts.contains(&line), "{mounts}");
        fs.remount("ro").unwrap();
        assert!(fs::write(path.join("y"), "y").is_err());
        drop(fs);
        assert!(!path.exists(), "{}", path.display());
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(&line), "{mounts}");
    }
    if !missing.is_empty() {
        skip("file_systems_are_mounted_and_go_away", &missing.join("; "));
    }
}

#[test]
fn every_difference_of_trees_is_seen() {
    let make = || {
        let dir = Scratch::new();
        fs::write(dir.path().join("a"), "content").unwrap();
        fs::hard_link(dir.path().join("a"), dir.path().join("b")).unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        symlink("a", dir.path().join("l")).unwrap();
        dir
    };
    let original = make();
    let expected = tree::walk(original.path());
    type Damage = (&'static str, fn(&std::path::Path));
    let damages: [Damage; 6] = [
        ("content", |d| fs::write(d.join("a"), "cOntent").unwrap()),
        ("missing", |d| fs::remove_dir(d.join("d")).unwrap()),
        ("not expected", |d| fs::write(d.join("new"), "").unwrap()),
        ("mode", |d| {
            let mode = fs::Permissions::from_mode(0o711);
            fs::set_permissions(d.join("d"), mode).unwrap();
        }),
        ("hard link", |d| {
            fs::remove_file(d.join("b")).unwrap();
            fs::write(d.join("b"), "content").unwrap();
        }),
        ("content", |d| {
            fs::remove_file(d.join("l")).unwrap();
            symlink("b", d.join("l")).unwrap();
        }),
    ];
    assert_eq!(tree::differences(&expected, &tree::walk(make().path())), [""; 0]);
    for (word, damage) in damages {
        let copy = make();
        damage(copy.path());
        let found = tree::differences(&expected, &tree::walk(copy.path()));
        assert!(found.iter().any(|f| f.contains(word)), "{word}: {found:?}");
    }
}
