//! Every kind of difference between two traces is found, and only those.

mod common;

use common::{Row, Script, entries, node, row, stat};
use reprise_verify::{Comparison, VerifyError, compare};

const OPEN: usize = 0;
const READ: usize = 2;
const STAT: usize = 3;
const END_OF_LIST: usize = 7;

fn script() -> Script {
    Script::new(vec![
        row("open", &[0, 0o102, 0o644], 3).path("/f"),
        row("write", &[3, 0, 5], 5).content(b"hello"),
        row("pread64", &[3, 0, 5, 0], 5).content(b"hello"),
        row("fstat", &[3, 0], 0).output(&stat(0o100644, 5, 77, 0)),
        row("open", &[0, 0o200000], 4).path("/d"),
        row("getdents64", &[4, 0, 100], 48).content(&entries(&[".", "b"])),
        row("getdents64", &[4, 0, 100], 24).content(&entries(&["a"])),
        row("getdents64", &[4, 0, 100], 0),
        row("lseek", &[3, 0, 2], 5),
        row("flistxattr", &[3, 0, 100], 14).content(b"user.a\0user.b\0"),
        row("fcntl", &[3, 5, 0], 0).input(&[0; 32]).output(&lock(2, 0, 9)),
        row("stat", &[0, 0], -2).path("/none"),
        row("read", &[9, 0, 4], 4).content(b"pipe"),
    ])
}

fn lock(kind: u8, start: u8, pid: u8) -> Vec<u8> {
    let mut b = vec![0; 32];
    (b[0], b[8], b[24]) = (kind, start, pid);
    b
}

fn compared(script: &Script, change: impl Fn(usize, Row) -> Vec<Row>) -> Comparison {
    let dir = tempfile::tempdir().unwrap();
    let original = script.record(dir.path());
    let result = script.replay(dir.path(), change);
    let c = compare(&original, &result).unwrap();
    let sum = c.same + c.excused + c.simulated + c.skipped + c.unsupported + c.diverged + c.missing;
    assert_eq!(sum, c.actions, "{c:#?}");
    c
}

fn with(at: usize, change: impl Fn(&mut Row)) -> impl Fn(usize, Row) -> Vec<Row> {
    move |i, mut row| {
        if i == at {
            change(&mut row);
        }
        vec![row]
    }
}

fn only_cause(c: &Comparison) -> String {
    assert!(!c.is_same());
    assert_eq!((c.diverged, c.groups.len()), (1, 1), "{c:#?}");
    assert_eq!(c.groups[0].first.len(), 1);
    c.groups[0].cause.clone()
}

#[test]
fn the_same_is_the_same() {
    let c = compared(&script(), |_, row| vec![row]);
    assert!(c.is_same(), "{c:#?}");
    assert_eq!((c.actions, c.same), (13, 13));
    assert!(c.groups.is_empty() && c.uncompared.is_empty() && c.unavoidable.is_empty(), "{c:#?}");
}

#[test]
fn differences_are_found_by_what_they_are() {
    type Change = Box<dyn Fn(&mut Row)>;
    let cases: Vec<(usize, Change, &str)> = vec![
        (OPEN, Box::new(|r| r.action.result = -2), "ENOENT instead of success"),
        (11, Box::new(|r| r.action.result = -13), "EACCES instead of ENOENT"),
        (11, Box::new(|r| r.action.result = 0), "success instead of ENOENT"),
        (READ, Box::new(|r| r.content = Some(b"hellx".to_vec())), "other content"),
        (READ, Box::new(|r| r.action.result = 4), "fewer bytes"),
        (1, Box::new(|r| r.action.result = 4), "fewer bytes"),
        (8, Box::new(|r| r.action.result = 6), "another position"),
        (STAT, Box::new(|r| *r = r.clone().output(&stat(0o100644, 6, 77, 0))), "another size"),
        (STAT, Box::new(|r| *r = r.clone().output(&stat(0o100600, 5, 77, 0))), "another mode"),
        (STAT, Box::new(|r| *r = r.clone().output(&stat(0o120644, 5, 77, 0))), "another type"),
        (STAT, Box::new(|r| *r = r.clone().output(&stat(0o100644, 5, 77, 1))), "another owner"),
        (9, Box::new(|r| r.content = Some(b"user.a\0user.c\0".to_vec())), "other names of attributes"),
        (10, Box::new(|r| r.action.output = lock_output(1, 0)), "another lock in the way"),
        (6, Box::new(|r| r.content = Some(entries(&["c"]))), "lists other names"),
        (8, Box::new(|r| r.action.call = "read".into()), "another call"),
        (12, Box::new(|r| r.action.handling = Some("guessed".into())), "handled in an unknown way"),
    ];
    for (at, change, cause) in cases {
        assert_eq!(only_cause(&compared(&script(), with(at, &*change))), cause);
    }
}

