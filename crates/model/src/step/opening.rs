//! Opening files and making nameless objects.

use reprise_calls::{ArgKind, FlagSet, Object, Returns, Shown, makes_nameless};
use reprise_trace::payload::{Side, split};

use super::{O_CLOEXEC, O_CREAT, O_PATH, O_RDWR, O_TRUNC, Step, open_flags};
use crate::descriptors::{Description, StreamKind};
use crate::interpretation::NewDescriptor;
use crate::node::{Attributes, FileKind, Nature, NodeId, SET_GROUP};
use crate::resolve::Place;
use crate::touch::{EntryId, Resource};
use crate::world::World;

/// Set-group-id, and the right of the group to execute.
const GROUP_PROGRAM: u32 = 0o2010;

/// What becomes of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameChange {
    /// Nothing stood under it.
    Make,
    /// Nothing stands under it afterwards.
    Remove,
    /// Something else stands under it.
    Replace,
}

impl World {
    pub(super) fn open(&mut self, s: &mut Step<'_>) {
        let flags = open_flags(s);
        let Some(place) = self.place(s, 0) else {
            return self.lost_open(s, flags, None);
        };
        let mode = s.call.position(|k| matches!(k, ArgKind::Mode)).map_or_else(
            || split(s.call, Side::Input, &s.action.input).iter().flatten().next().map_or(0, |how| word(how, 8)),
            |i| s.arg(i),
        );
        let node = match (place.node, place.entry) {
            (Some(directory), _) if makes_nameless(flags) && s.succeeded() => {
                s.out.change(Resource::Directories(s.thread.directories));
                let attributes = self.new_attributes(s, directory, FileKind::Regular, mode as u32);
                let node = self.names.add_node(FileKind::Regular, attributes);
                s.out.create(Resource::File(node));
                node
            }
            (Some(node), _) => node,
            (None, Some(entry)) if s.succeeded() => {
                if flags & O_CREAT != 0 {
                    self.create(s, entry, FileKind::Regular, mode as u32)
                } else {
                    let e = &self.names.entries[entry as usize];
                    let (directory, name) = (e.directory, e.name.clone());
                    if self.names.node(directory).nature != Nature::Pseudo {
                        s.out.surprise = Some("a file was not met before");
                    }
                    self.assume(directory, &name, FileKind::Regular, 0)
                }
            }
            (None, _) => return self.lost_open(s, flags, place.shown),
        };
        s.out.look(Resource::File(node));
        s.out.look(Resource::Attributes(node));
        s.out.meet(self.names.node(node).nature);
        s.out.mapped_file |= self.names.node(node).mapped;
        if !s.succeeded() {
            return;
        }
        if flags & O_PATH == 0 {
            self.begin_listing(s, node);
        }
        if flags & O_TRUNC != 0 && self.names.node(node).kind == FileKind::Regular {
            self.resize(s, node, 0);
            if place.node.is_some() {
                self.drop_set_id(s, node);
            }
        }
        let stream = match s.out.nature {
            // A replay cannot open a file a second time that has no name.
            _ if s.out.by_descriptor.is_some() => {
                s.out.surprise = Some("a file without a name was opened through its descriptor's name");
                Some(StreamKind::Null)
            }
            Nature::Pseudo => Some(StreamKind::Null),
            // No traffic goes through such a descriptor: the name is all it is about.
            Nature::Device | Nature::Stream if flags & O_PATH != 0 => None,
            Nature::Device => Some(StreamKind::Null),
            Nature::Stream => Some(StreamKind::Pipe),
            Nature::Ordinary | Nature::SafeDevice | Nature::RandomDevice => None,
        };
        self.new_descriptor(s, Place { node: Some(node), ..place }, stream, flags);
    }

    /// Btrfs lists the names that there were when a directory was opened or rewound.
    pub(super) fn begin_listing(&self, s: &mut Step<'_>, node: NodeId) {
        let n = self.names.node(node);
        if n.on_btrfs && n.kind == FileKind::Directory {
            s.out.look(Resource::Names(node));
        }
    }

