//! What belongs together: a call with the records that hold further memory of it, and with its beginning.
//!
//! Goals: each call once, with all that was kept of it, wherever and in whatever order that was written; memory in
//! proportion to the calls that are not over. Non-goals: what calls mean.

use std::fs::File;
use std::rc::Rc;

use foldhash::HashMap;
use reprise_calls::Credentials;

use super::layout::{RECORD_NARROW, request_more};
use super::reader::{Place, read_up_to};
use super::record::{Call, Completion, Head, Loaded, Mapped, Objects, Range, Ranges, Record, Request, Ring, Task};
use crate::kept::{self, Bytes, Kept, When};

/// Memory of a call beyond this stays in the spool until it is asked for.
const HELD: usize = 8 << 20;

/// A call that is over.
#[derive(Debug, Default)]
pub struct Heard {
    /// Its thread.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// When it was over.
    pub end_ns: u64,
    /// The call.
    pub call: Call,
    /// Made through a 32-bit entry.
    pub narrow: bool,
    /// Open files that it names or made.
    pub objects: Objects,
    /// Its memory.
    pub kept: Kept,
}

impl Heard {
    /// Whose it is, and when it was over, as the head of its record tells.
    fn is_of(&mut self, head: &Head) {
        (self.tid, self.pid, self.end_ns) = (head.tid, head.pid, head.time_ns);
        self.narrow = head.flags & RECORD_NARROW != 0;
    }
}

/// Content that stays in the spool until it is asked for.
#[derive(Debug, Clone)]
pub struct Content {
    file: Rc<File>,
    offset: u64,
    length: usize,
}

impl Content {
    /// Reads it, up to what there is.
    pub fn read(&self, into: &mut Vec<u8>) {
        let from = into.len();
        into.resize(from + self.length, 0);
        let got = read_up_to(&self.file, &mut into[from..], self.offset).unwrap_or(0);
        into.truncate(from + got);
    }
}

/// A page that was stored to through memory.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Device and inode of its file.
    pub file: (u64, u64),
    /// Where in the file it begins.
    pub offset: u64,
    /// Its length.
    pub length: u32,
    /// The thread that stored last, as far as faults tell.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// Whether it is as it was before it was stored to for the first time.
    pub before: bool,
    /// Whether it is as it was when a call began that writes to it.
    pub written: bool,
    /// Whether it is as it was when a call had copied it, before which it was looked at, too.
    pub during: bool,
    /// When it was looked at.
    pub time_ns: u64,
    /// Its content, if that was wanted.
    pub content: Option<Content>,
}

/// A page that a load brought into the memory of a process.
#[derive(Debug)]
pub struct Load {
    /// Device and inode of its file, as the kernel's inode tells them.
    pub file: (u64, u64),
    /// Where in the file it begins.
    pub offset: u64,
    /// Where in memory.
    pub address: u64,
    /// Its length.
    pub length: u32,
    /// The thread that loaded.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// When.
    pub time_ns: u64,
    /// Whether its content was wanted and is not there.
    pub lacks: bool,
    /// Its content, if that was wanted.
    pub content: Option<Content>,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A call is over.
    Call(Box<Heard>),
    /// A ring of io_uring was made.
    Ring {
        /// By this thread.
        tid: i32,
        /// Of this process.
        pid: i32,
        /// It.
        ring: Ring,
    },
    /// A request was submitted.
    Request(Box<Asked>),
    /// A request is complete.
    Completion(Box<Done>),
    /// A thread began.
    Task {
        /// Its number.
        tid: i32,
        /// Its process.
        pid: i32,
        /// When.
        time_ns: u64,
        /// Who made it, and how.
        task: Box<Task>,
    },
    /// A thread became the first of its process, which runs another program.
    Exec {
        /// Its number from now on.
        tid: i32,
        /// Its number before.
        old_tid: i32,
        /// Whom it runs as from now on.
        credentials: Credentials,
        /// When.
        time_ns: u64,
    },
    /// A page of a file is as it was stored.
    Stored(Box<Stored>),
    /// A page of a file came into a process's memory.
    Loaded(Box<Load>),
    /// A thread has ended.
    End {
        /// Its number.
        tid: i32,
        /// Its process.
        pid: i32,
        /// When.
        time_ns: u64,
        /// As `wait` tells it.
        status: i32,
        /// It was the last thread of its process.
        last: bool,
        /// The call that it ended by, or in.
        call: Option<Box<Call>>,
    },
    /// Locks of a thread that ends are free: what it, as the last of its process, had left open was closed.
    Unlocked {
        /// Its number.
        tid: i32,
        /// When.
        time_ns: u64,
    },
}

