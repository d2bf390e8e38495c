//! Lines, counts and texts of tiny traces.

#[path = "../../verify/tests/common/mod.rs"]
mod common;

use common::{Row, Script, entries, row, stat};
use reprise_report::{By, CatOptions, Style, cat, comparison_text, info, tree_text};
use reprise_trace::TraceReader;

const AT_FDCWD: u64 = -100i32 as u32 as u64;

fn rows() -> Vec<Row> {
    let mut lock = vec![0; 32];
    (lock[0], lock[16]) = (1, 10);
    vec![
        row("openat", &[AT_FDCWD, 0, 0o102, 0o644], 3).path("a\"b"),
        row("write", &[3, 0x10, 40], 40).content(&[b'x'; 40]),
        row("writev", &[3, 0, 2], 3).input(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]).content(b"x\n\xff"),
        row("fstat", &[3, 0x10], 0).output(&stat(0o100644, 43, 7, 0)),
        row("openat", &[AT_FDCWD, 0, 0o2000000, 0xdead], -2).path("/none"),
        row("fcntl", &[3, 6, 0x10], 0).input(&lock),
        row("fcntl", &[3, 3], 0o100002),
        row("openat", &[AT_FDCWD, 0, 0o200000, 0], 4).path("/"),
        row("getdents64", &[4, 0x10, 100], 48).content(&entries(&[".", "x"])),
        row("lseek", &[3, -1i64 as u64, 2], 42),
        row("read", &[3, 0x20, 8], 0),
        row("mmap", &[0, 4096, 1, 2, 3, 0], 0x7f00_0000_0000),
        row("exit_group", &[0], 0),
        row("mystery", &[1, 2], 5),
    ]
}

fn trace(dir: &tempfile::TempDir) -> TraceReader {
    Script::new(rows()).record(dir.path())
}

fn lines(trace: &TraceReader, options: CatOptions) -> Vec<String> {
    cat(trace, options).unwrap().map(|line| line.unwrap()).collect()
}

#[test]
fn lines_are_as_strace_shows_them() {
    let dir = tempfile::tempdir().unwrap();
    let found = lines(&trace(&dir), CatOptions::default());
    let calls: Vec<&str> = found.iter().map(|l| l.split_once("[T0] ").unwrap().1).collect();
    let calls: Vec<&str> = calls.iter().map(|l| l.strip_suffix(" <0.000000001>").unwrap()).collect();
    let expected = [
        r#"openat(AT_FDCWD, "a\"b", O_RDWR|O_CREAT, 0644) = 3"#,
        r#"write(3, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"...[40 bytes], 40) = 40"#,
        r#"writev(3, [{iov_len=1}, {iov_len=2}] "x\n\xff", 2) = 3"#,
        "fstat(3, {mode=S_IFREG|0644, size=43, nlink=1, uid=0, gid=0}) = 0",
        r#"openat(AT_FDCWD, "/none", O_RDONLY|O_CLOEXEC) = -1 ENOENT"#,
        "fcntl(3, F_SETLK, {type=F_WRLCK, whence=SEEK_SET, start=0, len=10, pid=0}) = 0",
        "fcntl(3, F_GETFL) = 32770 (O_RDWR|O_LARGEFILE)",
        r#"openat(AT_FDCWD, "/", O_RDONLY|O_DIRECTORY) = 4"#,
        r#"getdents64(4, ["x"], 100) = 48"#,
        "lseek(3, -1, SEEK_END) = 42",
        "read(3, 0x20, 8) = 0",
        "mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f0000000000",
        "exit_group(0) = ?",
        "mystery(0x1, 0x2, 0x0, 0x0, 0x0, 0x0) = 5",
    ];
    assert_eq!(calls, expected);
    assert!(found[1].starts_with("   0.000000 [T0] write"));
}

