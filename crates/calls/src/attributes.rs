//! Attributes of a file in the memory of stat(2) and statx(2): what stands where.
//!
//! Goals: one layout for all who read or write these structures (`struct stat` of x86-64, arch/x86/include/uapi/asm/stat.h;
//! `struct statx`, include/uapi/linux/stat.h). Non-goals: which attributes a replay can reproduce.

/// Length of `struct stat`.
pub const STAT_BYTES: usize = 144;
/// Length of `struct statx`.
pub const STATX_BYTES: usize = 256;
/// An owner or group that no file has, where none is known: chown(2) takes it for "as it is".
pub const NOBODY_KNOWN: u32 = u32::MAX;

const KIND: u32 = 0o170_000;

/// A time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Time {
    /// Seconds since the epoch.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanoseconds: u32,
}

impl Time {
    /// Nanoseconds since the epoch, or the farthest that can be said.
    pub fn since_1970_ns(self) -> i64 {
        self.seconds.saturating_mul(1_000_000_000).saturating_add(self.nanoseconds.into())
    }
}

/// What a structure tells; `None` is what it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// `stx_mask`: which of the others were filled.
    pub mask: Option<u32>,
    /// Device of the file system, as makedev(3) puts it together.
    pub device: Option<u64>,
    /// Number of the file there.
    pub inode: Option<u64>,
    /// `S_IFMT` of the mode.
    pub kind: Option<u32>,
    /// The other bits of the mode.
    pub permissions: Option<u32>,
    /// Hard links.
    pub links: Option<u64>,
    /// User.
    pub owner: Option<u32>,
    /// Group.
    pub group: Option<u32>,
    /// The device that a device node stands for, as makedev(3) puts it together.
    pub node: Option<u64>,
    /// Bytes.
    pub size: Option<u64>,
    /// `st_blksize`, bytes.
    pub block_bytes: Option<u64>,
    /// Blocks of 512 bytes.
    pub blocks: Option<u64>,
    /// Access, modification, change, birth.
    pub times: [Option<Time>; 4],
    /// `stx_attributes` and `stx_attributes_mask`.
    pub flags: Option<(u64, u64)>,
}

/// Where a number stands, how long it is, and the bit of `stx_mask` that says whether it was filled; no bit: always.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    bytes: usize,
    bit: u32,
}

const fn place(at: usize, bytes: usize, bit: u32) -> Place {
    Place { at, bytes, bit }
}

struct Layout {
    mask: Option<Place>,
    /// Their halves, or one number.
    devices: [(Place, Option<Place>); 2],
    inode: Place,
    kind: Place,
    permissions: Place,
    links: Place,
    owner: Place,
    group: Place,
    size: Place,
    block_bytes: Place,
    blocks: Place,
    /// Seconds; nanoseconds follow in as many bytes as said.
    times: [Option<(Place, usize)>; 4],
    flags: Option<[Place; 2]>,
}

const STAT: Layout = Layout {
    mask: None,
    devices: [(place(0, 8, 0), None), (place(40, 8, 0), None)],
    inode: place(8, 8, 0),
    kind: place(24, 4, 0),
    permissions: place(24, 4, 0),
    links: place(16, 8, 0),
    owner: place(28, 4, 0),
    group: place(32, 4, 0),
    size: place(48, 8, 0),
    block_bytes: place(56, 8, 0),
    blocks: place(64, 8, 0),
    times: [Some((place(72, 8, 0), 8)), Some((place(88, 8, 0), 8)), Some((place(104, 8, 0), 8)), None],
    flags: None,
};

const STATX: Layout = Layout {
    mask: Some(place(0, 4, 0)),
    devices: [(place(136, 4, 0), Some(place(140, 4, 0))), (place(128, 4, 0), Some(place(132, 4, 0)))],
    inode: place(32, 8, 0x100),
    kind: place(28, 2, 1),
    permissions: place(28, 2, 2),
    links: place(16, 4, 4),
    owner: place(20, 4, 8),
    group: place(24, 4, 0x10),
    size: place(40, 8, 0x200),
    block_bytes: place(4, 4, 0),
    blocks: place(48, 8, 0x400),
    times: [
        Some((place(64, 8, 0x20), 4)),
        Some((place(112, 8, 0x40), 4)),
        Some((place(96, 8, 0x80), 4)),
        Some((place(80, 8, 0x800), 4)),
    ],
    flags: Some([place(8, 8, 0), place(56, 8, 0)]),
};

fn layout(length: usize) -> Option<&'static Layout> {
    match length {
        STAT_BYTES => Some(&STAT),
        STATX_BYTES => Some(&STATX),
        _ => None,
    }
}

fn get(bytes: &[u8], place: Place) -> u64 {
    (0..place.bytes).rev().fold(0, |n, i| n << 8 | u64::from(bytes[place.at + i]))
}

fn put(bytes: &mut [u8], place: Place, value: u64) {
    bytes[place.at..place.at + place.bytes].copy_from_slice(&value.to_le_bytes()[..place.bytes]);
}

/// A device number from its halves (makedev(3)).
pub fn make_device(major: u64, minor: u64) -> u64 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xffff_ff00) << 12 | (major & 0xffff_f000) << 32
}

/// The halves of a device number: major, minor.
pub fn device_halves(device: u64) -> (u64, u64) {
    ((device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000), (device & 0xff) | (device >> 12 & 0xffff_ff00))
}

