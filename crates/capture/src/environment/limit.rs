//! The memory limit that the recorded program lives under: that of its control group, or of one above.

use std::fs;
use std::path::Path;

use super::facts::machine_bytes;

/// The hierarchy of v1 for memory, and that of v2: where each is mounted, and the file with the limit.
const HIERARCHIES: [(&str, &str, &str); 2] =
    [("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("", "/sys/fs/cgroup", "memory.max")];

/// The least memory limit that bounds a process (`self`, or its number), in bytes; `None` if it may have all memory.
pub(crate) fn memory_limit_bytes(process: &str) -> Option<u64> {
    let own = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let limits =
        HIERARCHIES.iter().filter_map(|(controller, top, file)| least(Path::new(top), group(&own, controller)?, file));
    limits.min().filter(|bytes| machine_bytes().is_none_or(|all| *bytes < all))
}

/// The path of a group, of lines like `4:memory:/a/b`, in v2 `0::/a/b`.
fn group<'a>(own: &'a str, controller: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

/// The least limit of a group and those above it, as far as they can be seen from here.
fn least(top: &Path, path: &str, file: &str) -> Option<u64> {
    let dir = top.join(path.trim_start_matches('/'));
    let groups = dir.ancestors().take_while(|dir| dir.starts_with(top));
    groups.filter_map(|dir| fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_above_counts() {
        let top = tempfile::tempdir().expect("a directory");
        let inner = top.path().join("a/b");
        fs::create_dir_all(&inner).expect("a directory");
        for (dir, limit) in [(top.path(), "max\n"), (&top.path().join("a"), "1000\n"), (&inner, "2000\n")] {
            fs::write(dir.join("memory.max"), limit).expect("writable");
        }
        let limit = |path| least(top.path(), path, "memory.max");
        assert_eq!((limit("/a/b"), limit("/a"), limit("/")), (Some(1000), Some(1000), None));
        assert_eq!(limit("/not/seen/from/here"), None);
        assert_eq!(group("4:cpu,memory:/x\n0::/y\n", "memory"), Some("/x"));
        assert_eq!(group("4:cpu,memory:/x\n0::/y\n", ""), Some("/y"));
    }
}
