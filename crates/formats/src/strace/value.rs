//! Numbers as strace writes them: symbols, sums of flags, octal, hexadecimal, device numbers.

use memchr::memmem;
use reprise_calls::attributes::make_device;

use super::symbols::symbol;

/// A value, and whether every symbol of it was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// The number.
    pub number: u64,
    /// False if a word stood for a number that is not known here.
    pub known: bool,
}

/// The number of an expression; what cannot be read counts as zero and as unknown.
pub fn value(text: &[u8]) -> Value {
    let text = without_comment(text);
    if let Some(number) = plain(text) {
        return Value { number, known: true };
    }
    // Old versions could not tell requests of the same number apart: `A or B`.
    let text = memmem::rfind(text, b" or ").map_or(text, |at| &text[at + 4..]);
    let mut out = Value { number: 0, known: true };
    for word in text.split(|b| *b == b'|') {
        match one(without_comment(word)) {
            Some(number) => out.number |= number,
            None => out.known = false,
        }
    }
    out
}

/// The number, if it is known in full.
pub fn exact(text: &[u8]) -> Option<u64> {
    let value = value(text);
    value.known.then_some(value.number)
}

fn without_comment(text: &[u8]) -> &[u8] {
    let text = memmem::find(text, b"/*").map_or(text, |at| &text[..at]);
    text.trim_ascii()
}

fn one(word: &[u8]) -> Option<u64> {
    if let Some(number) = plain(word) {
        return Some(number);
    }
    if let Some(found) = symbol(word) {
        return Some(found);
    }
    if let Some(inside) = word.strip_prefix(b"makedev(").and_then(|w| w.strip_suffix(b")")) {
        return device(inside);
    }
    if let Some(at) = memchr::memchr(b'*', word) {
        return Some(plain(&word[..at])?.wrapping_mul(plain(&word[at + 1..])?));
    }
    if let Some(at) = memmem::find(word, b"<<") {
        let shift = one(&word[at + 2..])?;
        return plain(&word[..at])?.checked_shl(u32::try_from(shift).ok()?);
    }
    None
}

/// Decimal, octal or hexadecimal, perhaps negative; `NULL` is 0.
pub fn plain(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let number = match digits {
        [b'0', b'x' | b'X', hex @ ..] if !hex.is_empty() => radix(hex, 16)?,
        [b'0', octal @ ..] if !octal.is_empty() => radix(octal, 8)?,
        [] => return None,
        _ if digits[0].is_ascii_digit() => radix(digits, 10)?,
        b"NULL" | b"(nil)" => 0,
        _ => return None,
    };
    Some(if negative { number.wrapping_neg() } else { number })
}

fn radix(digits: &[u8], base: u64) -> Option<u64> {
    let mut number = 0u64;
    for digit in digits {
        let digit = u64::from((*digit as char).to_digit(base as u32)?);
        number = number.checked_mul(base)?.checked_add(digit)?;
    }
    Some(number)
}

/// The digits at the beginning.
pub fn leading(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    plain(text.get(..digits)?)
}

/// `1, 3` or `0x1, 0x3` as a device number.
fn device(inside: &[u8]) -> Option<u64> {
    let comma = memchr::memchr(b',', inside)?;
    let (major, minor) = (plain(inside[..comma].trim_ascii())?, plain(inside[comma + 1..].trim_ascii())?);
    Some(make_device(major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read() {
        for (text, number) in [
            ("5", 5),
            ("-1", u64::MAX),
            ("022", 0o22),
            ("0x1f", 31),
            ("NULL", 0),
            ("O_RDWR|O_CREAT|O_CLOEXEC", 0o2000102),
            ("S_IFCHR|S_ISUID|0620", 0o024620),
            ("makedev(0x1, 0x3)", 0x103),
            ("8192*1024", 8 << 20),
            ("1<<4", 16),
            ("30<<MFD_HUGE_SHIFT", 30 << 26),
            ("0x4000 /* O_??? */", 0x4000),
            ("SNDCTL_TMR_TIMEBASE or TCGETS", 0x5401),
            ("BTRFS_IOC_CLONE or FICLONE", 0x40049409),
            ("SEEK_END", 2),
        ] {
            assert_eq!(value(text.as_bytes()), Value { number, known: true }, "{text}");
        }
        assert!(!value(b"O_RDONLY|O_WHATEVER").known);
    }
}
