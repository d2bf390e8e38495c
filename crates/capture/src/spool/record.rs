//! The records of a spool, taken apart.
//!
//! Goals: any bytes give a record or none; nothing is read beyond what was written. Non-goals: what belongs together
//! (`join`).

use reprise_calls::Credentials;
use smallvec::SmallVec;

use super::layout::{
    self, LOADED_LACKING, MAPPED_BEFORE, MAPPED_DURING, MAPPED_WRITTEN, OBJECT_AGAIN, OBJECT_ARG, OBJECT_RESULT,
    OPEN_WORDS, PIECE_BYTES, RANGE_SAID, RANGE_UNWANTED, SEGMENT_BYTES, SEGMENT_MAGIC, WHEN_EXIT, kind,
};
use super::repeats::Standing;
use super::told::Told;

/// Bytes of a page of a file.
const PAGE: u64 = 4096;

/// Bytes of the head of a segment.
pub const SEGMENT_HEAD: usize = size_of::<layout::SegmentHead>();
/// Bytes of the head of a record.
pub const RECORD_HEAD: usize = size_of::<layout::RecordHead>();
/// Bytes of what is told of a call, and of one that has only begun.
const CALL_BODY: usize = size_of::<layout::CallBody>();
const ENTER_BODY: usize = size_of::<layout::EnterBody>();

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
        let mut fields = Cursor(bytes).fields::<RECORD_HEAD>()?;
        let (length, kinds) = (fields.u32(), fields.u32());
        let head = Head {
            bytes: length,
            kind: kinds as u16,
            flags: (kinds >> 16) as u16,
            number: fields.u64(),
            time_ns: fields.u64(),
            tid: fields.u32() as i32,
            pid: fields.u32() as i32,
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
    Call(Call, Objects, Ranges<'a>),
    /// Further memory of a call: its counter, and one range.
    More(u64, Ranges<'a>),
    /// A call that has begun.
    Enter(Call, Ranges<'a>),
    /// A new thread.
    Task(Task),
    /// A thread runs another program: its number before, and whom it runs as from then on.
    Exec(i32, Credentials),
    /// A thread has ended: its status as of `wait`, and whether it was the last of its process.
    End(i32, bool),
    /// Locks of a thread that ends are free.
    Unlocked,
    /// A ring of io_uring was made.
    Ring(Ring),
    /// A request was submitted to a ring.
    Request(Request, Ranges<'a>),
    /// A request is complete.
    Completion(Completion, Ranges<'a>),
    /// A page of a file that was stored to through memory.
    Mapped(Mapped<'a>),
    /// A page of a file that came into a process's memory by a load.
    Loaded(Loaded<'a>),
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
    /// Identity of the open file description, of a few that are open, or were of late, by all likelihood; 0: none.
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

impl Object {
    /// Where it stands after the call; 0 if that is no place in a file.
    pub fn stands_at(&self) -> u64 {
        u64::try_from(self.position).unwrap_or(0)
    }
}

/// Open files that a call names or makes: mostly there is one.
pub type Objects = SmallVec<[Object; 1]>;

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
    /// Which descriptors it was given, bit by bit from 0 on, as far as that is told; nothing where it shares its maker's.
    pub open: Vec<u64>,
}

/// A ring of io_uring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// Its identity.
    pub ring: u64,
    /// Its descriptor.
    pub fd: i32,
}

/// A request to a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its number.
    pub request: u64,
    /// The ring.
    pub ring: u64,
    /// Another one in the same slot: this one is over.
    pub slot: u64,
    /// As the program wrote it.
    pub sqe: [u8; 64],
    /// See [`layout::state`].
    pub state: u32,
    /// How many records hold further memory of it.
    pub more: u32,
}

/// A request is complete, or one step further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Its number.
    pub request: u64,
    /// The ring.
    pub ring: u64,
    /// Its result.
    pub result: i64,
    /// The buffer that the kernel chose: address and length.
    pub chosen: Option<(u64, u64)>,
    /// Where in the file content stands that was moved inside the kernel.
    pub moved_at: Option<u64>,
    /// `IORING_CQE_F_*`.
    pub flags: u32,
    /// Its place among the completions of the ring.
    pub place: u32,
    /// So many of these the program had taken.
    pub taken: u32,
    /// See [`layout::state`].
    pub state: u32,
    /// How many records hold further memory of it.
    pub more: u32,
    /// The file that it was about, and what was opened.
    pub objects: [Option<Object>; 2],
}

/// A page of a file that was stored to through memory, as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapped<'a> {
    /// Device of the file as `stat` tells it.
    pub device: u64,
    /// Inode of the file.
    pub inode: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Its length, as far as the file reached.
    pub length: u32,
    /// The thread whose fault opened it to stores last.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// Whether it is as it was before it was stored to for the first time.
    pub before: bool,
    /// Whether it is as it was when a call began that writes to it.
    pub written: bool,
    /// Whether it is as it was when a call had copied it, before which it was looked at, too.
    pub during: bool,
    /// Its content, if that was wanted.
    pub bytes: &'a [u8],
    /// Where the content begins in the body of the record.
    pub at: usize,
}

/// A page of a file that a load brought into the memory of a process, as it was then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loaded<'a> {
    /// Device of the file as the kernel's inode tells it.
    pub device: u64,
    /// Inode of the file.
    pub inode: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Where in memory.
    pub address: u64,
    /// Its length, as far as the file reached.
    pub length: u32,
    /// Whether its content was wanted and is not there.
    pub lacks: bool,
    /// Its content, if that was wanted.
    pub bytes: &'a [u8],
    /// Where the content begins in the body of the record.
    pub at: usize,
}

/// Ranges of memory that stand in a record.
#[derive(Debug, Clone, Copy)]
pub struct Ranges<'a> {
    count: u32,
    cursor: Cursor<'a>,
    total: usize,
    /// In brief: the arguments, one of which is the address.
    brief: Option<[u64; 6]>,
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
    /// Where instead they stand in the spool, and how many they are.
    pub said: Option<(Standing, usize)>,
}

/// What stands before the content of a range.
struct RangeHead {
    address: u64,
    length: u32,
    kept: u32,
    at_exit: bool,
    flags: u16,
    lead: u32,
}

fn range_head(cursor: &mut Cursor<'_>) -> Option<RangeHead> {
    let mut fields = cursor.fields::<{ size_of::<layout::RangeHead>() }>()?;
    let (address, length, kept) = (fields.u64(), fields.u32(), fields.u32());
    let (kinds, lead) = (fields.u32(), fields.u32());
    let (when, flags) = (kinds as u16, (kinds >> 16) as u16);
    Some(RangeHead { address, length, kept, at_exit: when == WHEN_EXIT, flags, lead })
}

fn brief_range(cursor: &mut Cursor<'_>, args: [u64; 6]) -> Option<RangeHead> {
    let (length, [low, high, argument, lead]) = (cursor.u32()?, cursor.u32()?.to_le_bytes());
    let flags = u16::from_le_bytes([low, high]);
    let kept = if flags & RANGE_UNWANTED != 0 { 0 } else { length };
    Some(RangeHead {
        address: *args.get(usize::from(argument))?,
        length,
        kept,
        at_exit: true,
        flags,
        lead: lead.into(),
    })
}

impl<'a> Iterator for Ranges<'a> {
    type Item = Range<'a>;

    fn next(&mut self) -> Option<Range<'a>> {
        self.count = self.count.checked_sub(1)?;
        let head = &mut self.cursor;
        let RangeHead { address, length, kept, at_exit, flags, lead } = match self.brief {
            None => range_head(head)?,
            Some(args) => brief_range(head, args)?,
        };
        head.take(lead as usize)?;
        let at = self.total - head.0.len();
        let unwanted = flags & RANGE_UNWANTED != 0;
        if flags & RANGE_SAID != 0 {
            // Nothing longer can have been written in one range: a place is no way to ask for memory.
            let kept = Some(kept as usize).filter(|kept| *kept <= PIECE_BYTES)?;
            let said = Some((Standing::from_word(head.u64()?), kept));
            return Some(Range { address, at_exit, length, unwanted, bytes: &[], at, said });
        }
        let bytes = head.take(kept as usize)?;
        head.skip_to_multiple_of_8(kept as usize);
        Some(Range { address, at_exit, length, unwanted, bytes, at, said: None })
    }
}

