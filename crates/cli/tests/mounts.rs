//! File systems that the recorded program mounts: files that they hold already, the same one mounted twice, and layers; directories
//! that it binds by descriptors, as `reprise replay` itself does.

mod means;

use std::path::{Path, PathBuf};
use std::process::Command;

use means::{has, in_kernel, mkdir, run};
use reprise_testkit::program;
use reprise_testkit::scratch::{Scratch, is_root};
use reprise_testkit::{skip, tree};
use reprise_trace::{Loss, TraceReader};

const PREPARED: &str = "
truncate -s 8M img; mkdir pre pre/d mnt low up work all
echo preexisting > pre/f; echo deep > pre/d/g; ln -s d/g pre/l; echo two > pre/h; ln pre/h pre/same
mkfs.ext4 -q -F -d pre img; rm -r pre
echo lower > low/a; echo removed > low/b
";

const MOUNTS: &str = "
mount -o loop img mnt
cat mnt/f mnt/l mnt/h > seen; stat -c '%h %s %F' mnt/h mnt/same >> seen; echo more >> mnt/same; cat mnt/h >> seen
echo changed > mnt/f; mkdir mnt/new; echo n > mnt/new/x; mv mnt/d/g mnt/new/g; ls -l mnt > /dev/null
cp mnt/new/g out
umount mnt
ls mnt >> seen
mount -o loop img mnt
cat mnt/f mnt/new/g mnt/new/x >> seen; test -e mnt/d/g || echo moved >> seen
echo more >> mnt/new/x; rm -r mnt/d
umount mnt
mount -t overlay -o lowerdir=low,upperdir=up,workdir=work none all
cat all/a all/b >> seen; echo over > all/a; rm all/b; echo fresh > all/c; ls all >> seen
umount all
mount -t tmpfs -o mode=700 none all; echo t > all/t; cat all/t >> seen; stat -c %a all >> seen; umount all
";

/// Those that this machine has.
fn backends() -> &'static [&'static str] {
    match in_kernel("programs that mount", Scratch::new().path()) {
        true => &["ebpf", "ptrace"],
        false => &["ptrace"],
    }
}

/// What is in a place of a tree.
fn text(place: &Path) -> String {
    std::fs::read_to_string(place).unwrap_or_else(|e| panic!("{}: {e}", place.display()))
}

#[test]
fn what_is_mounted_holds_what_it_held_and_is_written_to() {
    if !is_root() || !["mkfs.ext4", "losetup"].into_iter().all(has) {
        return skip("programs that mount images", "root, mkfs.ext4 and losetup are needed");
    }
    for backend in backends() {
        let scratch = Scratch::new();
        let (dir, work) = (scratch.path(), mkdir(scratch.path(), "w"));
        let shell =
            |script: &str| Command::new("sh").args(["-ec", script]).current_dir(&work).status().unwrap().success();
        if !shell(PREPARED) || !shell("mount -o loop img mnt && umount mnt") {
            return skip("programs that mount images", "images cannot be mounted here");
        }
        // Files of the beginning are older than the beginning.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let script = format!("cd {work}; set -e; {MOUNTS}");
        run(dir, &["record", "-q", "--backend", backend, "--tree", &work, "-o", "t", "--", "sh", "-c", &script])
            .ends(0);
        let ledger = TraceReader::open(&dir.join("t")).unwrap().ledger().clone();
        assert_eq!(ledger.total(Loss::Dropped), 0, "{backend}: {ledger:?}");
        let target = dir.join(mkdir(dir, "target"));
        let result = run(dir, &["replay", "t", "-t", "target", "-q", "--json"]).json();
        assert_eq!(result["diverged"], 0, "{backend}: {:#}", result["divergences"]);
        run(dir, &["verify", "--tree", "t", "target"]).ends(0);
        let here = Path::new(&work);
        let there = target.join(here.strip_prefix("/").unwrap());
        // These the kernel writes to by itself.
        program::succeed(
            Command::new("rm")
                .args(["-rf"])
                .args([here, &there].into_iter().flat_map(|root| ["img", "up", "work"].map(|name| root.join(name)))),
        );
        let differences = tree::differences(&tree::walk(here), &tree::walk(&there));
        assert!(differences.is_empty(), "{backend}: {differences:#?}");
        let stands = |number: u32, path: &str| text(&target.join(format!(".reprise-mounted-{number}")).join(path));
        assert_eq!([stands(1, "f"), stands(1, "h"), stands(1, "new/g")], ["changed\n", "two\nmore\n", "deep\n"]);
        assert_eq!((stands(2, "f"), stands(2, "new/x")), ("changed\n".into(), "n\nmore\n".into()), "{backend}");
        assert_eq!((stands(3, "a"), stands(3, "c"), stands(4, "t")), ("over\n".into(), "fresh\n".into(), "t\n".into()));
    }
}

