//! Attributes of a file, from `struct stat` or `struct statx`.

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

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut out = [0; 8];
    if let (Some(source), Some(target)) = (bytes.get(at..at + N), out.get_mut(..N)) {
        target.copy_from_slice(source);
    }
    u64::from_le_bytes(out)
}

fn time(seconds: u64, nanoseconds: u64) -> Option<u64> {
    Some(seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds))
}

impl Attributes {
    /// From the structure; `None` if it has neither's size.
    pub fn decode(bytes: &[u8]) -> Option<Attributes> {
        match bytes.len() {
            144 => Some(Self::stat(bytes)),
            256 => Some(Self::statx(bytes)),
            _ => None,
        }
    }

    fn stat(b: &[u8]) -> Attributes {
        let (w, d) = (number::<4>, number::<8>);
        Attributes {
            kind: Some(w(b, 24) & u64::from(libc::S_IFMT)),
            mode: Some(w(b, 24) & 0o7777),
            size: Some(d(b, 48)),
            links: Some(d(b, 16)),
            rdev: Some(d(b, 40)),
            owner: Some(w(b, 28)),
            group: Some(w(b, 32)),
            identity: Some((d(b, 0), d(b, 8))),
            own: vec![
                ("device of the file system", Some(d(b, 0))),
                ("inode number", Some(d(b, 8))),
                ("block size", Some(d(b, 56))),
                ("blocks", Some(d(b, 64))),
                ("times", time(d(b, 72), d(b, 80))),
                ("times", time(d(b, 88), d(b, 96))),
                ("times", time(d(b, 104), d(b, 112))),
            ],
        }
    }

    fn statx(b: &[u8]) -> Attributes {
        let (h, w, d) = (number::<2>, number::<4>, number::<8>);
        let mask = w(b, 0);
        let asked = |bit: u32, value: u64| (mask & u64::from(bit) != 0).then_some(value);
        let device = |at| libc::makedev(w(b, at) as u32, w(b, at + 4) as u32);
        let stamp = |bit, at| asked(bit, 0).and(time(d(b, at), w(b, at + 8)));
        Attributes {
            kind: asked(libc::STATX_TYPE, h(b, 28) & u64::from(libc::S_IFMT)),
            mode: asked(libc::STATX_MODE, h(b, 28) & 0o7777),
            size: asked(libc::STATX_SIZE, d(b, 40)),
            links: asked(libc::STATX_NLINK, w(b, 16)),
            rdev: Some(device(128)),
            owner: asked(libc::STATX_UID, w(b, 20)),
            group: asked(libc::STATX_GID, w(b, 24)),
            identity: asked(libc::STATX_INO, d(b, 32)).map(|inode| (device(136), inode)),
            own: vec![
                ("device of the file system", Some(device(136))),
                ("inode number", asked(libc::STATX_INO, d(b, 32))),
                ("block size", Some(w(b, 4))),
                ("blocks", asked(libc::STATX_BLOCKS, d(b, 48))),
                ("times", stamp(libc::STATX_ATIME, 64)),
                ("times", stamp(libc::STATX_BTIME, 80)),
                ("times", stamp(libc::STATX_CTIME, 96)),
                ("times", stamp(libc::STATX_MTIME, 112)),
            ],
        }
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