impl<'a> Record<'a> {
    /// Reads the body of a record, whose segment has told of these open files; `None` if it is damaged.
    pub fn parse(head: &Head, body: &'a [u8], told: &Told) -> Option<Record<'a>> {
        let total = body.len();
        let mut cursor = Cursor(body);
        let ranges = |count, cursor| Ranges { count, cursor, total, brief: None };
        Some(match head.kind {
            kind::CALL => {
                let (call, count, objects) = call::<CALL_BODY>(&mut cursor)?;
                let objects = (0..objects).map(|_| object(&mut cursor)).collect::<Option<Objects>>()?;
                Record::Call(call, objects, ranges(count, cursor))
            }
            kind::BRIEF => {
                let (call, objects) = brief(&mut cursor, head.time_ns, told)?;
                let count = u32::from(!cursor.0.is_empty());
                Record::Call(call, objects, Ranges { brief: Some(call.args), ..ranges(count, cursor) })
            }
            kind::MORE => Record::More(cursor.u64()?, ranges(1, cursor)),
            kind::ENTER => {
                let (call, count, _) = call::<ENTER_BODY>(&mut cursor)?;
                Record::Enter(call, ranges(count, cursor))
            }
            kind::TASK => Record::Task(task(&mut cursor)?),
            kind::EXEC => {
                let (old_tid, _reserved) = (cursor.u32()? as i32, cursor.u32()?);
                Record::Exec(old_tid, credentials(&mut cursor)?)
            }
            kind::END => Record::End(cursor.u32()? as i32, cursor.u32()? != 0),
            kind::UNLOCKED => Record::Unlocked,
            kind::RING => Record::Ring(Ring { ring: cursor.u64()?, fd: cursor.u32()? as i32 }),
            kind::REQUEST => {
                let (request, count) = request(&mut cursor)?;
                Record::Request(request, ranges(count, cursor))
            }
            kind::COMPLETION => {
                let (completion, count) = completion(&mut cursor)?;
                Record::Completion(completion, ranges(count, cursor))
            }
            kind::MAPPED => Record::Mapped(mapped(&mut cursor, total)?),
            kind::LOADED => Record::Loaded(loaded(&mut cursor, total)?),
            _ => Record::Unknown,
        })
    }
}

/// A call, how many ranges it has, and how many objects before them.
fn call<const BODY: usize>(cursor: &mut Cursor<'_>) -> Option<(Call, u32, u32)> {
    let mut fields = cursor.fields::<BODY>()?;
    let (begin_ns, call, cpu_ns) = (fields.u64(), fields.u64(), fields.u64());
    let result = if BODY == CALL_BODY { fields.u64() as i64 } else { 0 };
    let args = std::array::from_fn(|_| fields.u64());
    let (nr, counts, more, lacking) = (fields.u32(), fields.u32(), fields.u32(), fields.u32());
    Some((Call { begin_ns, call, cpu_ns, result, args, nr, more, lacking }, counts & 0xffff, counts >> 16))
}

/// A call in brief that was over at `end_ns`, and its open file.
fn brief(cursor: &mut Cursor<'_>, end_ns: u64, told: &Told) -> Option<(Call, Objects)> {
    let mut fields = cursor.fields::<{ size_of::<layout::BriefBody>() }>()?;
    let (cpu_ns, took_ns, number, result) = (fields.u64(), fields.u32(), fields.u32(), fields.u32() as i32);
    let [low, high, arguments, named] = fields.u32().to_le_bytes();
    let seen = match named {
        0 => None,
        _ if named & OBJECT_AGAIN != 0 => Some(told.again(cursor)?),
        _ => Some(brief_object(cursor)?),
    };
    let mut call = Call {
        begin_ns: end_ns.checked_sub(took_ns.into())?,
        call: number.into(),
        cpu_ns,
        result: result.into(),
        nr: u16::from_le_bytes([low, high]).into(),
        ..Call::default()
    };
    for arg in call.args.get_mut(..usize::from(arguments))? {
        *arg = cursor.u64()?;
    }
    let fd = match named & !OBJECT_AGAIN {
        OBJECT_RESULT => result,
        argument => call.args.get(usize::from(argument.saturating_sub(OBJECT_ARG))).copied().unwrap_or(0) as i32,
    };
    let mut objects = Objects::new();
    if let Some(object) = seen {
        objects.push(Object { fd, ..object });
    }
    Some((call, objects))
}

/// All but the descriptor.
pub(super) fn brief_object(cursor: &mut Cursor<'_>) -> Option<Object> {
    let mut o = cursor.fields::<{ size_of::<layout::BriefObject>() }>()?;
    let (id, inode, size, position) = (o.u64(), o.u64(), o.u64(), o.u64() as i64);
    let (device, flags, links, file_mode) = (o.u32().into(), o.u32(), o.u32(), o.u32());
    let (_generation, mode) = (o.u32(), o.u32() & 0xffff);
    Some(Object { id: identity(id, inode), device, inode, size, position, mode, flags, fd: 0, links, file_mode })
}

/// Where the kernel keeps an open file it soon keeps another, which most likely is of another inode.
fn identity(kept_at: u64, inode: u64) -> u64 {
    match kept_at {
        0 => 0,
        _ => (kept_at ^ inode.wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1),
    }
}

fn request(cursor: &mut Cursor<'_>) -> Option<(Request, u32)> {
    let (request, ring, slot) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let sqe = cursor.take(64)?.try_into().ok()?;
    let (state, ranges, more, _lacking) = (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
    Some((Request { request, ring, slot, sqe, state, more }, ranges))
}

fn completion(cursor: &mut Cursor<'_>) -> Option<(Completion, u32)> {
    let (request, ring, _mark) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let (result, address) = (cursor.u64()? as i64, cursor.u64()?);
    let (length, flags, place, taken) = (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let (state, ranges, more, _lacking) = (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let mut objects = [None; 2];
    for known in &mut objects {
        *known = Some(object(cursor)?).filter(|o| o.id != 0);
    }
    let chosen = (state & layout::state::CHOSEN != 0).then_some((address, length.into()));
    let moved_at = (state & layout::state::MOVED != 0).then_some(address);
    Some((Completion { request, ring, result, chosen, moved_at, flags, place, taken, state, more, objects }, ranges))
}

fn object(cursor: &mut Cursor<'_>) -> Option<Object> {
    let mut o = cursor.fields::<{ size_of::<layout::Object>() }>()?;
    let (id, device, inode, size, position) = (o.u64(), o.u64(), o.u64(), o.u64(), o.u64() as i64);
    let (_generation, mode, flags, fd) = (o.u32(), o.u32(), o.u32(), o.u32() as i32);
    let (links, file_mode) = (o.u32(), o.u32());
    Some(Object { id: identity(id, inode), device, inode, size, position, mode, flags, fd, links, file_mode })
}

fn credentials(cursor: &mut Cursor<'_>) -> Option<Credentials> {
    Credentials::decode(cursor.take(Credentials::BYTES)?)
}

fn task(cursor: &mut Cursor<'_>) -> Option<Task> {
    let (parent_tid, parent_pid) = (cursor.u32()? as i32, cursor.u32()? as i32);
    let flags = cursor.u64()?;
    let Credentials { users: uids, groups: gids } = credentials(cursor)?;
    let (umask, words) = (cursor.u32()?, cursor.u32()?);
    let name = cursor.take(16)?.split(|b| *b == 0).next().unwrap_or_default().to_vec();
    let open = (0..words.min(OPEN_WORDS)).map(|_| cursor.u64()).collect::<Option<_>>()?;
    Some(Task { parent_tid, parent_pid, flags, uids, gids, umask, name, open })
}

fn loaded<'a>(cursor: &mut Cursor<'a>, total: usize) -> Option<Loaded<'a>> {
    let (device, inode, page, address) = (cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let (length, kept, flags, _) = (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let lacks = flags & LOADED_LACKING != 0;
    let at = total - cursor.0.len();
    let (offset, bytes) = (page.checked_mul(PAGE)?, cursor.take(kept as usize)?);
    Some(Loaded { device, inode, offset, address, length, lacks, bytes, at })
}

fn mapped<'a>(cursor: &mut Cursor<'a>, total: usize) -> Option<Mapped<'a>> {
    let (device, inode, page, _size) = (cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let (_generation, length, kept) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let (tid, pid, flags) = (cursor.u32()? as i32, cursor.u32()? as i32, cursor.u32()?);
    let [before, written, during] = [MAPPED_BEFORE, MAPPED_WRITTEN, MAPPED_DURING].map(|flag| flags & flag != 0);
    let at = total - cursor.0.len();
    let (offset, bytes) = (page.checked_mul(PAGE)?, cursor.take(kept as usize)?);
    Some(Mapped { device, inode, offset, length, tid, pid, before, written, during, bytes, at })
}

/// Bytes that are taken from the front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    /// So many bytes, which are there.
    fn fields<const N: usize>(&mut self) -> Option<Fields<'a, N>> {
        let (fields, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(Fields { bytes: fields, at: 0 })
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn skip_to_multiple_of_8(&mut self, taken: usize) {
        let gap = taken.next_multiple_of(8) - taken;
        self.0 = self.0.get(gap..).unwrap_or_default();
    }
}

/// Numbers one after the other, of which it is known that they are there.
#[derive(Debug)]
struct Fields<'a, const N: usize> {
    bytes: &'a [u8; N],
    at: usize,
}

impl<const N: usize> Fields<'_, N> {
    #[inline(always)]
    fn next<const M: usize>(&mut self) -> [u8; M] {
        let next = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()).copied();
        debug_assert!(next.is_some(), "{M} bytes at {} of {N}", self.at);
        self.at += M;
        next.unwrap_or([0; M])
    }

    #[inline(always)]
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.next())
    }

    #[inline(always)]
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.next())
    }
}
