//! A trace in other tools' forms: each is read back by another reader than the writer.

mod means;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use means::{mkdir, record, run};
use reprise_testkit::scratch::Scratch;
use reprise_trace::{Action, TraceReader};
use serde_json::Value;

/// Names that break what does not escape them; listings, attributes, links, locks, moved files, errors, several processes.
const PROGRAM: &str = "mkdir w; cd w; echo hello > 'a, \"b;c'; cp 'a, \"b;c' d; ln -s d l; ln d e; cat l e missing 2> /dev/null | wc > n; \
    mkdir sub; mv e sub/f; touch -d @12345.678901234 d; chmod 600 d; flock d true; printf 'x\\ny\\0z' > binary; \
    ls -la . sub > /dev/null; truncate -s 5000 d; rm -r sub";

fn actions(trace: &Path) -> Vec<Action> {
    TraceReader::open(trace).unwrap().actions().map(Result::unwrap).collect()
}

fn export(dir: &Path, trace: &str, options: &[&str]) -> String {
    let said = run(dir, &[&["export", trace][..], options].concat());
    said.ends(0);
    said.out
}

/// What an action does, without where memory lies.
fn meaning(trace: &mut reprise_trace::BlobReader, action: &Action) -> String {
    let call = reprise_calls::by_name(&action.call).unwrap();
    let mut out = format!("{} {:?} {:?}", action.call, action.path, action.path2);
    for (arg, value) in call.args.iter().zip(action.args) {
        use reprise_calls::ArgKind::*;
        match arg.kind {
            Fd(_) | Dirfd | Mode | Owner | Integer => out += &format!(" {}={}", arg.name, value as i32),
            Length | Offset => out += &format!(" {}={value}", arg.name),
            Flags(_) | Command(_) => out += &format!(" {}={:x}", arg.name, value & 0xffff_ffff),
            _ => {}
        }
    }
    out += &format!(" = {} {:?} {:?}", action.result, action.input, action.output);
    out += &format!(" {}+{}", action.begin_ns, action.duration_ns);
    // What is moved inside the kernel no log shows.
    if matches!(call.effect, reprise_calls::Effect::Copy | reprise_calls::Effect::Splice) {
        return out;
    }
    out += &format!(" {} bytes", action.data_bytes);
    match trace.content(&action.data).unwrap() {
        // Between the entries of a listing lies what was in the buffer before.
        Some(bytes) if call.effect == reprise_calls::Effect::List => {
            format!("{out} {:?}", reprise_model::entry_names(&bytes, call.name == "getdents"))
        }
        Some(bytes) => format!("{out} {bytes:?}"),
        None => out,
    }
}

/// What each thread did, by the kernel's number of the thread.
fn by_thread(path: &Path) -> BTreeMap<i32, Vec<String>> {
    let trace = TraceReader::open(path).unwrap();
    let tids: Vec<i32> = trace.threads().unwrap().iter().map(|t| t.tid).collect();
    let mut blobs = trace.blobs();
    let first = trace.actions().next().unwrap().unwrap().begin_ns;
    let mut out: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    for action in trace.actions() {
        let mut action = action.unwrap();
        let call = reprise_calls::by_name(&action.call).unwrap();
        // What a log cannot hold: loads and stores, free space, and how long a call took that never returned.
        let unsaid = matches!(call.name, "statfs" | "fstatfs" | "ioctl") || call.is_pseudo();
        if unsaid {
            continue;
        }
        action.begin_ns = action.begin_ns.saturating_sub(first);
        // Nor whom a program runs as.
        if call.effect == reprise_calls::Effect::Execute {
            action.output.clear();
        }
        // Beyond the device's number strace's names are newer than the importer: number of the mount, alignment for direct I/O.
        if call.name == "statx" {
            action.output.truncate(4 + 144);
        }
        if call.returns == reprise_calls::Returns::Never {
            action.duration_ns = 0;
        }
        out.entry(tids[action.thread as usize]).or_default().push(meaning(&mut blobs, &action));
    }
    out
}

