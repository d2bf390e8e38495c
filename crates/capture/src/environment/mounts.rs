//! `/proc/self/mountinfo`.

use std::fs;

use reprise_trace::{Mount, Name};

use crate::procfs::unescaped;

/// All mounts that this process sees.
pub(super) fn mounts() -> Vec<Mount> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|b| *b == b'\n').filter_map(mount).collect()
}

/// One line: `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/root rw,errors=continue`.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|b| *b == b' ');
    let mut word = || words.next();
    let (mount, parent) = (number(word()?)?, number(word()?)?);
    let device = device(std::str::from_utf8(word()?).ok()?)?;
    let (root, point, options) = (name(word()?), name(word()?), text(word()?));
    // Optional fields, up to a dash.
    while word()? != b"-" {}
    let (kind, source) = (text(word()?), name(word()?));
    let file_system_options = text(word()?);
    Some(Mount { mount, parent, device, root, point, kind, source, options, file_system_options })
}

fn number(word: &[u8]) -> Option<u32> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// `254:0`, as `stat` gives it.
pub(super) fn device(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.trim().parse().ok()?))
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

fn name(word: &[u8]) -> Name {
    Name(unescaped(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_everything() {
        let line =
            br"36 35 254:17 /a\040b /mnt/x\134y rw,noatime master:1 shared:2 - ext4 /dev/root rw,errors=continue";
        let found = mount(line).expect("a mount");
        assert_eq!((found.mount, found.parent, found.device), (36, 35, libc::makedev(254, 17)));
        assert_eq!((&found.root.0[..], &found.point.0[..]), (&b"/a b"[..], &br"/mnt/x\y"[..]));
        assert_eq!((&found.kind[..], &found.source.0[..]), ("ext4", &b"/dev/root"[..]));
        assert_eq!((&found.options[..], &found.file_system_options[..]), ("rw,noatime", "rw,errors=continue"));
    }

    #[test]
    fn what_is_no_mount_is_none() {
        for line in ["", "36", "36 35 x:0 / / rw - a b c", "36 35 1:0 / / rw shared:1", "36 35 1:0 / / rw - ext4"] {
            assert_eq!(mount(line.as_bytes()), None, "{line}");
        }
    }
}
