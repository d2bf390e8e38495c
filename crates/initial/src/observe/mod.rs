//! What each call shows of the beginning, by family of effects.

mod descriptors;
mod failed;
mod files;
pub(crate) mod messages;
mod mounts;
mod names;
mod shown;
mod sockets;
mod users;

use foldhash::HashSet;
use reprise_calls::brought::is_stand_in;
use reprise_calls::mounts::At;
use reprise_calls::{ArgKind, Call, Effect, FlagSet, Follow};
pub use sockets::as_mknod;

use super::names::Names;
use super::node::{Node, NodeId, Slot, Source, kind};
use super::resolve::{Beginning, Found};
use super::{Seat, World};
use crate::decoded::{Decoded, Entry, Stat};

const AT_FDCWD: u32 = 0xffff_ff9c;
const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;
const O_NOFOLLOW: u64 = 0o400000;

/// Error numbers that show something.
mod errors {
    pub const EPERM: i64 = -1;
    pub const ENOENT: i64 = -2;
    pub const EBADF: i64 = -9;
    pub const EACCES: i64 = -13;
    pub const EBUSY: i64 = -16;
    pub const EEXIST: i64 = -17;
    pub const EXDEV: i64 = -18;
    pub const ENOTDIR: i64 = -20;
    pub const EISDIR: i64 = -21;
    pub const EINVAL: i64 = -22;
    pub const ESPIPE: i64 = -29;
    pub const EMLINK: i64 = -31;
    pub const ENOTEMPTY: i64 = -39;
    pub const ELOOP: i64 = -40;
    pub const EADDRINUSE: i64 = -98;
    pub const ECANCELED: i64 = -125;
}

/// A name that a path passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Number of its directory.
    pub directory: u32,
    /// The name.
    pub name: Box<[u8]>,
    /// What stands there.
    pub stands: Stands,
    /// Number of the file.
    pub node: Option<u32>,
    /// Its device and inode, if they are known.
    pub identity: Option<(u64, u64)>,
}

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// That is not known.
    Unknown,
    /// Nothing.
    Nothing,
    /// Something of a type that is not known.
    Something,
    /// A directory.
    Directory,
    /// Anything else.
    File,
}

/// A call that has returned.
pub struct Seen<'a> {
    /// Whose it was.
    pub seat: Seat,
    /// The call.
    pub call: &'a Call,
    /// What it was given and returned.
    pub decoded: &'a Decoded<'a>,
    /// Its result.
    pub result: i64,
}

impl Seen<'_> {
    fn ok(&self) -> bool {
        self.result >= 0
    }

    fn arg(&self, i: usize) -> u64 {
        self.decoded.args[i]
    }

    fn fd(&self, i: usize) -> (u32, Option<&[u8]>) {
        (self.decoded.args[i] as u32, self.decoded.annotations[i])
    }

    fn is_rooted(&self) -> bool {
        self.call.is_rooted(self.decoded.input.get(4..).unwrap_or_default())
    }

    fn open_flags(&self) -> u64 {
        let how = self.decoded.input.get(4..).unwrap_or_default();
        self.call.effective_open_flags(&self.decoded.args, how)
    }

    /// Whether its first path ends with a slash.
    fn first_ends_with_slash(&self) -> bool {
        self.decoded.path.as_ref().is_some_and(|path| path.ends_with(b"/"))
    }
}

impl World {
    /// Takes in what a call shows; where its thread's descriptors and directories are from now on.
    pub fn observe(&mut self, s: &Seen<'_>) -> Seat {
        let seat = if s.ok() { self.unshare(s.seat, s.call, &s.decoded.args) } else { s.seat };
        self.take_in(&Seen { seat, ..*s });
        seat
    }

