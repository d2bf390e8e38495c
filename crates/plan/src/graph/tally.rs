//! Edges by rule: their number and their length in time.

use reprise_trace::{ThreadRow, TraceReader};
use serde::Serialize;

use super::pass::pass;
use crate::compile::CompileError;
use crate::order::{Order, Rule};

/// The edges of one rule.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RuleTally {
    /// The rule's name.
    pub rule: &'static str,
    /// How many edges.
    pub edges: u64,
    /// Those between actions that overlapped in the trace.
    pub overlapping: u64,
    /// Mean time from the end of the first action to the begin of the second; overlapping ones count as 0.
    pub length_ns_mean: u64,
    /// The longest.
    pub length_ns_max: u64,
}

/// All edges of a trace under an ordering.
#[derive(Debug, Clone, Serialize)]
pub struct Tally {
    /// Every rule in force.
    pub order: String,
    /// Number of actions.
    pub actions: u64,
    /// Number of threads.
    pub threads: u64,
    /// By rule; rules without an edge are left out.
    pub rules: Vec<RuleTally>,
    /// All edges between threads.
    pub between_threads: RuleTally,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    edges: u64,
    overlapping: u64,
    total_ns: u128,
    max_ns: u64,
}

impl Sum {
    fn add(&mut self, end_ns: u64, begin_ns: u64) {
        let length = begin_ns.saturating_sub(end_ns);
        self.edges += 1;
        self.overlapping += u64::from(end_ns > begin_ns);
        self.total_ns += u128::from(length);
        self.max_ns = self.max_ns.max(length);
    }

    fn plus(self, other: Sum) -> Sum {
        Sum {
            edges: self.edges + other.edges,
            overlapping: self.overlapping + other.overlapping,
            total_ns: self.total_ns + other.total_ns,
            max_ns: self.max_ns.max(other.max_ns),
        }
    }

    fn finish(self, rule: &'static str) -> RuleTally {
        RuleTally {
            rule,
            edges: self.edges,
            overlapping: self.overlapping,
            length_ns_mean: (self.total_ns / u128::from(self.edges.max(1))) as u64,
            length_ns_max: self.max_ns,
        }
    }
}

/// Counts the edges of a trace.
///
/// # Errors
/// When the trace cannot be read, or contradicts itself.
pub fn tally(trace: &TraceReader, order: Order) -> Result<Tally, CompileError> {
    let mut sums = [Sum::default(); Rule::ALL.len()];
    let threads = trace.count::<ThreadRow>() as usize;
    let mut ends: Vec<Option<u64>> = vec![None; threads];
    let mut started: Vec<Option<u64>> = vec![None; threads];
    let mut actions = 0;
    pass(trace, order, false, &mut |seen| {
        let (thread, begin_ns) = (seen.action.thread as usize, seen.action.begin_ns);
        match (ends[thread], started[thread]) {
            (Some(end_ns), _) => sums[Rule::Thread as usize].add(end_ns, begin_ns),
            (None, Some(end_ns)) => sums[Rule::Spawn as usize].add(end_ns, begin_ns),
            (None, None) => {}
        }
        ends[thread] = Some(seen.action.end_ns());
        if let Some(started) = seen.spawned.and_then(|child| started.get_mut(child as usize)) {
            *started = Some(seen.action.end_ns());
        }
        for edge in &seen.waits.edges {
            sums[edge.wait.rule as usize].add(edge.end_ns, begin_ns);
        }
        actions += 1;
        true
    })?;
    let rules = Rule::ALL.into_iter().zip(sums);
    let between = rules.clone().filter(|(rule, _)| !matches!(rule, Rule::Thread | Rule::Spawn));
    let between = between.fold(Sum::default(), |all, (_, sum)| all.plus(sum));
    Ok(Tally {
        order: order.rules_text(),
        actions,
        threads: threads as u64,
        rules: rules.filter(|(_, sum)| sum.edges > 0).map(|(rule, sum)| sum.finish(rule.name())).collect(),
        between_threads: between.finish("between threads"),
    })
}
