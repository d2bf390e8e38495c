//! Attributes of a file, from `struct stat` or `struct statx`.

use reprise_calls::attributes::Attributes as Told;

/// An attribute that a replay reproduces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Kind,
    Mode,
    Size,
    Links,
    DeviceNumber,
    Owner,
    Group,
}

impl Field {
    pub fn word(self) -> &'static str {
        match self {
            Field::Kind => "type",
            Field::Mode => "mode",
            Field::Size => "size",
            Field::Links => "number of links",
            Field::DeviceNumber => "device number",
            Field::Owner => "owner",
            Field::Group => "group",
        }
    }

    /// A value in words.
    pub fn show(self, value: u64) -> String {
        match self {
            Field::Kind => kind_word(value as u32).to_owned(),
            Field::Mode => format!("{value:04o}"),
            Field::Size | Field::Links | Field::DeviceNumber | Field::Owner | Field::Group => value.to_string(),
        }
    }
}

/// The word for a type (`st_mode & S_IFMT`).
pub(crate) fn kind_word(mode: u32) -> &'static str {
    match mode & libc::S_IFMT {
        libc::S_IFREG => "file",
        libc::S_IFDIR => "directory",
        libc::S_IFLNK => "symbolic link",
        libc::S_IFIFO => "FIFO",
        libc::S_IFSOCK => "socket",
        libc::S_IFCHR => "character device",
        libc::S_IFBLK => "block device",
        _ => "unknown type",
    }
}

/// Attributes; those of a `statx` that it did not fill are `None`.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    pub kind: Option<u64>,
    mode: Option<u64>,
    size: Option<u64>,
    links: Option<u64>,
    rdev: Option<u64>,
    owner: Option<u64>,
    group: Option<u64>,
    /// Device and inode, to know the file again.
    pub identity: Option<(u64, u64)>,
    /// What is the machine's own: a word and its value.
    own: Vec<(&'static str, Option<u64>)>,
}

impl Attributes {
    /// From the structure; `None` if it has neither's size.
    pub fn decode(bytes: &[u8]) -> Option<Attributes> {
        let told = Told::decode(bytes)?;
        let mut own = vec![
            ("device of the file system", told.device),
            ("inode number", told.inode),
            ("block size", told.block_bytes),
            ("blocks", told.blocks),
        ];
        own.extend(told.times.map(|time| ("times", time.map(|time| time.since_1970_ns() as u64))));
        Some(Attributes {
            kind: told.kind.map(u64::from),
            mode: told.permissions.map(u64::from),
            size: told.size,
            links: told.links,
            rdev: told.node,
            owner: told.owner.map(u64::from),
            group: told.group.map(u64::from),
            identity: told.device.zip(told.inode),
            own,
        })
    }

    /// Attributes that differ and should not, with the value found and the value wanted; the worst first. Sizes count for
    /// files and symbolic links, numbers of links for all but directories, device numbers for devices.
    pub fn differences(found: &Attributes, wanted: &Attributes) -> Vec<(Field, u64, u64)> {
        let kind = wanted.kind.or(found.kind).map_or(0, |k| k as u32);
        let sized = matches!(kind, libc::S_IFREG | libc::S_IFLNK);
        let linked = kind != libc::S_IFDIR && kind != 0;
        let device = matches!(kind, libc::S_IFCHR | libc::S_IFBLK);
        let all = [
            (Field::Kind, true, found.kind, wanted.kind),
            (Field::Size, sized, found.size, wanted.size),
            (Field::Mode, true, found.mode, wanted.mode),
            (Field::Links, linked, found.links, wanted.links),
            (Field::DeviceNumber, device, found.rdev, wanted.rdev),
            (Field::Owner, true, found.owner, wanted.owner),
            (Field::Group, true, found.group, wanted.group),
        ];
        let counted = all.into_iter().filter(|(_, counts, ..)| *counts);
        counted
            .filter_map(|(field, _, found, wanted)| Some((field, found?, wanted?)))
            .filter(|(_, found, wanted)| found != wanted)
            .collect()
    }

    /// Words for what differs and is the machine's own; a directory's size and number of links are.
    pub fn own_differences(found: &Attributes, wanted: &Attributes) -> Vec<&'static str> {
        let mut out: Vec<&'static str> = Vec::new();
        let both = found.own.iter().zip(&wanted.own);
        let mut differing: Vec<_> =
            both.filter(|((_, a), (_, b))| a.is_some() && b.is_some() && a != b).map(|((word, _), _)| *word).collect();
        if wanted.kind == Some(u64::from(libc::S_IFDIR)) {
            let differ = |a: Option<u64>, b: Option<u64>| a.is_some() && b.is_some() && a != b;
            if differ(found.size, wanted.size) || differ(found.links, wanted.links) {
                differing.push("size and links of a directory");
            }
        }
        for word in differing {
            if !out.contains(&word) {
                out.push(word);
            }
        }
        out
    }
}