/// A directory for the program that binds by descriptors, with what it finds there.
fn with_old(dir: &Path, name: &str) -> String {
    let work = mkdir(dir, name);
    std::fs::create_dir_all(dir.join(name).join("old/d")).unwrap();
    for (path, text) in [("old/given", "first"), ("old/d/given", "second")] {
        std::fs::write(dir.join(name).join(path), text).unwrap();
    }
    // Files of the beginning are older than the beginning.
    std::thread::sleep(std::time::Duration::from_millis(50));
    work
}

/// The program that binds by descriptors, built; none where it cannot run.
fn trees(dir: &Path) -> Option<PathBuf> {
    let binary = program::built("trees", dir);
    let trial = Command::new(&binary).arg(with_old(dir, "trial")).status().unwrap().success();
    if !trial {
        skip("programs that bind by descriptors", "open_tree or move_mount is not permitted here");
    }
    (is_root() && trial).then_some(binary)
}

/// Replays a trace whole, without divergence, and to the tree that its program left in `work`; the target.
#[track_caller]
fn replays_to(dir: &Path, trace: &str, target: &str, work: &str) -> PathBuf {
    let place = PathBuf::from(mkdir(dir, target));
    let result = run(dir, &["replay", trace, "-t", target, "-q", "--json"]).json();
    assert_eq!(result["diverged"], 0, "{trace}: {:#}", result["divergences"]);
    run(dir, &["verify", "--tree", trace, target]).ends(0);
    let there = place.join(work.strip_prefix('/').unwrap());
    let differences = tree::differences(&tree::walk(Path::new(work)), &tree::walk(&there));
    assert!(differences.is_empty(), "{trace}: {differences:#?}");
    place
}

/// `tests/programs/trees.c`: copies of trees and places that descriptors stand for, before, while and after they are mounted.
#[test]
fn what_descriptors_bind_is_replayed_where_it_is_otherwise() {
    let scratch = Scratch::new();
    let Some(binary) = trees(scratch.path()) else { return };
    for backend in backends() {
        let scratch = Scratch::new();
        let (dir, work) = (scratch.path(), with_old(scratch.path(), "w"));
        let program = binary.to_str().unwrap();
        run(dir, &["record", "-q", "--backend", backend, "-o", "t", "--", program, &work]).ends(0);
        let ledger = TraceReader::open(&dir.join("t")).unwrap().ledger().clone();
        assert_eq!(ledger.total(Loss::Dropped), 0, "{backend}: {ledger:?}");
        let target = replays_to(dir, "t", "target", &work);
        let in_memory = ["before", "after", "by path"].map(|name| text(&target.join(".reprise-mounted-1").join(name)));
        assert_eq!(in_memory, ["not mounted", "mounted", "mounted"], "{backend}");
        // Behind a cut, too: a copy that is not mounted yet is a descriptor of the beginning there.
        let attaches = |action: &reprise_trace::Action| action.call == "move_mount";
        let mut actions = TraceReader::open(&dir.join("t")).unwrap().actions().map(Result::unwrap);
        let first = actions.find(attaches).expect("a copy that is mounted").seq;
        for (name, from) in [("all", 1), ("unmounted", first)] {
            run(dir, &["slice", "t", "-o", name, "--from", &format!("action:{from}"), "-q"]).ends(0);
            replays_to(dir, name, &format!("{name}-target"), &work);
        }
    }
}

