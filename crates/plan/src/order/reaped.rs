//! Processes that have ended and were waited for: all that they did came before the wait.
//!
//! Goal: sets of the latest actions stay as large as the number of threads that live. Whoever needs an action of such a
//! process may as well need the wait, which needs all ends of the process's threads. Non-goals: threads of a process that
//! goes on, processes that nobody waits for: their actions stay.

use super::needs::Point;

/// How far a chain of waits is followed: who waited may have been waited for.
const LONGEST: usize = 8;

/// Who waited for whom.
#[derive(Debug, Default)]
pub(super) struct Reaped {
    /// By thread that has ended: its process.
    ended: Vec<Option<u32>>,
    /// By process: the wait.
    waits: Vec<Option<Point>>,
}

fn put<T>(list: &mut Vec<Option<T>>, at: u32, value: T) {
    let at = at as usize;
    if list.len() <= at {
        list.resize_with(at + 1, || None);
    }
    list[at] = Some(value);
}

impl Reaped {
    pub fn ended(&mut self, thread: u32, process: u32) {
        put(&mut self.ended, thread, process);
    }

    pub fn waited(&mut self, process: u32, wait: Point) {
        put(&mut self.waits, process, wait);
    }

    /// A point that comes after this one, of a thread that lives if there is one. When the given one completed still holds.
    pub fn later(&self, point: Point) -> Point {
        let mut later = point;
        for _ in 0..LONGEST {
            let process = self.ended.get(later.thread as usize).copied().flatten();
            let Some(wait) = process.and_then(|p| self.waits.get(p as usize).copied().flatten()) else { break };
            later = wait;
        }
        Point { end_ns: point.end_ns, ..later }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_did_is_before_the_wait_for_it() {
        let point = |thread, count, end_ns| Point { thread, count, end_ns };
        let mut reaped = Reaped::default();
        reaped.ended(5, 3);
        assert_eq!(reaped.later(point(5, 1, 7)), point(5, 1, 7));
        reaped.waited(3, point(2, 9, 90));
        assert_eq!(reaped.later(point(5, 1, 7)), point(2, 9, 7));
        reaped.ended(2, 1);
        reaped.waited(1, point(0, 4, 99));
        assert_eq!(reaped.later(point(5, 1, 7)), point(0, 4, 7));
        assert_eq!(reaped.later(point(6, 1, 7)), point(6, 1, 7));
    }
}
