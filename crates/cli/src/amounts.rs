//! Sizes, intervals and lengths of time, as they are given on the command line.

use std::str::FromStr;
use std::time::Duration;

/// A size in bytes: `4096`, `512K`, `20M`, `1.5G`, `2T`; `KiB`, `MiB` … mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        const LEAST: u64 = 1 << 20;
        match bytes(text)? {
            n if n < LEAST => Err(format!("'{text}' is too little for a trace; give at least 1M")),
            n => Ok(Size(n)),
        }
    }
}

/// A number of bytes, written as a [`Size`] is; any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        bytes(text).map(Bytes)
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size; write bytes, or a number with K, M, G or T: 512M, 1.5G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let bytes = number * (1u64 << shift) as f64;
    if bytes.is_finite() && bytes >= 0.0 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// Memory of a replay: a size, or `recorded` for what the program had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Recorded,
    Bytes(u64),
}

impl Memory {
    /// Less is not enough for the engine.
    pub const LEAST_BYTES: u64 = 4 << 20;
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Memory, String> {
        if text == "recorded" {
            return Ok(Memory::Recorded);
        }
        match bytes(text).map_err(|wrong| format!("{wrong}; or recorded"))? {
            n if n < Memory::LEAST_BYTES => Err(format!("'{text}' is too little for a replay; give at least 4M")),
            n => Ok(Memory::Bytes(n)),
        }
    }
}

/// An interval in milliseconds; `off` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval(pub Option<Duration>);

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Interval, String> {
        if text == "off" {
            return Ok(Interval(None));
        }
        let wrong = || format!("'{text}' is no interval; write milliseconds from 1 on, or off");
        let milliseconds = text.trim_end_matches("ms").parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
        Ok(Interval(Some(Duration::from_millis(milliseconds))))
    }
}

/// A length of time: `10s`, `1.5m`, `2h`, `500ms`; bare numbers are seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Period(pub Duration);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Period, String> {
        let wrong = || format!("'{text}' is no length of time; write a number with ms, s, m or h: 10s, 1.5m, 2h");
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let seconds = match &text[digits.len()..] {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        let number: f64 = digits.parse().map_err(|_| wrong())?;
        // A year is for ever.
        const MOST: f64 = 366.0 * 24.0 * 3600.0;
        match number * seconds {
            length if length > 0.0 && length <= MOST => Ok(Period(Duration::from_secs_f64(length))),
            _ => Err(wrong()),
        }
    }
}

/// A short time, or none: `0`, `10us`, `50us`, `1ms`, `2s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause(pub Duration);

impl FromStr for Pause {
    type Err = String;

    fn from_str(text: &str) -> Result<Pause, String> {
        let wrong = || format!("'{text}' is no pause; write a number with us, ms or s: 10us, 1ms");
        let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
        let ns = match &text[digits.len()..] {
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "" if digits == "0" => 1.0,
            _ => return Err(wrong()),
        };
        let number: f64 = digits.parse().map_err(|_| wrong())?;
        // A minute is for ever between two calls.
        const MOST_NS: f64 = 60e9;
        match number * ns {
            length if (0.0..=MOST_NS).contains(&length) => Ok(Pause(Duration::from_nanos(length as u64))),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let cases = [("1048576", 1 << 20), ("1M", 1 << 20), ("1.5g", 3 << 29), ("2TiB", 2 << 40), ("1024KB", 1 << 20)];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "M", "1X", "-1M", "nan", "infG", "1e400", "4096", "1M2"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn memory() {
        assert_eq!("recorded".parse(), Ok(Memory::Recorded));
        assert_eq!("64M".parse(), Ok(Memory::Bytes(64 << 20)));
        for text in ["", "0", "1M", "4095K", "-64M", "nan", "Recorded", "1e400"] {
            assert!(text.parse::<Memory>().is_err(), "{text}");
        }
    }

    #[test]
    fn periods() {
        for (text, ms) in [("10s", 10_000), ("2", 2_000), ("1.5m", 90_000), ("1h", 3_600_000), ("250ms", 250)] {
            assert_eq!(text.parse(), Ok(Period(Duration::from_millis(ms))), "{text}");
        }
        for text in ["", "s", "0", "-1s", "10d", "nan", "infs", "1e9h", "5 s"] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }

    #[test]
    fn pauses() {
        for (text, ns) in [("0", 0), ("0us", 0), ("10us", 10_000), ("50µs", 50_000), ("1.5ms", 1_500_000)] {
            assert_eq!(text.parse(), Ok(Pause(Duration::from_nanos(ns))), "{text}");
        }
        for text in ["", "10", "us", "-1us", "nanus", "1e9s", "1h"] {
            assert!(text.parse::<Pause>().is_err(), "{text}");
        }
    }

    #[test]
    fn intervals() {
        assert_eq!("off".parse(), Ok(Interval(None)));
        assert_eq!("20ms".parse(), Ok(Interval(Some(Duration::from_millis(20)))));
        for text in ["", "0", "-1", "x", "1s"] {
            assert!(text.parse::<Interval>().is_err(), "{text}");
        }
    }
}
