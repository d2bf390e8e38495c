//! Pipes, connections, counters: what goes in and comes out, who is connected with whom, and which descriptors travel
//! along.

use reprise_calls::{Envelope, Object};
use reprise_trace::Action;
use reprise_trace::payload::{Side, split};

use super::Step;
use crate::descriptors::{Description, StreamKind};
use crate::interpretation::{Interpretation, Passed, Received, Taken};
use crate::node::{FileKind, NodeId};
use crate::resolve::Place;
use crate::streams::{Address, Enclosed, Flow, Links};
use crate::touch::{Resource, Touch};
use crate::world::World;

const O_ACCMODE: u64 = 3;
const O_PATH: u64 = 0o10000000;
const PEEK: u64 = 2;
const SOCK_KIND: u64 = 0xf;
const SOCK_STREAM: u64 = 1;
const SOCK_SEQPACKET: u64 = 5;
const EINPROGRESS: i64 = -115;

fn flow(kind: u64) -> Flow {
    if kind & SOCK_KIND == SOCK_STREAM { Flow::Bytes } else { Flow::Messages }
}

impl World {
    fn links(&self, s: &Step<'_>, index: usize) -> Links {
        let slot = self.descriptors.get(s.thread.table, s.arg(index));
        slot.map_or(Links::default(), |slot| self.descriptors.descriptions[slot.description as usize].links)
    }

    /// Bytes come out of what a descriptor reads. Returns what travels along.
    fn take_in(&mut self, s: &mut Step<'_>, index: usize, bytes: u64) -> Vec<Enclosed> {
        let Some(id) = self.links(s, index).reads else { return Vec::new() };
        let (counts, enclosed) = self.streams.receive(id, bytes);
        s.out.touches.push((Resource::Stream(id), Touch::Receive(counts)));
        enclosed
    }

    /// As [`World::take_in`], of a call that can take no descriptors: those that travel along are lost.
    pub(super) fn drain(&mut self, s: &mut Step<'_>, index: usize, bytes: u64) {
        self.take_in(s, index, bytes).into_iter().for_each(|enclosed| self.lose(s, enclosed));
    }

    /// Bytes, and these descriptors, go into what a descriptor writes. Where no byte goes, no descriptor does, but with a message.
    pub(super) fn put_out(&mut self, s: &mut Step<'_>, index: usize, bytes: u64, descriptors: &[u32]) {
        let Some(id) = self.links(s, index).writes.filter(|id| self.streams.takes(*id, bytes)) else { return };
        let enclosed = descriptors.iter().filter_map(|fd| self.enclose(s, *fd)).collect();
        let counts = self.streams.send(id, bytes, enclosed);
        s.out.touches.push((Resource::Stream(id), Touch::Send(counts)));
    }

    fn enclose(&mut self, s: &mut Step<'_>, fd: u32) -> Option<Enclosed> {
        let slot = self.descriptors.get(s.thread.table, fd.into())?;
        let (letter, life) = (self.streams.new_letter(), self.descriptors.new_life());
        self.descriptors.hold(slot.description);
        s.out.look(Resource::Descriptor(slot.generation));
        s.out.create(Resource::Descriptor(life));
        s.out.passed.push(Passed { letter, binding: slot.binding });
        Some(Enclosed { letter, description: slot.description, life })
    }

    /// Sockets: messages, and the ends of a connection.
    pub(super) fn message(&mut self, s: &mut Step<'_>) {
        self.use_descriptors(s);
        if !s.succeeded() {
            return;
        }
        let moved = s.action.result as u64;
        match s.call.name {
            "sendto" => self.put_out(s, 0, moved, &[]),
            "sendmsg" => {
                let envelopes = given(s);
                self.put_out(s, 0, moved, envelopes.first().map_or(&[], |e| &e.descriptors));
            }
            "sendmmsg" => {
                for envelope in given(s).iter().take(moved as usize) {
                    self.put_out(s, 0, envelope.length.into(), &envelope.descriptors);
                }
            }
            "recvfrom" if s.arg(3) & PEEK == 0 => {
                self.receive(s, &[Envelope { length: moved as u32, ..Envelope::default() }], false);
            }
            "recvmsg" => self.receive(s, &filled(s), s.arg(2) & PEEK != 0),
            "recvmmsg" => self.receive(s, &filled(s), s.arg(3) & PEEK != 0),
            "shutdown" if s.arg(1) != 0 => self.end_writing(s, self.links(s, 0)),
            "tee" => self.put_out(s, 1, moved, &[]),
            "vmsplice" => self.put_out(s, 0, moved, &[]),
            _ => {}
        }
    }

