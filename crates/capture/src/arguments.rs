//! Reading what a call is given and what it returns, as its row in the table says.
//!
//! Goals: one exhaustive `match` over the kinds of argument; bounded memory however long a buffer is. Non-goals:
//! knowing single calls.

use reprise_calls::sharing::HANDLE;
use reprise_calls::{ArgKind, Call, Effect, FcntlArg, Returns, Struct, fcntl_arg, ioctl_arg};
use reprise_trace::payload::{Side, append, contributes};
use reprise_trace::{Action, Keep, Name};
use smallvec::SmallVec;

use crate::log::Log;
use crate::memory::Memory;
use crate::messages;

/// The kernel moves no more in one call.
const MOST_MOVED: u64 = 0x7fff_f000;
/// Longer ones the kernel refuses.
pub(crate) const LONGEST_SIZED: u64 = 4096;
/// Content is read and stored in pieces of the trace's blobs.
const PIECE: usize = 1 << 20;
pub(crate) const PATH_LIMIT: usize = 4096;
pub(crate) const TEXT_LIMIT: usize = 1 << 16;
pub(crate) const STRINGS_LIMIT: usize = 2 << 20;

/// Buffers by address and length; most calls have one.
pub type Buffers = SmallVec<[(u64, u64); 1]>;

/// What a call is given, read when it begins.
#[derive(Debug, Default)]
pub struct Inputs {
    /// First path.
    pub path: Option<Name>,
    /// Second path.
    pub path2: Option<Name>,
    /// The `input` column.
    pub input: Vec<u8>,
    /// Buffers: of content given, or of content to be filled.
    pub buffers: Buffers,
    /// Content given.
    pub data: Vec<u32>,
    /// Bytes of it that could be read.
    pub kept: u64,
}

/// Whether the content of this call is needed for the trace to be understood, whatever the policy.
pub fn keep(call: &Call) -> Keep {
    use Effect::*;
    match call.effect {
        ReadLink | List | GetDirectory | ListXattr | GetXattr | SetXattr => Keep::Always,
        // Addresses of sockets: names of files, among others.
        Message if matches!(call.name, "bind" | "connect") => Keep::Always,
        _ => Keep::ByPolicy,
    }
}

/// Size of a structure on one side of a call; `None` if there is none.
fn size(call: &Call, kind: Struct, side: Side, args: &[u64; 6]) -> Option<usize> {
    let arg = |i: u8| args.get(usize::from(i)).copied().unwrap_or(0);
    match kind {
        Struct::Sized(i) | Struct::CloneArgs(i) => Some(arg(i).min(LONGEST_SIZED) as usize),
        Struct::Words(i) => Some(4 * arg(i).min(65_536) as usize),
        Struct::ByCommand => {
            let of = match call.effect {
                Effect::Control => fcntl_arg(args[1]),
                _ => ioctl_arg(args[1]),
            };
            match (of, side) {
                (FcntlArg::In(n), Side::Input) | (FcntlArg::Out(n), Side::Output) => Some(n),
                (FcntlArg::InOut(n), _) => Some(n),
                _ => None,
            }
        }
        fixed => fixed.size(),
    }
}

/// Reads what a call is given. `content` false leaves buffers out (a call that cannot read them).
pub fn inputs(memory: Memory<'_>, call: &Call, args: &[u64; 6], log: &mut Log) -> Inputs {
    let mut out = Inputs::default();
    let mut given = false;
    for (i, arg) in call.args.iter().enumerate().take(6) {
        let at = args[i];
        let length = |of: u8| args.get(usize::from(of)).copied().unwrap_or(0);
        let part = match arg.kind {
            ArgKind::Path(_) => {
                let path = memory.string(at, PATH_LIMIT).map(Name);
                match out.path {
                    None => out.path = path,
                    Some(_) => out.path2 = path,
                }
                None
            }
            ArgKind::Text => memory.string(at, TEXT_LIMIT),
            ArgKind::Strings => memory.strings(at, STRINGS_LIMIT),
            ArgKind::InData(of) => {
                given = true;
                out.buffers.push((at, length(of)));
                None
            }
            ArgKind::OutData(of) => {
                out.buffers.push((at, length(of)));
                None
            }
            ArgKind::InVector(of) | ArgKind::OutVector(of) => {
                given |= matches!(arg.kind, ArgKind::InVector(_));
                let vector = memory.vector(at, length(of));
                let lengths =
                    vector.as_ref().map(|v| v.iter().flat_map(|(_, length)| length.to_le_bytes()).collect::<Vec<u8>>());
                out.buffers = vector.unwrap_or_default().into();
                lengths
            }
            ArgKind::In(kind @ (Struct::Message | Struct::Messages(_))) => messages::given(memory, kind, at, args),
            ArgKind::In(kind) | ArgKind::InOut(kind) => {
                size(call, kind, Side::Input, args).and_then(|n| memory.exact(at, n))
            }
            ArgKind::Out(_)
            | ArgKind::Fd(_)
            | ArgKind::Dirfd
            | ArgKind::Flags(_)
            | ArgKind::Command(_)
            | ArgKind::Mode
            | ArgKind::Offset
            | ArgKind::Length
            | ArgKind::Integer
            | ArgKind::Number
            | ArgKind::Device
            | ArgKind::Owner
            // Which requests they were turns out later.
            | ArgKind::Submits
            | ArgKind::Reaps
            // Whom it leads to is known when the program runs.
            | ArgKind::Environment
            | ArgKind::Address => None,
        };
        if contributes(arg.kind, Side::Input) {
            append(&mut out.input, part.as_deref());
        }
    }
    if given {
        (out.data, out.kept) = content(memory, &out.buffers, MOST_MOVED, keep(call), log);
    }
    out
}

