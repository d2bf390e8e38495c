//! `reprise sql`: the worked questions of docs/SQL.md on a small trace whose answers were counted by hand, and the habits of
//! the command.

mod means;

use std::fs;
use std::path::Path;
use std::process::Command;

use means::{kill, reprise, run};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::{program, skip};
use reprise_trace::{
    Action, DataPolicy, Host, Kind, Manifest, Name, Process, ThreadRow, TraceWriter, TreeNode, WriterOptions,
};
use serde_json::Value;

const ID: &str = "00000000000000000000000000000001";
const CWD: u64 = -100i32 as u32 as u64;

/// A call of the small trace: thread, call, path, arguments, result, begin and duration in microseconds.
type Row = (u32, &'static str, Option<&'static str>, &'static [u64], i64, u64, u64);

/// A database of one file with a log, and a second thread that reads.
const ROWS: &[Row] = &[
    (0, "openat", Some("/db/data"), &[CWD, 0, 0o2, 0], 3, 100, 10),
    (0, "openat", Some("/db/log"), &[CWD, 0, 0o101, 0o644], 4, 200, 30),
    (1, "openat", Some("/db/missing"), &[CWD, 0, 0, 0], -2, 300, 5),
    (0, "write", None, &[4, 0, 100], 100, 1_000, 20),
    (0, "fsync", None, &[4], 0, 2_000, 1_000),
    (1, "pread64", None, &[3, 0, 4096, 0], 4096, 2_500, 100),
    (1, "pread64", None, &[3, 0, 4096, 4096], 4096, 3_500, 110),
    (1, "pread64", None, &[3, 0, 4096, 0], 4096, 4_500, 8),
    (0, "write", None, &[4, 0, 200], 200, 5_000, 21),
    (0, "fsync", None, &[4], 0, 6_000, 9_000),
    (0, "write", None, &[4, 0, 8192], 8192, 20_000, 40),
    (0, "fsync", None, &[4], 0, 21_000, 2_000),
    (1, "openat", Some("/db/conf"), &[CWD, 0, 0, 0], 5, 30_000, 6),
    (1, "read", None, &[5, 0, 4096], 1000, 31_000, 7),
    (1, "close", None, &[5], 0, 32_000, 1),
    (1, "openat", Some("/db/conf"), &[CWD, 0, 0, 0], 5, 33_000, 6),
    (1, "read", None, &[5, 0, 4096], 1000, 34_000, 7),
    (1, "close", None, &[5], 0, 35_000, 1),
    (0, "pwrite64", None, &[3, 0, 512, 8192], 512, 1_200_000, 15),
    (0, "pread64", None, &[3, 0, 512, 8192], 512, 1_300_000, 9),
    (0, "openat", Some("/db/missing"), &[CWD, 0, 0, 0], -2, 1_400_000, 5),
];

fn node(parent: u64, name: &str, inode: u64, mode: u32, size: u64) -> TreeNode {
    TreeNode {
        parent_device: u64::from(parent > 0),
        parent_inode: parent,
        name: Name::from(name),
        device: 1,
        inode,
        mode,
        nlink: 1,
        size,
        filesystem: 0xef53,
        ..TreeNode::default()
    }
}

/// Writes a trace of such calls, or that of a replay of it in which syncs took twice as long.
fn write(path: &Path, kind: Kind, rows: &[Row]) {
    let replayed = kind == Kind::Replay;
    let id = if replayed { "2".repeat(32) } else { ID.to_owned() };
    let mut manifest = Manifest::new(kind, DataPolicy::None, vec!["db".into()], id, 0, Host::default());
    manifest.origin = replayed.then(|| ID.to_owned());
    let mut writer = TraceWriter::create(path, manifest, WriterOptions::default()).unwrap();
    let process = Process {
        pid: 7,
        uids: vec![0; 4],
        gids: vec![0; 4],
        umask: 0o022,
        cwd: Name::from("/"),
        root: Name::from("/"),
        executable: Name::from("/bin/db"),
        ..Process::default()
    };
    writer.process(process).unwrap();
    for thread in 0..2 {
        let name = Name::from(["main", "reader"][thread as usize]);
        writer.thread(ThreadRow { thread, tid: 7 + thread as i32, name, ..ThreadRow::default() }).unwrap();
    }
    if !replayed {
        for node in [
            node(0, "", 2, 0o040755, 4096),
            node(2, "db", 3, 0o040755, 4096),
            node(3, "data", 4, 0o100644, 16384),
            node(3, "conf", 5, 0o100644, 1000),
        ] {
            writer.node(node).unwrap();
        }
    }
    for (i, (thread, call, path, args, result, begin_us, duration_us)) in rows.iter().enumerate() {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let slower = if replayed && *call == "fsync" { 2 } else { 1 };
        let moves = ["read", "write", "pread64", "pwrite64"].contains(call);
        writer
            .action(Action {
                seq: i as u64,
                thread: *thread,
                call: (*call).into(),
                begin_ns: begin_us * 1_000,
                duration_ns: duration_us * 1_000 * slower,
                args: all,
                result: *result,
                errno: (*result < 0).then(|| "ENOENT".to_owned()),
                path: path.map(Name::from),
                data_bytes: if moves { *result as u64 } else { 0 },
                origin: replayed.then_some(i as u64),
                handling: replayed.then(|| "issued".to_owned()),
                ..Action::default()
            })
            .unwrap();
    }
    writer.close(None).unwrap();
}

fn traces(dir: &Path) {
    write(&dir.join("db.reprise"), Kind::Record, ROWS);
    write(&dir.join("r.reprise"), Kind::Replay, ROWS);
}

fn document() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SQL.md")).unwrap()
}