fn lock_output(kind: u8, start: u8) -> Vec<u8> {
    row("fcntl", &[], 0).output(&lock(kind, start, 0)).action.output
}

#[test]
fn the_worst_comes_first_with_path_and_values() {
    let c = compared(&script(), |i, mut row| {
        match i {
            STAT => row = row.output(&stat(0o100600, 5, 77, 0)),
            OPEN => row.action.result = -2,
            _ => {}
        }
        vec![row]
    });
    assert_eq!(c.diverged, 2);
    let first = &c.groups[0].first[0];
    assert_eq!((c.groups[0].call.as_str(), first.origin, first.path.as_str()), ("open", 0, "/f"));
    assert_eq!(first.text, "returned ENOENT, traced 3");
    let second = &c.groups[1].first[0];
    assert_eq!((second.path.as_str(), second.text.as_str()), ("/f", "mode 0600, traced 0644"));
}

#[test]
fn what_no_replay_can_avoid_is_counted_apart() {
    let c = compared(&script(), |i, row| {
        vec![match i {
            STAT => row.output(&stat(0o100644, 5, 78, 0)),
            10 => row.output(&lock(2, 0, 3)),
            // Another order, another partition; other descriptors.
            5 => row.content(&entries(&["..", "a", "b", "."])),
            6 => Row { content: None, action: reprise_trace::Action { result: 0, ..row.action } },
            OPEN => Row { action: reprise_trace::Action { result: 33, ..row.action }, ..row },
            _ => row,
        }]
    });
    assert!(c.is_same(), "{c:#?}");
    assert_eq!(c.same, 13);
    let causes: Vec<&str> = c.unavoidable.keys().map(String::as_str).collect();
    assert_eq!(causes, ["inode number", "process numbers"]);
}

#[test]
fn pseudo_files_are_excused_by_the_model_not_by_the_replay() {
    let mut s = Script::new(vec![
        row("open", &[0, 0], 3).path("/proc/stat"),
        row("read", &[3, 0, 9], 4).content(b"1234"),
        row("stat", &[0, 0], 0).path("/proc/stat").output(&stat(0o100444, 0, 5, 0)),
    ]);
    let mut proc = node(2, "proc", 10, 0o040555, 0);
    proc.filesystem = 0x9fa0;
    let mut file = node(10, "stat", 11, 0o100444, 0);
    file.filesystem = 0x9fa0;
    s.tree.extend([proc, file]);
    let differs = |i: usize, mut row: Row| {
        if i == 2 {
            row.action.result = -2;
        }
        vec![row]
    };
    let c = compared(&s, differs);
    assert!(c.is_same(), "{c:#?}");
    assert_eq!((c.excused, c.unavoidable["pseudo file system"]), (1, 1));
    // The replay's own word is no excuse.
    let claimed = with(READ, |r| {
        r.content = Some(b"hellx".to_vec());
        r.action.difference = Some("unavoidable: pseudo file system".into());
    });
    assert_eq!(only_cause(&compared(&script(), claimed)), "other content");
}

