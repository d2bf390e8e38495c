//! Requests of Linux AIO: `struct iocb` (`linux/aio_abi.h`).

use super::asked::Asked;

/// Size of the structure.
pub const BYTES: usize = 64;

const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
const PREADV: u16 = 7;
const PWRITEV: u16 = 8;

fn word(bytes: &[u8; BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// What its completion will carry besides its address.
pub fn data(bytes: &[u8; BYTES]) -> u64 {
    word(bytes, 0)
}

/// The call that a request stands for; none if it touches no storage (it polls).
pub fn asked(bytes: &[u8; BYTES]) -> Option<Asked> {
    let flags = word(bytes, 8) >> 32;
    let opcode = word(bytes, 16) as u16;
    let fd = word(bytes, 16) >> 32;
    let (buffer, position) = ((word(bytes, 24), word(bytes, 32)), word(bytes, 40));
    match opcode {
        PREAD | PWRITE => Asked::buffer(opcode == PWRITE, fd, buffer, position, flags),
        PREADV | PWRITEV => Asked::vector(opcode == PWRITEV, fd, buffer, position, flags),
        FSYNC => Asked::call("fsync", &[fd]),
        FDSYNC => Asked::call("fdatasync", &[fd]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iocb(flags: u64, opcode: u64) -> [u8; BYTES] {
        let words = [77, flags << 32, opcode | 5 << 32, 0x1000, 512, 4096, 0, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|w: &u64| w.to_le_bytes()).collect();
        std::array::from_fn(|i| bytes[i])
    }

    #[test]
    fn requests_are_the_calls_they_stand_for() {
        let of = |flags, opcode| asked(&iocb(flags, opcode)).map(|a| (a.call.name, a.args));
        assert_eq!(of(0, 0), Some(("pread64", [5, 0x1000, 512, 4096, 0, 0])));
        assert_eq!(of(0, 1), Some(("pwrite64", [5, 0x1000, 512, 4096, 0, 0])));
        assert_eq!(of(2, 1), Some(("pwritev2", [5, 0x1000, 1, 4096, 0, 2])));
        assert_eq!(of(0, 7), Some(("preadv", [5, 0x1000, 512, 4096, 0, 0])));
        assert_eq!(of(0, 3), Some(("fdatasync", [5, 0, 0, 0, 0, 0])));
        assert_eq!(of(0, 5), None);
    }
}
