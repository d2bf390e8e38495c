//! Numbers with units.

/// Bytes in binary units, three digits: `4.00 KiB`, `512 B`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64;
    let mut unit = "B";
    for next in UNITS {
        // 1023.5 would be shown with four digits.
        if value < 999.5 && unit != "B" {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{} {unit}", three_digits(value))
}

/// Nanoseconds in the unit that fits, three digits: `1.23 ms`.
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_500 => format!("{} µs", three_digits(ns as f64 / 1e3)),
        999_500..999_500_000 => format!("{} ms", three_digits(ns as f64 / 1e6)),
        999_500_000..60_000_000_000 => format!("{} s", three_digits(ns as f64 / 1e9)),
        _ => {
            let seconds = ns / 1_000_000_000;
            match seconds / 3600 {
                0 => format!("{} min {:02} s", seconds / 60, seconds % 60),
                hours => format!("{hours} h {:02} min", seconds / 60 % 60),
            }
        }
    }
}

fn three_digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// A number in groups of three digits: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A probability: one that rounds to nothing is not nothing.
pub(crate) fn probability(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// So many of what a noun names: `1 action`, `1,234 actions`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {}", count(n), plural(n, noun))
}

/// The form of a noun after a number: `process` or `processes`.
pub fn plural(n: u64, noun: &str) -> String {
    let end = match (n, noun.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{noun}{end}")
}

/// Nanoseconds since the epoch as a date and time of day in UTC: `2026-11-20 17:50:52 UTC`.
pub fn date(epoch_ns: u64) -> String {
    let seconds = epoch_ns / 1_000_000_000;
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    // The calendar repeats every 400 years, counted here from 1 March 2000 back to 1 March 1600.
    days += 135_080;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = 1_600 + era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        for (n, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (4096, "4.00 KiB"),
            (1_048_575, "1.00 MiB"),
            (150 << 20, "150 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn durations_have_fitting_units() {
        for (ns, text) in [
            (999, "999 ns"),
            (1_500, "1.50 µs"),
            (999_499, "999 µs"),
            (999_600, "1.00 ms"),
            (12_345_678, "12.3 ms"),
            (59_999_000_000, "60.0 s"),
            (61_000_000_000, "1 min 01 s"),
            (7_260_000_000_000, "2 h 01 min"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn dates_agree_with_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_795_197_115, "2026-11-20 17:51:55 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(date(seconds * 1_000_000_000), text);
        }
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!([count(1), count(1234), count(1_234_567)], ["1", "1,234", "1,234,567"]);
    }
}
