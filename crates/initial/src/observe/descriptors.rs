//! Descriptors: made, duplicated, closed.

use std::cell::RefCell;
use std::rc::Rc;

use reprise_calls::closing::ranged;
use reprise_calls::mounts::Mounts;
use reprise_calls::{ArgKind, Effect, Object, Returns};
use reprise_trace::payload::{Side, child_handle, split};

use super::Seen;
use crate::descriptors::Description;
use crate::node::kind;
use crate::{Seat, World};

impl World {
    /// Every descriptor argument is met.
    pub(super) fn use_descriptors(&mut self, s: &Seen<'_>) {
        for (i, arg) in s.call.args.iter().enumerate() {
            let (fd, annotation) = s.fd(i);
            // `mmap` without a file, and a bad number: nothing.
            if matches!(arg.kind, ArgKind::Fd(_)) && fd < 1 << 20 && s.ok() {
                self.description(s.seat, fd, annotation);
                match s.call.effect {
                    Effect::Message => self.descriptor_is(s.seat, fd, kind::SOCKET),
                    Effect::DeviceControl => self.descriptor_is(s.seat, fd, kind::CHARACTER),
                    _ => {}
                }
            }
        }
    }

    pub(super) fn make_object(&mut self, s: &Seen<'_>) {
        if !s.ok() {
            return;
        }
        let output = split(s.call, Side::Output, &s.decoded.output);
        let pair = output.iter().flatten().next().and_then(|b| b.first_chunk::<8>());
        match pair {
            Some(pair) => {
                for half in pair.chunks_exact(4) {
                    let fd = u32::from_le_bytes(std::array::from_fn(|i| half[i]));
                    self.open_file(s.seat, fd, None, false);
                }
            }
            None if s.call.returns == Returns::Value && !s.call.opens(&s.decoded.args) => {}
            None => {
                let memory = s.call.effect == Effect::MakeObject(Object::Memory);
                let node = memory.then(|| self.names.add_nameless(kind::REGULAR));
                self.open_file(s.seat, s.result as u32, node.map(Mounts::first), false);
                self.take_tree(s);
                self.configure(s);
            }
        }
    }

    /// The descriptor of a child, if its maker got one.
    pub(super) fn make_handle(&mut self, s: &Seen<'_>) {
        if let Some(fd) = child_handle(s.call, &s.decoded.output) {
            self.open_file(s.seat, fd, None, false);
        }
    }

    pub(super) fn close(&mut self, s: &Seen<'_>) {
        let (fd, annotation) = s.fd(0);
        self.description(s.seat, fd, annotation);
        self.forget(s.seat, fd);
    }

    fn forget(&mut self, seat: Seat, fd: u32) {
        let table = &mut self.tables[seat.table as usize];
        table.open.remove(&fd);
        table.told.insert(fd);
    }

    pub(super) fn close_range(&mut self, s: &Seen<'_>) {
        const CLOSE_ON_EXEC: u64 = 4;
        if s.ok() && s.arg(2) & CLOSE_ON_EXEC == 0 {
            let range = ranged(&s.decoded.args);
            let open = self.tables[s.seat.table as usize].open.keys();
            let inside: Vec<u32> = open.copied().filter(|fd| range.contains(fd)).collect();
            inside.into_iter().for_each(|fd| self.forget(s.seat, fd));
        }
    }

    pub(super) fn duplicate(&mut self, s: &Seen<'_>, from: usize, to: i64) {
        let (fd, annotation) = s.fd(from);
        if !s.ok() {
            return;
        }
        let known = self.description(s.seat, fd, annotation);
        let description = known.unwrap_or_else(|| Rc::new(RefCell::new(Description::default())));
        self.bind(s.seat, to as u32, description);
    }

    pub(super) fn control(&mut self, s: &Seen<'_>) {
        const SETFL: u64 = 4;
        const GETFL: u64 = 3;
        const APPEND: u64 = 0o2000;
        match s.arg(1) {
            0 | 1030 => self.duplicate(s, 0, s.result),
            GETFL if s.ok() => {
                self.use_descriptors(s);
                let ways = s.result as u64 & 3;
                self.descriptor_goes(s.seat, s.arg(0) as u32, ways != 1, ways != 0);
            }
            SETFL if s.ok() => {
                let (fd, annotation) = s.fd(0);
                if let Some(description) = self.description(s.seat, fd, annotation) {
                    description.borrow_mut().append = s.arg(2) & APPEND != 0;
                }
            }
            _ => self.use_descriptors(s),
        }
    }
}
