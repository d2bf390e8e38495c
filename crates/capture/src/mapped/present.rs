//! Which pages of a process are there, so that it can have stored to them.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::pages::PAGE;

/// Bits of an entry of `/proc/PID/pagemap`: present, swapped.
const THERE: u64 = 3 << 62;
const ENTRY: u64 = 8;
/// Entries that are read at once.
const AT_ONCE: u64 = 1 << 13;

/// The runs of pages within these addresses, a multiple of pages, that are there; all, if nobody can tell.
pub fn runs(process: i32, at: Range<u64>) -> Vec<Range<u64>> {
    let Ok(pagemap) = File::open(format!("/proc/{process}/pagemap")) else {
        return vec![at];
    };
    let mut out: Vec<Range<u64>> = Vec::new();
    let mut entries = vec![0; (AT_ONCE * ENTRY) as usize];
    let (mut page, end) = (at.start / PAGE, at.end.div_ceil(PAGE));
    while page < end {
        let wanted = ((end - page).min(AT_ONCE) * ENTRY) as usize;
        let got = match pagemap.read_at(&mut entries[..wanted], page * ENTRY) {
            Ok(got @ 8..) => got / ENTRY as usize,
            // Its memory is gone.
            _ => {
                out.push(page * PAGE..at.end);
                break;
            }
        };
        for entry in entries.as_chunks::<8>().0.iter().take(got) {
            let there = page * PAGE..(page + 1) * PAGE;
            if u64::from_le_bytes(*entry) & THERE != 0 {
                match out.last_mut() {
                    Some(last) if last.end == there.start => last.end = there.end,
                    _ => out.push(there),
                }
            }
            page += 1;
        }
    }
    out
}
