//! What flows from one descriptor to another: through pipes, FIFOs, connections and counters. A read that returned what
//! another thread wrote comes after that write; and descriptors that are passed travel along.
//!
//! Goals: for each direction of flow how much went in and came out, in the order of the trace. Non-goals: the bytes;
//! sockets that send to addresses without a connection.

use std::collections::{HashMap, VecDeque};

use crate::descriptors::Generation;
use crate::node::NodeId;
use crate::touch::StreamId;

/// A descriptor on its way; never reused.
pub type Letter = u32;

/// How it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flow {
    /// In bytes.
    #[default]
    Bytes,
    /// In messages, however long.
    Messages,
    /// A counter (`eventfd`): who reads it takes all that was added.
    Counter,
}

/// What a description is connected with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Links {
    /// Reads take from here.
    pub reads: Option<StreamId>,
    /// Writes go here.
    pub writes: Option<StreamId>,
    /// A socket that makes connections, and how they count.
    pub connects: Option<Flow>,
    /// Where connections to a bound socket meet.
    pub meets_at: Option<StreamId>,
    /// The process that this is a handle of.
    pub process: Option<u32>,
}

/// A name that sockets connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    /// A socket file.
    File(NodeId),
    /// An abstract name (`unix(7)`).
    Abstract(Vec<u8>),
    /// A port of this machine, whatever the interface.
    Port(u16),
}

/// A descriptor inside a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Enclosed {
    pub letter: Letter,
    /// Held open meanwhile.
    pub description: u32,
    /// Its life between two tables.
    pub life: Generation,
}

#[derive(Debug, Default)]
struct Stream {
    flow: Flow,
    sent: u64,
    received: u64,
    /// What travels along, each with the position of its message.
    enclosed: VecDeque<(u64, Enclosed)>,
    /// Descriptions that read or write it.
    ends: u32,
}

/// Ends that wait for their other side: of calls to `connect`, or of calls to `accept`.
#[derive(Debug, Default)]
struct Meeting {
    /// Sockets of this name.
    sockets: u32,
    waiting: VecDeque<(StreamId, StreamId)>,
    accepted: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: HashMap<StreamId, Stream, foldhash::fast::RandomState>,
    next: StreamId,
    letters: Letter,
    fifos: HashMap<NodeId, StreamId>,
    places: HashMap<Address, StreamId>,
    meetings: HashMap<StreamId, Meeting>,
}

impl Streams {
    pub fn make(&mut self, flow: Flow) -> StreamId {
        let id = self.next;
        self.next += 1;
        self.streams.insert(id, Stream { flow, ..Stream::default() });
        id
    }

    /// The stream of a FIFO that is open.
    pub fn of_fifo(&mut self, node: NodeId) -> StreamId {
        match self.fifos.get(&node).filter(|id| self.streams.contains_key(id)) {
            Some(id) => *id,
            None => {
                let id = self.make(Flow::Bytes);
                self.fifos.insert(node, id);
                id
            }
        }
    }

