//! Descriptors that go from one process to another in a message (`SCM_RIGHTS`).
//!
//! Goals: what is received is what was sent, where there is no doubt which message that was. Non-goals: which sockets are connected: of
//! several messages under way nothing is said.

use std::cell::RefCell;
use std::rc::Rc;

use reprise_calls::Envelope;
use reprise_trace::payload::{Side, split};

use super::Seen;
use crate::World;
use crate::descriptors::Description;

/// More under way are not remembered.
const MOST: usize = 64;

/// Open files in a message that nobody has received.
pub type Enclosed = Vec<Rc<RefCell<Description>>>;

impl World {
    pub(super) fn pass_on(&mut self, s: &Seen<'_>) {
        match s.call.name {
            "sendmsg" | "sendmmsg" => self.enclose(s),
            "recvmsg" => self.unfold(s, s.arg(2)),
            "recvmmsg" => self.unfold(s, s.arg(3)),
            _ => {}
        }
    }

    fn enclose(&mut self, s: &Seen<'_>) {
        let sent = if s.call.name == "sendmsg" { 1 } else { s.result as usize };
        for envelope in envelopes(s, Side::Input).into_iter().take(sent).filter(|e| !e.descriptors.is_empty()) {
            if self.posted.len() >= MOST {
                self.posted.remove(0);
            }
            let open = envelope.descriptors.iter().filter_map(|fd| self.description(s.seat, *fd, None));
            let enclosed = open.collect();
            self.posted.push(enclosed);
        }
    }

    fn unfold(&mut self, s: &Seen<'_>, flags: u64) {
        const PEEK: u64 = 2;
        for envelope in envelopes(s, Side::Output).into_iter().filter(|e| !e.descriptors.is_empty()) {
            let is_sure = self.posted.len() == 1;
            let enclosed = match self.posted.first() {
                None => return,
                Some(_) if flags & PEEK == 0 => self.posted.remove(0),
                Some(first) => first.clone(),
            };
            if is_sure && enclosed.len() == envelope.descriptors.len() {
                let received = envelope.descriptors.iter().zip(enclosed);
                received.for_each(|(fd, description)| self.bind(s.seat, *fd, description));
            }
        }
    }
}

fn envelopes(s: &Seen<'_>, side: Side) -> Vec<Envelope> {
    let payload = if side == Side::Input { &s.decoded.input } else { &s.decoded.output };
    split(s.call, side, payload)[1].map_or(Vec::new(), Envelope::decode)
}
