//! Whom a process runs as (`credentials(7)`).

/// Users and groups of a process: real, effective, saved, and for access to files.
///
/// Encoded as eight 32-bit words: users, then groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Credentials {
    /// Users.
    pub users: [u32; 4],
    /// Groups.
    pub groups: [u32; 4],
}

impl Credentials {
    /// Length of the encoded form in bytes.
    pub const BYTES: usize = 32;

    /// The encoded form.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        let words = self.users.iter().chain(&self.groups);
        out.as_chunks_mut::<4>().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        out
    }

    /// From encoded bytes; `None` if they are not that many.
    pub fn decode(bytes: &[u8]) -> Option<Credentials> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let word = |i: usize| bytes.as_chunks::<4>().0.get(i).map_or(0, |b| u32::from_le_bytes(*b));
        Some(Credentials { users: [0, 1, 2, 3].map(word), groups: [4, 5, 6, 7].map(word) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let told = Credentials { users: [1, 2, 3, u32::MAX], groups: [5, 6, 7, 8] };
        assert_eq!(Credentials::decode(&told.encode()), Some(told));
        assert_eq!(Credentials::decode(&told.encode()[1..]), None);
    }
}
