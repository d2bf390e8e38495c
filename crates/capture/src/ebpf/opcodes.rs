//! What the kernel is to keep of each request of io_uring: derived from how a request is taken apart.
//!
//! A request whose fields are all different shows which of them stands for which argument of its call, and the call's row
//! says what memory the arguments name. Goals: no second table of opcodes. Non-goals: what requests mean
//! ([`crate::requests`]).

use std::io;

use reprise_calls::{ArgKind, Returns};
use reprise_trace::{DataPolicy, Keep};

use super::shared::{OPCODES, look, object, part, row, when};
use super::table::{Part, Row, looks, part_of};
use crate::arguments;
use crate::requests::{Asked, SQE_BYTES, Shape, Table, sqe};
use crate::sys::{Object, Types};

/// Programs that need a tracepoint with so many arguments.
const PROGRAMS: [(&std::ffi::CStr, &str, u32); 8] = [
    (c"on_ring", "io_uring_create", 5),
    (c"on_submit", "io_uring_submit_req", 1),
    (c"on_submit_entry", "io_uring_submit_sqe", 2),
    (c"on_refused", "io_uring_req_failed", 3),
    (c"on_complete", "io_uring_complete", 3),
    (c"on_complete_by_values", "io_uring_complete", 7),
    (c"on_overflow", "io_uring_cqe_overflow", 5),
    // Since Linux 6.16, with another argument, where a thread still has its memory.
    (c"on_submitter_end", "sched_process_exit", 2),
];

/// Leaves out the programs that this kernel has no tracepoint for. Without submissions, or completions, all of them: rings
/// are then not told of, and what is asked of them counts as dropped.
pub fn fit(object: &mut Object, types: &Types) -> io::Result<()> {
    let fits = |(_, tracepoint, arguments): &(_, &str, u32)| types.tracepoint_arguments(tracepoint) == Some(*arguments);
    let has = |tracepoint: &&str| PROGRAMS.iter().any(|program| program.1 == *tracepoint && fits(program));
    // In other kernels the same is told by another.
    let one_of: [&[&str]; 3] =
        [&["io_uring_create"], &["io_uring_submit_req", "io_uring_submit_sqe"], &["io_uring_complete"]];
    let seen = one_of.into_iter().all(|told| told.iter().any(has));
    for program in PROGRAMS.iter().filter(|program| !seen || !fits(program)) {
        object.leave_out(program.0)?;
    }
    Ok(())
}

/// The row of every opcode; its arguments are the fields of a request as [`FIELDS`] has them.
pub fn rows(data: DataPolicy) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..OPCODES - 1).map(|opcode| row_of(opcode as u8, data)).collect();
    rows.push(chosen(data));
    rows
}

/// Descriptor, address, length, offset, flags of the operation, third address: a value for each that no other has.
const FIELDS: [u64; 6] = [0x7001, 0x5000_0000_7002, 0x7003, 0x5000_0000_7004, 0, 0x5000_0000_7006];

fn probe(opcode: u8) -> [u8; SQE_BYTES] {
    let mut out = [0; SQE_BYTES];
    out[0] = opcode;
    out[4..8].copy_from_slice(&(FIELDS[0] as u32).to_le_bytes());
    out[8..16].copy_from_slice(&FIELDS[3].to_le_bytes());
    out[16..24].copy_from_slice(&FIELDS[1].to_le_bytes());
    out[24..28].copy_from_slice(&(FIELDS[2] as u32).to_le_bytes());
    out[48..56].copy_from_slice(&FIELDS[5].to_le_bytes());
    out
}

fn field(value: u64) -> Option<u8> {
    FIELDS.iter().position(|field| *field == value && value != 0).map(|index| index as u8)
}

