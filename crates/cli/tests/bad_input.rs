//! Bad input and bad circumstances, with the real command: each is an error that names its cause and the next step, has
//! its documented exit code, and leaves the target untouched or restorable.

mod means;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use means::{Said, copy, kill, mkdir, record, reprise, run, until};
use reprise_testkit::scratch::{Kind, LoopFs, Scratch, is_root};
use reprise_testkit::{program, skip};
use reprise_trace::{Action, DataPolicy, Host, Manifest, Name, Process, ThreadRow, TraceWriter, WriterOptions};

const TRACE: i32 = 3;
const VERSION: i32 = 4;
const TARGET: i32 = 5;
const INTERRUPTED: i32 = 7;

const SMALL: &str = "mkdir d; echo one > d/a; mv d/a d/b; ln -s b d/l; cat d/b > /dev/null";

fn small(dir: &Path) -> PathBuf {
    record(dir, "t.reprise", SMALL)
}

/// Everything that opens a trace says the same of it; the target stays empty.
#[track_caller]
fn refused(dir: &Path, trace: &str, code: i32, words: &[&str]) {
    let target = dir.join("untouched");
    fs::create_dir_all(&target).unwrap();
    let target_text = target.to_str().unwrap();
    for args in [
        vec!["info", "--check", trace],
        vec!["replay", trace, "--target", target_text],
        vec!["compile", trace, "-o", "refused.plan"],
    ] {
        run(dir, &args).fails(code, words);
    }
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "the target was touched");
}

