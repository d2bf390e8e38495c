//! What is around a program, as the trace tells it, against what other programs read of the same kernel at the same time.

mod means;

use std::fs;
use std::path::Path;
use std::process::Command;

use means::{Said, has, kill, mkdir, reprise, run, until};
use reprise_testkit::scratch::{Kind, LoopFs, Scratch, is_root};
use reprise_testkit::{program, skip};
use serde_json::Value;

/// Reads `/proc` by itself, twice for each size of its memory, and says what it read and when.
const WITNESS: &str = r#"
import json, os, sys, time
out = open('witness', 'w')
def read():
    at = time.time_ns()
    stat = open('/proc/stat').readline().split()
    seen = {
        'at': at,
        'statm': int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGESIZE'),
        'user': (int(stat[1]) + int(stat[2])) * 10**9 // os.sysconf('SC_CLK_TCK'),
        'idle': int(stat[4]) * 10**9 // os.sysconf('SC_CLK_TCK'),
    }
    for what in ('cpu', 'io', 'memory'):
        try:
            some = open('/proc/pressure/' + what).readline().split()
            seen[what] = int(some[4].split('=')[1]) * 1000
        except OSError:
            pass
    seen['until'] = time.time_ns()
    out.write(json.dumps(seen) + '\n')
    out.flush()
held = []
for i in range(4):
    read()
    time.sleep(0.5)
    read()
    held.append(bytearray(os.urandom(4096)) * (4096 * (i + 1)))
"#;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn samples(dir: &Path, trace: &str) -> Vec<Value> {
    let said = run(dir, &["environment", "--json", trace]);
    lines(&said.ends(0).out)
}

fn info(dir: &Path, trace: &str) -> Value {
    run(dir, &["info", "--json", trace]).ends(0).json()
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_else(|| panic!("no {name} in {row}"))
}

