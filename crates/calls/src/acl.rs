//! Access lists (`acl(5)`) as extended attributes hold them, and the modes that they make: `fs/posix_acl.c`.
//!
//! Non-goals: whom a list lets in.

/// The attribute that holds who may access a file. Whoever sets it changes the mode, and whoever changes the mode changes it.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute of a directory that holds what is made in it begins with, in place of what the file mode creation mask leaves.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The names under which XFS keeps the two, and lists them once more to who has `CAP_SYS_ADMIN`.
pub const AS_KEPT: [&[u8]; 2] = [b"trusted.SGI_ACL_FILE", b"trusted.SGI_ACL_DEFAULT"];

/// `POSIX_ACL_XATTR_VERSION`.
const VERSION: u32 = 2;

/// An access list that has entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl(Vec<Entry>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    tag: Tag,
    permissions: u16,
    id: [u8; 4],
}

/// Whom an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    Owner = 1,
    User = 2,
    OwnGroup = 4,
    Group = 8,
    Mask = 0x10,
    Other = 0x20,
}

impl Tag {
    fn of(number: u16) -> Option<Tag> {
        [Tag::Owner, Tag::User, Tag::OwnGroup, Tag::Group, Tag::Mask, Tag::Other]
            .into_iter()
            .find(|tag| *tag as u16 == number)
    }
}

impl Acl {
    /// From the value of an attribute; `None` if it is none that the kernel takes, or has no entries, which is how a list is taken
    /// away.
    pub fn decode(value: &[u8]) -> Option<Acl> {
        let (version, entries) = value.split_first_chunk::<4>()?;
        let entries = entries.as_chunks::<8>();
        if u32::from_le_bytes(*version) != VERSION || entries.0.is_empty() || !entries.1.is_empty() {
            return None;
        }
        let entry = |&[tag, tag_high, permissions, high, id @ ..]: &[u8; 8]| {
            let tag = Tag::of(u16::from_le_bytes([tag, tag_high]))?;
            let permissions = Some(u16::from_le_bytes([permissions, high])).filter(|bits| *bits <= 7)?;
            // Of others the kernel keeps none (`ACL_UNDEFINED_ID`).
            let id = if matches!(tag, Tag::User | Tag::Group) { id } else { [0xff; 4] };
            Some(Entry { tag, permissions, id })
        };
        entries.0.iter().map(entry).collect::<Option<_>>().map(Acl)
    }

    /// The value of an attribute.
    pub fn encode(&self) -> Vec<u8> {
        let entry = |e: &Entry| {
            let ([a, b], [c, d], [i, j, k, l]) = ((e.tag as u16).to_le_bytes(), e.permissions.to_le_bytes(), e.id);
            [a, b, c, d, i, j, k, l]
        };
        VERSION.to_le_bytes().into_iter().chain(self.0.iter().flat_map(entry)).collect()
    }

    /// Whether it says no more than a mode does. It is not kept beside one, then.
    pub fn is_only_a_mode(&self) -> bool {
        self.0.iter().all(|entry| matches!(entry.tag, Tag::Owner | Tag::OwnGroup | Tag::Other))
    }

    /// Whether it has entries for users or groups beside the file's own.
    pub fn names_others(&self) -> bool {
        self.0.iter().any(|entry| matches!(entry.tag, Tag::User | Tag::Group))
    }

    /// The mode of a file that has this list, and had this mode before.
    #[must_use]
    pub fn mode(&self, before: u32) -> u32 {
        let places = self.0.iter().filter_map(|entry| Some(u32::from(entry.permissions) << self.place(entry.tag)?));
        before & !0o777 | places.fold(0, |mode, bits| mode | bits)
    }

    /// What becomes of it when its file is given a mode (`chmod`).
    #[must_use]
    pub fn with_mode(&self, mode: u32) -> Acl {
        self.changed(|_, bits| bits, mode)
    }

    /// The list of a file that is made with a mode where this is the default.
    #[must_use]
    pub fn made_with(&self, mode: u32) -> Acl {
        self.changed(|permissions, bits| permissions & bits, mode)
    }

    fn changed(&self, change: impl Fn(u16, u16) -> u16, mode: u32) -> Acl {
        let changed = |entry: &Entry| match self.place(entry.tag) {
            Some(place) => Entry { permissions: change(entry.permissions, (mode >> place & 7) as u16), ..*entry },
            None => *entry,
        };
        Acl(self.0.iter().map(changed).collect())
    }

    /// Where the bits of a mode stand that an entry and the mode have in common: those of the group are the mask's, if there is one.
    fn place(&self, tag: Tag) -> Option<u32> {
        let has_mask = || self.0.iter().any(|entry| entry.tag == Tag::Mask);
        match tag {
            Tag::Owner => Some(6),
            Tag::Mask => Some(3),
            Tag::OwnGroup => (!has_mask()).then_some(3),
            Tag::Other => Some(0),
            Tag::User | Tag::Group => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(entries: &[(Tag, u16, u32)]) -> Vec<u8> {
        let entry = |(tag, permissions, id): &(Tag, u16, u32)| {
            [(*tag as u16).to_le_bytes().to_vec(), permissions.to_le_bytes().to_vec(), id.to_le_bytes().to_vec()]
                .concat()
        };
        [2u32.to_le_bytes().to_vec(), entries.iter().flat_map(entry).collect()].concat()
    }

    const NOBODY: u32 = u32::MAX;
    const PLAIN: [(Tag, u16, u32); 3] = [(Tag::Owner, 7, NOBODY), (Tag::OwnGroup, 5, NOBODY), (Tag::Other, 4, NOBODY)];
    const MASKED: [(Tag, u16, u32); 5] = [
        (Tag::Owner, 6, NOBODY),
        (Tag::User, 7, 65534),
        (Tag::OwnGroup, 4, NOBODY),
        (Tag::Mask, 6, NOBODY),
        (Tag::Other, 0, NOBODY),
    ];

    #[test]
    fn a_list_makes_a_mode() {
        let [plain, masked] = [&PLAIN[..], &MASKED[..]].map(|list| Acl::decode(&value(list)).unwrap());
        assert_eq!((plain.mode(0o2777), plain.is_only_a_mode()), (0o2754, true));
        assert_eq!((masked.mode(0o4111), masked.is_only_a_mode()), (0o4660, false));
        assert!(masked.names_others() && !plain.names_others());
        assert_eq!(masked.encode(), value(&MASKED));
        let of_somebody = MASKED.map(|(tag, permissions, _)| (tag, permissions, 65534));
        assert_eq!(Acl::decode(&value(&of_somebody)).unwrap().encode(), value(&MASKED), "most entries are nobody's");
    }

    #[test]
    fn a_mode_changes_a_list() {
        let masked = Acl::decode(&value(&MASKED)).unwrap();
        let given = masked.with_mode(0o1751);
        assert_eq!(given.mode(0o1751), 0o1751);
        // The group's own entry is not its mask.
        assert_eq!(given.0[2], masked.0[2]);
        assert_eq!(masked.made_with(0o644).mode(0o644), 0o640);
        let plain = Acl::decode(&value(&PLAIN)).unwrap();
        assert_eq!(plain.made_with(0o666).mode(0o666), 0o644);
    }

    #[test]
    fn what_is_no_list() {
        let damaged = [
            value(&[]),
            Vec::new(),
            vec![2, 0, 0],
            value(&PLAIN)[..27].to_vec(),
            [vec![3], value(&PLAIN)[1..].to_vec()].concat(),
        ];
        damaged.iter().for_each(|bytes| assert_eq!(Acl::decode(bytes), None, "{bytes:?}"));
    }
}
