//! Rows in their order: threads and processes, actions, and at the end the initial tree.

use std::path::Path;

use reprise_calls::credentials::further_groups;
use reprise_calls::sharing::shared;
use reprise_calls::{ArgKind, Effect, Replay, by_number};
use reprise_initial::{Seeds, Seen, World};
use reprise_trace::{AMID, Action, End, IN_THE_KERNEL, Loss, Name, Process, RESPONSE_TIME, WriteError};

use super::content::{self, Wanted};
use super::decode::{Pending, Spare};
use super::lanes::{Lanes, NewLane};
use super::lives::{Born, Gone, Life, Lives};
use super::loads::Loads;
use super::look::Live;
use super::looked::Otherwise;
use super::order::{Teller, saw_removal};
use super::present::Present;
use super::stores::Stores;
use super::told::Told;
use super::window::Placed;
use super::{movers, stores, unseen};
use crate::arguments::{UNREADABLE, failed};
use crate::log::Log;
use crate::own_users;
use crate::record::Outcome;
use crate::spool::join::{Load, Stored};
use crate::spool::record::Task;
use crate::spool::{Begin, Kept, Stood};

/// Something that has its place in the order.
#[derive(Debug)]
pub enum What {
    /// A call.
    Call(Box<Pending>),
    /// A thread that another made.
    Birth(Box<Birth>),
    /// A page was stored to through memory.
    Stored(Box<Stored>),
    /// A page came into a process's memory by a load.
    Loaded(Box<Load>),
    /// A thread goes on as the first of its process.
    Exec {
        /// Its number from now on.
        tid: i32,
        /// Its number before.
        old_tid: i32,
    },
    /// A thread has ended.
    End {
        /// Its number.
        tid: i32,
        /// Its process.
        pid: i32,
        /// How.
        gone: Box<Gone>,
    },
}

/// A thread that another made.
#[derive(Debug)]
pub struct Birth {
    /// Its number.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// When.
    pub at_ns: u64,
    /// Who made it, and how.
    pub task: Task,
    /// The call that made it, once that is over.
    pub call: Option<Box<Pending>>,
}

/// Whether a call ends its thread.
pub fn is_exit(number: u32) -> bool {
    by_number(number).is_some_and(|call| call.effect == Effect::Exit)
}

/// Whether a call was given a path, as its success shows, that is not known: it was in no memory when the call began.
fn lacks_path(pending: &Pending) -> bool {
    let given = pending.call.position(|kind| matches!(kind, ArgKind::Path(_)));
    pending.action.path.is_none()
        && !failed(pending.action.result)
        && given.is_some_and(|at| pending.action.args[at] != 0)
}

/// Writes rows.
pub struct Writing {
    pub log: Log,
    pub(super) world: World,
    pub(super) live: Live,
    /// What small files held before a command ran.
    kept: Kept,
    pub(super) lives: Lives,
    lanes: Lanes,
    pub(super) teller: Teller,
    pub(super) stores: Stores,
    pub(super) loads: Loads,
    monotonic_ns: u64,
    wanted: Wanted,
    began_ns: u64,
    cpu: bool,
    /// The process that was begun first.
    first: i32,
    /// Whether that has not executed its program yet.
    launching: bool,
    owner: (u32, u32),
    root: Vec<u8>,
    pub(super) present: Present,
    pub(super) spare: Spare,
    end: Option<End>,
}

impl Writing {
    /// Nothing is written yet.
    pub fn new(log: Log, begin: &Begin, spool: &Path, seeds: &Seeds) -> Writing {
        let first = begin.processes.first();
        let root = first.map_or(b"/".to_vec(), |p| Name::from_text(&p.root).0);
        let seen_at = begin.mounted_at.as_ref().map_or(root.clone(), |place| place.clone().into_bytes());
        let began_ns = begin.manifest.started_ns;
        let outside = Live::new(&seen_at, began_ns).remembering(Stood::read(spool));
        let mut world = World::new(Box::new(outside));
        world.seed(seeds);
        world.stores_are_told = begin.mapped;
        let id = |ids: Option<&Vec<u32>>| ids.and_then(|ids| ids.get(3)).copied().unwrap_or(0);
        let mut writing = Writing {
            log,
            world,
            live: Live::new(&seen_at, began_ns),
            kept: Kept::read(spool),
            lives: Lives::default(),
            lanes: Lanes::default(),
            teller: Teller::default(),
            stores: Stores::default(),
            loads: Loads::default(),
            monotonic_ns: begin.monotonic_ns,
            wanted: Wanted { whole_file_bytes: begin.whole_file_bytes, libraries: begin.libraries },
            began_ns,
            cpu: begin.cpu,
            first: first.filter(|_| !begin.attached).map_or(0, |p| p.pid),
            launching: begin.processes.len() == 1 && !begin.attached,
            owner: (id(first.map(|p| &p.uids)), id(first.map(|p| &p.gids))),
            root,
            present: Present::new(begin, spool),
            spare: Spare::default(),
            end: None,
        };
        writing.world.root_is(writing.live.now(b"/").map(|(looked, _)| looked));
        writing
    }