fn flip(file: &Path, at: u64) {
    let file = fs::File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

fn part(trace: &Path, table: &str) -> PathBuf {
    fs::read_dir(trace.join(table)).unwrap().next().unwrap().unwrap().path()
}

/// A trace of processes that are there at the beginning: of each which others it shares directories and descriptors with.
/// One of them is made by an action of the first.
fn sharing(path: &Path, made: u32, shares: &[(Option<u32>, Option<u32>)]) {
    let manifest =
        Manifest::new(reprise_trace::Kind::Record, DataPolicy::Full, Vec::new(), "a".repeat(32), 0, Host::default());
    let mut writer = TraceWriter::create(path, manifest, WriterOptions::default()).unwrap();
    for (process, &(directories_of, descriptors_of)) in (0..).zip(shares) {
        let (root, ids) = (Name::from("/"), vec![0; 4]);
        let row =
            Process { process, pid: 9, uids: ids.clone(), gids: ids, cwd: root.clone(), root, ..Process::default() };
        writer.process(Process { directories_of, descriptors_of, ..row }).unwrap();
        let (parent, created_by) = (Some(0).filter(|_| process == made), Some(0).filter(|_| process == made));
        writer
            .thread(ThreadRow { thread: process, process, tid: 9, parent, created_by, ..ThreadRow::default() })
            .unwrap();
    }
    writer.action(Action { call: "fork".into(), result: 9, ..Action::default() }).unwrap();
    writer.close(None).unwrap();
}

#[test]
fn processes_that_share_what_none_can() {
    let s = Scratch::new();
    let dir = s.path();
    let (own, one) = ((None, None), |of: u32| (Some(of), None));
    sharing(&dir.join("good"), 4, &[own, one(0), (None, Some(1)), (Some(2), Some(2)), own]);
    run(dir, &["replay", "good", "--target", &mkdir(dir, "target"), "-q"]).ends(0);
    for (name, number) in [("self", 1), ("later", 2), ("none", 77), ("last", u32::MAX)] {
        sharing(&dir.join(name), 4, &[own, one(number), own, own, own]);
        refused(dir, name, TRACE, &["process 1 shares with one that is not earlier"]);
        sharing(&dir.join(format!("{name}-table")), 4, &[own, (None, Some(number)), own, own, own]);
        refused(dir, &format!("{name}-table"), TRACE, &["process 1 shares with one that is not earlier"]);
    }
    // Directories of 0 with 1 and of 2 with 3, descriptors of 0 with 2 and of 1 with 3.
    sharing(&dir.join("circle"), 4, &[own, one(0), (None, Some(0)), (Some(2), Some(1)), own]);
    run(dir, &["replay", "circle", "--target", "target", "-q"]).fails(TRACE, &["share as none can"]);
    run(dir, &["slice", "circle", "-o", "slice", "-q"]).fails(TRACE, &["share as none can"]);
    sharing(&dir.join("absent"), 1, &[own, own, (None, Some(1))]);
    run(dir, &["replay", "absent", "--target", "target", "-q"])
        .fails(TRACE, &["one that is not there at the beginning"]);
    // Of a process that an action starts the columns say nothing; nobody begins with what it has.
    sharing(&dir.join("made"), 2, &[own, own, one(1)]);
    run(dir, &["compile", "made", "-o", "made.plan"]).ends(0);
}

#[test]
fn what_is_no_trace() {
    let s = Scratch::new();
    let dir = s.path();
    mkdir(dir, "empty");
    fs::write(dir.join("file"), "text").unwrap();
    refused(dir, "nothing", TRACE, &["nothing", "no trace here", "reprise record"]);
    refused(dir, "empty", TRACE, &["empty", "not a trace", "give the directory"]);
    run(dir, &["info", "file"]).fails(TRACE, &["file", "not a trace", "give the directory"]);
    let target = mkdir(dir, "t");
    run(dir, &["replay", "file", "--target", &target]).fails(TRACE, &["file", "plan"]);
}

#[test]
fn flipped_bits() {
    let s = Scratch::new();
    let dir = s.path();
    let trace = small(dir);
    for table in ["actions", "blobs", "tree", "threads", "processes"] {
        let name = format!("flipped-{table}");
        copy(&trace, &dir.join(&name));
        let file = part(&dir.join(&name), table);
        flip(&file, fs::metadata(&file).unwrap().len() / 2);
        refused(dir, &name, TRACE, &[table, "damaged", "restore the file from a copy"]);
    }
    for file in ["catalog.jsonl", "manifest.json", "ledger.json"] {
        let name = format!("flipped-{file}");
        copy(&trace, &dir.join(&name));
        flip(&dir.join(&name).join(file), 0);
        refused(dir, &name, TRACE, &[file, "damaged", "restore the file from a copy"]);
    }
    // Anywhere in the catalog.
    let length = fs::metadata(trace.join("catalog.jsonl")).unwrap().len();
    for at in (0..length).step_by(37) {
        let copied = dir.join("anywhere");
        copy(&trace, &copied);
        flip(&copied.join("catalog.jsonl"), at);
        run(dir, &["info", "anywhere"]).fails(TRACE, &["catalog.jsonl", "damaged"]);
        fs::remove_dir_all(&copied).unwrap();
    }
    // The manifest is text for people too: a flip in a name may pass, but never ends in a crash.
    let length = fs::metadata(trace.join("manifest.json")).unwrap().len();
    for at in (0..length).step_by(5) {
        let copied = dir.join("anywhere");
        copy(&trace, &copied);
        flip(&copied.join("manifest.json"), at);
        let said = run(dir, &["info", "--check", "anywhere"]);
        let code = said.code.unwrap_or(-1);
        assert!([0, TRACE, VERSION].contains(&code), "{at}: {said:#?}");
        said.ends(code);
        fs::remove_dir_all(&copied).unwrap();
    }
}

#[test]
fn truncated() {
    let s = Scratch::new();
    let dir = s.path();
    let trace = small(dir);
    for table in ["actions", "blobs", "tree", "threads", "processes"] {
        let name = format!("short-{table}");
        copy(&trace, &dir.join(&name));
        let file = part(&dir.join(&name), table);
        let length = fs::metadata(&file).unwrap().len();
        fs::File::options().write(true).open(&file).unwrap().set_len(length - 20).unwrap();
        refused(dir, &name, TRACE, &[table, "damaged"]);
        fs::remove_file(&file).unwrap();
        refused(dir, &name, TRACE, &[table]);
    }
    for file in ["catalog.jsonl", "manifest.json", "ledger.json"] {
        // (An empty catalog is the next test's.)
        for keep in [1, 20] {
            let name = format!("short-{keep}-{file}");
            copy(&trace, &dir.join(&name));
            fs::File::options().write(true).open(dir.join(&name).join(file)).unwrap().set_len(keep).unwrap();
            refused(dir, &name, TRACE, &[file, "damaged"]);
        }
    }
}

/// A closed trace says how many parts it has: one that lost the end of its catalog is not a shorter program.
#[test]
fn a_catalog_cut_between_lines() {
    let s = Scratch::new();
    let dir = s.path();
    let trace = small(dir);
    let catalog = fs::read_to_string(trace.join("catalog.jsonl")).unwrap();
    let lines: Vec<&str> = catalog.split_inclusive('\n').collect();
    for keep in [0, 1, lines.len() - 1] {
        fs::write(trace.join("catalog.jsonl"), lines[..keep].concat()).unwrap();
        refused(dir, "t.reprise", TRACE, &["catalog.jsonl", "damaged"]);
    }
}

#[test]
fn other_versions() {
    let s = Scratch::new();
    let dir = s.path();
    let trace = small(dir);
    let manifest = fs::read_to_string(trace.join("manifest.json")).unwrap();
    for (major, words) in [(2, ["newer than", "install a newer"]), (0, ["older than", "record it again"])] {
        fs::write(trace.join("manifest.json"), manifest.replace("\"major\": 1", &format!("\"major\": {major}")))
            .unwrap();
        refused(dir, "t.reprise", VERSION, &words);
    }
    // A newer minor version may say more than is known here: a result of it is read.
    let newer = manifest.replace("\"minor\": ", "\"added_later\": {\"x\": [1]}, \"minor\": 9");
    assert_ne!(newer, manifest);
    fs::write(trace.join("manifest.json"), newer).unwrap();
    let said = run(dir, &["info", "--json", "t.reprise"]);
    assert!(said.ends(0).json()["actions"].as_u64().is_some_and(|n| n > 0), "{said:#?}");
    run(dir, &["report", "t.reprise", "-o", "newer.html"]).ends(0);
    // A version that this program cannot even parse is still a version.
    let future = r#"{"format": "reprise", "major": 9, "minor": 3, "entirely": {"different": true}}"#;
    fs::write(trace.join("manifest.json"), future).unwrap();
    refused(dir, "t.reprise", VERSION, &["9.3", "newer"]);
}

#[test]
fn unsuitable_targets() {
    let s = Scratch::new();
    let dir = s.path();
    small(dir);
    let replay = |target: &str| run(dir, &["replay", "t.reprise", "--target", target]);
    replay("nowhere").fails(TARGET, &["nowhere", "does not exist", "mkdir -p"]);
    replay("t.reprise/manifest.json").fails(TARGET, &["not a directory", "choose"]);
    let full = mkdir(dir, "full");
    fs::write(dir.join("full/mine"), "precious").unwrap();
    replay(&full).fails(TARGET, &["not empty", "mine", "choose"]);
    assert_eq!(fs::read(dir.join("full/mine")).unwrap(), b"precious");
    let taken = mkdir(dir, "taken");
    replay(&taken).ends(0);
    record(dir, "other.reprise", "echo other > x");
    let before = fs::read_dir(&taken).unwrap().count();
    run(dir, &["replay", "other.reprise", "--target", &taken]).fails(TARGET, &["another trace", "empty"]);
    assert_eq!(fs::read_dir(&taken).unwrap().count(), before);
    replay(&taken).ends(0);
}

fn loop_fs(name: &str, bytes: u64) -> Option<LoopFs> {
    if !is_root() {
        skip(name, "loop devices need root");
        return None;
    }
    LoopFs::new(Kind::Ext4, bytes).map_err(|why| skip(name, &why)).ok()
}

#[test]
fn a_full_disk() {
    let Some(fs8) = loop_fs("a_full_disk", 8 << 20) else { return };
    let s = Scratch::new();
    let dir = s.path();
    // The initial tree does not fit.
    fs::write(dir.join("big"), noise(12 << 20)).unwrap();
    record(dir, "tree.reprise", "cat big > /dev/null");
    let target = mkdir(&fs8.path(), "a");
    for _ in 0..2 {
        let replay = run(dir, &["replay", "tree.reprise", "--target", &target]);
        replay.fails(TARGET, &["no space left", "choose a larger target"]);
    }
    fs::remove_dir_all(&target).unwrap();
    // What the program writes does not fit.
    record(
        dir,
        "write.reprise",
        "echo small > s; i=0; while [ $i -lt 12 ]; do head -c 1000000 big >> w; i=$((i+1)); done",
    );
    let target = mkdir(&fs8.path(), "b");
    // The initial tree knows `big` only as far as it was read.
    for _ in 0..2 {
        let replay = run(dir, &["replay", "write.reprise", "--target", &target]);
        replay.fails(TARGET, &["full", "ENOSPC", "more room"]);
    }
    // The same target is no obstacle to a smaller trace elsewhere, and none to the same trace with more room.
    copy(Path::new(&target), &dir.join("b"));
    run(dir, &["replay", "write.reprise", "--target", "b"]).ends(0);
    run(dir, &["verify", "--tree", "write.reprise", "b"]).ends(0);
}

#[test]
fn a_read_only_target() {
    let Some(fs8) = loop_fs("a_read_only_target", 8 << 20) else { return };
    let s = Scratch::new();
    let dir = s.path();
    small(dir);
    let target = mkdir(&fs8.path(), "a");
    let replay = || run(dir, &["replay", "t.reprise", "--target", &target]);
    fs8.remount("ro").unwrap();
    replay().fails(TARGET, &["read-only", "remount"]);
    fs8.remount("rw").unwrap();
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    replay().ends(0);
    fs8.remount("ro").unwrap();
    replay().fails(TARGET, &["read-only", "remount"]);
    fs8.remount("rw").unwrap();
    replay().ends(0);
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..length / 8).flat_map(|_| next().to_le_bytes()).collect()
}