/// Totals only grow: what somebody read at an instant lies between the samples before and after it.
#[test]
fn samples_agree_with_what_the_program_reads_itself() {
    let s = Scratch::new();
    let dir = s.path();
    fs::write(dir.join("witness.py"), WITNESS).unwrap();
    let record = ["record", "-q", "--sample-every", "20", "-o", "t", "--", "python3", "witness.py"];
    run(dir, &record).ends(0);
    let info = info(dir, "t");
    let (samples, witness) = (samples(dir, "t"), lines(&fs::read_to_string(dir.join("witness")).unwrap()));
    let started = number(&info, "started_ns");
    // `started_ns` is taken a moment before times begin to count.
    const SLACK_NS: u64 = 200_000_000;
    let at = |sample: &Value| started + number(sample, "time_ns");
    assert_eq!(witness.len(), 8);
    let mut compared = 0;
    for seen in &witness {
        let before = samples.iter().rfind(|s| at(s) + SLACK_NS < number(seen, "at"));
        let after = samples.iter().find(|s| at(s) > number(seen, "until") + SLACK_NS);
        for (name, column) in [
            ("user", "user_ns"),
            ("idle", "idle_ns"),
            ("cpu", "cpu_some_ns"),
            ("io", "io_some_ns"),
            ("memory", "memory_some_ns"),
        ] {
            if let (Some(before), Some(after), Some(seen)) = (before, after, seen[name].as_u64()) {
                let (least, most) = (number(before, column), number(after, column));
                // The kernel's count of idle time is not quite monotonous.
                let slack = if name == "idle" { 50_000_000 } else { 0 };
                assert!(least <= seen + slack && seen <= most + slack, "{column}: {least} {seen} {most}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 10, "{compared}");
    // While nothing was allocated: the second reading of each pair, and the sample before it.
    for pair in witness.chunks(2) {
        let resident = number(&pair[1], "statm");
        let close = |s: &&Value| number(s, "resident_bytes").abs_diff(resident) < 2 << 20;
        let found = samples.iter().filter(close).count();
        assert!(found > 0, "no sample with {resident} resident bytes: {samples:?}");
    }
    assert!(samples.iter().any(|s| number(s, "processes") == 1), "{samples:?}");
    let last = samples.last().unwrap();
    assert_eq!((number(last, "processes"), number(last, "resident_bytes")), (0, 0), "after the end");
    let summary = &info["environment"];
    assert_eq!(number(summary, "samples"), samples.len() as u64);
    let greatest = samples.iter().map(|s| number(s, "resident_bytes")).max();
    assert_eq!(summary["resident_bytes"]["greatest"].as_u64(), greatest);
    let text = run(dir, &["info", "t"]);
    for words in ["Environment", "resident memory", "page cache", "dirty", "processors", "began in"] {
        assert!(text.ends(0).out.contains(words), "{words}: {text:#?}");
    }
    let table = run(dir, &["environment", "t"]);
    assert!(table.ends(0).out.lines().count() <= 42, "{table:#?}");
    assert!(table.out.contains("dirty") && table.out.contains("MiB"), "{table:#?}");
}

/// Processes are all there, and gone when they are gone.
#[test]
fn processes_are_counted() {
    let s = Scratch::new();
    let dir = s.path();
    let go = dir.join("go");
    let script = "for i in 1 2 3; do (while [ ! -e go ]; do sleep 0.01; done) & done; wait; echo done > done";
    // The trace is looked at while it is written; in the kernel: `in_kernel.rs`.
    let record = ["record", "-q", "--backend", "ptrace", "--sample-every", "10", "-o", "t", "--", "sh", "-c", script];
    let mut recorder = reprise(dir, &record);
    let mut recorder = recorder.spawn().unwrap();
    // Four shells stay until the file is there; `sleep` comes and goes.
    let seen = || {
        let trace = reprise_trace::TraceReader::open(&dir.join("t")).ok()?;
        let rows = trace.rows::<reprise_trace::Environment>().filter_map(Result::ok);
        rows.map(|row| row.processes).max()
    };
    let enough = std::panic::catch_unwind(|| until("four processes in a sample", || seen() >= Some(4)));
    fs::write(go, "").unwrap();
    if enough.is_err() {
        kill(recorder.id(), libc::SIGKILL);
    }
    assert_eq!(recorder.wait().unwrap().code(), Some(0));
    let samples = samples(dir, "t");
    let most = samples.iter().map(|s| number(s, "processes")).max();
    assert!((Some(4)..=Some(7)).contains(&most), "{most:?}");
    assert_eq!(number(samples.last().unwrap(), "processes"), 0);
}

/// `/proc/self/mountinfo` and `stat`, as Python reads them.
const MOUNTS: &str = r#"
import json, os, re
out = []
for line in open('/proc/self/mountinfo', 'rb'):
    left, right = line.rstrip(b'\n').split(b' - ')
    left, right = left.split(b' '), right.split(b' ')
    plain = lambda b: re.sub(rb'\\([0-7]{3})', lambda m: bytes([int(m[1], 8)]), b).decode('utf-8', 'replace')
    out.append([int(left[0]), plain(left[4]), right[0].decode(), plain(right[1]), left[5].decode(), right[2].decode()])
print(json.dumps({'mounts': out, 'root': os.stat('/').st_dev, 'memory': open('/proc/meminfo').readline().split(':')[1].strip()}))
"#;

#[test]
fn mounts_and_facts_agree_with_python() {
    let s = Scratch::new();
    let dir = s.path();
    let record = ["record", "-q", "-o", "t", "--", "python3", "-c", MOUNTS];
    let seen = run(dir, &record).ends(0).json();
    let info = info(dir, "t");
    assert_eq!(info["facts"]["memory"], seen["memory"]);
    assert!(info["facts"]["write_back"].as_str().unwrap().contains("dirty_expire_centisecs"), "{info}");
    assert_eq!(info["facts"]["samples"], "every 100 ms");
    let rows = info["environment"]["mounts"].as_array().unwrap();
    // Another test may mount or unmount meanwhile: what both saw is equal.
    let mut compared = 0;
    for mount in seen["mounts"].as_array().unwrap() {
        let Some(row) = rows.iter().find(|row| row["mount"] == mount[0] && row["point"] == mount[1]) else { continue };
        let ours = [&row["kind"], &row["source"], &row["options"], &row["file_system_options"]];
        assert_eq!(ours, [&mount[2], &mount[3], &mount[4], &mount[5]]);
        compared += 1;
    }
    assert!(compared > 3, "{compared} of {}", rows.len());
    let root = rows.iter().rfind(|row| row["point"] == "/").unwrap();
    assert_eq!(root["device"], seen["root"]);
}

#[test]
fn queues_agree_with_lsblk() {
    if !has("lsblk") {
        return skip("queues_agree_with_lsblk", "lsblk is not there");
    }
    let s = Scratch::new();
    let dir = s.path();
    let seen = run(dir, &["record", "-q", "-o", "t", "--", "lsblk", "-J", "-d", "-b", "-o", "NAME,SCHED,RQ-SIZE,RA"]);
    let info = info(dir, "t");
    let queues = &info["environment"]["queues"];
    let mut compared = 0;
    for disk in seen.ends(0).json()["blockdevices"].as_array().unwrap() {
        let Some(queue) = queues.get(disk["name"].as_str().unwrap()) else { continue };
        let text = |name: &str| disk[name].as_str().map_or_else(|| disk[name].to_string(), str::to_owned);
        assert_eq!(queue["read_ahead_kb"], text("ra"));
        if let Some(scheduler) = disk["sched"].as_str() {
            let value = queue["scheduler"].as_str().unwrap();
            assert!(value == scheduler || value.contains(&format!("[{scheduler}]")), "{value} {scheduler}");
            assert_eq!(queue["nr_requests"], text("rq-size"));
        }
        compared += 1;
    }
    if compared == 0 {
        skip("queues_agree_with_lsblk", "no block device with a queue");
    }
}

/// The counters of `/sys/block/NAME/stat` before and after enclose what the samples saw.
#[test]
fn a_device_is_charged_with_what_was_written_to_it() {
    if !is_root() {
        return skip("a_device_is_charged", "loop devices need root");
    }
    let fs = match LoopFs::new(Kind::Ext4, 64 << 20) {
        Ok(fs) => fs,
        Err(why) => return skip("a_device_is_charged", &why),
    };
    let s = Scratch::new();
    let dir = s.path();
    let source = Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(fs.path()).output();
    let Some(source) = source.ok().filter(|out| out.status.success()) else {
        return skip("a_device_is_charged", "findmnt is not there");
    };
    let name = String::from_utf8_lossy(&source.stdout).trim().trim_start_matches("/dev/").to_owned();
    let written = || {
        let text = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        text.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
    };
    program::succeed(Command::new("sync").arg("-f").arg(fs.path()));
    let before = written();
    let target = fs.path().join("file");
    let script = format!("dd if=/dev/urandom of={} bs=1M count=16 conv=fsync", target.display());
    run(dir, &["record", "-q", "-o", "t", "--", "sh", "-c", &script]).ends(0);
    let after = written();
    let device = &info(dir, "t")["environment"]["devices"][&name];
    let charged = number(device, "written_bytes");
    assert!((16 << 20..=after - before).contains(&charged), "{charged}, {} by sysfs", after - before);
    let text = run(dir, &["info", "t"]);
    let line = text.ends(0).out.lines().find(|line| line.trim_start().starts_with(&name)).unwrap_or_default();
    assert!(line.contains("scheduler") && line.contains("read-ahead"), "{text:#?}");
}

#[test]
fn without_samples_nothing_is_missed() {
    let s = Scratch::new();
    let dir = s.path();
    run(dir, &["record", "-q", "--sample-every", "off", "-o", "t", "--", "true"]).ends(0);
    assert_eq!(info(dir, "t")["environment"]["samples"], 0);
    assert_eq!(info(dir, "t")["facts"]["samples"], "off");
    run(dir, &["environment", "t"]).fails(2, &["no samples", "--sample-every"]);
    assert_eq!(run(dir, &["environment", "--json", "t"]).ends(0).out, "");
    run(dir, &["info", "t"]).ends(0);
    for wrong in ["0", "soon"] {
        let said = run(dir, &["record", "--sample-every", wrong, "--", "true"]);
        assert!(said.ends(2).err.contains("milliseconds"), "{said:#?}");
    }
}

/// A slice has the samples of its span, and at 0 those before it; a replay has its own.
#[test]
fn slices_and_replays_have_samples() {
    let s = Scratch::new();
    let dir = s.path();
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i > f$i; sleep 0.05; done";
    run(dir, &["record", "-q", "--sample-every", "10", "-o", "t", "--", "sh", "-c", script]).ends(0);
    run(dir, &["slice", "-q", "t", "-o", "part", "--from", "30%", "--to", "70%"]).ends(0);
    let (whole, part) = (samples(dir, "t"), samples(dir, "part"));
    let base = number(&info(dir, "part"), "started_ns") - number(&info(dir, "t"), "started_ns");
    let span = number(&info(dir, "part"), "duration_ns");
    let mut expected: Vec<Value> = whole.iter().rfind(|s| number(s, "time_ns") < base).cloned().into_iter().collect();
    expected.extend(whole.iter().filter(|s| (base..=base + span).contains(&number(s, "time_ns"))).cloned());
    assert!(expected.len() > 3 && expected.len() < whole.len(), "{} of {}", expected.len(), whole.len());
    for row in &mut expected {
        row["time_ns"] = number(row, "time_ns").saturating_sub(base).into();
    }
    let bare = |rows: Vec<Value>| -> Vec<Value> {
        let without = |mut row: Value| {
            row.as_object_mut().unwrap().remove("devices");
            row
        };
        rows.into_iter().map(without).collect()
    };
    assert_eq!(bare(part), bare(expected));
    let queues = |trace: &str| info(dir, trace)["environment"]["queues"].clone();
    assert_eq!(queues("part"), queues("t"));
    let target = mkdir(dir, "target");
    run(dir, &["replay", "-q", "t", "--target", &target, "--pace", "natural", "-o", "result"]).ends(0);
    let replayed = samples(dir, "result");
    assert!(replayed.len() >= 2, "{replayed:?}");
    assert!(replayed.iter().any(|s| number(s, "processes") > 0 && number(s, "resident_bytes") > 0), "{replayed:?}");
    assert_eq!(queues("result"), queues("t"));
    run(dir, &["verify", "t", "result"]).ends(0);
    let said: Said = run(dir, &["info", "result"]);
    assert!(said.ends(0).out.contains("Environment"), "{said:#?}");
}