    /// What a call found and left.
    pub fn told(&mut self, what: &What) -> Told {
        match what {
            What::Call(pending) => match self.life(pending.tid) {
                Some(life) => {
                    let seat_of = |pid| self.lives.any_of(pid).map(|life| life.seat);
                    self.teller.told(&mut self.world, life.seat, &seat_of, pending)
                }
                None => Told::unborn(),
            },
            What::Birth(birth) => match self.known(birth.task.parent_tid) {
                Some(maker) => self.teller.born(maker.seat, &birth.task.open, birth.call.as_deref()),
                None => Told::unborn(),
            },
            What::End { tid, gone, .. } if gone.unlocked_ns.is_some() => match self.lives.get(*tid) {
                Some(life) => self.teller.ending(life.seat),
                None => Told::unborn(),
            },
            What::Stored(_) | What::Loaded(_) | What::Exec { .. } | What::End { .. } => Told::default(),
        }
    }

    /// A thread that lives, or a lane.
    fn life(&mut self, tid: i32) -> Option<Life> {
        match tid {
            ..0 => self.lanes.get(tid, &mut self.lives, &mut self.world, &mut self.log),
            0.. => self.known(tid),
        }
    }

    /// A lane that was not there before.
    pub fn lane(&mut self, lane: NewLane) {
        self.lanes.add(lane);
    }

    /// The process of a lane, by what it has in the place of a thread's number.
    pub fn process_of_lane(&self, tid: i32) -> Option<i32> {
        self.lanes.process(tid)
    }

    /// Writes what has its place.
    pub fn write(&mut self, placed: Placed<What>) {
        if !matches!(placed.what, What::Stored(_)) {
            self.stores.flush(&self.lives, &mut self.log);
        }
        if !matches!(placed.what, What::Loaded(_)) {
            self.loads.flush(&self.lives, &mut self.log);
        }
        match placed.what {
            What::Stored(stored) => self.stored(&stored),
            What::Loaded(load) => self.loaded(&load),
            What::Call(mut pending) => {
                if placed.is_amid || saw_removal(&pending) && !self.begins_in_proc(&pending) {
                    self.log.note("calls that saw another one half done, as no replay can");
                    pending.action.difference = Some(AMID.to_owned());
                }
                let behind = self.shown_by(&pending);
                self.call(pending);
                self.stored_behind(&behind);
            }
            What::Birth(birth) => self.birth(*birth),
            What::Exec { tid, old_tid } => self.exec(tid, old_tid),
            What::End { tid, pid, gone } => self.ended(tid, pid, *gone),
        }
    }

    /// A page of a file is as it was seen.
    fn stored(&mut self, stored: &Stored) {
        if stored.before {
            let end = stored.offset.saturating_add(stored.length.into());
            if self.world.shows_first(stored.file, stored.offset, end) {
                stores::tell_first(stored.content.as_ref(), stored.file, (stored.offset, stored.length), &mut self.log);
                self.stores.known_first(stored);
            }
            return;
        }
        let time_ns = stored.time_ns.saturating_sub(self.monotonic_ns);
        if let Some((file, begin, end)) = self.stores.seen(stored, time_ns, &self.lives, &mut self.log) {
            self.world.stored(file, begin, end);
        }
    }

    /// A page of a file was loaded.
    fn loaded(&mut self, load: &Load) {
        let looked = self.stores.was_looked_at(load.file, load.offset);
        let Some(content) = load.content.as_ref().filter(|_| looked) else { return self.load(load) };
        let mut bytes = Vec::new();
        content.read(&mut bytes);
        let behind = self.shown(load.file, load.offset, &bytes);
        self.load(load);
        if !behind.is_empty() {
            self.loads.flush(&self.lives, &mut self.log);
            self.stored_behind(&behind);
        }
    }