    /// An open of something the model does not know: its descriptor exists all the same.
    fn lost_open(&mut self, s: &mut Step<'_>, flags: u64, shown: Option<Shown>) {
        if s.succeeded() {
            if s.out.nature != Nature::Pseudo {
                s.out.surprise = Some("an open that the model cannot place");
                s.out.meet(Nature::Pseudo);
            }
            let stream = Some(StreamKind::Null);
            let opened_by = self.argument_path(s.call, s.action, 0).map(Vec::into);
            self.describe_new(s, Description { opened_by, shown, stream, flags, ..Description::default() });
        }
    }

    pub(super) fn new_descriptor(
        &mut self,
        s: &mut Step<'_>,
        Place { node, entry: opened_as, mount, shown }: Place,
        stream: Option<StreamKind>,
        flags: u64,
    ) {
        let links = self.fifo_links(node, flags);
        self.streams.hold(links);
        // Where something else stands as `/proc`, it is a file like any.
        let shown = shown.filter(|_| s.out.nature == Nature::Pseudo);
        let made = Description { node, mount, opened_as, shown, stream, flags, links, ..Description::default() };
        self.describe_new(s, made);
    }

    fn describe_new(&mut self, s: &mut Step<'_>, mut description: Description) {
        description.namespace = self.namespace_opened(s);
        let close_on_exec = description.flags & O_CLOEXEC != 0;
        let description = self.descriptors.describe(description);
        self.bind(s, s.action.result as u32, description, close_on_exec);
    }

    /// Gives a number to a description. A number that is still open was closed behind our back.
    pub(super) fn bind(&mut self, s: &mut Step<'_>, fd: u32, description: u32, close_on_exec: bool) {
        if self.descriptors.get(s.thread.table, fd.into()).is_some() {
            s.out.surprise = Some("a descriptor was closed unseen");
            self.end_descriptor(s, fd);
        }
        let slot = self.descriptors.open(s.thread.table, fd, description, close_on_exec);
        if let Some(slot) = self.descriptors.tables[s.thread.table as usize].slots.get_mut(&fd) {
            slot.since_ns = s.action.begin_ns;
        }
        s.out.create(Resource::Descriptor(slot.generation));
        let stream = self.descriptors.descriptions[description as usize].stream;
        s.out.made.push(NewDescriptor { binding: slot.binding, stream });
    }

    /// Makes a file under a free name.
    pub(super) fn create(&mut self, s: &mut Step<'_>, entry: EntryId, kind: FileKind, mode: u32) -> NodeId {
        let directory = self.names.entries[entry as usize].directory;
        let attributes = self.new_attributes(s, directory, kind, mode);
        let (on_btrfs, nature) = (self.names.node(directory).on_btrfs, self.names.node(directory).nature);
        let node = self.names.add_node(kind, attributes);
        self.names.node_mut(node).on_btrfs = on_btrfs;
        if nature == Nature::Pseudo {
            self.names.node_mut(node).nature = nature;
        }
        s.out.create(Resource::File(node));
        self.note_name_change(s, entry, NameChange::Make);
        self.names.attach(entry, node);
        node
    }

    fn new_attributes(&mut self, s: &mut Step<'_>, directory: NodeId, kind: FileKind, mode: u32) -> Attributes {
        let directories = self.directories[s.thread.directories as usize];
        if directories.shared {
            s.out.look(Resource::Directories(s.thread.directories));
        }
        let parent = &self.names.node(directory).attributes;
        // The kernel strips a program for a group that its maker is not in (`mode_strip_sgid` in fs/inode.c).
        let is_program = parent.mode & SET_GROUP != 0 && mode & GROUP_PROGRAM == GROUP_PROGRAM;
        let strips = is_program && !self.may_set_group(s, parent.gid);
        let mode = if strips { mode & !SET_GROUP } else { mode };
        parent.of_made(kind, mode, directories.umask, (s.thread.users.files, s.thread.groups.files))
    }

