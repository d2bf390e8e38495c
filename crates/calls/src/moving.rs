//! Calls that move content from one descriptor to another inside the kernel: `sendfile`, `copy_file_range`, `splice`.
//!
//! Goals: which of their arguments are the source and the target, and where each begins, read off the rows: an offset cell
//! belongs to the descriptor before it. Non-goals: `tee` and `vmsplice`, which know only pipes.

use crate::vocabulary::{Access, ArgKind, Call, Effect, Struct};

/// One side of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The argument that is its descriptor.
    pub fd: usize,
    /// The argument that may point to the offset where it begins; else, and if that is null, the file's own offset does.
    pub cell: Option<usize>,
}

impl End {
    /// The offset that a call was given, from its input split by argument (`reprise_trace::payload::split`).
    pub fn given(&self, parts: &[Option<&[u8]>; 6]) -> Option<u64> {
        parts[self.cell?]?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

/// Both sides of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Where content comes from.
    pub source: End,
    /// Where it goes.
    pub target: End,
}

/// What a call moves content between, if that is what it does.
pub fn ends(call: &Call) -> Option<Ends> {
    if !matches!(call.effect, Effect::Copy | Effect::Splice) {
        return None;
    }
    let end = |name: &str| {
        let fd = call.args.iter().position(|a| a.name == name && a.kind == ArgKind::Fd(Access::Use))?;
        let is_cell = call.args.get(fd + 1).is_some_and(|a| a.kind == ArgKind::InOut(Struct::OffsetCell));
        Some(End { fd, cell: is_cell.then_some(fd + 1) })
    };
    Some(Ends { source: end("in_fd")?, target: end("out_fd")? })
}

#[cfg(test)]
mod tests {
    use super::{End, Ends, ends};
    use crate::index::{all, by_name};
    use crate::vocabulary::Effect;

    /// Against the prototypes of sendfile(2), copy_file_range(2) and splice(2).
    #[test]
    fn sides_are_those_of_the_man_pages() {
        let of = |name| ends(by_name(name).unwrap()).unwrap();
        let end = |fd, cell| End { fd, cell };
        assert_eq!(of("sendfile"), Ends { source: end(1, Some(2)), target: end(0, None) });
        for name in ["copy_file_range", "splice"] {
            assert_eq!(of(name), Ends { source: end(0, Some(1)), target: end(2, Some(3)) });
        }
    }

    #[test]
    fn every_call_that_moves_content_has_two_sides() {
        for call in all() {
            assert_eq!(ends(call).is_some(), matches!(call.effect, Effect::Copy | Effect::Splice), "{}", call.name);
        }
    }

    #[test]
    fn an_offset_is_given_only_in_a_whole_cell() {
        let parts = [None, Some(&[7, 0, 0, 0, 0, 0, 0, 0][..]), None, Some(&[7][..]), None, None];
        assert_eq!(End { fd: 0, cell: Some(1) }.given(&parts), Some(7));
        assert_eq!(End { fd: 2, cell: Some(3) }.given(&parts), None);
        assert_eq!(End { fd: 0, cell: None }.given(&parts), None);
    }
}