fn row_of(opcode: u8, data: DataPolicy) -> Row {
    let request = sqe(&probe(opcode));
    let mut out = Row { flags: row::RECORDED, ..Row::default() };
    if let Table::Replaces { address, .. } | Table::Chooses { address, .. } = request.table
        && let Some(arg) = field(address)
    {
        // Where the kernel chooses places, they stand there when it is complete.
        out.parts.push(Part { kind: part::WORDS, arg, of: 2, when: when::ENTRY | when::EXIT, size: 1 << 15 });
    }
    let Some(asked) = request.asked else { return out };
    if asked.call.returns == Returns::Fd {
        out.objects[0] = object::RESULT;
    }
    let (look, _) = looks(asked.call);
    if [look::PART, look::COPIED, look::SYNC].contains(&look) {
        out.look = look;
    }
    if asked.shape == Shape::AsCalled {
        parts(&asked, data, &mut out);
    }
    out
}

fn parts(asked: &Asked, data: DataPolicy, out: &mut Row) {
    let call = asked.call;
    let wanted = data != DataPolicy::None || arguments::keep(call) == Keep::Always;
    for (index, described) in call.args.iter().enumerate().take(6) {
        let Some(known) = part_of(call, index as u8, described.kind) else { continue };
        let Some(arg) = field(asked.args[index]) else { continue };
        let of = field(asked.args[usize::from(known.of).min(5)]).unwrap_or(0);
        let mut part = Part { arg, of, ..known };
        if matches!(described.kind, ArgKind::InVector(_) | ArgKind::OutVector(_)) {
            out.parts.push(Part { kind: part::BUFFERS, when: when::ENTRY, ..part });
        }
        match part.is_content() {
            // When the request is complete; what stands there before may come from the one before it.
            true => out.flags |= row::MORE,
            // When it is submitted: later the program may have used the memory again.
            false if part.when & when::EXIT != 0 => part.when = when::ENTRY,
            false => {}
        }
        if part.is_content() && !wanted {
            part.when |= when::UNWANTED;
        }
        out.parts.push(part);
    }
}

/// A buffer that the kernel chose: its address and length come in the place of the request's.
fn chosen(data: DataPolicy) -> Row {
    let unwanted = if data == DataPolicy::None { when::UNWANTED } else { 0 };
    let part = Part { kind: part::DATA, arg: 1, of: 2, when: when::FILLED | unwanted, size: 0 };
    Row { flags: row::RECORDED | row::MORE, parts: vec![part], ..Row::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts_of(opcode: u8) -> Vec<(u8, u8, u8, u8)> {
        row_of(opcode, DataPolicy::Full).parts.iter().map(|p| (p.kind, p.arg, p.of, p.when)).collect()
    }

    #[test]
    fn rows_follow_from_what_a_request_stands_for() {
        assert_eq!(parts_of(0), [], "nothing");
        assert_eq!(parts_of(22), [(part::DATA, 1, 2, when::FILLED)], "read");
        assert_eq!(parts_of(5), [(part::DATA, 1, 2, when::EXIT)], "write from a fixed buffer");
        let vector = [(part::BUFFERS, 1, 2, when::ENTRY), (part::VECTOR, 1, 2, when::EXIT)];
        assert_eq!(parts_of(2), vector, "writev");
        assert_eq!(parts_of(18), [(part::STRING, 1, 0, when::ENTRY)], "openat");
        let renamed = [(part::STRING, 1, 0, when::ENTRY), (part::STRING, 3, 0, when::ENTRY)];
        assert_eq!(parts_of(35), renamed, "renameat");
        let looked = [(part::STRING, 1, 0, when::ENTRY), (part::BYTES, 3, 0, when::FILLED)];
        assert_eq!(parts_of(21), looked, "statx");
        assert_eq!(parts_of(20), [(part::WORDS, 1, 2, when::ENTRY | when::EXIT)], "files update");
        assert_eq!(parts_of(30), [], "positions of a splice are numbers");
    }

    #[test]
    fn every_opcode_fits() {
        for (opcode, row) in rows(DataPolicy::Full).iter().enumerate() {
            assert!(row.parts.len() <= super::super::shared::PARTS, "{opcode}");
        }
    }
}
