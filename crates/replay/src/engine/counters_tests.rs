//! Tests of `counters.rs`, apart from it because loom compiles that file too (`tests/counters`).

use super::counters::{Counters, REMEMBERED};

#[test]
fn completions_are_remembered_exactly_or_not_too_early() {
    let counters = Counters::new(1, true);
    let counter = counters.get(0).expect("a counter");
    let all = 5 * REMEMBERED / 2;
    (1..=all).for_each(|count| counters.complete(counter, count, count * 10));
    for count in 1..=all {
        let found = counter.ended(count);
        let exact = count + REMEMBERED >= all + 2;
        assert!(if exact { found == count * 10 } else { found > count * 10 && found <= all * 10 }, "{count} {found}");
    }
}

#[test]
fn nothing_is_remembered_unless_asked_for() {
    let counters = Counters::new(1, false);
    let counter = counters.get(0).expect("a counter");
    counters.complete(counter, 1, 10);
    assert_eq!(counter.ended(1), 0);
}
