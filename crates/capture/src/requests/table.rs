//! The table of descriptors that belongs to a ring.
//!
//! What is put into it is recorded as a lane's copy of the descriptor (`fcntl(F_DUPFD_CLOEXEC)`), and what is taken out as
//! its `close`, with a number that no process can have: so a descriptor lives on there after the program has closed its
//! own, and a file that was opened into the table has its life like any other.
//!
//! Goals: which rows that makes, whoever saw it. Non-goals: writing them.

use super::{Channel, Flight, Key, Requests, Table};
use crate::memory::Memory;

const DUPFD_CLOEXEC: u64 = 1030;
/// Numbers of no descriptor: leave the entry as it is.
const SKIP: i32 = -2;
const MOST_FILES: u64 = 1 << 20;

const REGISTER_FILES: u32 = 2;
const UNREGISTER_FILES: u32 = 3;
const FILES_UPDATE: u32 = 6;
const FILES2: u32 = 13;
const FILES_UPDATE2: u32 = 14;
const RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;
const PBUF_RING: u32 = 22;
const UNREGISTER_PBUF_RING: u32 = 23;
const RESIZE_RINGS: u32 = 33;
/// The ring is named by its place among those registered.
const USE_REGISTERED: u32 = 1 << 31;

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// A row that a change of the table makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableRow {
    pub call: &'static str,
    pub args: [u64; 6],
    pub result: i64,
}

impl TableRow {
    fn put(fd: i32, number: u32) -> TableRow {
        TableRow { call: "fcntl", args: [fd as u64, DUPFD_CLOEXEC, 0, 0, 0, 0], result: number.into() }
    }

    fn dropped(number: u32) -> TableRow {
        TableRow { call: "close", args: [number.into(), 0, 0, 0, 0, 0], result: 0 }
    }
}

/// What a successful `io_uring_register` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    /// Put descriptors into the table, from a place on.
    Files(u32, Vec<i32>),
    /// Emptied the table.
    NoFiles,
    /// Gave rings places by which the thread can name them, or took these away.
    Rings(Vec<(u32, Option<u32>)>),
    /// Made a group of buffers to choose from, or took it away: address and number of entries.
    Buffers(u16, Option<(u64, u32)>),
    /// Resized the ring.
    Resized,
    /// Nothing that matters to requests.
    Nothing,
}

/// Whether the ring is named by its place among those registered.
pub fn names_registered(args: &[u64; 6]) -> bool {
    args[1] as u32 & USE_REGISTERED != 0
}

/// Reads what a call registers; nothing if its memory cannot be read.
pub fn registration(memory: Memory<'_>, args: &[u64; 6]) -> Registration {
    read_registration(memory, args).unwrap_or(Registration::Nothing)
}

fn read_registration(memory: Memory<'_>, args: &[u64; 6]) -> Option<Registration> {
    let (opcode, arg, count) = (args[1] as u32 & !USE_REGISTERED, args[2], args[3]);
    let files = |first, address, count| Some(Registration::Files(first, numbers(memory, address, count)?));
    match opcode {
        REGISTER_FILES => files(0, arg, count),
        UNREGISTER_FILES => Some(Registration::NoFiles),
        FILES_UPDATE => {
            let update = memory.exact(arg, 16)?;
            files(half(&update, 0), word(&update, 8), count)
        }
        FILES2 => {
            const SPARSE: u32 = 1;
            let new = memory.exact(arg, 32).filter(|new| half(new, 4) & SPARSE == 0)?;
            files(0, word(&new, 16), half(&new, 0).into())
        }
        FILES_UPDATE2 => {
            let update = memory.exact(arg, 32)?;
            files(half(&update, 0), word(&update, 8), half(&update, 24).into())
        }
        RING_FDS | UNREGISTER_RING_FDS => {
            let entries = (0..count.min(16)).filter_map(|i| memory.exact(arg.wrapping_add(16 * i), 16));
            let fd = |entry: &[u8]| (opcode == RING_FDS).then(|| word(entry, 8) as u32);
            Some(Registration::Rings(entries.map(|entry| (half(&entry, 0), fd(&entry))).collect()))
        }
        PBUF_RING | UNREGISTER_PBUF_RING => {
            let ring = memory.exact(arg, 16)?;
            let known = (opcode == PBUF_RING).then(|| (word(&ring, 0), half(&ring, 8)));
            Some(Registration::Buffers(half(&ring, 12) as u16, known))
        }
        RESIZE_RINGS => Some(Registration::Resized),
        _ => None,
    }
}