/// The fenced blocks of a document: language and text.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut parts = text.split("```");
    parts.next();
    while let (Some(block), _) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        out.push((language.to_owned(), text.to_owned()));
    }
    out
}

#[test]
fn the_questions_of_the_document_have_the_answers_that_it_gives() {
    let s = Scratch::new();
    traces(s.path());
    let text = document();
    let (_, questions) = text.split_once("## Ten questions").unwrap();
    let blocks = blocks(questions.split("\n## ").next().unwrap());
    let mut asked = 0;
    for pair in blocks.chunks(2) {
        let [(sql, query), (plain, answer)] = pair else { panic!("a question without an answer: {pair:?}") };
        assert_eq!((sql.as_str(), plain.as_str()), ("sql", "text"));
        let said = run(s.path(), &["sql", "db.reprise", "--result", "r.reprise", query]);
        said.ends(0);
        assert_eq!(said.out.trim_end(), answer.trim_end(), "{query}");
        asked += 1;
    }
    assert_eq!(asked, 10);
}

#[test]
fn tables_and_views_are_documented() {
    let s = Scratch::new();
    let listed = run(s.path(), &["sql", "--tables"]);
    listed.ends(0);
    let text = document();
    let mut seen = 0;
    for line in listed.out.lines().filter(|l| l.starts_with("  ")) {
        let (name, doc) = line.trim_start().split_once("  ").unwrap();
        let row = format!("| `{name}` | {} |", doc.trim_start());
        assert!(text.contains(&row), "docs/SQL.md lacks {row}");
        seen += 1;
    }
    assert!(seen > 100, "{listed:#?}");
}

#[test]
fn programs_get_the_tables_as_json() {
    let s = Scratch::new();
    let listed = run(s.path(), &["sql", "--tables", "--json"]).ends(0).json();
    assert_eq!(listed["tables"][0]["columns"][0]["name"], "seq");
    assert!(listed["views"].as_array().unwrap().iter().any(|view| view["name"] == "replayed"));
}

#[test]
fn answers_come_in_three_forms() {
    let s = Scratch::new();
    traces(s.path());
    let query = "SELECT seq, errno, file, duration_ns / 2.0 AS half FROM actions WHERE seq IN (0, 2) ORDER BY seq";
    let csv = run(s.path(), &["sql", "--csv", "db.reprise", query]);
    assert_eq!(csv.ends(0).out, "seq,errno,file,half\r\n0,,/db/data,5000\r\n2,ENOENT,/db/missing,2500\r\n");
    let json = run(s.path(), &["sql", "--json", "db.reprise", query]);
    let lines: Vec<Value> = json.ends(0).out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines[0]["errno"], Value::Null);
    assert_eq!((lines[1]["seq"].as_u64(), lines[1]["half"].as_f64()), (Some(2), Some(2500.0)));
    let few = run(s.path(), &["sql", "--most", "2", "db.reprise", "SELECT seq FROM actions"]);
    assert_eq!(few.ends(0).out.lines().count(), 4);
    assert!(few.out.contains("more than 2 rows"));
    // Counting needs no column; names of columns may be keywords; positions follow from the calls before.
    let count = run(s.path(), &["sql", "--csv", "db.reprise", "SELECT count(*) FROM actions"]);
    assert_eq!(count.ends(0).out, format!("count(*)\r\n{}\r\n", ROWS.len()));
    let implicit = run(s.path(), &["sql", "--csv", "db.reprise", "SELECT offset FROM writes WHERE call = 'write'"]);
    assert_eq!(implicit.ends(0).out, "offset\r\n0\r\n100\r\n300\r\n");
}

