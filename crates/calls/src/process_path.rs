//! Paths that go through what the kernel shows of a process: its descriptors, working and root directory (proc_pid_fd(5),
//! proc_pid_cwd(5), proc_pid_root(5)).
//!
//! Goals: one place that knows these names. Non-goals: which file is meant; links of the program's own that lead there.

/// Which process is meant, or which of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The calling one: what its first thread has.
    Process,
    /// The calling thread.
    Thread,
    /// The process with this number.
    Numbered(i32),
    /// A thread by its number.
    Task {
        /// Number of its process; 0 for the calling one.
        process: i32,
        /// Its own.
        thread: i32,
    },
}

impl Whose {
    /// The process that it is, or that it belongs to.
    fn process(self) -> Whose {
        match self {
            Whose::Thread | Whose::Task { process: 0, .. } => Whose::Process,
            Whose::Task { process, .. } => Whose::Numbered(process),
            Whose::Process | Whose::Numbered(_) => self,
        }
    }

    fn is_thread(self) -> bool {
        matches!(self, Whose::Thread | Whose::Task { .. })
    }

    /// A thread of it.
    fn task(self, thread: i32) -> Option<Whose> {
        match self {
            Whose::Process => Some(Whose::Task { process: 0, thread }),
            Whose::Numbered(process) => Some(Whose::Task { process, thread }),
            Whose::Thread | Whose::Task { .. } => None,
        }
    }
}

/// What of it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A descriptor.
    Descriptor(u32),
    /// Its working directory.
    Directory,
    /// Its root directory.
    Root,
    /// The file that it has mapped at this address.
    Mapped(u64),
}

/// A path that begins with a part of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessPath<'a> {
    /// Of which process.
    pub whose: Whose,
    /// Which part.
    pub part: Part,
    /// What follows, beginning with a slash; empty if the part itself is meant.
    pub rest: &'a [u8],
}

/// A directory of `/proc` on the way to a part of a process: a path may begin in it, which then does not tell. And the memory of a
/// process, which is a file there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// `/proc`.
    All,
    /// `/proc/PID`, or that of a thread.
    Of(Whose),
    /// `/proc/PID/task`.
    Threads(Whose),
    /// `/proc/PID/fd`, or that of a thread.
    Descriptors(Whose),
    /// `/proc/PID/map_files`.
    Mappings(Whose),
    /// `/proc/PID/mem`.
    Memory(Whose),
    /// Any other in that of a process or thread, such as `/proc/PID/ns`.
    Other(Whose),
}

/// Where a name in a directory of `/proc` leads.
enum Step {
    Directory(Shown),
    Part(Whose, Part),
}

impl Shown {
    /// The directory that a path of `/proc` leads to, all the way by directories.
    pub fn at(path: &[u8]) -> Option<Shown> {
        match led(None, path, true) {
            Led::Directory(shown) => Some(shown),
            Led::Part(_) | Led::Elsewhere => None,
        }
    }

    /// The same for whoever has it: what it is of is told by numbers.
    pub fn by_numbers(self, process: i32, thread: i32) -> Shown {
        let whose = |whose| match whose {
            Whose::Process => Whose::Numbered(process),
            Whose::Thread => Whose::Task { process, thread },
            Whose::Task { process: 0, thread } => Whose::Task { process, thread },
            Whose::Numbered(_) | Whose::Task { .. } => whose,
        };
        match self {
            Shown::All => self,
            Shown::Of(of) => Shown::Of(whose(of)),
            Shown::Threads(of) => Shown::Threads(whose(of)),
            Shown::Descriptors(of) => Shown::Descriptors(whose(of)),
            Shown::Mappings(of) => Shown::Mappings(whose(of)),
            Shown::Memory(of) => Shown::Memory(whose(of)),
            Shown::Other(of) => Shown::Other(whose(of)),
        }
    }

    /// Its path; of one that no part of a process is reached from, that of the directory above.
    pub fn path(self) -> Vec<u8> {
        let (of, below) = match self {
            Shown::All => return b"/proc".to_vec(),
            Shown::Of(of) | Shown::Other(of) => (of, ""),
            Shown::Threads(of) => (of, "/task"),
            Shown::Descriptors(of) => (of, "/fd"),
            Shown::Mappings(of) => (of, "/map_files"),
            Shown::Memory(of) => (of, "/mem"),
        };
        let of = match of {
            Whose::Process => "self".to_owned(),
            Whose::Thread => "thread-self".to_owned(),
            Whose::Numbered(process) => process.to_string(),
            Whose::Task { process: 0, thread } => format!("self/task/{thread}"),
            Whose::Task { process, thread } => format!("{process}/task/{thread}"),
        };
        format!("/proc/{of}{below}").into_bytes()
    }

