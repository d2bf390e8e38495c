//! Sizes: counted in classes that are powers of two.

use serde::Serialize;

/// Numbers of sizes, by power of two.
#[derive(Debug, Clone, Default)]
pub struct Sizes {
    /// Zero, then [2^n, 2^(n+1)).
    classes: Vec<u64>,
}

/// One class of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SizeClass {
    /// Least size in it, in bytes: 0 or a power of two.
    pub from_bytes: u64,
    /// Greatest size in it, in bytes.
    pub to_bytes: u64,
    /// How many there were.
    pub count: u64,
}

impl Sizes {
    /// Counts a size in bytes.
    pub fn add(&mut self, bytes: u64) {
        let class = bytes.checked_ilog2().map_or(0, |n| n as usize + 1);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, 0);
        }
        self.classes[class] += 1;
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// The classes that are not empty, ascending.
    pub fn classes(&self) -> Vec<SizeClass> {
        let bounds = |class: usize| match class {
            0 => (0, 0),
            n => (1 << (n - 1), u64::MAX >> (64 - n)),
        };
        let counted = self.classes.iter().enumerate().filter(|(_, count)| **count > 0);
        counted
            .map(|(class, &count)| {
                let (from_bytes, to_bytes) = bounds(class);
                SizeClass { from_bytes, to_bytes, count }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_what_was_counted() {
        for size in [0, 1, 2, 3, 4095, 4096, 4097, u64::MAX] {
            let mut sizes = Sizes::default();
            sizes.add(size);
            let classes = sizes.classes();
            assert_eq!(classes.len(), 1);
            assert!(classes[0].from_bytes <= size && size <= classes[0].to_bytes);
        }
    }
}
