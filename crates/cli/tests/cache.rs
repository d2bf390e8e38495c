//! What a replay finds in the page cache: bounded memory, cold and warm starts, judged by what the kernel counts elsewhere.
//!
//! The oracle is a program of this file's own, this very test started again ([`random_reader`]): it reads random blocks in a
//! control group that the test has made, and says from its `/proc/self/io` what came from the device.

mod means;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use means::{Said, mkdir, reprise, run};
use reprise_testkit::rng::Rng;
use reprise_testkit::scratch::{Kind, LoopFs, Scratch, is_root};
use reprise_testkit::{program, skip};
use serde_json::Value;

const BLOCK_BYTES: u64 = 4096;
const FILE_BYTES: u64 = 256 << 20;
const LIMIT_BYTES: u64 = 64 << 20;
const READS: u64 = 100_000;
/// How far hit ratios may be apart, in points. Measured on an idle machine: 0.2 to 0.5 (the engine needs a MiB more than the program).
const TOLERANCE: f64 = 1.0;
/// Names the file that the program is to read.
const READ: &str = "REPRISE_TEST_READ_RANDOMLY";

/// The program: reads random blocks of a file, and prints which share did not come from a device.
#[test]
fn random_reader() {
    let Some(path) = std::env::var_os(READ) else { return };
    let file = fs::File::open(path).unwrap();
    // Else the kernel reads ahead where neighbours happen to be cached, and the ratio is another one in each run.
    reprise_testkit::raw::sys(libc::SYS_fadvise64, &[raw_number(&file), 0, 0, libc::POSIX_FADV_RANDOM as u64]);
    let (mut rng, mut block) = (Rng::new(7, 0), [0; BLOCK_BYTES as usize]);
    let before = device_bytes();
    for _ in 0..READS {
        file.read_exact_at(&mut block, rng.below(FILE_BYTES / BLOCK_BYTES) * BLOCK_BYTES).unwrap();
    }
    println!("hits {}", 1.0 - (device_bytes() - before) as f64 / (READS * BLOCK_BYTES) as f64);
}

fn raw_number(file: &fs::File) -> u64 {
    use std::os::fd::AsRawFd;
    file.as_raw_fd() as u64
}

fn device_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap();
    text.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap().parse().unwrap()
}

/// The program, which reads `file`; its output is what the test harness prints.
fn reader(file: &Path) -> Vec<String> {
    let own = std::env::current_exe().unwrap();
    let words = ["random_reader", "--exact", "--nocapture", "--test-threads=1"];
    let env = format!("{READ}={}", file.display());
    ["env".to_owned(), env, own.display().to_string()].into_iter().chain(words.map(str::to_owned)).collect()
}

fn hits(said: &str) -> f64 {
    let found = said.lines().find_map(|line| line.split_once("hits ")?.1.trim().parse().ok());
    found.unwrap_or_else(|| panic!("no hits: {said}"))
}

/// A control group with the limit, made by other means than Reprise's.
struct Group(PathBuf);

