//! Ends of threads, and when what they had locked was free.
//!
//! A process gives its locks back as its files are closed, after its memory is freed. The kernel tells of its end before that,
//! and of its locks where it had some. Goals: a process that had locks has its place where it gave them back; what its requests
//! come to when it is gone, since the kernel goes on with them, stands before its end. Non-goals: which locks these were
//! ([`super::order`]).

use foldhash::HashMap;

use super::lives::Gone;
use super::queue::Place;
use super::window::Window;
use super::write::What;

/// Where there are so many, those that are long past are forgotten.
const MANY: usize = 1 << 16;
const RECENT_NS: u64 = 1_000_000_000;

/// Ends that may turn out to have been later.
#[derive(Debug, Default)]
pub struct Ends {
    /// Where they wait for their places, by thread.
    places: HashMap<i32, Place>,
    /// When locks were free of threads whose end is not told yet.
    unlocked: HashMap<i32, u64>,
    /// When the latest took effect of what a process had asked for.
    effects: HashMap<i32, u64>,
    /// Where the end of a process has its place whose last thread is gone.
    over: HashMap<i32, u64>,
}

impl Ends {
    /// A number is another thread's from now on.
    pub fn begun(&mut self, tid: i32) {
        self.places.remove(&tid);
        self.unlocked.remove(&tid);
        self.effects.remove(&tid);
        self.over.remove(&tid);
    }

    /// The last thread of a process has ended: its end, as it is to be placed.
    pub fn over(&mut self, pid: i32, gone: Gone) -> Gone {
        let gone = Gone { effects_ns: self.effects.remove(&pid), ..gone };
        if self.over.len() >= MANY {
            self.over.retain(|_, end_ns| end_ns.saturating_add(RECENT_NS) > gone.key_ns());
        }
        self.over.insert(pid, gone.key_ns());
        gone
    }

    /// Something takes effect that a process had asked for; where that has its place, which is before the end of the process.
    pub fn effect_ns(&mut self, pid: i32, effect_ns: u64) -> u64 {
        if let Some(end_ns) = self.over.get(&pid) {
            return effect_ns.min(end_ns.saturating_sub(1));
        }
        let latest = self.effects.entry(pid).or_default();
        *latest = effect_ns.max(*latest);
        effect_ns
    }

    /// A thread has ended; gives its end as it is to be placed, and when its locks were free if that was told before.
    pub fn ended(&mut self, tid: i32, gone: Gone) -> Gone {
        match self.unlocked.remove(&tid) {
            Some(at_ns) => until(gone, at_ns),
            None => gone,
        }
    }

    /// It waits there.
    pub fn waits(&mut self, tid: i32, place: Place) {
        if self.places.len() >= MANY {
            self.places.retain(|_, at| at.key_ns.saturating_add(RECENT_NS) > place.key_ns);
        }
        self.places.insert(tid, place);
    }

    /// Locks of a thread that ends were free at this time: its end, which is to be placed anew.
    pub fn unlocked(&mut self, tid: i32, at_ns: u64, window: &mut Window<What>) -> Option<What> {
        let Some(place) = self.places.remove(&tid) else {
            self.unlocked.insert(tid, at_ns);
            return None;
        };
        let mut what = window.remove(place)?;
        if let What::End { gone, .. } = &mut what {
            **gone = until(**gone, at_ns);
        }
        Some(what)
    }
}

/// An end that lasted until its locks were free.
fn until(gone: Gone, at_ns: u64) -> Gone {
    Gone { end_ns: gone.end_ns.max(at_ns), unlocked_ns: Some(at_ns), ..gone }
}

#[cfg(test)]
mod tests {
    use super::super::queue::{Item, Reach};
    use super::*;

    const GONE: Gone =
        Gone { begin_ns: 10, end_ns: 20, unlocked_ns: None, effects_ns: None, status: 0, asked: None, cpu_ns: 0 };

    fn end(window: &mut Window<What>, tid: i32, gone: Gone) -> Place {
        let what = What::End { tid, pid: tid, gone: Box::new(gone) };
        let (key_ns, begin_ns, end_ns) = (gone.key_ns(), gone.begin_ns, gone.end_ns);
        window.push(Item { key_ns, begin_ns, end_ns, tid, is_ready: true, reach: Reach::All, shown: None, what })
    }

    #[test]
    fn an_end_is_moved_to_where_its_last_lock_is_free() {
        let (mut ends, mut window) = (Ends::default(), Window::default());
        for at_ns in [25, 30] {
            let gone = ends.ended(7, GONE);
            assert_eq!(gone.unlocked_ns, None);
            let place = end(&mut window, 7, gone);
            ends.waits(7, place);
            let Some(What::End { gone, .. }) = ends.unlocked(7, at_ns, &mut window) else {
                panic!("it is still there")
            };
            assert_eq!((gone.end_ns, gone.unlocked_ns), (at_ns, Some(at_ns)));
        }
        assert!(window.pop(true, &mut |_| Default::default()).is_none(), "it was taken out");
    }

    #[test]
    fn what_was_asked_for_stands_before_the_end_of_its_process() {
        let mut ends = Ends::default();
        assert_eq!(ends.effect_ns(7, 15), 15);
        assert_eq!(ends.over(7, GONE).key_ns(), 15, "it came to that as the process ended");
        assert_eq!([ends.effect_ns(7, 12), ends.effect_ns(7, 30), ends.effect_ns(8, 30)], [12, 14, 30]);
        ends.begun(7);
        assert_eq!(ends.effect_ns(7, 30), 30, "it is another process");
    }

    #[test]
    fn locks_may_be_told_of_before_the_end_but_not_before_the_birth() {
        let (mut ends, mut window) = (Ends::default(), Window::default());
        assert!(ends.unlocked(7, 15, &mut window).is_none());
        assert_eq!(ends.ended(7, GONE).unlocked_ns, Some(15));
        ends.unlocked(8, 15, &mut window);
        ends.begun(8);
        assert_eq!(ends.ended(8, GONE).unlocked_ns, None);
    }
}
