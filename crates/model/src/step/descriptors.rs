//! Closing, duplicating and controlling descriptors.

use reprise_calls::closing::{closes, ranged};
use reprise_calls::locking::{HeldLock, LockKind, Wish, change, lock_command, locked_range};
use reprise_calls::sharing::unshared;
use reprise_calls::{IoctlEffect, SpaceRange, ioctl_effect};
use reprise_trace::payload::{Side, split};

use super::opening::{word, word4};
use super::{O_CLOEXEC, Step};
use crate::content::Source;
use crate::descriptors::{Description, Slot, StreamKind};
use crate::processes::Thread;
use crate::touch::Resource;
use crate::world::World;

impl World {
    /// Ends a number: the descriptor, and the file behind it (locks may go, an unlinked file may vanish).
    pub(super) fn end_descriptor(&mut self, s: &mut Step<'_>, fd: u32) {
        let Some((slot, released)) = self.descriptors.close(s.thread.table, fd) else {
            return;
        };
        if self.descriptors.tables[s.thread.table as usize].shared {
            s.out.add(Resource::Table(s.thread.table));
        }
        s.out.destroy(Resource::Descriptor(slot.generation));
        s.out.dead.extend([Resource::Descriptor(slot.generation), Resource::CloseOnExec(slot.generation)]);
        if let Some(node) = self.descriptors.descriptions[slot.description as usize].node {
            s.out.look(Resource::File(node));
            if self.names.node(node).locked {
                s.out.change(Resource::Locks(node));
            }
        }
        self.end_flow(s, slot.description);
        if released {
            s.out.released.push(slot.binding);
        }
    }

    pub(super) fn close(&mut self, s: &mut Step<'_>) {
        self.descriptor(s, 0);
        if closes(s.action.result, s.action.request.is_some()) {
            self.end_descriptor(s, s.arg(0) as u32);
        }
    }

    /// A call that takes, asks for, or lets go of a lock.
    pub(super) fn lock(&mut self, s: &mut Step<'_>) -> Option<Slot> {
        let mut node = None;
        self.use_file(s, |out, locked| {
            out.change(Resource::Locks(locked));
            node = Some(locked);
        });
        self.names.node_mut(node?).locked = true;
        if s.succeeded() {
            self.take_lock(s);
        }
        self.descriptors.get(s.thread.table, s.arg(0))
    }

    /// Follows who holds which lock, for the beginning of a slice.
    fn take_lock(&mut self, s: &Step<'_>) {
        let Some(slot) = self.descriptors.get(s.thread.table, s.arg(0)) else { return };
        let description = &self.descriptors.descriptions[slot.description as usize];
        let Some(node) = description.node else { return };
        let command = lock_command(s.call, &s.action.args);
        let (wish, kind, range) = match command {
            Some(command) if command.asks => return,
            Some(command) => {
                let lock = split(s.call, Side::Input, &s.action.input)[2];
                let size = self.names.node(node).size;
                let range = lock.and_then(|lock| locked_range(lock, description.offset as i64, size));
                (lock.and_then(Wish::of), command.kind, range)
            }
            None => (Wish::of_operation(s.arg(1)), LockKind::Whole, Some((0, HeldLock::END))),
        };
        let (Some(wish), Some((begin, end))) = (wish, range) else { return };
        let lock = HeldLock { kind, exclusive: wish == Wish::Exclusive, begin, end };
        change(self.descriptors.locks_of(kind, s.thread.table, slot.description, node), wish, lock);
    }

    /// The offset that a descriptor shares with its copies.
    pub(super) fn offset(&self, slot: Slot) -> Resource {
        Resource::Offset(self.descriptors.descriptions[slot.description as usize].serial)
    }

    /// The flags that a descriptor shares with its copies.
    fn flags(&self, slot: Slot) -> Resource {
        Resource::Flags(self.descriptors.descriptions[slot.description as usize].serial)
    }

    /// What is read or written by a descriptor goes by its flags: where (`O_APPEND`) and how (`O_DIRECT`, `O_NONBLOCK`, `O_NOATIME`). Of what
    /// is taken from the trace they decide nothing.
    pub(super) fn go_by_flags(&self, s: &mut Step<'_>, slot: Slot) {
        if self.descriptors.descriptions[slot.description as usize].stream.is_none() {
            s.out.look(self.flags(slot));
        }
    }