    fn up(self) -> Option<Shown> {
        match self {
            Shown::All | Shown::Memory(_) => None,
            Shown::Of(of) if of.is_thread() => Some(Shown::Threads(of.process())),
            Shown::Of(_) => Some(Shown::All),
            Shown::Threads(of) | Shown::Descriptors(of) | Shown::Mappings(of) | Shown::Other(of) => Some(Shown::Of(of)),
        }
    }

    fn down(self, name: &[u8]) -> Option<Step> {
        Some(Step::Directory(match (self, name) {
            (Shown::Memory(_), _) => return None,
            (_, b"." | b"") => self,
            (_, b"..") => self.up()?,
            (Shown::All, b"self") => Shown::Of(Whose::Process),
            (Shown::All, b"thread-self") => Shown::Of(Whose::Thread),
            (Shown::All, number) => Shown::Of(Whose::Numbered(decimal(number)?)),
            (Shown::Of(of), b"cwd") => return Some(Step::Part(of, Part::Directory)),
            (Shown::Of(of), b"root") => return Some(Step::Part(of, Part::Root)),
            (Shown::Of(of), b"fd") => Shown::Descriptors(of),
            (Shown::Of(of), b"task") if !of.is_thread() => Shown::Threads(of),
            (Shown::Of(of), b"map_files") => Shown::Mappings(of),
            (Shown::Of(of), b"mem") => Shown::Memory(of),
            (Shown::Of(of), b"fdinfo" | b"ns" | b"attr") => Shown::Other(of),
            (Shown::Threads(of), number) => Shown::Of(of.task(decimal(number)?)?),
            (Shown::Descriptors(of), number) => return Some(Step::Part(of, Part::Descriptor(decimal(number)?))),
            (Shown::Mappings(of), range) => return Some(Step::Part(of, Part::Mapped(address(range)?))),
            (Shown::Of(_) | Shown::Other(_), _) => return None,
        }))
    }
}

/// Where a path leads in `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Led<'a> {
    /// Through a part of a process, or to it.
    Part(ProcessPath<'a>),
    /// To a directory from which such parts are reached.
    Directory(Shown),
    /// Neither.
    Elsewhere,
}

/// Links that every `/dev` has, and where each leads.
pub const LINKS_OF_DEV: [(&[u8], &[u8]); 4] = [
    (b"fd", b"/proc/self/fd"),
    (b"stdin", b"/proc/self/fd/0"),
    (b"stdout", b"/proc/self/fd/1"),
    (b"stderr", b"/proc/self/fd/2"),
];

/// The part of a process that an absolute path begins by naming.
pub fn process_path(path: &[u8]) -> Option<ProcessPath<'_>> {
    match led(None, path, true) {
        Led::Part(named) => Some(named),
        Led::Directory(_) | Led::Elsewhere => None,
    }
}

/// Where a path leads that begins, if it is relative, in a directory of `/proc` or in none. A link that is the last name may be
/// meant itself. What the directories there hold beside each other is as it is for all, so that `..` is told by the names alone.
pub fn led(from: Option<Shown>, path: &[u8], follow: bool) -> Led<'_> {
    if path.first() != Some(&b'/') {
        return from.map_or(Led::Elsewhere, |from| below(from, path, follow));
    }
    if let Some(rest) = beneath(path, b"/proc") {
        return below(Shown::All, rest, follow);
    }
    let Some(path) = path.strip_prefix(b"/dev/") else { return Led::Elsewhere };
    let (name, rest) = path.split_at(path.iter().position(|b| *b == b'/').unwrap_or(path.len()));
    match LINKS_OF_DEV.iter().find(|(link, _)| *link == name).map(|(_, target)| led(None, target, true)) {
        Some(_) if rest.is_empty() && !follow => Led::Elsewhere,
        Some(Led::Part(named)) => Led::Part(ProcessPath { rest, ..named }),
        Some(Led::Directory(shown)) => below(shown, rest, follow),
        Some(Led::Elsewhere) | None => Led::Elsewhere,
    }
}

/// The name in the root directory that an absolute path begins with for which [`led`] stands in. With another root than the first one,
/// anything may stand there.
pub fn taken_for_proc(path: &[u8]) -> Option<&[u8]> {
    let name = path.strip_prefix(b"/")?.split(|b| *b == b'/').next()?;
    matches!(name, b"proc" | b"dev").then_some(name)
}

