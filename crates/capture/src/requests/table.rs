//! The table of descriptors that belongs to a ring.
//!
//! What is put into it is recorded as a lane's copy of the descriptor (`fcntl(F_DUPFD_CLOEXEC)`), and what is taken out as
//! its `close`, with a number that no process can have: so a descriptor lives on there after the program has closed its
//! own, and a file that was opened into the table has its life like any other.
//!
//! Goals: which rows that makes, whoever saw it. Non-goals: writing them.

use std::collections::HashMap;

use reprise_calls::Effect;
use reprise_calls::closing::RING_NUMBERS;

use super::{Channel, Flight, Key, Requests, Table};
use crate::memory::Memory;

const DUPFD_CLOEXEC: u64 = 1030;
/// Numbers of no descriptor: leave the entry as it is, and leave it empty.
const SKIP: i32 = -2;
const NONE: i32 = -1;
const MOST_FILES: u64 = 1 << 20;
const EBADF: i64 = -9;
const ENOMEM: i64 = -12;

/// Said of entries of a ring's table that a change has made, and nobody could read.
pub const UNREAD_ENTRIES: &str = "entries of a ring's table that were changed to what could not be read";

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
/// IOU_PBUF_RING_INC: a completion takes a part of a buffer, and the kernel moves its beginning.
const IN_PARTS: u32 = 2;
const RESIZED: &str = "io_uring requests: a ring that was resized; the eBPF backend sees them";
const PARTS_OF_BUFFERS: &str =
    "io_uring requests: a ring whose buffers are consumed in parts; the eBPF backend sees them";
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

/// What changes of tables came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Its rows.
    pub rows: Vec<TableRow>,
    /// Of so many entries what is there now is not known.
    pub unread: u64,
}

/// What `io_uring_register` is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    /// Makes a table of these descriptors.
    Files(Vec<i32>),
    /// Replaces entries of the table, from a place on, as far as the result says.
    Updates(u32, Vec<i32>),
    /// Emptied the table.
    NoFiles,
    /// Gave rings places by which the thread can name them, or took these away.
    Rings(Vec<(u32, Option<u32>)>),
    /// Made a group of buffers to choose from, or took it away: address and number of entries.
    Buffers(u16, Option<(u64, u32)>),
    /// Made its requests what only the kernel can follow: why they are none of a trace by ptrace.
    Beyond(&'static str),
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
    let files = |address, count| Some(Registration::Files(numbers(memory, address, count)));
    let updates = |first, address, count| Some(Registration::Updates(first, numbers(memory, address, count)));
    match opcode {
        REGISTER_FILES => files(arg, count),
        UNREGISTER_FILES => Some(Registration::NoFiles),
        FILES_UPDATE => {
            let update = memory.exact(arg, 16)?;
            updates(half(&update, 0), word(&update, 8), count)
        }
        FILES2 => {
            const SPARSE: u32 = 1;
            let new = memory.exact(arg, 32).filter(|new| half(new, 4) & SPARSE == 0)?;
            files(word(&new, 16), half(&new, 0).into())
        }
        FILES_UPDATE2 => {
            let update = memory.exact(arg, 32)?;
            updates(half(&update, 0), word(&update, 8), half(&update, 24).into())
        }
        RING_FDS | UNREGISTER_RING_FDS => {
            let entries = (0..count.min(16)).filter_map(|i| memory.exact(arg.wrapping_add(16 * i), 16));
            let fd = |entry: &[u8]| (opcode == RING_FDS).then(|| word(entry, 8) as u32);
            Some(Registration::Rings(entries.map(|entry| (half(&entry, 0), fd(&entry))).collect()))
        }
        PBUF_RING | UNREGISTER_PBUF_RING => {
            let ring = memory.exact(arg, 16)?;
            if opcode == PBUF_RING && half(&ring, 12) >> 16 & IN_PARTS != 0 {
                return Some(Registration::Beyond(PARTS_OF_BUFFERS));
            }
            let known = (opcode == PBUF_RING).then(|| (word(&ring, 0), half(&ring, 8)));
            Some(Registration::Buffers(half(&ring, 12) as u16, known))
        }
        RESIZE_RINGS => Some(Registration::Beyond(RESIZED)),
        _ => None,
    }
}

