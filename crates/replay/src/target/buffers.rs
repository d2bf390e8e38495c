//! The contents that a list of nodes refers to: of one plan, or of several one behind the other.

/// Contents, addressed as if they lay one behind the other; a piece never crosses from one into the next.
#[derive(Debug, Clone, Default)]
pub struct Buffers<'a>(Vec<&'a [u8]>);

impl<'a> Buffers<'a> {
    /// Of several plans, in their order.
    pub fn several(parts: impl IntoIterator<Item = &'a [u8]>) -> Buffers<'a> {
        Buffers(parts.into_iter().collect())
    }

    /// How far addresses go.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|part| part.len() as u64).sum()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes at an address, unless some of them are elsewhere.
    pub fn get(&self, mut at: u64, length: u64) -> Option<&'a [u8]> {
        for part in &self.0 {
            let size = part.len() as u64;
            if at < size || at == size && length == 0 {
                let end = at.checked_add(length).filter(|end| *end <= size)?;
                return part.get(at as usize..end as usize);
            }
            at -= size;
        }
        None
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Buffers<'a> {
    fn from(part: &'a T) -> Buffers<'a> {
        Buffers(vec![part.as_ref()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other() {
        let buffers = Buffers::several([b"abc".as_slice(), b"", b"de"]);
        assert_eq!(buffers.len(), 5);
        assert_eq!(buffers.get(0, 3), Some(&b"abc"[..]));
        assert_eq!(buffers.get(3, 2), Some(&b"de"[..]));
        assert_eq!(buffers.get(2, 2), None);
        assert_eq!(buffers.get(4, 2), None);
        assert_eq!(buffers.get(5, 0), Some(&b""[..]));
        assert_eq!(buffers.get(u64::MAX, u64::MAX), None);
    }
}
