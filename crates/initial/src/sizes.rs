//! How large a file was at the beginning, from what calls show of it later.

/// What is known of a file's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// At the beginning, if known.
    pub initial: Option<u64>,
    /// At least so much was there at the beginning.
    at_least: u64,
    /// How far calls have written.
    written: u64,
    /// How much calls have appended while the size was not known.
    appended: u64,
    /// Calls wrote at positions, so that the size may be theirs.
    placed: bool,
    /// Calls cut it: what comes later says nothing of the beginning.
    cut: bool,
}

impl Size {
    /// At the beginning, as well as it is known.
    pub fn best(&self) -> u64 {
        self.initial.unwrap_or(self.at_least)
    }

    /// Now, if it is that of the beginning, and known.
    pub fn unchanged(&self) -> Option<u64> {
        self.initial.filter(|_| !self.placed && !self.cut && self.appended == 0)
    }

    /// The size now is `size`. True if that shows content which no call wrote.
    pub fn is(&mut self, size: u64) -> bool {
        if self.cut || self.initial.is_some() {
            return false;
        }
        // What was appended begins behind what was there, and behind what was written until then.
        let before = size.saturating_sub(self.appended);
        let is_theirs = self.placed && before <= self.written;
        self.initial = Some(before).filter(|_| !is_theirs);
        self.initial.is_some_and(|n| n > 0)
    }

    /// A read at `offset` that asked for `asked` bytes returned `got`. True if that shows content which no call wrote.
    pub fn read(&mut self, offset: u64, asked: u64, got: u64) -> bool {
        let end = offset.saturating_add(got);
        if self.cut {
            return false;
        }
        let shown = got > 0 && end > self.written && self.appended == 0;
        if shown {
            self.at_least = self.at_least.max(end);
        }
        let untouched = !self.placed && self.appended == 0;
        if got < asked
            && untouched
            && self.initial.is_none()
            && end >= self.at_least
            && (got > 0 || offset == self.at_least)
        {
            self.initial = Some(end);
        }
        shown
    }

    /// What is known of another is known of this one.
    pub fn join(&mut self, other: &Size) {
        self.initial = self.initial.or(other.initial);
        self.at_least = self.at_least.max(other.at_least);
        self.written = self.written.max(other.written);
        self.appended = self.appended.saturating_add(other.appended);
        self.placed |= other.placed;
        self.cut |= other.cut;
    }

    /// A call wrote up to `end`.
    pub fn written(&mut self, end: u64) {
        self.placed = true;
        self.written = self.written.max(end);
    }

    /// A call appended `length` bytes.
    pub fn appended(&mut self, length: u64) {
        self.appended = self.appended.saturating_add(length);
    }

    /// A call set the size.
    pub fn cut(&mut self) {
        self.cut = true;
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn sizes_follow_from_what_is_shown() {
        let mut appended = Size::default();
        appended.appended(10);
        assert!(appended.is(110));
        assert_eq!(appended.best(), 100);

        let mut read = Size::default();
        assert!(read.read(0, 4096, 4096));
        assert!(read.read(4096, 4096, 100));
        assert_eq!(read.initial, Some(4196));

        let mut placed = Size::default();
        placed.written(50);
        assert!(!placed.is(50));
        assert!(placed.is(80));

        let mut both = Size::default();
        both.written(4);
        both.appended(8);
        assert!(!both.is(12), "all of it is theirs");
        assert_eq!(both.best(), 0);
        assert!(both.is(30));
        assert_eq!(both.best(), 22);

        let mut cut = Size::default();
        cut.cut();
        assert!(!cut.is(80));
        assert_eq!(cut.best(), 0);
    }
}
