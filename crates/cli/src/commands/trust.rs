//! How far the response times of a replay can be trusted: by the stored validation of this machine.

use reprise_measure::{CallTimes, ReplayTimes};
use reprise_replay::run::ReplayResult;
use reprise_validate::{Known, Nothing, Replayed, TIMES_APART, nearest, state_directory, stored};
use serde_json::{Value, json};

/// Calls that are told: those with most time.
const FEW_CALLS: usize = 4;

/// What is known of a replay's calls.
pub(super) struct Trust {
    /// The call with its mean response time, and what is known.
    calls: Vec<(String, f64, Result<Known, Nothing>)>,
    /// What its confinement added to each call, which the replays of a validation go without, in nanoseconds.
    list_ns: f64,
    /// Why the store tells nothing, if it cannot be read.
    trouble: Option<String>,
}

impl Trust {
    /// Looks a replay up.
    pub fn of(result: &ReplayResult, times: &ReplayTimes) -> Trust {
        let (known, trouble) = match state_directory().map(|directory| stored(&directory)) {
            None => (Vec::new(), None),
            Some(Ok(known)) => (known, None),
            Some(Err(error)) => (Vec::new(), Some(error.to_string())),
        };
        let instrument = format!("{} {} {}", result.order, result.pace, result.executor);
        let caches = Some(result.cache.start.words()).filter(|words| ["cold", "warm"].contains(words));
        let look = |of: &CallTimes| {
            let mean_ns = of.replay.mean_ns;
            let replayed = Replayed {
                instrument: &instrument,
                file_system: &result.file_system,
                caches,
                memory_bytes: result.cache.limit_bytes,
                threads: u32::try_from(result.threads).unwrap_or(u32::MAX),
                call: &of.call,
                mean_ns,
            };
            (of.call.clone(), mean_ns, nearest(&known, &replayed).cloned())
        };
        let list_ns = result.cost.map_or(0.0, |cost| cost.list_ns as f64);
        Trust { calls: times.calls.iter().take(FEW_CALLS).map(look).collect(), list_ns, trouble }
    }

    /// The standard uncertainty of a mean of which this is known: what was validated, and what the confinement adds, if any.
    fn u_c_ns(&self, mean_ns: f64, known: &Known) -> f64 {
        (mean_ns * known.u_c).hypot(self.list_ns)
    }

    /// A line or a few.
    pub fn text(&self) -> String {
        if let Some(trouble) = &self.trouble {
            return format!("  uncertainty of response times: not known: {trouble}\n");
        }
        if self.calls.iter().all(|(_, _, known)| *known == Err(Nothing::NotValidated)) {
            return "  uncertainty of response times: not known here; `reprise validate` finds it for such replays\n"
                .into();
        }
        let line = |(call, mean_ns, known): &(String, f64, Result<Known, Nothing>)| {
            let u_c_ns = known.as_ref().map_or(0.0, |known| self.u_c_ns(*mean_ns, known));
            line(call, *mean_ns, u_c_ns, known)
        };
        self.calls.iter().map(line).collect()
    }

    /// The same for programs; `null` where nothing is known.
    pub fn document(&self) -> Value {
        let calls = self.calls.iter().map(|(call, mean_ns, known)| {
            let u_c_ns = known.as_ref().ok().map(|known| self.u_c_ns(*mean_ns, known));
            json!({"call": call, "mean_ns": mean_ns, "u_c_ns": u_c_ns, "validated": known.as_ref().ok()})
        });
        calls.collect()
    }
}

/// Of one call: what is known, or why nothing is.
fn line(call: &str, mean_ns: f64, u_c_ns: f64, known: &Result<Known, Nothing>) -> String {
    let duration = |ns: f64| reprise_report::duration(ns as u64);
    let mean = duration(mean_ns);
    match known {
        Ok(k) => {
            let degrees = k.degrees.map_or(String::new(), |degrees| format!(", {degrees:.0} degrees of freedom"));
            let instant = reprise_report::date(k.when_ns);
            let day = instant.split(' ').next().unwrap_or_default();
            format!(
                "  {call}: mean {mean}, u_c {} ({:.1} %), as validated by {} of {} threads, caches {}, pause {} µs ({} runs{degrees}, {day})\n",
                duration(u_c_ns),
                100.0 * u_c_ns / mean_ns.max(1.0),
                k.workload,
                k.level,
                k.caches,
                k.pause_us,
                k.runs,
            )
        }
        Err(Nothing::NotValidated) => format!("  {call}: mean {mean}, u_c not known here\n"),
        Err(Nothing::OtherState) => {
            format!(
                "  {call}: mean {mean}, u_c not known: validated with other caches or another limit of memory only\n"
            )
        }
        Err(Nothing::OtherTimes(other)) => format!(
            "  {call}: mean {mean}, u_c not known for such times: validated at {}, more than {TIMES_APART} times off\n",
            duration(*other)
        ),
    }
}
