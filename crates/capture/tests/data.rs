//! Content is exact, whichever way it moved.

mod common;

use common::{actions, compile, content, record, scratch};
use reprise_trace::{Action, DataPolicy, Loss, TraceReader};

const N: usize = 3 * 1024 * 1024 + 777;

fn expected() -> Vec<u8> {
    let mut x = 12345u32;
    (0..N)
        .map(|_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 24) as u8
        })
        .collect()
}

fn all(reader: &TraceReader, actions: &[Action], call: &str) -> Vec<u8> {
    let moves = actions.iter().filter(|a| a.call == call && a.data_bytes > 0);
    moves
        .flat_map(|a| {
            let bytes = content(reader, a);
            assert_eq!(a.data_bytes, a.result as u64);
            bytes
        })
        .collect()
}

#[test]
fn every_way_of_moving_content() {
    let dir = scratch();
    let Some(program) = compile("move", dir.path()) else {
        return;
    };
    let (output, reader) = record(dir.path(), &[], &[program.to_str().expect("utf-8")]);
    assert_eq!(output.status.code(), Some(0));
    let actions = actions(&reader);
    let expected = expected();
    for call in ["pwritev", "preadv", "sendfile", "copy_file_range"] {
        assert!(all(&reader, &actions, call) == expected, "{call}");
    }
    let writes: Vec<&Action> = actions.iter().filter(|a| a.call == "write").collect();
    assert!(content(&reader, writes[0]) == expected);
    // From a file into a pipe, and from the pipe to another file.
    let spliced = all(&reader, &actions, "splice");
    let part = &expected[5..10_005];
    assert!(spliced == [part, part].concat());
    // Half of the buffer was there.
    let partial = writes[1];
    let bytes = content(&reader, partial);
    assert_eq!((partial.result, partial.data_bytes, bytes.len()), (4096, 4096, 4096));
    assert_eq!(partial.truncated_bytes, 0);
    assert_eq!(reader.ledger().total(Loss::Truncated), 0);
    for (name, bytes) in [("written", &expected[..]), ("sent", &expected), ("copied", &expected)] {
        assert!(std::fs::read(dir.path().join(name)).expect("a file") == bytes, "{name}");
    }
}

#[test]
fn policies() {
    for (flag, policy) in [("hash", DataPolicy::Hash), ("none", DataPolicy::None)] {
        let dir = scratch();
        std::fs::write(dir.path().join("in"), "initial").expect("write");
        let (_, reader) = record(dir.path(), &["--data", flag], &["cat", "in"]);
        assert_eq!(reader.manifest().data, policy);
        let actions = actions(&reader);
        let read = actions.iter().find(|a| a.call == "read" && a.data_bytes == 7).expect("the read");
        assert_eq!(read.data.is_empty(), policy == DataPolicy::None);
        assert!(reader.blobs().content(&read.data).expect("blobs").is_none_or(|b| b.is_empty()));
        let listed = reader.contents().expect("contents");
        assert!(listed.iter().any(|c| c.length == 7 && c.reason == "opened"));
    }
}
