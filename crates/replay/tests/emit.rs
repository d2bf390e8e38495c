//! A replay's trace of itself, beside the original.

use std::collections::BTreeMap;

use reprise_plan::command::{Arg, Command, Expect, Op};
use reprise_replay::emit::{Around, EmitError, emit};
use reprise_trace::{
    Action, DataPolicy, Environment, Host, Keep, Kind, Loss, Manifest, Process, ThreadRow, TraceReader, TraceWriter,
    WriterOptions, payload,
};

mod scratch;
mod script;
use scratch::Scratch;
use script::{NONE, Script, issue, op, options, run};

fn row(seq: u64, call: &str, args: [u64; 6], result: i64) -> Action {
    Action {
        seq,
        thread: 0,
        call: call.to_owned().into(),
        begin_ns: seq * 10,
        duration_ns: 5,
        args,
        result,
        ..Action::default()
    }
}

#[test]
fn equal_content_is_referred_to_and_other_is_kept() {
    let scratch = Scratch::new("emit");
    let mut s = Script::new(scratch.path());
    s.contents.trace = "abc".into();
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    let mut stat = [0u8; 144];
    stat[16] = 1;
    stat[24..28].copy_from_slice(&(libc::S_IFREG | 0o644).to_le_bytes());
    stat[48] = 8;
    let own = reprise_replay::sys::user();
    stat[28..32].copy_from_slice(&own.0.to_le_bytes());
    stat[32..36].copy_from_slice(&own.1.to_le_bytes());
    s.open(t, "/f", libc::O_RDWR | libc::O_CREAT, 0); // 0
    s.write(t, 0, b"contents"); // 1
    s.add(t, issue("lseek", &[Arg::Fd(0), Arg::Value(0), Arg::Value(0)], 0)); // 2
    s.read(t, 0, b"cont"); // 3
    s.read(t, 0, b"ENTS"); // 4: differs
    let at = s.bytes(&stat);
    s.add(t, Command { expect: Expect::Metadata(at, 144), ..issue("fstat", &[Arg::Fd(0), Arg::Out(144)], 0) }); // 5
    s.add(t, op("mount", Op::Skip, &[], 0, [NONE, NONE])); // 6
    s.add(t, op("connect", Op::Simulate, &[], -111, [NONE, NONE])); // 7
    s.exit(t); // 8
    let result = run(&s.finish(), &scratch.dir("target"), &options()).unwrap();
    assert_eq!((result.counts.diverged, result.counts.unavoidable, result.counts.actions), (1, 1, 9));

    let host = Host::default();
    let manifest = Manifest::new(Kind::Record, DataPolicy::Full, vec!["prog".into()], "abc".into(), 5, host);
    let original = scratch.path().join("original");
    let mut w = TraceWriter::create(&original, manifest, WriterOptions::default()).unwrap();
    w.process(Process { process: 0, pid: 7, ..Process::default() }).unwrap();
    w.thread(ThreadRow { thread: 0, ..ThreadRow::default() }).unwrap();
    let data = |w: &mut TraceWriter, mut row: Action, bytes: &[u8]| {
        row.data = w.blob(bytes, Keep::ByPolicy).unwrap();
        row.data_bytes = bytes.len() as u64;
        w.action(row).unwrap();
    };
    w.action(row(0, "openat", [0, 1, 2, 3, 0, 0], 3)).unwrap();
    data(&mut w, row(1, "write", [3, 1, 8, 0, 0, 0], 8), b"contents");
    w.action(row(2, "lseek", [3, 0, 0, 0, 0, 0], 0)).unwrap();
    data(&mut w, row(3, "read", [3, 1, 4, 0, 0, 0], 4), b"cont");
    data(&mut w, row(4, "read", [3, 1, 4, 0, 0, 0], 4), b"ENTS");
    let mut fstat = row(5, "fstat", [3, 1, 0, 0, 0, 0], 0);
    payload::append(&mut fstat.output, Some(&stat));
    w.action(fstat).unwrap();
    w.action(row(6, "mount", [0; 6], 0)).unwrap();
    w.action(row(7, "connect", [0; 6], -111)).unwrap();
    w.action(row(8, "exit_group", [0; 6], 0)).unwrap();
    w.close(None).unwrap();

    let original = TraceReader::open(&original).unwrap();
    let out = scratch.path().join("result");
    let facts = BTreeMap::from([("run".to_owned(), "1".to_owned())]);
    let sample = Environment { time_ns: 5, dirty_bytes: 7, ..Environment::default() };
    let around = Around { facts, environment: vec![sample.clone()], ..Around::default() };
    emit(&result, &original, &out, &around).unwrap();
    let replayed = TraceReader::open(&out).unwrap();
    replayed.check_all().unwrap();
    let manifest = replayed.manifest();
    assert_eq!((manifest.kind, manifest.origin.as_deref(), manifest.complete), (Kind::Replay, Some("abc"), true));
    assert_eq!((manifest.facts["order"].as_str(), manifest.facts["run"].as_str()), ("test", "1"));
    let rows: Vec<Action> = replayed.actions().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 9);
    for (n, row) in rows.iter().enumerate() {
        assert_eq!((row.seq, row.origin), (n as u64, Some(n as u64)));
    }
    assert_eq!((rows[0].result, rows[0].args), (3, [0, 1, 2, 3, 0, 0]));
    let hash = |n: usize| replayed.blobs().get(rows[n].data[0]).unwrap().blake3;
    assert_eq!(hash(1), *blake3::hash(b"contents").as_bytes());
    assert_eq!(hash(3), *blake3::hash(b"cont").as_bytes());
    assert_eq!(replayed.blobs().content(&rows[4].data).unwrap().as_deref(), Some(&b"ents"[..]));
    assert_eq!(rows[4].difference.as_deref(), Some("content differs at byte 0 of 4"));
    let call = reprise_calls::by_name("fstat").unwrap();
    let found = payload::split(call, payload::Side::Output, &rows[5].output)[1].unwrap();
    assert_eq!((found.len(), &found[16..28], &found[48..56]), (144, &stat[16..28], &stat[48..56]));
    assert_ne!(found[8..16], stat[8..16]);
    assert!(
        rows[5].difference.as_deref().unwrap().starts_with("unavoidable: device, inode"),
        "{:?}",
        rows[5].difference
    );
    assert_eq!(rows[6].handling.as_deref(), Some("skipped"));
    assert_eq!((rows[7].handling.as_deref(), rows[7].errno.as_deref()), (Some("simulated"), Some("ECONNREFUSED")));
    assert_eq!(replayed.threads().unwrap().len(), 1);
    assert_eq!(replayed.rows::<Environment>().collect::<Result<Vec<_>, _>>().unwrap(), [sample]);
    let ledger = replayed.ledger();
    assert!(ledger.losses[&Loss::Diverged].contains_key("read: content differs"));
    assert!(ledger.losses[&Loss::Skipped].contains_key("mount: a replay mounts nothing"));
    assert!(ledger.notes.keys().any(|k| k.starts_with("unavoidable: device")), "{:?}", ledger.notes);

    let mut other = result;
    other.trace = "xyz".into();
    let wrong = emit(&other, &original, &scratch.path().join("wrong"), &around);
    assert!(matches!(wrong, Err(EmitError::OtherTrace { .. })));
}
