//! What else happened on the machine during a run.
//!
//! Goals: disturbances told by what others took, not by what the run itself does (which may well keep processors busy and
//! storage waiting). Non-goals: leaving runs out.

use std::fs;

use serde::Serialize;

/// Processor time of others, as a share of the machine's, beyond which a run was disturbed.
const OTHERS_SHARE: f64 = 0.05;
/// Processor time that the host kept, likewise.
const STEAL_SHARE: f64 = 0.01;
/// What the kernel counts processor time in: USER_HZ, 100 on every Linux machine.
const TICK_NS: f64 = 1e7;
/// With less time than this, shares say nothing: the kernel counts in steps of 10 ms.
const LEAST_NS: f64 = 1e8;

/// Totals since the machine was booted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Totals {
    busy: f64,
    steal: f64,
    all: f64,
    own: f64,
    switches: f64,
    io_some_ns: f64,
    memory_some_ns: f64,
}

/// What happened during a run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Conditions {
    /// Processor time that other programs took, by that of the machine; `None` of a run too short to tell.
    pub others_share: Option<f64>,
    /// Processor time that the host gave to others.
    pub steal_share: Option<f64>,
    /// Context switches of the machine.
    pub context_switches: u64,
    /// Time in which some thread waited for storage, the run's own included (PSI).
    pub io_some_ns: u64,
    /// Time in which some thread waited for memory, likewise.
    pub memory_some_ns: u64,
}

/// Why a run counts as disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// Other programs used the processors.
    OtherPrograms,
    /// The host gave the processors to others.
    Steal,
    /// Memory was short.
    MemoryPressure,
}

impl Totals {
    /// Now; what a machine does not tell is 0.
    pub fn now() -> Totals {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = |name: &str| {
            let line = stat.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().map(|n| n.parse().unwrap_or(0.0)).collect::<Vec<f64>>()
        };
        let cpu = line("cpu ");
        let at = |i: usize| cpu.get(i).copied().unwrap_or(0.0);
        // user, nice, system, idle, iowait, irq, softirq, steal
        let busy = at(0) + at(1) + at(2) + at(5) + at(6);
        Totals {
            busy,
            steal: at(7),
            all: busy + at(3) + at(4) + at(7),
            own: own_ticks(),
            switches: line("ctxt ").first().copied().unwrap_or(0.0),
            io_some_ns: pressure("io"),
            memory_some_ns: pressure("memory"),
        }
    }

    /// What happened since.
    pub fn since(self, before: Totals) -> Conditions {
        let all = self.all - before.all;
        let known = all * TICK_NS >= LEAST_NS;
        let share = |ticks: f64| known.then(|| (ticks / all).clamp(0.0, 1.0));
        let others = (self.busy - before.busy) - (self.own - before.own);
        Conditions {
            others_share: share(others),
            steal_share: share(self.steal - before.steal),
            context_switches: (self.switches - before.switches).max(0.0) as u64,
            io_some_ns: (self.io_some_ns - before.io_some_ns).max(0.0) as u64,
            memory_some_ns: (self.memory_some_ns - before.memory_some_ns).max(0.0) as u64,
        }
    }
}

impl Conditions {
    /// Why the run counts as disturbed, if it does.
    pub fn disturbances(&self) -> Vec<Disturbance> {
        let mut out = Vec::new();
        if self.others_share > Some(OTHERS_SHARE) {
            out.push(Disturbance::OtherPrograms);
        }
        if self.steal_share > Some(STEAL_SHARE) {
            out.push(Disturbance::Steal);
        }
        if self.memory_some_ns > 1_000_000 {
            out.push(Disturbance::MemoryPressure);
        }
        out
    }
}

/// Processor time of this process and of its children that ended.
fn own_ticks() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may hold anything; what follows its bracket are numbers: utime, stime, cutime and cstime from the 12th on.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().skip(11).take(4).map(|n| n.parse().unwrap_or(0.0)).sum()
}

/// Total of `some`, in nanoseconds.
fn pressure(what: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/pressure/{what}")).unwrap_or_default();
    let some = text.lines().find(|line| line.starts_with("some")).unwrap_or_default();
    let total = some.rsplit_once("total=").and_then(|(_, us)| us.trim().parse::<f64>().ok());
    total.unwrap_or(0.0) * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_work_is_no_disturbance_and_that_of_others_is() {
        let totals = |busy, own, all| Totals { busy, own, all, ..Totals::default() };
        let before = totals(1000.0, 500.0, 9000.0);
        let alone = totals(1100.0, 600.0, 9200.0).since(before);
        assert_eq!((alone.others_share, alone.disturbances()), (Some(0.0), vec![]));
        let disturbed = totals(1120.0, 600.0, 9200.0).since(before);
        assert_eq!(disturbed.disturbances(), [Disturbance::OtherPrograms]);
        // Ten milliseconds of two processors tell nothing.
        assert_eq!(totals(1001.0, 500.0, 9002.0).since(before).others_share, None);
        let stolen = Totals { steal: 10.0, ..totals(1100.0, 600.0, 9200.0) }.since(before);
        assert_eq!(stolen.disturbances(), [Disturbance::Steal]);
    }
}