/// The descriptors, or places, in an array, as far as it can be read.
fn numbers(memory: Memory<'_>, address: u64, count: u64) -> Vec<i32> {
    let mut bytes = vec![0; 4 * count.min(MOST_FILES) as usize];
    let readable = if address == 0 { 0 } else { memory.read(address, &mut bytes) };
    bytes.truncate(readable);
    bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect()
}

/// The descriptors by which a request changes its ring's table: as it is submitted they stand there.
pub fn given(table: Table, memory: Memory<'_>) -> Vec<i32> {
    match table {
        Table::Replaces { address, count, .. } | Table::Chooses { address, count } => {
            numbers(memory, address, count.into())
        }
        Table::Untouched | Table::Puts(_) | Table::Drops(_) | Table::Sends { .. } => Vec::new(),
    }
}

/// The places that the kernel has chosen for them: when the request is complete they stand there.
pub fn chosen(table: Table, memory: Memory<'_>) -> Vec<i32> {
    match table {
        Table::Chooses { address, count } => numbers(memory, address, count.into()),
        Table::Untouched | Table::Puts(_) | Table::Drops(_) | Table::Replaces { .. } | Table::Sends { .. } => {
            Vec::new()
        }
    }
}

/// Whether the kernel has emptied the entry at which a change stopped: it does so before it looks whether the new number is
/// that of a file (`__io_sqe_files_update`). Not so where the number could not be read, or had a tag that it must not have.
fn empties(number: i32, result: i64) -> bool {
    number != SKIP && number != NONE && (result > 0 || matches!(result, EBADF | ENOMEM))
}

impl Channel {
    fn take_out(&mut self, place: u32) -> Option<TableRow> {
        self.files.remove(&place).map(TableRow::dropped)
    }