    pub(super) fn close_range(&mut self, s: &mut Step<'_>) {
        if !s.succeeded() {
            return;
        }
        const CLOEXEC: u64 = 4;
        let (range, flags) = (ranged(&s.action.args), s.arg(2));
        self.unshare(s);
        if range.is_empty() {
            return;
        }
        let inside: Vec<u32> =
            self.descriptors.tables[s.thread.table as usize].slots.range(range).map(|(fd, _)| *fd).collect();
        for fd in inside {
            if flags & CLOEXEC != 0 {
                if let Some(slot) = self.descriptors.tables[s.thread.table as usize].slots.get_mut(&fd) {
                    slot.close_on_exec = true;
                    s.out.marked.push(slot.binding);
                    s.out.look(Resource::Descriptor(slot.generation));
                    s.out.change(Resource::CloseOnExec(slot.generation));
                }
            } else if let Some(slot) = self.descriptors.get(s.thread.table, fd.into()) {
                s.out.ended.push(slot.binding);
                self.end_descriptor(s, fd);
            }
        }
    }

    pub(super) fn duplicate(&mut self, s: &mut Step<'_>) {
        let Some(slot) = self.descriptor(s, 0) else {
            return;
        };
        if s.succeeded() {
            self.bind(s, s.action.result as u32, slot.description, false);
        }
    }

    pub(super) fn duplicate_to(&mut self, s: &mut Step<'_>) {
        let Some(slot) = self.descriptor(s, 0) else {
            return;
        };
        let new = s.arg(1) as u32;
        if !s.succeeded() || new == s.arg(0) as u32 {
            return;
        }
        let close_on_exec = s.call.name == "dup3" && s.arg(2) & O_CLOEXEC != 0;
        // The source keeps the description alive, also where both numbers have the same one.
        if let Some(old) = self.descriptors.get(s.thread.table, new.into()) {
            s.out.replaced = Some(old.binding);
            self.end_descriptor(s, new);
        }
        self.bind(s, new, slot.description, close_on_exec);
    }

    pub(super) fn control(&mut self, s: &mut Step<'_>) {
        const DUPFD: u64 = 0;
        const GETFD: u64 = 1;
        const SETFD: u64 = 2;
        const GETFL: u64 = 3;
        const SETFL: u64 = 4;
        const DUPFD_CLOEXEC: u64 = 1030;
        const ADD_SEALS: u64 = 1033;
        const GET_SEALS: u64 = 1034;
        let command = s.arg(1) & 0xffff_ffff;
        let locks = matches!(command, 5..=7 | 36..=38);
        let slot = if locks { self.lock(s) } else { None };
        let Some(slot) = slot.or_else(|| self.descriptor(s, 0)) else {
            return;
        };
        // Flags belong to the description: several descriptors may have it in common.
        match command {
            GETFL => s.out.look(self.flags(slot)),
            SETFL => s.out.change(self.flags(slot)),
            // What is written before is, what is behind it is refused: a call that failed looks at the attributes.
            ADD_SEALS => {
                if let Some(node) = self.descriptors.descriptions[slot.description as usize].node {
                    s.out.flush(node);
                    s.out.change(Resource::Attributes(node));
                }
            }
            GET_SEALS => {
                let node = self.descriptors.descriptions[slot.description as usize].node;
                node.into_iter().for_each(|node| s.out.look(Resource::Attributes(node)));
            }
            _ => {}
        }
        if !s.succeeded() {
            return;
        }
        match command {
            DUPFD | DUPFD_CLOEXEC => {
                self.bind(s, s.action.result as u32, slot.description, command == DUPFD_CLOEXEC);
            }
            GETFD => s.out.look(Resource::CloseOnExec(slot.generation)),
            SETFD => self.set_close_on_exec(s, s.arg(2) & 1 != 0),
            ADD_SEALS => {
                let node = self.descriptors.descriptions[slot.description as usize].node;
                if let Some(seals) = node.and_then(|node| self.names.node_mut(node).seals.as_mut()) {
                    *seals |= s.arg(2) as u32;
                }
            }
            SETFL => {
                const CHANGEABLE: u64 = 0o2000 | 0o4000 | 0o20000 | 0o40000 | 0o1000000;
                let flags = &mut self.descriptors.descriptions[slot.description as usize].flags;
                *flags = (*flags & !CHANGEABLE) | (s.arg(2) & CHANGEABLE);
            }
            _ => {}
        }
    }

    fn set_close_on_exec(&mut self, s: &mut Step<'_>, on: bool) {
        let fd = s.arg(0) as u32;
        if let Some(slot) = self.descriptors.tables[s.thread.table as usize].slots.get_mut(&fd) {
            slot.close_on_exec = on;
            s.out.change(Resource::CloseOnExec(slot.generation));
        }
    }

    /// Whether calls on an open file wait, for all descriptors that have it in common.
    fn set_waiting(&mut self, s: &mut Step<'_>) {
        const NONBLOCK: u64 = 0o4000;
        let Some(slot) = self.descriptor(s, 0) else { return };
        s.out.change(self.flags(slot));
        let told = split(s.call, Side::Input, &s.action.input)[2];
        let Some(on) = told.and_then(|bytes| bytes.first_chunk()).map(|word| i32::from_le_bytes(*word) != 0) else {
            return;
        };
        if s.succeeded() {
            let flags = &mut self.descriptors.descriptions[slot.description as usize].flags;
            *flags = if on { *flags | NONBLOCK } else { *flags & !NONBLOCK };
        }
    }

