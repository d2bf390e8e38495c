//! The records of a spool, taken apart.
//!
//! Goals: any bytes give a record or none; nothing is read beyond what was written. Non-goals: what belongs together
//! (`join`).

use super::layout::{self, RANGE_UNWANTED, SEGMENT_BYTES, SEGMENT_MAGIC, WHEN_EXIT, kind};

/// Bytes of the head of a segment.
pub const SEGMENT_HEAD: usize = size_of::<layout::SegmentHead>();
/// Bytes of the head of a record.
pub const RECORD_HEAD: usize = size_of::<layout::RecordHead>();

/// The head of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHead {
    /// The processor that filled it.
    pub cpu: u32,
    /// Bytes that are filled, the head included.
    pub used: u32,
    /// Its number among the segments of its processor.
    pub number: u64,
    /// Number of its first record.
    pub first: u64,
    /// Records of its processor that were dropped until it was closed.
    pub dropped: u64,
}

impl SegmentHead {
    /// Reads it; `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<SegmentHead> {
        let mut cursor = Cursor(bytes);
        (cursor.u64()? == SEGMENT_MAGIC).then_some(())?;
        let head = SegmentHead {
            cpu: cursor.u32()?,
            used: cursor.u32()?,
            number: cursor.u64()?,
            first: cursor.u64()?,
            dropped: cursor.u64()?,
        };
        (SEGMENT_HEAD..=SEGMENT_BYTES).contains(&(head.used as usize)).then_some(head)
    }
}

/// What every record begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Length of the whole record.
    pub bytes: u32,
    /// What it is.
    pub kind: u16,
    /// Flags.
    pub flags: u16,
    /// Its number on its processor.
    pub number: u64,
    /// When it was written; of a call when that was over. `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Thread.
    pub tid: i32,
    /// Process.
    pub pid: i32,
}

impl Head {
    /// Reads it, and the bytes behind it that belong to the record; `None` if they do not make sense.
    pub fn parse(bytes: &[u8]) -> Option<(Head, &[u8])> {
        let mut cursor = Cursor(bytes);
        let length = cursor.u32()?;
        let kinds = cursor.u32()?;
        let head = Head {
            bytes: length,
            kind: kinds as u16,
            flags: (kinds >> 16) as u16,
            number: cursor.u64()?,
            time_ns: cursor.u64()?,
            tid: cursor.u32()? as i32,
            pid: cursor.u32()? as i32,
        };
        let fits = length.is_multiple_of(8) && length as usize >= RECORD_HEAD;
        let body = bytes.get(RECORD_HEAD..length as usize).filter(|_| fits)?;
        Some((head, body))
    }
}

/// What a record says.
#[derive(Debug)]
pub enum Record<'a> {
    /// A call that is over.
    Call(Call, Vec<Object>, Ranges<'a>),
    /// Further memory of a call: its counter, and one range.
    More(u64, Ranges<'a>),
    /// A call that has begun.
    Enter(Call, Ranges<'a>),
    /// A new thread.
    Task(Task),
    /// A thread runs another program: its number before.
    Exec(i32),
    /// A thread has ended: its status as of `wait`.
    End(i32),
    /// Something that a newer recorder wrote.
    Unknown,
}

/// A call. Of one that has only begun the result is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Call {
    /// When it began.
    pub begin_ns: u64,
    /// Its number among the calls of its thread.
    pub call: u64,
    /// Processor time of its thread until then, 0 if unknown.
    pub cpu_ns: u64,
    /// Its result.
    pub result: i64,
    /// Its arguments.
    pub args: [u64; 6],
    /// Its number in the kernel's table.
    pub nr: u32,
    /// How many records hold further memory of it.
    pub more: u32,
    /// Ranges that could not be kept as a whole.
    pub lacking: u32,
}

/// An open file, as the kernel had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Object {
    /// Identity of the open file description; 0: none.
    pub id: u64,
    /// Device as `stat` tells it.
    pub device: u64,
    /// Inode.
    pub inode: u64,
    /// Size.
    pub size: u64,
    /// Position after the call.
    pub position: i64,
    /// Type and permission bits.
    pub mode: u32,
    /// Flags of the description (`O_APPEND` and others).
    pub flags: u32,
    /// The descriptor.
    pub fd: i32,
    /// Hard links.
    pub links: u32,
    /// The kernel's mode of the open file (`f_mode`), 0 if not known.
    pub file_mode: u32,
}

/// A new thread or process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Task {
    /// Thread that made it.
    pub parent_tid: i32,
    /// Process that made it.
    pub parent_pid: i32,
    /// Flags of `clone`.
    pub flags: u64,
    /// Users: real, effective, saved, of the file system.
    pub uids: [u32; 4],
    /// Groups likewise.
    pub gids: [u32; 4],
    /// File mode creation mask.
    pub umask: u32,
    /// Its name.
    pub name: Vec<u8>,
}

