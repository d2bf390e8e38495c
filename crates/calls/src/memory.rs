//! What mappings of files are, by the numbers of `mmap(2)`.

use std::collections::HashSet;
use std::hash::Hash;

/// `MAP_SHARED`, also of `MAP_SHARED_VALIDATE`: stores change the file.
pub const SHARED: u32 = 1;
/// `PROT_WRITE`.
pub const WRITE: u32 = 2;
/// `PROT_EXEC`.
pub const EXECUTE: u32 = 4;

/// The files of a process of which code is mapped, given all that it has mapped with its protection: what is private of these
/// belongs to running a program or a library, and is no data.
pub fn code<F: Eq + Hash>(mapped: impl Iterator<Item = (F, u32)>) -> HashSet<F> {
    mapped.filter(|(_, protection)| protection & EXECUTE != 0).map(|(file, _)| file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_which_code_is_mapped() {
        assert_eq!(code([("a", 1), ("b", 5), ("a", 3), ("c", 4)].into_iter()), HashSet::from(["b", "c"]));
    }
}