impl Event {
    /// When it was over.
    pub fn time_ns(&self) -> u64 {
        match self {
            Event::Call(heard) => heard.end_ns,
            Event::Stored(stored) => stored.time_ns,
            Event::Loaded(load) => load.time_ns,
            Event::Task { time_ns, .. }
            | Event::Exec { time_ns, .. }
            | Event::End { time_ns, .. }
            | Event::Unlocked { time_ns, .. } => *time_ns,
            Event::Request(asked) => asked.time_ns,
            Event::Completion(done) => done.time_ns,
            // Requests are told by it, whenever it was.
            Event::Ring { .. } => 0,
        }
    }
}

/// A request that was submitted.
#[derive(Debug)]
pub struct Asked {
    /// By this thread.
    pub tid: i32,
    /// Of this process.
    pub pid: i32,
    /// When.
    pub time_ns: u64,
    /// It.
    pub request: Request,
    /// What it names, but for content.
    pub kept: Kept,
}

/// A request that is complete.
#[derive(Debug)]
pub struct Done {
    /// When.
    pub time_ns: u64,
    /// What came of it.
    pub completion: Completion,
    /// What it was given, and what it filled.
    pub kept: Kept,
}

/// A record that memory may belong to.
#[derive(Debug)]
enum Over {
    Call(Call, Objects),
    Request(Request),
    Completion(Completion),
}

impl Over {
    fn more(&self) -> u32 {
        match self {
            Over::Call(call, _) => call.more,
            Over::Request(request) => request.more,
            Over::Completion(completion) => completion.more,
        }
    }

    /// What tells its memory from that of others of the thread.
    fn key(&self) -> u64 {
        match self {
            Over::Call(call, _) => call.call,
            Over::Request(request) => request_more(request.request, false),
            Over::Completion(completion) => request_more(completion.request, true),
        }
    }
}

#[derive(Debug, Default)]
struct Parts {
    kept: Kept,
    more: u32,
    /// It has begun.
    entered: Option<Call>,
    /// It is over.
    over: Option<(Head, Over)>,
}

impl Parts {
    fn is_whole(&self) -> bool {
        let entered = self.entered.map_or(0, |call| call.more);
        self.over.as_ref().is_some_and(|(_, over)| self.more >= over.more().saturating_add(entered))
    }
}

/// Joins records.
#[derive(Debug, Default)]
pub struct Joiner {
    calls: HashMap<(i32, u64), Parts>,
    /// Calls by thread, for its end.
    threads: HashMap<i32, Vec<u64>>,
    /// Calls of which memory is missing.
    pub torn: u64,
    /// Records that could not be read.
    pub damaged: u64,
    /// Room for the next call: what is known of one is large.
    spare: Option<Box<Heard>>,
}

