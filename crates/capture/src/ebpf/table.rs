//! What the kernel is to keep of each call, derived from the table of calls.
//!
//! Goals: a row for every number, from the kinds of its arguments alone, so that what [`crate::arguments`] reads of a
//! stopped thread is there in a record too. Non-goals: exceptions for single calls, beyond those the recorder has.

use reprise_calls::moving::{Ends, ends};
use reprise_calls::{
    Access, ArgKind, Call, Effect, FcntlArg, Returns, Struct, by_number, fcntl_arg, ioctl_arg, is_unrelated,
};
use reprise_trace::{DataPolicy, Keep};

use super::shared::{PARTS, ROW_BYTES, ROWS, look, object, part, row, when};
use crate::arguments::{self, LONGEST_SIZED, PATH_LIMIT, STRINGS_LIMIT, TEXT_LIMIT};
use crate::filter::RESTART;
use crate::spool::layout::INLINE_BYTES;

/// Memory that a call names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    pub kind: u8,
    pub arg: u8,
    pub of: u8,
    pub when: u8,
    pub size: u32,
}

impl Part {
    /// Whether it is content that calls move, or holds such.
    pub fn is_content(&self) -> bool {
        matches!(self.kind, part::DATA | part::VECTOR | part::IOCBS | part::EVENTS)
    }
}

/// What is kept of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    pub flags: u16,
    pub objects: [u8; 2],
    pub look: u8,
    pub offset: u8,
    /// So many arguments are told in brief.
    pub arguments: u8,
    /// What it moves content between, if that is kept.
    pub ends: Option<Ends>,
    pub parts: Vec<Part>,
}

impl Row {
    /// As `struct row`.
    pub fn encode(&self) -> [u8; ROW_BYTES] {
        let mut out = [0; ROW_BYTES];
        out[..2].copy_from_slice(&self.flags.to_le_bytes());
        out[2] = self.parts.len().min(PARTS) as u8;
        out[3..8].copy_from_slice(&[self.objects[0], self.objects[1], self.look, self.offset, self.arguments]);
        let ends = self.ends.iter().flat_map(|ends| [ends.source, ends.target]);
        for (into, end) in out[8..12].chunks_exact_mut(2).zip(ends) {
            into.copy_from_slice(&[end.fd as u8, end.cell.map_or(0, |cell| cell as u8 + 1)]);
        }
        let (parts, _) = out[ROW_BYTES - 8 * PARTS..].as_chunks_mut();
        for (into, part) in parts.iter_mut().zip(&self.parts) {
            let [a, b, c, d] = part.size.to_le_bytes();
            *into = [part.kind, part.arg, part.of, part.when, a, b, c, d];
        }
        out
    }
}

/// The row of every number; the last is that of unknown calls, as are gaps.
pub fn rows(data: DataPolicy) -> Vec<Row> {
    (0..ROWS).map(|number| row_of(number, data)).collect()
}

fn row_of(number: u32, data: DataPolicy) -> Row {
    match by_number(number) {
        Some(call) => of_call(call, data),
        None if number != RESTART && is_unrelated(number) => Row::default(),
        None => Row { flags: row::RECORDED | row::SIMPLE, arguments: 6, ..Row::default() },
    }
}

