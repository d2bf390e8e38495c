//! One action's effect on the state, by family of effects.

mod data;
mod descriptors;
mod extent;
mod flows;
mod mappings;
mod metadata;
mod mounts;
mod names;
mod opening;
mod processes;
mod requests;

use reprise_calls::closing::RING_NUMBERS;
use reprise_calls::mounts::At;
use reprise_calls::{ArgKind, Call, Effect, Follow, PathArg};
use reprise_trace::{Action, ReadError};

use crate::descriptors::Description;
use crate::descriptors::Slot;
use crate::interpretation::Interpretation;
use crate::lead::{Beginning, Start};
use crate::node::{FileKind, Nature, NodeId};
use crate::processes::Thread;
use crate::resolve::Place;
use crate::touch::Resource;
use crate::world::World;

pub(crate) const AT_FDCWD: i32 = -100;
const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;
const O_RDWR: u64 = 2;
const O_TRUNC: u64 = 0o1000;
const O_APPEND: u64 = 0o2000;
const O_DIRECT: u64 = 0o40000;
const O_NOFOLLOW: u64 = 0o400000;
const O_CLOEXEC: u64 = 0o2000000;
const O_PATH: u64 = 0o10000000;

/// An action on its way through the model.
pub(crate) struct Step<'a> {
    pub call: &'a Call,
    pub action: &'a Action,
    pub thread: Thread,
    pub out: &'a mut Interpretation,
}

impl Step<'_> {
    pub(crate) fn succeeded(&self) -> bool {
        self.action.result >= 0
    }

    /// Whether a replay does the call, as far as its files are concerned.
    fn is_replayed(&self) -> bool {
        self.out.nature != Nature::Pseudo && self.out.streams.iter().all(Option::is_none)
    }

    fn arg(&self, index: usize) -> u64 {
        self.action.args[index]
    }
}

impl World {
    /// Follows one action. Actions must come in order of effect.
    ///
    /// # Errors
    /// When what was observed before the action cannot be read.
    pub fn step(&mut self, call: &Call, action: &Action) -> Result<Interpretation, ReadError> {
        let mut found = Interpretation::default();
        self.step_into(call, action, &mut found)?;
        Ok(found)
    }

    /// As [`World::step`], into findings whose memory is used again.
    pub(crate) fn step_into(
        &mut self,
        call: &Call,
        action: &Action,
        out: &mut Interpretation,
    ) -> Result<(), ReadError> {
        out.clear();
        self.observe_until(action.seq)?;
        let Some(thread) = self.thread(action.thread) else {
            out.surprise = Some("a thread that nothing started");
            return Ok(());
        };
        out.foreign_users = thread.foreign_users;
        let mut step = Step { call, action, thread, out };
        if let Some(request) = action.request {
            step.out.change(Resource::Request(request));
        }
        if self.lane_of(action.thread).is_some() {
            // A process ends after what its threads have submitted.
            step.out.add(Resource::Process(thread.process));
        }
        self.dispatch(&mut step);
        if !step.succeeded() {
            step.out.failed();
        }
        self.settle(call.effect, step.out);
        Ok(())
    }

    fn dispatch(&mut self, s: &mut Step<'_>) {
        use Effect::*;
        match s.call.effect {
            Open => self.open(s),
            MakeObject(object) => self.make_object(s, object),
            Close => self.close(s),
            CloseRange => self.close_range(s),
            Duplicate => self.duplicate(s),
            DuplicateTo => self.duplicate_to(s),
            Take => self.take(s),
            Control => self.control(s),
            DeviceControl => self.device_control(s),
            Read => self.read(s),
            Write => self.write(s),
            Seek => self.seek(s),
            Truncate => self.truncate(s),
            Allocate => self.allocate(s),
            Copy | Splice => self.copy(s),
            Map => self.map(s),
            Unmap => self.unmap(s),
            Remap => self.remap(s),
            MapAdvise | MapSync => self.map_advise(s),
            MappedRead => self.mapped_read(s),
            MappedWrite => self.mapped_write(s),
            GetMetadata | TestAccess | ReadLink | GetXattr | ListXattr | StatFs => self.inspect(s),
            Advise => self.use_file(s, |_, _| ()),
            Sync => self.use_file(s, |out, node| out.flush(node)),
            Lock => {
                self.lock(s);
            }
            SyncAll | Poll | Watch => self.use_descriptors(s),
            Asynchronous => self.asynchronous(s),
            ChangeMode | ChangeOwner | ChangeTimes | SetXattr | RemoveXattr => self.change_metadata(s),
            MakeDirectory => self.make(s, FileKind::Directory),
            MakeNode => self.make_node(s),
            MakeSymlink => self.make(s, FileKind::Symlink),
            Link => self.link(s),
            Remove => self.remove(s),
            Rename => self.rename(s),
            List => self.list(s),
            ChangeDirectory => self.change_directory(s),
            ChangeRoot => self.change_root(s),
            GetDirectory => self.get_directory(s),
            ChangeMask => self.change_mask(s),
            Message => self.message(s),
            Spawn => self.spawn(s),
            Execute => self.execute(s),
            Exit => self.exit(s),
            Wait => self.wait(s),
            ChangeIdentity => self.change_identity(s),
            Mount => self.mount(s),
        }
    }