    fn load(&mut self, load: &Load) {
        let time_ns = load.time_ns.saturating_sub(self.monotonic_ns);
        let end = load.offset.saturating_add(load.length.into());
        match self.loads.seen(load, time_ns, &self.lives, &mut self.log) {
            Some(file) if !load.lacks => self.world.loaded(file, load.offset, end),
            Some(_) => {}
            // No row shows it.
            None if load.content.is_some() && self.world.shows_first(load.file, load.offset, end) => {
                stores::tell_first(load.content.as_ref(), load.file, (load.offset, load.length), &mut self.log);
            }
            None => {}
        }
    }

    /// What a call saw of a file while others went on storing to it stands before it; gives what stands behind it.
    fn shown_by(&mut self, pending: &Pending) -> Vec<Otherwise> {
        let Some(bytes) = pending.passage.as_ref().filter(|_| pending.call.effect == Effect::Read) else {
            return Vec::new();
        };
        let Some(object) = pending.objects.first() else { return Vec::new() };
        self.shown((object.device, object.inode), pending.passage_begins(object), bytes)
    }

    fn shown(&mut self, file: (u64, u64), at: u64, bytes: &[u8]) -> Vec<Otherwise> {
        let pages = self.stores.otherwise(file, at, bytes);
        if !pages.is_empty() {
            self.loads.flush(&self.lives, &mut self.log);
            self.stores.shown(&pages, &self.lives, &mut self.log);
        }
        for Otherwise { stored, .. } in &pages {
            self.world.stored(file, stored.offset, stored.offset + u64::from(stored.length));
        }
        pages
    }

    fn stored_behind(&mut self, pages: &[Otherwise]) {
        for page in pages {
            self.stores.again(page, &self.lives, &mut self.log);
        }
    }

    fn begins_in_proc(&self, pending: &Pending) -> bool {
        let Some(life) = self.lives.get(pending.tid) else { return false };
        let (call, result, decoded) = (pending.call, pending.action.result, pending.decoded());
        self.world.begins_in_proc(&Seen { seat: life.seat, call, decoded: &decoded, result })
    }

    /// Writes the action of a call; gives its number.
    fn call(&mut self, mut pending: Box<Pending>) -> Option<u64> {
        let (call, result, tid) = (pending.call, pending.action.result, pending.tid);
        if self.launching && call.effect == Effect::Execute && failed(result) {
            return None;
        }
        let life = match self.life(tid) {
            Some(life) => life,
            None if tid < 0 => {
                self.log.loss(Loss::Dropped, "requests that were complete when their process had ended", 0);
                return None;
            }
            None => self.stranger(tid, pending.action.begin_ns),
        };
        if let Some(begin_ns) = self.teller.looked_up_ns(life.seat, &pending) {
            let end_ns = pending.action.end_ns();
            pending.action.begin_ns = begin_ns.min(end_ns);
            pending.action.duration_ns = end_ns - pending.action.begin_ns;
        }
        self.prove(&life, &pending);
        self.copied_until(pending.end_ns());
        movers::fill(&mut pending, &self.world, life.seat, &self.live, self.began_ns, &mut self.log);
        self.teller.took_place(life.seat, &pending);
        let decoded = pending.decoded();
        let seat = self.world.observe(&Seen { seat: life.seat, call, decoded: &decoded, result });
        if pending.is_unseen {
            pending.action.truncated_bytes = self.world.lacking_of_move();
        }
        if seat != life.seat
            && let Some(live) = self.lives.get_mut(tid)
        {
            live.seat = seat;
            if seat.table() != life.seat.table() {
                self.teller.forked(life.seat, seat);
            }
        }
        self.state_of_process(&life, &pending);
        self.stores.called(life.pid, &pending);
        self.loads.called(life.pid, &pending);
        unseen::count(&pending, self.world.stores_are_told, &mut self.log);
        if let (Replay::Unsupported(why), false) = (call.replay, failed(result)) {
            self.log.loss(Loss::Unsupported, format!("{}: {why}", call.name), pending.action.data_bytes);
        }
        own_users::count(call, &pending.action, &mut self.log);
        if lacks_path(&pending) {
            self.log.loss(Loss::Truncated, format!("{}: {UNREADABLE}", call.name), 0);
        }
        pending.action.thread = life.thread;
        pending.action.cpu_ns = self.used(tid, pending.cpu_ns, &pending.action);
        // What is not found at the end either is counted then.
        let written = match pending.is_unseen {
            true => self.log.action_accounted(&mut pending.action),
            false => self.log.action_lacking(&mut pending.action, pending.lacks),
        };
        self.spare.give(pending);
        Some(written)
    }

