//! How fast a replay goes.
//!
//! Goals: one small grammar for the command line, results and manifests. Non-goals: waiting (`engine::pacing`).

use std::fmt;
use std::str::FromStr;

/// The pace of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Pace {
    /// As fast as possible: an action is issued as soon as its dependencies are completed.
    #[default]
    Afap,
    /// Slower than that.
    Paced {
        /// What an action waits for beside its dependencies.
        by: By,
        /// By how much its times are multiplied.
        factor: f64,
    },
}

/// What an action waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The think time of the trace, counted from the completion of the last dependency in the replay.
    Natural,
    /// The same, but only what of it was computation, where that is known.
    Cpu,
    /// The traced instant, counted from the begin of the replay.
    Timestamp,
}

impl By {
    const fn word(self) -> &'static str {
        match self {
            By::Natural => "natural",
            By::Cpu => "cpu",
            By::Timestamp => "timestamp",
        }
    }
}

impl Pace {
    /// Whether it counts from the completion of dependencies.
    pub(crate) fn follows_dependencies(self) -> bool {
        matches!(self, Pace::Paced { by: By::Natural | By::Cpu, .. })
    }
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Pace, String> {
        let unknown =
            || format!("'{text}' is no pace; choose afap, natural, cpu or timestamp, or give a factor: x2, cpu:x0.5");
        if text == "afap" {
            return Ok(Pace::Afap);
        }
        let (word, times) = match text.split_once(':') {
            Some((word, times)) => (word, Some(times)),
            None if text.starts_with('x') => ("natural", Some(text)),
            None => (text, None),
        };
        let by = [By::Natural, By::Cpu, By::Timestamp].into_iter().find(|by| by.word() == word).ok_or_else(unknown)?;
        let factor = match times {
            Some(times) => times.strip_prefix('x').and_then(|f| f.parse::<f64>().ok()).ok_or_else(unknown)?,
            None => 1.0,
        };
        if !(factor > 0.0 && factor <= 1e6) {
            return Err(format!("'{text}': the factor must be above 0 and at most 1000000"));
        }
        Ok(Pace::Paced { by, factor })
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Pace::Afap => f.write_str("afap"),
            Pace::Paced { by, factor: 1.0 } => f.write_str(by.word()),
            Pace::Paced { by: By::Natural, factor } => write!(f, "x{factor}"),
            Pace::Paced { by, factor } => write!(f, "{}:x{factor}", by.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_written_as_they_are_read() {
        for text in ["afap", "natural", "cpu", "timestamp", "x2", "x0.5", "cpu:x3", "timestamp:x0.25"] {
            assert_eq!(text.parse::<Pace>().unwrap().to_string(), text);
        }
        assert_eq!("natural:x2".parse(), "x2".parse::<Pace>());
        assert_eq!("x1".parse(), "natural".parse::<Pace>());
    }

    #[test]
    fn what_is_no_pace_is_refused() {
        for text in ["", "fast", "x", "x0", "x-1", "xNaN", "xinf", "x1e7", "2", "afap:x2", "cpu:2", "cpu:", ":x2"] {
            assert!(text.parse::<Pace>().is_err(), "{text}");
        }
    }
}
