//! The layout of spool files: the twin of `bpf/layout.h`, where it is explained. A test compares the two.
//!
//! Goals: structures as they stand in the files, little endian, all numbers. Non-goals: reading them (the reader's).

/// `RPRSSEG1`.
pub const SEGMENT_MAGIC: u64 = 0x3147_4553_5352_5052;
/// Size of a segment, and of its slot in a file.
pub const SEGMENT_BYTES: usize = 1 << 20;
/// A longer range is several.
pub const PIECE_BYTES: usize = 1 << 16;
/// Content of a call beyond this goes into MORE records.
pub const INLINE_BYTES: usize = 1 << 15;

/// Words of the descriptors that a new process was given, at most.
pub const OPEN_WORDS: u32 = 4;

/// Kinds of records.
pub mod kind {
    /// A call that returned.
    pub const CALL: u16 = 1;
    /// More of a call's ranges.
    pub const MORE: u16 = 2;
    /// A call that began.
    pub const ENTER: u16 = 3;
    /// A new thread or process.
    pub const TASK: u16 = 4;
    /// A process runs another program.
    pub const EXEC: u16 = 5;
    /// The end of a thread.
    pub const END: u16 = 6;
    /// A ring of io_uring was made.
    pub const RING: u16 = 7;
    /// A request was submitted to it.
    pub const REQUEST: u16 = 8;
    /// And is complete.
    pub const COMPLETION: u16 = 9;
    /// A page that was stored to through memory.
    pub const MAPPED: u16 = 10;
    /// A page that came into a process's memory by a load.
    pub const LOADED: u16 = 11;
    /// A call that returned, with small numbers, one open file and one range at most.
    pub const BRIEF: u16 = 12;
    /// Locks of a thread that ends are free.
    pub const UNLOCKED: u16 = 13;
}

/// States of a request, or of its completion.
pub mod state {
    /// Taken by a thread of the kernel's own.
    pub const POLLED: u32 = 1;
    /// Linked to the one before it.
    pub const FOLLOWS: u32 = 2;
    /// What it asks for could not be read.
    pub const UNREAD: u32 = 4;
    /// Its completion will not be told.
    pub const UNTOLD: u32 = 8;
    /// There was no room for the memory that belongs to it.
    pub const NO_ROOM: u32 = 16;
    /// Not complete yet; what it is given.
    pub const GIVEN: u32 = 32;
    /// Complete where the memory of the program is not at hand.
    pub const FOREIGN: u32 = 64;
    /// The kernel chose the buffer.
    pub const CHOSEN: u32 = 128;
    /// Content that was moved inside the kernel is kept.
    pub const MOVED: u32 = 256;
    /// Refused as it was taken, before it did anything.
    pub const REFUSED: u32 = 512;
    /// Complete, and there was no room: what it moved comes in another record.
    pub const LATER: u32 = 1024;
    /// That record.
    pub const SETTLED: u32 = 2048;
    /// The program had taken the completion by then, and may have used its memory again.
    pub const STALE: u32 = 4096;
}

/// Content of a file has the address of its offset behind this.
pub const MOVED_AT: u64 = 1 << 62;

/// The counter of a call, for memory of a request, or of its completion.
pub fn request_more(request: u64, complete: bool) -> u64 {
    1 << 63 | request << 1 | u64::from(complete)
}

/// The call was made through a 32-bit entry.
pub const RECORD_NARROW: u16 = 1;
/// The record was written when there was room again.
pub const RECORD_DEFERRED: u16 = 2;
/// The descriptor of an open file is an argument: its index is added.
pub const OBJECT_ARG: u8 = 1;
/// The descriptor of an open file is the result.
pub const OBJECT_RESULT: u8 = 16;
/// In brief, beside where it is found: the segment has told of the open file already.
pub const OBJECT_AGAIN: u8 = 128;
/// Kept at entry.
pub const WHEN_ENTRY: u16 = 0;
/// Kept at exit.
pub const WHEN_EXIT: u16 = 1;
/// Not all of the range could be read.
pub const RANGE_LACKING: u16 = 1;
/// Content that was not asked for.
pub const RANGE_UNWANTED: u16 = 2;
/// Content that stands in the spool already: where, instead of it.
pub const RANGE_SAID: u16 = 4;
/// Content of a file that nobody writes to: before it stands a [`Steady`].
pub const RANGE_STEADY: u16 = 8;
/// A page as it was before it was stored to for the first time.
pub const MAPPED_BEFORE: u32 = 1;
/// A page as it was when a call began that writes to it.
pub const MAPPED_WRITTEN: u32 = 2;
/// A page as it was when a call had copied it that found it as it was looked at last.
pub const MAPPED_DURING: u32 = 8;
/// Nothing of the page is kept: it is zeros. The finisher knows by what is not there.
#[cfg(test)]
pub const MAPPED_ZERO: u32 = 4;

