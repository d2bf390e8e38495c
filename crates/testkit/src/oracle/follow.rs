//! Whether a call follows a final symbolic link as its row says: each path in turn is replaced by a link that leads
//! nowhere. A call that follows it finds nothing, or makes what the link names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use reprise_calls::{ArgKind, Call, Follow};

use super::context::{Prepared, prepare};
use super::fixture::{DANGLING, MISSING};
use super::value::{Value, path};
use crate::raw;

const NOFOLLOW: u64 = libc::O_NOFOLLOW as u64;
const EXCLUSIVE: u64 = (libc::O_CREAT | libc::O_EXCL) as u64;

/// Issues the call for every path and every setting of the bit that its row names.
pub(super) fn probe(row: &'static Call, given: &[(&str, Value)]) {
    // Absolute, so that the directory argument does not matter.
    let here = std::env::current_dir().expect("a working directory");
    let (dangling, missing) = (here.join(DANGLING), here.join(MISSING));
    for arg in row.paths() {
        let bits: &[Option<(Option<u8>, u64)>] = match arg.follow {
            Follow::Always | Follow::Never => &[None],
            Follow::Unless { arg, bit } | Follow::If { arg, bit } => &[None, Some((Some(arg), bit))],
            Follow::AsOpen if row.name == "creat" => &[None],
            Follow::AsOpen => &[None, Some((None, NOFOLLOW)), Some((None, EXCLUSIVE))],
        };
        for change in bits {
            fresh(&dangling, &missing);
            let mut given = given.to_vec();
            let name = row.args[arg.path].name;
            let at = given.iter().position(|(n, _)| *n == name).expect("a path");
            given[at].1 = path(dangling.to_str().expect("a plain name"));
            let mut prepared = prepare(row, &given);
            clear_and_set(row, arg.follow, &mut prepared, *change);
            let expected = expected(row, arg.follow, &prepared);
            let result = raw::syscall(row.number, prepared.args);
            let followed = result == -i64::from(libc::ENOENT) || missing.exists();
            let says = format!("{}.{name} {:?} {change:x?} gives {result}", row.name, arg.follow);
            let denied = [libc::ENOSYS, libc::EPERM].map(|e| -i64::from(e));
            if denied.contains(&result) && !crate::scratch::is_root() {
                continue;
            }
            assert_eq!(followed, expected, "{says}: followed");
            println!("{says}: followed {followed}");
        }
    }
}

fn fresh(dangling: &Path, missing: &Path) {
    for name in [dangling, missing] {
        if fs::remove_file(name).is_err() {
            let _ = fs::remove_dir_all(name);
        }
    }
    symlink(MISSING, dangling).expect("a symbolic link");
}

fn clear_and_set(row: &Call, follow: Follow, prepared: &mut Prepared, change: Option<(Option<u8>, u64)>) {
    match follow {
        Follow::Always | Follow::Never => {}
        Follow::Unless { arg, bit } | Follow::If { arg, bit } => {
            let word = &mut prepared.args[usize::from(arg)];
            *word &= !bit;
            *word |= change.map_or(0, |(_, bits)| bits);
        }
        Follow::AsOpen => {
            let bits = change.map_or(0, |(_, bits)| bits);
            let at = row.position(|k| matches!(k, ArgKind::Flags(_)));
            let how = row.position(|k| matches!(k, ArgKind::In(_)));
            if let Some(i) = at {
                prepared.args[i] = prepared.args[i] & !NOFOLLOW & !EXCLUSIVE | bits;
            } else if let Some(i) = how {
                let memory = prepared.memory[i][0];
                let mode = if bits == EXCLUSIVE { 0o600 } else { 0 };
                let resolve = 0;
                let how = super::value::longs(&[bits, mode, resolve]);
                raw::poke(memory.address(), &how);
            }
        }
    }
}

fn expected(row: &Call, follow: Follow, prepared: &Prepared) -> bool {
    let set = |arg: u8, bit| prepared.args[usize::from(arg)] & bit != 0;
    match follow {
        Follow::Always => true,
        Follow::Never => false,
        Follow::Unless { arg, bit } => !set(arg, bit),
        Follow::If { arg, bit } => set(arg, bit),
        Follow::AsOpen => {
            let how = row.position(|k| matches!(k, ArgKind::In(_)));
            let input = how.map_or(Vec::new(), |i| prepared.memory[i][0].bytes());
            let flags = row.open_flags(&prepared.args, &input);
            flags & NOFOLLOW == 0 && flags & EXCLUSIVE != EXCLUSIVE
        }
    }
}

/// Whether a case's arguments have a path to probe.
pub fn has_paths(row: &Call) -> bool {
    row.paths().next().is_some()
}
