//! Finds content that was stored before.
//!
//! Goals: memory that neither the number of contents nor their size changes; what was met last is found longest. Non-goals:
//! finding all: content that was not met for long may be stored again.

/// Contents remembered; 40 MiB with their hashes, of which a short trace touches little.
const REMEMBERED: usize = 1 << 21;
/// Of these, in which place one may stand is for its hash to say, within so many.
const WAYS: usize = 8;

/// 16 bytes of a hash, and the number behind it plus one: no content where it is zero.
type Entry = [u32; 5];
/// Those that were met last come first.
type Set = [Entry; WAYS];

/// Finds the number of equal content.
pub(crate) struct Deduplicator {
    sets: Vec<Set>,
    next: u32,
}

impl Default for Deduplicator {
    fn default() -> Deduplicator {
        Deduplicator::remembering(REMEMBERED)
    }
}

impl Deduplicator {
    /// One that remembers about so many contents.
    fn remembering(contents: usize) -> Deduplicator {
        Deduplicator { sets: vec![Set::default(); (contents / WAYS).next_power_of_two()], next: 0 }
    }

    /// The blob of this hash, and whether it is new.
    pub(crate) fn number(&mut self, hash: &blake3::Hash) -> (u32, bool) {
        let (words, _) = hash.as_bytes().as_chunks::<4>();
        let [a, b, c, d, which, ..] = [0, 1, 2, 3, 4].map(|i| u32::from_le_bytes(words[i]));
        let at = which as usize & (self.sets.len() - 1);
        let set = &mut self.sets[at];
        let found = set.iter().position(|entry| entry[..4] == [a, b, c, d] && entry[4] != 0);
        let blob = found.map_or(self.next, |way| set[way][4] - 1);
        // Whichever was found, or the one that was not met for longest, makes room at the front.
        set[..=found.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = [a, b, c, d, blob + 1];
        self.next += u32::from(found.is_none());
        (blob, found.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(content: u64) -> blake3::Hash {
        blake3::hash(&content.to_le_bytes())
    }

    #[test]
    fn equal_content_has_one_number() {
        let mut dedup = Deduplicator::remembering(1 << 12);
        let first: Vec<(u32, bool)> = (0..1000).map(|n| dedup.number(&hash(n))).collect();
        assert_eq!(first, (0..1000).map(|n| (n, true)).collect::<Vec<_>>());
        let again: Vec<(u32, bool)> = (0..1000).map(|n| dedup.number(&hash(n))).collect();
        assert_eq!(again, (0..1000).map(|n| (n, false)).collect::<Vec<_>>());
    }

    /// Numbers are never given twice, and what is met now and then stays known, however much comes between.
    #[test]
    fn what_was_met_last_is_found_and_memory_stays_the_same() {
        const REMEMBERED: usize = 1 << 10;
        let mut dedup = Deduplicator::remembering(REMEMBERED);
        let (mut next, mut forgotten) = (0, 0);
        for n in 0..100 * REMEMBERED as u64 {
            let is_often_met = n % 100 == 0;
            let content = if is_often_met { u64::MAX } else { n };
            let (number, is_new) = dedup.number(&hash(content));
            assert!(number == next && is_new || number < next && !is_new);
            next += u32::from(is_new);
            forgotten += u32::from(is_often_met && is_new && n > 0);
        }
        assert_eq!(forgotten, 0);
        assert_eq!(dedup.sets.len() * WAYS, REMEMBERED);
        let known = (0..100 * REMEMBERED as u64).rev().take(REMEMBERED / 4).filter(|n| n % 100 != 0);
        assert!(known.clone().count() > 200);
        for n in known {
            assert!(!dedup.number(&hash(n)).1, "{n}");
        }
    }
}