/// Who writes beyond the end changes what lies between, and yet begins where it was told to.
#[test]
fn writes_beyond_the_end_begin_where_they_do() {
    let s = Scratch::new();
    let rows: &[Row] = &[
        (0, "openat", Some("/db/new"), &[CWD, 0, 0o102, 0o644], 3, 100, 10),
        (0, "pwrite64", None, &[3, 0, 100, 0], 100, 200, 1),
        (0, "pwrite64", None, &[3, 0, 100, 1000], 100, 300, 1),
        (0, "lseek", None, &[3, 9000, 0], 9000, 400, 1),
        (0, "write", None, &[3, 0, 10], 10, 500, 1),
        (0, "pwrite64", None, &[3, 0, 10, 50], 10, 600, 1),
        (0, "pread64", None, &[3, 0, 4096, 8000], 1010, 700, 1),
    ];
    write(&s.path().join("gaps.reprise"), Kind::Record, rows);
    let offsets = "SELECT offset, sequential FROM accesses ORDER BY seq";
    let said = run(s.path(), &["sql", "--csv", "gaps.reprise", offsets]);
    assert_eq!(said.ends(0).out, "offset,sequential\r\n0,1\r\n1000,0\r\n9000,0\r\n50,0\r\n8000,0\r\n");
}

#[test]
fn tables_are_joined_by_columns_that_nothing_else_names() {
    let s = Scratch::new();
    traces(s.path());
    for (query, rows) in [
        ("SELECT count(*) FROM threads JOIN processes USING (process)", 2),
        ("select count(*) from threads natural join (select process from processes)", 2),
        ("SELECT count(*) FROM actions a JOIN threads t USING (\"thread\")", ROWS.len()),
        ("WITH x AS (SELECT 1 AS thread) SELECT count(*) FROM x JOIN threads USING (Thread)", 1),
    ] {
        let said = run(s.path(), &["sql", "--csv", "db.reprise", query]);
        assert_eq!(said.ends(0).out.lines().nth(1), Some(&*rows.to_string()), "{query}");
    }
}

#[test]
fn a_query_reads_and_nothing_else() {
    let s = Scratch::new();
    traces(s.path());
    for query in [
        "DELETE FROM actions",
        "CREATE TABLE x (y)",
        "ATTACH 'x.db' AS x",
        "PRAGMA query_only = 0",
        "SELECT 1; SELECT 2",
        "VACUUM INTO 'x.db'",
        "SELECT load_extension('x')",
    ] {
        run(s.path(), &["sql", "db.reprise", query]).ends(2);
    }
    assert!(!s.path().join("x.db").exists());
    run(s.path(), &["sql", "db.reprise", "SELECT none FROM actions"]).fails(2, &["none", "--tables"]);
    run(s.path(), &["sql", "db.reprise", "nonsense"]).fails(2, &["nonsense", "character"]);
    run(s.path(), &["sql", "db.reprise", ""]).fails(2, &["empty"]);
    run(s.path(), &["sql", "db.reprise", "SELECT * FROM replayed"]).fails(2, &["--result RESULT"]);
    run(s.path(), &["sql", "none.reprise", "SELECT 1"]).ends(3);
    run(s.path(), &["sql", "db.reprise", "--result", "db.reprise", "SELECT 1"]).fails(2, &["not a replay"]);
}

#[test]
fn a_query_can_be_interrupted() {
    let s = Scratch::new();
    traces(s.path());
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let mut child = reprise(s.path(), &["sql", "db.reprise", endless]).spawn().unwrap();
    // Earlier than the handler is set the signal would simply end it.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    kill(child.id(), libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn pandas_polars_and_duckdb_open_a_trace() {
    const NAME: &str = "pandas_polars_and_duckdb_open_a_trace";
    let s = Scratch::new();
    traces(s.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/python/open_trace.py");
    let places = [std::env::var("REPRISE_PYTHON").ok(), Some("python3".to_owned())];
    for python in places.into_iter().flatten() {
        let mut command = Command::new(&python);
        let output = program::run(command.args([script, "db.reprise"]).current_dir(s.path()));
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => return,
            // None of the three is installed.
            Some(77) => continue,
            _ => panic!("{said}"),
        }
    }
    skip(NAME, "none of duckdb, pandas, polars is installed: `scripts/install-deps python`, then REPRISE_PYTHON");
}
