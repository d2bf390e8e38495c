//! What a validation says of a replay that it did not see: the most alike of what was validated, or why there is none.
//!
//! u_c is relative. What was found of calls of a microsecond says nothing of calls of sixteen milliseconds, and what was found of
//! full caches nothing of empty ones: there it is better to know nothing.

use crate::store::Known;

/// A mean response time so many times longer or shorter than the validated one is another matter.
pub const TIMES_APART: f64 = 4.0;

/// A replay whose response times are to be judged.
#[derive(Debug, Clone, Copy)]
pub struct Replayed<'a> {
    /// The instrument, as [`crate::Instrument::name`] calls it.
    pub instrument: &'a str,
    /// Its file system.
    pub file_system: &'a str,
    /// The state of the caches before it, if it was brought about.
    pub caches: Option<&'a str>,
    /// The memory it had, if it was limited.
    pub memory_bytes: Option<u64>,
    /// Its threads.
    pub threads: u32,
    /// The call.
    pub call: &'a str,
    /// Its mean response time.
    pub mean_ns: f64,
}

/// Why nothing is known of a replay's response times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Nothing {
    /// No such replay was validated, or not with this call.
    NotValidated,
    /// Only with caches in another state, or with another limit of memory.
    OtherState,
    /// Only with other response times; the nearest is this, in nanoseconds.
    OtherTimes(f64),
}

/// What is known of replays of this kind that is most like this one: of the same instrument, file system, call, state of the caches
/// (where it was brought about) and limit of memory, with a response time of the same magnitude.
///
/// # Errors
/// Says why nothing is.
pub fn nearest<'a>(known: &'a [Known], replayed: &Replayed<'_>) -> Result<&'a Known, Nothing> {
    let is_of_kind = |k: &&Known| {
        k.instrument == replayed.instrument && k.file_system == replayed.file_system && k.call == replayed.call
    };
    let is_in_state =
        |k: &&Known| replayed.caches.is_none_or(|caches| caches == k.caches) && replayed.memory_bytes == k.memory_bytes;
    let apart = |k: &Known| (k.measured_ns / replayed.mean_ns.max(1.0)).ln().abs();
    // A time of another magnitude says less than another number of threads.
    let distance = |k: &Known| apart(k) + 0.1 * (f64::from(k.level) - f64::from(replayed.threads)).abs();
    let of_kind: Vec<&Known> = known.iter().filter(is_of_kind).collect();
    if of_kind.is_empty() {
        return Err(Nothing::NotValidated);
    }
    let in_state: Vec<&Known> = of_kind.into_iter().filter(is_in_state).collect();
    let nearest = |a: &&&Known, b: &&&Known| apart(a).total_cmp(&apart(b));
    let Some(other) = in_state.iter().min_by(nearest).map(|k| k.measured_ns) else {
        return Err(Nothing::OtherState);
    };
    let of_magnitude = in_state.into_iter().filter(|k| apart(k) <= TIMES_APART.ln());
    of_magnitude.min_by(|a, b| distance(a).total_cmp(&distance(b))).ok_or(Nothing::OtherTimes(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(level: u32, measured_ns: f64, caches: &str) -> Known {
        Known {
            instrument: "root afap sync".into(),
            workload: "random-read".into(),
            level,
            pause_us: crate::Micros::default(),
            caches: caches.into(),
            memory_bytes: None,
            file_system: "ext4".into(),
            device: "vda1".into(),
            program: "micro random-read".into(),
            call: "pread64".into(),
            runs: 10,
            reference_ns: measured_ns,
            measured_ns,
            u_c: 0.01,
            degrees: Some(9.0),
            bias: None,
            when_ns: 0,
            history: Vec::new(),
        }
    }

    #[test]
    fn the_most_alike_is_taken_and_what_is_unlike_never() {
        let all = [known(1, 1e3, "warm"), known(2, 1e3, "warm"), known(1, 1e5, "cold")];
        let of = |threads, mean_ns, caches| {
            let instrument = "root afap sync";
            Replayed { instrument, file_system: "ext4", caches, memory_bytes: None, threads, call: "pread64", mean_ns }
        };
        assert_eq!(nearest(&all, &of(2, 1.1e3, Some("warm"))), Ok(&all[1]));
        assert_eq!(nearest(&all, &of(1, 8e4, None)), Ok(&all[2]));
        // Neither other caches, nor another magnitude, nor another limit of memory.
        assert_eq!(nearest(&all[..2], &of(1, 1e3, Some("cold"))), Err(Nothing::OtherState));
        assert_eq!(nearest(&all, &of(1, 1.6e7, Some("cold"))), Err(Nothing::OtherTimes(1e5)));
        assert_eq!(nearest(&all, &of(1, 1e5, Some("warm"))), Err(Nothing::OtherTimes(1e3)));
        let limited = Replayed { memory_bytes: Some(1 << 27), ..of(1, 1e3, None) };
        assert_eq!(nearest(&all, &limited), Err(Nothing::OtherState));
        for other in [
            Replayed { instrument: "temporal afap sync", ..of(1, 1e3, None) },
            Replayed { file_system: "xfs", ..of(1, 1e3, None) },
            Replayed { call: "read", ..of(1, 1e3, None) },
        ] {
            assert_eq!(nearest(&all, &other), Err(Nothing::NotValidated));
        }
    }
}
