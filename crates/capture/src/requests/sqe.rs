//! Requests of io_uring: `struct io_uring_sqe` (`linux/io_uring.h`).

use super::asked::{Asked, Shape};

/// Size of the part that is decoded.
pub const BYTES: usize = 64;

const FIXED_FILE: u8 = 1;
const DRAIN: u8 = 2;
const LINK: u8 = 4;
const HARD_LINK: u8 = 8;
const BUFFER_SELECT: u8 = 32;
const SKIP_SUCCESS: u8 = 64;
const PROVIDE_BUFFERS: u8 = 31;
const SPLICE_FROM_FIXED: u32 = 1 << 31;
const MESSAGE_SENDS_FILE: u64 = 1;
const ACCEPT: u8 = 13;
const CLOSE: u8 = 19;
const PIPE: u8 = 62;
const ACCEPTS_SEVERAL: u8 = 1;
/// `IORING_FILE_INDEX_ALLOC`: the kernel chooses.
const ANY_PLACE: u32 = u32::MAX;

/// What a request does besides, or instead of, a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Table {
    /// Nothing.
    #[default]
    Untouched,
    /// The descriptor it makes goes into the ring's table, at this place or (none) where there is room.
    Puts(Option<u32>),
    /// It takes a descriptor out of the table.
    Drops(u32),
    /// It replaces entries of the table.
    Replaces {
        /// The first place.
        first: u32,
        /// The address of the new numbers.
        address: u64,
        /// How many.
        count: u32,
    },
    /// It puts descriptors into the table where there is room, and writes the places in their stead.
    Chooses {
        /// The address of the numbers.
        address: u64,
        /// How many.
        count: u32,
    },
    /// It puts the entry at a place also into the table of another ring, at this place or (none) where there is room.
    Sends {
        /// The place.
        from: u32,
        /// The other ring's descriptor.
        ring: u32,
        /// The place there.
        to: Option<u32>,
    },
}

/// Buffers among which the kernel chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// Of none.
    #[default]
    Nothing,
    /// The buffer is chosen from this group.
    From(u16),
    /// The request adds buffers to this group: the first number, how many, the address and length of the first.
    Adds(u16, u16, u16, (u64, u64)),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What its completion will carry.
    pub mark: u64,
    /// The call that it stands for, with its descriptors as they stand in the request; none if it touches no storage.
    pub asked: Option<Asked>,
    /// Arguments of the call that are places in the ring's table.
    pub fixed: [Option<(usize, u32)>; 2],
    /// What it does to the ring's table.
    pub table: Table,
    /// What it has to do with buffers that the kernel chooses.
    pub choice: Choice,
    /// The next request begins when this one is complete.
    pub linked: bool,
    /// Those linked behind it are cancelled if it fails.
    pub breaks: bool,
    /// It begins when all before it are complete, and those after it when it is.
    pub drains: bool,
    /// A success has no completion.
    pub silent: bool,
    /// It accepts connections again and again, each told by a completion of its own, which names no request.
    pub several: bool,
    /// It makes a pipe of which both ends go into the ring's table: not followed.
    pub pipe_in_table: bool,
    /// Fields are set that mean nothing for it: the kernel refuses it with `EINVAL`, and does nothing.
    pub malformed: bool,
    /// It is to be performed with other rights, by their number in the ring: of one that there is not it is refused likewise.
    pub other_rights: bool,
}

struct Fields<'a>(&'a [u8; BYTES]);

impl Fields<'_> {
    fn half(&self, at: usize) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|i| self.0[at + i]))
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|i| self.0[at + i]))
    }
}