impl Attributes {
    /// From a structure; `None` if it has the length of neither.
    pub fn decode(bytes: &[u8]) -> Option<Attributes> {
        let l = layout(bytes.len())?;
        let mask = l.mask.map(|place| get(bytes, place) as u32);
        let told =
            |place: Place| (place.bit == 0 || mask.is_none_or(|mask| mask & place.bit != 0)).then(|| get(bytes, place));
        let short = |place| told(place).map(|value| value as u32);
        let [device, node] = l.devices.map(|(major, minor)| match minor {
            None => get(bytes, major),
            Some(minor) => make_device(get(bytes, major), get(bytes, minor)),
        });
        let time = |(seconds, length): (Place, usize)| {
            let nanoseconds = get(bytes, place(seconds.at + 8, length, 0)) as u32;
            told(seconds).map(|seconds| Time { seconds: seconds as i64, nanoseconds })
        };
        Some(Attributes {
            mask,
            device: Some(device),
            inode: told(l.inode),
            kind: short(l.kind).map(|mode| mode & KIND),
            permissions: short(l.permissions).map(|mode| mode & !KIND),
            links: told(l.links),
            owner: short(l.owner),
            group: short(l.group),
            node: Some(node),
            size: told(l.size),
            block_bytes: told(l.block_bytes),
            blocks: told(l.blocks),
            times: l.times.map(|place| place.and_then(time)),
            flags: l.flags.map(|[set, known]| (get(bytes, set), get(bytes, known))),
        })
    }

    /// Type and permissions, if both are told.
    pub fn mode(&self) -> Option<u32> {
        Some(self.kind? | self.permissions?)
    }

    /// Writes what is told into a structure, and leaves all else as it is; nothing if it has the length of neither.
    pub fn write(&self, bytes: &mut [u8]) {
        let Some(l) = layout(bytes.len()) else { return };
        let mut set = |place: Place, value: Option<u64>| {
            if let Some(value) = value {
                put(bytes, place, value);
            }
        };
        if let Some(place) = l.mask {
            set(place, self.mask.map(u64::from));
        }
        for ((major, minor), device) in l.devices.into_iter().zip([self.device, self.node]) {
            match minor {
                None => set(major, device),
                Some(minor) => {
                    set(major, device.map(|device| device_halves(device).0));
                    set(minor, device.map(|device| device_halves(device).1));
                }
            }
        }
        set(l.kind, self.mode().map(u64::from));
        for (place, value) in [
            (l.inode, self.inode),
            (l.links, self.links),
            (l.owner, self.owner.map(u64::from)),
            (l.group, self.group.map(u64::from)),
            (l.size, self.size),
            (l.block_bytes, self.block_bytes),
            (l.blocks, self.blocks),
        ] {
            set(place, value);
        }
        for (at, time) in l.times.into_iter().zip(self.times) {
            if let Some((seconds, length)) = at {
                set(seconds, time.map(|time| time.seconds as u64));
                set(place(seconds.at + 8, length, 0), time.map(|time| time.nanoseconds.into()));
            }
        }
        for (place, flags) in l.flags.into_iter().flatten().zip([self.flags.map(|f| f.0), self.flags.map(|f| f.1)]) {
            set(place, flags);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Attributes {
        let time = |n: i64| Some(Time { seconds: -n, nanoseconds: n as u32 });
        Attributes {
            mask: Some(0xfff),
            device: Some(make_device(0x12345, 0x6789a)),
            inode: Some(u64::MAX - 1),
            kind: Some(0o100_000),
            permissions: Some(0o4751),
            links: Some(3),
            owner: Some(1000),
            group: Some(NOBODY_KNOWN),
            node: Some(make_device(8, 1)),
            size: Some(1 << 40),
            block_bytes: Some(4096),
            blocks: Some(17),
            times: [time(1), time(2), time(3), time(4)],
            flags: Some((0x10, 0xffff)),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let (mut stat, mut statx) = ([0; STAT_BYTES], [0; STATX_BYTES]);
        all().write(&mut stat);
        all().write(&mut statx);
        assert_eq!(Attributes::decode(&statx), Some(all()));
        let [access, modification, change, _] = all().times;
        let seen = Attributes { mask: None, flags: None, times: [access, modification, change, None], ..all() };
        assert_eq!(Attributes::decode(&stat), Some(seen));
        assert_eq!(Attributes::decode(&stat[1..]), None);
    }

    #[test]
    fn what_was_not_filled_is_not_told() {
        let mut statx = [0; STATX_BYTES];
        Attributes { mask: Some(0x202), ..all() }.write(&mut statx);
        let seen = Attributes::decode(&statx).expect("its length");
        assert_eq!((seen.size, seen.permissions), (all().size, all().permissions));
        assert_eq!((seen.kind, seen.owner, seen.inode, seen.times), (None, None, None, [None; 4]));
        assert_eq!(seen.mode(), None);
    }

    #[test]
    fn only_what_is_told_is_written() {
        let mut stat = [0; STAT_BYTES];
        all().write(&mut stat);
        Attributes { owner: Some(7), ..Attributes::default() }.write(&mut stat);
        assert_eq!(
            Attributes::decode(&stat).map(|a| (a.owner, a.group, a.size)),
            Some((Some(7), all().group, all().size))
        );
    }
}
