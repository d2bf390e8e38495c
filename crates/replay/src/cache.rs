//! The page cache that a replay meets: cold, warm, bounded; and what came of it.
//!
//! Goals: what is said of the cache was measured, not merely asked for. Non-goals: caches of devices and servers, which
//! pages exactly the original had.

pub(crate) mod contents;

/// How the contents of the initial tree are to be cached when the replay starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// As building it, and whatever came after, has left it.
    #[default]
    AsItWas,
    /// Not at all; without names and attributes, too, if this user may say so.
    Cold,
    /// Not at all, but names and attributes may be: what a memory limit asks for, and `Cold` where the user is not root.
    ContentsCold,
    /// Read once from the first file to the last; as much as the memory holds.
    Warm,
}

impl Start {
    /// In a word or two.
    pub fn words(self) -> &'static str {
        match self {
            Start::AsItWas => "as it was",
            Start::Cold => "cold",
            Start::ContentsCold => "contents cold",
            Start::Warm => "warm",
        }
    }
}

/// With what cache and memory a replay ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheReport {
    /// How it started.
    pub start: Start,
    /// Bytes of contents of the initial tree that were cached at the start, where it was prepared and the kernel tells
    /// (Linux 6.5).
    pub cached_bytes: Option<u64>,
    /// Limit of the workers' memory, page cache included.
    pub limit_bytes: Option<u64>,
    /// The most memory that the workers had at once, if it was limited.
    pub peak_bytes: Option<u64>,
    /// Bytes that reading calls returned.
    pub read_bytes: u64,
    /// Bytes that the worker had read from devices; not known of one that was killed.
    pub device_bytes: Option<u64>,
}

impl CacheReport {
    /// Share of what was read that did not come from a device; `None` if nothing was read. Where more came from the device
    /// than was asked for (read ahead, metadata), it is 0.
    pub fn hit_ratio(&self) -> Option<f64> {
        let device = self.device_bytes.filter(|_| self.read_bytes > 0)?;
        Some((1.0 - device as f64 / self.read_bytes as f64).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_needs_something_read() {
        let ratio =
            |read_bytes, device_bytes| CacheReport { read_bytes, device_bytes, ..Default::default() }.hit_ratio();
        assert_eq!(ratio(100, Some(25)), Some(0.75));
        assert_eq!(ratio(100, Some(125)), Some(0.0));
        assert_eq!((ratio(0, Some(5)), ratio(100, None)), (None, None));
    }
}
