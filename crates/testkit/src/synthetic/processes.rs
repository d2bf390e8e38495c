//! Short processes, up to seven at a time: each loads its libraries, reads, writes, makes and removes a file, and exits.

use reprise_trace::{Name, WriteError};

use super::tape::{File, Numbers, THREADS, Tape};

const O_CLOEXEC: u64 = 0o2000000;
/// `O_WRONLY | O_CREAT | O_TRUNC`.
const CREATE: u64 = 0o1101;
const LIBRARIES: u64 = 8;
const INPUTS: u64 = 500;
/// Descriptors of the parent: each second one ends at an exec.
const INHERITED: u32 = 12;
const MAP_PRIVATE: u64 = 2;
/// Actions for each library, and for a process's own work.
const LOADING: u32 = 8;

/// Actions until a library is replaced (by itself).
const BETWEEN_UPDATES: u64 = 5000;

struct Child {
    thread: u32,
    pid: i64,
    numbers: Numbers,
    fd: u32,
    step: u32,
}

struct Shell<'a> {
    tape: &'a mut Tape,
    libraries: Vec<File>,
    numbers: Numbers,
}

pub(super) fn play(tape: &mut Tape, actions: u64) -> Result<(), WriteError> {
    let mut shell = Shell::begin(tape)?;
    let mut children: Vec<Option<Child>> = (1..THREADS).map(|_| None).collect();
    let mut replaced = 0;
    while shell.tape.seq < actions || children.iter().any(Option::is_some) {
        if shell.tape.seq / BETWEEN_UPDATES > replaced {
            replaced += 1;
            shell.tape.rename(0, "/lib/lib0.so", "/lib/lib0.so.old")?;
            shell.tape.rename(0, "/lib/lib0.so.old", "/lib/lib0.so")?;
        }
        let child = shell.tape.rng.below(u64::from(THREADS) - 1) as usize;
        let child = &mut children[child];
        let Some(running) = child else {
            if shell.tape.seq < actions {
                *child = Some(shell.start()?);
            }
            continue;
        };
        if !shell.step(running)? {
            shell.tape.act(0, "wait4", &[running.pid as u64, 0, 0, 0], running.pid)?;
            *child = None;
        }
    }
    tape.act(0, "exit_group", &[0], 0)
}

impl Shell<'_> {
    fn begin(tape: &mut Tape) -> Result<Shell<'_>, WriteError> {
        let (bin, lib, work) = (tape.directory("bin")?, tape.directory("lib")?, tape.directory("work")?);
        tape.file(bin, "tool", 1 << 20)?;
        let file = |tape: &mut Tape, i: u64| tape.file(lib, &format!("lib{i}.so"), 2 << 20);
        let libraries = (0..LIBRARIES).map(|i| file(tape, i)).collect::<Result<_, _>>()?;
        for i in 0..INPUTS {
            tape.file(work, &format!("input{i}"), 2000)?;
        }
        let mut numbers = Numbers::default();
        for i in 0..INHERITED {
            let fd = numbers.take();
            let flags = if i % 2 == 0 { 0 } else { O_CLOEXEC };
            tape.open(0, &format!("/work/input{i}"), flags, fd.into())?;
        }
        Ok(Shell { tape, libraries, numbers })
    }

    fn start(&mut self) -> Result<Child, WriteError> {
        let (thread, pid) = self.tape.fork(0)?;
        Ok(Child { thread, pid, numbers: self.numbers.clone(), fd: 0, step: 0 })
    }

    /// One action of a child; false if it was the last.
    fn step(&mut self, child: &mut Child) -> Result<bool, WriteError> {
        child.step += 1;
        match child.step - 1 {
            0 => {
                let mut row = self.tape.row(child.thread, "execve", &[1, 1, 1], 0);
                row.path = Some(Name::from("/bin/tool"));
                reprise_trace::payload::append(&mut row.input, Some(b"tool\0"));
                self.tape.put(row)?;
                (1..INHERITED).step_by(2).for_each(|fd| child.numbers.give(fd));
            }
            n if n <= LOADING * 3 => self.load(child, n - 1)?,
            n => return self.work(child, n - 1 - LOADING * 3),
        }
        Ok(true)
    }

    fn load(&mut self, child: &mut Child, step: u32) -> Result<(), WriteError> {
        let number = (u64::from(step / LOADING) + u64::from(child.thread)) % LIBRARIES;
        let (thread, fd) = (child.thread, u64::from(child.fd));
        let address = 0x7f00_0000_0000 + u64::from(step / LOADING) * (4 << 20);
        match step % LOADING {
            0 => {
                child.fd = child.numbers.take();
                self.tape.open(thread, &format!("/lib/lib{number}.so"), O_CLOEXEC, child.fd.into())
            }
            1 => {
                let data = self.tape.content(number, 832)?;
                self.tape.moved(thread, "read", &[fd, 1, 832], data, 832)
            }
            2 => self.tape.stat(thread, child.fd, None, self.libraries[number as usize]),
            n @ 3..=6 => {
                let (fixed, at) = if n == 3 { (0, 0) } else { (0x10, u64::from(n - 3) << 16) };
                let length = if n == 3 { 2 << 20 } else { 1 << 16 };
                let args = [address + at, length, 1, MAP_PRIVATE | fixed, fd, at];
                self.tape.act(thread, "mmap", &args, (address + at) as i64)
            }
            _ => {
                child.numbers.give(child.fd);
                self.tape.act(thread, "close", &[fd], 0)
            }
        }
    }

    fn work(&mut self, child: &mut Child, step: u32) -> Result<bool, WriteError> {
        let (thread, fd) = (child.thread, u64::from(child.fd));
        let output = format!("/work/output{thread}");
        match step {
            0 | 4 => {
                child.fd = child.numbers.take();
                match step {
                    0 => {
                        let input = u64::from(thread) % INPUTS;
                        self.tape.open(thread, &format!("/work/input{input}"), 0, child.fd.into())?;
                    }
                    _ => self.tape.open(thread, &output, CREATE, child.fd.into())?,
                }
            }
            1 => {
                let data = self.tape.content(100 + u64::from(thread) % INPUTS, 2000)?;
                self.tape.moved(thread, "read", &[fd, 1, 4096], data, 2000)?;
            }
            2 => self.tape.act(thread, "dup2", &[fd, 0], 0)?,
            5 => {
                let data = self.tape.content(1000, 500)?;
                self.tape.moved(thread, "write", &[fd, 1, 500], data, 500)?;
            }
            3 | 6 => {
                child.numbers.give(child.fd);
                self.tape.act(thread, "close", &[fd], 0)?;
            }
            7 => self.tape.on_path(thread, "unlink", &output, &[1], 0)?,
            _ => {
                self.tape.act(thread, "exit_group", &[0], 0)?;
                return Ok(false);
            }
        }
        Ok(true)
    }
}