    /// Something is open at the number that the call returned, of which nothing more is followed.
    fn make_handle(&mut self, s: &mut Step<'_>) {
        if s.succeeded() {
            let handle = Description { stream: Some(StreamKind::Event), ..Description::default() };
            let description = self.descriptors.describe(handle);
            self.bind(s, s.action.result as u32, description, false);
        }
    }

    pub(super) fn device_control(&mut self, s: &mut Step<'_>) {
        match ioctl_effect(s.arg(1)) {
            IoctlEffect::SetCloseOnExec => {
                self.descriptor(s, 0);
                if s.succeeded() {
                    self.set_close_on_exec(s, true);
                }
            }
            IoctlEffect::ClearCloseOnExec => {
                self.descriptor(s, 0);
                if s.succeeded() {
                    self.set_close_on_exec(s, false);
                }
            }
            IoctlEffect::SetWaiting => self.set_waiting(s),
            IoctlEffect::Clone => {
                let target = self.file(s, 0);
                let source = self.file(s, 2);
                // A file that is open for appending is refused.
                target.into_iter().for_each(|(slot, _)| self.go_by_flags(s, slot));
                if let (true, Some((_, target)), Some((_, source))) = (s.succeeded(), target, source) {
                    let size = self.names.node(source).size;
                    s.out.read(source, 0, u64::MAX);
                    s.out.look(Resource::Size(source));
                    // What stands behind it stays (`generic_remap_file_range_prep`, fs/remap_range.c).
                    self.write_touch(s, target, 0, size, false);
                    self.copy_range(source, 0, target, 0, size, &[]);
                }
            }
            IoctlEffect::CloneRange => {
                let target = self.file(s, 0);
                target.into_iter().for_each(|(slot, _)| self.go_by_flags(s, slot));
                let input = split(s.call, Side::Input, &s.action.input);
                let range: Vec<u64> = input[2].map_or(vec![], |b| (0..4).map(|i| word(b, i * 8)).collect());
                let [fd, from, mut length, to] = range[..] else {
                    return;
                };
                // The source is named inside the structure; it takes the place of the third argument.
                let Some(slot) = self.descriptors.get(s.thread.table, fd) else {
                    return;
                };
                s.out.arguments[2] = Some(slot.binding);
                s.out.look(Resource::Descriptor(slot.generation));
                let Some(source) = self.descriptors.descriptions[slot.description as usize].node else {
                    return;
                };
                s.out.look(Resource::File(source));
                s.out.look(Resource::Size(source));
                if length == 0 {
                    length = self.names.node(source).size.saturating_sub(from);
                }
                if let (true, Some((_, target))) = (s.succeeded(), target) {
                    s.out.read(source, from, length);
                    self.write_touch(s, target, to, length, false);
                    self.copy_range(source, from, target, to, length, &[]);
                }
            }
            IoctlEffect::Allocate(mode) => self.allocate_by_request(s, mode),
            IoctlEffect::Inspect => {
                if let Some((_, node)) = self.file(s, 0) {
                    s.out.read(node, 0, u64::MAX);
                    s.out.look(Resource::Size(node));
                    s.out.look(Resource::Attributes(node));
                }
            }
            IoctlEffect::SetHints => {
                if let Some((_, node)) = self.file(s, 0) {
                    s.out.change(Resource::Attributes(node));
                }
            }
            IoctlEffect::MakeHandle => {
                self.descriptor(s, 0);
                self.make_handle(s);
            }
            IoctlEffect::Lend => self.lend(s, s.arg(2)),
            IoctlEffect::LendConfigured => {
                let configuration = split(s.call, Side::Input, &s.action.input)[2];
                self.lend(s, configuration.map_or(u64::MAX, |config| word4(config, 0).into()));
            }
            IoctlEffect::Foreign => {
                self.descriptor(s, 0);
            }
        }
    }

    /// The range of the structure; where the trace does not hold that, the whole file may have changed.
    fn allocate_by_request(&mut self, s: &mut Step<'_>, mode: u64) {
        const FROM_POSITION: u16 = 1;
        const FROM_END: u16 = 2;
        let Some((slot, node)) = self.file(s, 0) else { return };
        let range = split(s.call, Side::Input, &s.action.input)[2].and_then(SpaceRange::of);
        match range.map(|range| range.whence) {
            Some(FROM_POSITION) => s.out.look(self.offset(slot)),
            Some(FROM_END) => s.out.look(Resource::Size(node)),
            _ => {}
        }
        let position = self.descriptors.descriptions[slot.description as usize].offset;
        let size = self.names.node(node).size;
        match range.and_then(|range| range.within(position, size)) {
            Some((begin, end)) => self.allocate_range(s, node, mode, begin, end - begin),
            None if range.is_none() && s.succeeded() => s.out.write(node, 0, u64::MAX),
            None => {}
        }
    }

