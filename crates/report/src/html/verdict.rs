//! The sentence at the top of a report.

use serde::Serialize;

use super::groups::Beside;
use super::side::Side;
use crate::units::{count, counted, duration};

/// What it comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// In a sentence or two.
    pub text: String,
    /// Whether all came to their end, and nothing diverged.
    pub good: bool,
}

/// The verdict on traces: a recording alone, or replays of it.
pub fn verdict(sides: &[Side], beside: Option<&Beside>) -> Verdict {
    let original = sides.iter().find(|s| !s.replay);
    let replays: Vec<&Side> = sides.iter().filter(|s| s.replay).collect();
    match &replays[..] {
        [] => Verdict { text: original.map(recording).unwrap_or_default(), good: true },
        [one] => of_one(one, original),
        several => {
            let took = beside.map(|beside| beside.elapsed(several) + &beside.sentence()).unwrap_or_default();
            let Verdict { text, good } = of_several(several, original);
            Verdict { text: text + &took, good }
        }
    }
}

fn recording(side: &Side) -> String {
    let busiest = side.calls.first().map(|c| {
        let total: u64 = side.calls.iter().map(|c| c.times.total_ns).sum();
        format!(" Of the time in storage calls {} went to {}.", percent(c.times.total_ns, total), c.call)
    });
    format!(
        "{} of {} in {}.{}",
        counted(side.actions, "action"),
        counted(side.threads.len() as u64, "thread"),
        duration(side.elapsed_ns),
        busiest.unwrap_or_default()
    )
}

fn of_one(replay: &Side, original: Option<&Side>) -> Verdict {
    let good = replay.diverged == 0 && replay.ended_early.is_none();
    let did = match (&replay.ended_early, replay.diverged) {
        (Some(how), diverged) => ended_early(how, replay.actions, diverged, original),
        (None, 0) => format!("The replay did the same: {}, none diverged.", counted(replay.actions, "action")),
        (None, diverged) => {
            let actions = counted(replay.actions, "action");
            format!("The replay went differently: {} of {actions} diverged.", count(diverged))
        }
    };
    let far = if replay.ended_early.is_some() { "So far it" } else { "It" };
    let took = match original {
        Some(original) => format!(
            " {far} took {} where the original took {} ({:.2} times), with {:.2} storage calls in flight on average where the original had {:.2}.",
            duration(replay.reached_ns),
            duration(original.reached_ns),
            ratio(replay.reached_ns, original.reached_ns),
            replay.in_flight.mean,
            original.in_flight.mean
        ),
        None => format!(" {far} took {}.", duration(replay.elapsed_ns)),
    };
    Verdict { text: did + &took, good }
}

fn ended_early(how: &str, actions: u64, diverged: u64, original: Option<&Side>) -> String {
    let done = match original.filter(|original| original.actions > 0) {
        Some(original) => {
            let share = 100.0 * ratio(actions, original.actions);
            format!("after {share:.0} %: {} of {}", count(actions), counted(original.actions, "action"))
        }
        None => format!("after {}", counted(actions, "action")),
    };
    let diverged = if diverged == 0 { "none".to_owned() } else { count(diverged) };
    format!("The replay ended early ({how}), {done}, {diverged} diverged.")
}

fn of_several(replays: &[&Side], original: Option<&Side>) -> Verdict {
    let all = replays.len();
    let diverged = replays.iter().filter(|r| r.diverged > 0).count();
    let early: Vec<&str> = replays.iter().filter(|r| r.ended_early.is_some()).map(|r| &*r.name).collect();
    let did = match (diverged, &early[..]) {
        (0, []) => format!("All {all} replays did the same as the original."),
        (0, names) => format!("None of {all} replays diverged, but {} ended early.", names.join(" and ")),
        (n, []) => format!("{n} of {all} replays went differently."),
        (n, names) => format!("{n} of {all} replays went differently, and {} ended early.", names.join(" and ")),
    };
    let far = if early.is_empty() { "" } else { " Compared is what all of them came to." };
    let beside = original.map(|o| format!(" The original took {}.", duration(o.reached_ns)));
    Verdict { text: did + far + &beside.unwrap_or_default(), good: diverged == 0 && early.is_empty() }
}

fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.0} %", 100.0 * ratio(part, whole))
}