    /// The descriptor in an argument; its use is noted.
    fn descriptor(&mut self, s: &mut Step<'_>, index: usize) -> Option<Slot> {
        let Some(slot) = self.descriptors.get(s.thread.table, s.arg(index)) else {
            if self.events_bring_descriptors && s.succeeded() && s.arg(index) as i32 >= 0 {
                s.out.surprise = Some("a descriptor came with an event of fanotify");
                s.out.meet(Nature::Pseudo);
            }
            return None;
        };
        if given_meanwhile(s.arg(index), slot, s.action) {
            // It waited, and the end of its descriptor did not end that: what it was about is not open any more.
            s.out.surprise = Some(CLOSED_IN_USE);
            s.out.meet(Nature::Pseudo);
            return None;
        }
        let description = &self.descriptors.descriptions[slot.description as usize];
        s.out.arguments[index] = Some(slot.binding);
        s.out.streams[index] = description.stream;
        s.out.is_direct |= description.flags & O_DIRECT != 0;
        if let Some(node) = description.node {
            let n = self.names.node(node);
            s.out.mapped_file |= n.mapped;
            s.out.on_directory |= n.kind == FileKind::Directory;
            if matches!(n.nature, Nature::RandomDevice | Nature::SafeDevice) {
                s.out.meet(n.nature);
            }
        }
        s.out.look(Resource::Descriptor(slot.generation));
        Some(slot)
    }

    /// The file behind the descriptor in an argument; both are noted.
    fn file(&mut self, s: &mut Step<'_>, index: usize) -> Option<(Slot, NodeId)> {
        let slot = self.descriptor(s, index)?;
        let description = &self.descriptors.descriptions[slot.description as usize];
        let node = description.node?;
        s.out.foreign_users |= self.mounts.has_own_users(description.mount);
        s.out.look(Resource::File(node));
        Some((slot, node))
    }

    /// Notes every descriptor argument.
    fn use_descriptors(&mut self, s: &mut Step<'_>) {
        for (index, arg) in s.call.args.iter().enumerate() {
            if matches!(arg.kind, ArgKind::Fd(_)) && self.descriptor(s, index).is_none() && s.succeeded() {
                s.out.surprise = Some(CLOSED_IN_USE);
                s.out.meet(Nature::Pseudo);
            }
        }
    }

    /// Calls that other threads need not wait for are in order of their ends: meanwhile the number that they began with
    /// may have been closed, and even given to another file.
    fn use_file(&mut self, s: &mut Step<'_>, touch: impl FnOnce(&mut Interpretation, NodeId)) {
        let slot = self.descriptors.get(s.thread.table, s.arg(0));
        if slot.is_none_or(|slot| given_meanwhile(s.arg(0), slot, s.action)) && s.succeeded() {
            s.out.surprise = Some(CLOSED_IN_USE);
            s.out.meet(Nature::Pseudo);
            return;
        }
        if let Some((_, node)) = self.file(s, 0) {
            touch(s.out, node);
        }
    }