fn below(from: Shown, path: &[u8], follow: bool) -> Led<'_> {
    let (mut here, mut rest) = (from, path);
    while !rest.is_empty() {
        let begin = usize::from(rest[0] == b'/');
        let end = rest[begin..].iter().position(|b| *b == b'/').map_or(rest.len(), |at| begin + at);
        let name = &rest[begin..end];
        rest = &rest[end..];
        let is_link_itself = rest.is_empty() && !follow;
        here = match here.down(name) {
            Some(Step::Part(..)) if is_link_itself => return Led::Elsewhere,
            Some(Step::Part(whose, part)) => return Led::Part(ProcessPath { whose, part, rest }),
            Some(Step::Directory(_)) if is_link_itself && matches!(name, b"self" | b"thread-self") => {
                return Led::Elsewhere;
            }
            Some(Step::Directory(next)) => next,
            None => return Led::Elsewhere,
        };
    }
    Led::Directory(here)
}

/// What follows a directory in a path, beginning with a slash or empty.
fn beneath<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(directory).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The process of which a path of `/proc` shows something, and what follows, beginning with a slash.
pub(crate) fn shown(path: &[u8]) -> Option<(Whose, &[u8])> {
    let path = path.strip_prefix(b"/proc/")?;
    let (name, rest) = path.split_at(path.iter().position(|b| *b == b'/')?);
    match Shown::All.down(name)? {
        Step::Directory(Shown::Of(whose)) => Some((whose, rest)),
        Step::Directory(_) | Step::Part(..) => None,
    }
}

/// The address that a range of addresses begins with.
fn address(range: &[u8]) -> Option<u64> {
    let (begin, _) = std::str::from_utf8(range).ok()?.split_once('-')?;
    u64::from_str_radix(begin, 16).ok()
}

/// A number as the kernel writes it.
fn decimal<N: std::str::FromStr>(name: &[u8]) -> Option<N> {
    let is_digits = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(name).ok().filter(|_| is_digits)?.parse().ok()
}

/// Whether the target of a link may lead to a part of a process, or to where these stand.
pub fn leads_to_process(target: &[u8]) -> bool {
    target.starts_with(b"/proc/") || led(None, target, true) != Led::Elsewhere
}

/// The same path as one that came to a link which leads to a part of a process, from that link on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detour {
    /// The target of the link, and what follows it.
    pub path: Vec<u8>,
    /// Whether the last name is followed if it is a link.
    pub follows: bool,
}

impl Detour {
    /// By a link with this target, which is followed.
    pub fn by(target: Vec<u8>) -> Detour {
        Detour { path: target, follows: true }
    }

