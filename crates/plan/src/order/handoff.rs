//! Hand-offs: who takes bytes out of a stream waits for those who put them in.

use std::collections::VecDeque;

use super::needs::{Needs, Point, Points};
use super::rule::Rule;

#[derive(Debug, Default)]
pub(super) struct Stream {
    sent: u64,
    received: u64,
    /// Sends whose bytes are not all received: positions of their first byte and behind their last.
    waiting: VecDeque<(u64, u64, Point)>,
    /// Everyone whose bytes are received.
    done: Points,
}

impl Stream {
    pub fn send(&mut self, own: Point, bytes: u64) {
        let begin = self.sent;
        self.sent = begin.saturating_add(bytes);
        self.waiting.push_back((begin, self.sent, own));
    }

    /// `u64::MAX` bytes: everything sent so far, as an end of the stream needs it.
    pub fn receive(&mut self, bytes: u64, needs: &mut Needs) {
        let all = bytes == u64::MAX;
        self.received = self.received.saturating_add(bytes).min(self.sent);
        let begun = self.waiting.iter().take_while(|(begin, ..)| all || *begin < self.received);
        begun.for_each(|(.., sender)| needs.add(*sender, Rule::Handoff));
        while let Some(&(_, end, sender)) = self.waiting.front().filter(|(_, end, _)| *end <= self.received) {
            debug_assert!(end <= self.sent);
            self.done.add(sender);
            self.waiting.pop_front();
        }
        if all {
            needs.all(&self.done, Rule::Handoff);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receive_waits_for_the_sends_whose_bytes_it_takes() {
        let mut stream = Stream::default();
        let receive = |stream: &mut Stream, bytes| {
            let mut needs = Needs::default();
            needs.begin(9, None);
            stream.receive(bytes, &mut needs);
            let waits = needs.finish(&mut Default::default(), false);
            waits.edges.iter().map(|e| (e.wait.thread, e.wait.count)).collect::<Vec<_>>()
        };
        let point = |thread, count| Point { thread, count, end_ns: 0 };
        stream.send(point(0, 1), 10);
        stream.send(point(1, 1), 10);
        stream.send(point(2, 1), 10);
        assert_eq!(receive(&mut stream, 4), [(0, 1)]);
        assert_eq!(receive(&mut stream, 7), [(0, 1), (1, 1)]);
        assert_eq!(receive(&mut stream, 9), [(1, 1)]);
        assert_eq!(receive(&mut stream, u64::MAX), [(0, 1), (1, 1), (2, 1)]);
    }
}