fn of_call(call: &Call, data: DataPolicy) -> Row {
    let at_entry = matches!(call.effect, Effect::Execute | Effect::Exit);
    let wanted = data != DataPolicy::None || arguments::keep(call) == Keep::Always;
    let (look, offset) = looks(call);
    let arguments = call.args.len() as u8;
    let (moves, ends) = moving(call).filter(|_| wanted).unzip();
    let flags = row::RECORDED | moves.unwrap_or(0);
    let mut out = Row { flags, objects: objects(call), look, offset, arguments, ends, parts: Vec::new() };
    for (arg, described) in call.args.iter().enumerate().take(6) {
        let Some(mut part) = part_of(call, arg as u8, described.kind) else {
            continue;
        };
        if at_entry {
            part.when = when::ENTRY;
        }
        if part.is_content() && !wanted {
            part.when |= when::UNWANTED;
        }
        if part.when & when::ENTRY != 0 {
            out.flags |= row::ENTER;
        }
        if part.is_content() || part.kind == part::STRINGS {
            out.flags |= row::MORE;
        }
        out.parts.push(part);
    }
    if at_entry {
        out.flags |= row::ENTER | row::ALWAYS;
    }
    if call.effect == Effect::Execute {
        out.flags |= row::EXECUTE;
    }
    if call.args.iter().any(|a| a.kind == ArgKind::Fd(Access::Destroy)) {
        out.flags |= row::ENDS;
    }
    if is_simple(&out) {
        out.flags |= row::SIMPLE;
    }
    out
}

/// Of a call that moves content inside the kernel, its flags and between what.
fn moving(call: &Call) -> Option<(u16, Ends)> {
    let ends = ends(call)?;
    match call.effect {
        Effect::Splice => Some((row::MOVES | row::PIPES, ends)),
        _ => Some((row::MOVES, ends)),
    }
}

/// Whether the record is made in one step: nothing at the entry, one buffer of a known length and one open file at most.
fn is_simple(of: &Row) -> bool {
    let plain = |part: &Part| matches!(part.kind, part::DATA | part::BYTES) && part.size as usize <= INLINE_BYTES;
    let one = of.objects[0] < object::PAIR && of.objects[1] == 0;
    of.flags & (row::ENTER | row::ENDS | row::MOVES) == 0 && of.parts.len() <= 1 && of.parts.iter().all(plain) && one
}

/// The memory that an argument names. Exhaustive: a new kind of argument must be decided here.
pub fn part_of(call: &Call, arg: u8, kind: ArgKind) -> Option<Part> {
    let part = |kind, of, when, size: usize| Some(Part { kind, arg, of, when, size: size as u32 });
    match kind {
        ArgKind::Address => asynchronous(call.name, arg),
        ArgKind::Path(_) => part(part::STRING, 0, when::EXIT, PATH_LIMIT),
        ArgKind::Text => part(part::STRING, 0, when::EXIT, TEXT_LIMIT),
        ArgKind::Strings => part(part::STRINGS, 0, when::EXIT, STRINGS_LIMIT),
        ArgKind::InData(of) => part(part::DATA, of, when::EXIT, 0),
        ArgKind::OutData(of) => part(part::DATA, of, when::FILLED, 0),
        ArgKind::InVector(of) => part(part::VECTOR, of, when::EXIT, 0),
        ArgKind::OutVector(of) => part(part::VECTOR, of, when::FILLED, 0),
        ArgKind::In(of) => structure(call, arg, of, when::EXIT),
        ArgKind::Out(of) => structure(call, arg, of, when::FILLED),
        ArgKind::InOut(of) => structure(call, arg, of, when::ENTRY | when::FILLED),
        ArgKind::Fd(_)
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
        | ArgKind::Environment
        | ArgKind::Submits
        | ArgKind::Reaps => None,
    }
}

/// What calls about requests name by an address: of their rows no action is made, but others'.
fn asynchronous(call: &str, arg: u8) -> Option<Part> {
    let part = |kind, of, when, size| Some(Part { kind, arg, of, when, size });
    match (call, arg) {
        ("io_setup", 1) => part(part::BYTES, 0, when::FILLED, 8),
        ("io_submit", 2) => part(part::IOCBS, 1, when::FILLED, 0),
        ("io_getevents" | "io_pgetevents", 3) => part(part::EVENTS, 0, when::FILLED, 0),
        // What failed may have emptied an entry of a table.
        ("io_uring_register", 2) => part(part::REGISTERED, 3, when::EXIT, 0),
        _ => None,
    }
}

