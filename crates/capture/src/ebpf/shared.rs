//! Twin of the parts of `bpf/state.h` that both sides read.

use crate::spool::layout::{PIECE_BYTES, SEGMENT_BYTES};

/// From one segment to the next in memory.
pub const STRIDE_BYTES: usize = SEGMENT_BYTES + PIECE_BYTES + 4096;
/// Rows of the table of calls; the last is that of unknown calls.
pub const ROWS: u32 = 512;
/// Rows of the table of the opcodes of io_uring; the last is that of a transfer whose buffer the kernel chose.
pub const OPCODES: u32 = 128;
/// Parts of a row.
pub const PARTS: usize = 6;
/// Size of a row: a cache line.
pub const ROW_BYTES: usize = 64;

/// Kinds of a part.
pub mod part {
    pub const BYTES: u8 = 1;
    pub const SIZED: u8 = 2;
    pub const WORDS: u8 = 3;
    pub const STRING: u8 = 4;
    pub const STRINGS: u8 = 5;
    pub const DATA: u8 = 6;
    pub const VECTOR: u8 = 7;
    pub const FCNTL: u8 = 8;
    pub const IOCTL: u8 = 9;
    pub const MESSAGE: u8 = 10;
    pub const MESSAGES: u8 = 11;
    pub const BUFFERS: u8 = 12;
    pub const IOCBS: u8 = 13;
    pub const EVENTS: u8 = 14;
    pub const REGISTERED: u8 = 15;
    pub const CLONE_ARGS: u8 = 16;
    pub const CHILD_HANDLE: u8 = 17;
}

/// When a part is kept.
pub mod when {
    pub const ENTRY: u8 = 1;
    pub const EXIT: u8 = 2;
    pub const FILLED: u8 = 4;
    pub const UNWANTED: u8 = 8;
}

/// Flags of a row.
pub mod row {
    pub const RECORDED: u16 = 1;
    pub const ENTER: u16 = 2;
    pub const ALWAYS: u16 = 4;
    pub const EXECUTE: u16 = 8;
    pub const ENDS: u16 = 16;
    pub const MORE: u16 = 32;
    pub const SIMPLE: u16 = 64;
    pub const MOVES: u16 = 128;
    pub const PIPES: u16 = 256;
}

/// Where an object of a call is found.
pub mod object {
    pub const ARG: u8 = crate::spool::layout::OBJECT_ARG;
    pub const RESULT: u8 = crate::spool::layout::OBJECT_RESULT;
    pub const PAIR: u8 = 32;
    pub const PAIR_2: u8 = 48;
}

/// Offsets in `struct cpu`.
pub mod cpu {
    pub const BYTES: usize = 640;
    pub const NEXT: usize = 0;
    pub const DROPPED: usize = 16;
    pub const MOVED: usize = 24;
    pub const DEFERRED: usize = 32;
    pub const PASSED: usize = 40;
    pub const SEGMENT: usize = 48;
    pub const BUSY: usize = 56;
    /// By cause.
    pub const LACKS: usize = 72;
}

/// Offsets in `struct common`.
pub mod common {
    pub const BYTES: usize = ROWS + super::ROWS as usize * super::ROW_BYTES;
    pub const CONTROL: usize = 0;
    pub const WATCH: usize = 192;
    pub const ROWS: usize = 320;
}

/// Offsets in `struct control`.
pub mod control {
    pub const FREE: usize = 0;
    pub const RESERVE: usize = 8;
    pub const LOW: usize = 16;
    pub const BLOCK: usize = 24;
    pub const STOPPED: usize = 32;
    pub const HEARTBEAT_NS: usize = 40;
    pub const PATIENCE_NS: usize = 48;
    pub const KNOWN: usize = 56;
    pub const TASKS: usize = 64;
    pub const SERIALS: usize = 72;
    pub const LOST_TASKS: usize = 80;
    pub const NESTED: usize = 88;
    pub const PENDING: usize = 96;
    pub const WAITS: usize = 104;
    pub const WAITED_NS: usize = 112;
    /// 32 bits.
    pub const ARRIVALS: usize = 120;
    /// 32 bits.
    pub const LOOKED: usize = 124;
}

/// Why pages are looked at.
pub mod look {
    pub const PART: u8 = 1;
    pub const WRITTEN: u8 = 2;
    pub const COPIED: u8 = 3;
    pub const SYNC: u8 = 4;
    pub const SYNC_MEMORY: u8 = 5;
    pub const SYNC_ALL: u8 = 6;
    pub const EXECUTE: u8 = 7;
    pub const MAP: u8 = 8;
    pub const UNMAP: u8 = 9;
    pub const REMAP: u8 = 10;
    pub const PROTECT: u8 = 11;
    pub const POPULATED: u8 = 12;
    pub const ASKED: u8 = 13;
    pub const CLONED: u8 = 14;
}

/// Offsets in `struct watch`.
pub mod watch {
    pub const ON: usize = 0;
    pub const OFFSET: usize = 24;
    pub const KEEPS: usize = 32;
    pub const LOADS: usize = 40;
    pub const LEFT: usize = 80;
    pub const BACKINGS: usize = 88;
}

/// `struct known`.
pub mod known {
    pub const LINES: u64 = 64;
    pub const WAYS: usize = 4;
    pub const BYTES: usize = 64;
    pub const DIGEST: usize = 0;
    pub const OFFSET: usize = 32;
    pub const FILE: usize = 48;
}

/// Kinds of a notice.
pub mod notice {
    pub const FULL: u32 = 1;
    pub const OVER: u32 = 2;
}