#[test]
fn a_log_of_strace_is_read_back_as_the_same_trace() {
    let s = Scratch::new();
    let dir = s.path();
    let trace = record(dir, "t.reprise", PROGRAM);
    export(dir, "t.reprise", &["--to", "strace", "-o", "t.log"]);
    let said = run(dir, &["import", "--json", "t.log", "-o", "back.reprise"]);
    let summary = said.ends(0).json();
    for reason in ["unreadable-arguments", "unreadable-result", "unknown-call", "line-cut-off", "call-never-returned"] {
        assert!(summary["reasons"].get(reason).is_none_or(|r| r["count"] == 0), "{summary:#}");
    }
    let (own, back) = (by_thread(&trace), by_thread(&dir.join("back.reprise")));
    assert_eq!(own.keys().collect::<Vec<_>>(), back.keys().collect::<Vec<_>>());
    for (tid, own) in &own {
        for (i, (a, b)) in own.iter().zip(&back[tid]).enumerate() {
            assert_eq!(a, b, "thread {tid}, action {i}");
        }
        assert_eq!(own.len(), back[tid].len(), "thread {tid}");
    }
    let target = mkdir(dir, "target");
    let replay = run(dir, &["replay", "-q", "--target", &target, "back.reprise"]);
    assert!(replay.ends(0).out.contains("diverged 0"), "{replay:#?}");
}

/// Fields of CSV, by the rules of RFC 4180.
fn fields(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut chars = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        let row = rows.last_mut().unwrap();
        match (quoted, c) {
            (true, '"') if chars.peek() == Some(&'"') => row.last_mut().unwrap().push(chars.next().unwrap()),
            (_, '"') => quoted = !quoted,
            (false, ',') => row.push(String::new()),
            (false, '\r') => {}
            (false, '\n') => rows.push(vec![String::new()]),
            (_, c) => row.last_mut().unwrap().push(c),
        }
    }
    rows.pop();
    rows
}

#[test]
fn tables_hold_every_action_and_its_file() {
    let s = Scratch::new();
    let dir = s.path();
    let trace = record(dir, "t.reprise", PROGRAM);
    let actions = actions(&trace);
    let rows = fields(&export(dir, "t.reprise", &["--to", "csv"]));
    let column = |name: &str| rows[0].iter().position(|c| c == name).unwrap();
    assert_eq!(rows.len(), actions.len() + 1);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let (seq, call, file, result) = (column("seq"), column("call"), column("file"), column("result"));
    for (row, action) in rows[1..].iter().zip(&actions) {
        assert_eq!((&row[seq], &row[call]), (&action.seq.to_string(), &action.call.to_string()));
        assert_eq!(row[result], action.result.to_string());
    }
    let work = dir.canonicalize().unwrap().join("w");
    let strange = work.join("a, \"b;c").display().to_string();
    // Named when opened, and by its descriptor when written.
    for wanted in ["openat", "write"] {
        assert!(rows.iter().any(|row| row[call] == wanted && row[file] == strange), "{wanted} {strange}");
    }
    let lines = export(dir, "t.reprise", &["--to", "jsonl"]);
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), actions.len());
    let files: Vec<&str> = objects.iter().map(|o| o["file"].as_str().unwrap_or_default()).collect();
    assert_eq!(files, rows[1..].iter().map(|row| row[file].as_str()).collect::<Vec<_>>());
}