#[test]
fn rows_that_lack_or_are_too_many_are_found() {
    let c = compared(&script(), |i, row| if i == 8 { vec![] } else { vec![row] });
    assert_eq!((c.missing, c.diverged, c.is_same()), (1, 0, false));
    assert_eq!((c.groups[0].cause.as_str(), c.groups[0].first[0].origin), ("never replayed", 8));
    // Ended early.
    let c = compared(&script(), |i, row| if i > 4 { vec![] } else { vec![row] });
    assert_eq!((c.missing, c.same), (8, 5));
    let c = compared(&script(), |i, row| vec![row.clone(); if i == 8 { 2 } else { 1 }]);
    assert_eq!((c.extra, c.groups[0].cause.as_str()), (1, "replayed twice"));
    let far = with(12, |r| r.action.origin = Some(u64::MAX));
    let c = compared(&script(), far);
    assert_eq!((c.extra, c.missing), (1, 1));
    assert!(c.groups.iter().any(|g| g.cause == "an action that the trace does not have"));
    let c = compared(&script(), with(12, |r| r.action.origin = None));
    assert_eq!((c.extra, c.missing), (1, 1));
}

#[test]
fn order_of_rows_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let script = script();
    let original = script.record(dir.path());
    let mut rows: Vec<Row> = script.rows.clone();
    for (i, row) in rows.iter_mut().enumerate() {
        row.action.origin = Some(i as u64);
    }
    rows.swap(0, 12);
    let swapped = Script { tree: vec![], rows, ..script };
    let result = swapped.write(&dir.path().join("c.reprise"), reprise_trace::Kind::Replay, Some(common::ID));
    assert!(compare(&original, &result).unwrap().is_same());
}

#[test]
fn what_was_not_issued_is_counted_but_not_compared() {
    let c = compared(&script(), |i, mut row| {
        let word = ["simulated", "skipped", "unsupported"].get(i.wrapping_sub(8));
        row.action.handling = Some((*word.unwrap_or(&"issued")).to_owned());
        row.content = row.content.filter(|_| word.is_none());
        vec![row]
    });
    assert_eq!((c.simulated, c.skipped, c.unsupported, c.same), (1, 1, 1, 10));
    assert_eq!(c.not_issued["simulated"]["lseek"], 1);
    // A simulation that fails is none.
    let failed = with(8, |r| {
        r.action.handling = Some("simulated".into());
        r.action.result = -5;
    });
    assert_eq!(only_cause(&compared(&script(), failed)), "EIO instead of success");
}

#[test]
fn what_is_not_in_a_trace_is_counted_and_the_replays_word_then_held_against_it() {
    let c = compared(&script(), |_, mut row| {
        row.content = None;
        vec![row]
    });
    assert!(c.is_same(), "{c:#?}");
    assert_eq!(c.uncompared["content is not in the replay's trace"], 2);
    assert_eq!(c.uncompared["names listed are not all in the replay's trace"], 1);
    let c = compared(&script(), |i, mut row| {
        row.content = None;
        if i == END_OF_LIST {
            row.action.difference = Some("lists 3 entries, traced 2".into());
        }
        vec![row]
    });
    assert_eq!(only_cause(&c), "the replay noted what its trace does not show");
}

#[test]
fn links_that_were_not_met_are_no_divergence() {
    let mut seen = stat(0o100644, 5, 77, 0);
    seen[0] = 1;
    seen[16] = 2;
    let mut s = Script::new(vec![row("stat", &[0, 0], 0).path("/f").output(&seen)]);
    let mut file = node(2, "f", 77, 0o100644, 5);
    file.nlink = 2;
    s.tree.push(file);
    let fewer = |_: usize, row: Row| {
        let mut now = seen.clone();
        now[16] = 1;
        vec![row.output(&now)]
    };
    assert!(compared(&s, fewer).is_same());
    // Both names were met: then the number counts.
    let mut other = node(2, "g", 77, 0o100644, 5);
    other.nlink = 2;
    s.tree.push(other);
    assert_eq!(only_cause(&compared(&s, fewer)), "another number of links");
}

#[test]
fn traces_that_do_not_belong_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let script = script();
    let original = script.record(dir.path());
    let other = script.write(&dir.path().join("c.reprise"), reprise_trace::Kind::Replay, Some("other"));
    assert!(matches!(compare(&original, &original), Err(VerifyError::NotAReplay { .. })));
    let error = compare(&original, &other).unwrap_err();
    assert!(matches!(&error, VerifyError::OtherOrigin { found, .. } if found == "other"), "{error}");
}