    /// What a call changes of its process that later rows tell.
    fn state_of_process(&mut self, life: &Life, pending: &Pending) {
        if failed(pending.action.result) {
            return;
        }
        match pending.call.effect {
            Effect::Execute => {
                self.launching = false;
                let Some(path) = pending.action.path.as_ref().map(|p| p.0.clone()) else { return };
                let absolute = match path.starts_with(b"/") {
                    true => path,
                    false => [self.world.places(life.seat).0, path].join(&b'/'),
                };
                self.lives.program(life.pid, &absolute);
            }
            Effect::ChangeIdentity if pending.call.name == "setgroups" => {
                let list = pending.action.input.get(4..).unwrap_or_default();
                self.lives.set_groups(life.pid, further_groups(list).collect());
            }
            _ => {}
        }
    }

    /// Processor time between the last call of a thread and this one.
    fn used(&mut self, tid: i32, cpu_ns: u64, action: &Action) -> Option<u64> {
        let life = self.lives.get_mut(tid).filter(|_| self.cpu && cpu_ns > 0)?;
        let last = life.last.replace((action.end_ns(), cpu_ns));
        let (left_ns, before) = last?;
        // The last call itself is in the difference; there cannot be more than there was time.
        Some(cpu_ns.checked_sub(before)?.min(action.begin_ns.saturating_sub(left_ns)))
    }

    /// A thread that nothing in the spool made.
    fn stranger(&mut self, tid: i32, begin_ns: u64) -> Life {
        if let Some(life) = self.joined(tid, begin_ns) {
            return life;
        }
        self.log.note("a thread whose making is not in the raw recording");
        let number = self.lives.next_process();
        let row = Process { pid: tid, cwd: Name::from("/"), root: Name::from("/"), ..Process::default() };
        self.lives.found_process(row, &mut self.log);
        let seat = self.world.begin_with(tid.unsigned_abs(), Some(b"/"), Vec::new());
        self.present.roots.insert(tid.unsigned_abs(), number);
        self.lives.found_thread(tid, tid, Name::default(), begin_ns, seat, &mut self.log);
        self.lives.get(tid).unwrap_or(Life { thread: 0, pid: tid, seat, last: None })
    }

    fn birth(&mut self, birth: Birth) {
        let Birth { tid, pid, at_ns, task, call } = birth;
        let maker = match self.known(task.parent_tid) {
            Some(maker) => maker,
            None => self.stranger(task.parent_tid, at_ns),
        };
        let written = match call {
            Some(call) => self.call(call),
            None => Some(self.unfinished(&maker, tid, at_ns, &task)),
        };
        let Some(created_by) = written else { return };
        if tid == pid {
            self.stores.forked(maker.pid, pid);
            self.loads.forked(maker.pid, pid);
        }
        let descriptors = shared(task.flags).descriptors;
        let seat = self.world.fork(maker.seat, task.flags);
        if !descriptors && tid == pid {
            self.world.numbered(seat, pid);
        }
        if !descriptors {
            self.teller.forked(maker.seat, seat);
            self.present.opened.forked(maker.seat.table(), seat.table());
        }
        let (cwd, root) = self.world.places(seat);
        let above = self.root.strip_suffix(b"/").unwrap_or(&self.root);
        let places = (cwd, if root == b"/" { self.root.clone() } else { [above, &root].concat() });
        let born = Born { tid, pid, task: &task, created_by, begin_ns: at_ns, seat, places };
        self.lives.born(born, &mut self.log);
    }

    /// The maker was killed before its call was over, or that lasts longer than anything can wait.
    fn unfinished(&mut self, maker: &Life, tid: i32, at_ns: u64, task: &Task) -> u64 {
        self.log.note("a thread was made by a call whose end is not known");
        let mut args = [0; 6];
        args[0] = task.flags;
        self.log.action(Action {
            thread: maker.thread,
            call: "clone".into(),
            begin_ns: at_ns,
            args,
            result: tid.into(),
            ..Action::default()
        })
    }