/// What tells of a call in its action, beside its arguments.
#[derive(Debug, Default)]
pub struct Told {
    path: Option<Name>,
    path2: Option<Name>,
    input: Vec<u8>,
}

impl Inputs {
    /// Takes out what the action tells; what is left is for [`outputs`].
    pub fn told(&mut self) -> Told {
        Told { path: self.path.take(), path2: self.path2.take(), input: std::mem::take(&mut self.input) }
    }
}

impl Told {
    /// The action of a call, but for its number and thread.
    pub fn action(self, call: &Call, args: [u64; 6], times: (u64, u64), result: i64, out: Outputs) -> Action {
        let mut action = Action::default();
        self.fill(&mut action, call, args, times, result, out);
        action
    }

    /// The same, of an action that is empty: it is large, and is made where it stays.
    pub fn fill(
        self,
        action: &mut Action,
        call: &Call,
        args: [u64; 6],
        (begin_ns, end_ns): (u64, u64),
        result: i64,
        out: Outputs,
    ) {
        action.call = call.name.into();
        action.begin_ns = begin_ns;
        action.duration_ns = end_ns.saturating_sub(begin_ns);
        action.args = args;
        action.result = result;
        (action.path, action.path2, action.input) = (self.path, self.path2, self.input);
        (action.output, action.data) = (out.output, out.data);
        (action.data_bytes, action.truncated_bytes) = (out.moved, out.truncated);
    }
}

/// What a call returned.
#[derive(Debug, Default)]
pub struct Outputs {
    /// The `output` column.
    pub output: Vec<u8>,
    /// Content moved.
    pub data: Vec<u32>,
    /// Bytes moved.
    pub moved: u64,
    /// Bytes of them that are not known.
    pub truncated: u64,
    /// Why, if they could be read.
    why: Option<&'static str>,
}