    /// Where a path argument leads. The number says which of the call's paths it is.
    fn place(&mut self, s: &mut Step<'_>, number: usize) -> Option<Place> {
        let argument: PathArg = s.call.paths().nth(number)?;
        let directories = self.directories[s.thread.directories as usize];
        let action = s.action;
        let path = if number == 0 { action.path.as_deref() } else { action.path2.as_deref() };
        let path = path.unwrap_or_default();
        let mut beginning = directories.beginning();
        let mut relative_to_cwd = true;
        let is_rooted = s.call.is_rooted(how(s));
        if let Some(index) = argument.dirfd
            && s.arg(index) as i32 != AT_FDCWD
            && (is_rooted || !path.starts_with(b"/"))
        {
            relative_to_cwd = false;
            let slot = self.descriptor(s, index);
            let description = slot.map(|slot| &self.descriptors.descriptions[slot.description as usize]);
            beginning = description.map(Description::beginning).unwrap_or_default();
            if slot.is_some() && beginning.start.is_none() && beginning.shown.is_none() {
                s.out.meet(Nature::Pseudo);
            }
        }
        if directories.shared && (relative_to_cwd || path.starts_with(b"/")) {
            s.out.look(Resource::Directories(s.thread.directories));
        }
        if path.is_empty() {
            // AT_EMPTY_PATH or a null pointer: the directory descriptor itself.
            let lost = Place { shown: beginning.shown, ..Place::LOST };
            let Some(Start { at, .. }) = beginning.start else { return Some(lost) };
            s.out.meet(self.names.node(at.node).nature);
            return Some(Place { node: Some(at.node), mount: at.mount, ..lost });
        }
        let follow = match argument.follow {
            Follow::Always => true,
            Follow::Never => false,
            Follow::Unless { arg, bit } => s.arg(arg.into()) & bit == 0,
            Follow::If { arg, bit } => s.arg(arg.into()) & bit != 0,
            Follow::AsOpen => {
                let flags = open_flags(s);
                flags & O_NOFOLLOW == 0 && flags & (O_CREAT | O_EXCL) != (O_CREAT | O_EXCL)
            }
        };
        let start = beginning.start.map(|start| Start { is_root: is_rooted, ..start });
        let place = self.lead(s, number, Beginning { start, ..beginning }, path, follow);
        let stands_alone = s.out.paths[number.min(1)].is_some() || s.out.by_descriptor.is_some();
        if let (Some(index), true) = (argument.dirfd, stands_alone) {
            // What stands in for the directory in a replay does not matter.
            s.out.streams[index] = None;
        }
        place
    }

    /// As [`World::place`], but where the call succeeded and so something must stand there, it is assumed if unknown.
    fn existing(&mut self, s: &mut Step<'_>, number: usize, kind: FileKind) -> Option<NodeId> {
        self.existing_at(s, number, kind).map(|at| at.node)
    }

    fn existing_at(&mut self, s: &mut Step<'_>, number: usize, kind: FileKind) -> Option<At> {
        let place = self.place(s, number);
        self.existing_there(s, place, kind)
    }

    /// The same of a place that a path was found to lead to.
    fn existing_there(&mut self, s: &mut Step<'_>, place: Option<Place>, kind: FileKind) -> Option<At> {
        let place = place?;
        let node = match (place.node, place.entry) {
            (Some(node), _) => node,
            (None, Some(entry)) if s.succeeded() => {
                let e = &self.names.entries[entry as usize];
                // Of what the kernel shows, and of what was mounted, nothing needs to be known.
                if self.names.node(e.directory).nature != Nature::Pseudo {
                    s.out.surprise =
                        Some(if e.changed { "a file came from elsewhere" } else { "a file was not met before" });
                }
                let (directory, name) = (e.directory, e.name.clone());
                self.assume(directory, &name, kind, 0)
            }
            (None, _) => return None,
        };
        s.out.mapped_file |= self.names.node(node).mapped;
        s.out.foreign_users |= self.mounts.has_own_users(place.mount);
        s.out.look(Resource::File(node));
        Some(At { mount: place.mount, node })
    }
}

const CLOSED_IN_USE: &str = "a descriptor was closed while a call used it";

/// Whether a number was given to another file while the call was under way, which began with what it named before. What stands in the
/// table of a ring has its number for itself.
fn given_meanwhile(number: u64, slot: Slot, action: &Action) -> bool {
    let end = action.end_ns();
    (number as u32) < RING_NUMBERS && slot.since_ns > action.begin_ns && slot.since_ns < end
}

/// The flags of an `open`-like call.
fn open_flags(s: &Step<'_>) -> u64 {
    s.call.effective_open_flags(&s.action.args, how(s))
}

/// What an `openat2` was given beside its path; of other calls whatever comes first.
pub(super) fn how<'a>(s: &Step<'a>) -> &'a [u8] {
    let input = reprise_trace::payload::split(s.call, reprise_trace::payload::Side::Input, &s.action.input);
    input.iter().flatten().next().copied().unwrap_or(&[])
}
