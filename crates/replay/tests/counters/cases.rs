//! What must hold, upon the counters and parts of the module that this is a part of.

use std::sync::Arc;

use super::counters::{Counter, Counters};
use super::sync::{self, Ordering};
use loom::thread;
use reprise_plan::command::Wait;

fn all(threads: usize) -> Arc<Counters> {
    let counters = Counters::new(threads, true);
    for (number, counter) in counters.iter() {
        counter.tid.store(number + 1, Ordering::SeqCst);
    }
    counters.live.store(threads as u64, Ordering::SeqCst);
    Arc::new(counters)
}

fn own(counters: &Counters, me: u32) -> &Counter {
    counters.get(me).expect("a thread of the model")
}

/// A thread waits for another, then completes an action of its own.
fn wait_for(counters: &Counters, me: u32, thread: u32, count: u64) -> bool {
    let wait = Wait { thread, count, rule: reprise_plan::Rule::Single };
    {
        let awaited = own(counters, thread);
        awaited.completed() >= count || counters.wait(own(counters, me), awaited, wait, &mut || true)
    }
}

fn complete(counters: &Counters, me: u32, count: u64) {
    counters.complete(own(counters, me), count, 0);
}

/// As the engine does it when a thread ends.
fn end(counters: &Counters, me: u32) {
    own(counters, me).tid.store(0, Ordering::SeqCst);
    counters.live.fetch_sub(1, Ordering::SeqCst);
}

pub fn two_wait_for_a_third() {
    let counters = all(3);
    let waiting = [(1, 1), (2, 2)].map(|(me, count)| {
        let counters = Arc::clone(&counters);
        thread::spawn(move || assert!(wait_for(&counters, me, 0, count)))
    });
    complete(&counters, 0, 1);
    complete(&counters, 0, 2);
    waiting.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(counters.sleeping.load(Ordering::SeqCst), 0);
}

pub fn in_turn() {
    let counters = all(2);
    let other = {
        let counters = Arc::clone(&counters);
        thread::spawn(move || {
            assert!(wait_for(&counters, 1, 0, 1));
            complete(&counters, 1, 1);
            assert!(wait_for(&counters, 1, 0, 2));
        })
    };
    complete(&counters, 0, 1);
    assert!(wait_for(&counters, 0, 1, 1));
    complete(&counters, 0, 2);
    other.join().unwrap();
}

pub fn watched() {
    let counters = all(2);
    let threads = [0, 1].map(|me| {
        let counters = Arc::clone(&counters);
        thread::spawn(move || {
            if me == 0 {
                complete(&counters, 0, 1);
                assert!(wait_for(&counters, 0, 1, 1));
            } else {
                assert!(wait_for(&counters, 1, 0, 1));
                complete(&counters, 1, 1);
            }
            end(&counters, me);
        })
    });
    assert_eq!(counters.deadlock(), None);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(counters.deadlock(), None);
}

pub fn stuck_and_stopped() {
    let counters = all(2);
    let threads = [(0, 1), (1, 0)].map(|(me, other)| {
        let counters = Arc::clone(&counters);
        thread::spawn(move || {
            let met = wait_for(&counters, me, other, 1);
            end(&counters, me);
            met
        })
    });
    while counters.deadlock().is_none() {
        thread::yield_now();
    }
    counters.stop.store(1, Ordering::SeqCst);
    while counters.live.load(Ordering::SeqCst) > 0 {
        sync::interrupt_all();
        thread::yield_now();
    }
    assert!(threads.into_iter().all(|t| !t.join().unwrap()), "nobody has what it waited for");
}
