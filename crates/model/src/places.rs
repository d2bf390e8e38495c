//! Paths for people: what a descriptor or a path argument names, as an absolute path.
//!
//! Goals: one name for one file in reports, whatever working directory or descriptor it was reached through.
//! Non-goals: resolving symbolic links; a path is shown as the program meant it.

use reprise_calls::{Access, ArgKind, Call, Effect};
use reprise_trace::{Action, Name};

use crate::descriptors::StreamKind;
use crate::step::AT_FDCWD;
use crate::world::World;

impl World {
    /// The absolute path under which a descriptor of a thread was opened, after renames of directories above it; for what
    /// has no path a word in brackets (`[pipe]`). `None` if the number is not open.
    pub fn descriptor_path(&self, thread: u32, fd: u64) -> Option<Vec<u8>> {
        let slot = self.descriptors.get(self.thread(thread)?.table, fd)?;
        let description = &self.descriptors.descriptions[slot.description as usize];
        let directory = description.node.and_then(|n| self.path_of(n));
        let named = || self.names.path_of_entry(description.opened_as?);
        let opened = || description.opened_by.as_deref().map(<[u8]>::to_vec);
        let word: &[u8] = match description.stream {
            Some(StreamKind::Null) => b"[other]",
            Some(StreamKind::Pipe) => b"[pipe]",
            Some(StreamKind::Socket) => b"[socket]",
            Some(StreamKind::Event) => b"[handle]",
            Some(StreamKind::Epoll) => b"[epoll]",
            Some(StreamKind::Watch) => b"[watch]",
            None => b"[nameless file]",
        };
        Some(directory.or_else(named).or_else(opened).unwrap_or_else(|| word.to_vec()))
    }

    /// The file that an action concerns, before the action: its first path argument, or else the path of its first descriptor,
    /// or of what is mapped where it loads or stores. `None` if it concerns none.
    pub fn concerned_path(&self, call: &Call, action: &Action) -> Option<Vec<u8>> {
        if matches!(call.effect, Effect::MappedRead | Effect::MappedWrite) {
            let thread = self.thread(action.thread)?;
            let region = self.spaces[thread.space as usize].at(action.args[0])?;
            return self.path_of(region.node);
        }
        self.argument_path(call, action, 0).or_else(|| {
            let fd = call.position(|k| matches!(k, ArgKind::Fd(Access::Use | Access::Destroy)))?;
            self.descriptor_path(action.thread, action.args[fd])
        })
    }

    /// The absolute path that a path argument of an action names, before the action: joined with the directory that it is
    /// relative to, without `.` and `..`. `number` says which of the call's paths. `None` if there is no such path.
    pub fn argument_path(&self, call: &Call, action: &Action, number: usize) -> Option<Vec<u8>> {
        let argument = call.paths().nth(number)?;
        let path = match number {
            0 => action.path.as_deref()?,
            _ => action.path2.as_deref()?,
        };
        let base = match argument.dirfd.map(|i| action.args[i]) {
            _ if path.starts_with(b"/") => Vec::new(),
            Some(fd) if fd as i32 != AT_FDCWD => self.descriptor_path(action.thread, fd)?,
            _ => {
                let thread = self.thread(action.thread)?;
                let cwd = self.directories[thread.directories as usize].cwd.node;
                self.directory_path(cwd)?
            }
        };
        if path.is_empty() {
            return Some(base);
        }
        Some(Name::below(&base, path).0)
    }
}
