//! What calls tell of names: which must have stood, and which not.

use reprise_calls::{ArgKind, Call, Effect, FlagSet, makes_nameless};
use reprise_initial::{Seat, Seen, Stands, Step, World, as_mknod};
use reprise_trace::payload::{Side, split};

use super::super::decode::Pending;
use super::super::facts;
use super::super::told::{Change, Condition, DIRECTORY, FILE, Found, NOTHING, SOMETHING, Told};
use super::{Thing, thing};
use crate::arguments::failed;
use crate::effects::removes_directory;

const ENOENT: i64 = -(libc::ENOENT as i64);
const EEXIST: i64 = -(libc::EEXIST as i64);
const ENOTDIR: i64 = -(libc::ENOTDIR as i64);
const ELOOP: i64 = -(libc::ELOOP as i64);
const EISDIR: i64 = -(libc::EISDIR as i64);
const ENOTEMPTY: i64 = -(libc::ENOTEMPTY as i64);
/// Errors that the kernel gives before it looks for a name, or on its way there.
const COMES_FIRST: [i64; 9] = [
    -(libc::EBADF as i64),
    -(libc::EFAULT as i64),
    -(libc::ENAMETOOLONG as i64),
    -(libc::ENOSYS as i64),
    -(libc::EINTR as i64),
    -(libc::EMFILE as i64),
    -(libc::ENFILE as i64),
    -(libc::ENOMEM as i64),
    -(libc::ECANCELED as i64),
];

/// Names of a listing beyond these are not looked at.
const LISTED: usize = 256;

/// What the result of a call tells of names. Gives which file stands under the name by which it opened one, as a thing.
pub fn told(world: &mut World, seat: Seat, pending: &Pending, told: &mut Told) -> Option<u64> {
    let (call, result, args) = (pending.call, pending.action.result, pending.action.args);
    let lists = call.effect == Effect::List;
    if pending.action.path.is_none() && !lists && call.name != "bind" {
        return None;
    }
    if call.leaves_times(pending.action.input.get(4..).unwrap_or_default()) {
        return None;
    }
    let made = pending.object(result as u64).map(|object| (facts::object(object).made, object.inode));
    let opened = made.filter(|_| call.effect == Effect::Open && !failed(result));
    let from_no_directory = starts(call, &args).any(|fd| pending.object(fd).is_none_or(|o| !is_directory(o.mode)));
    let given = pending.decoded();
    let socket = as_mknod(call, &given, result);
    let (call, decoded, result) =
        socket.as_ref().map_or((call, &given, result), |(call, d, result)| (*call, d, *result));
    let seen = Seen { seat, call, decoded, result };
    if lists && result == ENOENT {
        // Only of a directory that is removed.
        let gone = world.listed(&seen);
        told.any.extend(gone.iter().map(|step| step_is(step, Found::Exactly(NOTHING), Change::Nothing)));
    } else if lists {
        let names = world.lists(&seen);
        told.all.extend(names.iter().take(LISTED).map(|step| step_is(step, Found::Something, Change::Nothing)));
        let hidden = world.lists_without(&seen);
        told.is_too_early = hidden.is_none();
        let hidden = hidden.unwrap_or_default();
        told.likely
            .extend(hidden.iter().take(LISTED).map(|step| step_is(step, Found::Exactly(NOTHING), Change::Nothing)));
    } else {
        let paths = [world.passes(&seen, 0), world.passes(&seen, 1)];
        let flags = match call.effect {
            Effect::Open => call.effective_open_flags(&args, decoded.input.get(4..).unwrap_or_default()),
            _ => 0,
        };
        let inode = match opened {
            // A file without a name in that directory.
            _ if makes_nameless(flags) => None,
            Some((_, inode)) => Some(inode),
            None => decoded.stat.and_then(|stat| stat.identity).map(|(_, inode)| inode),
        };
        let paths_given = [&decoded.path, &decoded.path2];
        let has_slash = paths_given.map(|path| path.as_ref().is_some_and(|path| path.ends_with(b"/")));
        let is_dots = |name: &[u8]| matches!(name, b"." | b"..");
        let ends_with_dots = paths_given.map(|path| {
            path.as_ref().is_some_and(|path| path.rsplit(|byte| *byte == b'/').next().is_some_and(is_dots))
        });
        let has_empty = paths_given.iter().any(|path| path.as_ref().is_some_and(|path| path.is_empty()));
        let says_nothing = call.effect == Effect::MakeSymlink
            && split(call, Side::Input, &decoded.input)[0].is_some_and(<[u8]>::is_empty);
        let outcome = Outcome {
            call,
            flags,
            has_slash,
            ends_with_dots,
            has_empty: has_empty || says_nothing,
            from_no_directory,
            result,
            args: decoded.args,
            made: opened.and_then(|(made, _)| made),
            inode,
        };
        outcome.tell(&paths, told);
        let named = last(&paths[0]).filter(|_| opened.is_some() && outcome.inode.is_some());
        return named.map(|step| name(Thing::Inode, step));
    }
    None
}