    /// These names, if there are any, come behind the link; the last of them is followed or not.
    pub fn go_on<'a>(&mut self, names: impl Iterator<Item = &'a [u8]>, follows: bool) {
        for name in names {
            self.path.push(b'/');
            self.path.extend_from_slice(name);
            self.follows = follows;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_a_part() {
        let named = |path: &'static str| process_path(path.as_bytes()).map(|d| (d.whose, d.part, d.rest));
        let fd = Part::Descriptor;
        assert_eq!(named("/dev/fd/12"), Some((Whose::Process, fd(12), &b""[..])));
        assert_eq!(named("/dev/stderr"), Some((Whose::Process, fd(2), &b""[..])));
        assert_eq!(named("/proc/self/fd/3/a/b"), Some((Whose::Process, fd(3), &b"/a/b"[..])));
        assert_eq!(named("/proc/thread-self/fd/3"), Some((Whose::Thread, fd(3), &b""[..])));
        assert_eq!(named("/proc/17/fd/3"), Some((Whose::Numbered(17), fd(3), &b""[..])));
        assert_eq!(named("/proc/17/cwd"), Some((Whose::Numbered(17), Part::Directory, &b""[..])));
        assert_eq!(named("/proc/self/root/etc"), Some((Whose::Process, Part::Root, &b"/etc"[..])));
        for other in
            ["/dev/fd", "/dev/fd/", "/dev/fd/x", "/dev/fd/3x", "/dev/stderrs", "/proc/self/cwds", "/proc/self/fd"]
        {
            assert_eq!(named(other), None, "{other}");
        }
        assert_eq!(named("/proc/self/map_files/7f00-7f10"), Some((Whose::Process, Part::Mapped(0x7f00), &b""[..])));
        for other in ["/proc/self/maps", "/proc/a/fd/3", "/proc/fd/3", "/proc/99999999999/cwd", "proc/self/cwd"] {
            assert_eq!(named(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_taken_for_proc() {
        for (path, name) in [("/proc/self/fd/3", "proc"), ("/dev/stdin", "dev"), ("/proc", "proc")] {
            assert_eq!(taken_for_proc(path.as_bytes()), Some(name.as_bytes()), "{path}");
        }
        for path in ["proc/self", "/process", "/a/proc", "/", ""] {
            assert_eq!(taken_for_proc(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn what_names_a_part_from_a_directory_there() {
        let from = |from: &str, path: &'static str| match led(Shown::at(from.as_bytes()), path.as_bytes(), true) {
            Led::Part(named) => Some((named.whose, named.part, named.rest)),
            Led::Directory(_) | Led::Elsewhere => None,
        };
        let fd = |n| Part::Descriptor(n);
        assert_eq!(from("/proc/self/fd", "3/new"), Some((Whose::Process, fd(3), &b"/new"[..])));
        assert_eq!(from("/proc", "self//./cwd/"), Some((Whose::Process, Part::Directory, &b"/"[..])));
        assert_eq!(from("/proc/7", "fd/3"), Some((Whose::Numbered(7), fd(3), &b""[..])));
        assert_eq!(from("/proc/7/ns", "../root"), Some((Whose::Numbered(7), Part::Root, &b""[..])));
        assert_eq!(from("/dev/fd", "3"), Some((Whose::Process, fd(3), &b""[..])));
        assert_eq!(
            from("/proc/thread-self", "../8/cwd"),
            Some((Whose::Task { process: 0, thread: 8 }, Part::Directory, &b""[..]))
        );
        assert_eq!(from("/proc/self/fd", "/etc"), None);
        assert_eq!(from("/proc", "../proc/self/cwd"), None);
        assert_eq!(from("/proc/self/net", "cwd"), None);
    }

    #[test]
    fn what_names_a_part_of_a_thread() {
        let named = |path: &'static str| process_path(path.as_bytes()).map(|d| (d.whose, d.part, d.rest));
        let (own, other) = (Whose::Task { process: 0, thread: 8 }, Whose::Task { process: 7, thread: 8 });
        assert_eq!(named("/proc/7/task/8/cwd/y"), Some((other, Part::Directory, &b"/y"[..])));
        assert_eq!(named("/proc/self/task/8/fd/3"), Some((own, Part::Descriptor(3), &b""[..])));
        assert_eq!(named("/proc/self/task/../cwd/z"), Some((Whose::Process, Part::Directory, &b"/z"[..])));
        assert_eq!(named("/proc/thread-self/../../cwd"), Some((Whose::Process, Part::Directory, &b""[..])));
        assert_eq!(named("/dev/fd/../fd/3/../b"), Some((Whose::Process, Part::Descriptor(3), &b"/../b"[..])));
        assert_eq!(named("/proc/self/task/8/task/8/cwd"), None);
        assert_eq!(named("/proc/../proc/self/cwd"), None);
    }

    #[test]
    fn directories_are_told_by_numbers() {
        let by_numbers = |path: &str| Shown::at(path.as_bytes()).map(|shown| shown.by_numbers(7, 8).path());
        for (path, told) in [
            ("/proc", "/proc"),
            ("/proc/self/", "/proc/7"),
            ("/proc/thread-self/fd", "/proc/7/task/8/fd"),
            ("/proc/self/task", "/proc/7/task"),
            ("/proc/self/task/9", "/proc/7/task/9"),
            ("/proc/5/fd", "/proc/5/fd"),
        ] {
            assert_eq!(by_numbers(path).as_deref(), Some(told.as_bytes()), "{path}");
        }
        assert_eq!(led(None, b"/proc/self", false), Led::Elsewhere);
        assert_eq!(led(None, b"/proc/self/", false), Led::Directory(Shown::Of(Whose::Process)));
        assert_eq!(led(None, b"/proc/self/fd/3", false), Led::Elsewhere);
    }

    #[test]
    fn a_link_behind_which_nothing_comes_is_followed() {
        let behind = |names: &[&'static [u8]], follows| {
            let mut detour = Detour::by(b"/proc/self/fd".to_vec());
            detour.go_on(names.iter().copied(), follows);
            (detour.path, detour.follows)
        };
        assert_eq!(behind(&[], false), (b"/proc/self/fd".to_vec(), true));
        assert_eq!(behind(&[b"3"], false), (b"/proc/self/fd/3".to_vec(), false));
        assert_eq!(behind(&[b"3", b"a"], true), (b"/proc/self/fd/3/a".to_vec(), true));
    }

    #[test]
    fn which_links_lead_there() {
        for target in ["/dev/fd", "/dev/fd/3", "/dev/stdin", "/proc/self/fd", "/proc/self/fd/4", "/proc/self/cwd"] {
            assert!(leads_to_process(target.as_bytes()), "{target}");
        }
        assert!(!leads_to_process(b"/dev/fdx") && !leads_to_process(b"fd/3"));
    }
}
