//! From what the kernel kept of a call to the columns of its action: by the same code as a call that is watched.

use std::borrow::Cow;

use foldhash::{HashMap, HashSet};

use reprise_calls::{ArgKind, Call, Effect, SOCKET_ADDRESS_BYTES, by_number};
use reprise_initial as initial;
use reprise_trace::{Action, Loss};

use super::lanes;
use crate::arguments::{self, UNREADABLE, failed};
use crate::filter;
use crate::kept::When;
use crate::log::Log;
use crate::memory::Memory;
use crate::spool::join::Heard;
use crate::spool::record::{Object, Objects};

/// −ERESTARTSYS, −ERESTARTNOINTR, −ERESTARTNOHAND: never seen by a program, which makes the call again.
const RESTARTS: [i64; 3] = [-512, -513, -514];
/// −ERESTART_RESTARTBLOCK: the kernel goes on with the call by `restart_syscall`.
const RESTART_BLOCK: i64 = -516;
/// Bytes of content that tells of names.
const TELLING: usize = 1 << 16;

/// A call that waits for its place in the order.
#[derive(Debug)]
pub struct Pending {
    /// Its row.
    pub call: &'static Call,
    /// The action, but for its number and thread.
    pub action: Action,
    /// Its thread, in the kernel's words.
    pub tid: i32,
    /// Its process, 0 if that is not known.
    pub pid: i32,
    /// Processor time of its thread when it began.
    pub cpu_ns: u64,
    /// Content that tells of names and attributes, from its beginning.
    pub telling: Vec<u8>,
    /// Open files that it names or made.
    pub objects: Objects,
    /// What it read from, or wrote to, a file that is mapped for stores.
    pub passage: Option<Vec<u8>>,
    /// Content that it moved inside the kernel from a file is not known.
    pub is_unseen: bool,
    /// Why content is lacking, if any is.
    pub lacks: &'static str,
}

/// Decodes calls.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Calls that a signal interrupted and that the kernel may go on with.
    interrupted: HashMap<i32, Heard>,
    /// Files that were mapped so that stores reach them.
    mapped: HashSet<(u64, u64)>,
    /// `CLOCK_MONOTONIC` when the trace began.
    started_ns: u64,
}

impl Decoder {
    /// For a trace that began at this instant of `CLOCK_MONOTONIC`.
    pub fn new(started_ns: u64) -> Decoder {
        Decoder { started_ns, ..Decoder::default() }
    }

    /// An instant of a record as one of the trace.
    pub fn since_begin_ns(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.started_ns)
    }

    /// Decodes a call; nothing if it is none of a trace.
    pub fn decode(&mut self, heard: &mut Heard, spare: &mut Spare, log: &mut Log) -> Option<Box<Pending>> {
        if heard.narrow {
            log.loss(Loss::Unsupported, "32-bit call (not recorded)", 0);
            return None;
        }
        if heard.call.nr == filter::RESTART {
            let mut first = self.interrupted.remove(&heard.tid)?;
            (first.end_ns, first.call.result) = (heard.end_ns, heard.call.result);
            *heard = first;
        }
        if RESTARTS.contains(&heard.call.result) || heard.call.result == RESTART_BLOCK {
            log.note("a call was restarted, or ended, by a signal");
            if heard.call.result == RESTART_BLOCK {
                self.interrupted.insert(heard.tid, std::mem::take(heard));
            }
            return None;
        }
        if heard.call.nr == filter::NO_CALL {
            log.note(filter::NOT_MADE);
            return None;
        }
        let Some(call) = by_number(heard.call.nr) else {
            log.loss(Loss::Unsupported, format!("unknown call {}", heard.call.nr), 0);
            return None;
        };
        Some(self.pending(call, heard, spare, log))
    }

    fn pending(&mut self, call: &'static Call, heard: &mut Heard, spare: &mut Spare, log: &mut Log) -> Box<Pending> {
        let Heard { tid, pid, end_ns, call: made, kept, .. } = heard;
        let objects = std::mem::take(&mut heard.objects);
        // What was under way when the trace began, began with it.
        let (begin_ns, result) = (made.begin_ns.max(self.started_ns), made.result);
        // Registers beyond the arguments hold leftovers.
        let mut args = [0; 6];
        let count = call.args.len().min(6);
        args[..count].copy_from_slice(&made.args[..count]);
        let mut inputs = arguments::inputs(Memory::Kept(kept, When::Entry), call, &args, log);
        let told = inputs.told();
        let memory = Memory::Kept(kept, When::Exit);
        let mut out = arguments::outputs(memory, call, &args, result, inputs, log);
        if let (Some(at), Ok(moved @ 1..)) = (kept.moved(), u64::try_from(result)) {
            let (data, found) = arguments::content(memory, &[(at, moved)], moved, arguments::keep(call), log);
            if found == moved {
                (out.data, out.moved, out.truncated) = (data, moved, 0);
            }
        }
        let telling = telling(memory, call, &args, result);
        let file = objects.first().map(|o| (o.device, o.inode));
        if call.effect == Effect::Map && args[3] & libc::MAP_SHARED as u64 != 0 && !failed(result) {
            self.mapped.extend(file);
        }
        let passage = match file.is_some_and(|file| self.mapped.contains(&file)) {
            true => passage(memory, call, &args, result),
            false => None,
        };
        let times = (self.since_begin_ns(begin_ns), self.since_begin_ns(*end_ns));
        let mut pending = spare.take(call);
        pending.lacks = out.lacks(UNREADABLE);
        told.fill(&mut pending.action, call, args, times, result, out);
        (pending.tid, pending.pid, pending.cpu_ns) = (*tid, *pid, made.cpu_ns);
        (pending.telling, pending.objects, pending.passage) = (telling, objects, passage);
        pending
    }
}

