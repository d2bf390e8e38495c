//! Moments and spans as users write them.

use std::ops::Range;
use std::str::FromStr;

/// A span of numbers, `10..20`; either side may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span(pub Range<u64>);

/// A span of time since the trace began, in nanoseconds: `1.5s..2s`; either side may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeSpan(pub Range<u64>);

impl FromStr for Span {
    type Err = String;
    fn from_str(text: &str) -> Result<Span, String> {
        parse(text, |number| number.parse().map_err(|_| format!("'{number}' is no number"))).map(Span)
    }
}

impl FromStr for TimeSpan {
    type Err = String;
    fn from_str(text: &str) -> Result<TimeSpan, String> {
        parse(text, nanoseconds).map(TimeSpan)
    }
}

fn parse(text: &str, one: impl Fn(&str) -> Result<u64, String>) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or_else(|| format!("'{text}' is no span; write FROM..TO"))?;
    let from = if from.is_empty() { 0 } else { one(from)? };
    let to = if to.is_empty() { u64::MAX } else { one(to)? };
    if from < to { Ok(from..to) } else { Err(format!("'{text}' is empty: its begin is not before its end")) }
}

/// A time with its unit, in nanoseconds: `1.5s`, `200ms`, `10us`, `7ns`.
pub fn nanoseconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no time; write for example 1.5s, 200ms, 10us or 7ns");
    let at = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').ok_or_else(wrong)?;
    let unit = match &text[at..] {
        "s" => 1e9,
        "ms" => 1e6,
        "us" | "µs" => 1e3,
        "ns" => 1.0,
        "min" => 60e9,
        _ => return Err(wrong()),
    };
    let value: f64 = text[..at].trim().parse().map_err(|_| wrong())?;
    if value.is_finite() && value >= 0.0 { Ok((value * unit).round() as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(nanoseconds("1.5s"), Ok(1_500_000_000));
        assert_eq!(nanoseconds("20ms"), Ok(20_000_000));
        assert_eq!(nanoseconds("3us"), Ok(3_000));
        assert_eq!(nanoseconds("7ns"), Ok(7));
        for wrong in ["", "5", "s", "-1s", "1h", "infs"] {
            assert!(nanoseconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_may_be_open() {
        assert_eq!("..20".parse(), Ok(Span(0..20)));
        assert_eq!("1s..".parse(), Ok(TimeSpan(1_000_000_000..u64::MAX)));
        assert!("7..7".parse::<Span>().is_err());
        assert!("7".parse::<Span>().is_err());
    }
}
