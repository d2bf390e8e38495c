//! What is written is read back; damage is found; a trace that was not closed is readable to its last flush.

use std::fs;

use reprise_trace::*;

fn manifest() -> Manifest {
    Manifest::new(Kind::Record, DataPolicy::Full, vec!["true".into()], "0".repeat(32), 0, Host::default())
}

fn action(seq: u64, data: Vec<u32>) -> Action {
    Action {
        seq,
        thread: (seq % 3) as u32,
        call: "pread64".into(),
        begin_ns: seq * 10,
        duration_ns: 7,
        args: [3, u64::MAX, 4096, seq, 0, 1 << 63],
        result: if seq.is_multiple_of(5) { -2 } else { 4096 },
        path: seq.is_multiple_of(2).then(|| Name(vec![b'/', 0xff, b'\\', seq as u8 | 1])),
        input: vec![1; (seq % 4) as usize],
        data_bytes: 4096,
        data,
        origin: seq.is_multiple_of(7).then_some(seq),
        ..Action::default()
    }
}

fn write(dir: &std::path::Path, close: bool) -> Vec<Action> {
    write_with(dir, close, WriterOptions { rows: 100, ..WriterOptions::default() })
}

fn write_with(dir: &std::path::Path, close: bool, options: WriterOptions) -> Vec<Action> {
    let mut writer = TraceWriter::create(dir, manifest(), options).unwrap();
    let mut actions = Vec::new();
    for seq in 0..1050 {
        let content = vec![(seq % 50) as u8; (seq as usize % 9) * 400_000];
        let data = writer.blob(&content, Keep::ByPolicy).unwrap();
        let mut a = action(seq, data);
        writer.action(a.clone()).unwrap();
        a.errno = (a.result == -2).then(|| "ENOENT".into());
        actions.push(a);
    }
    writer.ledger().count(Loss::Truncated, "test", 5, Some(3));
    if close {
        writer.close(None).unwrap();
    } else {
        drop(writer);
    }
    actions
}

#[test]
fn rows_and_contents_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.reprise");
    let actions = write(&path, true);
    let trace = TraceReader::open(&path).unwrap();
    assert!(trace.manifest().complete);
    assert_eq!(trace.ledger().total(Loss::Truncated), 1);
    let read: Vec<Action> = trace.actions().map(Result::unwrap).collect();
    assert_eq!(read, actions);
    let mut blobs = trace.blobs();
    for (seq, a) in read.iter().enumerate() {
        let expected = vec![(seq % 50) as u8; (seq % 9) * 400_000];
        assert_eq!(blobs.content(&a.data).unwrap().unwrap(), expected);
    }
    // Each distinct chunk once: 50 fillings, of up to six lengths each.
    assert!(trace.count::<BlobRow>() <= 50 * 10, "{}", trace.count::<BlobRow>());
}

#[test]
fn nothing_of_a_row_is_left_in_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.reprise");
    let actions = write(&path, true);
    let trace = TraceReader::open(&path).unwrap();
    let mut row = Action { waited_for: Some("earlier".into()), data: vec![9; 9], ..action(0, Vec::new()) };
    let mut rows = trace.actions();
    for expected in &actions {
        assert!(rows.read(&mut row).unwrap());
        assert_eq!(row, *expected);
    }
    assert!(!rows.read(&mut row).unwrap());
    let mut rows = trace.actions().without(Action::BESIDE_THE_CALL);
    for expected in actions {
        assert!(rows.read(&mut row).unwrap());
        assert_eq!(row, Action { errno: None, origin: None, ..expected });
    }
    let mut rows = trace.actions().without(&["seq"]);
    assert!(rows.read(&mut row).is_err(), "a row has a number");
    assert!(!rows.read(&mut row).unwrap());
}

#[test]
fn an_unclosed_trace_is_readable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.reprise");
    write(&path, false);
    let trace = TraceReader::open(&path).unwrap();
    assert!(!trace.manifest().complete);
    assert_eq!(trace.actions().map(Result::unwrap).count(), 1000);
}

#[test]
fn every_damage_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.reprise");
    write(&path, true);
    let read = || -> Result<(), ReadError> {
        let trace = TraceReader::open(&path)?;
        trace.check_all()?;
        trace.actions().try_for_each(|a| a.map(drop))
    };
    read().unwrap();
    let files = ["manifest.json", "catalog.jsonl", "ledger.json", "actions/", "blobs/"];
    for prefix in files {
        let file = if prefix.ends_with('/') {
            fs::read_dir(path.join(prefix)).unwrap().next().unwrap().unwrap().path()
        } else {
            path.join(prefix)
        };
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert!(matches!(read(), Err(ReadError::Damaged { .. })), "{prefix} cut in half");
        {
            for at in [0, whole.len() / 3, whole.len() - 2] {
                let mut flipped = whole.clone();
                flipped[at] ^= 4;
                fs::write(&file, &flipped).unwrap();
                assert!(matches!(read(), Err(ReadError::Damaged { .. })), "{prefix} flipped at {at}");
            }
        }
        fs::remove_file(&file).unwrap();
        assert!(read().is_err(), "{prefix} removed");
        fs::write(&file, &whole).unwrap();
        read().unwrap();
    }
}

#[test]
fn versions_are_their_own_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.reprise");
    write(&path, true);
    let text = fs::read_to_string(path.join("manifest.json")).unwrap();
    fs::write(path.join("manifest.json"), text.replace("\"major\": 1", "\"major\": 9")).unwrap();
    assert!(matches!(TraceReader::open(&path), Err(ReadError::TooNew { major: 9, .. })));
    fs::write(path.join("manifest.json"), text.replace("\"major\": 1", "\"major\": 0")).unwrap();
    assert!(matches!(TraceReader::open(&path), Err(ReadError::TooOld { major: 0, .. })));
    assert!(matches!(TraceReader::open(dir.path()), Err(ReadError::NotATrace { .. })));
    fs::write(dir.path().join("manifest.json"), r#"{"format":"another","major":1,"minor":0}"#).unwrap();
    let error = TraceReader::open(dir.path()).err().unwrap().to_string();
    assert!(error.contains("format `another`"), "{error}");
    assert!(matches!(TraceReader::open(&dir.path().join("x")), Err(ReadError::Missing { .. })));
}