/// Decodes a request.
pub fn request(bytes: &[u8; BYTES]) -> Request {
    let f = Fields(bytes);
    let (opcode, flags) = (bytes[0], bytes[1]);
    let (fd, off, addr) = (u64::from(f.half(4)), f.word(8), f.word(16));
    let (len, op_flags, index) = (u64::from(f.half(24)), u64::from(f.half(28)), f.half(44));
    let third = f.word(48);
    let own = (flags & FIXED_FILE != 0).then_some((0, fd as u32));
    let (mut fixed, mut table) = ([own, None], Table::Untouched);
    let place = (index != ANY_PLACE).then_some(index.wrapping_sub(1));
    let puts = if index == 0 { Table::Untouched } else { Table::Puts(place) };
    let asked = match opcode {
        1 | 60 => Asked::vector(false, fd, (addr, len), off, op_flags),
        2 | 61 => Asked::vector(true, fd, (addr, len), off, op_flags),
        3 if op_flags & 1 != 0 => Asked::call("fdatasync", &[fd]),
        3 => Asked::call("fsync", &[fd]),
        4 | 22 => Asked::buffer(false, fd, (addr, len), off, op_flags),
        5 | 23 => Asked::buffer(true, fd, (addr, len), off, op_flags),
        8 => Asked::call("sync_file_range", &[fd, off, len, op_flags]),
        ACCEPT => {
            table = puts;
            Asked::call("accept4", &[fd, addr, off, op_flags])
        }
        16 => Asked::call("connect", &[fd, addr, off]),
        17 => Asked::call("fallocate", &[fd, len, off, addr]),
        18 => {
            table = puts;
            Asked::call("openat", &[fd, addr, op_flags, len])
        }
        CLOSE if index != 0 => {
            (table, fixed[0]) = (Table::Drops(index - 1), Some((0, index - 1)));
            Asked::call("close", &[fd])
        }
        CLOSE => Asked::call("close", &[fd]),
        20 => {
            let (address, count) = (addr, len as u32);
            table = match off as u32 {
                ANY_PLACE => Table::Chooses { address, count },
                first => Table::Replaces { first, address, count },
            };
            None
        }
        21 => Asked::call("statx", &[fd, addr, op_flags, len, off]),
        24 => Asked::call("fadvise64", &[fd, off, if len == 0 { addr } else { len }, op_flags]),
        25 => Asked::call("madvise", &[addr, if len == 0 { off } else { len }, op_flags]),
        26 => Asked::call("sendto", &[fd, addr, len, op_flags]),
        27 => Asked::call("recvfrom", &[fd, addr, len, op_flags]),
        28 => {
            table = puts;
            Asked::call("openat2", &[fd, addr, off, len])
        }
        30 => {
            let from_fixed = op_flags as u32 & SPLICE_FROM_FIXED != 0;
            fixed = [own.map(|(_, place)| (2, place)), from_fixed.then_some((0, index))];
            splice(index.into(), addr, fd, off, len, op_flags & !u64::from(SPLICE_FROM_FIXED))
        }
        33 => {
            let from_fixed = op_flags as u32 & SPLICE_FROM_FIXED != 0;
            fixed = [own.map(|(_, place)| (1, place)), from_fixed.then_some((0, index))];
            Asked::call("tee", &[index.into(), fd, len, op_flags & !u64::from(SPLICE_FROM_FIXED)])
        }
        34 => Asked::call("shutdown", &[fd, len]),
        35 => Asked::call("renameat2", &[fd, addr, len, off, op_flags]),
        36 => Asked::call("unlinkat", &[fd, addr, op_flags]),
        37 => Asked::call("mkdirat", &[fd, addr, len]),
        38 => Asked::call("symlinkat", &[addr, fd, off]),
        39 => Asked::call("linkat", &[fd, addr, len, off, op_flags]),
        40 if addr == MESSAGE_SENDS_FILE && index != 0 => {
            table = Table::Sends { from: third as u32, ring: fd as u32, to: place };
            None
        }
        41 => Asked::call("fsetxattr", &[fd, addr, off, len, op_flags]),
        42 => Asked::call("setxattr", &[third, addr, off, len, op_flags]),
        43 => Asked::call("fgetxattr", &[fd, addr, off, len]),
        44 => Asked::call("getxattr", &[third, addr, off, len]),
        45 => {
            table = puts;
            Asked::call("socket", &[fd, off, len])
        }
        // Installs an entry of the table as an ordinary descriptor: F_DUPFD_CLOEXEC, or F_DUPFD.
        54 => Asked::call("fcntl", &[fd, if op_flags & 1 == 0 { 1030 } else { 0 }, 0]),
        55 => Asked::call("ftruncate", &[fd, off]),
        PIPE if index == 0 => Asked::call("pipe2", &[addr, op_flags]),
        _ => None,
    };
    let group = f.half(40) as u16;
    let choice = match opcode {
        PROVIDE_BUFFERS => Choice::Adds(group, off as u16, fd as u16, (addr, len)),
        _ if flags & BUFFER_SELECT != 0 => Choice::From(group),
        _ => Choice::Nothing,
    };
    Request {
        mark: f.word(32),
        asked,
        fixed,
        table,
        choice,
        linked: flags & (LINK | HARD_LINK) != 0,
        breaks: flags & (LINK | HARD_LINK) == LINK,
        drains: flags & DRAIN != 0,
        silent: flags & SKIP_SUCCESS != 0,
        several: opcode == ACCEPT && bytes[2] & ACCEPTS_SEVERAL != 0,
        pipe_in_table: opcode == PIPE && index != 0,
        malformed: is_malformed(opcode, &f),
        other_rights: f.half(40) >> 16 != 0,
    }
}