    /// A description has these ends from now on.
    pub fn hold(&mut self, links: Links) {
        for id in [links.reads, links.writes].into_iter().flatten() {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.ends += 1;
            }
        }
    }

    /// A description ended. Returns the streams that ended with it, and what was still on its way in them.
    pub fn release(&mut self, links: Links) -> (Vec<StreamId>, Vec<Enclosed>) {
        let (mut dead, mut lost) = (Vec::new(), Vec::new());
        dead.extend(links.meets_at.filter(|at| self.leave(*at)));
        for id in [links.reads, links.writes].into_iter().flatten() {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            stream.ends = stream.ends.saturating_sub(1);
            if stream.ends == 0 {
                let stream = self.streams.remove(&id).unwrap_or_default();
                lost.extend(stream.enclosed.into_iter().map(|(_, enclosed)| enclosed));
                self.fifos.retain(|_, other| *other != id);
                dead.push(id);
            }
        }
        (dead, lost)
    }

    /// So many bytes go in, with these descriptors; returns how much that counts.
    pub fn send(&mut self, id: StreamId, bytes: u64, enclosed: Vec<Enclosed>) -> u64 {
        let Some(stream) = self.streams.get_mut(&id) else { return 0 };
        let at = stream.sent;
        stream.enclosed.extend(enclosed.into_iter().map(|e| (at, e)));
        let counts = if stream.flow == Flow::Bytes { bytes } else { 1 };
        stream.sent = stream.sent.saturating_add(counts);
        counts
    }

    /// So many bytes come out (0: all that will ever come); returns how much that counts.
    pub fn receive(&mut self, id: StreamId, bytes: u64) -> u64 {
        let Some(stream) = self.streams.get_mut(&id) else { return u64::MAX };
        let counts = match (stream.flow, bytes) {
            (Flow::Counter, _) | (_, 0) => return u64::MAX,
            (Flow::Bytes, bytes) => bytes,
            (Flow::Messages, _) => 1,
        };
        stream.received = stream.received.saturating_add(counts);
        counts
    }

    /// What travelled along with all that came out so far.
    pub fn delivered(&mut self, id: StreamId) -> Vec<Enclosed> {
        let Some(stream) = self.streams.get_mut(&id) else { return Vec::new() };
        let count = stream.enclosed.partition_point(|(at, _)| *at < stream.received);
        stream.enclosed.drain(..count).map(|(_, enclosed)| enclosed).collect()
    }

    /// What travels along with the first message that has anything.
    pub fn next_delivery(&self, id: StreamId) -> Vec<Enclosed> {
        let Some(stream) = self.streams.get(&id) else { return Vec::new() };
        let first = stream.enclosed.front().map(|(at, _)| *at);
        stream.enclosed.iter().take_while(|(at, _)| Some(*at) == first).map(|(_, enclosed)| *enclosed).collect()
    }

    pub fn new_letter(&mut self) -> Letter {
        self.letters += 1;
        self.letters - 1
    }

    /// Where connections to an address meet, if a socket has that name.
    pub fn meeting(&self, address: &Address) -> Option<StreamId> {
        self.places.get(address).copied()
    }

    /// A socket takes this name.
    pub fn name(&mut self, address: Address) -> StreamId {
        let at = *self.places.entry(address).or_insert_with(|| {
            self.next += 1;
            self.next - 1
        });
        self.meetings.entry(at).or_default().sockets += 1;
        at
    }

    /// A socket with a name ended. Returns whether it was the last of that name.
    fn leave(&mut self, at: StreamId) -> bool {
        let Some(meeting) = self.meetings.get_mut(&at) else { return false };
        meeting.sockets = meeting.sockets.saturating_sub(1);
        let last = meeting.sockets == 0;
        if last {
            self.meetings.remove(&at);
            self.places.retain(|_, other| *other != at);
        }
        last
    }

    /// One side of a connection has come: what it reads and writes. The k-th to connect meets the k-th to accept.
    pub fn meet(&mut self, at: StreamId, flow: Flow, accepts: bool) -> (StreamId, StreamId) {
        if let Some(meeting) = self.meetings.get_mut(&at)
            && meeting.accepted != accepts
            && let Some((reads, writes)) = meeting.waiting.pop_front()
        {
            return (writes, reads);
        }
        let own = (self.make(flow), self.make(flow));
        if let Some(meeting) = self.meetings.get_mut(&at) {
            meeting.accepted = accepts;
            meeting.waiting.push_back(own);
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_comes_with_the_first_byte_of_its_message() {
        let mut all = Streams::default();
        let id = all.make(Flow::Bytes);
        let enclosed = |letter| Enclosed { letter, description: 0, life: 0 };
        all.send(id, 10, vec![]);
        all.send(id, 5, vec![enclosed(1), enclosed(2)]);
        all.send(id, 5, vec![enclosed(3)]);
        let mut take = |bytes| {
            all.receive(id, bytes);
            all.delivered(id).iter().map(|e| e.letter).collect::<Vec<_>>()
        };
        assert!(take(10).is_empty());
        assert_eq!(take(1), [1, 2]);
        assert!(take(4).is_empty());
        assert_eq!(take(5), [3]);
    }

    #[test]
    fn a_connection_is_the_same_whichever_side_is_seen_first() {
        let mut all = Streams::default();
        let at = all.name(Address::Port(80));
        assert_eq!(Some(at), all.meeting(&Address::Port(80)));
        let (reads, writes) = all.meet(at, Flow::Bytes, true);
        let (first, second) = (all.meet(at, Flow::Bytes, false), all.meet(at, Flow::Bytes, false));
        assert_eq!(first, (writes, reads));
        assert_ne!(second, first);
        assert_eq!(all.meet(at, Flow::Bytes, true), (second.1, second.0));
        let socket = Links { meets_at: Some(at), ..Links::default() };
        assert_eq!(all.release(socket).0, [at]);
        assert_eq!(all.meeting(&Address::Port(80)), None);
    }

    #[test]
    fn an_end_takes_what_is_on_its_way_with_it() {
        let mut all = Streams::default();
        let id = all.make(Flow::Messages);
        let (reader, writer) =
            (Links { reads: Some(id), ..Links::default() }, Links { writes: Some(id), ..Links::default() });
        all.hold(reader);
        all.hold(writer);
        all.send(id, 5, vec![Enclosed { letter: 7, description: 3, life: 0 }]);
        assert!(all.release(writer).0.is_empty());
        let (dead, lost) = all.release(reader);
        assert_eq!((dead, lost.len()), (vec![id], 1));
    }
}
