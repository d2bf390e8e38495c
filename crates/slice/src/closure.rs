//! Which actions of others the chosen ones depend on.

use std::collections::HashSet;

use crate::facts::{Facts, Thing};

/// Why an action is in a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It is not.
    No,
    /// It was asked for.
    Chosen,
    /// A chosen one depends on it.
    Supporting,
}

/// Decides about every action from the first chosen one. `strict` keeps only what a thread cannot exist without. Also returns how many actions
/// were left out that would have been kept otherwise.
pub(crate) fn close(facts: &[Facts], strict: bool) -> (Vec<Kept>, u64) {
    let whole = decide(facts, |_| true);
    if !strict {
        return (whole, 0);
    }
    let least = decide(facts, |thing| matches!(thing, Thing::Thread(_)));
    let missing = whole.iter().zip(&least).filter(|(whole, least)| **whole != Kept::No && **least == Kept::No);
    let missing = missing.count() as u64;
    (least, missing)
}

/// From the last action to the first: what is needed by later ones.
fn decide(facts: &[Facts], counts: impl Fn(&Thing) -> bool) -> Vec<Kept> {
    let mut needed: HashSet<Thing> = HashSet::new();
    let mut kept = vec![Kept::No; facts.len()];
    for (action, kept) in facts.iter().zip(&mut kept).rev() {
        let wanted = action.changes.iter().chain(&action.makes).any(|thing| needed.contains(thing));
        *kept = match (action.chosen, wanted) {
            (true, _) => Kept::Chosen,
            (false, true) => Kept::Supporting,
            (false, false) => continue,
        };
        action.makes.iter().for_each(|thing| _ = needed.remove(thing));
        needed.extend(action.needs.iter().filter(|thing| counts(thing)));
    }
    follow_up(facts, &mut kept);
    kept
}

/// Ends of what is in the slice: descriptors that were made in it or before it, and its threads.
fn follow_up(facts: &[Facts], kept: &mut [Kept]) {
    let threads: HashSet<u32> =
        facts.iter().zip(&*kept).filter(|(_, k)| **k != Kept::No).map(|(f, _)| f.thread).collect();
    let mut foreign: HashSet<u32> = HashSet::new();
    for (action, kept) in facts.iter().zip(kept) {
        let ends = action.exits || action.closes.is_some_and(|binding| !foreign.contains(&binding));
        if *kept == Kept::No && ends && threads.contains(&action.thread) {
            *kept = Kept::Supporting;
        }
        let made = action.makes.iter().filter_map(|thing| match thing {
            Thing::Binding(binding) => Some(*binding),
            _ => None,
        });
        match kept {
            Kept::No => foreign.extend(made),
            // A number that was others' before.
            _ => made.for_each(|binding| _ = foreign.remove(&binding)),
        }
    }
}

#[cfg(test)]
mod tests {
    use reprise_model::Resource;

    use super::*;

    fn fact(thread: u32, chosen: bool, needs: &[Thing], changes: &[Thing], makes: &[Thing]) -> Facts {
        let mut needs = needs.to_vec();
        needs.push(Thing::Thread(thread));
        Facts { thread, chosen, needs, changes: changes.to_vec(), makes: makes.to_vec(), ..Facts::default() }
    }

    #[test]
    fn what_is_depended_on_stays_and_what_came_before_it_was_made_does_not() {
        let file = |node| Thing::Of(Resource::Content(node));
        let (other, file) = (file(9), file(1));
        let (fd, offset) = (Thing::Binding(2), Thing::Of(Resource::Offset(3)));
        let facts = [
            // Another life of the same number.
            fact(1, false, &[], &[fd], &[]),
            fact(1, false, &[], &[file], &[]),
            fact(1, false, &[], &[], &[fd]),
            fact(1, false, &[], &[other], &[]),
            fact(0, true, &[file, fd, offset], &[], &[]),
            // Too late to matter.
            fact(1, false, &[], &[file], &[]),
        ];
        use Kept::*;
        assert_eq!(close(&facts, false), (vec![No, Supporting, Supporting, No, Chosen, No], 0));
        assert_eq!(close(&facts, true), (vec![No, No, No, No, Chosen, No], 2));
    }

    #[test]
    fn a_chosen_thread_is_started() {
        let facts = [
            fact(0, false, &[], &[Thing::Thread(0)], &[]),
            fact(0, false, &[], &[], &[Thing::Thread(1)]),
            fact(0, false, &[], &[Thing::Thread(0)], &[]),
            fact(1, true, &[], &[], &[]),
        ];
        use Kept::*;
        for strict in [false, true] {
            assert_eq!(close(&facts, strict).0, [Supporting, Supporting, No, Chosen]);
        }
    }

    #[test]
    fn what_was_made_in_it_is_closed_in_it_also_where_its_number_was_anothers() {
        let fd = Thing::Binding(2);
        let closes = |facts: Facts| Facts { closes: Some(2), ..facts };
        let facts = [
            fact(0, false, &[], &[], &[fd]),
            closes(fact(0, false, &[], &[], &[])),
            fact(0, false, &[], &[], &[fd]),
            fact(0, true, &[fd], &[], &[]),
            closes(fact(0, false, &[], &[], &[])),
        ];
        use Kept::*;
        assert_eq!(close(&facts, false).0, [No, No, Supporting, Chosen, Supporting]);
    }
}