/// However many encode, the parts are the same, in the same order.
#[test]
fn encoders_do_not_change_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    let catalogs = [1, 2, 7].map(|encoders| {
        let path = dir.path().join(encoders.to_string());
        let options = WriterOptions { rows: 100, encoders, ..WriterOptions::default() };
        write_with(&path, true, options);
        TraceReader::open(&path).unwrap().check_all().unwrap();
        fs::read_to_string(path.join("catalog.jsonl")).unwrap()
    });
    assert!(catalogs[0].lines().count() > 20);
    assert_eq!(catalogs[0], catalogs[1]);
    assert_eq!(catalogs[0], catalogs[2]);
}

/// An error on the disk is told once, and nothing waits for ever.
#[test]
fn a_folder_that_is_gone_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let options = WriterOptions { rows: 10, encoders: 3, ..WriterOptions::default() };
    let mut writer = TraceWriter::create(&dir.path().join("t"), manifest(), options).unwrap();
    fs::remove_dir(dir.path().join("t/actions")).unwrap();
    let failed = (0..10_000).find_map(|seq| writer.action(action(seq, Vec::new())).err());
    let error = failed.or_else(|| writer.close(None).err()).unwrap();
    assert!(error.to_string().contains("actions/"), "{error}");
}

#[test]
fn a_limit_is_kept_and_what_it_cuts_off_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let options = WriterOptions { rows: 100, max_bytes: Some(1 << 20), ..WriterOptions::default() };
    // Contents that are all different, so that they take room.
    let mut writer = TraceWriter::create(&path, manifest(), options).unwrap();
    let mut state = 1u64;
    for seq in 0..500 {
        let content: Vec<u8> = (0..16 << 10)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as u8
            })
            .collect();
        let data = writer.blob(&content, Keep::ByPolicy).unwrap();
        writer.action(action(seq, data)).unwrap();
    }
    assert!(writer.is_full());
    writer.close(None).unwrap();
    let trace = TraceReader::open(&path).unwrap();
    trace.check_all().unwrap();
    let stored: Vec<Action> = trace.actions().map(Result::unwrap).collect();
    let mut blobs = trace.blobs();
    for row in &stored {
        assert_eq!(blobs.content(&row.data).unwrap().map(|c| c.len()), Some(16 << 10), "what a row refers to is there");
    }
    let dropped = trace.ledger().losses[&Loss::Dropped].values().next().unwrap();
    assert_eq!((stored.len() as u64 + dropped.count, dropped.first), (500, Some(stored.len() as u64)));
    assert!(stored.len() > 20 && trace.manifest().complete);
    let on_disk: u64 = trace.parts().iter().map(|p| p.bytes).sum();
    assert!((512 << 10..1 << 20).contains(&on_disk), "{on_disk}");
}

/// A trace of an earlier minor version has a seal as well.
#[test]
fn seals_of_earlier_minor_versions_count() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.reprise");
    write(&path, true);
    let store = |minor: u32, seal: Option<String>| {
        let text = fs::read(path.join("manifest.json")).unwrap();
        let manifest: Manifest = serde_json::from_slice(&text).unwrap();
        let mut manifest = Manifest { minor, seal: None, ..manifest };
        let right = blake3::hash(&serde_json::to_vec(&manifest).unwrap()).to_hex().to_string();
        manifest.seal = seal.or(Some(right));
        fs::write(path.join("manifest.json"), serde_json::to_vec_pretty(&manifest).unwrap()).unwrap();
        TraceReader::open(&path)
    };
    assert_eq!(store(1, None).unwrap().manifest().minor, 1);
    assert!(matches!(store(1, Some("wrong".into())), Err(ReadError::Damaged { .. })));
    store(9, Some("of fields unknown here".into())).unwrap();
}

/// Contents of more parts than stay in memory, wanted in turn: each part is decoded twice at most, so the files may be gone then.
#[test]
fn contents_come_back_in_any_order() {
    const PART: usize = 256;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let content = |n: usize| (n as u32).to_le_bytes().repeat(16 << 10);
    let mut writer = TraceWriter::create(&path, manifest(), WriterOptions::default()).unwrap();
    for n in 0..4 * PART {
        assert_eq!(writer.blob(&content(n), Keep::ByPolicy).unwrap(), [n as u32]);
    }
    let absent = writer.blob_by_hash([7; 32], 9).unwrap();
    writer.close(None).unwrap();
    let trace = TraceReader::open(&path).unwrap();
    let parts = trace.parts().iter().filter(|part| part.file.starts_with("blobs")).count();
    assert!(parts > 2, "{parts}");
    let mut blobs = trace.blobs();
    for pass in 0..4 {
        if pass == 2 {
            fs::remove_dir_all(path.join("blobs")).unwrap();
        }
        for n in (0..PART).flat_map(|n| (0..4).map(move |part| part * PART + n)) {
            assert_eq!(blobs.get(n as u32).unwrap().content.as_deref(), Some(&content(n)[..]), "{pass}: {n}");
        }
        let found = blobs.get(absent).unwrap();
        assert_eq!((&found.content, found.length, found.blake3), (&None, 9, [7; 32]));
        drop(found);
        assert!(blobs.get(absent + 1).is_err());
    }
}
