//! Rings and queues begin and end; changes of the tables that belong to rings ([`crate::requests`]).

use reprise_calls::{Call, Effect};
use reprise_trace::{Action, Loss};

use super::Tracer;
use crate::arguments::failed;
use crate::memory::Memory;
use crate::requests::{
    self, Changed, Channel, Choice, Ending, Flight, Key, PARAMS, Registration, Ring, Table, TableRow, Way,
};

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl Tracer<'_> {
    /// A call may have made or ended a ring or queue, or changed what is known of one.
    pub(super) fn channel_changed(&mut self, tid: i32, call: &Call, args: &[u64; 6], result: i64) {
        match call.name {
            "io_setup" => self.new_queue(tid, args[1]),
            "io_destroy" => self.abandon(Key::Queue(self.pid(tid), args[0]), tid),
            "io_uring_setup" => self.new_ring(tid, args[1], result as u32),
            "io_uring_register" => self.registered(tid, args, result),
            "mmap" => {
                let ring = self.requests.ring(Key::Ring(self.pid(tid), args[4] as u32));
                let channel = self.requests.channels.get_mut(&ring);
                if let Some(Way::Ring(ring)) = channel.map(|channel| &mut channel.way) {
                    ring.mapped(args[5], result as u64);
                }
            }
            _ => {}
        }
        let pid = self.pid(tid);
        match call.effect {
            Effect::Close => self.descriptor_ends(tid, Key::Ring(pid, args[0] as u32)),
            Effect::CloseRange => {
                let named = self.requests.in_range(pid, args);
                named.into_iter().for_each(|named| self.descriptor_ends(tid, named));
            }
            _ => {}
        }
        if let Some((from, to)) = requests::copied(call, args, result).filter(|(from, to)| from != to) {
            self.descriptor_ends(tid, Key::Ring(pid, to));
            self.requests.copied(pid, (from, to));
        }
    }

    fn descriptor_ends(&mut self, tid: i32, named: Key) {
        match self.requests.descriptor_ends(named) {
            Ending::Nothing => {}
            Ending::LivesAs(to) => self.requests.rename(named, to),
            Ending::Ends => self.abandon(named, tid),
        }
    }

    fn pid(&self, tid: i32) -> i32 {
        self.threads.get(&tid).map_or(tid, |t| t.pid)
    }

    fn new_ring(&mut self, tid: i32, params: u64, fd: u32) {
        let ring = Memory::Live(tid).exact(params, PARAMS).ok_or("a ring whose parameters could not be read");
        match ring.and_then(|params| Ring::new(&params)) {
            Ok(ring) => {
                let (key, channel) =
                    (Key::Ring(self.pid(tid), fd), Channel::new(format!("uring:{fd}"), Way::Ring(ring)));
                self.requests.copies.remove(&key);
                self.requests.channels.insert(key, channel);
            }
            Err(why) => {
                let cause = format!("io_uring requests: {why}; the eBPF backend sees them (--backend ebpf)");
                self.log.loss(Loss::Dropped, cause, 0);
            }
        }
    }

    /// What failed may have emptied an entry of a table.
    fn registered(&mut self, tid: i32, args: &[u64; 6], result: i64) {
        let key = self.ring_key(tid, args[0], requests::names_registered(args));
        match requests::registration(Memory::Live(tid), args) {
            Registration::Updates(first, numbers) => {
                let changed = self.requests.replace_files(key, first, &numbers, result);
                self.table_changed(key, tid, &changed);
            }
            _ if failed(result) => {}
            Registration::Files(numbers) => {
                let rows = self.requests.put_files(key, 0, &numbers);
                self.write_table(key, tid, &rows);
            }
            Registration::NoFiles => self.empty_table(key, tid),
            Registration::Rings(places) => {
                for (place, fd) in places {
                    match fd {
                        Some(fd) => {
                            let ring = self.requests.ring(Key::Ring(self.pid(tid), fd));
                            self.requests.registered.insert((tid, place), ring);
                        }
                        None => _ = self.requests.registered.remove(&(tid, place)),
                    }
                }
            }
            Registration::Buffers(group, ring) => {
                let channel = self.requests.channels.get_mut(&key);
                match (channel, ring) {
                    (Some(channel), Some(ring)) => _ = channel.buffer_rings.insert(group, ring),
                    (Some(channel), None) => _ = channel.buffer_rings.remove(&group),
                    (None, _) => {}
                }
            }
            Registration::Beyond(cause) => {
                self.log.loss(Loss::Dropped, cause, 0);
                self.abandon(key, tid);
            }
            Registration::Nothing => {}
        }
    }

    /// Takes all descriptors out of a ring's table.
    pub(super) fn empty_table(&mut self, key: Key, tid: i32) {
        let rows = self.requests.empty_table(key);
        self.write_table(key, tid, &rows);
    }

    fn table_changed(&mut self, key: Key, tid: i32, changed: &Changed) {
        self.log.loss_several(Loss::Dropped, requests::UNREAD_ENTRIES, changed.unread);
        self.write_table(key, tid, &changed.rows);
    }

    /// Rows that changes of a table make are written by a lane of this thread.
    pub(super) fn write_table(&mut self, key: Key, tid: i32, rows: &[TableRow]) {
        let Some(lane) = (!rows.is_empty()).then(|| self.lane(key, tid, None)).flatten() else { return };
        let thread = self.requests.channels.get(&key).map_or(0, |channel| channel.lane_thread(lane));
        rows.iter().for_each(|row| self.write_table_row(tid, thread, row));
    }

    pub(super) fn write_table_row(&mut self, tid: i32, thread: u32, row: &TableRow) {
        self.follow_origin(tid, row);
        let (begin_ns, call) = (self.log.now(), row.call.into());
        self.log.action(Action { thread, call, begin_ns, args: row.args, result: row.result, ..Action::default() });
    }

    /// What a request did to its ring's table; its result in the trace.
    pub(super) fn table_result(&mut self, key: Key, (tid, thread): (i32, u32), table: Table, result: i64) -> i64 {
        let files = self.requests.channels.get(&key).map(|channel| &channel.files);
        if let (Table::Drops(place), 0.., Some(files)) = (table, result, files) {
            files.get(&place).into_iter().for_each(|number| _ = self.origins.remove(number));
        }
        let (result, row) = self.requests.table_result(key, table, result);
        row.iter().for_each(|row| self.write_table_row(tid, thread, row));
        result
    }

    /// A request that stands for no call is complete: it may have replaced entries of the table, or added buffers.
    pub(super) fn changed_ring(&mut self, key: Key, tid: i32, flight: &Flight, result: i64, taken: bool) {
        // Where the program has gone on, the places that the kernel wrote may have been overwritten.
        let places = if taken { Vec::new() } else { requests::chosen(flight.table, Memory::Live(tid)) };
        let changed = self.requests.changed(key, flight, &places, result);
        self.table_changed(key, tid, &changed);
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
