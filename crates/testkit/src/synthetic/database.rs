//! A database: pages of few files at any position, a log that is begun anew when it is long.

use reprise_trace::WriteError;

use super::tape::{File, Numbers, THREADS, Tape};

const FILES: u64 = 16;
const FILE_BYTES: u64 = 64 << 20;
const PAGE: u64 = 8192;
/// Different pages.
const PAGES: u64 = 4096;
/// Records of a log.
const RECORDS: u64 = 20_000;
const O_RDWR: u64 = 2;
/// `O_WRONLY | O_CREAT | O_APPEND`.
const LOG: u64 = 0o2101;

struct Log {
    number: u64,
    fd: u32,
    records: u64,
}

pub(super) fn play(tape: &mut Tape, actions: u64) -> Result<(), WriteError> {
    let directory = tape.directory("data")?;
    let mut numbers = Numbers::default();
    let mut files: Vec<(u32, File)> = Vec::new();
    for i in 0..FILES {
        let name = format!("table.{i}");
        let file = tape.file(directory, &name, FILE_BYTES)?;
        let fd = numbers.take();
        tape.open(0, &format!("/data/{name}"), O_RDWR, fd.into())?;
        files.push((fd, file));
    }
    let mut log = Log { number: 0, fd: numbers.take(), records: 0 };
    tape.open(0, "/data/log.0", LOG, log.fd.into())?;
    tape.start_threads()?;
    while tape.seq < actions {
        let thread = tape.rng.below(THREADS.into()) as u32;
        let (fd, file) = files[tape.rng.below(FILES) as usize];
        let fd = u64::from(fd);
        let page = tape.rng.below(FILE_BYTES / PAGE);
        match tape.rng.below(100) {
            0..60 => {
                // The page is what it was at first: the replay's initial tree has it.
                let data = tape.content((page * FILES + fd) % PAGES, PAGE as usize)?;
                tape.moved(thread, "pread64", &[fd, 1, PAGE, page * PAGE], data, PAGE)?;
            }
            60..75 => {
                let number = tape.rng.below(PAGES);
                let data = tape.content(number, PAGE as usize)?;
                tape.moved(thread, "pwrite64", &[fd, 1, PAGE, page * PAGE], data, PAGE)?;
            }
            75..90 => {
                let data = tape.content(PAGES + log.records % 64, 200)?;
                tape.moved(thread, "write", &[log.fd.into(), 1, 200], data, 200)?;
                log.records += 1;
            }
            90..96 => tape.act(thread, "fdatasync", &[log.fd.into()], 0)?,
            96..98 => tape.act(thread, "lseek", &[fd, page * PAGE, 0], (page * PAGE) as i64)?,
            _ => tape.stat(thread, fd as u32, None, file)?,
        }
        if log.records >= RECORDS {
            log = rotate(tape, thread, log)?;
        }
    }
    tape.end_threads()
}

/// Begins the next log and removes the one before this.
fn rotate(tape: &mut Tape, thread: u32, log: Log) -> Result<Log, WriteError> {
    tape.act(thread, "close", &[log.fd.into()], 0)?;
    let number = log.number + 1;
    tape.open(thread, &format!("/data/log.{number}"), LOG, log.fd.into())?;
    if let Some(old) = number.checked_sub(2) {
        tape.on_path(thread, "unlink", &format!("/data/log.{old}"), &[1], 0)?;
    }
    Ok(Log { number, fd: log.fd, records: 0 })
}