/// `struct scope`: kind, recorder (32 bits each), control group and its path.
pub mod scope {
    pub const BYTES: usize = 16 + PATH;
    pub const PATH: usize = 256;
    pub const PROCESSES: u32 = 1;
    pub const CGROUP: u32 = 2;
    pub const SYSTEM: u32 = 3;
}

/// `struct member`: thread, process, arrival (32 bits each).
pub const MEMBER_BYTES: usize = 16;

/// Offset of `launching` in `struct thread`.
pub const THREAD_LAUNCHING: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::LACKS;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn both_sides_agree() {
        let number = |c: &str, value: usize| format!("_Static_assert({c} == {value}, \"{c}\");\n");
        let offset = |of: &str, field: &str, value| number(&format!("__builtin_offsetof(struct {of}, {field})"), value);
        let program = [
            "#include \"scope.h\"\n".to_owned(),
            "#include \"requests.h\"\n".to_owned(),
            "#include \"pages.h\"\n".to_owned(),
            "#include \"known.h\"\n".to_owned(),
            number("STRIDE_BYTES", STRIDE_BYTES),
            number("ROWS", ROWS as usize),
            number("PARTS", PARTS),
            number("sizeof(struct row)", ROW_BYTES),
            number("PART_MESSAGES", part::MESSAGES.into()),
            number("PART_REGISTERED", part::REGISTERED.into()),
            number("PART_CHILD_HANDLE", part::CHILD_HANDLE.into()),
            number("OPCODES", OPCODES as usize),
            number("PART_IOCTL", part::IOCTL.into()),
            number("PART_UNWANTED", when::UNWANTED.into()),
            number("ROW_SIMPLE", row::SIMPLE.into()),
            number("ROW_MOVES", row::MOVES.into()),
            number("ROW_PIPES", row::PIPES.into()),
            number("OBJECT_PAIR_2", object::PAIR_2.into()),
            number("LOOK_SYNC_ALL", look::SYNC_ALL.into()),
            number("LOOK_POPULATED", look::POPULATED.into()),
            number("LOOK_ASKED", look::ASKED.into()),
            number("LOOK_CLONED", look::CLONED.into()),
            offset("watch", "on", watch::ON),
            offset("watch", "offset", watch::OFFSET),
            offset("watch", "keeps", watch::KEEPS),
            offset("watch", "left", watch::LEFT),
            offset("watch", "backings", watch::BACKINGS),
            offset("watch", "loads", watch::LOADS),
            LACKS.iter().enumerate().map(|(at, (name, _))| number(name, at)).collect(),
            number("KNOWN_LINES", known::LINES as usize),
            number("KNOWN_WAYS", known::WAYS),
            number("sizeof(struct known)", known::BYTES),
            offset("known", "digest", known::DIGEST),
            offset("known", "offset", known::OFFSET),
            offset("known", "file", known::FILE),
            number("NOTICE_OVER", notice::OVER as usize),
            number("sizeof(struct scope)", scope::BYTES),
            number("SCOPE_PROCESSES", scope::PROCESSES as usize),
            number("SCOPE_CGROUP", scope::CGROUP as usize),
            number("SCOPE_SYSTEM", scope::SYSTEM as usize),
            offset("scope", "recorder", 4),
            offset("scope", "cgroup", 8),
            offset("scope", "path", 16),
            number("sizeof(struct member)", MEMBER_BYTES),
            number("sizeof(struct cpu)", cpu::BYTES),
            offset("cpu", "dropped", cpu::DROPPED),
            offset("cpu", "bytes", cpu::MOVED),
            offset("cpu", "deferred", cpu::DEFERRED),
            offset("cpu", "passed", cpu::PASSED),
            offset("cpu", "segment", cpu::SEGMENT),
            offset("cpu", "busy", cpu::BUSY),
            offset("cpu", "lacks", cpu::LACKS),
            number("sizeof(struct common)", common::BYTES),
            offset("common", "control", common::CONTROL),
            offset("common", "watch", common::WATCH),
            offset("common", "rows", common::ROWS),
            offset("control", "free", control::FREE),
            offset("control", "reserve", control::RESERVE),
            offset("control", "low", control::LOW),
            offset("control", "block", control::BLOCK),
            offset("control", "stopped", control::STOPPED),
            offset("control", "heartbeat_ns", control::HEARTBEAT_NS),
            offset("control", "patience_ns", control::PATIENCE_NS),
            offset("control", "known", control::KNOWN),
            offset("control", "tasks", control::TASKS),
            offset("control", "serials", control::SERIALS),
            offset("control", "lost_tasks", control::LOST_TASKS),
            offset("control", "nested", control::NESTED),
            offset("control", "pending", control::PENDING),
            offset("control", "waits", control::WAITS),
            offset("control", "waited_ns", control::WAITED_NS),
            offset("control", "arrivals", control::ARRIVALS),
            offset("control", "looked", control::LOOKED),
            offset("thread", "launching", THREAD_LAUNCHING),
        ]
        .concat();
        let mut clang = Command::new("clang");
        clang.args(["-target", "bpf", "-D__TARGET_ARCH_x86", "-I/usr/include/x86_64-linux-gnu"]);
        clang.args(["-fsyntax-only", "-w", "-x", "c", "-I", concat!(env!("CARGO_MANIFEST_DIR"), "/bpf"), "-"]);
        let mut child = clang.stdin(Stdio::piped()).spawn().expect("clang, which built the programs");
        child.stdin.take().expect("a pipe").write_all(program.as_bytes()).expect("written");
        assert!(child.wait().expect("clang ends").success(), "bpf/state.h differs");
    }
}
