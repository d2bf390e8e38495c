//! A thread writes what it has just read: from where it was read to, if that is what was traced.

use std::fs;

use reprise_plan::command::{Arg, Command, Expect, digest};
use reprise_replay::run::ReplayResult;

mod scratch;
mod script;
use scratch::Scratch;
use script::{Script, issue, options, run};

const RW: i32 = libc::O_RDWR | libc::O_CREAT;
const BYTES: u64 = 10240;

fn traced() -> Vec<u8> {
    (0..BYTES).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// Reads all of a file that has this content, and writes a part of what the trace says it read; what the target has then.
fn pass_on(name: &str, present: &[u8], digest: u64, range: std::ops::Range<u64>) -> (ReplayResult, Vec<u8>) {
    let scratch = Scratch::new(name);
    let mut s = Script::new(scratch.path());
    let p = s.process(vec![]);
    let t = s.thread(p, false);
    s.open(t, "/from", RW, 0);
    s.write(t, 0, present);
    s.open(t, "/to", RW, 1);
    let (at, length) = s.content(&traced());
    let read = issue("pread64", &[Arg::Fd(0), Arg::Out(length), Arg::Value(length), Arg::Value(0)], length as i64);
    s.add(t, Command { expect: Expect::Content(at, length), digest, within: 16, ..read });
    let part = range.end - range.start;
    let args = [Arg::Fd(1), Arg::Content(at + range.start, part), Arg::Value(part)];
    s.add(t, Command { within: (16 + range.start) as u16 % 4096, ..issue("write", &args, part as i64) });
    s.exit(t);
    let plan = s.finish();
    let target = scratch.dir("target");
    let result = run(&plan, &target, &options()).unwrap();
    (result, fs::read(target.join("to")).unwrap())
}

#[test]
fn what_was_read_as_traced_is_written() {
    for (number, range) in [0..BYTES, 512..BYTES, 5000..5001, BYTES - 1..BYTES].into_iter().enumerate() {
        let name = format!("passed-on-{number}");
        let (result, written) = pass_on(&name, &traced(), digest(&traced()), range.clone());
        assert_eq!(result.divergences, []);
        assert!(written == traced()[range.start as usize..range.end as usize], "{range:?}");
    }
}

#[test]
fn what_was_read_otherwise_differs_and_what_was_traced_is_written() {
    for (name, changed) in [("passed-on-first", 0), ("passed-on-last", BYTES as usize - 1)] {
        let mut present = traced();
        present[changed] ^= 1;
        let (result, written) = pass_on(name, &present, digest(&traced()), 0..BYTES);
        assert_eq!(result.divergences.len(), 1, "{:?}", result.divergences);
        assert!(written == traced());
    }
}

#[test]
fn without_its_digest_content_itself_is_compared() {
    for (name, digest) in [("passed-on-none", 0), ("passed-on-wrong", digest(b"other"))] {
        let (result, written) = pass_on(name, &traced(), digest, 512..BYTES);
        assert_eq!(result.divergences, []);
        assert!(written == traced()[512..]);
    }
}
