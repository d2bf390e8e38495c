//! What traces are called beside each other.

use std::path::Path;

/// For each the shortest end of its path that no other one has, without `.reprise`.
pub fn distinct(paths: &[&Path]) -> Vec<String> {
    let all: Vec<Vec<String>> = paths.iter().map(|path| parts(path)).collect();
    all.iter()
        .enumerate()
        .map(|(i, own)| {
            let others = all.iter().enumerate().filter(|(j, _)| *j != i);
            let shared = others.map(|(_, other)| ends_alike(own, other)).max().unwrap_or(0);
            own[own.len().saturating_sub(shared + 1)..].join("/")
        })
        .collect()
}

/// Directories and name; what was written to get there (`.`, a slash at the end) tells nothing.
fn parts(path: &Path) -> Vec<String> {
    let mut parts: Vec<String> =
        path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    if let Some(last) = parts.last_mut()
        && let Some(name) = last.strip_suffix(".reprise").filter(|name| !name.is_empty())
    {
        *last = name.to_owned();
    }
    parts
}

fn ends_alike(a: &[String], b: &[String]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_of_a_path_as_tells_it_from_the_others() {
        for (paths, names) in [
            (&["t.reprise", "a/r.reprise"][..], &["t", "r"][..]),
            (&["t.reprise", "x/ext4/r.reprise", "x/xfs/r.reprise/"], &["t", "ext4/r", "xfs/r"]),
            (&["ext4/1/r", "xfs/1/r", "xfs/2/q"], &["ext4/1/r", "xfs/1/r", "q"]),
            (&["r.reprise", "old/r.reprise"], &["r", "old/r"]),
        ] {
            let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
            assert_eq!(distinct(&paths), names);
        }
    }
}
