//! A time in microseconds, to the nanosecond: half a microsecond is not none.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time that is told in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Micros {
    ns: u64,
}

impl From<Duration> for Micros {
    fn from(time: Duration) -> Micros {
        Micros { ns: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) }
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ns as f64 / 1e3)
    }
}

/// A whole number stays one.
impl Serialize for Micros {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.ns % 1000 {
            0 => to.serialize_u64(self.ns / 1000),
            _ => to.serialize_f64(self.ns as f64 / 1e3),
        }
    }
}

impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Micros, D::Error> {
        let us = f64::deserialize(from)?;
        Ok(Micros { ns: (us * 1e3).round() as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_microsecond_are_told_and_read_again() {
        for (ns, text) in [(0, "0"), (500, "0.5"), (10_000, "10"), (10_500, "10.5"), (50_001, "50.001")] {
            let time = Micros::from(Duration::from_nanos(ns));
            assert_eq!((time.to_string(), serde_json::to_string(&time).unwrap()), (text.to_owned(), text.to_owned()));
            assert_eq!(serde_json::from_str::<Micros>(text).unwrap(), time);
        }
    }
}