    /// A device is made of an open file: who writes to that changes the file.
    fn lend(&mut self, s: &mut Step<'_>, fd: u64) {
        self.descriptor(s, 0);
        let slot = self.descriptors.get(s.thread.table, fd).filter(|_| s.succeeded());
        let Some(slot) = slot else { return };
        s.out.look(Resource::Descriptor(slot.generation));
        if let Some(node) = self.descriptors.descriptions[slot.description as usize].node {
            self.names.node_mut(node).mapped = true;
        }
    }

    /// Copies a range between files; where the bytes are known from the trace, they are taken from there.
    pub(super) fn copy_range(
        &mut self,
        source: u32,
        from: u64,
        target: u32,
        to: u64,
        length: u64,
        seen: &[(u64, Source)],
    ) {
        if !seen.is_empty() {
            self.learn(source, from, seen);
        }
        let pieces = self.names.node(source).content.range(from, length);
        let node = self.names.node_mut(target);
        node.content.clear(to, length);
        for piece in pieces {
            let kept = if self.detail || matches!(piece.source, Source::Initial { .. } | Source::Lost) {
                piece.source
            } else {
                Source::Written
            };
            node.content.put(to.saturating_add(piece.offset - from), piece.length, kept);
        }
        node.size = node.size.max(to.saturating_add(length));
    }

    /// A copy of the thread's table, made of what is open now: whoever opened or closed last must have done so, and who
    /// closes later must wait.
    pub(super) fn copy_table(&mut self, s: &mut Step<'_>) -> u32 {
        let table = &self.descriptors.tables[s.thread.table as usize];
        if table.shared {
            // A copy lacks what was closed before; what is closed later it has.
            s.out.look(Resource::Table(s.thread.table));
            let open: Vec<_> = table.slots.values().map(|x| x.generation).collect();
            for generation in open {
                s.out.look(Resource::Descriptor(generation));
                s.out.look(Resource::CloseOnExec(generation));
            }
        }
        self.descriptors.copy_table(s.thread.table)
    }

    /// What the thread of a successful call has for itself from now on.
    pub(super) fn unshare(&mut self, s: &mut Step<'_>) {
        let own = unshared(s.call, &s.action.args);
        if own.descriptors {
            self.unshare_table(s);
        }
        if own.directories {
            self.unshare_directories(s);
        }
    }

    fn unshare_table(&mut self, s: &mut Step<'_>) {
        let table = s.thread.table;
        if self.descriptors.tables[table as usize].users > 1 {
            let copy = self.leave_table(s);
            for apart in [table, copy] {
                self.descriptors.tables[apart as usize].left = true;
            }
        }
    }

    /// A program that is run has a table of its own (`begin_new_exec` in fs/exec.c): what is closed for it stays open for whoever shared
    /// the table. The kernel has ended the other threads of its process by then, wherever their ends stand in the trace.
    pub(super) fn unshare_for_program(&mut self, s: &mut Step<'_>) {
        let (table, process) = (s.thread.table, s.thread.process);
        let is_elses = |thread: &Thread| thread.table == table && thread.process != process;
        let has_users = self.descriptors.tables[table as usize].users > 1;
        if has_users && self.threads.iter().flatten().any(|thread| is_elses(thread)) {
            self.leave_table(s);
        }
    }

    /// The thread goes on with a copy of its table, and others with the table.
    fn leave_table(&mut self, s: &mut Step<'_>) -> u32 {
        let copy = self.copy_table(s);
        s.out.left.descriptors = true;
        self.descriptors.tables[s.thread.table as usize].users -= 1;
        self.descriptors.tables[copy as usize].users = 1;
        s.thread.table = copy;
        if let Some(thread) = self.thread_mut(s.action.thread) {
            thread.table = copy;
        }
        copy
    }

    fn unshare_directories(&mut self, s: &mut Step<'_>) {
        let shared = &mut self.directories[s.thread.directories as usize];
        if shared.users > 1 {
            shared.users -= 1;
            s.out.left.directories = true;
            let copy = crate::processes::Directories { users: 1, shared: false, ..*shared };
            s.out.look(Resource::Directories(s.thread.directories));
            let number = self.directories.insert(copy);
            if let Some(thread) = self.thread_mut(s.action.thread) {
                thread.directories = number;
            }
        }
    }
}
