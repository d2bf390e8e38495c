//! Colour, or none.

/// Whether text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// Plain text.
    #[default]
    Plain,
    /// With ANSI escapes.
    Colour,
}

impl Style {
    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    /// A heading.
    pub fn heading(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// All is well.
    pub fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Something is wrong.
    pub fn bad(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    /// Worth knowing.
    pub fn notable(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// Of less weight.
    pub fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }
}
