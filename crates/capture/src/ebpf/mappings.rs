//! What a process that runs already has mapped of files.
//!
//! Goals: which file lies where, and what it is, also if nobody has it open. Non-goals: programs and libraries, of which only is said
//! where they lie; what changes meanwhile (the finisher follows the calls).

use std::fs;

use reprise_trace::Name;

use super::present;
use crate::spool::{BeganDescriptor, BeganMapping, code};

/// The mappings of a process, and the files of those that hold data.
pub fn look(pid: i32) -> (Vec<BeganMapping>, Vec<BeganDescriptor>) {
    let mut mappings = of_process(pid);
    let mut held: Vec<BeganDescriptor> = Vec::new();
    let code = code(&mappings);
    for mapping in mappings.iter_mut().filter(|mapping| mapping.is_data(&code)) {
        let file = present::file(pid, &link(mapping)).filter(|file| file.mode & libc::S_IFMT == libc::S_IFREG);
        let Some(file) = file else { continue };
        // As `stat` tells it: the kernel's own number of a device is another one on some file systems.
        (mapping.device, mapping.inode) = (file.device, file.inode);
        if !held.iter().any(|known| (known.device, known.inode) == (file.device, file.inode)) {
            held.push(file);
        }
    }
    (mappings, held)
}

/// The link below `/proc/PID` to the file of a mapping.
pub fn link(mapping: &BeganMapping) -> String {
    format!("map_files/{:x}-{:x}", mapping.begin, mapping.end)
}

/// The mappings of files of a process.
fn of_process(pid: i32) -> Vec<BeganMapping> {
    let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.split(|b| *b == b'\n').filter_map(mapping).collect()
}

/// A line of `/proc/PID/maps`, if it maps a file.
fn mapping(line: &[u8]) -> Option<BeganMapping> {
    let mut words = line.split(|b| *b == b' ').filter(|word| !word.is_empty());
    let mut word = || std::str::from_utf8(words.next()?).ok();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (begin, end) = word()?.split_once('-')?;
    let rights = word()?.as_bytes();
    let offset = hex(word()?)?;
    let (major, minor) = word()?.split_once(':')?;
    let inode = word()?.parse().ok().filter(|inode| *inode != 0)?;
    let path = line.iter().position(|b| *b == b'/').map_or(&[][..], |at| &line[at..]);
    let protection = [(libc::PROT_READ, b'r'), (libc::PROT_WRITE, b'w'), (libc::PROT_EXEC, b'x')];
    let protection = protection.iter().filter(|(_, right)| rights.contains(right)).map(|(bit, _)| *bit as u32).sum();
    Some(BeganMapping {
        begin: hex(begin)?,
        end: hex(end)?,
        protection,
        shared: rights.contains(&b's'),
        offset,
        device: libc::makedev(hex(major)? as u32, hex(minor)? as u32),
        inode,
        path: Name::from(path).to_text(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read() {
        let line = b"7f00-8f00 rw-s 00001000 08:01 77     /tmp/a file with spaces";
        let found = mapping(line).expect("a mapping");
        assert_eq!((found.begin, found.end, found.offset, found.inode), (0x7f00, 0x8f00, 0x1000, 77));
        assert_eq!((found.protection, found.shared), ((libc::PROT_READ | libc::PROT_WRITE) as u32, true));
        assert_eq!((found.device, found.path.as_str()), (libc::makedev(8, 1), "/tmp/a file with spaces"));
        for nothing in ["7f00-8f00 rw-p 00000000 00:00 0 ", "7f00-8f00 rw-p 00000000 00:00 0 [stack]", "", "x"] {
            assert_eq!(mapping(nothing.as_bytes()), None, "{nothing}");
        }
    }
}