/// The descriptors in an array.
pub fn numbers(memory: Memory<'_>, address: u64, count: u64) -> Option<Vec<i32>> {
    let bytes = memory.exact(address, 4 * count.min(MOST_FILES) as usize)?;
    Some(bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect())
}

impl Channel {
    fn take_out(&mut self, place: u32) -> Option<TableRow> {
        self.files.remove(&place).map(TableRow::dropped)
    }
}

impl Requests {
    /// Puts descriptors into a ring's table, from a place on.
    pub fn put_files(&mut self, key: Key, first: u32, numbers: &[i32]) -> Vec<TableRow> {
        let mut rows = Vec::new();
        for (i, fd) in (0..).zip(numbers).filter(|(_, fd)| **fd != SKIP) {
            let place = first.wrapping_add(i);
            let number = self.fixed_number();
            let Some(channel) = self.channels.get_mut(&key) else { break };
            rows.extend(channel.take_out(place));
            if *fd >= 0 {
                rows.push(TableRow::put(*fd, number));
                channel.files.insert(place, number);
            }
        }
        rows
    }

    /// Places of the table that a request names and that nobody was seen to fill (before the recording) get numbers.
    pub fn meet_files(&mut self, key: Key, flight: &Flight) {
        for (_, place) in flight.fixed.iter().flatten() {
            if self.channels.get(&key).is_some_and(|channel| channel.files.contains_key(place)) {
                continue;
            }
            let number = self.fixed_number();
            let channel = self.channels.get_mut(&key);
            channel.into_iter().for_each(|channel| _ = channel.files.insert(*place, number));
        }
    }

    /// What a request that came to `result` put into the table of another ring of its process.
    pub fn sent_file(&mut self, key: Key, table: Table, result: i64) -> Vec<TableRow> {
        let Table::Sends { from, ring, to } = table else { return Vec::new() };
        let held = self.channels.get(&key).and_then(|channel| channel.files.get(&from));
        let (Some(held), Ok(chosen)) = (held.copied(), u32::try_from(result)) else { return Vec::new() };
        self.put_files(Key::Ring(key.process(), ring), to.unwrap_or(chosen), &[held as i32])
    }

    /// Takes all descriptors out of a ring's table.
    pub fn empty_table(&mut self, key: Key) -> Vec<TableRow> {
        let Some(channel) = self.channels.get_mut(&key) else { return Vec::new() };
        let mut places: Vec<u32> = channel.files.keys().copied().collect();
        places.sort_unstable();
        places.into_iter().filter_map(|place| channel.take_out(place)).collect()
    }

    /// What a request that succeeded did to its ring's table: its result in the trace, and a row that comes before it.
    pub fn table_result(&mut self, key: Key, table: Table, result: i64) -> (i64, Option<TableRow>) {
        if result < 0 {
            return (result, None);
        }
        match table {
            Table::Untouched | Table::Replaces(..) | Table::Sends { .. } => (result, None),
            Table::Drops(place) => {
                self.channels.get_mut(&key).into_iter().for_each(|channel| _ = channel.files.remove(&place));
                (result, None)
            }
            Table::Puts(place) => {
                let (place, number) = (place.unwrap_or(result as u32), self.fixed_number());
                let Some(channel) = self.channels.get_mut(&key) else { return (number.into(), None) };
                let row = channel.take_out(place);
                channel.files.insert(place, number);
                (number.into(), row)
            }
        }
    }
}
