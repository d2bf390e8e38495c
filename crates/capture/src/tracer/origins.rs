//! Where what is in the tables of rings came from: of a request that moves content inside the kernel, the file tells what that was, and what
//! is in a table only is not to be had.
//!
//! Goals: the descriptor that was put there, as long as the process has it. Non-goals: files that were opened into a table, or whose
//! descriptor was closed: what is moved from them or to them is counted as not recorded.

use reprise_calls::closing::RING_NUMBERS;
use reprise_calls::moving::ends;

use super::Tracer;
use crate::movers::Source;
use crate::requests::{Asked, Key, TableRow};
use crate::sys::{self, FileId, HERE};

fn file(tid: i32, fd: u32) -> Option<FileId> {
    let path = std::ffi::CString::new(format!("/proc/{tid}/fd/{fd}")).ok()?;
    sys::stat_at(HERE, &path, 0).ok().map(|stat| stat.id)
}

impl Tracer<'_> {
    /// A row of a table is written.
    pub(super) fn follow_origin(&mut self, tid: i32, row: &TableRow) {
        match row.call {
            "fcntl" => {
                let (from, number) = (row.args[0] as u32, row.result as u32);
                let id = file(tid, from);
                id.into_iter().for_each(|id| _ = self.origins.insert(number, (from, id)));
            }
            _ => _ = self.origins.remove(&(row.args[0] as u32)),
        }
    }

    /// The descriptor that was put where a number of a table stands, if it names the same file still.
    fn origin(&self, tid: i32, number: u32) -> Option<u32> {
        let (from, id) = *self.origins.get(&number)?;
        (file(tid, from) == Some(id)).then_some(from)
    }

    /// The arguments of a request as a call would have them: what is in the table of its ring has the number of the descriptor that was put
    /// there, or none.
    pub(super) fn as_called(&self, key: Key, tid: i32, asked: &Asked, fixed: &[Option<(usize, u32)>; 2]) -> [u64; 6] {
        let files = self.requests.channels.get(&key).map(|channel| &channel.files);
        let mut args = asked.args;
        for (arg, place) in fixed.iter().flatten() {
            let number = files.and_then(|files| files.get(place));
            let origin = number.and_then(|number| self.origin(tid, *number));
            args[*arg] = origin.unwrap_or(u32::MAX).into();
        }
        args
    }

    /// Whether what a request moved stands where was found when it was submitted.
    pub(super) fn is_still(&self, tid: i32, asked: &Asked, source: Source) -> bool {
        let named = |fd: u64| match fd as u32 {
            number @ RING_NUMBERS.. => self.origin(tid, number),
            fd => Some(fd),
        };
        let is_end = |fd: usize| named(asked.args[fd]) == Some(source.descriptor());
        ends(asked.call).is_some_and(|ends| is_end(ends.source.fd) || is_end(ends.target.fd))
    }
}