/// `tests/programs/idmap.c`: who owns what below a mount with users of its own is neither compared nor given; the trace says so, and the
/// replay.
#[test]
fn owners_below_a_mount_with_users_of_its_own() {
    const SCRIPT: &str = "./idmap a b && stat b/old && chown 10007:10008 b/old && stat b/old b && umount b";
    for backend in backends() {
        let scratch = Scratch::new();
        let dir = scratch.path();
        program::built("idmap", dir);
        let program = ["unshare", "-m", "sh", "-c", SCRIPT];
        let prepare = || {
            ["a", "b"].iter().for_each(|name| drop(mkdir(dir, name)));
            std::fs::write(dir.join("a/old"), "old").unwrap();
        };
        prepare();
        let trial = Command::new(program[0]).args(&program[1..]).current_dir(dir).output().unwrap().status;
        if !is_root() || !trial.success() {
            return skip("mounts with users of their own", "root and a file system that knows them are needed");
        }
        ["a", "b"].iter().for_each(|name| std::fs::remove_dir_all(dir.join(name)).unwrap());
        prepare();
        std::thread::sleep(std::time::Duration::from_millis(50));
        run(dir, &[&["record", "-q", "--backend", backend, "-o", "t", "--"][..], &program].concat()).ends(0);
        let ledger = TraceReader::open(&dir.join("t")).unwrap().ledger().clone();
        assert_eq!(ledger.total(Loss::Unsupported), 1, "{backend}: {ledger:?}");
        mkdir(dir, "target");
        let result = run(dir, &["replay", "t", "-t", "target", "-q", "--json"]).json();
        assert_eq!(result["diverged"], 0, "{backend}: {:#}", result["divergences"]);
        assert!(result["surprises"].to_string().contains("users of its own"), "{backend}: {result:#}");
        run(dir, &["verify", "--tree", "t", "target"]).ends(0);
    }
}

/// A replay makes the target its root by the same calls: its own recording has it there.
#[test]
fn the_recording_of_a_replay_replays_to_an_equal_tree() {
    if !is_root() {
        return skip("replays of replays", "root is needed");
    }
    const SCRIPT: &str = "cd w; mkdir sub; echo one > sub/f; cat sub/f > g; echo two > /dev/null";
    for backend in backends() {
        let scratch = Scratch::new();
        let dir = scratch.path();
        mkdir(dir, "w");
        means::record(dir, "first", SCRIPT);
        let there = mkdir(dir, "there");
        let binary = program::reprise().unwrap();
        let replay = [binary.to_str().unwrap(), "replay", "-q", "first", "-t", "there"];
        run(dir, &[&["record", "-q", "--backend", backend, "-o", "second", "--"][..], &replay].concat()).ends(0);
        let target = mkdir(dir, "target");
        let result = run(dir, &["replay", "second", "-t", "target", "-q", "--json"]).json();
        assert_eq!(result["diverged"], 0, "{backend}: {:#}", result["divergences"]);
        run(dir, &["verify", "--tree", "second", "target"]).ends(0);
        let again = Path::new(&target).join(there.strip_prefix('/').unwrap());
        let differences = tree::differences(&tree::walk(Path::new(&there)), &tree::walk(&again));
        assert!(differences.is_empty(), "{backend}: {differences:#?}");
        assert_eq!(text(&again.join(dir.strip_prefix("/").unwrap()).join("w/g")), "one\n", "{backend}");
    }
}