/// A replay that is hit in its middle by a signal; the same directory then takes a whole one.
fn hit(signal: i32, check: impl Fn(&Said)) {
    let s = Scratch::new();
    let dir = s.path();
    let work = mkdir(dir, "w");
    fs::write(dir.join("w/first"), "was there before").unwrap();
    let script = "cd w; mv first second; dd if=/dev/zero of=slow bs=4096 count=1500 oflag=dsync status=none; rm second; \
                  echo end > last";
    record(dir, "t.reprise", script);
    let target = mkdir(dir, "target");
    let inner = dir.join(format!("target{work}"));
    let mut command = reprise(dir, &["replay", "t.reprise", "--target", &target]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let slow = inner.join("slow");
    let size = || fs::metadata(&slow).map_or(0, |m| m.len());
    until("the replay writes", || size() > 40_960);
    kill(child.id(), signal);
    let said = Said::new(format!("{command:?}"), child.wait_with_output().unwrap());
    check(&said);
    // Nothing goes on behind the user's back.
    std::thread::sleep(Duration::from_millis(100));
    let then = size();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(size(), then, "something still replays");
    assert!(then < 1500 * 4096, "the signal came too late to mean anything");
    run(dir, &["replay", "t.reprise", "--target", &target]).ends(0);
    run(dir, &["verify", "--tree", "t.reprise", &target]).ends(0);
    assert_eq!(fs::read(inner.join("last")).unwrap(), b"end\n");
    assert!(!inner.join("first").exists());
}

#[test]
fn an_interrupted_replay() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        hit(signal, |said| {
            said.fails(INTERRUPTED, &["interrupted", "next replay", "restores"]);
        });
    }
}

