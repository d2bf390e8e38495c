//! When an action was issued in the trace: what a replay needs to keep the trace's pace, whatever pace is chosen.
//!
//! Goals: think time that hangs on dependencies, not on the clock; two words in a plan, a third where processor time is
//! known. Non-goals: choosing a pace, waiting (that is the engine's).
//!
//! An action that no replay issues (a message from outside, a poll) has the instant of its completion here: what the
//! program waited for outside the replayed world is part of the think time.

/// Flag of [`Timing::encode`]: a word of processor time follows.
const CPU: u8 = 1;
/// Flags: a read that found its pages in memory, and one that did not.
const HIT: u8 = 2;
const MISS: u8 = 4;

/// The traced timing of one action. All zero for an action without any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Instant of issue (of completion, if no replay issues it), since the first action of the trace.
    pub at_ns: u64,
    /// From the latest completion among all dependencies to that instant; 0 if one completed later.
    pub predelay_ns: u64,
    /// Processor time that the thread used since its previous action, if recorded.
    pub cpu_ns: Option<u64>,
    /// Of a read: whether it found its pages in memory, if that is known.
    pub cached: Option<bool>,
}

impl Timing {
    /// The timing of an action issued (or completed) at `at_ns`; `ready_ns` is the latest completion among its
    /// dependencies, `origin_ns` the issue of the trace's first action.
    pub fn of(at_ns: u64, ready_ns: Option<u64>, origin_ns: u64, cpu_ns: Option<u64>) -> Timing {
        Timing {
            at_ns: at_ns.saturating_sub(origin_ns),
            predelay_ns: at_ns.saturating_sub(ready_ns.unwrap_or(origin_ns)),
            cpu_ns,
            cached: None,
        }
    }

    /// Think time that was computation: processor time of the gap, as far as it fell after the dependencies; the whole
    /// predelay where it was not recorded.
    pub fn computing_ns(&self) -> u64 {
        self.cpu_ns.map_or(self.predelay_ns, |cpu| cpu.min(self.predelay_ns))
    }

    /// Appends its words; the flags say which.
    pub(crate) fn encode(&self, words: &mut Vec<u64>) -> u8 {
        words.extend([self.at_ns, self.predelay_ns]);
        self.encode_rest(words)
    }

    /// The same without instants.
    pub(crate) fn encode_rest(&self, words: &mut Vec<u64>) -> u8 {
        words.extend(self.cpu_ns);
        let cached = match self.cached {
            None => 0,
            Some(true) => HIT,
            Some(false) => MISS,
        };
        cached | if self.cpu_ns.is_some() { CPU } else { 0 }
    }

    /// Reads what [`Timing::encode`] wrote.
    #[inline]
    pub(crate) fn decode(flags: u8, words: &mut std::slice::Iter<'_, u64>) -> Option<Timing> {
        let mut next = || words.next().copied();
        let (at_ns, predelay_ns) = (next()?, next()?);
        Timing::decode_rest(at_ns, predelay_ns, flags, words)
    }

    /// Reads what [`Timing::encode_rest`] wrote.
    #[inline]
    pub(crate) fn decode_rest(
        at_ns: u64,
        predelay_ns: u64,
        flags: u8,
        words: &mut std::slice::Iter<'_, u64>,
    ) -> Option<Timing> {
        let cpu_ns = if flags & CPU != 0 { Some(words.next().copied()?) } else { None };
        let cached = match flags & !CPU {
            0 => None,
            HIT => Some(true),
            MISS => Some(false),
            _ => return None,
        };
        Some(Timing { at_ns, predelay_ns, cpu_ns, cached })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_time_begins_with_the_last_dependency() {
        // Ready at 100, issued at 130; the trace began at 10.
        let t = Timing::of(130, Some(100), 10, Some(12));
        assert_eq!((t.at_ns, t.predelay_ns, t.computing_ns()), (120, 30, 12));
        assert_eq!(Timing::of(130, Some(125), 10, Some(12)).computing_ns(), 5);
        // A dependency that was completed while the call lasted.
        assert_eq!(Timing::of(130, Some(145), 10, None).predelay_ns, 0);
        // No dependency: the trace's begin is what it waited for.
        assert_eq!(Timing::of(130, None, 10, None).computing_ns(), 120);
    }

    #[test]
    fn words_come_back() {
        for (cpu_ns, cached) in
            [(None, None), (Some(0), Some(true)), (Some(u64::MAX), Some(false)), (None, Some(false))]
        {
            let timing = Timing { at_ns: 3, predelay_ns: 4, cpu_ns, cached };
            let mut words = Vec::new();
            let flags = timing.encode(&mut words);
            let mut at = words.iter();
            assert_eq!(Timing::decode(flags, &mut at), Some(timing));
            assert_eq!(at.len(), 0);
            assert_eq!(Timing::decode(flags | 8, &mut words.iter()), None);
            assert_eq!(Timing::decode(flags | HIT | MISS, &mut words.iter()), None);
            assert_eq!(Timing::decode(flags, &mut words[..words.len() - 1].iter()), None);
        }
    }
}
