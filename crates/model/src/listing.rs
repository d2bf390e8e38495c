//! Directory listings: the names in a `getdents` buffer, and how far a description has listed.

/// How far a directory was listed since it was opened or rewound.
#[derive(Debug, Clone, Default)]
pub struct ListingState {
    /// Number of this listing, given at its first call; 0 before.
    pub number: u64,
    /// Entries so far, without `.`, `..` and what stands for mounted file systems.
    pub names: Vec<Vec<u8>>,
    /// Whether a call was made since the begin.
    pub begun: bool,
    /// The position was set to somewhere in the middle: what follows is not known to be a whole listing.
    pub lost: bool,
}

/// Names in a buffer of `getdents64` (`old`: of `getdents`), without `.` and `..`. A malformed rest is left out.
pub fn entry_names(buffer: &[u8], old: bool) -> Vec<Vec<u8>> {
    // struct linux_dirent64: u64 ino, i64 off, u16 reclen, u8 type, name; linux_dirent: no type before the name.
    let name_at = if old { 18 } else { 19 };
    let mut out = Vec::new();
    let mut rest = buffer;
    while rest.len() > name_at {
        let length = usize::from(u16::from_le_bytes([rest[16], rest[17]]));
        let Some(record) = rest.get(..length).filter(|r| r.len() > name_at) else {
            break;
        };
        let name = record[name_at..].split(|b| *b == 0).next().unwrap_or_default();
        if name != b"." && name != b".." {
            out.push(name.to_vec());
        }
        rest = &rest[length..];
    }
    out
}
