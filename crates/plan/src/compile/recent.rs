//! Where things were placed, remembered as long as they are used now and then.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// Offsets by key, in two generations: what is found in the old one becomes young again.
pub(super) struct Recent<T> {
    young: HashMap<Box<[T]>, u64, RandomState>,
    old: HashMap<Box<[T]>, u64, RandomState>,
    bytes: usize,
    most_bytes: usize,
}

/// What an entry takes beside its key.
const OVERHEAD_BYTES: usize = 48;

impl<T: Hash + Eq + Clone> Recent<T> {
    /// Remembers between this many bytes and twice as many.
    pub fn new(most_bytes: usize) -> Recent<T> {
        Recent { young: HashMap::default(), old: HashMap::default(), bytes: 0, most_bytes }
    }

    pub fn get(&mut self, key: &[T]) -> Option<u64> {
        if let Some(at) = self.young.get(key) {
            return Some(*at);
        }
        let (key, at) = self.old.remove_entry(key)?;
        self.keep(key, at);
        Some(at)
    }

    pub fn insert(&mut self, key: &[T], at: u64) {
        self.keep(key.into(), at);
    }

    fn keep(&mut self, key: Box<[T]>, at: u64) {
        if self.bytes >= self.most_bytes {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += std::mem::size_of_val(&*key) + OVERHEAD_BYTES;
        self.young.insert(key, at);
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut recent = Recent::new(100 * 50);
        recent.insert(b"used", 7);
        for i in 0..1000u64 {
            recent.insert(&i.to_le_bytes(), i);
            assert_eq!(recent.get(b"used"), Some(7));
        }
        assert_eq!(recent.get(&0u64.to_le_bytes()), None);
        assert_eq!(recent.get(&999u64.to_le_bytes()), Some(999));
        assert!(recent.young.len() + recent.old.len() < 250);
    }
}
