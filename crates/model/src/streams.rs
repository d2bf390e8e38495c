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

    /// Whether something goes in when so many bytes are sent: a message may have none.
    pub fn takes(&self, id: StreamId, bytes: u64) -> bool {
        bytes > 0 || self.streams.get(&id).is_some_and(|stream| stream.flow == Flow::Messages)
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

    /// So many bytes come out; returns how much that counts (`u64::MAX`: all that will ever come), and what travelled along. No bytes are
    /// the end only where nothing is left: who has no room for any takes a message all the same, and of a stream of bytes the descriptors
    /// that come with the next one (`unix_stream_read_generic` in net/unix/af_unix.c).
    pub fn receive(&mut self, id: StreamId, bytes: u64) -> (u64, Vec<Enclosed>) {
        let Some(stream) = self.streams.get_mut(&id) else { return (u64::MAX, Vec::new()) };
        let next_brings = stream.enclosed.front().is_some_and(|(at, _)| *at <= stream.received);
        let (counts, until) = match (stream.flow, bytes) {
            (Flow::Messages, 0) if stream.received >= stream.sent => (u64::MAX, stream.received),
            (Flow::Messages, _) => (1, stream.received.saturating_add(1)),
            (Flow::Bytes, 0) if next_brings => (0, stream.received.saturating_add(1)),
            (Flow::Counter, _) | (Flow::Bytes, 0) => (u64::MAX, stream.received),
            (Flow::Bytes, bytes) => (bytes, stream.received.saturating_add(bytes)),
        };
        if counts != u64::MAX {
            stream.received = stream.received.saturating_add(counts);
        }
        let count = stream.enclosed.partition_point(|(at, _)| *at < until);
        (counts, stream.enclosed.drain(..count).map(|(_, enclosed)| enclosed).collect())
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

    fn enclosed(letter: Letter) -> Enclosed {
        Enclosed { letter, description: 0, life: 0 }
    }

    fn letters((counts, enclosed): (u64, Vec<Enclosed>)) -> (u64, Vec<Letter>) {
        (counts, enclosed.iter().map(|e| e.letter).collect())
    }

    #[test]
    fn a_descriptor_comes_with_the_first_byte_of_its_message() {
        let mut all = Streams::default();
        let id = all.make(Flow::Bytes);
        all.send(id, 10, vec![]);
        all.send(id, 5, vec![enclosed(1), enclosed(2)]);
        all.send(id, 5, vec![enclosed(3)]);
        let mut take = |bytes| letters(all.receive(id, bytes));
        assert_eq!(take(10), (10, vec![]));
        assert_eq!(take(1), (1, vec![1, 2]));
        assert_eq!(take(4), (4, vec![]));
        // Without a byte, too, and then not once more.
        assert_eq!(take(0), (0, vec![3]));
        assert_eq!(take(5), (5, vec![]));
        assert_eq!(take(0), (u64::MAX, vec![]));
    }

    #[test]
    fn a_message_is_taken_by_who_has_no_room_for_it() {
        let mut all = Streams::default();
        let (id, bytes) = (all.make(Flow::Messages), all.make(Flow::Bytes));
        assert!(all.takes(id, 0) && all.takes(bytes, 1) && !all.takes(bytes, 0));
        for letter in 1..4 {
            all.send(id, 100, vec![enclosed(letter)]);
        }
        let mut take = |bytes| letters(all.receive(id, bytes));
        assert_eq!(take(0), (1, vec![1]));
        assert_eq!(take(7), (1, vec![2]));
        assert_eq!(take(100), (1, vec![3]));
        assert_eq!(take(0), (u64::MAX, vec![]));
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