struct Outcome<'a> {
    call: &'a Call,
    /// Of an open.
    flags: u64,
    /// Whether the paths end with one.
    has_slash: [bool; 2],
    /// Whether the paths end with `.` or `..`, which is no name.
    ends_with_dots: [bool; 2],
    /// Whether a path is empty, or the text of a link.
    has_empty: bool,
    /// Whether a path begins at a descriptor that may name no directory.
    from_no_directory: bool,
    result: i64,
    args: [u64; 6],
    /// Whether an open made its file.
    made: Option<bool>,
    /// The file that was met.
    inode: Option<u64>,
}

/// The names of a path, and whether the last is the one that it leads to.
type Path = (Vec<Step>, bool);

impl Outcome<'_> {
    fn tell(&self, paths: &[Path; 2], told: &mut Told) {
        match self.result {
            // Not for want of one of these names, or of one that is not known.
            ENOENT if self.wants_directory(paths) || self.has_empty || self.is_of_open_file() => {}
            ENOENT | ENOTDIR
                if paths.iter().zip(self.ends_with_dots).any(|(path, dots)| !dots && is_cut_short(path)) => {}
            ENOTDIR if self.from_no_directory => {}
            ELOOP if paths.iter().any(is_cut_short) => {}
            ENOENT => {
                let missing =
                    self.looked_for(paths).map(|step| step_is(step, Found::Exactly(NOTHING), Change::Nothing));
                told.any.extend(missing);
            }
            // A link is no directory either.
            ENOTDIR | ELOOP => {
                let steps = paths.iter().flat_map(|(steps, _)| steps);
                told.any.extend(steps.map(|step| step_is(step, Found::NoDirectory, Change::Nothing)));
            }
            EEXIST => {
                let makes = usize::from(matches!(self.call.effect, Effect::Link | Effect::Rename));
                // Who finds nothing there came before.
                let teaches = |step: &Step| match step.stands {
                    Stands::Unknown => Change::To(SOMETHING),
                    _ => Change::Nothing,
                };
                // What is to have another name is looked for before that.
                let source = if makes == 1 { &paths[0].0[..] } else { &[] };
                told.all.extend(source.iter().map(|step| step_is(step, Found::Something, Change::Nothing)));
                told.all.extend(last(&paths[makes]).map(|step| step_is(step, Found::Something, teaches(step))));
            }
            // `name/` cannot be made by opening it, whatever stands there.
            EISDIR if self.flags & libc::O_CREAT as u64 != 0 && self.has_slash[0] => {}
            EISDIR | ENOTEMPTY => {
                let end = last(&paths[usize::from(self.call.effect == Effect::Rename)]);
                told.all.extend(end.map(|step| step_is(step, Found::Directory, Change::Nothing)));
            }
            result if failed(result) && COMES_FIRST.contains(&result) => {}
            result if failed(result) => {
                let steps = self.looked_for(paths);
                told.likely.extend(steps.map(|step| step_is(step, Found::Something, Change::Nothing)));
            }
            _ => self.succeeded(paths, told),
        }
    }

    /// Whether a name that ends with a slash was to be made, as no directory: it cannot be, whatever stands there.
    fn wants_directory(&self, paths: &[Path; 2]) -> bool {
        let [one, other] = self.has_slash;
        match self.call.effect {
            Effect::MakeNode | Effect::MakeSymlink => one,
            Effect::Link => other,
            Effect::Rename => other && last(&paths[0]).is_none_or(|step| step.stands != Stands::Directory),
            _ => false,
        }
    }

    /// Whether a name was to be made of what is open, or of what a link leads to: a file that has no name may not get one.
    fn is_of_open_file(&self) -> bool {
        const GIVEN_OPEN: u64 = (libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) as u64;
        let flags = self.call.flags_arg(FlagSet::At).map_or(0, |i| self.args[i]);
        self.call.effect == Effect::Link && flags & GIVEN_OPEN != 0
    }

    /// Names that were to stand: all on the way, and the last unless the call would have made it.
    fn looked_for<'p>(&self, paths: &'p [Path; 2]) -> impl Iterator<Item = &'p Step> {
        let makes = match self.call.effect {
            Effect::MakeDirectory | Effect::MakeNode | Effect::MakeSymlink => [true, false],
            Effect::Open => [self.flags & libc::O_CREAT as u64 != 0, false],
            Effect::Rename if renames(self.call, &self.args, libc::RENAME_EXCHANGE) => [false, false],
            Effect::Link | Effect::Rename => [false, true],
            _ => [false, false],
        };
        paths.iter().zip(makes).flat_map(|((steps, is_last), makes)| {
            let keep = steps.len() - usize::from(makes && *is_last && !steps.is_empty());
            &steps[..keep]
        })
    }

    fn succeeded(&self, paths: &[Path; 2], told: &mut Told) {
        for (steps, is_last) in paths {
            let way = &steps[..steps.len() - usize::from(*is_last && !steps.is_empty())];
            told.all.extend(way.iter().map(|step| step_is(step, went_through(step), Change::Nothing)));
        }
        let ends = [last(&paths[0]), last(&paths[1])];
        let moved = [None, ends[0].filter(|_| self.gives_another_name())];
        // The new name first: it has what the old one had before.
        for ((step, (found, change)), from) in ends.into_iter().zip(self.ends(ends)).zip(moved).rev() {
            let Some(step) = step else { continue };
            told.all.push(step_is(step, found, change));
            told.all.extend(self.file(step, change, from));
        }
    }

    /// Whether what stands under the first path stands under the second from now on.
    fn gives_another_name(&self) -> bool {
        match self.call.effect {
            Effect::Rename => !renames(self.call, &self.args, libc::RENAME_EXCHANGE),
            effect => effect == Effect::Link,
        }
    }

    /// What the last names of the paths were, and are from now on.
    fn ends(&self, ends: [Option<&Step>; 2]) -> [(Found, Change); 2] {
        use Effect::*;
        const MAKES: u64 = libc::O_CREAT as u64;
        const EXCLUSIVE: u64 = (libc::O_CREAT | libc::O_EXCL) as u64;
        // Where nothing is known to stand yet, something does when the call has its turn.
        let stood = |end: Option<&Step>| end.and_then(|step| number(step.stands)).filter(|kind| *kind != NOTHING);
        let kind = |end: Option<&Step>| Change::To(stood(end).unwrap_or(SOMETHING));
        let there = (Found::Something, Change::Nothing);
        let directory = (Found::Directory, Change::Nothing);
        let none = (Found::Anything, Change::Nothing);
        let makes = |kind| (Found::Exactly(NOTHING), Change::To(kind));
        match self.call.effect {
            Open if self.flags & EXCLUSIVE == EXCLUSIVE || self.made == Some(true) => [makes(FILE), none],
            Open if self.flags & MAKES != 0 && self.made.is_none() => [(Found::Anything, Change::To(FILE)), none],
            MakeDirectory => [makes(DIRECTORY), none],
            MakeNode | MakeSymlink => [makes(FILE), none],
            Link => [there, (Found::Exactly(NOTHING), kind(ends[0]))],
            Open if self.flags & libc::O_DIRECTORY as u64 != 0 => [directory, none],
            ChangeDirectory => [directory, none],
            Remove => {
                let is_directory = removes_directory(self.call, &self.args);
                [(if is_directory { Found::Directory } else { Found::NoDirectory }, Change::To(NOTHING)), none]
            }
            // Two names of one file: nothing happens.
            Rename if ends[0].zip(ends[1]).is_some_and(|(a, b)| a.node.is_some() && a.node == b.node) => [there, there],
            Rename if renames(self.call, &self.args, libc::RENAME_EXCHANGE) => {
                [(Found::Something, kind(ends[1])), (Found::Something, kind(ends[0]))]
            }
            Rename => {
                let left = if renames(self.call, &self.args, libc::RENAME_WHITEOUT) { FILE } else { NOTHING };
                [(Found::Something, Change::To(left)), (Found::Anything, kind(ends[0]))]
            }
            _ => [there, there],
        }
    }

    /// Which file stands under a name; `from`: that which stood there.
    fn file(&self, step: &Step, change: Change, from: Option<&Step>) -> Option<Condition> {
        let of_name = |found, change| {
            Some(Condition { is_passed: true, ..Condition::new(name(Thing::Inode, step), found, change) })
        };
        match (change, self.inode) {
            (Change::Nothing, Some(inode)) => of_name(Found::Exactly(inode), Change::Nothing),
            (Change::Nothing, None) => None,
            // It has another name from now on.
            (Change::To(NOTHING), _) if self.call.effect == Effect::Rename => of_name(Found::Anything, Change::Unknown),
            (Change::To(NOTHING), _) => of_name(Found::Anything, Change::To(NOTHING)),
            // Of a file that goes away from there, and leaves another.
            (Change::To(FILE), _) if renames(self.call, &self.args, libc::RENAME_WHITEOUT) => {
                of_name(Found::Anything, Change::Unknown)
            }
            (_, Some(inode)) => of_name(Found::Anything, Change::To(inode)),
            (_, None) => {
                let moved = |from| Change::Like(name(Thing::Inode, from));
                of_name(Found::Anything, from.map_or(Change::Unknown, moved))
            }
        }
    }
}

