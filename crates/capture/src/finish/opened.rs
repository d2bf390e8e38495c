//! Descriptors that were open at the beginning, as rows of the trace; proved by the first call that names each.
//!
//! Goals: the kernel's word on identity and position, which comes with every call, stands over what was looked at; each
//! contradiction is noted. Non-goals: descriptors that calls make.

use foldhash::{HashMap, HashSet};

use reprise_calls::Effect;
use reprise_trace::Descriptor;

use super::before::makes;
use super::decode::Pending;
use crate::log::Log;
use crate::spool::record::Object;

/// Rows that are to be written, and which of them nothing has proved yet.
#[derive(Debug, Default)]
pub struct Opened {
    rows: Vec<Descriptor>,
    /// By table and number.
    unproved: HashMap<(u32, u32), usize>,
    /// Of the next description.
    next: u64,
    /// Tables of those who received messages: these may have brought descriptors.
    receives: HashSet<u32>,
    /// By table: the process whose rows tell of it.
    tellers: HashMap<u32, u32>,
    /// Processes that share the table of another one, by that one.
    sharers: HashMap<u32, Vec<u32>>,
    /// What processes that were made since were found to have from one of the beginning: that, and the number.
    inherited: HashSet<(u32, u32)>,
}

/// What a call says of a number that nothing is known of.
pub type Unknown = Object;

impl Opened {
    /// A process and its table; `of`: the process it shares that with.
    pub fn process(&mut self, table: u32, process: u32, of: Option<u32>) {
        match of {
            Some(of) => self.sharers.entry(of).or_default().push(process),
            None => drop(self.tellers.insert(table, process)),
        }
    }

    /// A descriptor of a table.
    pub fn add(&mut self, table: u32, row: Descriptor) {
        let row = Descriptor { process: self.tellers.get(&table).copied().unwrap_or(row.process), ..row };
        self.next = self.next.max(row.description + 1);
        self.unproved.insert((table, row.fd), self.rows.len());
        self.rows.push(row);
    }

    /// A descriptor that somebody has inherited from this process of the beginning. One row is enough, whoever names it first.
    pub fn inherit(&mut self, row: Descriptor) {
        let which = |row: &Descriptor| (row.process, row.fd);
        if self.inherited.insert(which(&row)) && !self.rows.iter().any(|known| which(known) == which(&row)) {
            self.next = self.next.max(row.description + 1);
            self.rows.push(row);
        }
    }

    /// A process was made with a copy of another's table.
    pub fn forked(&mut self, from: u32, to: u32) {
        if self.receives.contains(&from) {
            self.receives.insert(to);
        }
    }

    /// Whether a process of the beginning is known to have a descriptor, since another one inherited it.
    pub fn is_inherited(&self, process: u32, fd: u32) -> bool {
        self.inherited.contains(&(process, fd))
    }

    /// A description that no other descriptor shares.
    pub fn next_description(&self) -> u64 {
        self.next
    }

    /// Nothing is to be proved of a descriptor any more.
    pub fn proved(&mut self, table: u32, fd: u32) {
        self.unproved.remove(&(table, fd));
    }

    /// A table is gone.
    pub fn end(&mut self, table: u32) {
        self.unproved.retain(|(of, _), _| *of != table);
        self.tellers.remove(&table);
        self.receives.remove(&table);
    }

    /// Takes the first call about each descriptor as proof. Gives the open files of numbers that no call made and that
    /// were not seen; `is_open` says whether a number is known otherwise.
    pub fn prove(
        &mut self,
        table: u32,
        pending: &Pending,
        is_open: impl Fn(u32) -> bool,
        log: &mut Log,
    ) -> Vec<Unknown> {
        let (call, action) = (pending.call, &pending.action);
        let mut unknown = Vec::new();
        if matches!(call.name, "recvmsg" | "recvmmsg") && action.result >= 0 {
            self.receives.insert(table);
        }
        for object in &pending.objects {
            let Ok(fd) = u32::try_from(object.fd) else { continue };
            let known = self.unproved.remove(&(table, fd));
            if makes(call, &action.args, action.result, &action.output, fd) {
                continue;
            }
            match known {
                Some(at) => self.compare(at, pending, object, log),
                None if !is_open(fd) && !self.receives.contains(&table) => unknown.push(*object),
                None => {}
            }
        }
        unknown
    }

    fn compare(&mut self, at: usize, pending: &Pending, object: &Object, log: &mut Log) {
        let row = &self.rows[at];
        if (row.device, row.inode) != (object.device, object.inode) {
            return log.note("a descriptor was open on another file than it seemed when it was looked at");
        }
        let description = row.description;
        let rows = &self.rows;
        self.unproved.retain(|_, other| rows[*other].description != description);
        let Some(found) = found_at(pending, object).filter(|found| *found != row.offset) else { return };
        log.note("a descriptor stood at another position than it seemed when it was looked at");
        self.rows.iter_mut().filter(|row| row.description == description).for_each(|row| row.offset = found);
    }

    /// Writes them, those of a shared table for each process that has it.
    pub fn write(self, log: &mut Log) {
        for row in self.rows {
            for &process in self.sharers.get(&row.process).into_iter().flatten() {
                log.descriptor(Descriptor { process, ..row.clone() });
            }
            log.descriptor(row);
        }
    }
}

/// Where a call that goes on from the position of a regular file found that.
fn found_at(pending: &Pending, object: &Object) -> Option<u64> {
    let (call, action) = (pending.call, &pending.action);
    let moved = u64::try_from(action.result).ok().filter(|moved| *moved > 0)?;
    let implicit = call.offset_arg().is_none_or(|i| action.args[i] == u64::MAX);
    let moves = matches!(call.effect, Effect::Read | Effect::Write) && implicit;
    let is_plain = object.mode & libc::S_IFMT == libc::S_IFREG && object.flags & libc::O_APPEND as u32 == 0;
    (moves && is_plain).then(|| object.stands_at().checked_sub(moved))?
}
