//! Plans that are longer than what is held of them: commands that are brought, records that are carried away.

use std::fs;

use reprise_plan::command::{Arg, Command};
use reprise_plan::tree::NodeKind;
use reprise_plan::{Chunk, Plan};
use reprise_replay::log::Record;
use reprise_replay::run::{End, Executor, Options, ReplayResult};

mod scratch;
mod script;
use scratch::Scratch;
use script::{Script, issue, node, options, run};

const RW: i32 = libc::O_RDWR | libc::O_CREAT;
/// Rounds of each thread: far more commands than any chunk holds.
const ROUNDS: u64 = 3000;

fn brought(executor: Executor) -> Options {
    Options { executor, mapped_bytes: 0, ..options() }
}

/// Two threads that write the same file in turn, each waiting for the other, and read back what both have written.
fn turns(scratch: &Scratch, chunk_words: usize) -> Plan {
    let mut s = Script::new(scratch.path());
    s.chunk_words = chunk_words;
    s.contents.tree = vec![node("/", NodeKind::Directory, 0o755)];
    let threads = [0, 1].map(|_| {
        let p = s.process(vec![]);
        s.thread(p, false)
    });
    for (slot, t) in (0..).zip(threads) {
        s.open(t, &format!("/f{slot}"), RW, slot);
    }
    for round in 0..ROUNDS {
        for (slot, t) in (0..).zip(threads) {
            let (at, length) = s.content(&(round * 2 + u64::from(slot)).to_le_bytes());
            let args = [Arg::Fd(slot), Arg::Content(at, length), Arg::Value(length), Arg::Value(round % 100 * 8)];
            let other = threads[1 - slot as usize];
            s.add_after(t, &[(other, 2 * round + 1)], issue("pwrite64", &args, 8));
            let args = [Arg::Fd(slot), Arg::Out(8), Arg::Value(8), Arg::Value(round % 100 * 8)];
            let expect = reprise_plan::command::Expect::Content(at, length);
            s.add(t, Command { expect, ..issue("pread64", &args, 8) });
        }
    }
    threads.into_iter().for_each(|t| s.exit(t));
    s.finish()
}

fn by_thread(result: &ReplayResult) -> [Vec<Record>; 2] {
    let mut threads = [Vec::new(), Vec::new()];
    // As they lie in the log: batches of one thread in order.
    result.log.each(|record| threads[record.thread as usize].push(record)).unwrap();
    threads
}

#[test]
fn long_plans_go_as_short_ones() {
    let scratch = Scratch::new("streaming-same");
    for (name, words) in [("small", 64), ("odd", 1001), ("large", 20_000), ("one", usize::MAX)] {
        for executor in [Executor::Sync, Executor::Uring, Executor::Linked, Executor::Polled, Executor::Touch] {
            let plan = turns(&scratch, words);
            let dir = scratch.dir(&format!("{name}-{executor}"));
            let result = run(&plan, &dir, &brought(executor)).unwrap();
            assert!(matches!(result.end, End::Complete), "{name} {executor}: {:?}", result.end);
            assert_eq!((result.counts.diverged, result.counts.actions), (0, result.planned), "{name} {executor}");
            let is_brought = words < usize::MAX;
            let read_bytes = result.cost.unwrap().plan_bytes;
            assert_eq!(read_bytes >= plan.contents.command_section.length, is_brought, "{name}: {read_bytes}");
            for records in by_thread(&result) {
                // Nothing was lost on the way to the log, and nothing overtook what was before it.
                assert_eq!(records.len() as u64, 2 * ROUNDS + 2);
                assert!(records.windows(2).all(|w| w[0].origin < w[1].origin && w[0].end_ns <= w[1].end_ns));
            }
            for slot in 0..2u64 {
                let bytes = fs::read(dir.join(format!("f{slot}"))).unwrap();
                let last = (ROUNDS - 1) * 2 + slot;
                assert_eq!(bytes[(ROUNDS - 1) as usize % 100 * 8..][..8], last.to_le_bytes());
            }
        }
    }
}

#[test]
fn chunks_that_no_compiler_makes_end_in_a_word() {
    let scratch = Scratch::new("streaming-hostile");
    let mut plan = turns(&scratch, 64);
    let whole = plan.contents.command_section.length / 8;
    let chunks = [
        Chunk { first: whole, words: 1 },
        Chunk { first: u64::MAX, words: u64::MAX },
        Chunk { first: 3, words: 5 },
        Chunk { first: 0, words: 0 },
        Chunk { first: u64::MAX / 8, words: 10 },
    ];
    for (i, chunk) in chunks.into_iter().enumerate() {
        let dir = scratch.dir(&format!("target{i}"));
        plan.contents.threads[0].chunks[1] = chunk;
        let result = run(&plan, &dir, &brought(Executor::Sync)).unwrap();
        assert!(!matches!(result.end, End::Complete), "{chunk:?}");
    }
}

#[test]
fn a_plan_that_ends_too_early_is_an_error() {
    let scratch = Scratch::new("streaming-short");
    let plan = turns(&scratch, 1000);
    fs::File::options().write(true).open(&plan.path).unwrap().set_len(plan.contents.command_section.offset).unwrap();
    let result = run(&plan, &scratch.dir("target"), &brought(Executor::Sync)).unwrap();
    let End::Failed(error) = &result.end else { panic!("{:?}", result.end) };
    assert!(error.to_string().contains("read the plan"), "{error}");
}
