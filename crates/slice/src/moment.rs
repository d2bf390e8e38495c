//! Moments of a trace, and what lies between two of them.
//!
//! A moment cuts the order of effects: before it stands every action up to the first that had not completed then.

use std::fmt;
use std::str::FromStr;

use reprise_trace::{Action, TraceReader};

use crate::SliceError;

/// A moment of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Moment {
    /// Before the first action.
    #[default]
    Begin,
    /// After the last.
    End,
    /// So many nanoseconds after the trace began.
    After(u64),
    /// Before the action with this number.
    Action(u64),
    /// So many hundredths of a percent of the trace's time.
    Part(u32),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        let wrong = || {
            format!(
                "'{text}' is no moment; give a time since the trace began (1.5s, 200ms, 12345ns), action:N, N%, begin or end"
            )
        };
        match text {
            "begin" => return Ok(Moment::Begin),
            "end" => return Ok(Moment::End),
            _ => {}
        }
        if let Some(number) = text.strip_prefix("action:") {
            return number.parse().map(Moment::Action).map_err(|_| wrong());
        }
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        if unit == "%" {
            let part = decimal(number, 100).filter(|part| *part <= 10_000).ok_or_else(wrong)?;
            return Ok(Moment::Part(part as u32));
        }
        let scale = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(wrong()),
        };
        decimal(number, scale).map(Moment::After).ok_or_else(wrong)
    }
}

/// A decimal number times a scale, cut to a whole.
fn decimal(text: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut out = whole.checked_mul(scale)?;
    let mut unit = scale;
    for digit in fraction.bytes() {
        unit /= 10;
        out = out.checked_add(u64::from(digit.checked_sub(b'0')?) * unit)?;
    }
    Some(out)
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::Begin => f.write_str("begin"),
            Moment::End => f.write_str("end"),
            Moment::After(ns) => write!(f, "{}.{:09}s", ns / 1_000_000_000, ns % 1_000_000_000),
            Moment::Action(seq) => write!(f, "action:{seq}"),
            Moment::Part(part) => write!(f, "{}.{:02}%", part / 100, part % 100),
        }
    }
}

/// What lies between two moments: actions `from..to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first action.
    pub from: u64,
    /// The first action that is no longer in it.
    pub to: u64,
    /// The instant of the beginning, nanoseconds since the trace began.
    pub from_ns: u64,
}

/// When each action had completed, in order of effect.
struct Ends(Vec<u64>);

impl Ends {
    fn read(trace: &TraceReader) -> Result<Ends, SliceError> {
        let mut out = Vec::with_capacity(usize::try_from(trace.count::<Action>()).unwrap_or(0).min(1 << 24));
        for action in trace.actions() {
            let action = action?;
            out.push(action.end_ns());
        }
        Ok(Ends(out))
    }

    fn last_ns(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    /// The number of actions before a moment, and the instant.
    fn cut(&self, moment: Moment) -> Result<(u64, u64), SliceError> {
        let count = self.0.len() as u64;
        let beyond = || SliceError::Beyond {
            asked: moment.to_string(),
            end: Moment::After(self.last_ns()).to_string(),
            actions: count,
        };
        let at = |ns: u64| (self.0.iter().position(|end| *end > ns).unwrap_or(self.0.len()) as u64, ns);
        Ok(match moment {
            Moment::Begin => (0, 0),
            Moment::End => (count, self.last_ns()),
            Moment::After(ns) if ns > self.last_ns() => return Err(beyond()),
            Moment::After(ns) => at(ns),
            Moment::Action(seq) if seq > count => return Err(beyond()),
            Moment::Action(seq) => {
                let before = usize::try_from(seq).unwrap_or(usize::MAX).min(self.0.len());
                (seq, self.0[..before].iter().copied().max().unwrap_or(0))
            }
            Moment::Part(part) => at((u128::from(self.last_ns()) * u128::from(part) / 10_000) as u64),
        })
    }
}

impl Moment {
    /// The number of actions before it.
    ///
    /// # Errors
    /// When the trace cannot be read, or ends before.
    pub fn cut(self, trace: &TraceReader) -> Result<u64, SliceError> {
        match self {
            Moment::Begin => Ok(0),
            Moment::End => Ok(trace.count::<Action>()),
            Moment::After(_) | Moment::Action(_) | Moment::Part(_) => Ok(Ends::read(trace)?.cut(self)?.0),
        }
    }
}

impl Span {
    /// Between two moments; an end beyond the trace is the trace's end.
    ///
    /// # Errors
    /// When nothing lies between them, or the trace cannot be read.
    pub fn between(trace: &TraceReader, from: Moment, to: Moment) -> Result<Span, SliceError> {
        let ends = Ends::read(trace)?;
        let (first, from_ns) = ends.cut(from)?;
        let last = match ends.cut(to) {
            Ok((last, _)) => last,
            Err(SliceError::Beyond { .. }) => ends.0.len() as u64,
            Err(other) => return Err(other),
        };
        if last <= first {
            return Err(SliceError::Empty { from: from.to_string(), to: to.to_string() });
        }
        Ok(Span { from: first, to: last, from_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_said() {
        for (text, wanted) in [
            ("begin", Moment::Begin),
            ("end", Moment::End),
            ("1.5s", Moment::After(1_500_000_000)),
            ("200ms", Moment::After(200_000_000)),
            ("12345ns", Moment::After(12345)),
            (".5us", Moment::After(500)),
            ("2min", Moment::After(120_000_000_000)),
            ("action:7", Moment::Action(7)),
            ("50%", Moment::Part(5000)),
            ("12.5%", Moment::Part(1250)),
        ] {
            assert_eq!(text.parse(), Ok(wanted), "{text}");
            assert_eq!(wanted.to_string().parse(), Ok(wanted), "{wanted}");
        }
        for text in ["", "1", "s", "1.2.3s", "-1s", "action:", "action:x", "101%", "1 s", "99999999999999999999h"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_cut_stands_before_the_first_action_that_had_not_completed() {
        let ends = Ends(vec![10, 30, 20, 40]);
        assert_eq!(ends.cut(Moment::After(10)).unwrap(), (1, 10));
        assert_eq!(ends.cut(Moment::After(25)).unwrap(), (1, 25));
        assert_eq!(ends.cut(Moment::After(30)).unwrap(), (3, 30));
        assert_eq!(ends.cut(Moment::Part(10_000)).unwrap(), (4, 40));
        assert_eq!(ends.cut(Moment::Action(3)).unwrap(), (3, 30));
        assert!(matches!(ends.cut(Moment::After(41)), Err(SliceError::Beyond { .. })));
        assert!(matches!(ends.cut(Moment::Action(5)), Err(SliceError::Beyond { .. })));
    }
}