/// Ctrl-C while a plan is being made: nothing stays behind, in the target or elsewhere.
#[test]
fn an_interrupted_compilation() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, "t.reprise", "dd if=/dev/zero of=big bs=512 count=60000 status=none");
    let target = mkdir(dir, "target");
    mkdir(dir, "tmp");
    for args in [vec!["replay", "t.reprise", "--target", &target], vec!["compile", "t.reprise", "-o", "tmp/plan"]] {
        let mut command = reprise(dir, &args);
        command.env("TMPDIR", dir.join("tmp")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        until("it compiles", || fs::read_dir(dir.join("tmp")).unwrap().next().is_some());
        kill(child.id(), libc::SIGINT);
        let said = Said::new(format!("{command:?}"), child.wait_with_output().unwrap());
        said.fails(INTERRUPTED, &["interrupted"]);
        assert_eq!(fs::read_dir(dir.join("tmp")).unwrap().count(), 0, "{said:#?}");
    }
}

/// Ctrl-C while the initial tree is being built ends it soon, and the next replay builds it whole.
#[test]
fn an_interrupted_preparation() {
    let s = Scratch::new();
    let dir = s.path();
    mkdir(dir, "tree");
    for n in 0..200 {
        fs::write(dir.join(format!("tree/{n}")), noise(1 << 20)).unwrap();
    }
    run(dir, &["record", "-q", "-o", "t.reprise", "--tree", "tree", "--", "touch", "tree/after"]).ends(0);
    run(dir, &["compile", "t.reprise", "-o", "plan"]).ends(0);
    let target = mkdir(dir, "target");
    let inner = dir.join(format!("target{}/tree", dir.display()));
    let mut command = reprise(dir, &["replay", "plan", "--target", &target]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the tree grows", || fs::read_dir(&inner).is_ok_and(|d| d.count() > 3));
    kill(child.id(), libc::SIGINT);
    let said = Said::new(format!("{command:?}"), child.wait_with_output().unwrap());
    said.fails(INTERRUPTED, &["interrupted", "next replay"]);
    assert!(!inner.join("after").exists());
    run(dir, &["replay", "plan", "--target", &target]).ends(0);
    program::succeed(std::process::Command::new("diff").arg("-r").arg(dir.join("tree")).arg(&inner));
}

#[test]
fn a_killed_replay() {
    hit(libc::SIGKILL, |said| assert_eq!(said.signal, Some(libc::SIGKILL), "{said:#?}"));
}

#[test]
fn outputs_that_cannot_be() {
    let s = Scratch::new();
    let dir = s.path();
    small(dir);
    let target = mkdir(dir, "t");
    run(dir, &["record", "-o", "t.reprise", "--", "touch", "ran"]).fails(2, &["exists already", "-o"]);
    assert!(!dir.join("ran").exists(), "the program ran nevertheless");
    run(dir, &["record", "-o", "/proc/no/such", "--", "touch", "ran"])
        .fails(125, &["/proc/no", "choose another place"]);
    assert!(!dir.join("ran").exists(), "the program ran nevertheless");
    run(dir, &["record", "--tree", "nowhere", "--", "touch", "ran"]).fails(2, &["nowhere", "--tree"]);
    assert!(!dir.join("ran").exists() && !dir.join("touch.reprise").exists());
    let replay = |output: &str| run(dir, &["replay", "t.reprise", "--target", &target, "-o", output]);
    replay("t.reprise").fails(2, &["exists already"]);
    replay("/proc/no/such").fails(8, &["/proc/no"]);
    assert_eq!(
        fs::read_dir(&target).unwrap().count(),
        0,
        "the target was touched before the output was known to be bad"
    );
    run(dir, &["compile", "t.reprise", "-o", "no/such/plan"]).fails(8, &["no/such/plan"]);
    run(dir, &["verify", "t.reprise", "t.reprise"]).fails(2, &["replay"]);
    run(dir, &["verify", "--tree", "t.reprise", "nowhere"]).fails(TARGET, &["nowhere"]);
}

#[test]
fn damaged_plans() {
    let s = Scratch::new();
    let dir = s.path();
    small(dir);
    run(dir, &["compile", "t.reprise", "-o", "plan"]).ends(0);
    let target = mkdir(dir, "t");
    let good = fs::read(dir.join("plan")).unwrap();
    let replay = || run(dir, &["replay", "damaged.plan", "--target", &target]);
    for at in [0, 8, 17, 25, 40, good.len() - 1, good.len() - 200] {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(dir.join("damaged.plan"), bad).unwrap();
        replay().fails(TRACE, &["damaged.plan"]);
    }
    for length in [0, 5, 40, 4096, good.len() / 2, good.len() - 1] {
        fs::write(dir.join("damaged.plan"), &good[..length.min(good.len() - 1)]).unwrap();
        replay().fails(TRACE, &["damaged.plan"]);
    }
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "the target was touched");
    run(dir, &["replay", "plan", "--target", &target]).ends(0);
    run(dir, &["replay", "plan", "--target", &target, "-o", "r.reprise"]).fails(2, &["plan", "-o"]);
}