/// Ranges of memory that stand in a record.
#[derive(Debug, Clone, Copy)]
pub struct Ranges<'a> {
    count: u32,
    cursor: Cursor<'a>,
    total: usize,
}

/// A range of memory in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range<'a> {
    /// Its address.
    pub address: u64,
    /// Whether it was kept at the exit, else at the entry.
    pub at_exit: bool,
    /// How long it was.
    pub length: u32,
    /// Whether only its length was wanted.
    pub unwanted: bool,
    /// What was kept.
    pub bytes: &'a [u8],
    /// Where these bytes begin in the body of the record.
    pub at: usize,
}

impl<'a> Iterator for Ranges<'a> {
    type Item = Range<'a>;

    fn next(&mut self) -> Option<Range<'a>> {
        self.count = self.count.checked_sub(1)?;
        let head = &mut self.cursor;
        let (address, length, kept) = (head.u64()?, head.u32()?, head.u32()?);
        let (kinds, _) = (head.u32()?, head.u32()?);
        let at = self.total - head.0.len();
        let bytes = head.take(kept as usize)?;
        head.skip_to_multiple_of_8(kept as usize);
        let (when, flags) = (kinds as u16, (kinds >> 16) as u16);
        let (at_exit, unwanted) = (when == WHEN_EXIT, flags & RANGE_UNWANTED != 0);
        Some(Range { address, at_exit, length, unwanted, bytes, at })
    }
}

impl<'a> Record<'a> {
    /// Reads the body of a record of a kind; `None` if it is damaged.
    pub fn parse(of: u16, body: &'a [u8]) -> Option<Record<'a>> {
        let total = body.len();
        let mut cursor = Cursor(body);
        Some(match of {
            kind::CALL => {
                let (call, count, objects) = call(&mut cursor, true)?;
                let objects = (0..objects).map(|_| object(&mut cursor)).collect::<Option<Vec<_>>>()?;
                Record::Call(call, objects, Ranges { count, cursor, total })
            }
            kind::MORE => Record::More(cursor.u64()?, Ranges { count: 1, cursor, total }),
            kind::ENTER => {
                let (call, count, _) = call(&mut cursor, false)?;
                Record::Enter(call, Ranges { count, cursor, total })
            }
            kind::TASK => Record::Task(task(&mut cursor)?),
            kind::EXEC => Record::Exec(cursor.u32()? as i32),
            kind::END => Record::End(cursor.u32()? as i32),
            _ => Record::Unknown,
        })
    }
}

/// A call, how many ranges it has, and how many objects before them.
fn call(cursor: &mut Cursor<'_>, over: bool) -> Option<(Call, u32, u32)> {
    let (begin_ns, call, cpu_ns) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let result = if over { cursor.u64()? as i64 } else { 0 };
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = cursor.u64()?;
    }
    let (nr, counts, more, lacking) = (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
    Some((Call { begin_ns, call, cpu_ns, result, args, nr, more, lacking }, counts & 0xffff, counts >> 16))
}

fn object(cursor: &mut Cursor<'_>) -> Option<Object> {
    let mut o = Cursor(cursor.take(size_of::<layout::Object>())?);
    let (id, device, inode, size, position) = (o.u64()?, o.u64()?, o.u64()?, o.u64()?, o.u64()? as i64);
    let (_generation, mode, flags, fd) = (o.u32()?, o.u32()?, o.u32()?, o.u32()? as i32);
    let (links, file_mode) = (o.u32()?, o.u32()?);
    Some(Object { id, device, inode, size, position, mode, flags, fd, links, file_mode })
}

fn task(cursor: &mut Cursor<'_>) -> Option<Task> {
    let (parent_tid, parent_pid) = (cursor.u32()? as i32, cursor.u32()? as i32);
    let flags = cursor.u64()?;
    let mut ids = [0; 8];
    for id in &mut ids {
        *id = cursor.u32()?;
    }
    let [u0, u1, u2, u3, g0, g1, g2, g3] = ids;
    let (umask, _) = (cursor.u32()?, cursor.u32()?);
    let name = cursor.take(16)?.split(|b| *b == 0).next().unwrap_or_default().to_vec();
    Some(Task { parent_tid, parent_pid, flags, uids: [u0, u1, u2, u3], gids: [g0, g1, g2, g3], umask, name })
}

/// Bytes that are taken from the front.
#[derive(Debug, Clone, Copy)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn skip_to_multiple_of_8(&mut self, taken: usize) {
        let gap = taken.next_multiple_of(8) - taken;
        self.0 = self.0.get(gap..).unwrap_or_default();
    }
}
