//! What belongs together: a call with the records that hold further memory of it, and with its beginning.
//!
//! Goals: each call once, with all that was kept of it, wherever and in whatever order that was written; memory in
//! proportion to the calls that are not over. Non-goals: what calls mean.

use std::collections::HashMap;

use super::layout::RECORD_NARROW;
use super::reader::Place;
use super::record::{Call, Head, Object, Range, Ranges, Record, Task};
use crate::kept::{self, Bytes, Kept, When};

/// Memory of a call beyond this stays in the spool until it is asked for.
const HELD: usize = 8 << 20;

/// A call that is over.
#[derive(Debug)]
pub struct Heard {
    /// Its thread.
    pub tid: i32,
    /// When it was over.
    pub end_ns: u64,
    /// The call.
    pub call: Call,
    /// Made through a 32-bit entry.
    pub narrow: bool,
    /// Open files that it names or made.
    pub objects: Vec<Object>,
    /// Its memory.
    pub kept: Kept,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A call is over.
    Call(Box<Heard>),
    /// A thread began.
    Task {
        /// Its number.
        tid: i32,
        /// Its process.
        pid: i32,
        /// When.
        time_ns: u64,
        /// Who made it, and how.
        task: Task,
    },
    /// A thread became the first of its process, which runs another program.
    Exec {
        /// Its number from now on.
        tid: i32,
        /// Its number before.
        old_tid: i32,
        /// When.
        time_ns: u64,
    },
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
        /// The call that it ended by, or in.
        call: Option<Call>,
    },
}

impl Event {
    /// When it was over.
    pub fn time_ns(&self) -> u64 {
        match self {
            Event::Call(heard) => heard.end_ns,
            Event::Task { time_ns, .. } | Event::Exec { time_ns, .. } | Event::End { time_ns, .. } => *time_ns,
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
    over: Option<(Head, Call, Vec<Object>)>,
}

impl Parts {
    fn is_whole(&self) -> bool {
        let entered = self.entered.map_or(0, |call| call.more);
        self.over.as_ref().is_some_and(|(_, call, _)| self.more >= call.more.saturating_add(entered))
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
}

impl Joiner {
    /// Takes in a record; gives what is complete by it.
    pub fn take(&mut self, head: Head, body: &[u8], place: &Place, out: &mut Vec<Event>) {
        let Some(record) = Record::parse(head.kind, body) else {
            self.damaged += 1;
            return;
        };
        let (tid, pid, time_ns) = (head.tid, head.pid, head.time_ns);
        match record {
            Record::Call(call, objects, ranges) => self.over(head, call, objects, ranges, place, out),
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
                out.push(Event::Task { tid, pid, time_ns, task });
            }
            Record::Exec(old_tid) => {
                self.rename(old_tid, tid, out);
                out.push(Event::Exec { tid, old_tid, time_ns });
            }
            Record::End(status) => {
                let call = self.ended(tid, out);
                out.push(Event::End { tid, pid, time_ns, status, call });
            }
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

    fn over(
        &mut self,
        head: Head,
        call: Call,
        objects: Vec<Object>,
        ranges: Ranges<'_>,
        place: &Place,
        out: &mut Vec<Event>,
    ) {
        let known = self.calls.contains_key(&(head.tid, call.call));
        if !known && call.more == 0 {
            // The usual case: it stands alone.
            let mut kept = Kept::default();
            keep(&mut kept, ranges, place);
            return out.push(heard(head, call, objects, kept));
        }
        let parts = self.parts(head.tid, call.call);
        keep(&mut parts.kept, ranges, place);
        parts.over = Some((head, call, objects));
        self.release(head.tid, call.call, out);
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
            Some((head, call, objects)) => out.push(heard(head, call, objects, parts.kept)),
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

fn heard(head: Head, call: Call, objects: Vec<Object>, kept: Kept) -> Event {
    let narrow = head.flags & RECORD_NARROW != 0;
    Event::Call(Box::new(Heard { tid: head.tid, end_ns: head.time_ns, call, narrow, objects, kept }))
}

fn keep(kept: &mut Kept, ranges: Ranges<'_>, place: &Place) {
    for range in ranges {
        let Range { address, at_exit, length, unwanted, bytes, at } = range;
        let when = if at_exit { When::Exit } else { When::Entry };
        let bytes = if unwanted {
            Bytes::Unwanted(length as usize)
        } else if kept.held() + bytes.len() > HELD {
            Bytes::There { file: place.file.clone(), offset: place.offset + at as u64, length: bytes.len() }
        } else {
            Bytes::Here(bytes.to_vec())
        };
        kept.add(kept::Range { address, when, bytes });
    }
}