impl Group {
    /// The reason if there can be none.
    fn new() -> Result<Group, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("reprise-test-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let (top, file) = match Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists() {
            true => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            false => ("/sys/fs/cgroup", "memory.max"),
        };
        let dir = Path::new(top).join(name);
        fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let group = Group(dir);
        let limited = fs::write(group.0.join(file), LIMIT_BYTES.to_string());
        limited.map_err(|e| format!("no memory controller in {top}: {e}"))?;
        Ok(group)
    }

    /// What the program finds in the cache when it runs in here, and the file is cold.
    fn hits(&self, file: &Path) -> f64 {
        fs::File::open(file).unwrap().sync_all().unwrap();
        fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
        let enter = format!("echo $$ > '{}/cgroup.procs' && exec \"$@\"", self.0.display());
        let output = program::succeed(Command::new("sh").args(["-c", &enter, "sh"]).args(reader(file)));
        hits(&String::from_utf8_lossy(&output.stdout))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The control groups of a replay.
fn groups_of(pid: u32) -> String {
    let name = format!("reprise-{pid}");
    let output = program::run(Command::new("find").args(["/sys/fs/cgroup", "-name", &name, "-type", "d"]));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs it; no control group is left.
fn run_cleanly(dir: &Path, args: &[&str]) -> Said {
    let mut command = reprise(dir, args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(groups_of(pid), "");
    Said::new(format!("{command:?}"), output)
}

/// A group, or the reason to leave the test out.
fn group(test: &str) -> Option<Group> {
    let made = if is_root() { Group::new() } else { Err("needs root".to_owned()) };
    made.map_err(|why| skip(test, &why)).ok()
}

fn ratio(said: &Value) -> f64 {
    said["cache"]["hit_ratio"].as_f64().unwrap_or_else(|| panic!("no ratio: {:#}", said["cache"]))
}

#[test]
fn a_replay_in_bounded_memory_hits_as_often_as_the_program() {
    let test = "a_replay_in_bounded_memory_hits_as_often_as_the_program";
    let Some(group) = group(test) else { return };
    let fs = match LoopFs::new(Kind::Ext4, 3 * FILE_BYTES) {
        Ok(fs) => fs,
        Err(why) => return skip(test, &why),
    };
    let scratch = Scratch::new();
    let dir = scratch.path();
    let file = fs.path().join("file");
    let filled = format!("head -c {FILE_BYTES} /dev/urandom > '{}'", file.display());
    program::succeed(Command::new("sh").args(["-c", &filled]));
    let original = group.hits(&file);

    let program = reader(&file);
    let recorded: Vec<&str> = ["record", "-q", "--data", "none", "-o", "t.reprise", "--"]
        .into_iter()
        .chain(program.iter().map(String::as_str))
        .collect();
    run(dir, &recorded).ends(0);
    fs::remove_file(&file).unwrap();
    let target = mkdir(&fs.path(), "target");
    let replay = |options: &[&str]| {
        let all = [&["replay", "t.reprise", "--target", &target, "--fill", "random", "--json", "-q"], options].concat();
        run_cleanly(dir, &all).ends(0).json()
    };
    let bounded = replay(&["--memory", "64M"]);
    println!("hit ratio: original {original:.4}, replay {:.4}", ratio(&bounded));
    assert!((ratio(&bounded) - original).abs() * 100.0 <= TOLERANCE, "{original} {:#}", bounded["cache"]);
    assert_eq!(bounded["cache"]["start"], "contents cold");
    assert_eq!(bounded["cache"]["memory_limit_bytes"], LIMIT_BYTES);

    // What is read into the cache before the start is the workers' own: it fits in part, and is hit a little more often.
    let warm = replay(&["--memory", "64M", "--warm"]);
    let cached = warm["cache"]["cached_at_start_bytes"].as_u64();
    assert!(cached.is_none_or(|bytes| (LIMIT_BYTES / 2..=LIMIT_BYTES).contains(&bytes)), "{:#}", warm["cache"]);
    assert!(ratio(&warm) > ratio(&bounded) && ratio(&warm) < ratio(&bounded) + 0.1, "{:#}", warm["cache"]);

    // Without a limit all is hit that is there, in one of three: the machine may take clean pages back whenever it likes.
    let hits_all = || {
        let warm = replay(&["--warm"]);
        println!("warm: {:#}", warm["cache"]);
        ratio(&warm) > 0.999
    };
    assert!((1..=3).any(|_| hits_all()));
    // From a cold start what is met again is hit.
    let cold = ratio(&replay(&["--cold"]));
    assert!((0.45..0.55).contains(&cold), "{cold}");
}

#[test]
fn the_memory_of_a_limited_program_is_recorded() {
    let test = "the_memory_of_a_limited_program_is_recorded";
    let Some(group) = group(test) else { return };
    let scratch = Scratch::new();
    let dir = scratch.path();
    let record = reprise(dir, &["record", "-q", "--backend", "ptrace", "-o", "t.reprise", "--", "cat", "/etc/passwd"]);
    let enter = format!("echo $$ > '{}/cgroup.procs' && exec \"$@\"", group.0.display());
    let mut entered = Command::new("sh");
    entered.args(["-c", &enter, "sh"]).arg(record.get_program()).args(record.get_args()).current_dir(dir);
    program::succeed(&mut entered);
    let said = run(dir, &["replay", "t.reprise", "-t", &mkdir(dir, "t"), "--memory", "recorded", "--json", "-q"]);
    assert_eq!(said.ends(0).json()["cache"]["memory_limit_bytes"], LIMIT_BYTES);
}

#[test]
fn without_a_limit_the_samples_tell_the_memory() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    run(dir, &["record", "-q", "-o", "with.reprise", "--", "true"]).ends(0);
    run(dir, &["record", "-q", "--sample-every", "off", "-o", "without.reprise", "--", "true"]).ends(0);
    run(dir, &["compile", "-q", "with.reprise", "-o", "with.plan"]).ends(0);
    let target = mkdir(dir, "t");
    let replay = |what: &str| run(dir, &["replay", what, "-t", &target, "--memory", "recorded", "--json", "-q"]);
    let limited = fs::read_to_string(dir.join("with.reprise/manifest.json")).unwrap().contains("memory_limit");
    if limited {
        return skip("without_a_limit_the_samples_tell_the_memory", "this test itself runs in a limited control group");
    }
    replay("without.reprise").fails(2, &["no samples", "--sample-every", "--memory 64M"]);
    replay("with.plan").fails(2, &["a plan", "--memory 64M"]);
    if group("without_a_limit_the_samples_tell_the_memory").is_none() {
        return;
    }
    let bytes = replay("with.reprise").ends(0).json()["cache"]["memory_limit_bytes"].as_u64().unwrap();
    let total = fs::read_to_string("/proc/meminfo").unwrap();
    let total: u64 = total.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(bytes > 0 && bytes <= total * 1024, "{bytes} of {total} KiB");
}

#[test]
fn absurd_memory_is_refused_before_anything_is_made() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    run(dir, &["record", "-q", "-o", "t.reprise", "--", "true"]).ends(0);
    let target = mkdir(dir, "t");
    let replay = |memory: &str| run(dir, &["replay", "t.reprise", "-t", &target, &format!("--memory={memory}")]);
    for absurd in ["0", "-1", "4095", "1M", "many", "", "1e400", "nan"] {
        let said = replay(absurd);
        assert!(said.ends(2).err.contains("--memory"), "{said:#?}");
    }
    let both = run(dir, &["replay", "t.reprise", "-t", &target, "--cold", "--warm"]);
    assert!(both.ends(2).err.contains("--warm"), "{both:#?}");
    if group("absurd_memory_is_refused_before_anything_is_made").is_some() {
        replay("8000T").fails(2, &["more than there is", "without --memory"]);
        replay("1e19").fails(2, &["more than there is"]);
    }
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "the target was touched");
}