    fn take_in(&mut self, s: &Seen<'_>) {
        use Effect::*;
        let makes = matches!(s.call.effect, Open | MakeObject(_) | Take | Duplicate | DuplicateTo | Control);
        s.decoded.objects.iter().flatten().filter(|_| !makes).for_each(|object| self.recognise(s.seat, object));
        match s.result {
            // Of a number that nothing has, or that is not for this; and of a request that was cancelled before it began.
            errors::EBADF | errors::ECANCELED => return,
            ..0 => self.failed(s),
            _ => {}
        }
        match s.call.effect {
            Open => self.open(s),
            MakeObject(_) | Take => self.make_object(s),
            Close => self.close(s),
            CloseRange => self.close_range(s),
            Duplicate => self.duplicate(s, 0, s.result),
            DuplicateTo => self.duplicate(s, 0, s.arg(1) as i64),
            Control => self.control(s),
            Read => self.read(s),
            Write => self.write(s),
            Seek => self.seek(s),
            Copy | Splice => self.copy(s),
            Truncate => self.truncate(s),
            Allocate => self.allocate(s),
            GetMetadata => self.metadata(s),
            TestAccess | StatFs | ReadLink | GetXattr | ListXattr | ChangeMode | ChangeOwner | ChangeTimes
            | SetXattr | RemoveXattr => self.attributes(s),
            MakeDirectory => self.make(s, kind::DIRECTORY),
            MakeNode => self.make_node(s),
            MakeSymlink => self.make(s, kind::SYMLINK),
            Link => self.link(s),
            Remove => self.remove(s),
            Rename => self.rename(s),
            List => self.list(s),
            ChangeDirectory => self.change_directory(s),
            ChangeRoot => self.change_root(s),
            GetDirectory => {}
            ChangeMask => {
                let origin = self.origin(s.seat);
                origin.umask.get_or_insert(s.result as u32 & 0o777);
            }
            ChangeIdentity => {
                // From now on what it was is not known by asking.
                let origin = self.origin(s.seat);
                origin.uids.get_or_insert([0; 3]);
                origin.gids.get_or_insert([0; 3]);
                self.changes_owner(s);
            }
            Execute => self.execute(s),
            Map => self.map(s),
            DeviceControl => self.device_control(s),
            Message => {
                self.use_descriptors(s);
                self.name_socket(s);
                self.pass_on(s);
            }
            Sync | Advise | Lock | SyncAll | Poll | Watch | Asynchronous => self.use_descriptors(s),
            Spawn => self.make_handle(s),
            Unmap | Remap | MapAdvise | MapSync | MappedRead | MappedWrite | Exit | Wait => {}
            Mount => self.mount(s),
        }
    }

    /// Where one of the call's paths leads. `exists`: something surely stands there.
    fn place(&mut self, s: &Seen<'_>, number: usize, exists: bool) -> Found {
        let Some(argument) = s.call.paths().nth(number) else { return Found::default() };
        let path = if number == 0 { &s.decoded.path } else { &s.decoded.path2 };
        let makes = matches!(s.call.effect, Effect::MakeDirectory | Effect::MakeNode | Effect::MakeSymlink)
            || s.call.effect == Effect::Link && number == 1;
        let path = path.as_deref().unwrap_or_default();
        // A name that is to be made is not followed if it is a link, also with a slash behind it.
        let path = if makes { without_slashes(path) } else { path };
        let from = self.beginning_of(s, argument.dirfd, path);
        let Beginning { start, shown } = from;
        if start.is_none() && shown.is_none() {
            return Found::default();
        }
        if path.is_empty() {
            return if s.ok() { Found { shown, ..start.map(Found::at).unwrap_or_default() } } else { Found::default() };
        }
        self.relative(s, path);
        let follow = match argument.follow {
            Follow::Always => true,
            Follow::Never => false,
            Follow::Unless { arg, bit } => s.arg(arg.into()) & bit == 0,
            Follow::If { arg, bit } => s.arg(arg.into()) & bit != 0,
            Follow::AsOpen => {
                let flags = s.open_flags();
                flags & O_NOFOLLOW == 0 && flags & (O_CREAT | O_EXCL) != (O_CREAT | O_EXCL)
            }
        };
        match (s.is_rooted(), start) {
            (true, Some(start)) => self.resolve(start, start, path, follow, exists),
            (true, None) => Found::default(),
            (false, _) => self.lead(s.seat, from, path, follow, exists),
        }
    }

    /// Where a relative path begins: at the descriptor in this argument, or in the working directory.
    fn beginning_of(&mut self, s: &Seen<'_>, dirfd: Option<usize>, path: &[u8]) -> Beginning {
        let is_relative = !path.starts_with(b"/") || s.is_rooted();
        match dirfd.filter(|i| is_relative && s.arg(*i) as u32 != AT_FDCWD) {
            None => self.places[s.seat.places as usize].beginning(),
            Some(i) => {
                let (fd, annotation) = s.fd(i);
                let description = match self.trail {
                    Some(_) => self.tables[s.seat.table as usize].open.get(&fd).cloned(),
                    None => self.description(s.seat, fd, annotation),
                };
                description.map(|description| description.borrow().beginning()).unwrap_or_default()
            }
        }
    }

