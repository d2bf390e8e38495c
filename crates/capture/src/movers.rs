//! Calls that move content inside the kernel: what they moved is read from the file that it came from, or went to.
//!
//! Goals: `sendfile`, `copy_file_range` and `splice` carry their bytes in the trace like `read` and `write` do; of what a device or
//! a pipe gave, the file that it went to tells.
//! Non-goals: content that only pipes and sockets hold.

use reprise_calls::Call;
use reprise_calls::moving::ends;
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

    /// The descriptor.
    pub fn descriptor(self) -> u32 {
        self.fd
    }
}

/// Before the call: finds the regular file among its descriptors, the source first, and its position.
pub fn before(tid: i32, call: &Call, args: &[u64; 6], input: &[u8]) -> Option<Source> {
    let ends = ends(call)?;
    let parts = split(call, Side::Input, input);
    [ends.source, ends.target].into_iter().find_map(|end| {
        let number = u32::try_from(args[end.fd] as i32).ok()?;
        let path = std::ffi::CString::new(format!("/proc/{tid}/fd/{number}")).ok()?;
        if !sys::stat_at(HERE, &path, 0).ok()?.is_file() {
            return None;
        }
        let offset = match end.given(&parts) {
            Some(offset) => offset,
            None => procfs::fd_info(tid, number.into())?.position,
        };
        Some(Source { fd: number, offset })
    })
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
