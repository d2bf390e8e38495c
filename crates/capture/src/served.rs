//! Memory whose page faults a program serves itself (`userfaultfd`).
//!
//! Who reads a page of it that is not there waits until a thread of the program has brought it: for ever, if that thread is
//! stopped, or is not let go on before the reader is done. Goals: a recorder that stops threads never waits for one. Non-goals: pages that go
//! away between the look and the reading.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::memory::PAGE;

/// `UFFDIO_REGISTER`: from then on faults in a range are served.
const REGISTER: u32 = 0xc020_aa00;
/// Of an entry of `/proc/PID/pagemap`: the page is in memory, or was taken out of it.
const IS_THERE: u64 = 0b11 << 62;
const ENTRY: usize = 8;
const ENTRIES: usize = 512;

/// Whether any recorded program does: what that is belongs to its memory, which children inherit and others fill, and hardly any does.
static ANY: AtomicBool = AtomicBool::new(false);

/// A program is about to make a call on a file.
pub fn note(call: &str, args: &[u64; 6]) {
    if call == "ioctl" && args[1] as u32 == REGISTER {
        ANY.store(true, Ordering::Relaxed);
    }
}

/// Whether any program serves faults.
pub fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// So many bytes of a range can be read without waiting for the program.
pub fn reach(tid: i32, addr: u64, length: usize) -> usize {
    let end = addr.saturating_add(length as u64);
    let Ok(pages) = File::open(format!("/proc/{tid}/pagemap")) else { return length };
    let mut areas = None;
    let (mut page, last) = (addr / PAGE, end.div_ceil(PAGE));
    let mut entries = [0; ENTRY * ENTRIES];
    while page < last {
        let count = (last - page).min(ENTRIES as u64) as usize;
        let Ok(got @ ENTRY..) = pages.read_at(&mut entries[..ENTRY * count], page * ENTRY as u64) else {
            return length;
        };
        for entry in entries[..got].chunks_exact(ENTRY) {
            let entry = u64::from_le_bytes(std::array::from_fn(|i| entry[i]));
            let at = page * PAGE;
            page += 1;
            if entry & IS_THERE != 0 {
                continue;
            }
            let areas = areas
                .get_or_insert_with(|| areas_of(&fs::read_to_string(format!("/proc/{tid}/smaps")).unwrap_or_default()));
            if areas.iter().any(|&(from, to)| (from..to).contains(&at)) {
                return at.saturating_sub(addr) as usize;
            }
        }
    }
    length
}

/// The areas of a process whose faults are served, as `/proc/PID/smaps` tells of them: those of missing pages (`um`) and of pages
/// that are in the cache only (`ui`).
fn areas_of(smaps: &str) -> Vec<(u64, u64)> {
    let (mut area, mut out) = (None, Vec::new());
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            out.extend(area.filter(|_| flags.split_whitespace().any(|flag| flag == "um" || flag == "ui")));
            continue;
        }
        let range = line.split_whitespace().next().and_then(|word| word.split_once('-'));
        let number = |text| u64::from_str_radix(text, 16).ok();
        area = range.and_then(|(from, to)| Some((number(from)?, number(to)?))).or(area);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_areas_are_told_by_their_flags() {
        let smaps = "7f00-8000 rw-p 00000000 00:00 0\nSize: 4 kB\nVmFlags: rd wr mr um \n\
                     8000-9000 rw-p 00000000 00:00 0  /a-b\nVmFlags: rd wr\n9000-a000 rw-s 00000000 00:00 0\nVmFlags: rd ui\n";
        assert_eq!(areas_of(smaps), [(0x7f00, 0x8000), (0x9000, 0xa000)]);
        assert!(areas_of("VmFlags: um").is_empty());
    }

    #[test]
    fn memory_that_nobody_serves_is_read_as_it_is() {
        let here = [1u8; 3 * PAGE as usize];
        let pid = std::process::id() as i32;
        assert_eq!(reach(pid, here.as_ptr() as u64, here.len()), here.len());
        assert_eq!(reach(pid, 0, 10), 10, "nothing is mapped there, which the reader finds out");
    }
}