    fn exec(&mut self, tid: i32, old_tid: i32) {
        self.known(old_tid);
        if tid != old_tid
            && let Some((life, gone)) = self.lives.rename(old_tid, tid)
        {
            self.end_row(life, "exit", gone);
        }
    }

    fn ended(&mut self, tid: i32, pid: i32, gone: Gone) {
        self.present.forget(tid);
        self.lanes.submitter_ends(tid, gone.end_ns, &mut self.lives, &mut self.world, &mut self.log);
        let ends = self.lives.end(tid, gone);
        // The memory of a process is there until its last thread is gone, which need not be its first.
        let is_over = ends.iter().any(|(_, name, _)| *name == "exit_group");
        if is_over || tid == pid && self.lives.any_of(pid).is_none() {
            self.stores.ended(pid);
            self.loads.ended(pid);
        }
        for (life, name, gone) in ends {
            if name == "exit_group" {
                self.lanes.end(life.pid, &mut self.world);
            }
            self.end_row(life, name, gone);
        }
        if tid == pid && pid == self.first {
            let signal = gone.status & 0x7f;
            let code = (gone.status >> 8) & 0xff;
            self.end = Some(match signal {
                0 => End { code: Some(code), signal: None },
                signal => End { code: None, signal: Some(signal) },
            });
        }
    }

    fn end_row(&mut self, life: Life, name: &'static str, gone: Gone) {
        let signal = gone.status & 0x7f;
        let status = if signal == 0 { gone.status >> 8 & 0xff } else { 128 + signal };
        if name == "exit_group" && signal != 0 {
            self.log.killed(gone.status);
        }
        let mut args = [0; 6];
        args[0] = match (name, gone.asked) {
            ("exit", Some(asked)) => asked,
            _ => status as u64,
        };
        let cpu_ns = life.last.filter(|_| self.cpu && gone.cpu_ns > 0).and_then(|(left_ns, before)| {
            Some(gone.cpu_ns.checked_sub(before)?.min(gone.begin_ns.saturating_sub(left_ns)))
        });
        self.teller.void(life.seat);
        if self.world.end(life.seat) {
            self.teller.ended(life.seat);
            self.present.opened.end(life.seat.table());
        }
        self.log.action(Action {
            thread: life.thread,
            call: name.into(),
            begin_ns: gone.begin_ns,
            duration_ns: gone.end_ns.saturating_sub(gone.begin_ns),
            args,
            cpu_ns,
            ..Action::default()
        });
    }

    /// Writes what was there at the beginning, and closes the trace.
    pub fn close(mut self, end: Option<End>) -> Result<Outcome, WriteError> {
        self.stores.flush(&self.lives, &mut self.log);
        self.stores.finish(&mut self.log);
        self.loads.flush(&self.lives, &mut self.log);
        let cut_off = self.lives.count() as u64;
        match self.present.attached {
            true => self.log.note_several("threads that went on when the recording ended", cut_off),
            false => self.log.note_several("threads whose end is not in the raw recording", cut_off),
        }
        self.settle_present();
        content::settle(&mut self.world, &mut self.live);
        for row in self.world.tree(self.owner) {
            self.log.node(row);
        }
        content::write(&self.world, &mut self.live, self.wanted, &mut self.log);
        let known = (&self.kept, &self.present);
        content::write_replaced(&self.world, &mut self.live, known, self.wanted, &mut self.log);
        content::write_copied(&self.world, &mut self.live, &mut self.log);
        for (note, count) in std::mem::take(&mut self.world.notes) {
            self.log.note_several(note, count);
        }
        let end = end.or(self.end).unwrap_or(End { code: None, signal: None });
        let facts = &mut self.log.manifest_mut().facts;
        for (key, value) in
            [("backend", "ebpf"), ("begin", "when the call entered the kernel"), (RESPONSE_TIME, IN_THE_KERNEL)]
        {
            facts.insert(key.into(), value.into());
        }
        let (actions, bytes, ledger) = (self.log.finish(), self.log.bytes(), self.log.ledger().clone());
        let manifest = self.log.close(end)?;
        Ok(Outcome { end, actions, bytes, ledger, manifest, in_kernel: None })
    }
}