    /// Whether a call's first path begins in a directory of `/proc`: there files without a name have one.
    pub fn begins_in_proc(&self, s: &Seen<'_>) -> bool {
        let is_relative = s.decoded.path.as_deref().is_some_and(|path| path.first().is_some_and(|b| *b != b'/'));
        let dirfd = s.call.paths().next().and_then(|argument| argument.dirfd).map(|i| s.arg(i) as u32);
        let shown = match dirfd.filter(|fd| *fd != AT_FDCWD) {
            None => self.places[s.seat.places as usize].shown,
            Some(fd) => self.tables[s.seat.table as usize].open.get(&fd).and_then(|open| open.borrow().shown),
        };
        is_relative && shown.is_some()
    }

    /// The names that one of a call's paths passes as things stand now, and whether the last of them is the one that it
    /// leads to. The name of the directory where a relative path begins is the first: once it is removed nothing stands there,
    /// and nothing can be made.
    pub fn passes(&mut self, s: &Seen<'_>, number: usize) -> (Vec<Step>, bool) {
        self.trail = Some(Vec::new());
        let found = self.place(s, number, false);
        let mut trail = self.trail.take().unwrap_or_default();
        // What stands where the kernel shows its state says nothing of the calls.
        let pseudo = trail.iter().position(|(directory, _)| self.names.node(*directory).filesystem_is_pseudo());
        trail.truncate(pseudo.unwrap_or(trail.len()));
        let is_last = found.entry.as_ref().is_some_and(|entry| trail.last() == Some(entry));
        let start = trail.first().and_then(|(start, _)| self.beginning(*start));
        let steps = trail.into_iter().map(|(directory, name)| self.step(directory, &name));
        (start.into_iter().chain(steps).collect(), is_last)
    }

    /// The name of a directory where a path begins, as long as it has one; one that nothing else has if it was removed.
    fn beginning(&self, start: NodeId) -> Option<Step> {
        let node = self.names.node(start);
        match self.names.is_removed(start)? {
            true => {
                let (name, stands) = (b"/".as_slice().into(), Stands::Nothing);
                Some(Step { directory: start, name, stands, node: None, identity: None })
            }
            false => Some(Step { stands: Stands::Directory, ..self.step(node.parent, &node.name) }),
        }
    }

    /// The names that a listing showed.
    pub fn lists(&mut self, s: &Seen<'_>) -> Vec<Step> {
        let told = self.peek(s.seat, s.fd(0).0).filter(|n| tells(s, self.names.node(*n)));
        let Some(directory) = told else { return Vec::new() };
        let names = s.decoded.entries.iter().filter(|entry| !matches!(entry.name.as_slice(), b"." | b".."));
        let step = |entry: &Entry| {
            self.recalled(directory, &entry.name);
            self.step(directory, &entry.name)
        };
        names.map(step).collect()
    }

    /// The name of the directory that a call lists, as for a path that begins there.
    pub fn listed(&self, s: &Seen<'_>) -> Option<Step> {
        let directory = self.peek(s.seat, s.fd(0).0)?;
        if self.names.node(directory).filesystem_is_pseudo() {
            return None;
        }
        self.beginning(directory)
    }

    /// The names that stand in a directory and that a listing did not show, though it went, as far as can be told, from the beginning
    /// to the end. Of directories with many names none; nothing if it is not known yet which directory that is.
    pub fn lists_without(&self, s: &Seen<'_>) -> Option<Vec<Step>> {
        /// Of `struct linux_dirent64`, with the longest name.
        const LONGEST_ENTRY_BYTES: u64 = 280;
        const MANY: usize = 1024;
        let whole = s.decoded.entries.iter().any(|entry| entry.name == b".")
            && u64::try_from(s.result).is_ok_and(|bytes| bytes.saturating_add(LONGEST_ENTRY_BYTES) <= s.arg(2));
        // Not by its number: which directory that means is perhaps not known yet.
        let identity = s.decoded.object(s.fd(0).0).map(|object| object.identity);
        let Some(identity) = identity.filter(|_| whole) else { return Some(Vec::new()) };
        let directory = self.names.now(self.names.identified(identity)?);
        let node = self.names.node(directory);
        if !tells(s, node) || node.entries.len() > MANY {
            return Some(Vec::new());
        }
        let shown: HashSet<&[u8]> = s.decoded.entries.iter().map(|entry| entry.name.as_slice()).collect();
        let is_there = |slot: &Slot| match slot {
            Slot::File(node) => self.names.node(*node).source != Source::Perhaps,
            Slot::Absent => false,
        };
        let hidden = node
            .entries
            .iter()
            .filter(|(name, slot)| is_there(slot) && !shown.contains(&***name) && !is_stand_in(name));
        let mut steps: Vec<Step> = hidden.map(|(name, _)| self.step(directory, name)).collect();
        steps.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Some(steps)
    }

