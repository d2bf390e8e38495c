//! Stage ordering: uses come after the making and before the removal (ROOT, Table 1).

use reprise_model::Touch;

use super::needs::{Needs, Point, Points};
use super::rule::Rule;

#[derive(Debug, Default)]
pub(super) struct Stage {
    made: Option<Point>,
    used: Points,
}

impl Stage {
    pub fn touch(&mut self, own: Point, touch: Touch, rule: Rule, needs: &mut Needs) {
        if let Some(made) = self.made {
            needs.add(made, rule);
        }
        match touch {
            Touch::Create => self.made = Some(own),
            Touch::Destroy => needs.all(&self.used, rule),
            Touch::Look
            | Touch::Change
            | Touch::Add
            | Touch::Read(..)
            | Touch::Write(..)
            | Touch::Flush
            | Touch::Send(_)
            | Touch::Receive(_) => self.used.add_with(own, &needs.reaped),
        }
    }
}