    /// Notes that something is made or removed under a name.
    pub(super) fn note_name_change(&mut self, s: &mut Step<'_>, entry: EntryId, change: NameChange) {
        let resource = Resource::Entry(entry);
        let e = &mut self.names.entries[entry as usize];
        match change {
            NameChange::Make => s.out.create(resource),
            NameChange::Remove => s.out.destroy(resource),
            NameChange::Replace => s.out.change(resource),
        }
        e.changed = true;
        s.out.add(Resource::Names(e.directory));
    }

    pub(super) fn make_object(&mut self, s: &mut Step<'_>, object: Object) {
        self.use_descriptors(s);
        if !s.succeeded() {
            return;
        }
        let stream = match object {
            Object::Memory => None,
            Object::Pipe => Some(StreamKind::Pipe),
            Object::Socket | Object::SocketPair => Some(StreamKind::Socket),
            Object::Epoll => Some(StreamKind::Epoll),
            Object::Watch => Some(StreamKind::Watch),
            Object::Handle | Object::Ring => Some(StreamKind::Event),
        };
        if s.call.returns == Returns::Value && !s.call.opens(&s.action.args) {
            return;
        }
        self.events_bring_descriptors |= s.call.name == "fanotify_init";
        let told = s.call.flags_arg(FlagSet::Open).map_or(0, |i| s.arg(i));
        // A file in memory is open for both, though its making says nothing of it.
        let flags = if object == Object::Memory { told | O_RDWR } else { told };
        let close_on_exec = object_close_on_exec(s);
        let all_links = self.object_links(s, object);
        let output = split(s.call, Side::Output, &s.action.output);
        let numbers = match output.iter().flatten().next() {
            Some(pair) if pair.len() == 8 => vec![word(pair, 0) as u32, word4(pair, 4)],
            _ => vec![s.action.result as u32],
        };
        for (fd, links) in numbers.into_iter().zip(all_links) {
            self.streams.hold(links);
            let node = (object == Object::Memory).then(|| {
                let (mode, seals) = memory_made(s.arg(1));
                let attributes =
                    Attributes { mode, uid: s.thread.users.files, gid: s.thread.groups.files, ..Attributes::default() };
                let node = self.names.add_node(FileKind::Regular, attributes);
                self.names.node_mut(node).seals = Some(seals);
                s.out.create(Resource::File(node));
                node
            });
            let mut description = Description { node, opened_as: None, stream, flags, links, ..Description::default() };
            self.take_tree(s, &mut description);
            self.configure(s, &mut description);
            let description = self.descriptors.describe(description);
            self.bind(s, fd, description, close_on_exec);
        }
    }
}

/// Mode and seals of a file in memory that is made with these flags (`memfd_create(2)`).
fn memory_made(flags: u64) -> (u32, u32) {
    const ALLOW_SEALING: u64 = 2;
    const NOEXEC_SEAL: u64 = 8;
    const SEAL_SEAL: u32 = 1;
    const SEAL_EXEC: u32 = 32;
    match (flags & NOEXEC_SEAL != 0, flags & ALLOW_SEALING != 0) {
        (true, _) => (0o666, SEAL_EXEC),
        (false, true) => (0o777, 0),
        (false, false) => (0o777, SEAL_SEAL),
    }
}

/// Where the close-on-exec flag of an object stands.
fn object_close_on_exec(s: &Step<'_>) -> bool {
    let flags = match s.call.name {
        "memfd_create" | "eventfd2" | "timerfd_create" | "pidfd_open" => {
            return s.arg(1) & 1 != 0 || s.arg(1) & O_CLOEXEC != 0 || s.call.name == "pidfd_open";
        }
        "fsopen" | "fsmount" => return s.arg(1) & 1 != 0,
        "pipe2" | "socket" | "socketpair" => s.arg(1),
        "open_tree" | "open_tree_attr" => s.arg(2),
        "accept4" | "signalfd4" => s.arg(3),
        "epoll_create1" | "inotify_init1" | "userfaultfd" => s.arg(0),
        "io_uring_setup" => return true,
        _ => 0,
    };
    flags & O_CLOEXEC != 0
}

pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or_else(|| word4(bytes, at).into(), |b| u64::from_le_bytes(std::array::from_fn(|i| b[i])))
}

pub(super) fn word4(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes(std::array::from_fn(|i| b[i])))
}