/// Whether fields are set that must be 0: a call has no such fields, so it would not fail.
fn is_malformed(opcode: u8, f: &Fields<'_>) -> bool {
    // Of fsync, sync_file_range, fallocate, renameat, unlinkat, mkdirat, symlinkat, linkat and ftruncate.
    const BUFFER: &[u8] = &[3, 8, 17, 35, 36, 37, 38, 39, 55];
    const ADDRESS: &[u8] = &[3, 8, 55];
    // Of those that read and write: a class of priorities that there is not.
    const TRANSFERS: &[u8] = &[1, 2, 4, 5, 22, 23];
    let has_no_class = u16::from_le_bytes([f.0[2], f.0[3]]) >> 13 > 3;
    let (buffer, file) = (f.half(40) as u16, f.half(44));
    let closes_amiss = opcode == CLOSE && (f.word(8) != 0 || f.word(16) != 0 || f.word(24) != 0 || buffer != 0);
    // Before Linux 6.16 there was no such request, whatever its fields.
    opcode == PIPE
        || BUFFER.contains(&opcode) && (buffer != 0 || file != 0)
        || ADDRESS.contains(&opcode) && f.word(16) != 0
        || closes_amiss
        || TRANSFERS.contains(&opcode) && has_no_class
}

/// Positions of -1 are the descriptors' own.
fn splice(from: u64, from_at: u64, to: u64, to_at: u64, length: u64, flags: u64) -> Option<Asked> {
    let position = |at: u64| (at != u64::MAX).then_some(at);
    let positions = [position(from_at), position(to_at)];
    let cell = |i: usize| u64::from(positions[i].is_some());
    let asked = Asked::call("splice", &[from, cell(0), to, cell(1), length, flags])?;
    Some(Asked { shape: Shape::Positions(positions), ..asked })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// opcode, flags, fd, off, addr, len, op_flags, user_data 9, splice_fd_in or file_index.
    #[expect(clippy::too_many_arguments, reason = "the fields of a request in their order")]
    fn sqe(opcode: u8, flags: u8, fd: u32, off: u64, addr: u64, len: u32, op_flags: u32, index: u32) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        (out[0], out[1]) = (opcode, flags);
        out[4..8].copy_from_slice(&fd.to_le_bytes());
        out[8..16].copy_from_slice(&off.to_le_bytes());
        out[16..24].copy_from_slice(&addr.to_le_bytes());
        out[24..28].copy_from_slice(&len.to_le_bytes());
        out[28..32].copy_from_slice(&op_flags.to_le_bytes());
        out[32..40].copy_from_slice(&9u64.to_le_bytes());
        out[44..48].copy_from_slice(&index.to_le_bytes());
        out
    }

    fn of(bytes: [u8; BYTES]) -> (&'static str, [u64; 6]) {
        request(&bytes).asked.map_or(("", [0; 6]), |a| (a.call.name, a.args))
    }

    #[test]
    fn requests_are_the_calls_they_stand_for() {
        assert_eq!(of(sqe(22, 0, 3, 512, 0x1000, 64, 0, 0)), ("pread64", [3, 0x1000, 64, 512, 0, 0]));
        assert_eq!(of(sqe(23, 0, 3, u64::MAX, 0x1000, 64, 0, 0)), ("write", [3, 0x1000, 64, 0, 0, 0]));
        assert_eq!(of(sqe(3, 0, 3, 0, 0, 0, 1, 0)), ("fdatasync", [3, 0, 0, 0, 0, 0]));
        assert_eq!(of(sqe(17, 0, 3, 100, 200, 1, 0, 0)), ("fallocate", [3, 1, 100, 200, 0, 0]));
        assert_eq!(of(sqe(35, 0, 3, 0x2000, 0x1000, 4, 1, 0)), ("renameat2", [3, 0x1000, 4, 0x2000, 1, 0]));
        assert_eq!(of(sqe(62, 0, 0, 0, 0x1000, 0, 0o4000, 0)), ("pipe2", [0x1000, 0o4000, 0, 0, 0, 0]));
        assert_eq!(of(sqe(0, 0, 0, 0, 0, 0, 0, 0)), ("", [0; 6]));
    }

    #[test]
    fn the_table_of_the_ring_is_followed() {
        let open = request(&sqe(18, 4, 3, 0, 0x1000, 0o600, 0o102, 6));
        assert_eq!((open.table, open.linked, open.mark), (Table::Puts(Some(5)), true, 9));
        assert_eq!(request(&sqe(18, 0, 3, 0, 0x1000, 0, 0, u32::MAX)).table, Table::Puts(None));
        let close = request(&sqe(19, 0, 0, 0, 0, 0, 0, 6));
        assert_eq!((close.table, close.fixed[0]), (Table::Drops(5), Some((0, 5))));
        let read = request(&sqe(22, 1 | 2, 7, 0, 0, 0, 0, 0));
        assert_eq!((read.fixed[0], read.drains), (Some((0, 7)), true));
        let update = |first| request(&sqe(20, 0, 0, first, 0x1000, 3, 0, 0)).table;
        assert_eq!(update(2), Table::Replaces { first: 2, address: 0x1000, count: 3 });
        assert_eq!(update(u32::MAX.into()), Table::Chooses { address: 0x1000, count: 3 }, "where there is room");
        let sends = |to| Table::Sends { from: 0, ring: 7, to };
        assert_eq!(request(&sqe(40, 0, 7, 0, 1, 0, 0, 3)).table, sends(Some(2)));
        assert_eq!(request(&sqe(40, 0, 7, 0, 1, 0, 0, u32::MAX)).table, sends(None));
        assert_eq!(request(&sqe(40, 0, 7, 0, 0, 0, 0, 3)).table, Table::Untouched, "a message without a file");
    }

    #[test]
    fn a_request_with_fields_of_another_is_refused() {
        assert!(!request(&sqe(3, 0, 3, 0, 0, 0, 0, 0)).malformed, "fsync");
        assert!(request(&sqe(3, 0, 3, 0, 0x1000, 0, 0, 0)).malformed, "with the address of a buffer");
        let mut other = sqe(3, 0, 3, 0, 0, 0, 0, 0);
        other[40] = 5;
        assert!(request(&other).malformed, "with the number of a buffer");
        assert!(!request(&sqe(22, 0, 3, 0, 0x1000, 0, 0, 0)).malformed, "read");
        assert!(!request(&sqe(19, 0, 3, 0, 0, 0, 0, 0)).malformed, "close");
        assert!(request(&sqe(19, 0, 3, 0, 0, 8, 0, 0)).malformed, "with a length");
        let mut read = sqe(22, 0, 3, 0, 0x1000, 0, 0, 0);
        (read[2], read[3]) = (0xff, 0xff);
        assert!(request(&read).malformed, "with a class of priorities that there is not");
    }

    #[test]
    fn other_rights_are_no_number_of_a_buffer() {
        let mut read = sqe(22, 0, 3, 0, 0x1000, 0, 0, 0);
        read[40] = 5;
        assert!(!request(&read).other_rights);
        read[42] = 5;
        assert!(request(&read).other_rights);
    }

    #[test]
    fn a_pipe_in_the_table_of_a_ring_is_told_of() {
        let in_table = request(&sqe(62, 0, 0, 0, 0x1000, 0, 0, 3));
        assert_eq!((in_table.asked, in_table.pipe_in_table), (None, true));
        assert!(!request(&sqe(62, 0, 0, 0, 0x1000, 0, 0, 0)).pipe_in_table);
    }

    #[test]
    fn positions_of_a_splice_are_numbers() {
        let asked = request(&sqe(30, 0, 4, u64::MAX, 4096, 512, 1 << 31, 2)).asked.expect("a call");
        assert_eq!(asked.shape, Shape::Positions([Some(4096), None]));
        assert_eq!(asked.args, [2, 1, 4, 0, 512, 0]);
    }
}