#[test]
fn folded_stacks_add_up_to_the_whole() {
    let s = Scratch::new();
    let dir = s.path();
    let trace = record(dir, "t.reprise", PROGRAM);
    let actions = actions(&trace);
    let sums = |weight| {
        let text = export(dir, "t.reprise", &["--to", "folded", "--weight", weight]);
        let lines: Vec<(String, u64)> = text
            .lines()
            .map(|l| l.rsplit_once(' ').map(|(s, n)| (s.to_owned(), n.parse().unwrap())).unwrap())
            .collect();
        (lines.iter().map(|(_, n)| n).sum::<u64>(), lines)
    };
    let (calls, lines) = sums("calls");
    assert_eq!(calls, actions.len() as u64);
    assert!(lines.iter().any(|(stack, _)| stack.ends_with(";w;a, \"b\\x3bc;write")), "{lines:#?}");
    assert_eq!(sums("time").0, actions.iter().map(|a| a.duration_ns).sum::<u64>());
    let (_, lines) = sums("bytes");
    let written = lines.iter().find(|(stack, _)| stack.ends_with(";w;binary;write"));
    assert_eq!(written.map(|(_, n)| *n), Some(5));
}

/// What the Trace Event Format asks of each phase, and what of it is written, in the alphabet's order: complete events, metadata,
/// counters, the begin and the end of a flow.
const MEMBERS: [(&str, &[&str]); 6] = [
    ("X", &["args", "cat", "dur", "name", "ph", "pid", "tid", "ts"]),
    ("M", &["args", "name", "ph", "pid", "tid"]),
    ("M", &["args", "name", "ph", "pid"]),
    ("C", &["args", "name", "ph", "pid", "ts"]),
    ("s", &["cat", "id", "name", "ph", "pid", "tid", "ts"]),
    ("f", &["bp", "cat", "id", "name", "ph", "pid", "tid", "ts"]),
];

/// Checks what Perfetto asks of events: known phases with their members, whole numbers for tracks, spans of a track that nest,
/// flows that have two ends, each in a span, and go forward.
fn events(text: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(text).unwrap();
    let events = document["traceEvents"].as_array().unwrap().clone();
    let mut tracks: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let mut flows: BTreeMap<u64, Vec<(&str, u64)>> = BTreeMap::new();
    for event in &events {
        let phase = event["ph"].as_str().unwrap();
        let mut found: Vec<&str> = event.as_object().unwrap().keys().map(String::as_str).collect();
        found.sort_unstable();
        assert!(MEMBERS.iter().any(|(known, members)| *known == phase && *members == found), "{event}");
        assert!(event["pid"].is_u64() && event.get("tid").is_none_or(Value::is_u64), "{event}");
        let ns = |name: &str| (event[name].as_f64().unwrap() * 1e3).round() as u64;
        if phase == "X" {
            let track = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
            tracks.entry(track).or_default().push((ns("ts"), ns("ts") + ns("dur")));
        }
        if ["s", "f"].contains(&phase) {
            flows.entry(event["id"].as_u64().unwrap()).or_default().push((phase, ns("ts")));
        }
    }
    for (id, ends) in &flows {
        let [("s", from), ("f", to)] = ends[..] else { panic!("flow {id}: {ends:?}") };
        assert!(from <= to, "flow {id} goes back: {ends:?}");
    }
    // A flow hangs on the span that its end is in.
    let is_in_a_span = |event: &Value, at: u64| {
        let track = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        // What took no time (a load of a mapped file) has its arrow begin right before it.
        let holds = |(from, to): &(u64, u64)| (*from..=*to).contains(&at) || from == to && at + 1 == *from;
        tracks.get(&track).is_some_and(|spans| spans.iter().any(holds))
    };
    for event in events.iter().filter(|event| ["s", "f"].contains(&event["ph"].as_str().unwrap())) {
        assert!(is_in_a_span(event, (event["ts"].as_f64().unwrap() * 1e3).round() as u64), "{event}");
    }
    for spans in tracks.values_mut() {
        spans.sort_by_key(|(from, to)| (*from, std::cmp::Reverse(*to)));
        let mut open: Vec<u64> = Vec::new();
        for (from, to) in spans {
            open.retain(|end| *end > *from);
            assert!(open.last().is_none_or(|end| *to <= *end), "spans of one track cross");
            open.push(*to);
        }
    }
    events
}

