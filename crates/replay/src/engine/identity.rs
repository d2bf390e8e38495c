//! Users and groups of a thread, as the traced calls left them.
//!
//! The traced program may have kept capabilities over a change of user (`PR_SET_KEEPCAPS`) and changed groups afterwards;
//! whether that was allowed is known from the trace. So is whom a set-user-ID program runs as. So the engine keeps the saved user 0, returns to it for each change,
//! and then takes the users on that the program had: the kernel judges accesses by them as it did for the program.

use reprise_plan::command::{Arg, Command};

use super::arguments::Range;
use super::failure::Stop;
use super::issue;
use super::thread::{Done, Worker};

/// "Leave it" for `setresuid` and `setresgid`.
const SAME: u32 = u32::MAX;

/// Takes users on; the saved one is 0. Who is for files somebody else (the program's saved user) may be that only as one of them:
/// then as the real one, who matters to `access` alone.
pub(super) fn take_on(real: u32, effective: u32, files: u32) -> i64 {
    let is_permitted = effective == 0 || [real, effective, 0].contains(&files);
    let done = issue::set_users(if is_permitted { real } else { files }, effective, 0);
    issue::set_file_user(files);
    done
}

impl Worker {
    /// Applies what the command says of users (arguments 0 to 2: real, effective, for files) and, by its call, of groups
    /// (arguments 3 to 5: real, effective, for files; or the list).
    pub(super) fn change_identity(&mut self, command: &Command) -> Result<Done, Stop> {
        if !self.engine.settings.identities {
            return Ok(Self::refused(command));
        }
        let number = |i: usize| match command.args.get(i) {
            Some(Arg::Value(value)) => Ok(*value as u32),
            _ => Err(Stop::Damaged("an identity is no number")),
        };
        let (real, effective, files) = (number(0)?, number(1)?, number(2)?);
        // Somebody else for files has cost rights over files, which come back with this and by nothing else (`LSM_SETID_FS` in
        // security/commoncap.c).
        issue::set_file_user(0);
        let mut result = issue::set_users(SAME, 0, SAME);
        if result == 0 {
            result = match i64::from(command.number) {
                libc::SYS_setresgid | libc::SYS_execve | libc::SYS_execveat => {
                    let done = issue::set_groups(number(3)?, number(4)?, number(4)?);
                    issue::set_file_group(number(5)?);
                    done
                }
                libc::SYS_setgroups => issue::set_further_groups(&self.further_groups(command)?),
                _ => 0,
            };
        }
        let back = take_on(real, effective, files);
        self.judged(command, if result < 0 { result } else { back }, Range::default())
    }

    fn further_groups(&self, command: &Command) -> Result<Vec<u32>, Stop> {
        let Some(Arg::Bytes(offset, length)) = command.args.get(3).copied() else { return Ok(Vec::new()) };
        let section: &[u8] = &self.engine.sections.bytes;
        let range = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        let bytes = range.and_then(|(at, n)| section.get(at..at.checked_add(n)?));
        let bytes = bytes.ok_or(Stop::Damaged("a list of groups lies outside the section"))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect())
    }
}
