//! Addresses that one thread is given while the call of another that freed them is not over.
//!
//! Goals: the call that freed them stands before, and before it what it was found to have been stored there. Non-goals: who asks for
//! certain addresses (`MAP_FIXED`): these need not be free.
//!
//! The kernel frees addresses at the beginning of `munmap`, and pages after that, which lasts.

use std::collections::VecDeque;
use std::ops::Range;

use reprise_calls::Effect;

use super::decode::Pending;
use super::window::Place;
use crate::arguments::failed;
use crate::mapped::space::pages;

/// So many calls, and instants, are remembered.
const LATELY: usize = 256;

/// Addresses that a call was given.
#[derive(Debug)]
struct Given {
    pid: i32,
    at: Range<u64>,
    key_ns: u64,
    end_ns: u64,
}

/// What was given lately, and what was seen to have been stored.
#[derive(Debug, Default)]
pub struct Reused {
    given: VecDeque<Given>,
    /// Places of what was stored, by when it was looked at.
    stored: VecDeque<(u64, Vec<Place>)>,
}

impl Reused {
    /// Before when a call took effect, if addresses that it freed were given to another before it was over. `key_ns`: when it took
    /// effect as far as itself tells.
    pub fn before_ns(&mut self, pending: &Pending, key_ns: u64) -> Option<u64> {
        let begin_ns = pending.action.begin_ns;
        let (freed, given) = moved(pending);
        let is_of = |freed: &Range<u64>, other: &&Given| {
            other.pid == pending.pid
                && other.end_ns > begin_ns
                && other.at.start < freed.end
                && freed.start < other.at.end
        };
        let before =
            freed.and_then(|freed| self.given.iter().filter(|other| is_of(&freed, other)).map(|o| o.key_ns).min());
        let before = before.filter(|before| *before <= key_ns).map(|before| before.saturating_sub(1).max(begin_ns));
        if let Some(at) = given {
            self.given.push_back(Given { pid: pending.pid, at, key_ns, end_ns: pending.end_ns() });
            self.given.drain(..self.given.len().saturating_sub(LATELY));
        }
        before
    }

    /// A page was looked at.
    pub fn stored(&mut self, at_ns: u64, place: Place) {
        match self.stored.back_mut().filter(|(last_ns, _)| *last_ns == at_ns) {
            Some((_, places)) => places.push(place),
            None => self.stored.push_back((at_ns, vec![place])),
        }
        self.stored.drain(..self.stored.len().saturating_sub(LATELY));
    }

    /// What was looked at because a call ended mappings that was over then: it is stamped with the instant before.
    pub fn looked_at_by(&mut self, end_ns: u64) -> Vec<Place> {
        let at = self.stored.iter().position(|(at_ns, _)| at_ns + 1 == end_ns);
        at.and_then(|at| self.stored.remove(at)).map(|(_, places)| places).unwrap_or_default()
    }
}

/// The addresses that a call freed, and those that it was given as the kernel liked.
fn moved(pending: &Pending) -> (Option<Range<u64>>, Option<Range<u64>>) {
    let (args, result) = (&pending.action.args, pending.action.result);
    if failed(result) {
        return (None, None);
    }
    let (at, flags) = (result as u64, args[3]);
    match pending.call.effect {
        Effect::Unmap => (Some(pages(args[0], args[1])), None),
        Effect::Map if flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) as u64 == 0 => {
            (None, Some(pages(at, args[1])))
        }
        Effect::Remap if at != args[0] && flags & libc::MREMAP_DONTUNMAP as u64 == 0 => {
            let is_free = flags & libc::MREMAP_FIXED as u64 == 0;
            (Some(pages(args[0], args[1])), is_free.then(|| pages(at, args[2])))
        }
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use reprise_calls::by_name;
    use reprise_trace::Action;

    use super::*;

    const PAGE: u64 = 4096;

    /// When a call stands, of which process, name, arguments, begin, end and result are given.
    fn key_ns(
        reused: &mut Reused,
        pid: i32,
        name: &str,
        args: [u64; 6],
        (begin_ns, end_ns): (u64, u64),
        result: i64,
    ) -> u64 {
        let mut pending = Pending::of_lane(by_name(name).unwrap(), 0);
        pending.pid = pid;
        let duration_ns = end_ns - begin_ns;
        pending.action = Action { begin_ns, duration_ns, args, result, ..Action::default() };
        reused.before_ns(&pending, end_ns).unwrap_or(end_ns)
    }

    #[test]
    fn who_frees_addresses_goes_before_who_is_given_them() {
        let at = 0x7000_0000u64;
        let shared = [0, 4 * PAGE, 3, libc::MAP_SHARED as u64, 5, 0];
        let freed = [at + PAGE, PAGE, 0, 0, 0, 0];
        let mut reused = Reused::default();
        assert_eq!(key_ns(&mut reused, 1, "mmap", shared, (100, 200), at as i64), 200);
        assert_eq!(key_ns(&mut reused, 1, "munmap", freed, (90, 250), 0), 199);
        // Where it began later than that, it may have been meant for it.
        assert_eq!(key_ns(&mut reused, 1, "munmap", freed, (200, 250), 0), 250);
        // Another process has addresses of its own, and a call that fails frees none.
        assert_eq!(key_ns(&mut reused, 2, "munmap", freed, (90, 250), 0), 250);
        assert_eq!(key_ns(&mut reused, 1, "munmap", freed, (90, 250), -22), 250);
        assert_eq!(key_ns(&mut reused, 1, "munmap", [at + 4 * PAGE, PAGE, 0, 0, 0, 0], (90, 250), 0), 250);
        // What is moved away frees as well.
        let moved = [at, 4 * PAGE, 8 * PAGE, libc::MREMAP_MAYMOVE as u64, 0, 0];
        assert_eq!(key_ns(&mut reused, 1, "mremap", moved, (190, 260), 0x6000_0000), 199);
        assert_eq!(key_ns(&mut reused, 1, "munmap", [0x6000_0000, PAGE, 0, 0, 0, 0], (195, 270), 0), 259);
    }

    #[test]
    fn who_asks_for_certain_addresses_need_not_wait_for_them() {
        let fixed = [0x7000_0000, PAGE, 3, (libc::MAP_SHARED | libc::MAP_FIXED) as u64, 5, 0];
        let mut reused = Reused::default();
        assert_eq!(key_ns(&mut reused, 1, "mmap", fixed, (100, 200), 0x7000_0000), 200);
        assert_eq!(key_ns(&mut reused, 1, "munmap", [0x7000_0000, PAGE, 0, 0, 0, 0], (90, 250), 0), 250);
    }
}
