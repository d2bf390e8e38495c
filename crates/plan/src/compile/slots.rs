//! Descriptor slots: the resource allocation table of Replayfs (section 4), kept without locks.
//!
//! A slot is given to the next descriptor once its life ended, but only by the thread that ended it: thread order then
//! says that every use has passed. A slot that forked processes share is not given away, since nothing orders their ends.

/// Gives slots to bindings of the model.
pub(super) struct Slots {
    /// By binding, whose numbers are used again.
    of: Vec<Option<u32>>,
    free: Vec<Vec<u32>>,
    next: u32,
}

impl Slots {
    pub fn new(threads: usize) -> Slots {
        Slots { of: Vec::new(), free: vec![Vec::new(); threads], next: 0 }
    }

    /// A slot for a new binding.
    pub fn make(&mut self, thread: u32, binding: u32) -> u32 {
        let slot = self.free.get_mut(thread as usize).and_then(Vec::pop).unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        let at = binding as usize;
        if self.of.len() <= at {
            self.of.resize(at + 1, None);
        }
        self.of[at] = Some(slot);
        slot
    }

    /// The slot of a binding.
    pub fn get(&self, binding: u32) -> Option<u32> {
        self.of.get(binding as usize).copied().flatten()
    }

    /// A binding ended, never having been shared.
    pub fn release(&mut self, thread: u32, binding: u32) {
        if let (Some(slot), Some(free)) =
            (self.of.get_mut(binding as usize).and_then(Option::take), self.free.get_mut(thread as usize))
        {
            free.push(slot);
        }
    }

    /// Number of slots.
    pub fn count(&self) -> u32 {
        self.next
    }
}
