//! A build: each thread compiles units; a unit reads its source and headers, which it searches in several directories,
//! and writes an object.

use std::collections::HashMap;

use reprise_trace::WriteError;

use super::tape::{File, Numbers, THREADS, Tape};

const ENOENT: i64 = -2;
const O_CLOEXEC: u64 = 0o2000000;
/// `O_WRONLY | O_CREAT | O_TRUNC`.
const CREATE: u64 = 0o1101;
const DIRECTORIES: u64 = 40;
const HEADERS: u64 = 20_000;
/// Files that a unit reads, its source first.
const READ_BY_UNIT: u32 = 60;
const BYTES: u64 = 3000;

struct Unit {
    number: u64,
    read: u32,
    header: u64,
    /// Directories still to be searched in vain.
    misses: u64,
    step: u32,
    fd: u32,
}

struct Build<'a> {
    tape: &'a mut Tape,
    numbers: Numbers,
    directories: Vec<u64>,
    sources: u64,
    headers: HashMap<u64, File>,
    units: u64,
}

pub(super) fn play(tape: &mut Tape, actions: u64) -> Result<(), WriteError> {
    let sources = tape.directory("src")?;
    tape.directory("out")?;
    let directories = (0..DIRECTORIES).map(|i| tape.directory(&format!("include{i}"))).collect::<Result<_, _>>()?;
    tape.start_threads()?;
    let mut build =
        Build { tape, numbers: Numbers::default(), directories, sources, headers: HashMap::new(), units: 0 };
    let mut units: Vec<Option<Unit>> = (0..THREADS).map(|_| None).collect();
    while build.tape.seq < actions || units.iter().any(Option::is_some) {
        let thread = build.tape.rng.below(THREADS.into()) as u32;
        let unit = &mut units[thread as usize];
        let Some(running) = unit else {
            if build.tape.seq < actions {
                *unit = Some(build.begin()?);
            }
            continue;
        };
        if !build.step(thread, running)? {
            *unit = None;
        }
    }
    tape.end_threads()
}

impl Build<'_> {
    fn begin(&mut self) -> Result<Unit, WriteError> {
        self.units += 1;
        let number = self.units;
        self.tape.file(self.sources, &format!("unit{number}.c"), BYTES)?;
        Ok(Unit { number, read: 0, header: 0, misses: 0, step: 0, fd: 0 })
    }

    /// One action of a unit; false if it was the last.
    fn step(&mut self, thread: u32, unit: &mut Unit) -> Result<bool, WriteError> {
        if unit.read == READ_BY_UNIT {
            return self.output(thread, unit);
        }
        if unit.misses > 0 {
            let directory = (unit.header + unit.misses) % DIRECTORIES;
            unit.misses -= 1;
            let path = format!("/include{directory}/part{}.h", unit.header);
            self.tape.open(thread, &path, O_CLOEXEC, ENOENT)?;
            return Ok(true);
        }
        let fd = u64::from(unit.fd);
        match unit.step {
            0 => {
                let path = self.path(unit)?;
                unit.fd = self.numbers.take();
                self.tape.open(thread, &path, O_CLOEXEC, unit.fd.into())?;
            }
            1 => {
                let inode = self.headers.get(&unit.header).map_or(unit.number, |f| f.inode);
                self.tape.stat(thread, unit.fd, None, File { inode, size: BYTES })?;
            }
            2 => {
                let data = self.tape.content(unit.header % 1024, BYTES as usize)?;
                self.tape.moved(thread, "read", &[fd, 1, BYTES], data, BYTES)?;
            }
            _ => {
                self.tape.act(thread, "close", &[fd], 0)?;
                self.numbers.give(unit.fd);
                unit.read += 1;
                // Some headers are used far more than others.
                unit.header = self.tape.rng.below(HEADERS).min(self.tape.rng.below(HEADERS));
                unit.misses = self.tape.rng.below(4);
            }
        }
        unit.step = (unit.step + 1) % 4;
        Ok(true)
    }

    fn path(&mut self, unit: &Unit) -> Result<String, WriteError> {
        if unit.read == 0 {
            return Ok(format!("/src/unit{}.c", unit.number));
        }
        let directory = unit.header % DIRECTORIES;
        let name = format!("part{}.h", unit.header);
        if !self.headers.contains_key(&unit.header) {
            let file = self.tape.file(self.directories[directory as usize], &name, BYTES)?;
            self.headers.insert(unit.header, file);
        }
        Ok(format!("/include{directory}/{name}"))
    }

    fn output(&mut self, thread: u32, unit: &mut Unit) -> Result<bool, WriteError> {
        let fd = u64::from(unit.fd);
        match unit.step {
            0 => {
                unit.fd = self.numbers.take();
                self.tape.open(thread, &format!("/out/unit{}.o", unit.number), CREATE, unit.fd.into())?;
            }
            1 => {
                let data = self.tape.content((1 << 32) + unit.number, BYTES as usize)?;
                self.tape.moved(thread, "write", &[fd, 1, BYTES], data, BYTES)?;
            }
            _ => {
                self.tape.act(thread, "close", &[fd], 0)?;
                self.numbers.give(unit.fd);
                return Ok(false);
            }
        }
        unit.step += 1;
        Ok(true)
    }
}