    /// A request is no more in flight: what only it held ends.
    pub fn let_go(&self, flight: &mut Flight) -> Vec<TableRow> {
        let is_held = |number: &u32| self.flights.iter().any(|other| other.held.contains(number));
        let ended = std::mem::take(&mut flight.held).into_iter().filter(|number| !is_held(number));
        ended.map(TableRow::dropped).collect()
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

    /// Replaces entries of a ring's table, from a place on, as far as the kernel came.
    pub fn replace_files(&mut self, key: Key, first: u32, numbers: &[i32], result: i64) -> Changed {
        let done = usize::try_from(result).unwrap_or(0);
        let known = done.min(numbers.len());
        let mut rows = self.put_files(key, first, &numbers[..known]);
        let Some(channel) = self.channels.get_mut(&key) else { return Changed::default() };
        let place = |at: usize| first.wrapping_add(at as u32);
        let stopped = numbers.get(done).filter(|number| empties(**number, result));
        rows.extend(stopped.and_then(|_| channel.take_out(place(done))));
        // What is not known must not be taken for what was there.
        let is_unread = |at: &u32| (place(known)..place(done)).contains(at);
        let mut unread: Vec<u32> = channel.files.keys().copied().filter(is_unread).collect();
        unread.sort_unstable();
        rows.extend(unread.into_iter().filter_map(|place| channel.take_out(place)));
        Changed { rows, unread: (done - known) as u64 }
    }

    /// Puts descriptors into a ring's table at the places that the kernel chose, of which there are as many as the result says.
    fn place_files(&mut self, key: Key, numbers: &[i32], places: &[i32], result: i64) -> Changed {
        let (done, mut out) = (u64::try_from(result).unwrap_or(0), Changed::default());
        let known = numbers.iter().zip(places).filter(|(number, place)| **number >= 0 && **place >= 0);
        for (number, place) in known.take(done as usize) {
            out.rows.extend(self.put_files(key, *place as u32, &[*number]));
            out.unread += 1;
        }
        out.unread = done - out.unread;
        out
    }

    /// What a request that stands for no call did to tables; `places` are those that the kernel chose.
    pub fn changed(&mut self, key: Key, flight: &Flight, places: &[i32], result: i64) -> Changed {
        match flight.table {
            Table::Replaces { first, .. } => self.replace_files(key, first, &flight.replaces, result),
            Table::Chooses { .. } => self.place_files(key, &flight.replaces, places, result),
            Table::Sends { from, ring, to } => {
                let rows = self.sent_file(key, (from, ring, to), result);
                Changed { rows, unread: 0 }
            }
            Table::Untouched | Table::Puts(_) | Table::Drops(_) => Changed::default(),
        }
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
    fn sent_file(&mut self, key: Key, (from, ring, to): (u32, u32, Option<u32>), result: i64) -> Vec<TableRow> {
        let held = self.channels.get(&key).and_then(|channel| channel.files.get(&from));
        let (Some(held), Ok(chosen)) = (held.copied(), u32::try_from(result)) else { return Vec::new() };
        let other = self.ring(Key::Ring(key.process(), ring));
        self.put_files(other, to.unwrap_or(chosen), &[held as i32])
    }

    /// Descriptors are about to end: requests that have begun go on with what they name. Until these are complete it has a number as what
    /// stands in a table has. What a request closes it looks for when it does.
    pub fn hold(&mut self, key: Key, first: u32, last: u32) -> Vec<TableRow> {
        let (mut rows, mut numbers) = (Vec::new(), HashMap::new());
        let count = self.channels.get(&key).map_or(0, |channel| channel.flights.len());
        for at in 0..count {
            let Some(channel) = self.channels.get(&key) else { break };
            let flight = &channel.flights[at];
            let closes = flight.asked.as_ref().is_some_and(|asked| asked.call.effect == Effect::Close);
            let has_it = flight.begin_ns.is_some() && !closes;
            let named: Vec<usize> = flight.named(first, last.min(RING_NUMBERS - 1)).filter(|_| has_it).collect();
            for arg in named {
                let own = self.fixed_number();
                let flight = self.channels.get_mut(&key).and_then(|channel| channel.flights.get_mut(at));
                let Some((asked, held)) = flight.and_then(|f| Some((f.asked.as_mut()?, &mut f.held))) else { break };
                let fd = asked.args[arg];
                let number = *numbers.entry(fd).or_insert_with(|| {
                    rows.push(TableRow::put(fd as i32, own));
                    own
                });
                asked.args[arg] = number.into();
                held.push(number);
            }
        }
        rows
    }

    /// Takes all descriptors out of a ring's table.
    pub fn empty_table(&mut self, key: Key) -> Vec<TableRow> {
        let Some(channel) = self.channels.get_mut(&key) else { return Vec::new() };
        let mut places: Vec<u32> = channel.files.keys().copied().collect();
        places.sort_unstable();
        places.into_iter().filter_map(|place| channel.take_out(place)).collect()
    }

    /// What a request was that opened a file in vain ([`Flight::opened_in_vain`]): its result in the trace, and the row that ends it.
    pub fn opened_in_vain(&mut self) -> (i64, TableRow) {
        let number = self.fixed_number();
        (number.into(), TableRow::dropped(number))
    }

    /// What a request that succeeded did to its ring's table: its result in the trace, and a row that comes before it.
    pub fn table_result(&mut self, key: Key, table: Table, result: i64) -> (i64, Option<TableRow>) {
        if result < 0 {
            return (result, None);
        }
        match table {
            Table::Untouched | Table::Replaces { .. } | Table::Chooses { .. } | Table::Sends { .. } => (result, None),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::{Asked, Way};

    const KEY: Key = Key::Ring(1, 3);

    /// A ring whose table has three descriptors.
    fn table() -> Requests {
        let mut requests = Requests::default();
        requests.channels.insert(KEY, Channel::new("ring".into(), Way::Told));
        assert_eq!(requests.put_files(KEY, 0, &[10, 11, 12]).len(), 3);
        requests
    }

    fn places(requests: &Requests) -> Vec<u32> {
        let mut places: Vec<u32> = requests.channels[&KEY].files.keys().copied().collect();
        places.sort_unstable();
        places
    }

    #[test]
    fn what_ends_while_it_is_used_is_held_until_the_last_lets_go() {
        let mut requests = table();
        let flies = |requests: &mut Requests, number: u64, call: &str, fd: u64, begin_ns: Option<u64>| {
            let flight = Flight { number, asked: Asked::call(call, &[fd]), begin_ns, ..Flight::default() };
            requests.channels.get_mut(&KEY).expect("a ring").fly(flight);
        };
        let begun = [("read", 7), ("fsync", 7), ("read", 8), ("close", 7)];
        (0..).zip(begun).for_each(|(number, (call, fd))| flies(&mut requests, number, call, fd, Some(1)));
        flies(&mut requests, 4, "read", 7, None);
        let rows = requests.hold(KEY, 7, 7);
        assert_eq!(rows.iter().map(|row| (row.call, row.args[0])).collect::<Vec<_>>(), [("fcntl", 7)]);
        let held = rows[0].result as u64;
        let channel = requests.channels.get_mut(&KEY).expect("a ring");
        let named = channel.flights.iter().filter_map(|f| Some(f.asked.as_ref()?.args[0]));
        assert_eq!(named.collect::<Vec<_>>(), [held, held, 8, 7, 7], "not of one that closes, or waits");
        let mut lands = |number: u64| {
            let mut flight = channel.land(number).expect("a request");
            channel.let_go(&mut flight)
        };
        assert!(lands(0).is_empty(), "another one has it");
        assert_eq!(lands(1), [TableRow::dropped(held as u32)]);
        assert!(lands(2).is_empty());
    }

    #[test]
    fn a_change_that_stops_has_emptied_the_entry_where_it_stopped() {
        for (numbers, result, left, rows) in [
            ([20, 999, 22], 1, vec![0, 2], vec!["close", "fcntl", "close"]),
            ([999, 21, 22], EBADF, vec![1, 2], vec!["close"]),
            ([20, SKIP, 22], 1, vec![0, 1, 2], vec!["close", "fcntl"]),
            ([20, 21, 22], -22, vec![0, 1, 2], vec![]),
            ([20, NONE, SKIP], 3, vec![0, 2], vec!["close", "fcntl", "close"]),
        ] {
            let mut requests = table();
            let changed = requests.replace_files(KEY, 0, &numbers, result);
            assert_eq!(places(&requests), left, "{numbers:?}");
            assert_eq!(changed.rows.iter().map(|row| row.call).collect::<Vec<_>>(), rows, "{numbers:?}");
        }
    }

    #[test]
    fn what_could_not_be_read_is_not_what_was_there() {
        let mut requests = table();
        let changed = requests.replace_files(KEY, 0, &[20], 3);
        assert_eq!((changed.unread, changed.rows.len()), (2, 4));
        assert_eq!(places(&requests), [0]);
    }

    #[test]
    fn descriptors_stand_where_the_kernel_chose() {
        let mut requests = table();
        let table = Table::Chooses { address: 0x1000, count: 3 };
        let flight = Flight { table, replaces: vec![20, 21, 999], ..Flight::default() };
        let changed = requests.changed(KEY, &flight, &[7, 5, 999], 2);
        assert_eq!(changed.unread, 0);
        assert_eq!(changed.rows.iter().map(|row| row.args[0]).collect::<Vec<_>>(), [20, 21]);
        assert_eq!(places(&requests), [0, 1, 2, 5, 7]);
        assert_eq!(requests.changed(KEY, &flight, &[], 2), Changed { rows: Vec::new(), unread: 2 });
    }
}
