//! Chains of states: a look waits for the last change, a change for the last change and for every look since.
//!
//! Over directory entries this is ROOT's stage and name ordering at once; with nothing but changes it is sequential ordering.

use reprise_model::Touch;

use super::needs::{Needs, Point, Points};
use super::rule::Rule;

#[derive(Debug, Default)]
pub(super) struct Chain {
    changed: Option<Point>,
    /// The last change ended a life.
    removed: bool,
    /// Since the last change.
    looked: Points,
    added: Points,
}

/// The rules that a chain stands for: of what is there, and of what comes after something else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    pub stage: Rule,
    pub name: Rule,
}

impl Names {
    pub fn both(rule: Rule) -> Names {
        Names { stage: rule, name: rule }
    }
}

impl Chain {
    /// Whatever it is, it keeps its place.
    pub fn sequential(&mut self, own: Point, rule: Rule, needs: &mut Needs) {
        if let Some(changed) = self.changed.replace(own) {
            needs.add(changed, rule);
        }
    }

    pub fn touch(&mut self, own: Point, touch: Touch, rules: Names, needs: &mut Needs) {
        let absent = self.removed || touch == Touch::Create;
        let rule = if absent { rules.name } else { rules.stage };
        if let Some(changed) = self.changed {
            needs.add(changed, rule);
        }
        match touch {
            Touch::Look | Touch::Read(..) => {
                needs.all(&self.added, rule);
                self.looked.add_with(own, &needs.reaped);
            }
            Touch::Flush => needs.all(&self.added, rule),
            Touch::Add => {
                needs.all(&self.looked, rule);
                self.added.add_with(own, &needs.reaped);
            }
            Touch::Change | Touch::Create | Touch::Destroy | Touch::Write(..) | Touch::Send(_) | Touch::Receive(_) => {
                needs.all(&self.added, rule);
                needs.all(&self.looked, rule);
                self.added.clear();
                self.looked.clear();
                self.changed = Some(own);
                self.removed = touch == Touch::Destroy;
            }
        }
    }
}
