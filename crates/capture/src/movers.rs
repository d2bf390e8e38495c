//! Calls that move content inside the kernel: what they moved is read from the file that it came from, or went to.
//!
//! Goals: `sendfile`, `copy_file_range` and `splice` carry their bytes in the trace like `read` and `write` do.
//! Non-goals: content that only pipes and sockets hold.

use reprise_calls::{ArgKind, Call, Effect, Struct};
use reprise_trace::payload::{Side, split};
use reprise_trace::{DataPolicy, Keep};

use crate::log::Log;
use crate::procfs;
use crate::sys::{self, HERE};
use crate::world::{open_quietly, read_at};

const PIECE: u64 = 1 << 20;

/// Where the bytes of a move can be read once it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    fd: u32,
    offset: u64,
}

impl Source {
    /// A position in what a descriptor names.
    pub fn at(fd: u32, offset: u64) -> Source {
        Source { fd, offset }
    }
}

/// Before the call: finds the regular file among its descriptors, the source first, and its position.
pub fn before(tid: i32, call: &Call, args: &[u64; 6], input: &[u8]) -> Option<Source> {
    if !matches!(call.effect, Effect::Copy | Effect::Splice) {
        return None;
    }
    let parts = split(call, Side::Input, input);
    // (descriptor, position cell) by argument index, the source first.
    let pairs: &[(usize, Option<usize>)] = match call.name {
        "sendfile" => &[(1, Some(2))],
        "copy_file_range" => &[(0, Some(1))],
        _ => &[(0, Some(1)), (2, Some(3))],
    };
    pairs.iter().find_map(|&(fd, cell)| {
        let number = u32::try_from(args[fd] as i32).ok()?;
        let path = std::ffi::CString::new(format!("/proc/{tid}/fd/{number}")).ok()?;
        if !sys::stat_at(HERE, &path, 0).ok()?.is_file() {
            return None;
        }
        let given = cell.filter(|i| is_cell(call, *i)).and_then(|i| parts[i]);
        let offset = match given {
            Some(bytes) => u64::from_le_bytes(bytes.try_into().ok()?),
            None => procfs::fd_info(tid, number.into())?.position,
        };
        Some(Source { fd: number, offset })
    })
}

fn is_cell(call: &Call, arg: usize) -> bool {
    call.args.get(arg).is_some_and(|a| a.kind == ArgKind::InOut(Struct::OffsetCell))
}

/// After the call: the bytes it moved, and how many of them could be read.
pub fn after(tid: i32, source: Source, moved: u64, log: &mut Log) -> (Vec<u32>, u64) {
    if moved == 0 || log.policy() == DataPolicy::None {
        return (Vec::new(), moved);
    }
    let Ok(file) = open_quietly(format!("/proc/{tid}/fd/{}", source.fd)) else {
        return (Vec::new(), 0);
    };
    let (mut blobs, mut done) = (Vec::new(), 0);
    let mut piece = vec![0; PIECE.min(moved) as usize];
    while done < moved {
        let want = PIECE.min(moved - done) as usize;
        let got = read_at(&file, &mut piece[..want], source.offset + done);
        blobs.extend(log.blob(&piece[..got], Keep::ByPolicy));
        done += got as u64;
        if got < want {
            break;
        }
    }
    (blobs, done)
}