#[test]
fn filters_choose_lines_and_descriptors_have_paths() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(&dir);
    let by_path = lines(&trace, CatOptions { path: Some("/a\"b".into()), ..CatOptions::default() });
    assert_eq!(by_path.len(), 9, "{by_path:#?}");
    let calls = vec!["lseek".to_owned(), "read".to_owned()];
    assert_eq!(lines(&trace, CatOptions { calls, ..CatOptions::default() }).len(), 2);
    assert!(lines(&trace, CatOptions { thread: Some(1), ..CatOptions::default() }).is_empty());
}

#[test]
fn json_lines_hold_all_columns() {
    let dir = tempfile::tempdir().unwrap();
    let found = lines(&trace(&dir), CatOptions { json: true, ..CatOptions::default() });
    let first: serde_json::Value = serde_json::from_str(&found[0]).unwrap();
    assert_eq!((first["call"].as_str(), first["path"].as_str()), (Some("openat"), Some("a\"b")));
    let failed: serde_json::Value = serde_json::from_str(&found[4]).unwrap();
    assert_eq!((failed["result"].as_i64(), failed["errno"].as_str()), (Some(-2), Some("ENOENT")));
    assert!(failed.get("origin").is_none());
}

#[test]
fn a_replay_says_how_it_went() {
    let dir = tempfile::tempdir().unwrap();
    let replay = Script::new(rows()).replay(dir.path(), |i, mut row| {
        match i {
            9 => row.action.difference = Some("returned 41, traced 42".into()),
            3 => row.action.difference = Some("unavoidable: times".into()),
            13 => row.action.handling = Some("unsupported".into()),
            _ => {}
        }
        vec![row]
    });
    let found = lines(&replay, CatOptions::default());
    assert!(found[9].ends_with("  # diverged: returned 41, traced 42"));
    assert!(found[3].ends_with("  # unavoidable: times"));
    assert!(found[13].ends_with("  # unsupported"));
    assert!(found[0].ends_with('>'));
}

#[test]
fn counts_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(&dir);
    let about = info(&trace).unwrap();
    assert_eq!((about.actions, about.errors, about.written_bytes, about.read_bytes), (14, 1, 43, 0));
    assert_eq!(about.unknown_calls["mystery"], 1);
    assert_eq!((about.calls[0].call.as_str(), about.calls[0].count, about.calls[0].errors), ("openat", 3, 1));
    let text = about.to_string();
    for part in ["unknown call mystery", "0  dropped", "every byte", "43 B  written"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for by in [By::Call, By::Path, By::Thread] {
        let stat = reprise_report::stat(&trace, by).unwrap();
        assert_eq!((stat.total.calls, stat.total.errors, stat.total.bytes), (14, 1, 43));
        assert_eq!(stat.rows.iter().map(|r| r.calls).sum::<u64>(), 14);
        assert_eq!(stat.write_sizes.iter().map(|c| c.count).sum::<u64>(), 2);
        let find = |key: &str| stat.rows.iter().find(|r| r.key == key).map(|r| (r.calls, r.bytes));
        match by {
            By::Call => assert_eq!(find("write"), Some((1, 40))),
            By::Path => assert_eq!(find("/a\"b"), Some((9, 43))),
            By::Thread => assert_eq!(find("T0 test"), Some((14, 43))),
        }
        assert!(stat.text(1, Style::Plain).contains("14"));
    }
}

#[test]
fn comparisons_are_told_in_words_and_colour_only_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let script = Script::new(rows());
    let original = script.record(dir.path());
    let replay = script.replay(dir.path(), |i, mut row| {
        if i == 9 {
            row.action.result = 41;
        }
        if i == 3 {
            row = row.output(&stat(0o100644, 43, 8, 0));
        }
        vec![row]
    });
    let c = reprise_verify::compare(&original, &replay).unwrap();
    let text = comparison_text(&c, Style::Plain);
    for part in ["the replay went differently", "1  diverged", "1 lseek: another position", "#9", "inode number"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\x1b') && comparison_text(&c, Style::Colour).contains('\x1b'));
    let tree = reprise_verify::compare_tree(&original, dir.path()).unwrap();
    let text = tree_text(&tree, Style::Plain);
    for part in ["the tree differs", "1 missing", "should not be there", "/a.reprise"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
