//! Rings and queues begin and end; tables of descriptors that belong to rings.
//!
//! What is put into a ring's table is recorded as a lane's copy of the descriptor (`fcntl(F_DUPFD_CLOEXEC)`), and what is
//! taken out as its `close`, with a number that no process can have: so a descriptor lives on there after the program has
//! closed its own, and a file that was opened into the table has its life like any other.

use reprise_calls::{Call, Effect};
use reprise_trace::{Action, Loss};

use super::Tracer;
use crate::memory::Memory;
use crate::requests::{Channel, Choice, Flight, Key, PARAMS, Ring, Table, Way};

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

impl Tracer<'_> {
    /// A call that succeeded may have made or ended a ring or queue, or changed what is known of one.
    pub(super) fn channel_changed(&mut self, tid: i32, call: &Call, args: &[u64; 6], result: i64) {
        match call.name {
            "io_setup" => self.new_queue(tid, args[1]),
            "io_destroy" => self.abandon(Key::Queue(self.pid(tid), args[0]), tid),
            "io_uring_setup" => self.new_ring(tid, args[1], result as u32),
            "io_uring_register" => self.registered(tid, args),
            "mmap" => {
                let channel = self
                    .requests
                    .channels
                    .get_mut(&Key::Ring(self.threads.get(&tid).map_or(tid, |t| t.pid), args[4] as u32));
                if let Some(Way::Ring(ring)) = channel.map(|channel| &mut channel.way) {
                    ring.mapped(args[5], result as u64);
                }
            }
            _ => {}
        }
        let key = match call.effect {
            Effect::Close => Key::Ring(self.pid(tid), args[0] as u32),
            Effect::DuplicateTo => Key::Ring(self.pid(tid), args[1] as u32),
            _ => return,
        };
        self.abandon(key, tid);
    }

    fn pid(&self, tid: i32) -> i32 {
        self.threads.get(&tid).map_or(tid, |t| t.pid)
    }

    fn new_ring(&mut self, tid: i32, params: u64, fd: u32) {
        let ring = Memory::Live(tid).exact(params, PARAMS).ok_or("a ring whose parameters could not be read");
        match ring.and_then(|params| Ring::new(&params)) {
            Ok(ring) => {
                let channel = Channel::new(format!("uring:{fd}"), Way::Ring(ring));
                self.requests.channels.insert(Key::Ring(self.pid(tid), fd), channel);
            }
            Err(why) => {
                let cause = format!("io_uring requests: {why}; the eBPF backend sees them (--backend ebpf)");
                self.log.loss(Loss::Dropped, cause, 0);
            }
        }
    }

    fn registered(&mut self, tid: i32, args: &[u64; 6]) {
        let opcode = args[1] as u32;
        let key = self.ring_key(tid, args[0], opcode & USE_REGISTERED != 0);
        let memory = Memory::Live(tid);
        let (arg, count) = (args[2], args[3]);
        match opcode & !USE_REGISTERED {
            REGISTER_FILES => self.put_files(key, tid, 0, arg, count),
            UNREGISTER_FILES => self.empty_table(key, tid),
            FILES_UPDATE => {
                if let Some(update) = memory.exact(arg, 16) {
                    self.put_files(key, tid, half(&update, 0), word(&update, 8), count);
                }
            }
            FILES2 => {
                const SPARSE: u32 = 1;
                if let Some(files) = memory.exact(arg, 32).filter(|files| half(files, 4) & SPARSE == 0) {
                    self.put_files(key, tid, 0, word(&files, 16), half(&files, 0).into());
                }
            }
            FILES_UPDATE2 => {
                if let Some(update) = memory.exact(arg, 32) {
                    self.put_files(key, tid, half(&update, 0), word(&update, 8), half(&update, 24).into());
                }
            }
            opcode @ (RING_FDS | UNREGISTER_RING_FDS) => {
                for i in 0..count.min(16) {
                    let Some(entry) = memory.exact(arg.wrapping_add(16 * i), 16) else { continue };
                    let place = (tid, half(&entry, 0));
                    match opcode {
                        RING_FDS => _ = self.requests.registered.insert(place, word(&entry, 8) as u32),
                        _ => _ = self.requests.registered.remove(&place),
                    }
                }
            }
            PBUF_RING | UNREGISTER_PBUF_RING => {
                let channel = self.requests.channels.get_mut(&key);
                if let (Some(channel), Some(ring)) = (channel, memory.exact(arg, 16)) {
                    let group = half(&ring, 12) as u16;
                    match opcode & !USE_REGISTERED {
                        PBUF_RING => _ = channel.buffer_rings.insert(group, (word(&ring, 0), half(&ring, 8))),
                        _ => _ = channel.buffer_rings.remove(&group),
                    }
                }
            }
            RESIZE_RINGS => {
                self.log.loss(
                    Loss::Dropped,
                    "io_uring requests: a ring that was resized; the eBPF backend sees them",
                    0,
                );
                self.abandon(key, tid);
            }
            _ => {}
        }
    }

    /// Puts descriptors into a ring's table, from a place on.
    fn put_files(&mut self, key: Key, tid: i32, first: u32, address: u64, count: u64) {
        let count = count.min(MOST_FILES);
        let Some(numbers) = Memory::Live(tid).exact(address, 4 * count as usize) else { return };
        let Some(thread) = self.table_thread(key, tid) else { return };
        for (i, number) in (0..).zip(numbers.as_chunks::<4>().0) {
            let place = first.wrapping_add(i);
            let fd = i32::from_le_bytes(*number);
            if fd == SKIP {
                continue;
            }
            self.drop_file(key, thread, place);
            if fd >= 0 {
                let number = self.requests.fixed_number();
                self.write_table(thread, "fcntl", [fd as u64, DUPFD_CLOEXEC, 0, 0, 0, 0], number.into());
                if let Some(channel) = self.requests.channels.get_mut(&key) {
                    channel.files.insert(place, number);
                }
            }
        }
    }

    /// Takes all descriptors out of a ring's table.
    pub(super) fn empty_table(&mut self, key: Key, tid: i32) {
        let mut places: Vec<u32> =
            self.requests.channels.get(&key).into_iter().flat_map(|c| c.files.keys().copied()).collect();
        if places.is_empty() {
            return;
        }
        places.sort_unstable();
        if let Some(thread) = self.table_thread(key, tid) {
            places.into_iter().for_each(|place| self.drop_file(key, thread, place));
        }
    }

    /// A lane of this thread, for changes of the table.
    fn table_thread(&mut self, key: Key, tid: i32) -> Option<u32> {
        let lane = self.lane(key, tid, None)?;
        self.requests.channels.get(&key).map(|channel| channel.lane_thread(lane))
    }

    fn drop_file(&mut self, key: Key, thread: u32, place: u32) {
        let number = self.requests.channels.get_mut(&key).and_then(|channel| channel.files.remove(&place));
        if let Some(number) = number {
            self.write_table(thread, "close", [number.into(), 0, 0, 0, 0, 0], 0);
        }
    }

    fn write_table(&mut self, thread: u32, call: &str, args: [u64; 6], result: i64) {
        let begin_ns = self.log.now();
        self.log.action(Action { thread, call: call.to_owned(), begin_ns, args, result, ..Action::default() });
    }

    /// What a request did to its ring's table; its result in the trace.
    pub(super) fn table_result(&mut self, key: Key, thread: u32, table: Table, result: i64) -> i64 {
        if result < 0 {
            return result;
        }
        match table {
            Table::Untouched | Table::Replaces(..) => result,
            Table::Drops(place) => {
                if let Some(channel) = self.requests.channels.get_mut(&key) {
                    channel.files.remove(&place);
                }
                result
            }
            Table::Puts(place) => {
                let place = place.unwrap_or(result as u32);
                self.drop_file(key, thread, place);
                let number = self.requests.fixed_number();
                if let Some(channel) = self.requests.channels.get_mut(&key) {
                    channel.files.insert(place, number);
                }
                number.into()
            }
        }
    }

    /// A request that stands for no call is complete: it may have replaced entries of the table, or added buffers.
    pub(super) fn changed_ring(&mut self, key: Key, tid: i32, flight: &Flight, result: i64) {
        if let (Table::Replaces(first, address), 1..) = (flight.table, result) {
            self.put_files(key, tid, first, address, result as u64);
        }
        if let (Choice::Adds(group, first, count, (address, length)), 0..) = (flight.choice, result)
            && let Some(channel) = self.requests.channels.get_mut(&key)
        {
            for i in 0..count {
                let at = address.wrapping_add(length.wrapping_mul(i.into()));
                channel.buffers.insert((group, first.wrapping_add(i)), (at, length));
            }
        }
    }

    /// The buffer that the kernel chose for a request: address and length.
    pub(super) fn chosen_buffer(&self, key: Key, tid: i32, group: u16, number: u16) -> Option<(u64, u64)> {
        const ENTRY: usize = 16;
        let channel = self.requests.channels.get(&key)?;
        let Some(&(ring, entries)) = channel.buffer_rings.get(&group) else {
            return channel.buffers.get(&(group, number)).copied();
        };
        // struct io_uring_buf: address, length, number.
        let bytes = Memory::Live(tid).exact(ring, ENTRY * entries.min(1 << 15) as usize)?;
        let entry = bytes.chunks_exact(ENTRY).find(|e| half(e, 12) as u16 == number && half(e, 8) > 0)?;
        Some((word(entry, 0), half(entry, 8).into()))
    }
}