    fn receive(&mut self, s: &mut Step<'_>, envelopes: &[Envelope], stays: bool) {
        const CLOSE_ON_EXEC: u64 = 0x4000_0000;
        let close_on_exec = match s.call.name {
            "recvmsg" => s.arg(2) & CLOSE_ON_EXEC != 0,
            _ => s.arg(3) & CLOSE_ON_EXEC != 0,
        };
        for envelope in envelopes {
            let mut enclosed = match (stays, self.links(s, 0).reads) {
                (false, _) => self.take_in(s, 0, envelope.length.into()),
                (true, Some(id)) => self.streams.next_delivery(id),
                (true, None) => Vec::new(),
            };
            let lost = enclosed.split_off(envelope.descriptors.len().min(enclosed.len()));
            for (i, fd) in envelope.descriptors.iter().enumerate() {
                self.unfold(s, *fd, enclosed.get(i).copied(), close_on_exec, stays);
            }
            for enclosed in lost.into_iter().filter(|_| !stays) {
                self.lose(s, enclosed);
            }
        }
    }

    /// A descriptor is received under this number.
    fn unfold(&mut self, s: &mut Step<'_>, fd: u32, enclosed: Option<Enclosed>, close_on_exec: bool, stays: bool) {
        let description = match enclosed {
            Some(enclosed) => enclosed.description,
            None => {
                s.out.surprise = Some("a descriptor came from a program that was not recorded");
                self.descriptors.describe(Description { stream: Some(StreamKind::Null), ..Description::default() })
            }
        };
        self.bind(s, fd, description, close_on_exec);
        if let Some(enclosed) = enclosed {
            if stays {
                s.out.look(Resource::Descriptor(enclosed.life));
            } else {
                s.out.destroy(Resource::Descriptor(enclosed.life));
                s.out.dead.push(Resource::Descriptor(enclosed.life));
                self.descriptors.release(enclosed.description);
            }
        }
        // It is not made: it comes by its letter.
        let binding = s.out.made.pop().map(|made| made.binding);
        s.out.received.push(Received { letter: enclosed.map(|e| e.letter), binding, close_on_exec, stays });
    }

    /// What is sent and not received ends.
    fn lose(&mut self, s: &mut Step<'_>, enclosed: Enclosed) {
        s.out.destroy(Resource::Descriptor(enclosed.life));
        s.out.dead.push(Resource::Descriptor(enclosed.life));
        let letter = Some(enclosed.letter);
        s.out.received.push(Received { letter, binding: None, close_on_exec: false, stays: false });
        self.descriptors.release(enclosed.description);
        self.end_flow(s, enclosed.description);
    }

    /// A descriptor of this description was closed: who reads to the end waits for all such closes.
    pub(super) fn end_flow(&mut self, s: &mut Step<'_>, description: u32) {
        let links = self.descriptors.descriptions[description as usize].links;
        self.end_writing(s, links);
        if self.descriptors.is_named(description) {
            return;
        }
        let (dead, lost) = self.streams.release(links);
        s.out.dead.extend(dead.into_iter().map(Resource::Stream));
        lost.into_iter().for_each(|enclosed| self.lose(s, enclosed));
    }

    /// Nothing more is written by one of those who write: who reads to the end waits for that.
    fn end_writing(&self, s: &mut Step<'_>, links: Links) {
        if let Some(id) = links.writes {
            s.out.touches.push((Resource::Stream(id), Touch::Send(0)));
        }
    }

    /// What flows through the descriptor of a FIFO.
    pub(super) fn fifo_links(&mut self, node: Option<NodeId>, flags: u64) -> Links {
        let Some(node) = node.filter(|n| self.names.node(*n).kind == FileKind::Fifo && flags & O_PATH == 0) else {
            return Links::default();
        };
        let id = self.streams.of_fifo(node);
        let (reads, writes) = (flags & O_ACCMODE != 1, flags & O_ACCMODE != 0);
        Links { reads: reads.then_some(id), writes: writes.then_some(id), ..Links::default() }
    }

    /// What flows through the descriptors of an object, for each of them.
    pub(super) fn object_links(&mut self, s: &mut Step<'_>, object: Object) -> [Links; 2] {
        let none = Links::default();
        match object {
            Object::Pipe => {
                let id = self.streams.make(Flow::Bytes);
                [Links { reads: Some(id), ..none }, Links { writes: Some(id), ..none }]
            }
            Object::SocketPair => {
                let (a, b) = (self.streams.make(flow(s.arg(1))), self.streams.make(flow(s.arg(1))));
                [Links { reads: Some(a), writes: Some(b), ..none }, Links { reads: Some(b), writes: Some(a), ..none }]
            }
            Object::Socket if s.call.name == "socket" => {
                let connects = matches!(s.arg(1) & SOCK_KIND, SOCK_STREAM | SOCK_SEQPACKET).then(|| flow(s.arg(1)));
                [Links { connects, ..none }, none]
            }
            Object::Socket => [self.accepted(s), none],
            Object::Handle if s.call.name.starts_with("eventfd") => {
                let id = self.streams.make(Flow::Counter);
                [Links { reads: Some(id), writes: Some(id), ..none }, none]
            }
            Object::Handle if s.call.name == "pidfd_open" => {
                let process = self.processes_of(s.arg(0) as i32).next();
                [Links { process, ..none }, none]
            }
            Object::Memory | Object::Epoll | Object::Watch | Object::Handle | Object::Ring => [none; 2],
        }
    }

