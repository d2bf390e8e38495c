//! Cached reads: each thread reads blocks of a file of its own, and now and then writes one again as it is. As many actions
//! as are wanted, with few files and contents: for what a replay's memory must not grow with.

use reprise_trace::WriteError;

use super::tape::{THREADS, Tape};

const FILE_BYTES: u64 = 1 << 20;
const BLOCK: u64 = 1024;
/// Different blocks of all files.
const CONTENTS: u64 = 64;
const O_RDWR: u64 = 2;

pub(super) fn play(tape: &mut Tape, actions: u64) -> Result<(), WriteError> {
    let directory = tape.directory("data")?;
    for thread in 0..THREADS {
        let name = format!("file.{thread}");
        tape.file(directory, &name, FILE_BYTES)?;
        tape.open(0, &format!("/data/{name}"), O_RDWR, thread.into())?;
    }
    tape.start_threads()?;
    while tape.seq < actions {
        let thread = tape.rng.below(THREADS.into()) as u32;
        let block = tape.rng.below(FILE_BYTES / BLOCK);
        let call = if tape.rng.below(10) == 0 { "pwrite64" } else { "pread64" };
        let data = tape.content(block % CONTENTS, BLOCK as usize)?;
        tape.moved(thread, call, &[thread.into(), 1, BLOCK, block * BLOCK], data, BLOCK)?;
    }
    tape.end_threads()
}