/// Descriptors at which paths begin.
fn starts<'a>(call: &'a Call, args: &'a [u64; 6]) -> impl Iterator<Item = u64> + 'a {
    let all =
        call.args.iter().zip(args).filter(|(arg, fd)| arg.kind == ArgKind::Dirfd && **fd as i32 != libc::AT_FDCWD);
    all.map(|(_, fd)| *fd)
}

fn is_directory(mode: u32) -> bool {
    mode & libc::S_IFMT == libc::S_IFDIR
}

/// Whether what is known of a path ends before the path does, though its last known name stands.
fn is_cut_short((steps, is_last): &Path) -> bool {
    !is_last && steps.last().is_some_and(|step| matches!(step.stands, Stands::Directory | Stands::Something))
}

/// What stood on the way: a directory, or a link to one.
fn went_through(step: &Step) -> Found {
    if step.stands == Stands::Directory { Found::Directory } else { Found::Something }
}

fn last((steps, is_last): &Path) -> Option<&Step> {
    steps.last().filter(|_| *is_last)
}

fn number(stands: Stands) -> Option<u64> {
    match stands {
        Stands::Unknown => None,
        Stands::Nothing => Some(NOTHING),
        Stands::Something => Some(SOMETHING),
        Stands::Directory => Some(DIRECTORY),
        Stands::File => Some(FILE),
    }
}

fn name(kind: Thing, step: &Step) -> u64 {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    thing(kind, step.directory.into(), step.name.iter().fold(0xcbf2_9ce4_8422_2325, hash))
}

fn step_is(step: &Step, found: Found, change: Change) -> Condition {
    let known = Some(number(step.stands));
    Condition { known, is_passed: true, ..Condition::new(name(Thing::Name, step), found, change) }
}

/// Whether a call renames in such a way.
fn renames(call: &Call, args: &[u64; 6], way: u32) -> bool {
    call.flags_arg(FlagSet::Rename).is_some_and(|i| args[i] & u64::from(way) != 0)
}
