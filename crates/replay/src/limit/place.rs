//! Where a group can be made: the group of this process and those above it, in the hierarchy that has the memory controller.

use std::fs;
use std::path::{Path, PathBuf};

use super::LimitError;

/// The two interfaces of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

impl Version {
    pub fn limit_file(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }

    pub fn peak_file(self) -> &'static str {
        match self {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        }
    }

    /// Has a line `oom_kill N`.
    pub fn kills_file(self) -> &'static str {
        match self {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        }
    }
}

/// A group in which others may be made.
#[derive(Debug)]
pub(super) struct Place {
    pub dir: PathBuf,
    pub version: Version,
    /// Where its hierarchy is mounted.
    top: PathBuf,
}

impl Place {
    /// The least limit of this group and those above it, and the machine's memory.
    pub fn allows_bytes(&self) -> Option<u64> {
        let limits = limits(&self.dir, &self.top, self.version.limit_file());
        limits.map(|(bytes, _)| bytes).chain(machine_bytes()).min()
    }

    /// In v2 a group says which controllers those below it have.
    fn has_memory_below(&self) -> bool {
        let below = || fs::read_to_string(self.dir.join("cgroup.subtree_control")).unwrap_or_default();
        self.version == Version::One || below().split_whitespace().any(|name| name == "memory")
    }
}

/// What the groups from this one up to the top of their hierarchy say in a file, if it is a number.
fn limits<'a>(dir: &'a Path, top: &'a Path, file: &'a str) -> impl Iterator<Item = (u64, PathBuf)> {
    let groups = dir.ancestors().take_while(move |dir| dir.starts_with(top));
    groups.filter_map(move |dir| Some((fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()?, dir.to_owned())))
}

/// The least limit of a kind for this process, and the group that has it.
pub(super) fn least(controller: &str, file: &str) -> Option<(u64, PathBuf)> {
    let (top, own, _) = own(controller).ok()?;
    limits(&own, &top, file).min()
}

/// All memory of the machine.
fn machine_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().trim_end_matches(" kB");
    kib.parse::<u64>().ok()?.checked_mul(1024)
}

/// Where a group with a memory limit can be made, the nearest first.
pub(super) fn places() -> Result<Vec<Place>, LimitError> {
    let (top, own, version) = own("memory")?;
    let groups = own.ancestors().take_while(|dir| dir.starts_with(&top));
    let places = groups.map(|dir| Place { dir: dir.to_owned(), version, top: top.clone() });
    Ok(places.filter(Place::has_memory_below).collect())
}

/// The hierarchy with a controller, in it the group of this process, and the interface.
pub(super) fn own(controller: &str) -> Result<(PathBuf, PathBuf, Version), LimitError> {
    let read = |path: &'static str| {
        fs::read_to_string(path).map_err(|source| LimitError::System {
            doing: "find the control group of this process",
            place: path.into(),
            source,
        })
    };
    let found = find(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?, controller);
    found.ok_or(LimitError::NoController)
}

/// The hierarchy with a controller, and in it the group of this process. If v1 has the controller, v2 has not.
fn find(mounts: &str, own: &str, controller: &str) -> Option<(PathBuf, PathBuf, Version)> {
    let mut unified = None;
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let mut before = before.split(' ').skip(3);
        let (Some(root), Some(top)) = (before.next(), before.next()) else { continue };
        let mut after = after.split(' ');
        let (kind, options) = (after.next(), after.nth(1).unwrap_or_default());
        match kind {
            Some("cgroup") if has(options, controller) => {
                return Some(locate(root, top, group(own, controller)?, Version::One));
            }
            Some("cgroup2") => unified = Some((root, top)),
            _ => {}
        }
    }
    let (root, top) = unified?;
    Some(locate(root, top, group(own, "")?, Version::Two))
}

fn has(list: &str, wanted: &str) -> bool {
    list.split(',').any(|name| name == wanted)
}

/// The path of this process's group, of lines like `4:memory:/a/b`, in v2 `0::/a/b`.
fn group<'a>(own: &'a str, controller: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        has(controllers, controller).then_some(path)
    })
}

/// A container may see only a part of the hierarchy, whose root then is not `/`.
fn locate(root: &str, top: &str, path: &str, version: Version) -> (PathBuf, PathBuf, Version) {
    let top = PathBuf::from(top);
    let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    let own = if below.as_os_str().is_empty() { top.clone() } else { top.join(below) };
    (top, own, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_interfaces_are_found() {
        let one = "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                   31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let (top, own, version) = find(one, "4:memory:/a/b\n0::/c\n", "memory").expect("a hierarchy");
        assert_eq!((top, own), ("/sys/fs/cgroup/memory".into(), "/sys/fs/cgroup/memory/a/b".into()));
        assert_eq!(version, Version::One);
        let two = "31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let (top, own, version) = find(two, "0::/user.slice/x\n", "memory").expect("a hierarchy");
        assert_eq!((top, own), ("/sys/fs/cgroup".into(), "/sys/fs/cgroup/user.slice/x".into()));
        assert_eq!(version, Version::Two);
        // A controller that no hierarchy of v1 has is v2's.
        let (top, ..) = find(one, "4:memory:/a/b\n0::/c\n", "pids").expect("a hierarchy");
        assert_eq!(top, Path::new("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn a_container_sees_a_part() {
        let part = "30 24 0:26 /docker/1f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let own = |path: &str| find(part, &format!("4:memory:{path}\n"), "memory").expect("a hierarchy").1;
        assert_eq!(own("/docker/1f"), Path::new("/sys/fs/cgroup/memory"));
        assert_eq!(own("/docker/1f/in"), Path::new("/sys/fs/cgroup/memory/in"));
        assert_eq!(own("/elsewhere"), Path::new("/sys/fs/cgroup/memory"));
        assert_eq!(find("", "0::/\n", "memory"), None);
    }
}
