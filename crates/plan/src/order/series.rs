//! Sequential ordering: all actions on one thing keep their order.
//!
//! Requests that one thread had in flight are no exception to each other only: the thread itself let them go beside each
//! other, and what it knew of their ends when it submitted the next one is the request's own order (`requests`). To all
//! else they are one step of the series.

use super::needs::{Needs, Point, Points};
use super::rule::Rule;

#[derive(Debug, Default)]
pub(super) struct Series {
    last: Option<Point>,
    requests: Option<Box<Requests>>,
}

/// Requests of one thread, with nothing of others between them.
#[derive(Debug)]
struct Requests {
    submitter: u32,
    before: Points,
    own: Points,
}

impl Series {
    /// Takes the next place; `submitter` is given for an asynchronous request.
    pub fn next(&mut self, own: Point, submitter: Option<u32>, rule: Rule, needs: &mut Needs) {
        let Some(submitter) = submitter else {
            self.last.replace(own).into_iter().for_each(|last| needs.add(last, rule));
            self.requests.take().iter().for_each(|requests| needs.all(&requests.own, rule));
            return;
        };
        match &mut self.requests {
            Some(requests) if requests.submitter == submitter => {
                needs.all(&requests.before, rule);
                requests.own.add(own);
            }
            former => {
                let mut before = Points::default();
                self.last.take().into_iter().for_each(|last| before.add(last));
                former.take().iter().for_each(|requests| before.extend(&requests.own));
                needs.all(&before, rule);
                let mut first = Points::default();
                first.add(own);
                *former = Some(Box::new(Requests { submitter, before, own: first }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_beside_each_other_and_keep_their_place_among_all_else() {
        let mut series = Series::default();
        let mut next = |thread, submitter| {
            let mut needs = Needs::default();
            needs.begin(thread, None);
            series.next(Point { thread, count: 1, end_ns: 0 }, submitter, Rule::FileSequential, &mut needs);
            let waits = needs.finish(&mut Default::default(), false);
            waits.edges.iter().map(|e| e.wait.thread).collect::<Vec<_>>()
        };
        assert!(next(0, None).is_empty());
        assert_eq!(next(1, Some(0)), [0]);
        assert_eq!(next(2, Some(0)), [0]);
        assert_eq!(next(3, Some(9)), [1, 2]);
        assert_eq!(next(4, None), [3]);
        assert_eq!(next(5, None), [4]);
    }
}
