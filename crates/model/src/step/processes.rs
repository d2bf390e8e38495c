//! Threads and processes: start, exec, exit, wait, identity.

use reprise_calls::Identity;
use reprise_calls::closing::RING_NUMBERS;
use reprise_calls::credentials::{changed, further_groups};
use reprise_calls::sharing::{HANDLE, NEW_MOUNTS, NEW_USERS, enters_users};
use reprise_trace::payload::{Side, child_handle, ran_as, split};

use super::Step;
use super::opening::word;
use crate::descriptors::{Description, StreamKind};
use crate::mapping::Space;
use crate::processes::{Thread, ThreadFacts};
use crate::streams::Links;
use crate::touch::Resource;
use crate::world::World;

fn clone_flags(s: &Step<'_>) -> u64 {
    match s.call.name {
        "clone" => s.arg(0),
        "clone3" => split(s.call, Side::Input, &s.action.input)[0].map_or(0, |args| word(args, 0)),
        _ => 0,
    }
}

impl World {
    pub(super) fn spawn(&mut self, s: &mut Step<'_>) {
        if s.action.result <= 0 {
            return;
        }
        let Some(&child) = self.spawned_by.get(&s.action.seq) else {
            s.out.surprise = Some("a thread was started that never appeared");
            return;
        };
        let ThreadFacts { process, tid, shares_descriptors, shares_directories, .. } =
            self.thread_facts[child as usize];
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
            self.directories.insert(copy)
        };
        let same_process = process == parent.process;
        let space = if same_process {
            self.spaces[parent.space as usize].users += 1;
            parent.space
        } else {
            let space = self.spaces[parent.space as usize].inherited();
            self.spaces.insert(space)
        };
        if let Some(state) = self.processes.get_mut(process as usize) {
            state.threads += 1;
            if !same_process {
                state.pid = tid;
            }
        }
        if let (false, Some(groups)) = (same_process, self.further_groups.get(&parent.process).cloned()) {
            self.further_groups.insert(process, groups);
        }
        let flags = clone_flags(s);
        let foreign_users = parent.foreign_users || flags & NEW_USERS != 0;
        let thread = Thread { process, table, directories, space, foreign_users, ..parent };
        if flags & NEW_MOUNTS != 0 && !shares_directories {
            self.copy_mounts(thread);
        }
        self.threads[child as usize] = Some(Box::new(thread));
        s.out.spawned = Some(child);
        s.out.change(Resource::Process(process));
        self.process_handle(s);
    }

    /// `CLONE_PIDFD`: the parent gets a descriptor of the child. Where the trace lacks its number, it is the lowest that is
    /// free.
    fn process_handle(&mut self, s: &mut Step<'_>) {
        if clone_flags(s) & HANDLE == 0 {
            return;
        }
        let fd = child_handle(s.call, &s.action.output).unwrap_or_else(|| {
            let open = &self.descriptors.tables[s.thread.table as usize].slots;
            (0..).find(|fd| !open.contains_key(fd)).unwrap_or(u32::MAX)
        });
        let process = s.out.spawned.and_then(|child| self.thread_facts.get(child as usize)).map(|facts| facts.process);
        let links = Links { process, ..Links::default() };
        let description = self.descriptors.describe(Description {
            node: None,
            opened_as: None,
            stream: Some(StreamKind::Event),
            flags: 0,
            links,
            ..Description::default()
        });
        self.bind(s, fd, description, true);
    }

    pub(super) fn execute(&mut self, s: &mut Step<'_>) {
        self.place(s, 0);
        if !s.succeeded() {
            return;
        }
        self.unshare_for_program(s);
        let doomed: Vec<u32> = self.descriptors.tables[s.thread.table as usize]
            .slots
            .iter()
            .filter(|(fd, slot)| slot.close_on_exec || **fd >= RING_NUMBERS)
            .map(|(fd, _)| *fd)
            .collect();
        for fd in doomed {
            if let Some(slot) = self.descriptors.get(s.thread.table, fd.into()) {
                s.out.ended.push(slot.binding);
                self.end_descriptor(s, fd);
            }
        }
        self.end_space(s);
        self.leave_space(s.thread.space);
        let space = self.spaces.insert(Space::of(1));
        if let Some(thread) = self.thread_mut(s.action.thread) {
            thread.space = space;
        }
        self.run_as(s);
    }

    /// A set-user-ID program runs as its owner, which the trace tells; saved users and those for files are the effective ones
    /// in any case (`begin_new_exec` in fs/exec.c).
    fn run_as(&mut self, s: &mut Step<'_>) {
        if s.thread.foreign_users {
            return;
        }
        let before = (s.thread.users, s.thread.groups);
        let after = match ran_as(s.call, &s.action.output) {
            Some(told) => (Identity::from_list(&told.users), Identity::from_list(&told.groups)),
            None => (before.0.executed(), before.1.executed()),
        };
        let Some(thread) = self.thread_mut(s.action.thread) else { return };
        (thread.users, thread.groups) = after;
        s.out.identity = Some(after).filter(|after| *after != before);
    }

    pub(super) fn exit(&mut self, s: &mut Step<'_>) {
        let table = s.thread.table as usize;
        self.descriptors.tables[table].users = self.descriptors.tables[table].users.saturating_sub(1);
        if self.descriptors.tables[table].users == 0 {
            let open: Vec<u32> = self.descriptors.tables[table].slots.keys().copied().collect();
            for fd in open {
                self.end_descriptor(s, fd);
            }
            s.out.last_of_table = true;
            self.descriptors.tables.remove(s.thread.table);
            s.out.dead.push(Resource::Table(s.thread.table));
        }
        let directories = &mut self.directories[s.thread.directories as usize];
        match directories.users {
            0 => {}
            1 => {
                self.directories.remove(s.thread.directories);
                s.out.dead.push(Resource::Directories(s.thread.directories));
            }
            _ => directories.users -= 1,
        }
        s.out.change(Resource::Process(s.thread.process));
        s.out.ended_thread_of = Some(s.thread.process);
        if let Some(state) = self.processes.get_mut(s.thread.process as usize) {
            state.threads = state.threads.saturating_sub(1);
            if state.threads == 0 {
                s.out.last_of_process = true;
                self.further_groups.remove(&s.thread.process);
                self.end_space(s);
            }
        }
        self.leave_space(s.thread.space);
        self.threads[s.action.thread as usize] = None;
    }

    fn leave_space(&mut self, space: u32) {
        let users = &mut self.spaces[space as usize].users;
        match *users {
            // A damaged trace: it ended before.
            0 => {}
            1 => self.spaces.remove(space),
            _ => *users -= 1,
        }
    }

    pub(super) fn wait(&mut self, s: &mut Step<'_>) {
        let waited = match s.call.name {
            "wait4" => s.action.result,
            // `waitid` returns 0; whom it waited for is known if it asked for one process.
            "waitid" if s.succeeded() && s.arg(0) == 1 => s.arg(1) as i64,
            _ => 0,
        };
        let ended = |process: &u32| self.processes[*process as usize].threads == 0;
        if let Some(pid) = i32::try_from(waited).ok().filter(|pid| *pid > 0)
            && let Some(process) = self.processes_of(pid).find(ended)
        {
            s.out.look(Resource::Process(process));
            if s.call.name == "wait4" {
                // It cannot be waited for again.
                s.out.joined = Some(process);
                s.out.dead.push(Resource::Process(process));
            }
        }
    }

    /// `unshare`, `setns`: users are others from now on, if the call says so.
    pub(super) fn enter_namespaces(&mut self, s: &mut Step<'_>) {
        if s.succeeded()
            && enters_users(s.call, &s.action.args)
            && let Some(thread) = self.thread_mut(s.action.thread)
        {
            thread.foreign_users = true;
        }
    }

    pub(super) fn change_identity(&mut self, s: &mut Step<'_>) {
        if !s.succeeded() || s.thread.foreign_users {
            return;
        }
        let (args, result) = ([0, 1, 2].map(|i| s.arg(i) as u32), s.action.result as u32);
        let after = changed((s.thread.users, s.thread.groups), s.call.name, args, result);
        let Some(thread) = self.thread_mut(s.action.thread) else { return };
        (thread.users, thread.groups) = after;
        s.out.identity = Some(after);
        if s.call.name == "setgroups" {
            let list = split(s.call, Side::Input, &s.action.input)[1].unwrap_or_default();
            self.further_groups.insert(s.thread.process, further_groups(list).collect());
        }
    }
}