fn structure(call: &Call, arg: u8, kind: Struct, when: u8) -> Option<Part> {
    let part = |kind, of, when, size| Some(Part { kind, arg, of, when, size });
    match kind {
        Struct::Sized(of) => part(part::SIZED, of, when, LONGEST_SIZED as u32),
        // Nothing of it changes; what it points to is there when the call is over.
        Struct::CloneArgs(of) => part(part::CLONE_ARGS, of, when::EXIT, LONGEST_SIZED as u32),
        Struct::ChildHandle => part(part::CHILD_HANDLE, 0, when, 4),
        Struct::Words(of) => part(part::WORDS, of, when, 65_536),
        // Whether it is given or filled says the command.
        Struct::ByCommand => match call.effect {
            Effect::Control => part(part::FCNTL, 0, when::ENTRY | when::EXIT, 0),
            _ => part(part::IOCTL, 0, when::ENTRY | when::EXIT, 0),
        },
        Struct::Message => part(part::MESSAGE, 0, when, 0),
        Struct::Messages(of) => part(part::MESSAGES, of, when, 0),
        Struct::Stat
        | Struct::Statx
        | Struct::Statfs
        | Struct::OffsetCell
        | Struct::FdPair
        | Struct::Timespecs
        | Struct::Timevals
        | Struct::Utimbuf
        | Struct::Int => part(part::BYTES, 0, when, kind.size()? as u32),
    }
}

/// Why pages of mapped files are looked at when a call is over, and a word with it.
pub fn looks(call: &Call) -> (u8, u8) {
    let names_file = matches!(call.args.first().map(|a| a.kind), Some(ArgKind::Fd(_)));
    match call.effect {
        Effect::Read => (look::PART, call.offset_arg().map_or(0, |arg| arg as u8 + 1)),
        Effect::Write => (look::WRITTEN, call.offset_arg().map_or(0, |arg| arg as u8 + 1)),
        Effect::Copy | Effect::Splice => (look::COPIED, ends(call).map_or(1, |ends| ends.target.fd as u8 + 1)),
        Effect::Sync if names_file => (look::SYNC, 0),
        Effect::SyncAll => (look::SYNC_ALL, 0),
        Effect::MapSync => (look::SYNC_MEMORY, 0),
        Effect::Execute => (look::EXECUTE, 0),
        Effect::Map => (look::MAP, 0),
        Effect::Unmap => (look::UNMAP, 0),
        Effect::Remap => (look::REMAP, 0),
        Effect::MapAdvise if call.name == "mprotect" => (look::PROTECT, 0),
        Effect::MapAdvise if call.name == "mlock" => (look::POPULATED, 0),
        Effect::MapAdvise if call.name == "madvise" => (look::POPULATED, 1),
        Effect::Asynchronous if call.name == "io_submit" => (look::ASKED, 0),
        Effect::DeviceControl => (look::CLONED, 0),
        _ => (0, 0),
    }
}

/// Where up to two open files of a call are found.
fn objects(call: &Call) -> [u8; 2] {
    let mut found = Vec::new();
    for (arg, described) in call.args.iter().enumerate().take(6) {
        let arg = arg as u8;
        match described.kind {
            ArgKind::Fd(_) | ArgKind::Dirfd => found.push(object::ARG + arg),
            ArgKind::Out(Struct::FdPair) => found.extend([object::PAIR + arg, object::PAIR_2 + arg]),
            _ => {}
        }
    }
    if call.returns == Returns::Fd {
        found.push(object::RESULT);
    }
    found.resize(2, 0);
    [found[0], found[1]]
}

/// The commands of `fcntl` and requests of `ioctl` whose structure does not follow from their bits: key and value as in
/// the map of commands.
pub fn commands() -> Vec<([u8; 8], [u8; 8])> {
    /// Requests with a size in their bits that is not theirs.
    const MISLEADING: [u64; 3] = [0x4004_9409, 0x8008_6601, 0x4008_6602];
    let fcntl = (0..2048).map(|command| (part::FCNTL, command, fcntl_arg(command)));
    let ioctl = (0..0x1_0000).chain(MISLEADING).map(|request| (part::IOCTL, request, ioctl_arg(request)));
    fcntl.chain(ioctl).filter_map(|(kind, command, arg)| encoded(kind, command, arg)).collect()
}

