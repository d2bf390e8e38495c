//! What calls and requests in the kernel tell, taken in one by one.

use reprise_calls::by_name;

use reprise_trace::{DataPolicy, Host, Kind, Loss, Manifest, TraceWriter, WriterOptions};

use super::*;
use crate::kept::{Bytes, Range};

const BLOCK: u64 = 0x1000;
const BUFFER: u64 = 0x9000;
const QUEUE: u64 = 0x7000;

struct Taken {
    requests: Asynchronous,
    log: Log,
    _dir: tempfile::TempDir,
}

impl Taken {
    fn new() -> Taken {
        let dir = tempfile::tempdir().expect("a directory");
        let manifest = Manifest::new(Kind::Record, DataPolicy::Full, Vec::new(), "0".repeat(32), 0, Host::default());
        let writer = TraceWriter::create(&dir.path().join("trace"), manifest, WriterOptions::default());
        let log = Log::new(writer.expect("a trace"), DataPolicy::Full);
        Taken { requests: Asynchronous::default(), log, _dir: dir }
    }

    /// A call of thread and process 1 is over.
    fn call(&mut self, name: &str, args: &[u64], result: i64, times: (u64, u64), memory: &[(u64, Vec<u8>)]) -> About {
        let mut heard = join::Heard { tid: 1, pid: 1, end_ns: times.1, kept: kept(memory), ..join::Heard::default() };
        (heard.call.begin_ns, heard.call.result) = (times.0, result);
        heard.call.args[..args.len()].copy_from_slice(args);
        self.requests.called(&heard, by_name(name).expect("a call"), times.1, &mut self.log)
    }

    fn dropped(&mut self) -> u64 {
        self.log.ledger().total(Loss::Dropped)
    }

    /// Call, first argument and result of each action so far.
    fn rows(&self) -> Vec<(String, u64, i64)> {
        let row = |row: &Pending| (row.action.call.to_string(), row.action.args[0], row.action.result);
        self.requests.out.rows.iter().map(row).collect()
    }
}

fn kept(memory: &[(u64, Vec<u8>)]) -> Kept {
    let mut out = Kept::default();
    for (address, bytes) in memory {
        out.add(Range { address: *address, when: When::Exit, bytes: Bytes::Here(bytes.clone()) });
    }
    out
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A call that submits a read of 512 bytes.
fn submitted(block: u64) -> [(u64, Vec<u8>); 2] {
    [(0x500, words(&[block])), (block, words(&[77, 0, 5 << 32, BUFFER, 512, 0, 0, 0]))]
}

/// A call that fetches its completion.
fn fetched(block: u64) -> [(u64, Vec<u8>); 2] {
    [(0x600, words(&[77, block, 512, 0])), (BUFFER, vec![7; 512])]
}

#[test]
fn what_was_fetched_before_the_call_was_over_that_submitted_it_is_not_lost() {
    let mut taken = Taken::new();
    taken.call("io_getevents", &[QUEUE, 1, 1, 0x600], 1, (10, 30), &fetched(BLOCK));
    assert_eq!(taken.rows(), [], "of no request that is known");
    taken.call("io_submit", &[QUEUE, 1, 0x500], 1, (20, 40), &submitted(BLOCK));
    assert_eq!(taken.rows(), [("pread64".to_owned(), 5, 512)]);
    let action = &taken.requests.out.rows[0].action;
    assert_eq!((action.begin_ns, action.end_ns(), action.data.len()), (20, 30, 1));
    taken.requests.finish(50, &mut taken.log);
    assert_eq!(taken.dropped(), 0);
}

#[test]
fn what_was_fetched_before_is_of_no_later_request() {
    let mut taken = Taken::new();
    taken.call("io_getevents", &[QUEUE, 1, 1, 0x600], 1, (10, 30), &fetched(BLOCK));
    taken.call("io_submit", &[QUEUE, 1, 0x500], 1, (31, 40), &submitted(BLOCK));
    assert_eq!(taken.rows(), []);
    taken.call("io_getevents", &[QUEUE, 1, 1, 0x600], 1, (41, 45), &fetched(BLOCK));
    assert_eq!(taken.rows(), [("pread64".to_owned(), 5, 512)]);
    assert_eq!(taken.requests.out.rows[0].action.end_ns(), 45);
}

#[test]
fn requests_on_a_lane_follow_each_other() {
    let mut taken = Taken::new();
    taken.call("io_submit", &[QUEUE, 1, 0x500], 1, (10, 20), &submitted(BLOCK));
    taken.call("io_getevents", &[QUEUE, 1, 1, 0x600], 1, (10, 40), &fetched(BLOCK));
    taken.call("io_submit", &[QUEUE, 1, 0x500], 1, (30, 50), &submitted(BLOCK + 64));
    taken.call("io_getevents", &[QUEUE, 1, 1, 0x600], 1, (55, 60), &fetched(BLOCK + 64));
    let lanes: Vec<_> = taken.requests.out.rows.iter().map(|row| row.tid).collect();
    assert_eq!(lanes.len(), 2);
    assert_ne!(lanes[0], lanes[1], "the first was complete when the second had begun");
}

#[test]
fn the_table_of_a_ring_lives_as_long_as_a_copy_of_its_descriptor() {
    let mut taken = Taken::new();
    taken.requests.ring(1, 1, Ring { ring: 99, fd: 3 }, &mut taken.log);
    let files = [(0x800, vec![5, 0, 0, 0])];
    taken.call("io_uring_register", &[3, 2, 0x800, 1], 0, (10, 11), &files);
    taken.call("dup", &[3], 9, (12, 13), &[]);
    taken.call("dup2", &[3, 3], 3, (12, 13), &[]);
    taken.call("close", &[3], 0, (14, 15), &[]);
    assert_eq!(taken.rows().len(), 1, "what is registered");
    taken.call("dup2", &[0, 9], 9, (16, 17), &[]);
    assert_eq!(taken.rows().last().map(|row| row.0.clone()), Some("close".to_owned()));
}