/// Room of calls that are written, for those that come: what is known of a call is large.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "they wait and are written in their boxes")]
pub struct Spare(Vec<Box<Pending>>);

impl Spare {
    /// More are not kept.
    const MOST: usize = 64;

    /// A call of which nothing else is known.
    fn take(&mut self, call: &'static Call) -> Box<Pending> {
        let mut room = self.0.pop().unwrap_or_else(|| Box::new(Pending::of_lane(call, 0)));
        (room.call, room.is_unseen) = (call, false);
        room
    }

    /// A call that is written; its action was left empty, unless nothing can be written any more.
    pub fn give(&mut self, mut room: Box<Pending>) {
        if self.0.len() < Self::MOST && room.action.call.is_empty() {
            room.objects.clear();
            (room.telling, room.passage) = Default::default();
            self.0.push(room);
        }
    }
}

/// Content that tells of names: of links, listings, extended attributes and addresses.
pub fn telling(memory: Memory<'_>, call: &Call, args: &[u64; 6], result: i64) -> Vec<u8> {
    if call.name == "bind" {
        return memory.exact(args[1], (args[2] as usize).min(SOCKET_ADDRESS_BYTES)).unwrap_or_default();
    }
    let tells = matches!(call.effect, Effect::List | Effect::ReadLink | Effect::GetXattr | Effect::ListXattr);
    let buffer = call.position(|kind| matches!(kind, ArgKind::OutData(_))).filter(|_| tells && !failed(result));
    let Some(buffer) = buffer else { return Vec::new() };
    let mut bytes = vec![0; (result as usize).min(TELLING)];
    let got = memory.read(args[buffer], &mut bytes);
    bytes.truncate(got);
    bytes
}

/// What a call read, or wrote from one buffer.
fn passage(memory: Memory<'_>, call: &Call, args: &[u64; 6], result: i64) -> Option<Vec<u8>> {
    const MOST: i64 = 1 << 20;
    let wanted = matches!(call.effect, Effect::Read | Effect::Write) && (1..=MOST).contains(&result);
    let at = call.position(|kind| matches!(kind, ArgKind::InData(_) | ArgKind::OutData(_) | ArgKind::OutVector(_)));
    let at = at.filter(|_| wanted)?;
    let buffers = match call.args[at].kind {
        ArgKind::OutVector(count) => memory.vector(args[at], args[count as usize])?,
        _ => vec![(args[at], result as u64)],
    };
    let mut bytes = vec![0; result as usize];
    (memory.gather(&buffers, &mut bytes) == bytes.len()).then_some(bytes)
}

impl Pending {
    /// A call that a lane makes.
    pub fn of_lane(call: &'static Call, lane: u32) -> Pending {
        Pending {
            call,
            action: Action::default(),
            tid: lanes::tid(lane),
            pid: 0,
            cpu_ns: 0,
            telling: Vec::new(),
            objects: Objects::new(),
            passage: None,
            is_unseen: false,
            lacks: UNREADABLE,
        }
    }

    /// When it was over.
    pub fn end_ns(&self) -> u64 {
        self.action.end_ns()
    }

    /// Where it read or wrote, if it was told.
    pub fn given_offset(&self) -> Option<u64> {
        self.call.offset_arg().map(|i| self.action.args[i]).filter(|at| *at != u64::MAX)
    }

    /// Where in an open file begins what it read from it, or wrote to it.
    pub fn passage_begins(&self, object: &Object) -> u64 {
        self.given_offset().unwrap_or_else(|| object.stands_at().saturating_sub(self.action.result.unsigned_abs()))
    }

    /// The open file at this number.
    pub fn object(&self, fd: u64) -> Option<&Object> {
        self.objects.iter().find(|o| o.fd == fd as i32)
    }

    /// As the inference of the initial tree takes it.
    pub fn decoded(&self) -> initial::Decoded<'_> {
        let action = &self.action;
        let stat = super::facts::stat(self.call, &action.output);
        let entries = match self.call.effect {
            Effect::List => super::facts::entries(&self.telling, self.call.name == "getdents"),
            _ => Vec::new(),
        };
        let mut objects = [None; 2];
        for (to, object) in objects.iter_mut().zip(&self.objects) {
            *to = Some(super::facts::object(object));
        }
        initial::Decoded {
            args: action.args,
            path: action.path.as_ref().map(|name| Cow::from(&name.0)),
            path2: action.path2.as_ref().map(|name| Cow::from(&name.0)),
            input: Cow::from(&action.input),
            output: Cow::from(&action.output),
            data: Cow::from(&self.telling),
            data_bytes: action.data_bytes,
            is_unseen: self.is_unseen,
            annotations: [None; 6],
            stat,
            entries,
            objects,
        }
    }
}