fn encoded(kind: u8, command: u64, arg: FcntlArg) -> Option<([u8; 8], [u8; 8])> {
    let (size, when) = match arg {
        FcntlArg::Value if command < 0x1_0000 => return None,
        FcntlArg::Value => (0, 0),
        FcntlArg::In(n) => (n, when::ENTRY),
        FcntlArg::Out(n) => (n, when::EXIT),
        FcntlArg::InOut(n) => (n, when::ENTRY | when::EXIT),
    };
    let value = u64::from(size as u32) | u64::from(when) << 32;
    Some(((u64::from(kind) << 32 | command).to_le_bytes(), value.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reprise_calls::by_name;

    fn row(name: &str) -> Row {
        of_call(by_name(name).expect("a call"), DataPolicy::Full)
    }

    #[test]
    fn every_call_fits() {
        // Pseudo-calls do not come from the program: they have no row.
        for call in reprise_calls::all().filter(|c| c.number < reprise_calls::PSEUDO) {
            let row = of_call(call, DataPolicy::Full);
            assert!(row.parts.len() <= PARTS, "{}", call.name);
            assert!(call.number + 1 < ROWS, "{} has the number of unknown calls", call.name);
        }
    }

    #[test]
    fn rows_follow_the_kinds() {
        let read = row("pread64");
        assert_eq!(read.parts, [Part { kind: part::DATA, arg: 1, of: 2, when: when::FILLED, size: 0 }]);
        assert_eq!(read.objects, [object::ARG, 0]);
        assert_ne!(read.flags & row::SIMPLE, 0);
        let open = row("openat");
        assert_eq!(open.flags & row::SIMPLE, 0);
        assert_eq!(open.objects, [object::ARG, object::RESULT]);
        let execute = row("execve");
        assert!(execute.parts.iter().all(|p| p.when == when::ENTRY));
        assert_eq!(execute.flags & (row::ENTER | row::ALWAYS | row::EXECUTE), row::ENTER | row::ALWAYS | row::EXECUTE);
        assert_eq!(row("sendfile").flags & (row::ENTER | row::ALWAYS), row::ENTER);
        assert_ne!(row("close").flags & row::ENDS, 0);
        assert_eq!(row_of(39, DataPolicy::Full), Row::default(), "getpid");
        assert_eq!(row_of(RESTART, DataPolicy::Full).flags, row::RECORDED | row::SIMPLE);
    }

    #[test]
    fn policy_none_leaves_content_out_and_names_in() {
        let of = |name| of_call(by_name(name).expect("a call"), DataPolicy::None);
        assert_ne!(of("write").parts[0].when & when::UNWANTED, 0);
        assert_eq!(of("readlink").parts[1].when & when::UNWANTED, 0);
        assert_eq!(of("bind").parts[0].when & when::UNWANTED, 0);
    }

    /// What the kernel derives from the bits of a request is what the table says of it.
    #[test]
    fn requests_without_a_command_follow_their_bits() {
        let known: Vec<[u8; 8]> = commands().into_iter().map(|(key, _)| key).collect();
        for request in (0..=0xffff_ffffu64).step_by(65_521) {
            let key = (u64::from(part::IOCTL) << 32 | request).to_le_bytes();
            if known.contains(&key) {
                continue;
            }
            let (size, direction) = ((request >> 16 & 0x3fff) as usize, request >> 30);
            let by_bits = match direction {
                1 if size > 0 => FcntlArg::In(size),
                2 if size > 0 => FcntlArg::Out(size),
                3 if size > 0 => FcntlArg::InOut(size),
                _ => FcntlArg::Value,
            };
            assert_eq!(ioctl_arg(request), by_bits, "{request:#x}");
        }
    }
}