impl Joiner {
    /// Takes in a record; gives what is complete by it.
    pub fn take(&mut self, head: Head, body: &[u8], place: &Place<'_>, out: &mut Vec<Event>) {
        let Some(record) = Record::parse(&head, body, place.told) else {
            self.damaged += 1;
            return;
        };
        let (tid, pid, time_ns) = (head.tid, head.pid, head.time_ns);
        match record {
            Record::Call(call, objects, ranges) => self.call(head, call, objects, ranges, place, out),
            Record::Request(request, ranges) => self.over(head, Over::Request(request), ranges, place, out),
            Record::Completion(completion, ranges) => self.over(head, Over::Completion(completion), ranges, place, out),
            Record::Ring(ring) => out.push(Event::Ring { tid, pid, ring }),
            Record::More(call, ranges) => {
                let parts = self.parts(tid, call);
                parts.more += 1;
                keep(&mut parts.kept, ranges, place);
                self.release(tid, call, out);
            }
            Record::Enter(call, ranges) => {
                let parts = self.parts(tid, call.call);
                parts.entered = Some(call);
                keep(&mut parts.kept, ranges, place);
                self.release(tid, call.call, out);
            }
            Record::Task(task) => {
                self.ended(tid, out);
                out.push(Event::Task { tid, pid, time_ns, task: Box::new(task) });
            }
            Record::Exec(old_tid, credentials) => {
                self.rename(old_tid, tid, out);
                out.push(Event::Exec { tid, old_tid, credentials, time_ns });
            }
            Record::End(status, last) => {
                let call = self.ended(tid, out).map(Box::new);
                out.push(Event::End { tid, pid, time_ns, status, last, call });
            }
            Record::Unlocked => out.push(Event::Unlocked { tid, time_ns }),
            Record::Mapped(mapped) => out.push(stored(time_ns, mapped, place)),
            Record::Loaded(loaded) => out.push(load(&head, loaded, place)),
            Record::Unknown => {}
        }
    }

    /// Nothing more comes: what waits for memory goes without.
    pub fn finish(&mut self, out: &mut Vec<Event>) {
        let mut tids: Vec<i32> = self.threads.keys().copied().collect();
        tids.sort_unstable();
        for tid in tids {
            self.ended(tid, out);
        }
    }

    /// A call that was given is used up.
    pub fn take_back(&mut self, mut room: Box<Heard>) {
        room.objects.clear();
        room.kept = Kept::default();
        self.spare = Some(room);
    }

    fn call(
        &mut self,
        head: Head,
        call: Call,
        objects: Objects,
        ranges: Ranges<'_>,
        place: &Place<'_>,
        out: &mut Vec<Event>,
    ) {
        if call.more > 0 || self.calls.contains_key(&(head.tid, call.call)) {
            return self.over(head, Over::Call(call, objects), ranges, place, out);
        }
        // The usual case: it stands alone.
        let mut room = self.spare.take().unwrap_or_default();
        keep(&mut room.kept, ranges, place);
        (room.call, room.objects) = (call, objects);
        room.is_of(&head);
        out.push(Event::Call(room));
    }

    fn over(&mut self, head: Head, over: Over, ranges: Ranges<'_>, place: &Place<'_>, out: &mut Vec<Event>) {
        let key = over.key();
        if over.more() == 0 && !self.calls.contains_key(&(head.tid, key)) {
            let mut kept = Kept::default();
            keep(&mut kept, ranges, place);
            return out.push(heard(head, over, kept));
        }
        let parts = self.parts(head.tid, key);
        keep(&mut parts.kept, ranges, place);
        parts.over = Some((head, over));
        self.release(head.tid, key, out);
    }

    fn parts(&mut self, tid: i32, call: u64) -> &mut Parts {
        self.calls.entry((tid, call)).or_insert_with(|| {
            self.threads.entry(tid).or_default().push(call);
            Parts::default()
        })
    }

    fn release(&mut self, tid: i32, call: u64, out: &mut Vec<Event>) {
        if self.calls.get(&(tid, call)).is_some_and(Parts::is_whole) {
            self.give(tid, call, out);
            if let Some(calls) = self.threads.get_mut(&tid) {
                calls.retain(|known| *known != call);
            }
        }
    }

