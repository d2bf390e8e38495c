//! What files hold that stands in the spool, told to the programs in the kernel: the writing side of `bpf/known.h`.

use std::sync::atomic::Ordering;

use super::shared::known as at;
use crate::spool::{Known, Passage, Standing};
use crate::sys::Shared;

/// Where all places of a digest are taken, one of so many gives way to another: what is read in turn, and is more than the
/// table holds, would else be told in vain.
const GIVES_WAY: u32 = 8;

/// The table, of which there is one hand that writes.
pub struct Knowns {
    memory: Shared,
    /// How many pages of lines it has.
    pages: u64,
    seed: u64,
    told: u32,
}

impl Knowns {
    /// The table in the memory that is shared; digests begin with `seed`.
    pub fn new(memory: Shared, seed: u64) -> Knowns {
        let pages = memory.bytes() as u64 / (at::LINES * at::BYTES as u64);
        Knowns { memory, pages, seed, told: 0 }
    }

    /// Tells where what a passage holds stands.
    pub fn tell(&mut self, Known { passage, place }: Known) {
        let Standing { file: number, offset } = Standing::from_word(place);
        let Ok(number) = u16::try_from(number) else { return };
        let file = digest_of_file(self.seed, &passage);
        let (digest, base) = (digest(file, &passage), self.line(file, &passage) * at::BYTES);
        let held = |way: usize| self.memory.long(base + at::DIGEST + way * 8);
        let is = |way: &usize, digest: u64| held(*way).load(Ordering::Relaxed) == digest;
        if (0..at::WAYS).any(|way| is(&way, digest)) {
            return;
        }
        let Some(way) = (0..at::WAYS).find(|way| is(way, 0)).or_else(|| self.gives_way()) else {
            self.told += 1;
            return;
        };
        // x86 keeps the order of stores, and the other side takes a place only if the digest stands before and after.
        held(way).store(0, Ordering::Release);
        self.memory.word(base + at::OFFSET + way * 4).store(offset, Ordering::Release);
        self.memory.short(base + at::FILE + way * 2).store(number, Ordering::Release);
        held(way).store(digest, Ordering::Release);
        self.told += 1;
    }

    /// As `line_of` has it.
    fn line(&self, file: u64, passage: &Passage) -> usize {
        let group = match passage.length {
            ..=1024 => passage.offset >> 12,
            1025..=6144 => passage.offset >> 14,
            _ => passage.offset >> 16,
        };
        let page = (mix(file, group / at::LINES) >> 32) % self.pages;
        (page * at::LINES + group % at::LINES) as usize
    }

    fn gives_way(&self) -> Option<usize> {
        self.told.is_multiple_of(GIVES_WAY).then_some((self.told / GIVES_WAY) as usize % at::WAYS)
    }
}

fn mix(digest: u64, word: u64) -> u64 {
    let digest = (digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    digest ^ digest >> 32
}

/// As `digest_of_file` has it.
fn digest_of_file(seed: u64, passage: &Passage) -> u64 {
    mix(mix(seed, passage.inode), u64::from(passage.device) << 32 | u64::from(passage.generation))
}

/// As `digest_of` has it.
fn digest(file: u64, passage: &Passage) -> u64 {
    mix(mix(mix(file, passage.changed_ns), passage.offset), passage.length.into()).max(1)
}
