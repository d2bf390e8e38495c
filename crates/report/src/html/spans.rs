//! Spans of the thread timelines, as typed arrays in base64. When there are too many, all that are long stay, and of the
//! shorter ones one in several: the rest is counted.

use serde::Serialize;

/// Most spans of one trace.
const MOST: usize = 300_000;

#[derive(Debug, Clone, Copy)]
struct Span {
    thread: u32,
    call: u16,
    begin_ns: u64,
    duration_ns: u64,
    /// Its place among all.
    number: u64,
}

/// Gathers spans.
#[derive(Debug)]
pub struct Spans {
    spans: Vec<Span>,
    all: u64,
    /// Of those that are shorter one in so many stays.
    long_ns: u64,
    one_in: u64,
}

/// The spans, by thread and begin: little-endian arrays in base64.
#[derive(Debug, Serialize)]
pub struct Encoded {
    count: usize,
    left_out: u64,
    /// Only shorter ones are left out.
    long_ns: u64,
    /// Numbers of threads, in the order of rows.
    threads: Vec<u32>,
    /// Where each thread's spans begin, and where the last one's end.
    starts: Vec<usize>,
    /// Float64: begins, in nanoseconds.
    begins: String,
    /// Float32: lengths, in nanoseconds.
    lengths: String,
    /// Uint16: calls, by their place in the report's list.
    calls: String,
}

impl Default for Spans {
    fn default() -> Self {
        Spans { spans: Vec::new(), all: 0, long_ns: 256, one_in: 1 }
    }
}

impl Spans {
    /// Takes a span in.
    pub fn add(&mut self, thread: u32, call: u16, begin_ns: u64, duration_ns: u64) {
        let span = Span { thread, call, begin_ns, duration_ns, number: self.all };
        self.all += 1;
        if self.stays(&span) {
            self.spans.push(span);
        }
        while self.spans.len() > MOST {
            let long = self.spans.iter().filter(|span| self.is_long(span)).count();
            if long > MOST / 2 {
                self.long_ns = self.long_ns.saturating_mul(2);
            } else {
                self.one_in *= 2;
            }
            let mut spans = std::mem::take(&mut self.spans);
            spans.retain(|span| self.stays(span));
            self.spans = spans;
        }
    }

    fn stays(&self, span: &Span) -> bool {
        span.number.is_multiple_of(self.one_in) || self.is_long(span)
    }

    fn is_long(&self, span: &Span) -> bool {
        span.duration_ns >= self.long_ns && self.long_ns < u64::MAX
    }

    /// The arrays; times count from `from_ns`.
    pub fn encoded(mut self, from_ns: u64) -> Encoded {
        self.spans.sort_by_key(|s| (s.thread, s.begin_ns));
        let (mut threads, mut starts) = (Vec::new(), Vec::new());
        for (i, span) in self.spans.iter().enumerate() {
            if threads.last() != Some(&span.thread) {
                threads.push(span.thread);
                starts.push(i);
            }
        }
        starts.push(self.spans.len());
        let bytes = |of: &dyn Fn(&Span) -> Vec<u8>| base64(&self.spans.iter().flat_map(of).collect::<Vec<u8>>());
        Encoded {
            count: self.spans.len(),
            left_out: self.all - self.spans.len() as u64,
            long_ns: self.long_ns,
            begins: bytes(&|s| (s.begin_ns.saturating_sub(from_ns) as f64).to_le_bytes().to_vec()),
            lengths: bytes(&|s| (s.duration_ns as f32).to_le_bytes().to_vec()),
            calls: bytes(&|s| s.call.to_le_bytes().to_vec()),
            threads,
            starts,
        }
    }
}

/// Base64 (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (text, shown) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(text.as_bytes()), shown);
        }
    }

    #[test]
    fn of_too_many_the_longest_stay() {
        let all = MOST as u64 + 10_000;
        let mut spans = Spans::default();
        (0..all).for_each(|i| spans.add((i % 3) as u32, 0, i * 1_000, i % 1_000 + 1));
        assert_eq!(spans.spans.iter().filter(|s| s.duration_ns >= spans.long_ns).count() as u64, {
            let long_ns = spans.long_ns;
            (0..all).filter(|i| i % 1_000 + 1 >= long_ns).count() as u64
        });
        let encoded = spans.encoded(0);
        assert_eq!(encoded.count as u64 + encoded.left_out, all);
        assert!(encoded.count <= MOST && encoded.left_out > 0);
        assert_eq!((encoded.threads.as_slice(), encoded.starts.len()), ([0, 1, 2].as_slice(), 4));
    }

    #[test]
    fn of_equal_ones_some_stay() {
        for duration_ns in [0, 1_500, u64::MAX] {
            let mut spans = Spans::default();
            (0..4 * MOST as u64).for_each(|i| spans.add(0, 0, i, duration_ns));
            let count = spans.encoded(0).count;
            assert!(count > MOST / 4 && count <= MOST, "{duration_ns}: {count}");
        }
    }
}
