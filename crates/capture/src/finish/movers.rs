//! Calls that move content inside the kernel: what they moved is read from the file it came from, or went to, if that
//! is still as it was then.
//!
//! Goals: `sendfile`, `copy_file_range` and `splice` carry their bytes in the trace as when they are watched. Non-goals:
//! content that only pipes and sockets hold; files that were changed later.

use reprise_calls::moving::{Ends, ends};
use reprise_initial::{Seat, World};
use reprise_trace::payload::{Side, split};
use reprise_trace::{DataPolicy, Keep};

use super::decode::Pending;
use super::look::{Live, TICK_NS};
use crate::arguments::failed;
use crate::log::Log;
use crate::sys;
use crate::world::{open_quietly, read_at};

const PIECE: u64 = 1 << 20;

/// Puts the content that a call moved into its action.
pub fn fill(pending: &mut Pending, world: &World, seat: Seat, live: &Live, began_ns: u64, log: &mut Log) {
    let Some(ends) = ends(pending.call).filter(|_| !failed(pending.action.result)) else { return };
    let moved = pending.action.result as u64;
    if pending.action.data_bytes == moved && pending.action.truncated_bytes == 0 {
        // It is known already.
        return;
    }
    pending.action.data_bytes = moved;
    if moved == 0 || log.policy() == DataPolicy::None {
        return;
    }
    let Some(source) = source(pending, ends, world, seat, moved) else { return };
    let (data, kept) = read(&source, live, began_ns.saturating_add(pending.action.begin_ns), moved, log);
    // What a device or a pipe gave stands nowhere else; what a file held may be known by other calls, the whole of it or pieces.
    pending.is_unseen = kept < moved && source.gives;
    (pending.action.data, pending.action.truncated_bytes) = match pending.is_unseen {
        true => (Vec::new(), 0),
        false => (data, moved - kept),
    };
}

/// Where the bytes of a move can be read.
struct Source {
    path: Vec<u8>,
    identity: (u64, u64),
    offset: u64,
    /// They came from there, they did not go there.
    gives: bool,
}

/// The regular file among the descriptors of a call, the source first, and where in it the bytes are.
fn source(pending: &Pending, ends: Ends, world: &World, seat: Seat, moved: u64) -> Option<Source> {
    let parts = split(pending.call, Side::Input, &pending.action.input);
    [ends.source, ends.target].into_iter().find_map(|end| {
        let fd = pending.action.args[end.fd];
        let object = *pending.object(fd)?;
        if object.mode & libc::S_IFMT != libc::S_IFREG {
            return None;
        }
        let after = object.stands_at();
        let offset = end.given(&parts).unwrap_or_else(|| after.saturating_sub(moved));
        let identity = (object.device, object.inode);
        let path = world.path_of(seat, fd as u32, identity).unwrap_or_default();
        Some(Source { path, identity, offset, gives: end == ends.source })
    })
}

/// Reads what a file holds if it has not changed since an instant.
fn read(source: &Source, live: &Live, since_ns: u64, moved: u64, log: &mut Log) -> (Vec<u32>, u64) {
    let file = live.path(&source.path).and_then(|path| {
        use std::os::unix::ffi::OsStrExt;
        open_quietly(std::ffi::OsStr::from_bytes(path.to_bytes())).ok()
    });
    let Some(file) = file else { return (Vec::new(), 0) };
    let since_ns = i64::try_from(since_ns).unwrap_or(i64::MAX);
    let unchanged = sys::stat_fd(&file).is_ok_and(|stat| {
        (stat.id.device, stat.id.inode) == source.identity && stat.mtime_ns.saturating_add(TICK_NS) < since_ns
    });
    if !unchanged {
        return (Vec::new(), 0);
    }
    let (mut blobs, mut done) = (Vec::new(), 0);
    let mut piece = vec![0; PIECE.min(moved) as usize];
    while done < moved {
        let want = PIECE.min(moved - done) as usize;
        let got = read_at(&file, &mut piece[..want], source.offset.saturating_add(done));
        blobs.extend(log.blob(&piece[..got], Keep::ByPolicy));
        done += got as u64;
        if got < want {
            break;
        }
    }
    (blobs, done)
}
