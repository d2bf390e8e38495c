//! Paths that go through what the kernel shows of a process: its descriptors, working and root directory (proc_pid_fd(5),
//! proc_pid_cwd(5), proc_pid_root(5)).
//!
//! Goals: one place that knows these names. Non-goals: which file is meant; links of the program's own that lead there.

/// Which process is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The calling one: what its first thread has.
    Process,
    /// The calling thread.
    Thread,
    /// The process with this number.
    Numbered(i32),
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

/// Links that every `/dev` has, and where each leads.
pub const LINKS_OF_DEV: [(&[u8], &[u8]); 4] = [
    (b"fd", b"/proc/self/fd"),
    (b"stdin", b"/proc/self/fd/0"),
    (b"stdout", b"/proc/self/fd/1"),
    (b"stderr", b"/proc/self/fd/2"),
];

/// The part of a process that a path begins by naming.
pub fn process_path(path: &[u8]) -> Option<ProcessPath<'_>> {
    if let Some(path) = path.strip_prefix(b"/dev/") {
        let (name, rest) = path.split_at(path.iter().position(|b| *b == b'/').unwrap_or(path.len()));
        let (_, target) = LINKS_OF_DEV.iter().find(|(link, _)| *link == name)?;
        return match process_path(target) {
            Some(named) => Some(ProcessPath { rest, ..named }),
            None => descriptor(Whose::Process, rest.strip_prefix(b"/")?),
        };
    }
    let (whose, rest) = shown(path)?;
    if let Some(rest) = rest.strip_prefix(b"/cwd") {
        return whole(whose, Part::Directory, rest);
    }
    if let Some(rest) = rest.strip_prefix(b"/root") {
        return whole(whose, Part::Root, rest);
    }
    descriptor(whose, rest.strip_prefix(b"/fd/")?)
}

/// The process of which a path of `/proc` shows something, and what follows, beginning with a slash.
pub(crate) fn shown(path: &[u8]) -> Option<(Whose, &[u8])> {
    let path = path.strip_prefix(b"/proc/")?;
    let (name, rest) = path.split_at(path.iter().position(|b| *b == b'/')?);
    let whose = match name {
        b"self" => Whose::Process,
        b"thread-self" => Whose::Thread,
        number => Whose::Numbered(std::str::from_utf8(number).ok()?.parse().ok()?),
    };
    Some((whose, rest))
}

fn descriptor(whose: Whose, path: &[u8]) -> Option<ProcessPath<'_>> {
    let (number, rest) = path.split_at(path.iter().take_while(|b| b.is_ascii_digit()).count());
    let fd = std::str::from_utf8(number).ok()?.parse().ok()?;
    whole(whose, Part::Descriptor(fd), rest)
}

/// The name ends where a component does.
fn whole(whose: Whose, part: Part, rest: &[u8]) -> Option<ProcessPath<'_>> {
    (rest.is_empty() || rest.starts_with(b"/")).then_some(ProcessPath { whose, part, rest })
}

/// Whether the target of a link may lead to a part of a process, or to where these stand.
pub fn leads_to_process(target: &[u8]) -> bool {
    target.starts_with(b"/proc/") || target == b"/dev/fd" || process_path(target).is_some()
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
        for other in ["/proc/self/maps", "/proc/a/fd/3", "/proc/fd/3", "/proc/99999999999/cwd", "proc/self/cwd"] {
            assert_eq!(named(other), None, "{other}");
        }
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