/// A page was not in the page cache when it could be looked at.
pub const LOADED_LACKING: u32 = 1;

macro_rules! layout {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
            #[allow(missing_docs)] // as in bpf/layout.h
            pub struct $name { $(pub $field: $type),* }
        )*

        /// Sizes and offsets, for the test that compares them with the other side.
        #[cfg(test)]
        fn described() -> Vec<(&'static str, usize)> {
            let mut out = Vec::new();
            $(
                out.push((stringify!($name), size_of::<$name>()));
                $(out.push((concat!(stringify!($name), ".", stringify!($field)), std::mem::offset_of!($name, $field)));)*
            )*
            out
        }
    };
}

layout! {
    /// Begins a segment.
    SegmentHead { magic: u64, cpu: u32, used: u32, number: u64, first: u64, dropped: u64, reserved: [u64; 3] }
    /// Begins a record.
    RecordHead { bytes: u32, kind: u16, flags: u16, number: u64, time_ns: u64, tid: u32, pid: u32 }
    /// An open file.
    Object {
        id: u64, device: u64, inode: u64, size: u64, position: i64, generation: u32, mode: u32, flags: u32, fd: i32,
        links: u32, file_mode: u32,
    }
    /// Body of CALL.
    CallBody {
        begin_ns: u64, call: u64, cpu_ns: u64, result: i64, args: [u64; 6], nr: u32, ranges: u16, objects: u16, more: u32,
        lacking: u32,
    }
    /// Body of BRIEF; behind it the open file, the arguments, the range.
    BriefBody { cpu_ns: u64, took_ns: u32, call: u32, result: i32, nr: u16, arguments: u8, object: u8 }
    /// An open file in BRIEF.
    BriefObject {
        id: u64, inode: u64, size: u64, position: i64, device: u32, flags: u32, links: u32, file_mode: u32, generation: u32,
        mode: u16, reserved: u16,
    }
    /// In place of an open file that was told in BRIEF: which of them.
    BriefAgain { object: u32, moved: u32 }
    /// Behind it, if these differ.
    BriefMoved { size: u64, position: i64 }
    /// A range in BRIEF.
    BriefRange { length: u32, flags: u16, argument: u8, lead: u8 }
    /// What tells whether a file still holds the content that was read.
    Steady { changed_ns: u64, offset: u64 }
    /// Body of ENTER.
    EnterBody {
        begin_ns: u64, call: u64, cpu_ns: u64, args: [u64; 6], nr: u32, ranges: u16, objects: u16, more: u32, lacking: u32,
    }
    /// Body of MORE.
    MoreBody { call: u64 }
    /// Body of RING.
    RingBody { ring: u64, fd: i32, flags: u32 }
    /// Body of REQUEST.
    RequestBody { request: u64, ring: u64, slot: u64, sqe: [u64; 8], state: u32, ranges: u32, more: u32, lacking: u32 }
    /// Body of COMPLETION.
    CompletionBody {
        request: u64, ring: u64, mark: u64, result: i64, address: u64, length: u32, flags: u32, place: u32, taken: u32,
        state: u32, ranges: u32, more: u32, lacking: u32, objects: [Object; 2],
    }
    /// Begins a range.
    RangeHead { address: u64, length: u32, kept: u32, when: u16, flags: u16, lead: u32 }
    /// Users and groups.
    Identity { uid: u32, euid: u32, suid: u32, fsuid: u32, gid: u32, egid: u32, sgid: u32, fsgid: u32 }
    /// Body of TASK.
    TaskBody {
        parent_tid: u32, parent_pid: u32, clone_flags: u64, identity: Identity, umask: u32, open_words: u32,
        comm: [u8; 16], open: [u64; 4],
    }
    /// Body of EXEC.
    ExecBody { old_tid: u32, reserved: u32, identity: Identity, comm: [u8; 16] }
    /// Body of END.
    EndBody { exit_code: i32, last: u32 }
    /// Body of MAPPED, before the content.
    MappedBody {
        device: u64, inode: u64, page: u64, size: u64, generation: u32, length: u32, kept: u32, tid: u32, pid: u32,
        flags: u32,
    }
    /// Body of LOADED, before the content.
    LoadedBody {
        device: u64, inode: u64, page: u64, address: u64, length: u32, kept: u32, flags: u32, reserved: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// `RecordHead` is `record_head` in C.
    fn in_c(name: &str) -> String {
        let mut out = String::new();
        for c in name.chars() {
            if c.is_uppercase() && !out.is_empty() {
                out.push('_');
            }
            out.push(c.to_ascii_lowercase());
        }
        out
    }

    #[test]
    fn both_sides_agree() {
        let mut program = "#include <linux/types.h>\n#include \"layout.h\"\n#include <stddef.h>\n".to_owned();
        for (name, value) in described() {
            let expression = match name.split_once('.') {
                None => format!("sizeof(struct {})", in_c(name)),
                Some((of, field)) => format!("offsetof(struct {}, {field})", in_c(of)),
            };
            program += &format!("_Static_assert({expression} == {value}, \"{name}\");\n");
        }
        let constants = [
            ("SEGMENT_MAGIC", SEGMENT_MAGIC),
            ("SEGMENT_BYTES", SEGMENT_BYTES as u64),
            ("PIECE_BYTES", PIECE_BYTES as u64),
            ("INLINE_BYTES", INLINE_BYTES as u64),
            ("OPEN_WORDS", OPEN_WORDS.into()),
            ("RECORD_CALL", kind::CALL.into()),
            ("RECORD_END", kind::END.into()),
            ("RECORD_COMPLETION", kind::COMPLETION.into()),
            ("REQUEST_CHOSEN", state::CHOSEN.into()),
            ("REQUEST_MOVED", state::MOVED.into()),
            ("REQUEST_REFUSED", state::REFUSED.into()),
            ("REQUEST_LATER", state::LATER.into()),
            ("REQUEST_SETTLED", state::SETTLED.into()),
            ("REQUEST_STALE", state::STALE.into()),
            ("MOVED_AT", MOVED_AT),
            ("REQUEST_MORE(5, 1)", request_more(5, true)),
            ("RECORD_MAPPED", kind::MAPPED.into()),
            ("RECORD_LOADED", kind::LOADED.into()),
            ("RECORD_BRIEF", kind::BRIEF.into()),
            ("RECORD_UNLOCKED", kind::UNLOCKED.into()),
            ("OBJECT_ARG", OBJECT_ARG.into()),
            ("OBJECT_RESULT", OBJECT_RESULT.into()),
            ("OBJECT_AGAIN", OBJECT_AGAIN.into()),
            ("LOADED_LACKING", LOADED_LACKING.into()),
            ("RECORD_DEFERRED", RECORD_DEFERRED.into()),
            ("MAPPED_ZERO", MAPPED_ZERO.into()),
            ("MAPPED_BEFORE", MAPPED_BEFORE.into()),
            ("MAPPED_DURING", MAPPED_DURING.into()),
            ("MAPPED_WRITTEN", MAPPED_WRITTEN.into()),
            ("RANGE_UNWANTED", RANGE_UNWANTED.into()),
            ("RANGE_SAID", RANGE_SAID.into()),
            ("RANGE_STEADY", RANGE_STEADY.into()),
        ];
        for (name, value) in constants {
            program += &format!("_Static_assert({name} == {value}ULL, \"{name}\");\n");
        }
        let bpf = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf");
        let mut cc = Command::new("cc");
        cc.args(["-x", "c", "-fsyntax-only", "-I", bpf, "-"]).stdin(Stdio::piped());
        let Ok(mut child) = cc.spawn() else {
            println!("SKIP: both_sides_agree: no C compiler");
            return;
        };
        child.stdin.take().expect("a pipe").write_all(program.as_bytes()).expect("written");
        assert!(child.wait().expect("the compiler ends").success(), "bpf/layout.h differs");
    }

    #[test]
    fn sizes_are_those_of_the_format() {
        assert_eq!((size_of::<SegmentHead>(), size_of::<RecordHead>(), size_of::<Object>()), (64, 32, 64));
        assert_eq!(&SEGMENT_MAGIC.to_le_bytes(), b"RPRSSEG1");
    }
}