#[test]
fn without_rights_the_error_says_what_helps() {
    let test = "without_rights_the_error_says_what_helps";
    if group(test).is_none() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    run(dir, &["record", "-q", "-o", "t.reprise", "--", "true"]).ends(0);
    let target = mkdir(dir, "t");
    program::succeed(Command::new("chown").args(["-R", "65534:65534"]).arg(dir));
    // The binary may be below a directory that others may not enter.
    let copied = dir.join("reprise");
    fs::copy(program::reprise().unwrap(), &copied).unwrap();
    let replay = [copied.to_str().unwrap(), "replay", "t.reprise", "-t", &target, "--memory", "64M"];
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(replay)
        .current_dir(dir)
        .output();
    let Ok(output) = output else { return skip(test, "needs setpriv") };
    let said = Said::new("as nobody".to_owned(), output);
    said.fails(6, &["may not make a control group", "sudo", "systemd-run"]);
}

#[test]
fn a_group_is_gone_after_a_replay_that_was_interrupted() {
    let test = "a_group_is_gone_after_a_replay_that_was_interrupted";
    if group(test).is_none() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    run(dir, &["record", "-q", "-o", "t.reprise", "--", "sh", "-c", "sleep 1; echo a > f"]).ends(0);
    let target = mkdir(dir, "t");
    let slow = ["replay", "t.reprise", "-t", &target, "--memory", "64M", "--pace", "x30", "-q"];
    for (signal, code) in [(libc::SIGINT, 7), (libc::SIGTERM, 7)] {
        let mut child = reprise(dir, &slow).stdout(Stdio::null()).spawn().unwrap();
        means::until("in a group", || {
            let populated = |dir: &str| fs::read_to_string(format!("{dir}/cgroup.procs")).is_ok_and(|t| !t.is_empty());
            groups_of(child.id()).lines().any(populated)
        });
        means::kill(child.id(), signal);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(groups_of(child.id()), "");
    }
    // One that fails: the command before the start does.
    let fails = [&slow[..], &["--before-start", "exit 3"]].concat();
    run_cleanly(dir, &fails).fails(2, &["exit status: 3"]);
}

#[test]
fn a_worker_that_is_killed_for_want_of_memory_is_said() {
    let test = "a_worker_that_is_killed_for_want_of_memory_is_said";
    if group(test).is_none() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    let program = ["dd", "if=/dev/zero", "of=f", "bs=64M", "count=1", "status=none"];
    run(dir, &[&["record", "-q", "--data", "none", "-o", "t.reprise", "--"][..], &program].concat()).ends(0);
    let target = mkdir(dir, "t");
    let small = ["replay", "t.reprise", "-t", &target, "--fill", "random", "--memory", "8M"];
    run_cleanly(dir, &small).fails(8, &["want of memory", "8388608 bytes", "give more with --memory"]);
}
