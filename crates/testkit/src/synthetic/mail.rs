//! A mail server: deliveries and fetches, each a few actions, in turn on all threads.

use std::collections::VecDeque;

use reprise_trace::WriteError;

use super::tape::{AT_FDCWD, File, Numbers, THREADS, Tape};

const ENOENT: i64 = -2;
/// `O_WRONLY | O_CREAT | O_EXCL`.
const CREATE: u64 = 0o301;
/// Messages that wait for being fetched.
const WAITING: usize = 1000;

#[derive(Clone, Copy)]
struct Message {
    number: u64,
    file: File,
}

/// What a thread is at.
struct Session {
    message: Message,
    fetches: bool,
    step: u32,
    fd: u32,
}

struct Server<'a> {
    tape: &'a mut Tape,
    numbers: Numbers,
    waiting: VecDeque<Message>,
    delivered: u64,
}

pub(super) fn play(tape: &mut Tape, actions: u64) -> Result<(), WriteError> {
    for name in ["tmp", "new", "cur"] {
        tape.directory(name)?;
    }
    tape.start_threads()?;
    let mut server = Server { tape, numbers: Numbers::default(), waiting: VecDeque::new(), delivered: 0 };
    let mut sessions: Vec<Option<Session>> = (0..THREADS).map(|_| None).collect();
    while server.tape.seq < actions || sessions.iter().any(Option::is_some) {
        let thread = server.tape.rng.below(THREADS.into()) as u32;
        let session = &mut sessions[thread as usize];
        match session {
            None if server.tape.seq < actions => *session = Some(server.begin()),
            None => {}
            Some(running) => {
                let goes_on =
                    if running.fetches { server.fetch(thread, running)? } else { server.deliver(thread, running)? };
                running.step += 1;
                if !goes_on {
                    *session = None;
                }
            }
        }
    }
    tape.end_threads()
}

impl Server<'_> {
    fn begin(&mut self) -> Session {
        let oldest = if self.waiting.len() > WAITING { self.waiting.pop_front() } else { None };
        let fetches = oldest.is_some();
        let message = oldest.unwrap_or_else(|| {
            self.delivered += 1;
            let size = 100 + self.tape.rng.below(1000);
            Message { number: self.delivered, file: File { inode: self.tape.inode(), size } }
        });
        Session { message, fetches, step: 0, fd: 0 }
    }

    fn deliver(&mut self, thread: u32, s: &mut Session) -> Result<bool, WriteError> {
        let Message { number, file } = s.message;
        match s.step {
            0 => {
                s.fd = self.numbers.take();
                self.tape.open(thread, &format!("/tmp/{number}.mx1"), CREATE, s.fd.into())?;
            }
            1 => {
                // A quarter is content that nobody has seen before.
                let text = if number % 4 == 0 { number } else { number % 512 };
                let size = if number % 4 == 0 { file.size } else { 100 + number % 512 };
                s.message.file.size = size;
                let data = self.tape.content(text, size as usize)?;
                self.tape.moved(thread, "write", &[s.fd.into(), 1, size], data, size)?;
            }
            2 => self.tape.act(thread, "fsync", &[s.fd.into()], 0)?,
            3 => {
                self.tape.act(thread, "close", &[s.fd.into()], 0)?;
                self.numbers.give(s.fd);
            }
            _ => {
                self.tape.rename(thread, &format!("/tmp/{number}.mx1"), &format!("/new/{number}.mx1"))?;
                self.waiting.push_back(s.message);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fetch(&mut self, thread: u32, s: &mut Session) -> Result<bool, WriteError> {
        let Message { number, file } = s.message;
        let (new, cur) = (format!("/new/{number}.mx1"), format!("/cur/{number}.mx1:2,S"));
        match s.step {
            0 => self.tape.stat(thread, 0, Some(&new), file)?,
            1 => {
                s.fd = self.numbers.take();
                self.tape.open(thread, &new, 0, s.fd.into())?;
            }
            2 => self.tape.stat(thread, s.fd, None, file)?,
            3 => {
                let text = if number % 4 == 0 { number } else { number % 512 };
                let data = self.tape.content(text, file.size as usize)?;
                self.tape.moved(thread, "read", &[s.fd.into(), 1, 4096], data, file.size)?;
            }
            4 => {
                self.tape.act(thread, "close", &[s.fd.into()], 0)?;
                self.numbers.give(s.fd);
            }
            5 => self.tape.rename(thread, &new, &cur)?,
            6 => self.tape.on_path(thread, "unlink", &cur, &[1], 0)?,
            _ => {
                // Gone now; or gone for long.
                let old = number.saturating_sub(2 * WAITING as u64);
                let gone = match old > 0 && number % 8 == 0 {
                    true => format!("/new/{}.mx1", 1 + self.tape.rng.below(old)),
                    false => cur,
                };
                self.tape.on_path(thread, "newfstatat", &gone, &[AT_FDCWD, 1, 1, 0], ENOENT)?;
                return Ok(false);
            }
        }
        Ok(true)
    }
}