impl Outputs {
    /// Why bytes are not known, if any are; `otherwise` tells it of those that could not be read.
    pub fn lacks(&self, otherwise: &'static str) -> &'static str {
        self.why.unwrap_or(otherwise)
    }
}

/// Why bytes are not known, usually.
pub const UNREADABLE: &str = "memory could not be read";
/// Why they are not where buffers of a vector that is read into overlap: memory holds what was read last.
const FILLED_AGAIN: &str = "its buffers overlap";

/// Reads what a call returned. In-kernel movers return no content here.
pub fn outputs(
    memory: Memory<'_>,
    call: &Call,
    args: &[u64; 6],
    result: i64,
    inputs: Inputs,
    log: &mut Log,
) -> Outputs {
    let mut out = Outputs { data: inputs.data, ..Outputs::default() };
    if failed(result) {
        return out;
    }
    let capacity: u64 = inputs.buffers.iter().fold(0, |sum, b| sum.saturating_add(b.1));
    for (i, arg) in call.args.iter().enumerate().take(6) {
        match arg.kind {
            ArgKind::Out(kind @ (Struct::Message | Struct::Messages(_))) => {
                append(&mut out.output, messages::filled(memory, kind, args[i], result).as_deref());
            }
            ArgKind::Out(kind) | ArgKind::InOut(kind) => {
                append(&mut out.output, filled(memory, call, kind, args[i], args).as_deref());
            }
            ArgKind::OutData(_) | ArgKind::OutVector(_) => {
                out.moved = (result as u64).min(capacity);
                let once = filled_once(&inputs.buffers, out.moved);
                let (data, kept) = content(memory, &inputs.buffers, once, keep(call), log);
                out.data = data;
                out.truncated = out.moved - kept;
                out.why = (once < out.moved).then_some(FILLED_AGAIN);
            }
            ArgKind::InData(_) | ArgKind::InVector(_) => {
                out.moved = match call.returns {
                    Returns::Count => result as u64,
                    _ => capacity,
                };
                out.truncated = out.moved.saturating_sub(inputs.kept);
            }
            _ => {}
        }
    }
    out
}

/// A structure that a call filled.
fn filled(memory: Memory<'_>, call: &Call, kind: Struct, at: u64, args: &[u64; 6]) -> Option<Vec<u8>> {
    let handle = |flags: u64, at| memory.exact(at, 4).filter(|_| flags & HANDLE != 0);
    match kind {
        Struct::ChildHandle => handle(args[0], at),
        Struct::CloneArgs(_) => handle(memory.word(at)?, memory.word(at.wrapping_add(8))?),
        other => memory.exact(at, size(call, other, Side::Output, args)?),
    }
}

/// How many bytes buffers that were filled one after the other still hold: up to the first that was filled again.
fn filled_once(buffers: &[(u64, u64)], moved: u64) -> u64 {
    if buffers.len() < 2 {
        return moved;
    }
    let (mut filled, mut done) = (Vec::with_capacity(buffers.len()), 0);
    for &(address, length) in buffers {
        let length = length.min(moved - done);
        filled.extend((length > 0).then_some((address, address.saturating_add(length), done)));
        done += length;
    }
    let mut by_address = filled.clone();
    by_address.sort_unstable();
    if by_address.windows(2).all(|two| two[0].1 <= two[1].0) {
        return moved;
    }
    let again = filled.iter().enumerate().find_map(|(i, (begin, end, at))| {
        let later = filled[i + 1..].iter().filter(|(address, until, _)| address < end && begin < until);
        later.map(|(address, ..)| at + address.saturating_sub(*begin)).min()
    });
    again.unwrap_or(moved)
}

/// Whether a result is an error number negated.
pub fn failed(result: i64) -> bool {
    (-4095..0).contains(&result)
}

/// Reads and stores up to `limit` bytes of buffers that follow each other; stops at the first byte that cannot be read.
pub fn content(memory: Memory<'_>, buffers: &[(u64, u64)], limit: u64, keep: Keep, log: &mut Log) -> (Vec<u32>, u64) {
    let total = buffers.iter().fold(0u64, |sum, b| sum.saturating_add(b.1)).min(limit).min(MOST_MOVED);
    if !log.wants(keep)
        && let Some(kept) = reached(memory, buffers, total)
    {
        return (Vec::new(), kept);
    }
    if let &[(addr, length)] = buffers {
        let length = length.min(total) as usize;
        if length <= PIECE
            && let Some(whole) = memory.bytes(addr, length)
        {
            return (log.blob(whole, keep), length as u64);
        }
        // What is said by its place is mostly said so again.
        if length <= PIECE
            && let Some(place) = memory.place(addr, length)
            && let Some(data) = log.blob_at(place, keep, || memory.exact(addr, length))
        {
            return (data, length as u64);
        }
    }
    let (mut blobs, mut kept, mut left) = (Vec::new(), 0u64, total);
    let mut piece = Vec::with_capacity(PIECE.min(total as usize));
    for &(addr, length) in buffers {
        let mut done = 0;
        while done < length && left > 0 {
            let want = (length - done).min(left).min((PIECE - piece.len()) as u64) as usize;
            let start = piece.len();
            piece.resize(start + want, 0);
            let got = memory.read(addr.wrapping_add(done), &mut piece[start..]);
            piece.truncate(start + got);
            done += got as u64;
            left -= got as u64;
            kept += got as u64;
            if piece.len() == PIECE {
                blobs.extend(log.blob(&piece, keep));
                piece.clear();
            }
            if got < want {
                left = 0;
            }
        }
    }
    blobs.extend(log.blob(&piece, keep));
    (blobs, kept)
}

/// How much of so many bytes in buffers was kept, up to the first byte that was not; `None`: the memory is still the program's.
fn reached(memory: Memory<'_>, buffers: &[(u64, u64)], total: u64) -> Option<u64> {
    let mut kept = 0;
    for &(addr, length) in buffers {
        let wanted = length.min(total - kept);
        let got = memory.reach(addr, wanted as usize)? as u64;
        kept += got;
        if got < wanted {
            break;
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{self, Kept, When};

    #[test]
    fn what_is_not_wanted_was_kept_up_to_the_first_gap() {
        let unwanted =
            |address, length| kept::Range { address, when: When::Exit, bytes: kept::Bytes::Unwanted(length) };
        let mut kept = Kept::default();
        [unwanted(100, 10), unwanted(300, 4), unwanted(500, 10)].into_iter().for_each(|range| kept.add(range));
        let reached = |buffers, total| reached(Memory::Kept(&kept, When::Exit), buffers, total);
        assert_eq!(reached(&[(100, 10), (500, 10)], 20), Some(20));
        assert_eq!(reached(&[(100, 10), (500, 10)], 13), Some(13));
        assert_eq!(reached(&[(100, 10), (300, 10), (500, 10)], 30), Some(14), "of the second a part is missing");
        assert_eq!(super::reached(Memory::Live(1), &[(100, 10)], 10), None);
    }

    #[test]
    fn what_was_filled_again_is_not_known() {
        assert_eq!(filled_once(&[(100, 10), (110, 10), (90, 10)], 30), 30);
        assert_eq!(filled_once(&[(100, 10), (100, 10)], 20), 0);
        assert_eq!(filled_once(&[(100, 10), (104, 10), (300, 5)], 25), 4);
        assert_eq!(filled_once(&[(100, 10), (50, 10), (55, 10)], 30), 15);
        assert_eq!(filled_once(&[(100, 10), (95, 10)], 20), 0);
        assert_eq!(filled_once(&[(100, 10), (100, 10)], 10), 10, "not filled again");
        assert_eq!(filled_once(&[(u64::MAX - 1, 10), (0, 0), (u64::MAX, 9)], 19), 19, "no memory lies there");
    }
}