    fn accepted(&mut self, s: &mut Step<'_>) -> Links {
        let listener = self.links(s, 0);
        let (Some(at), Some(flow)) = (listener.meets_at, listener.connects) else { return Links::default() };
        s.out.touches.push((Resource::Stream(at), Touch::Receive(1)));
        let (reads, writes) = self.streams.meet(at, flow, true);
        Links { reads: Some(reads), writes: Some(writes), ..Links::default() }
    }

    /// A socket has got a name.
    pub(super) fn name_socket(&mut self, s: &Step<'_>, address: Address) {
        let Some(slot) = self.descriptors.get(s.thread.table, s.arg(0)) else { return };
        if let Address::File(node) = address {
            // The name outlasts the file: its number must not be another's.
            self.names.hold(node);
        }
        let at = self.streams.name(address);
        self.descriptors.descriptions[slot.description as usize].links.meets_at = Some(at);
    }

    /// Tells the model the address of a `bind` or `connect`, where it is no file's name.
    pub(crate) fn addressed(
        &mut self,
        call: &reprise_calls::Call,
        action: &Action,
        address: &[u8],
        out: &mut Interpretation,
    ) {
        let Some(thread) = self.thread(action.thread) else { return };
        let mut s = Step { call, action, thread, out };
        match (call.name, self.address(&mut s, address)) {
            ("bind", Some(address)) if s.succeeded() => self.name_socket(&s, address),
            ("connect", Some(address)) if s.succeeded() || action.result == EINPROGRESS => {
                self.connect(&mut s, &address)
            }
            _ => {}
        }
    }

    fn address(&mut self, s: &mut Step<'_>, address: &[u8]) -> Option<Address> {
        const UNIX: u16 = 1;
        const INET: u16 = 2;
        const INET6: u16 = 10;
        let (family, rest) = address.split_first_chunk::<2>()?;
        match (u16::from_le_bytes(*family), rest) {
            (UNIX, [0, name @ ..]) => Some(Address::Abstract(name.to_vec())),
            (UNIX, _) if s.call.name == "connect" => {
                let path = reprise_calls::socket_path(address)?;
                let start = self.directories[s.thread.directories as usize].beginning();
                self.resolve(s, start, path, true)?.place.node.map(Address::File)
            }
            (INET | INET6, [high, low, ..]) => {
                let port = u16::from_be_bytes([*high, *low]);
                (port != 0).then_some(Address::Port(port))
            }
            _ => None,
        }
    }

    fn connect(&mut self, s: &mut Step<'_>, address: &Address) {
        let Some(slot) = self.descriptors.get(s.thread.table, s.arg(0)) else { return };
        let links = self.descriptors.descriptions[slot.description as usize].links;
        let (Some(flow), None, Some(at)) = (links.connects, links.reads, self.streams.meeting(address)) else { return };
        s.out.touches.push((Resource::Stream(at), Touch::Send(1)));
        let (reads, writes) = self.streams.meet(at, flow, false);
        let links = Links { reads: Some(reads), writes: Some(writes), ..links };
        self.streams.hold(links);
        self.descriptors.descriptions[slot.description as usize].links = links;
    }

    /// `pidfd_getfd`.
    pub(super) fn take(&mut self, s: &mut Step<'_>) {
        self.use_descriptors(s);
        let Some(process) = self.links(s, 0).process.filter(|_| s.succeeded()) else {
            return self.take_unknown(s);
        };
        let owner = self.threads.iter().position(|t| t.as_ref().is_some_and(|t| t.process == process));
        let table = owner.and_then(|owner| self.threads[owner].as_ref()).map(|t| t.table);
        let slot = table.and_then(|table| self.descriptors.get(table, s.arg(1)));
        let (Some(owner), Some(slot)) = (owner, slot) else { return self.take_unknown(s) };
        s.out.look(Resource::Descriptor(slot.generation));
        s.out.look(Resource::Process(process));
        self.bind(s, s.action.result as u32, slot.description, true);
        s.out.taken = Some(Taken { thread: owner as u32, binding: slot.binding });
    }

    /// Taken out of a process of which nothing is known.
    fn take_unknown(&mut self, s: &mut Step<'_>) {
        if s.succeeded() {
            s.out.surprise = Some("a descriptor came from a program that was not recorded");
            self.new_descriptor(s, Place::LOST, Some(StreamKind::Null), super::O_CLOEXEC);
        }
    }
}

/// The messages that a call was given.
fn given(s: &Step<'_>) -> Vec<Envelope> {
    split(s.call, Side::Input, &s.action.input)[1].map_or(Vec::new(), Envelope::decode)
}

/// The messages that a call filled.
fn filled(s: &Step<'_>) -> Vec<Envelope> {
    split(s.call, Side::Output, &s.action.output)[1].map_or(Vec::new(), Envelope::decode)
}