    fn step(&self, directory: NodeId, name: &[u8]) -> Step {
        let stands = match self.names.slot(directory, name) {
            None => Stands::Unknown,
            Some(Slot::Absent) => Stands::Nothing,
            Some(Slot::File(node)) => match self.names.node(node) {
                n if !n.sure => Stands::Something,
                n if n.kind == kind::DIRECTORY => Stands::Directory,
                _ => Stands::File,
            },
        };
        let node = match self.names.slot(directory, name) {
            Some(Slot::File(node)) => Some(node),
            _ => None,
        };
        let identity = node.map(|node| self.names.node(node)).and_then(|node| node.identity.or(node.made_as));
        Step { directory, name: name.into(), stands, node, identity }
    }

    /// A relative path depends on the working directory.
    fn relative(&mut self, s: &Seen<'_>, path: &[u8]) {
        if !path.starts_with(b"/")
            && self.names.path(self.places[s.seat.places as usize].cwd.node).starts_with(b"/assumed")
        {
            self.note("a path is relative to a working directory that the log does not name");
        }
    }

    /// The file at one of the call's paths, which exists: met before, or there at the beginning.
    fn existing(&mut self, s: &Seen<'_>, number: usize, guess: u32, sure: bool) -> Option<NodeId> {
        self.existing_at(s, number, guess, sure).map(|at| at.node)
    }

    fn existing_at(&mut self, s: &Seen<'_>, number: usize, guess: u32, sure: bool) -> Option<At> {
        let found = self.place(s, number, true);
        let mount = found.mount;
        Some(At { mount, node: self.settle(s, found, guess, sure)? })
    }

    fn settle(&mut self, s: &Seen<'_>, found: Found, guess: u32, sure: bool) -> Option<NodeId> {
        match (found.node, found.entry) {
            (Some(node), _) => {
                let n = self.names.node_mut(node);
                n.is_followed |= found.is_followed;
                let is_through = guess == kind::SYMLINK && n.is_followed;
                if sure && !n.sure && !is_through {
                    (n.kind, n.sure) = (guess, true);
                }
                Some(node)
            }
            (None, Some((directory, name))) => {
                let may_have_more = |stat: &Stat| self.knows_links(directory) || !stat.has_one_name();
                let identity = s.decoded.stat.filter(may_have_more).and_then(|stat| stat.identity);
                let known = identity.and_then(|i| self.names.identities.get(&i).copied());
                let known = known.filter(|known| self.are_beside(*known, directory));
                let absent = self.names.slot(directory, &name) == Some(Slot::Absent);
                let node = match known
                    .filter(|n| guess != kind::DIRECTORY && self.names.node(*n).may_be_initial() && !absent)
                {
                    Some(node) => {
                        // A further name of a file that was met before.
                        self.names.add_name(directory, &name, node)
                    }
                    None => self.discover(directory, &name, guess, sure),
                };
                self.names.node_mut(node).is_followed |= found.is_followed;
                Some(node)
            }
            (None, None) => None,
        }
    }

    /// The file that a call acts on: by its path, or else by its descriptor.
    fn subject(&mut self, s: &Seen<'_>, guess: u32, sure: bool) -> Option<NodeId> {
        self.subject_at(s, guess, sure).map(|at| at.node)
    }

    fn subject_at(&mut self, s: &Seen<'_>, guess: u32, sure: bool) -> Option<At> {
        if s.call.position(|k| matches!(k, ArgKind::Path(_))).is_some() {
            self.existing_at(s, 0, guess, sure)
        } else if s.call.is_about_working_directory(&s.decoded.args, s.result) {
            self.places[s.seat.places as usize].beginning().start
        } else {
            let (fd, annotation) = s.fd(0);
            self.description(s.seat, fd, annotation)?.borrow().at()
        }
    }

    fn is_root(&self, node: NodeId) -> bool {
        node == Names::ROOT
    }

    fn flags(&self, s: &Seen<'_>, set: FlagSet) -> u64 {
        s.call.flags_arg(set).map_or(0, |i| s.arg(i))
    }
}

/// Whether what a listing shows of a directory says something of the calls.
fn tells(s: &Seen<'_>, directory: &Node) -> bool {
    s.ok() && !directory.filesystem_is_pseudo()
}

/// A path without slashes at its end.
fn without_slashes(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|b| *b != b'/').map_or(path.len().min(1), |last| last + 1);
    &path[..end]
}
