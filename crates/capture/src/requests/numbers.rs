//! Which descriptors name a ring: it lives as long as one of them, or a thread has registered it.
//!
//! Goals: copies that the process of a ring makes. Non-goals: copies that other processes have (`fork`, messages): for them the ring ends with
//! the descriptors of its own.

use reprise_calls::{Call, Effect};

use super::{Key, Requests};

/// What becomes of a ring whose descriptor ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was no ring's, or not the one that the ring is known by.
    Nothing,
    /// It lives on, and is known by another.
    LivesAs(Key),
    /// It ends.
    Ends,
}

/// The descriptor that a call that did not fail has copied, and the number of the copy.
pub fn copied(call: &Call, args: &[u64; 6], result: i64) -> Option<(u32, u32)> {
    let copies = match call.effect {
        Effect::Duplicate | Effect::DuplicateTo => true,
        Effect::Control => call.opens(args),
        _ => false,
    };
    copies.then_some((args[0] as u32, result as u32))
}

impl Requests {
    /// The ring that a descriptor names.
    pub fn ring(&self, named: Key) -> Key {
        self.copies.get(&named).copied().unwrap_or(named)
    }

    /// A descriptor of a process was copied; what had the number of the copy has ended.
    pub fn copied(&mut self, pid: i32, (from, to): (u32, u32)) {
        let ring = self.ring(Key::Ring(pid, from));
        if from != to && self.channels.contains_key(&ring) {
            self.copies.insert(Key::Ring(pid, to), ring);
        }
    }

    /// A descriptor ends.
    pub fn descriptor_ends(&mut self, named: Key) -> Ending {
        if self.copies.remove(&named).is_some() || !self.channels.contains_key(&named) {
            return Ending::Nothing;
        }
        let copies = self.copies.iter().filter(|(_, ring)| **ring == named);
        if let Some(copy) = copies.map(|(copy, _)| *copy).min() {
            self.copies.remove(&copy);
            return Ending::LivesAs(copy);
        }
        match self.registered.values().any(|ring| *ring == named) {
            true => Ending::LivesAs(self.nameless(named.process())),
            false => Ending::Ends,
        }
    }

    /// For a ring that has no descriptor, or none that is known: no descriptor has this number.
    pub fn nameless(&mut self, pid: i32) -> Key {
        self.nameless += 1;
        Key::Ring(pid, u32::MAX - self.nameless)
    }

    /// Whether a ring has no descriptor that is known.
    pub fn is_nameless(&self, key: Key) -> bool {
        matches!(key, Key::Ring(_, fd) if fd >= u32::MAX - self.nameless)
    }

    /// A ring is known by another descriptor.
    pub fn rename(&mut self, from: Key, to: Key) {
        let channel = self.channels.remove(&from);
        channel.into_iter().for_each(|channel| _ = self.channels.insert(to, channel));
        let named = self.copies.values_mut().chain(self.registered.values_mut());
        named.filter(|ring| **ring == from).for_each(|ring| *ring = to);
    }

    /// A process has ended, or runs another program: it has no descriptors of rings.
    pub fn forget_descriptors(&mut self, pid: i32) {
        self.copies.retain(|named, _| named.process() != pid);
        self.registered.retain(|_, ring| ring.process() != pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::{Channel, Way};

    fn ring(fd: u32) -> Key {
        Key::Ring(1, fd)
    }

    fn requests() -> Requests {
        let mut out = Requests::default();
        out.channels.insert(ring(3), Channel::new("ring".into(), Way::Told));
        out
    }

    #[test]
    fn a_ring_lives_as_long_as_a_copy_of_its_descriptor() {
        let mut requests = requests();
        requests.copied(1, (3, 9));
        requests.copied(1, (9, 10));
        requests.copied(1, (4, 11));
        assert_eq!([9, 10, 11].map(|fd| requests.ring(ring(fd))), [ring(3), ring(3), ring(11)]);
        assert_eq!(requests.descriptor_ends(ring(10)), Ending::Nothing);
        assert_eq!(requests.descriptor_ends(ring(3)), Ending::LivesAs(ring(9)));
        requests.rename(ring(3), ring(9));
        assert_eq!(requests.descriptor_ends(ring(9)), Ending::Ends);
    }

    #[test]
    fn a_range_that_holds_all_of_them_ends_the_ring() {
        let mut requests = requests();
        requests.copied(1, (3, 9));
        let mut endings = Vec::new();
        for named in requests.in_range(1, &[3, u64::MAX, 0, 0, 0, 0]) {
            let ending = requests.descriptor_ends(named);
            if let Ending::LivesAs(to) = ending {
                requests.rename(named, to);
            }
            endings.push(ending);
        }
        assert_eq!(endings, [Ending::LivesAs(ring(9)), Ending::Ends]);
    }

    #[test]
    fn a_ring_that_a_thread_has_registered_needs_no_descriptor() {
        let mut requests = requests();
        requests.registered.insert((7, 0), ring(3));
        let Ending::LivesAs(to) = requests.descriptor_ends(ring(3)) else { panic!("it ends") };
        requests.rename(ring(3), to);
        assert!(requests.is_nameless(to));
        assert_eq!(requests.registered[&(7, 0)], to);
    }
}