#[test]
fn perfetto_shows_original_and_replay_as_two_processes() {
    let s = Scratch::new();
    let dir = s.path();
    let trace = record(dir, "t.reprise", PROGRAM);
    let actions = actions(&trace);
    let spans = |events: &[Value], pid: Option<u64>| {
        let wanted = |e: &&Value| e["ph"] == "X" && e["cat"] != "wait" && e["cat"] != "pace";
        events.iter().filter(wanted).filter(|e| pid.is_none_or(|pid| e["pid"] == pid)).count()
    };
    let alone = events(&export(dir, "t.reprise", &["--to", "perfetto"]));
    assert_eq!(spans(&alone, None), actions.len());
    let first = alone.iter().find(|e| e["args"]["seq"] == 0).unwrap();
    let exact = format!("{}.{:03}", actions[0].begin_ns / 1000, actions[0].begin_ns % 1000).parse::<f64>().unwrap();
    assert_eq!((first["name"].as_str(), first["ts"].as_f64()), (Some(&*actions[0].call), Some(exact)));
    let target = mkdir(dir, "target");
    run(dir, &["replay", "-q", "--target", &target, "-o", "r.reprise", "t.reprise"]).ends(0);
    let options = ["--to", "perfetto", "--replay-of", "t.reprise", "--arrows", "root", "-q"];
    let both = events(&export(dir, "r.reprise", &options));
    assert_eq!(spans(&both, Some(1)), actions.len());
    assert_eq!(spans(&both, Some(2)), TraceReader::open(&dir.join("r.reprise")).unwrap().count::<Action>() as usize);
    let names: Vec<&str> =
        both.iter().filter(|e| e["name"] == "process_name").filter_map(|e| e["args"]["name"].as_str()).collect();
    assert!(names[0].starts_with("original: ") && names[1].starts_with("replay: "), "{names:?}");
    let mut tracks = both.iter().filter(|e| e["name"] == "thread_name").filter_map(|e| e["args"]["name"].as_str());
    assert!(
        tracks.next_back().is_some_and(|name| !name.ends_with(" reprise")),
        "the program's name comes after the recorder's"
    );
    let graph = run(dir, &["graph", "--json", "--order", "root", "t.reprise"]).ends(0).json();
    let edges = graph["edges"]["between_threads"]["edges"].as_u64();
    let arrows = both.iter().filter(|e| e["ph"] == "s").count() as u64;
    assert_eq!(Some(arrows), edges);
    assert_eq!(arrows, both.iter().filter(|e| e["ph"] == "f").count() as u64);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, "t.reprise", "true");
    run(dir, &["export", "t.reprise"]).ends(2);
    run(dir, &["export", "t.reprise", "--to", "csv", "--arrows", "root"]).fails(2, &["perfetto"]);
    run(dir, &["export", "t.reprise", "--to", "csv", "-o", "none/x"]).fails(8, &["none/x", "-o"]);
    run(dir, &["export", "none.reprise", "--to", "csv"]).fails(3, &["none.reprise"]);
    run(dir, &["export", "t.reprise", "--replay-of", "t.reprise", "--to", "perfetto"]).fails(2, &["not a replay"]);
    assert!(fs::read_dir(dir).unwrap().flatten().all(|e| e.file_name() != "x"));
}

/// Paths that are relative to where the program began.
#[test]
fn a_log_of_strace_keeps_the_working_directory() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, "t.reprise", "echo x > f; mkdir d; cd d; cat ../f > g; mv g h");
    run(dir, &["export", "-q", "t.reprise", "--to", "strace", "-o", "t.log"]).ends(0);
    run(dir, &["import", "-q", "t.log", "-o", "back.reprise"]).ends(0);
    let files = "SELECT DISTINCT file FROM actions WHERE file LIKE '%/f' OR file LIKE '%/h' ORDER BY file";
    let [original, back] =
        ["t.reprise", "back.reprise"].map(|trace| run(dir, &["sql", "--csv", trace, files]).ends(0).out.clone());
    assert!(original == back && original.contains("/f"), "{original} {back}");
    let target = mkdir(dir, "target");
    run(dir, &["replay", "-q", "--target", &target, "back.reprise"]).ends(0);
}
