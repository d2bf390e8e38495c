//! The sentence at the top of a report.

use serde::Serialize;

use super::groups::Beside;
use super::side::Side;
use crate::units::{count, duration};

/// What it comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// In a sentence or two.
    pub text: String,
    /// Whether nothing diverged.
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
            let Verdict { text, good } = of_several(several, original);
            Verdict { text: text + &beside.map(Beside::sentence).unwrap_or_default(), good }
        }
    }
}

fn recording(side: &Side) -> String {
    let busiest = side.calls.first().map(|c| {
        let total: u64 = side.calls.iter().map(|c| c.times.total_ns).sum();
        format!(" Of the time in storage calls {} went to {}.", percent(c.times.total_ns, total), c.call)
    });
    format!(
        "{} actions of {} in {}.{}",
        count(side.actions),
        threads(side.threads.len()),
        duration(side.elapsed_ns),
        busiest.unwrap_or_default()
    )
}

fn of_one(replay: &Side, original: Option<&Side>) -> Verdict {
    let good = replay.diverged == 0;
    let did = match good {
        true => format!("The replay did the same: {} actions, none diverged.", count(replay.actions)),
        false => format!(
            "The replay went differently: {} of {} actions diverged.",
            count(replay.diverged),
            count(replay.actions)
        ),
    };
    let took = match original {
        Some(original) => format!(
            " It took {} where the original took {} ({:.2} times), with {:.2} storage calls in flight on average where the original had {:.2}.",
            duration(replay.elapsed_ns),
            duration(original.elapsed_ns),
            ratio(replay.elapsed_ns, original.elapsed_ns),
            replay.in_flight.mean,
            original.in_flight.mean
        ),
        None => format!(" It took {}.", duration(replay.elapsed_ns)),
    };
    Verdict { text: did + &took, good }
}

fn of_several(replays: &[&Side], original: Option<&Side>) -> Verdict {
    let diverged = replays.iter().filter(|r| r.diverged > 0).count();
    let did = match diverged {
        0 => format!("All {} replays did the same as the original.", replays.len()),
        _ => format!("{diverged} of {} replays went differently.", replays.len()),
    };
    let by_time = |r: &&&Side| r.elapsed_ns;
    let ends = replays.iter().min_by_key(by_time).zip(replays.iter().max_by_key(by_time));
    let took = ends.map(|(fastest, slowest)| {
        format!(
            " The fastest was {} with {}, the slowest {} with {}.",
            fastest.name,
            duration(fastest.elapsed_ns),
            slowest.name,
            duration(slowest.elapsed_ns)
        )
    });
    let beside = original.map(|o| format!(" The original took {}.", duration(o.elapsed_ns)));
    Verdict { text: did + &took.unwrap_or_default() + &beside.unwrap_or_default(), good: diverged == 0 }
}

fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.0} %", 100.0 * ratio(part, whole))
}

fn threads(n: usize) -> String {
    if n == 1 { "1 thread".to_owned() } else { format!("{} threads", count(n as u64)) }
}