#[test]
fn a_killed_recorder() {
    let s = Scratch::new();
    let dir = s.path();
    let script = "echo early > early; echo $$ > pid; sleep 4; echo on > on; sleep 60; echo late > late";
    let mut command = reprise(dir, &["record", "--backend", "ptrace", "-o", "t.reprise", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("a flush", || fs::read_dir(dir.join("t.reprise/actions")).is_ok_and(|mut d| d.next().is_some()));
    std::thread::sleep(Duration::from_millis(300));
    kill(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    let pid = fs::read_to_string(dir.join("pid")).unwrap();
    until("the program ends with its recorder", || !Path::new("/proc").join(pid.trim()).exists());
    let info = run(dir, &["info", "--check", "t.reprise"]);
    info.ends(0);
    assert!(info.out.contains("not closed in order"), "{info:#?}");
    assert_eq!(run(dir, &["info", "--json", "t.reprise"]).json()["complete"], false);
    let target = mkdir(dir, "t");
    let replay = run(dir, &["replay", "t.reprise", "--target", &target]);
    replay.ends(0);
    assert!(replay.out.contains("not closed"), "{replay:#?}");
    let early = dir.join(format!("t{}/early", dir.display()));
    assert_eq!(fs::read(early).unwrap(), b"early\n");
    // What the last flush did not finish is no obstacle.
    let catalog = dir.join("t.reprise/catalog.jsonl");
    let mut text = fs::read_to_string(&catalog).unwrap();
    text.push_str("{\"file\": \"acti");
    fs::write(&catalog, text).unwrap();
    run(dir, &["replay", "t.reprise", "--target", &target]).ends(0);
}

/// A program under the recorder needs the recorder until its end: a full disk must not take it away.
#[test]
fn a_full_disk_under_the_trace() {
    let Some(fs8) = loop_fs("a_full_disk_under_the_trace", 8 << 20) else { return };
    let s = Scratch::new();
    let dir = s.path();
    fs::write(dir.join("big"), noise(24 << 20)).unwrap();
    let trace = fs8.path().join("t.reprise");
    let trace = trace.to_str().unwrap();
    let script = "echo first > first; sleep 3; cp big copy; sleep 1; (sleep 1; echo child > child) & wait; exit 9";
    let said = run(dir, &["record", "--backend", "ptrace", "-o", trace, "--", "sh", "-c", script]);
    said.fails(125, &["No space left", "exit code 9", "make room", "the program goes on"]);
    program::succeed(std::process::Command::new("cmp").args(["big", "copy"]).current_dir(dir));
    assert_eq!(fs::read(dir.join("child")).unwrap(), b"child\n");
    let info = run(dir, &["info", "--check", trace]);
    info.ends(0);
    assert!(info.out.contains("not closed in order"), "{info:#?}");
    assert!(info.out.contains("came after what could be written"), "{info:#?}");
    let actions = run(dir, &["cat", trace, "--path", "first"]);
    assert!(actions.ends(0).out.contains("first"), "{actions:#?}");
    let target = mkdir(dir, "t");
    run(dir, &["replay", trace, "--target", &target]).ends(0);
    // No room at all.
    program::run(
        std::process::Command::new("dd")
            .args(["if=/dev/zero", "bs=1k"])
            .arg(format!("of={}/fill", fs8.path().display())),
    );
    let trace = fs8.path().join("u.reprise");
    let said = run(dir, &["record", "-o", trace.to_str().unwrap(), "--", "touch", "ran"]);
    said.fails(125, &["No space left", "-o"]);
}

/// A limit on file sizes is met like a full disk.
#[test]
fn a_limit_on_file_sizes() {
    let s = Scratch::new();
    let dir = s.path();
    fs::write(dir.join("big"), noise(1 << 20)).unwrap();
    let binary = program::reprise().unwrap();
    let script = format!(
        "ulimit -f 400; {} record --json --backend ptrace -o t.reprise -- sh -c 'sha256sum big; exit 3'",
        binary.display()
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(dir);
    let said = Said::new(script.clone(), program::run(&mut command));
    said.fails(125, &["File too large", "exit code 3"]);
    assert!(said.out.contains("big"), "{said:#?}");
    // The summary is there all the same, and counts what is not in the trace; so does the trace.
    let summary: serde_json::Value = said.err.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap();
    assert!(summary["error"].as_str().unwrap().contains("File too large"), "{summary}");
    let cat = run(dir, &["cat", "t.reprise"]).ends(0).out.lines().count() as u64;
    let dropped = |ledger: &serde_json::Value| {
        let causes = ledger["losses"]["dropped"].as_object().unwrap_or_else(|| panic!("{ledger}")).values();
        causes.map(|entry| entry["count"].as_u64().unwrap()).sum::<u64>()
    };
    assert!(dropped(&summary["ledger"]) > 0 && summary["actions"].as_u64() <= Some(cat), "{summary}");
    let info = run(dir, &["info", "--json", "t.reprise"]).json();
    assert_eq!(dropped(&info["ledger"]), dropped(&summary["ledger"]));
}

/// Where a trace was moved to, or that it was removed, nobody tells the recorder.
#[test]
fn a_trace_that_is_removed_meanwhile() {
    let s = Scratch::new();
    let dir = s.path();
    let said =
        run(dir, &["record", "--backend", "ptrace", "-o", "t.reprise", "--", "sh", "-c", "rm -r t.reprise; exit 3"]);
    said.fails(125, &["exit code 3", "moved or removed"]);
    assert!(!said.err.contains("the trace holds"), "{said:#?}");
}
