//! Threads and processes: start, exec, exit, wait, identity.

use reprise_trace::payload::{Side, split};

use super::Step;
use super::opening::word;
use crate::descriptors::{Description, StreamKind};
use crate::mapping::Space;
use crate::processes::Thread;
use crate::touch::Resource;
use crate::world::World;

impl World {
    pub(super) fn spawn(&mut self, s: &mut Step<'_>) {
        if s.action.result <= 0 {
            return;
        }
        let Some(&child) = self.spawned_by.get(&s.action.seq) else {
            s.out.surprise = Some("a thread was started that never appeared");
            return;
        };
        let row = &self.thread_rows[child as usize];
        let (shares_descriptors, shares_directories) = (row.shares_descriptors != 0, row.shares_directories != 0);
        let (process, tid) = (row.process, row.tid);
        let parent = s.thread;
        let table = if shares_descriptors { parent.table } else { self.copy_table(s) };
        let users = &mut self.descriptors.tables[table as usize];
        users.users += 1;
        users.shared |= users.users > 1;
        let directories = if shares_directories {
            let shared = &mut self.directories[parent.directories as usize];
            (shared.users, shared.shared) = (shared.users + 1, true);
            parent.directories
        } else {
            s.out.look(Resource::Directories(parent.directories));
            let copy = crate::processes::Directories {
                users: 1,
                shared: false,
                ..self.directories[parent.directories as usize]
            };
            self.directories.push(copy);
            (self.directories.len() - 1) as u32
        };
        let same_process = process == parent.process;
        let space = if same_process {
            parent.space
        } else {
            self.spaces.push(self.spaces[parent.space as usize].inherited());
            (self.spaces.len() - 1) as u32
        };
        if let Some(state) = self.processes.get_mut(process as usize) {
            state.threads += 1;
            if !same_process {
                state.pid = tid;
            }
        }
        self.threads[child as usize] = Some(Thread { process, table, directories, space, alive: true, ..parent });
        s.out.spawned = Some(child);
        s.out.change(Resource::Process(process));
        self.process_handle(s);
    }

    /// `CLONE_PIDFD`: the parent gets a descriptor of the child. Its number stands in the parent's memory only, but the
    /// kernel always takes the lowest that is free.
    fn process_handle(&mut self, s: &mut Step<'_>) {
        const PIDFD: u64 = 0x1000;
        let flags = match s.call.name {
            "clone" => s.arg(0),
            "clone3" => split(s.call, Side::Input, &s.action.input)[0].map_or(0, |args| word(args, 0)),
            _ => 0,
        };
        if flags & PIDFD == 0 {
            return;
        }
        let open = &self.descriptors.tables[s.thread.table as usize].slots;
        let free = (0..).find(|fd| !open.contains_key(fd)).unwrap_or(u32::MAX);
        let description = self.descriptors.describe(Description {
            node: None,
            opened_as: None,
            stream: Some(StreamKind::Event),
            flags: 0,
            offset: 0,
            listing: Default::default(),
        });
        self.bind(s, free, description, true);
    }

    pub(super) fn execute(&mut self, s: &mut Step<'_>) {
        self.place(s, 0);
        if !s.succeeded() {
            return;
        }
        let doomed: Vec<u32> = self.descriptors.tables[s.thread.table as usize]
            .slots
            .iter()
            .filter(|(_, slot)| slot.close_on_exec)
            .map(|(fd, _)| *fd)
            .collect();
        for fd in doomed {
            if let Some(slot) = self.descriptors.get(s.thread.table, fd.into()) {
                s.out.ended.push(slot.binding);
                self.end_descriptor(s, fd);
            }
        }
        self.spaces.push(Space::default());
        let space = (self.spaces.len() - 1) as u32;
        if let Some(thread) = self.thread_mut(s.action.thread) {
            thread.space = space;
        }
    }

    pub(super) fn exit(&mut self, s: &mut Step<'_>) {
        let table = s.thread.table as usize;
        self.descriptors.tables[table].users = self.descriptors.tables[table].users.saturating_sub(1);
        if self.descriptors.tables[table].users == 0 {
            let open: Vec<u32> = self.descriptors.tables[table].slots.keys().copied().collect();
            for fd in open {
                self.end_descriptor(s, fd);
            }
            s.out.last_of_process = true;
        }
        let directories = &mut self.directories[s.thread.directories as usize];
        directories.users = directories.users.saturating_sub(1);
        s.out.change(Resource::Process(s.thread.process));
        if let Some(state) = self.processes.get_mut(s.thread.process as usize) {
            state.threads = state.threads.saturating_sub(1);
        }
        if let Some(thread) = self.thread_mut(s.action.thread) {
            thread.alive = false;
        }
    }

    pub(super) fn wait(&mut self, s: &mut Step<'_>) {
        let waited = match s.call.name {
            "wait4" => s.action.result,
            // `waitid` returns 0; whom it waited for is known if it asked for one process.
            "waitid" if s.succeeded() && s.arg(0) == 1 => s.arg(1) as i64,
            _ => 0,
        };
        if waited > 0
            && let Some(process) = self.processes.iter().rposition(|p| i64::from(p.pid) == waited && p.threads == 0)
        {
            s.out.look(Resource::Process(process as u32));
        }
    }

    pub(super) fn change_identity(&mut self, s: &mut Step<'_>) {
        if !s.succeeded() {
            return;
        }
        let args = [0, 1, 2].map(|i| s.arg(i) as u32);
        let privileged = s.thread.users.effective == 0;
        let (name, users, groups) = (s.call.name, s.thread.users, s.thread.groups);
        let Some(thread) = self.thread_mut(s.action.thread) else { return };
        match name {
            "setuid" | "setreuid" | "setresuid" | "setfsuid" => thread.users = users.changed(name, args, privileged),
            "setgid" | "setregid" | "setresgid" | "setfsgid" => thread.groups = groups.changed(name, args, privileged),
            _ => {}
        }
        s.out.identity = Some((thread.users, thread.groups));
    }
}
