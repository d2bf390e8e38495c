//! `spool/kept`: contents of small files as they were before a command ran.
//!
//! Goals: found by the identity of the file, bounded by who adds them. Non-goals: which are needed.

use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Name of the file in the directory of the spool: for each a head of three words (device, inode, bytes), then its bytes.
pub const KEPT: &str = "kept";
const HEAD_BYTES: usize = 24;

/// Contents, one after the other, and where each begins and ends.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Kept {
    bytes: Vec<u8>,
    places: HashMap<(u64, u64), (usize, usize)>,
}

impl Kept {
    /// So much is kept.
    pub fn kept_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Adds the content of a file; one that is there already stays.
    pub fn add(&mut self, identity: (u64, u64), content: &[u8]) {
        if self.places.contains_key(&identity) {
            return;
        }
        for word in [identity.0, identity.1, content.len() as u64] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.places.insert(identity, (self.bytes.len(), self.bytes.len() + content.len()));
        self.bytes.extend(content);
    }

    /// What a file held.
    pub fn of(&self, identity: (u64, u64)) -> Option<&[u8]> {
        let (from, to) = *self.places.get(&identity)?;
        self.bytes.get(from..to)
    }

    /// Writes it into the directory of a spool, if there is anything.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, spool: &Path) -> io::Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { std::fs::write(spool.join(KEPT), &self.bytes) }
    }

    /// Reads what is in the directory of a spool, up to where it makes no sense.
    pub fn read(spool: &Path) -> Kept {
        let bytes = std::fs::read(spool.join(KEPT)).unwrap_or_default();
        let (mut kept, mut rest) = (Kept::default(), &bytes[..]);
        while let Some((head, after)) = rest.split_at_checked(HEAD_BYTES) {
            let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
            let Some((content, next)) = usize::try_from(word(16)).ok().and_then(|n| after.split_at_checked(n)) else {
                break;
            };
            kept.add((word(0), word(8)), content);
            rest = next;
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let place = std::env::temp_dir().join(format!("reprise-kept-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        assert_eq!(Kept::read(&place), Kept::default());
        let mut kept = Kept::default();
        kept.add((1, 2), b"first");
        kept.add((1, 3), b"");
        kept.add((1, 2), b"second");
        kept.write(&place).unwrap();
        let read = Kept::read(&place);
        assert_eq!(read, kept);
        assert_eq!((read.of((1, 2)), read.of((1, 3)), read.of((2, 2))), (Some(&b"first"[..]), Some(&b""[..]), None));
        let whole = std::fs::read(place.join(KEPT)).unwrap();
        std::fs::write(place.join(KEPT), &whole[..whole.len() - 1]).unwrap();
        assert_eq!(Kept::read(&place).of((1, 2)), Some(&b"first"[..]));
        std::fs::remove_dir_all(&place).unwrap();
    }
}
