//! Open files that a segment tells of in full, to which later records in brief refer.
//!
//! Goals: one look at each record, in the order of the segment; any reference gives an open file or none. Non-goals: what
//! other segments tell.

use super::layout::{self, OBJECT_AGAIN, kind};
use super::record::{Cursor, Head, Object, brief_object};

/// What a segment has told so far.
#[derive(Debug, Default)]
pub struct Told(Vec<Object>);

impl Told {
    /// A segment begins.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes in what a record tells in full, if it does.
    pub fn note(&mut self, head: &Head, body: &[u8]) {
        if head.kind != kind::BRIEF {
            return;
        }
        let Some((fields, object)) = body.split_at_checked(size_of::<layout::BriefBody>()) else { return };
        let named = fields[std::mem::offset_of!(layout::BriefBody, object)];
        if named != 0 && named & OBJECT_AGAIN == 0 {
            // A damaged one counts, so that the others keep their numbers.
            self.0.push(brief_object(&mut Cursor(object)).unwrap_or_default());
        }
    }

    /// The open file that a record refers to: all but its size and position may be as they were.
    pub(super) fn again(&self, cursor: &mut Cursor<'_>) -> Option<Object> {
        let (object, moved) = (cursor.u32()?, cursor.u32()?);
        let told = *self.0.get(object as usize)?;
        Some(match moved {
            0 => told,
            _ => Object { size: cursor.u64()?, position: cursor.u64()? as i64, ..told },
        })
    }
}