    /// Gives a call with what there is of it; one that is not over is returned.
    fn give(&mut self, tid: i32, call: u64, out: &mut Vec<Event>) -> Option<Call> {
        let parts = self.calls.remove(&(tid, call))?;
        match parts.over {
            Some((head, over)) => out.push(heard(head, over, parts.kept)),
            None => return parts.entered,
        }
        None
    }

    /// A thread is over; gives the call that it was in.
    fn ended(&mut self, tid: i32, out: &mut Vec<Event>) -> Option<Call> {
        let mut inside = None;
        for call in self.threads.remove(&tid).unwrap_or_default() {
            let whole = self.calls.get(&(tid, call)).is_some_and(|parts| parts.over.is_none() || parts.is_whole());
            self.torn += u64::from(!whole);
            inside = self.give(tid, call, out).or(inside);
        }
        inside
    }

    fn rename(&mut self, from: i32, to: i32, out: &mut Vec<Event>) {
        if from == to {
            return;
        }
        self.ended(to, out);
        for call in self.threads.remove(&from).unwrap_or_default() {
            if let Some(parts) = self.calls.remove(&(from, call)) {
                self.calls.insert((to, call), parts);
                self.threads.entry(to).or_default().push(call);
            }
        }
    }
}

fn heard(head: Head, over: Over, kept: Kept) -> Event {
    let Head { tid, pid, time_ns, .. } = head;
    match over {
        Over::Call(call, objects) => {
            let mut heard = Box::new(Heard { call, objects, kept, ..Heard::default() });
            heard.is_of(&head);
            Event::Call(heard)
        }
        Over::Request(request) => Event::Request(Box::new(Asked { tid, pid, time_ns, request, kept })),
        Over::Completion(completion) => Event::Completion(Box::new(Done { time_ns, completion, kept })),
    }
}

/// Bytes of a record that stay in the spool.
fn content(bytes: &[u8], at: usize, place: &Place<'_>) -> Option<Content> {
    let offset = place.offset + at as u64;
    (!bytes.is_empty()).then(|| Content { file: place.file.clone(), offset, length: bytes.len() })
}

fn load(head: &Head, loaded: Loaded<'_>, place: &Place<'_>) -> Event {
    let Head { tid, pid, time_ns, .. } = *head;
    let Loaded { device, inode, offset, address, length, lacks, bytes, at } = loaded;
    let (file, content) = ((device, inode), content(bytes, at, place));
    Event::Loaded(Box::new(Load { file, offset, address, length, tid, pid, time_ns, lacks, content }))
}

/// Its content stays in the spool: many may wait for their place.
fn stored(time_ns: u64, mapped: Mapped<'_>, place: &Place<'_>) -> Event {
    let Mapped { device, inode, offset, length, tid, pid, before, written, during, bytes, at } = mapped;
    let content = content(bytes, at, place);
    Event::Stored(Box::new(Stored {
        file: (device, inode),
        offset,
        length,
        tid,
        pid,
        before,
        written,
        during,
        time_ns,
        content,
    }))
}

fn keep(kept: &mut Kept, ranges: Ranges<'_>, place: &Place<'_>) {
    for range in ranges {
        let Range { address, at_exit, length, unwanted, bytes, at, said } = range;
        let when = if at_exit { When::Exit } else { When::Entry };
        let bytes = if unwanted {
            Bytes::Unwanted(length as usize)
        } else if let Some((standing, length)) = said {
            // With a segment that is gone, or damaged, all goes that was said by a place in it.
            let Some(file) = place.written.holds(standing, length) else { continue };
            Bytes::There { file, offset: standing.offset.into(), length }
        } else if kept.held() + bytes.len() > HELD {
            Bytes::There { file: place.file.clone(), offset: place.offset + at as u64, length: bytes.len() }
        } else {
            Bytes::Here(bytes.to_vec())
        };
        kept.add(kept::Range { address, when, bytes });
    }
}
